"""Read IndexedFile, the second format of aggregated logs.

    file    uuid · data · index · length of the index (4) · uuid;
            each later upload appends newline · data · index · length · uuid
    uuid    SHA-256 of the application's id
    index   Java objects: everything uploaded so far

Source:
org.apache.hadoop.yarn.logaggregation.filecontroller.ifile.LogAggregationIndexedFileController.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from submit_tf_job.hadoop_logs.cursor import (
    INFLATED_STEP,
    Cursor,
    InflatingCursor,
    PlainCursor,
    Source,
)
from submit_tf_job.hadoop_logs.interfaces import Snapshot
from submit_tf_job.hadoop_logs.javaobject import Fields, JavaObject, elements, entries, read_object

UUID = 32
MAX_INDEX = 64 * 1024 * 1024


@dataclass(frozen=True)
class IndexedContent:
    """The bytes of one log file, in a separate region."""

    source: Source
    compression: str
    start: int
    stored: int
    size: int

    def stream(self, start: int) -> Iterator[bytes]:
        """Read from `start` to the end."""
        cursor = self._cursor()
        cursor.skip(start)
        left = self.size - start
        while left > 0:
            data = cursor.read(min(left, INFLATED_STEP))
            if not data:
                raise self.source.damaged(f"a log file ends {left} bytes too early")
            left -= len(data)
            yield data

    def _cursor(self) -> Cursor:
        if self.compression == "gz":
            return InflatingCursor(self.source, self.start, self.stored)
        if self.compression == "none":
            return PlainCursor(self.source, self.start, self.stored)
        raise self.source.damaged(
            f"its compression {self.compression!r} is not supported (none and gz are)"
        )


def application_uuid(app_id: str) -> bytes:
    """Return the UUID at both ends of an application's files
    (LogAggregationIndexedFileController.createUUID).
    """
    return hashlib.sha256(app_id.encode()).digest()


def read_checksum(data: bytes, where: Source) -> tuple[str, int] | None:
    """Parse the checksum file of an unfinished upload: the node file's name, and its valid size.

    Returns:
        None where it is empty.
    """
    if len(data) < 4:
        return None
    fields = Fields(BytesIO(data).read, where.damaged)
    name = fields.exactly(fields.integer(4), limit=4096).decode("utf-8", "replace")
    return name, fields.integer(8)


def read_indexed(source: Source, app_id: str, node: str) -> list[Snapshot]:
    """Read the index, nearly always with one request.

    Args:
        source: The file.
        app_id: The application.
        node: The node, if the index names none.

    Returns:
        The log files, the oldest upload first.

    Raises:
        Damaged: It is not a complete IndexedFile of this application.
    """
    uuid = application_uuid(app_id)
    tail = source.tail()
    if len(tail) < UUID + 4 or not tail.endswith(uuid):
        raise source.damaged("it does not end as an IndexedFile of this application does")
    length = int.from_bytes(tail[-UUID - 4 : -UUID], "big", signed=True)
    end = source.size - UUID - 4
    if not 0 < length <= min(end, MAX_INDEX):
        raise source.damaged(f"an index of {length} bytes")
    index = read_object(source.read(end - length, length), Fields(BytesIO().read, source.damaged))
    if not isinstance(index, JavaObject):
        raise source.damaged("its index is not an IndexedLogsMeta")
    compression = str(index.fields.get("compressName") or "none").lower()
    node = str(index.fields.get("nodeId") or node)
    return [
        log
        for upload in elements(index.fields.get("logMetas"))
        for log in _upload(source, compression, node, upload)
    ]


def _upload(source: Source, compression: str, node: str, meta: Any) -> Iterator[Snapshot]:
    if not isinstance(meta, JavaObject):
        raise source.damaged("an upload in its index is invalid")
    uploaded_ms = _number(source, meta, "uploadTimeStamp")
    for _container, found in entries(meta.fields.get("logMetas")):
        for log in elements(found):
            yield _log(source, compression, node, uploaded_ms, log)


def _log(source: Source, compression: str, node: str, uploaded_ms: int, meta: Any) -> Snapshot:
    if not isinstance(meta, JavaObject):
        raise source.damaged("a log file in its index is invalid")
    start, stored, size = (
        _number(source, meta, name) for name in ("startIndex", "fileCompressedSize", "fileSize")
    )
    if min(start, stored, size) < 0 or start + stored > source.size:
        raise source.damaged("a log file lies outside of it")
    return Snapshot(
        container_id=str(meta.fields.get("containerId") or ""),
        node=node,
        name=str(meta.fields.get("fileName") or ""),
        size=size,
        declared_size=size,
        uploaded_ms=uploaded_ms,
        modified_ms=_number(source, meta, "lastModifiedTime"),
        content=IndexedContent(source, compression, start, stored, size),
    )


def _number(source: Source, meta: JavaObject, name: str) -> int:
    value = meta.fields.get(name)
    if not isinstance(value, int):
        raise source.damaged(f"{name} is missing in its index")
    return value
