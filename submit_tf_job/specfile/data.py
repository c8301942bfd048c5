"""Read `inputs` and `outputs`: what a job reads and writes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from submit_tf_job.jobdata import PATTERN, Input, OnFailure, Output, Uploader
from submit_tf_job.specfile.nodes import clip
from submit_tf_job.specfile.values import Section, Value
from submit_tf_job.specfile.vocabulary import INPUT, OUTPUT, closest

__all__ = ["SCHEMES", "read_inputs", "read_outputs"]

T = TypeVar("T")

SCHEMES = ("hdfs", "viewfs", "webhdfs", "swebhdfs", "file", "s3", "s3a", "gs", "abfs", "abfss")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")  # in capitals it is the end of an environment variable's name
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/\s]*)(/.*)?", re.DOTALL)
_MOST = 50


def read_inputs(value: Value) -> tuple[Input, ...]:
    """Read `inputs`; what is wrong is noted, and left out."""
    return _read_all(value, "a mapping of names to URIs, as in {data: hdfs:///data/train}", _input)


def read_outputs(value: Value) -> tuple[Output, ...]:
    """Read `outputs`; what is wrong is noted, and left out."""
    return _read_all(value, "a mapping of names to URIs, as in {model: hdfs:///models/mnist}", _output)


def _read_all(value: Value, expected: str, read: Callable[[str, Value], T | None]) -> tuple[T, ...]:
    found = []
    for number, (name, item) in enumerate(value.members(expected)):
        if number == _MOST:
            item.fail(f"more than {_MOST}; put what belongs together into one directory")
            break
        if not _NAME.fullmatch(name):
            item.fail(f"{clip(name)} is no name here; use a-z, 0-9 and '_', a letter first, at most 32")
            continue
        made = read(name, item)
        if made is not None:
            found.append(made)
    return tuple(found)


def _input(name: str, value: Value) -> Input | None:
    if not value.is_mapping:
        uri = _uri(value)
        return None if uri is None else Input(name, uri)
    section = value.section(INPUT, "a URI, or a mapping such as {uri: hdfs:///data/train, shard: files}")
    if section is None:
        return None
    uri = _required_uri(section)
    shard = section.optional("shard", lambda item: item.word(["files", "none"], {"file": "files", "true": "files", "no": "none"}))
    download = section.optional("download", Value.flag)
    return None if uri is None else Input(name, uri, shard == "files", download is True)


def _output(name: str, value: Value) -> Output | None:
    if not value.is_mapping:
        uri = _plain_uri(value)
        return None if uri is None else Output(name, uri)
    section = value.section(OUTPUT, "a URI, or a mapping such as {uri: hdfs:///models/mnist, upload: true}")
    if section is None:
        return None
    uri = section.required("uri", _plain_uri, "say where, as in uri: hdfs:///models/mnist")
    upload = section.optional("upload", Value.flag) is True
    by = section.optional("by", lambda item: item.one_of(Uploader, {"chief": "deciding-task", "all": "every-task", "each": "every-task"}))
    on_failure = section.optional("on_failure", lambda item: item.one_of(OnFailure, {"delete": "discard", "drop": "discard"}))
    overwrite = section.optional("overwrite", Value.flag) is True
    for key in ("by", "on_failure", "overwrite"):
        if section.has(key) and not upload and "upload" not in section.meant:
            section.value.fail(f"{key} is about what is uploaded; say upload: true, or leave {key} out")
            break
    if uri is None:
        return None
    return Output(name, uri, upload, by or Uploader.DECIDING_TASK, on_failure or OnFailure.DISCARD, overwrite)


def _required_uri(section: Section) -> str | None:
    return section.required("uri", _uri, "say where it is, as in uri: hdfs:///data/train")


def _plain_uri(value: Value) -> str | None:
    uri = _uri(value)
    if uri is not None and PATTERN.search(uri):
        return value.fail(f"{clip(uri)} is a pattern, and an output has one name; leave '*', '?' and '[' out")
    return uri


def _uri(value: Value) -> str | None:
    """Read an absolute URI of a file system; a slash at its end means nothing."""
    text = value.text(expected="a URI, as in hdfs:///data/train")
    if text is None:
        return None
    found = _URI.fullmatch(text)
    if found is None:
        return value.fail(
            f"{clip(text)} does not say which file system; write hdfs://{text if text.startswith('/') else '/' + text}, or file://…"
        )
    scheme, authority, path = found[1], found[2], (found[3] or "").rstrip("/")
    if scheme not in SCHEMES:
        near = closest(scheme.lower(), list(SCHEMES))
        meant = f"did you mean {near}://?" if near else f"known are {', '.join(SCHEMES)}"
        return value.fail(f"{clip(text)}: unknown file system '{scheme}'; {meant}")
    if not path or ".." in path.split("/") or "\n" in path:
        return value.fail(f"{clip(text)} names no file or directory; write the path from the root, without '..'")
    if scheme == "file" and authority not in ("", "localhost"):
        return value.fail(f"{clip(text)} names a host; a file of this kind is written with three slashes, as in file:///{authority}{path}")
    if scheme not in ("hdfs", "viewfs", "file") and not authority:
        return value.fail(f"{clip(text)} names no host or bucket; write {scheme}://…{path}")
    return f"{scheme}://{authority}{path}"
