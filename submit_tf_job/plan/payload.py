"""Write `bootstrap.py`: the task description, the bootstrap's code and the role's files.

It is plain text (a TEMPLATE file of YARN), the same for all tasks of a role. The task description
in it is readable JSON; code and files are compressed, because the AM stores a copy for each
component and Hadoop 3.1 and 3.2 corrupt a service of more than 64 KiB (docs/hadoop-facts.md#sizes),
and base64, which contains none of the patterns that the AM replaces.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from submit_tf_job.container import contract
from submit_tf_job.jobspec.job import (
    DEFAULT_STOP_GRACE_S,
    ImagePolicy,
    Job,
    Retries,
    Role,
    Strategy,
)
from submit_tf_job.plan.delivery import Contribution, Delivery
from submit_tf_job.plan.modules import container_modules
from submit_tf_job.plan.site import Site

__all__ = ["TaskDescription", "code", "needs", "pack", "stripped"]

_FRAMEWORKS = {
    Strategy.MULTI_WORKER: "tensorflow",
    Strategy.PARAMETER_SERVER: "tensorflow",
    Strategy.ESTIMATOR: "tensorflow",
    Strategy.TORCH: "torch",
    Strategy.JAX: "jax",
}
_HEADER = '''\
# The bootstrap of submit_tf_job, for every task of one role. TASK says what the job is; CODE holds the modules of
# submit_tf_job/container, FILES a tar of the role's files or nothing; both are compressed by zlib.
import base64, json, sys, zlib
TASK = r"""
'''  # noqa: E501
_FOOTER = """
def _start():
    if sys.version_info < (3, 5):
        sys.stderr.write("[submit_tf_job] the bootstrap needs Python 3.5 or later, and %s is Python %s; name another "
                         "interpreter by `python` in the job spec\\n" % (sys.executable, sys.version.split()[0]))
        return 90
    sys.dont_write_bytecode, code, own = True, zlib.decompress(base64.b64decode(CODE)), {}
    sources = json.loads(code.decode("ascii"))
    exec(sources["submit_tf_job/container/bytecode.py"], own)
    sys.meta_path.insert(0, own["Modules"](sources, code))
    from submit_tf_job.container.main import main
    return main(json.loads(TASK), zlib.decompress(base64.b64decode(FILES)) if FILES.strip() else None)


if __name__ == "__main__":
    sys.exit(_start())
"""  # noqa: E501


@dataclass(frozen=True)
class TaskDescription:
    """The task description of a job's `bootstrap.py`.

    Attributes:
        delivery: How the roles' files get there.
        parts: The contributions to the plan.
        run: The run's name.
        ports: How the tasks' ports are chosen.
        cluster_roles: The roles in TensorFlow's cluster spec, in its order.
    """

    job: Job
    site: Site
    delivery: Delivery
    parts: tuple[Contribution, ...]
    run: str
    ports: Mapping[str, object]
    cluster_roles: tuple[str, ...]

    def bootstraps(self) -> dict[str, str]:
        """Return `bootstrap.py` of each role."""
        task = self.to_json()
        return {role: pack(task, self.delivery.tars.get(role)) for role in self.job.roles}

    def to_json(self) -> dict[str, object]:
        """Return the task description, as docs/tf-config.md documents it."""
        job, site, delivery = self.job, self.site, self.delivery
        domain = f"{self.run}.{site.registry_user}.{site.domain}" if site.domain else None
        added: dict[str, Any] = {
            key: value for part in self.parts for key, value in part.task.items()
        }
        files: dict[str, object] = {}
        of_roles = {role: dict(work) for role, work in delivery.task.items()}
        for role, packages in added.pop("role_packages", {}).items():
            of_roles.setdefault(role, {})["packages"] = packages
        if of_roles:
            files["roles"] = of_roles
        if "packages" in added:
            files["packages"] = added.pop("packages")
        if job.image_policy is not ImagePolicy.REQUIRE:
            added["image_policy"] = job.image_policy.value
        return {
            "version": contract.TASK_VERSION,
            "job": job.name,
            "run": self.run,
            "strategy": job.strategy.value,
            "host_suffix": domain,
            "dns_server": site.dns_server,
            "ports": self.ports,
            "deciding": job.deciding_role,
            "ends_with": job.ends_with.value,
            "cluster_roles": list(self.cluster_roles),
            "legacy_master": job.legacy_master,
            "tf_config": job.tf_config.value,
            "start_timeout_s": job.start_timeout_s,
            "finish_timeout_s": job.finish_timeout_s,
            "grace_s": job.grace_s,
            **({"variables": [item.value for item in job.variables]} if job.variables else {}),
            **_retries(job.retries),
            **_elastic(job),
            **_unusual(job),
            **_gpus(job, site),
            **added,
            **({"files": files} if files else {}),
            **_framework(job.strategy),
            "roles": {name: _task_of(role) for name, role in job.roles.items()},
        }


def _retries(rule: Retries | None) -> dict[str, object]:
    if rule is None:
        return {}
    return {"retries": {"max": rule.max, "on": list(rule.on), "node_losses": rule.node_losses}}


def _elastic(job: Job) -> dict[str, object]:
    rules = {
        role.name: {"min": role.elastic.min, "grow_after_s": role.elastic.grow_after_s}
        for role in job.roles.values()
        if role.elastic
    }
    return {"elastic": rules} if rules else {}


def _unusual(job: Job) -> dict[str, object]:
    """Return what few jobs state."""
    found: dict[str, object] = {}
    if job.stop_grace_s != DEFAULT_STOP_GRACE_S:
        found["stop_grace_s"] = job.stop_grace_s
    if job.prepare:
        found["prepare"] = job.prepare.to_json()
    return found


def _gpus(job: Job, site: Site) -> dict[str, object]:
    """Return the resource whose devices tasks look for, unless their role names another."""
    asked = any(role.gpus for role in job.roles.values())
    return {"gpus": site.gpu_resource} if asked else {}


def _framework(strategy: Strategy) -> dict[str, object]:
    """Return the framework whose environment or versions the bootstrap has to know."""
    name = _FRAMEWORKS.get(strategy)
    return {"framework": name} if name else {}


def _task_of(role: Role) -> dict[str, object]:
    return {
        "count": role.instances,
        "kind": role.kind.value,
        "command": role.command.to_json(),
        "env": dict(role.env),
        "max_restarts": role.max_restarts,
        "tolerate": role.tolerate,
        "gpus": role.gpus,
        **({"gpu_resource": role.gpu_resource} if role.gpu_resource else {}),
        **({"ports": dict(role.ports)} if role.ports else {}),
        **({"workdir": role.workdir} if role.workdir else {}),
        **({"after": list(role.after)} if role.after else {}),
    }


def pack(task: Mapping[str, object], files: bytes | None) -> str:
    """Return `bootstrap.py` with a task description and the tar of the role's files."""
    packed = _base64_lines(zlib.compress(files, 9)) if files else ""
    return (
        f'{_HEADER}{_safe_json(task)}\n"""\nCODE = '
        f'"""\n{_base64_lines(code(needs(task)))}\n"""\nFILES = """\n{packed}\n"""\n{_FOOTER}'
    )


def _safe_json(value: Mapping[str, object]) -> str:
    """Return JSON without the patterns that the AM replaces: `${TOKEN}` and `{{content}}`
    (ProviderUtils, ConfigUtils.replaceProps).
    """
    text = json.dumps(value, indent=1, ensure_ascii=True)
    return text.replace("${", "\\u0024{").replace("{{", "{\\u007b")


# Key of the task description → the folders of `container` that a job with the key needs: it reads
# delegation tokens; logs the task in; copies inputs and outputs; links and unpacks files and
# packages; looks for its GPUs; sets variables of other systems; knows the strategy's framework;
# starts all tasks again; does without some; finds the deciding task on HDFS.
_PARTS = {
    "tokens": ("delegation",),
    "login": ("login",),
    "data": ("data",),
    "files": ("shipping",),
    "gpus": ("devices",),
    "variables": ("systems",),
    "framework": ("frameworks",),
    "retries": ("retrying",),
    "elastic": ("elastic",),
    "meeting": ("data", "meeting"),
}


def needs(task: Mapping[str, object]) -> tuple[str, ...]:
    """Return the optional parts of the bootstrap that a job needs: keys of `_PARTS`."""
    kerberos = task.get("kerberos")
    login = isinstance(kerberos, dict) and "login" in kerberos
    return tuple(part for part in _PARTS if (login if part == "login" else task.get(part)))


@lru_cache(maxsize=3)
def code(parts: tuple[str, ...] = ()) -> bytes:
    """Return the modules that run in the container, compressed; as one stream they are a third
    smaller than as a zip.

    Args:
        parts: Keys of `_PARTS`.
    """
    modules = {"submit_tf_job/__init__.py": ""}
    folders = dict.fromkeys(f"{folder}/" for part in parts for folder in _PARTS[part])
    for name, source in container_modules(("", *folders)).items():
        modules[f"submit_tf_job/container/{name}"] = stripped(source)
    # the longest first: what is similar is within zlib's window, 2 % less; level 9 takes twice as
    # long for half a percent
    ordered = dict(sorted(modules.items(), key=lambda module: -len(module[1])))
    return zlib.compress(json.dumps(ordered).encode("ascii"), 7)


# Every pattern begins with a fixed text, which Python's regexes find many times as fast as `^`.
_DOCSTRING = re.compile(r'\n(?<=:\n)([ ]*)"""(?:[^"\\]+|\\.|"(?!""))*"""(?=\n)')
_COMMENT_LINE = re.compile(r"\n[ ]*#(?!!)[^\n]*")
_COMMENT = re.compile(r"  #[^\n]*")
_FOR_TYPES = re.compile(r"\nTYPE_CHECKING = False\nif TYPE_CHECKING:(?:\n(?:    [^\n]*)?(?=\n))+")


# Types in annotations: names, with brackets up to six levels deep, joined by `|`.
_BRACKETS = r"\[[^\[\]]*\]"
for _level in range(5):
    _BRACKETS = rf"\[(?:[^\[\]]|{_BRACKETS})*\]"
_ONE_TYPE = rf"[A-Za-z_][\w.]*(?:{_BRACKETS})?"
_TYPE = rf"{_ONE_TYPE}(?: \| {_ONE_TYPE})*"
_SIGNATURE = re.compile(r"\n([ ]*def \w+\()(.*?)\)(?: -> [^\n#]*)?:(?:  #[^\n]*)?(?=\n)", re.DOTALL)
_PARAMETER = re.compile(rf"(\w): {_TYPE}")
_VARIABLE = re.compile(rf"\n([ ]*[A-Za-z_][\w.]*): {_TYPE} = ")
_DECLARATION = re.compile(rf"\n[ ]+self\.\w+: {_TYPE}(?=\n)")
_BLANK_LINES = re.compile(r"\n\n+")
_INDENTATION = re.compile(r"\n(?:    )+")
_FUTURE = "from __future__ import annotations\n"


def stripped(source: str) -> str:
    """Return a module without annotations and their imports, docstrings, comments and blank lines,
    and with an indentation of one blank.

    Without annotations it runs on Python 3.5, which has none of variables. An empty string replaces
    a docstring, because a class may have no other body. The patterns are those of the modules of
    `container`: a test compares the syntax trees of each.
    """
    begin = ":\n"  # as before every docstring
    bare = _DOCSTRING.sub(r'\n\1""', begin + source)
    bare = _COMMENT_LINE.sub("", bare).replace(_FUTURE, "")
    bare = _FOR_TYPES.sub("", _COMMENT.sub(_without_comment, bare))
    bare = _DECLARATION.sub("", _SIGNATURE.sub(_without_types, bare))
    bare = _BLANK_LINES.sub("\n", _VARIABLE.sub(r"\n\1 = ", bare))
    return _INDENTATION.sub(_with_single_blanks, bare).removeprefix(begin)


def _without_comment(found: re.Match[str]) -> str:
    """Return nothing for a comment; `#` behind a quote may be a part of a string."""
    line = found.string[found.string.rfind("\n", 0, found.start()) : found.start()]
    return found[0] if any(char in line for char in "\"'#") else ""


def _with_single_blanks(found: re.Match[str]) -> str:
    return "\n" + " " * (len(found[0]) // 4)


def _without_types(found: re.Match[str]) -> str:
    parameters = _PARAMETER.sub(r"\1", found[2])
    return f"\n{found[1]}{parameters}):"


def _base64_lines(content: bytes) -> str:
    text = base64.b64encode(content).decode("ascii")
    return "\n".join(text[start : start + 140] for start in range(0, len(text), 140))
