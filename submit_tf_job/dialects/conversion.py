"""Convert a job file of another system to the text of a job spec."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from submit_tf_job.dialects.writer import write
from submit_tf_job.host.located.diagnostics import Diagnostics
from submit_tf_job.host.located.nodes import Table
from submit_tf_job.jobspec.files import Host
from submit_tf_job.jobspec.job import Job, Remark
from submit_tf_job.jobspec.load import read_tree
from submit_tf_job.jobspec.reader import Defaults, read_job

__all__ = ["Conversion", "convert"]


@dataclass(frozen=True)
class Conversion:
    """A job spec that was converted from a file of another format.

    Attributes:
        dialect: The format, and its version; both "" if the file is a job spec already.
        text: The job spec.
        remarks: Warnings about dropped keys, and notes on decisions.
        silent: The keys without effect on YARN.
        job: The job.
    """

    dialect: str
    version: str
    text: str
    remarks: tuple[Remark, ...]
    silent: tuple[str, ...]
    job: Job


def convert(
    content: str | bytes | Sequence[str],
    *,
    source: str,
    host: Host,
    defaults: Defaults,
    dialect: str | None = None,
    overrides: Sequence[str] = (),
    name: str | None = None,
) -> Conversion:
    """Convert a file or a command line; return a job spec unchanged, except for overrides.

    Args:
        content: The file, or the words of a command line.
        source: Its name in messages.
        host: The files of this host that the job may use.
        defaults: The site's settings for keys that the job does not state.
        dialect: The name of the format; None to recognise it.
        overrides: `path=value`, as `--set` takes them.
        name: The job's name instead of the file's.

    Raises:
        JobSpecError: The error has every problem found.
    """
    notes = Diagnostics(source)
    root, reading = read_tree(
        content,
        notes,
        base=host.base,
        overrides=overrides,
        name=name,
        dialect=dialect,
        defaults=defaults,
    )
    job = read_job(root, notes, host=host, defaults=defaults)
    if not isinstance(root, Table):
        raise AssertionError("a job spec that was read is a mapping")
    file = source.rpartition("/")[2]
    if reading is None:
        text = content.decode("utf-8") if isinstance(content, bytes) else str(content)
        if overrides or name is not None:
            text = write(root, f"From {file}", ())
        return Conversion("", "", text, (), (), job)
    title = f"From {file}: {reading.dialect} ({reading.version})"
    return Conversion(
        reading.dialect,
        reading.version,
        write(root, title, reading.remarks),
        tuple(reading.remarks),
        tuple(reading.silent),
        replace(job, remarks=tuple(reading.remarks)),
    )
