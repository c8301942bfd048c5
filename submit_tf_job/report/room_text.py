"""The free resources of nodes, labels and queues, as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from submit_tf_job.report.table import columns, number

if TYPE_CHECKING:
    from submit_tf_job.diagnose.room import ClusterRoom

_MOST_NODES = 20


def room_lines(room: ClusterRoom, *, width: int | None = None) -> Iterator[str]:
    """Return one table each for queues, labels and nodes, and, if a job was given, a line that
    tells whether it would start.
    """
    rows = [["QUEUE", "STATE", "AT MOST", "MEMORY USED", "CPUS USED", "RUNNING", "WAITING"]]
    for queue in room.queues:
        limit, used = queue.limit or {}, queue.used
        of = f" of {_memory_words(limit)}" if limit.get("memory-mb") else ""
        rows.append(
            [
                queue.path if queue.state in (None, "RUNNING") else f"{queue.path} ({queue.state})",
                queue.state or "-",
                number(queue.share_percent, "{:.0f} %"),
                f"{_memory_words(used)}{of}",
                str(used.get("vcores", 0)),
                str(queue.running),
                str(queue.waiting),
            ]
        )
    yield from columns([[row[0], *row[2:]] for row in rows], width, optional=(1, 3))
    yield ""
    rows = [["LABEL", "NODES", "MEMORY FREE", "MOST ON ONE", "CPUS FREE", "GPUS FREE"]]
    for label in room.labels:
        largest = _memory_words({"memory-mb": label.largest})
        counts = [f"{_memory_words(label.free)} of {_memory_words(label.total)}", largest]
        shown = [label.label or "(none)", str(label.nodes), *counts]
        rows.append(
            [*shown, _core_words(label.free, label.total), _device_words(label.free, label.total)]
        )
    yield from columns(rows, width, optional=(4,))
    yield ""
    rows = [["NODE", "LABELS", "MEMORY FREE", "CPUS FREE", "GPUS FREE"]]
    nodes = sorted(room.nodes, key=lambda node: -node.free.get("memory-mb", 0))
    for node in nodes[:_MOST_NODES]:
        amounts = [
            f"{_memory_words(node.free)} of {_memory_words(node.total)}",
            _core_words(node.free, node.total),
        ]
        shown = [node.host, ",".join(node.labels) or "-", *amounts]
        rows.append([*shown, _device_words(node.free, node.total)])
    yield from columns(rows, width, optional=(3,))
    if len(nodes) > _MOST_NODES:
        yield f"and {len(nodes) - _MOST_NODES} nodes with less"
    if room.start:
        yield ""
        yield f"{room.start.when.upper()}  {room.start.sentence}"


def _memory_words(amounts: Mapping[str, int]) -> str:
    return f"{amounts.get('memory-mb', 0) / 1024:.1f}Gi"


def _core_words(free: Mapping[str, int], total: Mapping[str, int]) -> str:
    return f"{free.get('vcores', 0)} of {total.get('vcores', 0)}"


def _device_words(free: Mapping[str, int], total: Mapping[str, int]) -> str:
    """Return the counted resources other than memory and cores; GPUs without YARN's name for
    them.
    """
    texts = []
    for name, count in total.items():
        if count and name not in ("memory-mb", "vcores"):
            own = "" if name == "yarn.io/gpu" else f" {name}"
            texts.append(f"{free.get(name, 0)} of {count}{own}")
    return ", ".join(texts) or "-"
