"""Compare the GPUs that a task sees with the GPUs that its role asked for.

YARN counts GPUs; whether a container gets them is decided by the node's runtime (a Docker whose
runtime is not NVIDIA's gives none), its driver and its control groups. A program that finds none
usually trains on the CPU without a warning.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping

from submit_tf_job.container import untrusted
from submit_tf_job.container.child import run
from submit_tf_job.container.info import BootstrapProblem, Info, log

ANSWER_S = 60.0  # without persistence mode the driver initialises each device first
# resources whose devices are known here; those of other vendors are not judged
KNOWN = ("yarn.io/gpu", "nvidia.com/", "amd.com/")
VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
_GPU = re.compile(r"GPU \d+: (?P<model>.+?) \(UUID: ")
_MIG = re.compile(r" +MIG (?P<profile>\S+) +Device +\d+: \(UUID: ")


def check(info: Info, env: Mapping[str, str]) -> None:
    """Store in `info` the models of the GPUs that this task sees, and check their number, unless
    `env` of the role chooses the visible devices, or the resource's vendor is not known.

    Raises:
        BootstrapProblem: The task sees fewer GPUs than its role asked for.
    """
    role = info.roles[info.role]
    asked, resource = role["gpus"], role.get("gpu_resource") or info.task["gpus"]
    info.gpus, how = _find_models(env)
    own = [name for name in VISIBLE if name in role.get("env", {})]
    log("GPUs: {} ({})".format(", ".join(info.gpus) or "none", how))
    # whoever sets these variables in `env` of the job spec has chosen
    if len(info.gpus) >= asked or own or not resource.startswith(KNOWN):
        return
    wanted = f"{asked} GPU" if asked == 1 else f"{asked} GPUs"
    found = f"{len(info.gpus)} ({', '.join(info.gpus)})" if info.gpus else "none"
    text = f"{info.name} asked for {wanted} and sees {found} on {info.node}: {how}"
    raise BootstrapProblem(text, "gpu-missing")


def _find_models(env: Mapping[str, str]) -> tuple[list[str], str]:
    """Return the models, and how they were found."""
    found, how = _device_files(), "device files; no nvidia-smi or rocm-smi in the container"
    for name, options, models in TOOLS:
        tool = shutil.which(name, path=env.get("PATH"))
        if tool:
            how = "device files"
            listed, said = _models_by_tool(tool, options, models)
            if listed or said:  # else it is not what its name says
                found, how = listed, said
            break
    for name in VISIBLE:
        if name in env:
            visible = [part for part in env[name].split(",") if part.strip() not in ("", "-1")]
            if len(visible) < len(found):
                found, how = found[: len(visible)], f"{name}={env[name]}"
    return found, how


def _models_by_tool(
    tool: str, options: list[str], models: Callable[[str], list[str]]
) -> tuple[list[str], str]:
    """Return the GPUs that a vendor's tool lists, and the name of the tool. If it lists none,
    return [] and the reason that it gives, or "" if it gives none.
    """
    name = os.path.basename(tool)
    try:
        done = run([tool, *options], ANSWER_S)
    except (OSError, subprocess.SubprocessError) as err:
        return [], f"{name} failed: {err}"
    text = done.stdout.decode("utf-8", "replace")
    found = models(text)
    if found:
        return found, name
    if done.returncode or text.strip().startswith("No devices"):
        said = " ".join(text.split())[:300]
        return [], f"{name} says: {said or f'exit status {done.returncode}'}"
    return [], ""


def _nvidia_models(text: str) -> list[str]:
    """Return the GPUs that `nvidia-smi -L` lists; for a GPU that MIG has divided, its parts."""
    found: list[str] = []
    whole = ""
    for line in text.splitlines():
        gpu, part = _GPU.match(line), _MIG.match(line)
        if gpu:
            whole = gpu.group("model")[:100]
            found.append(whole)
        elif part:
            if found and found[-1] == whole:
                found.pop()  # it is divided
            found.append("{} MIG {}".format(whole, part.group("profile")))
    return found


def _amd_models(text: str) -> list[str]:
    """Return the cards in the output of `rocm-smi --showproductname --json`, which may have
    warnings above the JSON; [] for any other output.

    ROCm 5 writes `Card series`, ROCm 6 `Card Series`.
    """
    try:
        cards = untrusted.parse(text[text.index("{") : text.rindex("}") + 1])
        rows = [cards[name] for name in sorted(cards) if re.match(r"card\d+$", name)]
        names = [{key.lower(): value for key, value in row.items()} for row in rows]
    except (ValueError, AttributeError, TypeError):
        return []
    return [str(row.get("card series") or "AMD GPU")[:100] for row in names]


TOOLS = (
    ("nvidia-smi", ["-L"], _nvidia_models),
    ("rocm-smi", ["--showproductname", "--json"], _amd_models),
)


def _device_files() -> list[str]:
    """Return the GPUs that have device files: those of NVIDIA, or those of ROCm."""
    files = [path for path in glob.glob("/dev/nvidia*") if re.match(r"/dev/nvidia\d+$", path)]
    if files:
        models = []
        for path in sorted(glob.glob("/proc/driver/nvidia/gpus/*/information")):
            said = None
            with contextlib.suppress(OSError), open(path, errors="replace") as source:
                said = re.search(r"^Model:\s*(.+)$", source.read(), re.MULTILINE)
            models.append(said.group(1).strip() if said else "NVIDIA GPU")
        return (models + ["NVIDIA GPU"] * len(files))[: len(files)]
    if os.path.exists("/dev/kfd"):
        return ["AMD GPU"] * len(glob.glob("/dev/dri/render*"))
    return []
