"""Find out which TensorFlow and Keras a task's program has, before it starts.

The versions come from the metadata of the installed packages, which the command's own interpreter
reads, because an import of TensorFlow would take seconds.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence

from submit_tf_job.container import untrusted
from submit_tf_job.container.info import Info

TENSORFLOW = ("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tensorflow_cpu", "tf-nightly")
LEGACY_KERAS = "TF_USE_LEGACY_KERAS"
LIMIT_S = 10.0
# Both fail in Keras 3: keras-team/keras issues 20585 and 18624; measured with TensorFlow 2.21.
STRATEGIES = {
    "multi-worker": "MultiWorkerMirroredStrategy",
    "parameter-server": "ParameterServerStrategy",
}
_PYTHON = re.compile(r"(?:\S*/)?python[0-9.]*")
# it begins with -I: a file of the job, or on its PYTHONPATH, may have the name of a module of
# Python's
_LOOK = f"""
import json, os, sys
from importlib import metadata
sys.path[:0] = os.environ.get("PYTHONPATH", "").split(os.pathsep)
found = {{}}
for name in {TENSORFLOW + ("keras", "tf_keras")!r}:
    try:
        found[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
"""


def check(info: Info, env: Mapping[str, str]) -> list[str]:
    """Return a list with one warning if the task's TensorFlow or Keras does not fit the job's
    strategy; [] if they fit, or their versions are not known.
    """
    python = interpreter(info.roles[info.role]["command"], env.get("PATH"))
    if not python:
        return []
    found = versions(python, env)
    why = misfit(str(info.task["strategy"]), found, uses_legacy(env))
    return [f"{info.name}: {python} has {why}"] if why else []


def interpreter(command: str | Sequence[str], path: str | None) -> str | None:
    """Return the Python that a command starts; if it starts none, the Python that its scripts would
    find in `path`, the PATH; None if there is none.
    """
    words = command.split() if isinstance(command, str) else command
    named = [word for word in words if _PYTHON.fullmatch(word)]
    for name in named[:1] or ["python", "python3"]:
        found = shutil.which(name, path=path)
        if found:
            return found
    return None


def versions(python: str, env: Mapping[str, str]) -> dict[str, str]:
    """Return the versions of TensorFlow (as `tensorflow`), `keras` and `tf_keras` of a Python.

    Packages that are not installed are left out. If the interpreter does not answer, the result is
    empty.
    """
    import subprocess

    try:
        nothing, argv = subprocess.DEVNULL, [python, "-I", "-c", _LOOK]
        pipe = subprocess.PIPE  # its exit status does not matter
        done = subprocess.run(
            argv, env=env, stdin=nothing, stdout=pipe, stderr=nothing, timeout=LIMIT_S
        )
        found = untrusted.parse(done.stdout.decode("utf-8"))
    except (OSError, ValueError, subprocess.SubprocessError):
        return {}
    if not isinstance(found, dict):
        return {}
    known = {name: str(found[name]) for name in ("keras", "tf_keras") if name in found}
    installed = [name for name in TENSORFLOW if name in found]
    if installed:
        known["tensorflow"] = str(found[installed[0]])
    return known


def uses_legacy(env: Mapping[str, str]) -> bool:
    """Return whether `TF_USE_LEGACY_KERAS` makes TensorFlow use tf_keras as tf.keras."""
    return env.get(LEGACY_KERAS, "") in ("1", "true", "True")


def has_keras_3(found: Mapping[str, str]) -> bool:
    """Return whether tf.keras is Keras 3 if `TF_USE_LEGACY_KERAS` is not set (true from TensorFlow
    2.16 on).
    """
    recent = _version_numbers(found.get("tensorflow", "")) >= (2, 16)
    return recent and _version_numbers(found.get("keras", "")) >= (3,)


def misfit(strategy: str, found: Mapping[str, str], legacy: bool) -> str:
    """Return the end of a sentence ("… has TensorFlow 2.16, and …") about packages that do not suit
    the strategy of the job spec, with possible solutions; "" if all of them suit it.

    `found` is the result of `versions`; `legacy` tells whether `TF_USE_LEGACY_KERAS` is set.
    """
    tensorflow = found.get("tensorflow", "")
    if strategy == "estimator" and _version_numbers(tensorflow) >= (2, 16):
        return f"TensorFlow {tensorflow}, and tf.estimator ended with 2.15"
    if strategy not in STRATEGIES or not has_keras_3(found):
        return ""
    if legacy and "tf_keras" in found:
        return ""
    series = ".".join(tensorflow.split(".")[:2])
    if legacy:
        text = "TensorFlow %s without tf_keras, and %s is set; install tf_keras %s in the image"
        return text % (tensorflow, LEGACY_KERAS, series)
    text = (
        "TensorFlow %s with Keras %s, whose model.fit does not work under %s; say `keras: legacy` "
        "(with tf_keras %s in the image), write a training loop without model.fit, or use Keras "
        "on JAX (`strategy: jax`)"
    )
    return text % (tensorflow, found["keras"], STRATEGIES[strategy], series)


def _version_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])
