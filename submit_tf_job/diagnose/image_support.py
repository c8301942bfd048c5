"""Whether a NodeManager runs images, from its configuration; a pure function."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["ways_out", "why_no_images"]

_EXECUTOR = "yarn.nodemanager.container-executor.class"
_RUNTIMES = "yarn.nodemanager.runtime.linux.allowed-runtimes"

_PLAIN = "containers are plain processes (DefaultContainerExecutor)"


def ways_out(why: str = _PLAIN) -> str:
    """Return what helps against what `why_no_images` returns."""
    own = "`image: none` runs the command as a plain process on purpose"
    # LinuxContainerExecutor refuses a container whose runtime is not allowed (seen on 3.4.2)
    spite = (
        "`image_policy: warn`, in the job spec or in the settings' `job`, runs it without the image"
    )
    admin = f"the cluster's administrator adds docker to {_RUNTIMES}, with LinuxContainerExecutor"
    return "; or ".join([own, *([spite] if why == _PLAIN else []), admin])


def why_no_images(conf: Mapping[str, str]) -> str:
    """Return why a NodeManager runs no images; "" if it does, or if that is not known.

    Args:
        conf: Its configuration, with Hadoop's defaults, as its address `/conf` returns it.
    """
    executor = conf.get(_EXECUTOR, "")
    if executor.endswith(".DefaultContainerExecutor"):
        return _PLAIN
    if not executor.endswith(".LinuxContainerExecutor"):
        return ""
    if "docker" not in conf.get(_RUNTIMES, "docker"):
        return "the Docker runtime is not allowed"
    return ""
