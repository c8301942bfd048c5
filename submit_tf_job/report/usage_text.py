"""Format what a job uses as lines: bars for each role, the charge, and advice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from submit_tf_job.diagnose.amounts import clause, memory_used, plural
from submit_tf_job.host.units import duration_text, memory_text
from submit_tf_job.operations.usage import MIB, total
from submit_tf_job.report.table import columns

if TYPE_CHECKING:
    from submit_tf_job.operations.usage import Account, JobUse
    from submit_tf_job.usage_report import Amounts, Asked, RoleAmounts, RoleUse, TaskUse
    from submit_tf_job.yarn.observed import Charge

WIDTH = 20  # of a bar
_HOUR = 3600
_HOW = {"bound": "at most ", "sample": "seen "}  # how a peak is known; else by the kernel's mark
LEGEND = "# mean, = peak, of what was asked"


def usage_lines(use: JobUse, *, tasks: bool = False, width: int | None = None) -> Iterator[str]:
    """Return the lines of `usage`; with `tasks`, also a table of all tasks."""
    after = clause("  after {}", use.elapsed_s and duration_text(use.elapsed_s))
    yield f"{use.name}  {use.state.value}{after}"
    roles = use.used.roles if use.used else {}
    for role in dict.fromkeys([*use.asked, *roles]):
        yield from _role_lines(role, use.asked.get(role), roles.get(role))
    if roles:
        yield f"  ({LEGEND})"
    else:
        unknown = use.unknown or "what they reported has no amounts"
        yield f"  what its tasks use is not known: {unknown}"
    if tasks and use.used:
        yield "tasks"
        yield from columns([_HEADING, *map(_task_row, use.used.tasks)], width, indent="  ")
    if use.charge:
        yield f"charged  {charge_text(use.charge)}"
    for one in use.advice:
        yield f"advice   {one.sentence}: {one.option}"


def _role_lines(role: str, asked: Asked | None, used: RoleUse | None) -> Iterator[str]:
    words = []
    if asked:
        memory = clause("{}", asked.memory_mib and memory_text(asked.memory_mib))
        words = [plural(asked.tasks, "task"), memory]
        words += [plural(asked.cpus, "core")] if asked.cpus else []
        words += [plural(asked.gpus, "GPU")] if asked.gpus else []
    yield f"  {role:<9}" + ", ".join(filter(None, words))
    if used is None:
        return
    ask = asked.memory_mib * MIB if asked and asked.memory_mib else None
    how = _HOW.get(used.peak_by, "")
    yield from _bar_line("memory", used.memory_bytes, ask, memory_used, how)
    cores = float(asked.cpus) if asked and asked.cpus else None
    yield from _bar_line("cores", used.cpu_cores, cores, "{:.1f}".format)
    yield from _bar_line("GPU", used.gpu_percent, 100.0, "{:.0f} %".format)
    yield from _bar_line("GPU mem", used.gpu_memory_bytes, None, memory_used)
    if used.gpus_unknown:
        partly = "in part " if used.gpu_percent else ""
        yield f"    GPU      {partly}not known: {used.gpus_unknown}"


def _bar_line(
    name: str,
    amount: RoleAmounts | None,
    asked: float | None,
    text: Callable[[float], str],
    how: str = "",
) -> Iterator[str]:
    if amount is None or not (amount.mean or amount.peak):
        return
    mean, peak = amount.mean, amount.peak or amount.mean
    parts = [f"now {text(amount.now.mean)}"] if amount.now else []
    parts += [f"mean {text(mean.mean)}"] if mean else []
    if peak and amount.peak:
        parts.append(f"peak {how}{text(peak.most)}")
    elif peak and peak.most > 0:
        parts.append(f"most {text(peak.most)}")
    who = f" ({peak.most_task})" if peak and peak.least != peak.most else ""
    shown = bar(mean.mean if mean else 0.0, peak.most if peak else 0.0, asked)
    yield f"    {name:<8} {shown} {'  '.join(parts)}{who}"


def bar(mean: float, peak: float, asked: float | None) -> str:
    """Return a bar of ASCII characters: `#` up to the mean, `=` up to the peak, of the amount that
    was asked for; blanks if no amount was asked for.
    """
    if not asked:
        return " " * (WIDTH + 2)
    marks, ends = (min(WIDTH, round(part / asked * WIDTH)) for part in (mean, peak))
    return f"[{('#' * marks).ljust(ends, '=').ljust(WIDTH, '.')}]"


_HEADING = ["TASK", "CORES", "MEAN", "MEMORY", "MEAN", "PEAK", "GPU", "GPU MEMORY"]


def _task_row(task: TaskUse) -> list[str]:
    cpu, memory = task.cpu_cores, task.memory_bytes
    gpus, held = ([getattr(gpu, of) for gpu in task.gpus] for of in ("percent", "memory_bytes"))
    return [
        task.task,
        *(_amount_cell(cpu, what, "{:.1f}".format) for what in ("now", "mean")),
        *(_amount_cell(memory, what, memory_used) for what in ("now", "mean", "peak")),
        _cell_of_gpus(gpus, "mean", "{:.0f} %".format),
        _cell_of_gpus(held, "peak", memory_used),
    ]


def _cell_of_gpus(gpus: Sequence[Amounts | None], what: str, text: Callable[[float], str]) -> str:
    """Return an amount of each GPU; "-" for a GPU of which it is not known, and for no GPU."""
    return ", ".join(_amount_cell(gpu, what, text) for gpu in gpus) if any(gpus) else "-"


def _amount_cell(amount: Amounts | None, what: str, text: Callable[[float], str]) -> str:
    value = getattr(amount, what, None)
    return "-" if value is None else str(text(value))


def charge_text(charge: Charge) -> str:
    """Return what the ResourceManager has counted, in hours."""
    gpus = f", {charge.gpu_s / _HOUR:.2f} GPU hours" if charge.gpu_s else ""
    memory = charge.memory_mib_s / 1024 / _HOUR
    return f"{memory:.2f} GiB hours, {charge.vcore_s / _HOUR:.2f} core hours{gpus}"


def account_lines(by: str, rows: Sequence[Account], width: int | None = None) -> Iterator[str]:
    """Return the table of `usage --since`, with the sum as its last row."""
    heading = [by.upper(), "RUNS", "GiB HOURS", "CORE HOURS", "GPU HOURS"]
    everything = ("all", sum(one.runs for one in rows), total(rows))
    cells = [(one.of, one.runs, one.charge) for one in rows] + [everything]
    yield from columns([heading, *(_account_row(*row) for row in cells)], width)


def _account_row(of: str, runs: int, charge: Charge) -> list[str]:
    hours = (charge.memory_mib_s / 1024, charge.vcore_s, charge.gpu_s)
    return [of, str(runs), *(f"{seconds / _HOUR:.1f}" for seconds in hours)]
