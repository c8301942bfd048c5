"""In-graph replication, as in TensorFlow 1: one program makes the graph of all tasks, and ps and workers only serve it.

Started by specs/in-graph.yaml. Learns y = 3x + 1: the weights are on the ps, each worker computes the gradient of its own batch.
"""

import json
import os

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_eager_execution()


def main():
    config = json.loads(os.environ["TF_CONFIG"])
    cluster, task = tf.train.ClusterSpec(config["cluster"]), config["task"]
    server = tf.distribute.Server(cluster, job_name=task["type"], task_index=task["index"])
    if task["type"] != "chief":
        server.join()  # ended with the job
    with tf1.device("/job:ps/task:0"):
        weight = tf1.get_variable("weight", initializer=0.0)
        bias = tf1.get_variable("bias", initializer=0.0)
    inputs, losses = [], []
    for index in range(len(config["cluster"]["worker"])):
        with tf1.device(f"/job:worker/task:{index}"):
            x = tf1.placeholder(tf.float32, [None])
            inputs.append(x)
            losses.append(tf.reduce_mean((weight * x + bias - (3 * x + 1)) ** 2))
    loss = tf.add_n(losses) / len(losses)
    step = tf1.train.GradientDescentOptimizer(0.3).minimize(loss, colocate_gradients_with_ops=True)
    draw = np.random.default_rng(0)
    with tf1.Session(server.target) as session:
        session.run(tf1.global_variables_initializer())
        for number in range(1, 201):
            feed = {x: draw.uniform(-1, 1, 64).astype("float32") for x in inputs}
            _, seen = session.run([step, loss], feed)
            if number % 50 == 0:
                print(f"epoch {number}/200 - loss: {seen:.6f}", flush=True)
        print("weight and bias:", session.run([weight, bias]))


if __name__ == "__main__":
    main()
