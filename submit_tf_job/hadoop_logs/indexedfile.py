"""Read IndexedFile, the second format of aggregated logs, whose index is a serialized Java object.

    file    uuid · data · index · length of the index (4) · uuid;
            each later upload appends newline · data · index · length · uuid
    uuid    SHA-256 of the application's id
    index   an IndexedLogsMeta: everything uploaded so far

Sources: Java Object Serialization Specification, chapter 6, and
org.apache.hadoop.yarn.logaggregation.filecontroller.ifile.LogAggregationIndexedFileController.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, field
from typing import Any

from submit_tf_job.hadoop_logs.cursor import Region, Source
from submit_tf_job.hadoop_logs.interfaces import Snapshot

UUID = 32
MAX_INDEX = 64 * 1024 * 1024


def application_uuid(app_id: str) -> bytes:
    """Return the UUID at both ends of an application's files
    (LogAggregationIndexedFileController.createUUID).
    """
    return hashlib.sha256(app_id.encode()).digest()


def read_checksum(source: Source) -> tuple[str, int]:
    """Return the content of the checksum file that lies beside a node file while a further upload
    is appended: the node file's name, and how many of its bytes are valid.

    Raises:
        Damaged: The checksum file is not complete.
    """
    fields = source.fields(source.tail())
    name = fields.exactly(fields.integer(4), limit=4096).decode("utf-8", "replace")
    return name, max(0, fields.integer(8))


def read_indexed(source: Source, node: str) -> list[Snapshot]:
    """Read the index, nearly always with one request.

    Args:
        source: The file, which ends with the application's UUID.
        node: The node, if the index names none.

    Returns:
        The log files, the oldest upload first.

    Raises:
        Damaged: The file is not a complete IndexedFile.
    """
    tail = source.tail()
    length = int.from_bytes(tail[-UUID - 4 : -UUID], "big", signed=True)
    end = source.size - UUID - 4
    if not 0 < length <= min(end, MAX_INDEX):
        raise source.damaged(f"an index of {length} bytes")
    index = _fields_of(read_object(source.read(end - length, length), source), source)
    compression = str(index.get("compressName") or "none").lower()
    node = str(index.get("nodeId") or node)
    return [
        _log_snapshot(
            source, compression, node, _number_field(source, upload, "uploadTimeStamp"), log
        )
        for upload in (_fields_of(each, source) for each in _elements_of(index.get("logMetas")))
        for of_container in _elements_of(upload.get("logMetas"))[1::2]  # a map: keys and values
        for log in _elements_of(of_container)
    ]


def _log_snapshot(
    source: Source, compression: str, node: str, uploaded_ms: int, meta: Any
) -> Snapshot:
    log = _fields_of(meta, source)
    start, stored, size = (
        _number_field(source, log, name)
        for name in ("startIndex", "fileCompressedSize", "fileSize")
    )
    if min(start, stored, size) < 0 or start + stored > source.size:
        raise source.damaged("a log file lies outside of it")
    return Snapshot(
        container_id=str(log.get("containerId") or ""),
        node=node,
        name=str(log.get("fileName") or ""),
        size=size,
        uploaded_ms=uploaded_ms,
        modified_ms=_number_field(source, log, "lastModifiedTime"),
        region=Region(source, compression, start, stored),
        extents=((0, size),),
    )


def _fields_of(value: Any, source: Source) -> dict[str, Any]:
    if not isinstance(value, JavaObject):
        raise source.damaged("its index is not an IndexedLogsMeta")
    return value.fields


def _elements_of(value: Any) -> list[Any]:
    """Return the elements of a java.util.List, or the keys and values of a Map in turn; [] for any
    other value.
    """
    written = value.written if isinstance(value, JavaObject) else []
    return [item for item in written if not isinstance(item, bytes)]


def _number_field(source: Source, fields: dict[str, Any], name: str) -> int:
    value = fields.get(name)
    if not isinstance(value, int):
        raise source.damaged(f"{name} is missing in its index")
    return value


# --- Java's serialized objects, as plain values; no class is loaded -------------------------------

MAGIC = bytes.fromhex("aced0005")
NULL, REFERENCE, CLASS_DESC, OBJECT, STRING, BLOCK, END = 0x70, 0x71, 0x72, 0x73, 0x74, 0x77, 0x78
LONG_BLOCK, LONG_STRING, ENUM = 0x7A, 0x7C, 0x7E
HAS_WRITE_METHOD, SERIALIZABLE = 1, 2
FIRST_HANDLE = 0x7E0000
MAX_DEPTH = 60
MAX_VALUES = 2_000_000
PRIMITIVES = {"B": "b", "C": "H", "D": "d", "F": "f", "I": "i", "J": "q", "S": "h", "Z": "?"}


@dataclass
class _ClassDesc:
    name: str
    flags: int = 0
    fields: list[tuple[str, str]] = field(default_factory=list)
    levels: list[_ClassDesc] = field(default_factory=list)  # its parent classes first, then itself


@dataclass
class JavaObject:
    """One deserialised Java object.

    Attributes:
        fields: Its fields by name, including those of parent classes.
        written: Values that the object's class wrote by its own method: elements of a collection,
            or raw bytes.
    """

    fields: dict[str, Any] = field(default_factory=dict)
    written: list[Any] = field(default_factory=list)


def read_object(data: bytes, source: Source) -> Any:
    """Read the first object of a serialization stream.

    Raises:
        Damaged: The stream is invalid or incomplete, has more than `MAX_VALUES` values, or has
            values of a kind that Hadoop does not write.
    """
    if not data.startswith(MAGIC):
        raise source.damaged("its index is not a Java object")
    return _JavaReader(data[len(MAGIC) :], source).value(0)


class _JavaReader:
    def __init__(self, data: bytes, source: Source) -> None:
        self._size = len(data)
        self._in = source.fields(data)
        self._handles: list[Any] = []
        self._left = MAX_VALUES

    def value(self, depth: int) -> Any:
        return self._read_tagged(self._in.unsigned(1), depth)

    def _read_tagged(self, tag: int, depth: int) -> Any:
        self._left -= 1
        if depth > MAX_DEPTH or self._left < 0:
            raise self._in.damaged("its index is too deep or too large")
        if tag == NULL:
            return None
        if tag == REFERENCE:
            return self._read_reference()
        if tag in (STRING, LONG_STRING):
            return self._keep_handle(self._in.decode(self._read_sized(tag)))
        if tag == OBJECT:
            return self._read_object(depth)
        if tag == ENUM:
            self._class_desc(depth + 1)
            place = len(self._handles)
            self._keep_handle(None)
            self._handles[place] = self.value(depth + 1)
            return self._handles[place]
        if tag in (BLOCK, LONG_BLOCK):
            return self._read_sized(tag)
        if tag == CLASS_DESC:
            return self._new_class(depth)
        raise self._in.damaged(
            f"its index holds a value of kind {tag:#x}, which Hadoop does not write"
        )

    def _read_sized(self, tag: int) -> bytes:
        """Read the bytes of a string or block; their number is stored before them."""
        digits = {STRING: 2, LONG_STRING: 8, BLOCK: 1, LONG_BLOCK: 4}[tag]
        return self._in.exactly(self._in.unsigned(digits), limit=self._size)

    def _keep_handle(self, value: Any) -> Any:
        self._handles.append(value)
        return value

    def _read_reference(self) -> Any:
        number = self._in.integer(4) - FIRST_HANDLE
        if not 0 <= number < len(self._handles):
            raise self._in.damaged("its index has an invalid reference")
        return self._handles[number]

    def _class_desc(self, depth: int) -> _ClassDesc | None:
        found = self.value(depth)
        if found is None or isinstance(found, _ClassDesc):
            return found
        raise self._in.damaged("a class is missing in its index")

    def _new_class(self, depth: int) -> _ClassDesc:
        described = _ClassDesc(self._in.utf())
        self._in.exactly(8)  # serialVersionUID
        self._keep_handle(described)
        described.flags = self._in.unsigned(1)
        for _ in range(self._in.unsigned(2)):
            kind = chr(self._in.unsigned(1))
            name = self._in.utf()
            if kind not in PRIMITIVES:
                self.value(depth + 1)  # the field's class, a string
            described.fields.append((kind, name))
        self._read_written_blocks(depth)  # class annotations
        parent = self._class_desc(depth + 1)
        described.levels = [*(parent.levels if parent else ()), described]
        return described

    def _read_object(self, depth: int) -> JavaObject:
        described = self._class_desc(depth + 1)
        if described is None:
            raise self._in.damaged("a class is missing in its index")
        found: JavaObject = self._keep_handle(JavaObject())
        for level in described.levels:
            if not level.flags & SERIALIZABLE:
                raise self._in.damaged(
                    f"its index holds a {level.name}, which Hadoop does not write"
                )
            for kind, name in level.fields:
                found.fields[name] = self._value_of(kind, depth)
            if level.flags & HAS_WRITE_METHOD:
                found.written += self._read_written_blocks(depth)
        return found

    def _read_written_blocks(self, depth: int) -> list[Any]:
        found = []
        while (tag := self._in.unsigned(1)) != END:
            found.append(self._read_tagged(tag, depth + 1))
        return found

    def _value_of(self, kind: str, depth: int) -> Any:
        if kind not in PRIMITIVES:
            return self.value(depth + 1)
        form = ">" + PRIMITIVES[kind]
        return struct.unpack(form, self._in.exactly(struct.calcsize(form)))[0]
