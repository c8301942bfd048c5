"""The one file that travels with every task: the task description, the bootstrap's code and the job's files.

It is plain text (a TEMPLATE file of YARN), the same for all tasks of a role. The task description in it is readable JSON; code and files
are base64, because the AM stores a copy for each component and Hadoop 3.1 and 3.2 corrupt a service of more than 64 KiB (seen), and
because base64 holds none of the patterns that the AM would replace.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib import resources
from types import MappingProxyType

from submit_tf_job import contract
from submit_tf_job.job import HadoopConf, Job, Role, ShippedFile
from submit_tf_job.plan import data, identity, packing
from submit_tf_job.plan.site import Site
from submit_tf_job.tfconfig import CLUSTER_ROLES

__all__ = ["bootstrap_file", "code", "content_id", "files_tar", "needs", "pack", "task_description"]

NOTHING_STAGED: Mapping[str, packing.Shipment] = MappingProxyType({})
_HEADER = '''\
# The bootstrap of submit_tf_job, for every task of one role. TASK says what the job is; CODE holds submit_tf_job's own modules
# contract.py, tfconfig.py and bootstrap/, FILES a tar of the role's files or nothing; both are compressed by zlib.
import base64, json, os, sys, zlib
TASK = r"""
'''
_FOOTER = """
def _start():
    root = os.path.abspath(".tfjob-bootstrap")
    for name, source in json.loads(zlib.decompress(base64.b64decode(CODE)).decode("ascii")).items():
        path = os.path.join(root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as out:
            out.write(source)
    sys.path.insert(0, root)
    from submit_tf_job.bootstrap.main import main
    return main(json.loads(TASK), zlib.decompress(base64.b64decode(FILES)) if FILES.strip() else None)


if __name__ == "__main__":
    sys.exit(_start())
"""


def bootstrap_file(
    job: Job, site: Site, submission: str, files: bytes | None, staged: Mapping[str, packing.Shipment] = NOTHING_STAGED
) -> str:
    """Write `bootstrap.py` for a job.

    Args:
        job: The job.
        site: The cluster.
        submission: The submission's id.
        files: The tar of the role's files, where it travels inside; None where there are none, or they are staged.
        staged: How each role's files travel, where they are staged.
    """
    return pack(task_description(job, site, submission, staged), files)


def pack(task: Mapping[str, object], files: bytes | None) -> str:
    """Write `bootstrap.py` from a task description and the tar of the role's files."""
    packed = _base64_lines(zlib.compress(files, 9)) if files else ""
    return f'{_HEADER}{_safe_json(task)}\n"""\nCODE = """\n{_base64_lines(code(needs(task)))}\n"""\nFILES = """\n{packed}\n"""\n{_FOOTER}'


def content_id(content: bytes) -> str:
    """Name a content: the directory of a staged file."""
    return hashlib.sha256(content).hexdigest()


def task_description(job: Job, site: Site, submission: str, staged: Mapping[str, packing.Shipment] = NOTHING_STAGED) -> dict[str, object]:
    """Build what the bootstrap needs to know; the form is documented in docs/tf-config.md."""
    kerberos = identity.description(job, site)
    files = packing.description(job, staged)
    reads = data.description(job)
    return {
        "version": contract.TASK_VERSION,
        "job": job.name,
        "submission": submission,
        "strategy": job.strategy.value,
        "host_suffix": f"{job.name}.{site.registry_user}.{site.domain}" if site.domain else None,
        "dns_server": site.dns_server,
        "ports": port_rule(job, site),
        "deciding": job.deciding_role,
        "cluster_roles": cluster_roles(job),
        "legacy_master": job.legacy_master,
        "tf_config": job.tf_config.value,
        "start_timeout_s": job.start_timeout_s,
        "finish_timeout_s": job.finish_timeout_s,
        "grace_s": job.grace_s,
        "hadoop_conf": _hadoop_conf(job.hadoop),
        **({"tokens": True} if kerberos or site.secure else {}),
        **({"kerberos": kerberos} if kerberos else {}),
        **({"data": reads} if reads else {}),
        **({"files": files} if files else {}),
        "roles": {name: _role(job, role) for name, role in job.roles.items()},
    }


def port_rule(job: Job, site: Site) -> dict[str, object]:
    """Choose how ports are decided: containers on the host network share their node's address."""
    if job.network == "host":
        return {"mode": "host", "first": site.port_range[0], "last": site.port_range[1]}
    return {"mode": "own-address"}


def cluster_roles(job: Job) -> list[str]:
    """Name the roles that TensorFlow is told of, in TF_CONFIG's order; the evaluator stays outside (facts: tensorflow A2)."""
    return [role for role in CLUSTER_ROLES if role in job.roles]


def duty(job: Job, role: Role) -> str:
    """Say what the rendezvous expects of a role."""
    if role.name == job.deciding_role:
        return contract.DUTY_DECIDES
    if role.name == "evaluator":
        return contract.DUTY_EVALUATES
    if role.name == "ps" or (role.name == "worker" and job.strategy.value == "parameter-server"):
        return contract.DUTY_SERVES  # they join a TensorFlow server and never end by themselves (measured)
    if role.name in CLUSTER_ROLES:
        return contract.DUTY_TRAINS
    return contract.DUTY_SIDECAR


def _role(job: Job, role: Role) -> dict[str, object]:
    return {
        "count": role.instances,
        "duty": duty(job, role),
        "command": role.command.to_json(),
        "env": dict(role.env),
        "max_restarts": role.max_restarts,
        "tolerate": role.tolerate,
        "gpus": role.gpus,
    }


def _hadoop_conf(conf: HadoopConf | None) -> str | None:
    if conf is None:
        return None
    return {"inline": "inline", "node": conf.location, "archive": f"archive:{contract.HADOOP_CONF_LINK}"}[conf.kind]


def _safe_json(value: Mapping[str, object]) -> str:
    """Write JSON in which none of the AM's patterns occurs: `${TOKEN}` and `{{content}}` (ProviderUtils, ConfigUtils.replaceProps)."""
    text = json.dumps(value, indent=1, ensure_ascii=True)
    return text.replace("${", "\\u0024{").replace("{{", "{\\u007b")


def files_tar(files: Iterable[ShippedFile]) -> bytes | None:
    """Pack files that are held into a tar; None for no files."""
    made = packing.pack(files)
    return made.tobytes() if made else None


# Parts that not every job needs: what reads delegation tokens; a login of the task's own; what copies inputs and outputs; what links,
# unpacks, and puts packages where Python finds them.
_PARTS = {
    "tokens": {"hadoop.py", "tokens.py"},
    "login": {"gss.py", "keytab.py", "login.py"},
    "data": {"data.py", "hadoop.py", "store.py", "stores.py", "transfer.py", "webhdfs.py"},
    "files": {"shipped.py"},
}


def needs(task: Mapping[str, object]) -> tuple[str, ...]:
    """Name the parts of the bootstrap that not every job needs, and this one does: keys of `_PARTS`."""
    kerberos = task.get("kerberos")
    login = isinstance(kerberos, dict) and "login" in kerberos
    return tuple(part for part in _PARTS if (login if part == "login" else task.get(part)))


@lru_cache(maxsize=3)
def code(parts: tuple[str, ...] = ()) -> bytes:
    """Pack our own modules that run in the container; in one stream they take two thirds of what a zip of them would.

    Args:
        parts: Keys of `_PARTS`.
    """
    root = resources.files("submit_tf_job")
    left_out = set().union(*_PARTS.values()) - set().union(*(_PARTS[part] for part in parts))
    modules = {"submit_tf_job/__init__.py": ""}
    for name in ("contract.py", "keytab.py", "tfconfig.py"):
        if name not in left_out:
            modules[f"submit_tf_job/{name}"] = (root / name).read_text("utf-8")
    for item in sorted((root / "bootstrap").iterdir(), key=lambda entry: entry.name):
        if item.name.endswith(".py") and item.name not in left_out:
            modules[f"submit_tf_job/bootstrap/{item.name}"] = item.read_text("utf-8")
    return zlib.compress(json.dumps(modules).encode("ascii"), 9)


def _base64_lines(content: bytes) -> str:
    text = base64.b64encode(content).decode("ascii")
    return "\n".join(text[start : start + 140] for start in range(0, len(text), 140))
