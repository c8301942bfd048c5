"""Translate a command line of Apache Submarine: `… job run --name N …`, of its YARN services and of
its TonY runtime.

Sources: apache/submarine 0.2 to 0.4 (RunJobCli, CliConstants); Hadoop 3.2's hadoop-yarn-submarine.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from submit_tf_job.dialects import submarine
from submit_tf_job.dialects.command_line import PREFIX, Syntax, open_file
from submit_tf_job.dialects.translation import At, ForeignKeys, Translation, keys
from submit_tf_job.host.located.nodes import Table

__all__ = ["KEYS", "LABEL", "PREFIX", "SYNTAX", "begin", "read"]

LABEL = "Submarine's job run"
_MXNET = "a scheduler is MXNet's; only TensorFlow is read"
_FLAGS = f"""
= --name | `name`, in small letters and with hyphens
= --f | the YAML file; a value in both is refused
= --framework | tensorflow; others are refused
= --docker_image | `image`
= --worker_docker_image | `roles.*.image`
= --ps_docker_image | `roles.ps.image`
= --tensorboard_docker_image | `roles.tensorboard.image`
= --num_workers | `roles.*.instances`; the first worker becomes the chief, whose end is the job's
    end, but in the TonY runtime (--insecure, --conf tony.…). 0: TensorBoard alone
= --num_ps | `roles.ps.instances`
= --worker_resources | `memory`, `cpus` and `gpus`, as in memory=4G,vcores=2,gpu=1
= --ps_resources | as --worker_resources
= --worker_launch_cmd | `roles.*.command`
= --ps_launch_cmd | `roles.ps.command`
= --input_path | %input_path% in commands; with a file system also `inputs.input_path`
= --checkpoint_path | %checkpoint_path% in commands, and what TensorBoard shows
= --saved_model_path | %saved_model_path% in commands
= --env | `env`; YARN_CONTAINER_RUNTIME_* as in a Yarnfile; DOCKER_JAVA_HOME → JAVA_HOME
= --tensorboard | the sidecar tensorboard, which shows checkpoint_path
= --tensorboard_resources | `roles.tensorboard`: memory=4G,vcores=1 without
= --quicklink | `ports` of the role, the label in small letters
= --localization | `files`; of a file system `inputs`, linked under its name before the command
= --queue | `queue`
= --keytab | `kerberos.keytab`
= --principal | `kerberos.principal`
= --distribute_keytab | the keytab is a file of this host; without, of every node
= --insecure | chooses Submarine's TonY runtime: workers stay workers, `variables: tony`
. --verbose | say `-v`
. --wait_job_finish | `submit` waits; `--detach` does not
. --h | prints Submarine's help
. --help | prints Submarine's help
= --conf tony.containers.resources | `files`, but for jars of Submarine and TonY; `#archive`
    unpacks; of a file system `inputs`, linked under its name
= --conf tony.application.framework | as --framework
. --conf tony.application.** | says how TonY runs
~ --conf tony.** | TonY's property; say --set with a key of the job spec, such as roles.chief.memory
~ --conf ** | a setting of Submarine itself
x --num_schedulers | {_MXNET}
x --scheduler_resources | {_MXNET}
x --scheduler_docker_image | {_MXNET}
x --scheduler_launch_cmd | {_MXNET}
"""
KEYS = (ForeignKeys(("",), keys(_FLAGS)),)
_NO_VALUE = frozenset(
    ["tensorboard", "insecure", "verbose", "wait_job_finish", "distribute_keytab", "h", "help"]
)
_REPEATED = frozenset(["env", "quicklink", "localization"])
SYNTAX = Syntax(
    values=frozenset(
        row.path.removeprefix(PREFIX)
        for row in KEYS[0].rows
        if " " not in row.path and row.path.removeprefix(PREFIX) not in _NO_VALUE | _REPEATED
    ),
    switches=_NO_VALUE,
    repeated=_REPEATED,
    properties=frozenset({"conf"}),
)


def begin(words: Sequence[str]) -> int | None:
    """Return the index of the first flag: behind `job run`."""
    for index in range(len(words) - 1):
        if (words[index], words[index + 1]) == ("job", "run"):
            return index + 2
    return None


def read(root: At, reading: Translation) -> None:
    """Translate the flags, and the file that `-f` names."""
    stated = root.get("--f")
    file = open_file(stated) if stated else None
    if stated is not None and file is None:
        return
    names = [entry.key for entry in root.node.entries] if isinstance(root.node, Table) else []
    tony = bool(root.get("--insecure")) or any(re.match(r"--conf tony\.", n) for n in names)
    submarine.read_job(submarine.Stated(root, file, tony), reading)
    if file is not None:
        reading.check(file, submarine.KEYS)
