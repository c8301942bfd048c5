"""Sample the use of the GPUs that a task sees. For NVIDIA's, one `nvidia-smi` keeps running and
prints a line for each GPU every 5 s. For AMD's, the files of the driver are read, because
`rocm-smi` cannot repeat its output by itself.

Nothing here waits for the tool: a tool that hangs in a driver cannot be killed, and must not delay
the task.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from typing import Any

from submit_tf_job.container import untrusted
from submit_tf_job.container.control_groups import read_number

EVERY_S = 5
SLOW_S = 60.0  # without persistence mode the driver initialises each device first
LATE_S = 30.0  # an older answer says nothing of now
WRONG = 3  # lines in another form, one after another, that may stand between answers
COLUMNS = ("index", "utilization.gpu", "memory.used", "memory.total")
READ_LIMIT = 65536
SAID = 200  # characters of a line in another form
MOST_GPUS = 64
NO_TOOL = "no nvidia-smi in the container, and no files of AMD's driver"
_MIB = 1 << 20
_LOST = "\ufffd"  # what stands for bytes that are no text
_AMOUNT = re.compile(r"(\d{1,12})(?: ?(?:%|MiB))?")
# such as "[N/A]", "[Not Supported]", "[GPU requires reset]", "[Insufficient Permissions]"
_NOT_TOLD = re.compile(r"\[[\w/ !.-]{1,60}\]$|(N/A|Not Supported|ERR!)$", re.IGNORECASE)


class Gpu:
    """The samples of one GPU, summed up."""

    def __init__(self) -> None:
        self.samples = {"percent": [0, 0.0, 0.0, 0.0], "bytes": [0, 0.0, 0.0, 0.0]}
        self.total_bytes = 0

    def add(self, percent: int | None, used: int | None, total: int | None) -> None:
        """Add a sample: count, sum, largest and last value of each amount are updated; an amount
        that is None is unknown. `used` and `total` are bytes of the GPU's memory.
        """
        self.total_bytes = total or self.total_bytes
        for name, value in (("percent", percent), ("bytes", used)):
            if value is not None:
                count, summed, most, _ = self.samples[name]
                self.samples[name] = [count + 1, summed + value, max(most, value), value]

    def found(self, late: bool) -> dict[str, Any]:
        """Return mean, peak and last value of each known amount, as the client's class `GpuUse` has
        them. If the last sample is too old (`late`), leave out the last value (`now`).
        """
        found: dict[str, Any] = {}
        for key, name in (("percent", "percent"), ("memory_bytes", "bytes")):
            count, summed, most, last = self.samples[name]
            if count:
                found[key] = {"mean": round(summed / count, 1), "peak": most}
                found[key].update({} if late else {"now": last})
        return dict(found, **({"memory_total_bytes": self.total_bytes} if self.total_bytes else {}))


class GpuWatch:
    """Samples the GPUs of a task; this base class has no source of samples."""

    pid = 0  # of the tool
    tool = "nvidia-smi"  # the source's name, for people

    def __init__(self, why: str = "") -> None:
        """Start without samples; `why` is the reason if there will never be any."""
        self.gpus: dict[int, Gpu] = {}
        self.why = why
        self.began = 0.0
        self.answered: float | None = None

    def begin(self, now: float) -> None:
        """Note that a command starts, and drop the samples of an earlier command."""
        self.began, self.gpus, self.answered = now, {}, None

    def read_samples(self, now: float) -> None:
        """Store the samples that have arrived since the last call; in this base class there are
        none.
        """

    def close(self) -> None:
        """End the tool that samples, if one runs; do not wait for its end."""

    def found(self, now: float, over: bool = False) -> tuple[list[dict[str, Any]], str]:
        """Return the usage of each GPU, and why some or all of it is unknown; "" if it is known, or
        if the first answer may still come. `over` tells whether the command has ended.
        """
        late = self.answered is None or now > self.answered + LATE_S
        gpus = [self.gpus[index].found(late) for index in sorted(self.gpus)]
        why = self.why or (self._late_words(now, over) if late else "")
        untold = sum("percent" not in gpu for gpu in gpus)
        if untold and not why:
            of = f" of {untold} of {len(gpus)} GPUs" if untold < len(gpus) else ""
            why = f"{self.tool} does not tell the utilization{of}, as for parts of a GPU (MIG)"
        return gpus, why

    def _late_words(self, now: float, over: bool) -> str:
        if self.answered is not None:
            return f"{self.tool} has not answered for {now - self.answered:.0f} s"
        since_s = now - self.began
        if over or since_s > SLOW_S:
            return f"{self.tool} has not answered for {since_s:.0f} s"
        return ""


class Nvidia(GpuWatch):
    """Samples of NVIDIA's GPUs, from one `nvidia-smi` that keeps running and prints a line for each
    GPU every few seconds.
    """

    def __init__(self, tool: str, env: Mapping[str, str]) -> None:
        super().__init__()
        visible = env.get("CUDA_VISIBLE_DEVICES", "")
        # the names of parts of a GPU (MIG) are none that the option takes
        chosen = ["-i", visible] if re.match(r"(GPU-|\d)[\w,-]*$", visible) else []
        argv = [tool, "--query-gpu=" + ",".join(COLUMNS), "--format=csv,noheader,nounits"]
        self.rest, self.wrong, self.said = b"", 0, ""
        self.process: subprocess.Popen[bytes] | None = None
        try:
            # in this process's group, so that it ends with the container
            self.process = subprocess.Popen(
                argv + chosen + ["-l", str(EVERY_S)],
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        except (OSError, ValueError) as err:
            self.why = f"nvidia-smi failed: {err}"
            return
        assert self.process.stdout
        os.set_blocking(self.process.stdout.fileno(), False)
        self.pid = self.process.pid

    def read_samples(self, now: float) -> None:
        """Read the lines that the tool has printed; if it has ended, keep the reason in `why`."""
        if not self.process or not self.process.stdout:
            return
        try:
            data = os.read(self.process.stdout.fileno(), READ_LIMIT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        lines = (self.rest + data).split(b"\n")
        self.rest = lines.pop()[-1000:] if data else b""
        for line in lines[-2 * MOST_GPUS :]:
            self._take_line(now, untrusted.clean_line(line.decode("utf-8", "replace")).strip())
        if not data:
            self.why = "nvidia-smi has ended" + (f"; it said: {self.said}" if self.said else "")
            self.close()

    def _take_line(self, now: float, line: str) -> None:
        sample = _parse_sample(line)
        if sample:
            self.gpus.setdefault(sample[0], Gpu()).add(*sample[1:])
            self.answered, self.why, self.wrong, self.said = now, "", 0, ""
        elif line:
            self.wrong += 1
            self.said = line[:SAID] if line.isprintable() and _LOST not in line else "no text"
            if self.wrong > WRONG:
                self.why = f"nvidia-smi answers in another form: {self.said}"

    def _late_words(self, now: float, over: bool) -> str:
        words = super()._late_words(now, over)
        return f"{words}; it said: {self.said}" if words and self.said else words

    def close(self) -> None:
        """Kill the tool without waiting for its end; the process that waits for children reaps it
        later.
        """
        if self.process and self.process.stdout:
            with contextlib.suppress(OSError):
                os.kill(self.pid, 9)
            self.process.stdout.close()
            self.process.returncode, self.process = -9, None


def _parse_sample(line: str) -> tuple[int, int | None, int | None, int | None] | None:
    """Return the index of the GPU, the percent, and the used and total bytes in a line of the tool;
    an amount that the tool does not know is None. Return None for any other line.
    """
    fields = [field.strip() for field in line.split(",")]
    if len(fields) != len(COLUMNS) or not fields[0].isdecimal() or int(fields[0]) >= MOST_GPUS:
        return None
    values: list[int | None] = []
    for field in fields[1:]:
        amount = _AMOUNT.match(field + "\n")
        if amount and amount.end() == len(field):
            values.append(int(amount.group(1)))
        elif _NOT_TOLD.match(field):
            values.append(None)
        else:
            return None
    percent, used, total = values
    if (percent or 0) > 100 or (total is not None and (used or 0) > total):
        return None
    used, total = (None if size is None else size * _MIB for size in (used, total))
    return int(fields[0]), percent, used, total


class Amd(GpuWatch):
    """Samples of AMD's GPUs, from the files of the driver: one directory for each card."""

    tool = "AMD's driver"

    def __init__(self, cards: list[str]) -> None:
        super().__init__()
        self.cards = cards

    def read_samples(self, now: float) -> None:
        """Read the files of each card."""
        for index, card in enumerate(self.cards[:MOST_GPUS]):
            names = ("gpu_busy_percent", "mem_info_vram_used", "mem_info_vram_total")
            percent, used, total = (read_number(card, name) for name in names)
            if percent is not None and 0 <= percent <= 100:
                self.gpus.setdefault(index, Gpu()).add(percent, used, total)
                self.answered = now


def watch(env: Mapping[str, str], sys: str = "/sys", dev: str = "/dev") -> GpuWatch:
    """Return the sampler of the GPUs of a task; without a known tool or driver, one that has no
    samples, only the reason.

    Args:
        env: The environment of the task's command.
        sys: Where sysfs is mounted.
        dev: The directory of the device files.
    """
    tool = shutil.which("nvidia-smi", path=env.get("PATH"))
    if tool:
        return Nvidia(tool, env)
    cards = [
        os.path.dirname(path)
        for path in sorted(glob.glob(f"{sys}/class/drm/card*/device/gpu_busy_percent"))
        # of all of the node, those that this container has been given
        if any(
            os.path.exists(f"{dev}/dri/{os.path.basename(node)}")
            for node in glob.glob(f"{os.path.dirname(path)}/drm/renderD*")
        )
    ]
    return Amd(cards) if cards else GpuWatch(NO_TOOL)
