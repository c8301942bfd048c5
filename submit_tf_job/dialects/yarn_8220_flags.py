"""Translate a command line of YARN-8220's script: `submit_tf_job.py --input_spec F …`.

Source: YARN-8220's branch, src/main/tensorflow/scripts/submit_tf_job.py, in three generations.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from submit_tf_job.dialects import yarnfile
from submit_tf_job.dialects.command_line import (
    PREFIX,
    Syntax,
    after_program,
    open_file,
)
from submit_tf_job.dialects.translation import At, ForeignKeys, Translation, keys
from submit_tf_job.host.located.nodes import Items, Node, Scalar, Table, clip

__all__ = ["KEYS", "LABEL", "PREFIX", "SYNTAX", "begin", "read"]

LABEL = "YARN-8220's submit_tf_job.py"
_FLAGS = """
= --input_spec | the file, a Yarnfile
= --job_name | `name`
= --docker_image | `image`
= --image_name | as --docker_image (first generation)
= --env | `env`: a=b,c=d; in the first generation a=b:c=d
= --remote_conf_path | `hadoop.conf`: an archive on HDFS itself, else this host's configuration
= --distributed | TF_CONFIG, for master, worker and ps; without, `tf_config: none`
= --kerberos | `kerberos.krb5_conf: inline`, where the file has kerberos_principal
= --gpu | `gpus` of all roles; --num-gpus=N is put behind each command, as there
~ --user | say `submit --user`
~ --domain | say dns.domain in the settings
= --tf_config_params | `name`, the third part; the others are facts of the cluster (first
    generation)
. --submit | `submit_tf_job submit` submits
. --dry_run | `submit_tf_job render` prints
. --verbose | say `-v`
. --h | prints the script's help
. --help | prints the script's help
"""
KEYS = (ForeignKeys(("",), keys(_FLAGS)),)
_SWITCHES = frozenset(["distributed", "kerberos", "submit", "dry_run", "verbose", "h", "help"])
SYNTAX = Syntax(
    values=frozenset(row.path.removeprefix(PREFIX) for row in KEYS[0].rows) - _SWITCHES,
    switches=_SWITCHES,
)


def begin(words: Sequence[str]) -> int | None:
    """Return the index of the first flag: behind `submit_tf_job.py`."""
    return after_program(words, "submit_tf_job.py")


def read(root: At, reading: Translation) -> None:
    """Translate the flags, and the file that they name."""
    stated = root.get("--input_spec")
    if stated is None:
        root.fail("there is no --input_spec, which names the job's file")
        return
    file = open_file(stated)
    if file is None or not isinstance(file.node, Table):
        return
    gpu = root.get("--gpu")
    number = gpu.whole() if gpu else None
    if number is not None:
        node = _with_flag(file.node, f" --num-gpus={number}")
        file = At(node, file.path, file.place, reading)
    reading.version = "YARN-8220"
    yarnfile.read(file, reading)
    reading.check(file, yarnfile.KEYS)
    _read_flags(root, file, reading)
    if gpu is not None and number is not None:
        for role in _roles(file):
            reading.put(f"roles.{role}.gpus", number, gpu)


def _with_flag(root: Table, flag: str) -> Table:
    """Append a flag to the command of each component, as the second generation does."""
    found = root.find("components")
    if found is None or not isinstance(found.value, Items):
        return root
    items: list[Node] = []
    for item in found.value.items:
        command = item.find("launch_command") if isinstance(item, Table) else None
        if isinstance(item, Table) and command and isinstance(command.value, Scalar):
            value = replace(command.value, text=command.value.text + flag)
            item = item.with_entry(replace(command, value=value))
        items.append(item)
    return root.with_entry(replace(found, value=replace(found.value, items=tuple(items))))


def _roles(file: At) -> list[str]:
    found = file.get("components")
    names = [item.get("name") for item in found.items()] if found else []
    return [{"master": "chief"}.get(name.text(), name.text()) for name in names if name]


def _read_flags(root: At, file: At, reading: Translation) -> None:
    name, old = root.get("--job_name"), root.get("--tf_config_params")
    if name is not None:
        reading.put("name", name.text(), name)
    if old is not None:
        parts = old.text().split(":")
        if len(parts) != 5:
            old.fail(f"expected USER:DOMAIN:SERVICE:WORKERS:PS, found {clip(old.text())}")
        elif name is None:
            reading.put("name", parts[2], old)
            old.note("the counts of the file count", "name")
    reading.copy("image", root.get("--docker_image") or root.get("--image_name"))
    _read_env(root, reading)
    _read_distributed(root, file, reading)
    kerberos, conf = root.get("--kerberos"), root.get("--remote_conf_path")
    if kerberos is not None and file.get("kerberos_principal") is not None:
        reading.put("kerberos.krb5_conf", "inline", kerberos)
    elif kerberos is not None:
        kerberos.drop("the file has no kerberos_principal")
    if conf is not None:
        archive = re.fullmatch(r"hdfs://\S+\.(zip|tar\.gz|tgz)", conf.text())
        reading.put("hadoop.conf", conf.text() if archive else "inline", conf)
        if not archive:
            conf.drop(
                "this host's Hadoop configuration travels instead of the files there, and "
                "presetup-tf.sh does not run: the bootstrap sets CLASSPATH and LD_LIBRARY_PATH"
            )


def _read_distributed(root: At, file: At, reading: Translation) -> None:
    asked, roles = root.get("--distributed"), set(_roles(file))
    old = root.get("--tf_config_params")
    if asked is not None and asked.text() != "false":
        if roles != {"chief", "worker", "ps"}:
            asked.fail("there must be master, worker and ps; take the flag out")
    elif old is None and len(roles) > 1:
        reading.put("tf_config", "none", root)
        root.note("there is no --distributed, and the script sets TF_CONFIG by it", "tf_config")


def _read_env(root: At, reading: Translation) -> None:
    found = root.get("--env")
    if found is None:
        return
    # a part begins with NAME=; what else stands behind a comma belongs to the value before
    parts = re.split(r"[,:](?=[A-Za-z_][A-Za-z0-9_]*=)", found.text())
    for part in parts:
        name, equals, value = part.partition("=")
        if not equals:
            found.fail(f"expected NAME=VALUE, found {clip(part)}")
        elif name.startswith(yarnfile.RUNTIME):
            found.fail(f"say {name} in the file's configuration.env")
        else:
            reading.put("env", value, found, name)
