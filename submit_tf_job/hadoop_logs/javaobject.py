"""Parse Java's numbers, texts and object serialization into plain values, without loading classes.

An object becomes a `JavaObject` with its fields and the values that its class wrote itself (the
elements of collections). Source: Java Object Serialization Specification, chapter 6.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

from submit_tf_job.hadoop_logs.interfaces import Damaged

MAGIC = bytes.fromhex("aced0005")
NULL, REFERENCE, CLASS_DESC, OBJECT, STRING, ARRAY, CLASS, BLOCK, END, RESET, LONG_BLOCK = range(
    0x70, 0x7B
)
LONG_STRING, PROXY_DESC, ENUM = 0x7C, 0x7D, 0x7E
HAS_WRITE_METHOD, SERIALIZABLE, EXTERNALIZABLE, IS_ENUM = 1, 2, 4, 16
FIRST_HANDLE = 0x7E0000
MAX_DEPTH = 60
PRIMITIVES = {"B": "b", "C": "H", "D": "d", "F": "f", "I": "i", "J": "q", "S": "h", "Z": "?"}


@dataclass
class _ClassDesc:
    name: str
    flags: int = 0
    fields: list[tuple[str, str]] = field(default_factory=list)
    parent: _ClassDesc | None = None

    def lineage(self) -> list[_ClassDesc]:
        """The class and its parent classes, topmost first."""
        found: list[_ClassDesc] = []
        current: _ClassDesc | None = self
        while current is not None and len(found) < MAX_DEPTH:
            found.insert(0, current)
            current = current.parent
        return found


@dataclass
class JavaObject:
    """One deserialised Java object.

    Attributes:
        name: Its class.
        fields: Its fields by name, including those of parent classes.
        written: Values that its class wrote itself: elements of a collection, raw bytes.
    """

    name: str
    fields: dict[str, Any] = field(default_factory=dict)
    written: list[Any] = field(default_factory=list)


def elements(value: Any) -> list[Any]:
    """Return the elements of a java.util.List."""
    if not isinstance(value, JavaObject):
        return []
    return [item for item in value.written if not isinstance(item, bytes)]


def entries(value: Any) -> list[tuple[Any, Any]]:
    """Return the entries of a java.util.Map, in its order."""
    flat = elements(value)
    return list(zip(flat[::2], flat[1::2], strict=False))


def read_object(data: bytes, fields: Fields, *, limit: int = 2_000_000) -> Any:
    """Read the first object of a serialization stream.

    Args:
        data: The stream.
        fields: Reader that creates the errors.
        limit: Maximum number of values.

    Raises:
        Damaged: The stream is invalid, incomplete or too large.
    """
    if not data.startswith(MAGIC):
        raise fields.damaged("its index is not a Java object")
    reader = _JavaReader(data[len(MAGIC) :], fields.damaged, limit)
    try:
        return reader.content(0)
    except struct.error:
        raise fields.damaged("its index ends too early") from None


class _JavaReader:
    def __init__(self, data: bytes, damaged: Any, limit: int) -> None:
        self._size = len(data)
        self._in = Fields(BytesIO(data).read, damaged)
        self._handles: list[Any] = []
        self._left = limit

    def content(self, depth: int) -> Any:
        """Read one value."""
        return self._tagged(self._in.unsigned(1), depth)

    def _tagged(self, tag: int, depth: int) -> Any:
        self._left -= 1
        if depth > MAX_DEPTH or self._left < 0:
            raise self._wrong("its index is too deep or too large")
        if tag == NULL:
            return None
        if tag == REFERENCE:
            return self._reference()
        if tag in (STRING, LONG_STRING):
            return self._handle(self._in.decode(self._sized(tag)))
        if tag == OBJECT:
            return self._object(depth)
        if tag == ENUM:
            self._class_desc(depth + 1)
            place = self._place()
            self._handles[place] = self.content(depth + 1)
            return self._handles[place]
        if tag == ARRAY:
            return self._array(depth)
        if tag in (BLOCK, LONG_BLOCK):
            return self._sized(tag)
        raise self._wrong(f"its index holds a value of kind {tag:#x}, which Hadoop does not write")

    def _sized(self, tag: int) -> bytes:
        """Read the bytes of a string or block, which follow their number."""
        digits = {STRING: 2, LONG_STRING: 8, BLOCK: 1, LONG_BLOCK: 4}[tag]
        return self._in.exactly(self._in.unsigned(digits), limit=self._size)

    def _wrong(self, what: str) -> Damaged:
        error: Damaged = self._in.damaged(what)
        return error

    def _handle(self, value: Any) -> Any:
        self._handles.append(value)
        return value

    def _place(self) -> int:
        self._handles.append(None)
        return len(self._handles) - 1

    def _reference(self) -> Any:
        number = self._in.integer(4) - FIRST_HANDLE
        if not 0 <= number < len(self._handles):
            raise self._wrong("its index has an invalid reference")
        return self._handles[number]

    def _class_desc(self, depth: int) -> _ClassDesc | None:
        tag = self._in.unsigned(1)
        if tag != CLASS_DESC:
            found = self._tagged(tag, depth) if tag in (NULL, REFERENCE) else False
            if found is None or isinstance(found, _ClassDesc):
                return found
            raise self._wrong("a class is missing in its index")
        if depth > MAX_DEPTH:
            raise self._wrong("its index is too deep or too large")
        described = _ClassDesc(self._in.utf())
        self._in.exactly(8)  # serialVersionUID
        self._handle(described)
        described.flags = self._in.unsigned(1)
        for _ in range(self._in.unsigned(2)):
            kind = chr(self._in.unsigned(1))
            name = self._in.utf()
            if kind not in PRIMITIVES:
                self.content(depth + 1)  # the field's class, a string
            described.fields.append((kind, name))
        self._written(depth)  # class annotations
        described.parent = self._class_desc(depth + 1)
        return described

    def _object(self, depth: int) -> JavaObject:
        described = self._class_desc(depth + 1)
        if described is None:
            raise self._wrong("a class is missing in its index")
        found: JavaObject = self._handle(JavaObject(described.name))
        for level in described.lineage():
            if not level.flags & SERIALIZABLE:
                raise self._wrong(f"its index holds a {level.name}, which Hadoop does not write")
            for kind, name in level.fields:
                found.fields[name] = self._value(kind, depth)
            if level.flags & HAS_WRITE_METHOD:
                found.written += self._written(depth)
        return found

    def _written(self, depth: int) -> list[Any]:
        found = []
        while (tag := self._in.unsigned(1)) != END:
            found.append(self._tagged(tag, depth + 1))
        return found

    def _value(self, kind: str, depth: int) -> Any:
        if kind not in PRIMITIVES:
            return self.content(depth + 1)
        form = ">" + PRIMITIVES[kind]
        return struct.unpack(form, self._in.exactly(struct.calcsize(form)))[0]

    def _array(self, depth: int) -> list[Any]:
        described = self._class_desc(depth + 1)
        if described is None or not described.name.startswith("["):
            raise self._wrong("a class is missing in its index")
        found: list[Any] = self._handle([])
        kind = described.name[1:2]
        for _ in range(self._in.unsigned(4)):
            self._left -= 1
            if self._left < 0:
                raise self._wrong("its index is too deep or too large")
            found.append(self._value(kind, depth))
        return found


# --- numbers and texts ----------------------------------------------------------------------------

MAX_KEY = 64 * 1024
Read = Callable[[int], bytes]


def modified_utf8(data: bytes) -> str:
    """Decode `DataOutput.writeUTF`: NUL as two bytes, characters beyond 0xFFFF as two surrogates of
    three bytes each.
    """
    text = data.replace(b"\xc0\x80", b"\0").decode(
        "utf-8", "surrogatepass" if b"\xed" in data else "replace"
    )
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class Fields:
    """Reader of consecutive fields.

    Args:
        read: Returns up to N bytes.
        damaged: Returns the error with a message.
    """

    def __init__(self, read: Read, damaged: Callable[[str], Damaged]) -> None:
        self._read = read
        self.damaged = damaged

    def exactly(self, length: int, *, limit: int = MAX_KEY) -> bytes:
        """Read `length` bytes, at most `limit`."""
        if not 0 <= length <= limit:
            raise self.damaged(f"a length of {length} where at most {limit} can be")
        data = self._read(length)
        if len(data) != length:
            raise self.damaged(f"it ends after {len(data)} of {length} bytes")
        return data

    def integer(self, size: int) -> int:
        """Read a signed big-endian number."""
        return int.from_bytes(self.exactly(size), "big", signed=True)

    def unsigned(self, size: int) -> int:
        """Read an unsigned big-endian number."""
        return int.from_bytes(self.exactly(size), "big")

    def vint(self) -> int:
        """Read a TFile integer (org.apache.hadoop.io.file.tfile.Utils.readVLong), which is not
        WritableUtils'.
        """
        first = self.integer(1)
        if first >= -32:
            return first
        for bottom, base, more in ((-72, 52, 1), (-104, 88, 2), (-120, 112, 3)):
            if first >= bottom:
                return (first + base) << (8 * more) | self.unsigned(more)
        return self.integer(first + 129)

    def count(self, limit: int) -> int:
        """Read a TFile integer from 0 to `limit`."""
        number = self.vint()
        if not 0 <= number <= limit:
            raise self.damaged(f"a count of {number} where at most {limit} can be")
        return number

    def string(self) -> str:
        """Read a TFile text (Utils.readString): length and UTF-8; -1 is null."""
        length = self.vint()
        return "" if length == -1 else self.exactly(length).decode("utf-8", "replace")

    def utf(self) -> str:
        """Read a text of `DataOutput.writeUTF`."""
        return self.decode(self.exactly(self.unsigned(2)))

    def decode(self, data: bytes) -> str:
        """Decode modified UTF-8."""
        try:
            return modified_utf8(data)
        except UnicodeError:
            raise self.damaged("a text is not modified UTF-8") from None
