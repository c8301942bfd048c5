"""A job spec with every key."""

from __future__ import annotations

FULL = """\
name: mnist
description: Nightly training
image: registry.example.com/ml/tf:2.15
command: python train.py --epochs 3
strategy: parameter-server
queue: root.ml
roles:
  chief: {cpus: 2, memory: 4Gi}
  worker:
    instances: 4
    cpus: 4
    memory: 16Gi
    gpus: 1
    image: registry.example.com/ml/tf-gpu:2.15
    env: {TF_CPP_MIN_LOG_LEVEL: "0", XLA: "on"}
    mounts: ["/scratch:/data:rw"]
    placement:
      spread: node
      together: rack
      node_label: gpu
      node_attributes: {model: [a100, h100], os: rhel8}
    restart: {policy: on-failure, max: 5}
    tolerate: 1
  ps: {instances: 2, memory: 8192Mi, command: [python, ps.py, "--port", "0"]}
  evaluator: {memory: 1Ti, restart: on-failure}
  tensorboard: {command: tensorboard --logdir /logs, memory: 1Gi, ports: {http: 6006, grpc: 6007}}
env: {TF_CPP_MIN_LOG_LEVEL: "1", EMPTY: ""}
mounts: ["/data:/data", "/models:/models/:rw"]
network: overlay_1
hadoop: {conf: /etc/hadoop/conf}
kerberos: {principal: svc/_HOST@EXAMPLE.COM, keytab: "hdfs:///user/svc/svc.keytab"}
lifetime: 1d12h
start_timeout: 1h30m
finish_timeout: 90s
grace: 2m
tf_config: literal
python: /opt/conda/bin/python
deciding_role: chief
docker_client_config: hdfs:///user/me/config.json
"""
