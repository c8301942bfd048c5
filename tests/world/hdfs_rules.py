"""What an upload needs of HDFS: the same checks run on the one in memory and on a real one."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from typing import Any

NAMES = (
    *(
        "ü 日本",
        "a b",
        "%41",
        "a%2Fb",
        "a+b",
        "a&b=c",
        "a?b#c",
        "a;b=1",
        "a\\b",
        "a\nb",
        "\r",
        "\t",
    ),
    *(
        "\x01",
        "😀",
        "~",
        "*",
        "[x]",
        "{x}",
        "$x",
        "'",
        '"',
        "-",
        "...",
        ".hidden",
        " lead",
        "trail ",
    ),
    *("@", "|", "<", "^", "`", "x" * 255, "e\u0301"),
)
REFUSED = ("a:b", ":", "10:00:00.log", "ü" * 128, ".snapshot", "lo\udcdcs")


def refusal(call: Callable[[], Any]) -> Any:
    """Return the error of a call, which must fail."""
    try:
        call()
    except Exception as error:  # noqa: BLE001 - the checks say which it must be
        return error
    raise AssertionError("it did not fail")


def check_rules(store: Any, root: str) -> None:
    """Check each operation of an upload's store, in a new directory."""

    def at(*names: str) -> str:
        return posixpath.join(root, *names)

    def lasts(call: Callable[[], Any]) -> None:
        error = refusal(call)
        assert error.transient is False, repr(error)

    # --- create, mkdirs, delete ---
    store.mkdirs(at("d", "deep"))
    store.write(at("d", "x"), [b"one", b"two"], 6)
    assert store.stat(at("d", "x")) == (at("d", "x"), False, 6)
    assert b"".join(store.read(at("d", "x"))) == b"onetwo"
    for taken in (at("d", "x"), at("d", "deep"), at("d", "x", "y")):
        refusal(lambda taken=taken: store.write(taken, [b"new"], 3))  # type: ignore[misc]
    refusal(lambda: store.mkdirs(at("d", "x", "y")))
    assert b"".join(store.read(at("d", "x"))) == b"onetwo"
    assert sorted(store.list(at("d"))) == [(at("d", "deep"), True, 0), (at("d", "x"), False, 6)]
    for missing in (lambda: store.list(at("no")), lambda: list(store.read(at("d", "no")))):
        assert type(refusal(missing)).__name__ == "NotFound"
    refusal(lambda: list(store.read(at("d"))))
    store.remove(at("no"))

    # --- the version: what is put into a directory changes it, a rename does not ---
    first = store.version(at("d"))
    store.mkdirs(at("d"))
    store.write(at("d", "deep", "y"), [b"y"], 1)
    assert store.version(at("d")) == first
    store.rename(at("d"), at("e"))
    assert store.version(at("e")) == first
    assert store.version(at("d")) is None
    assert b"".join(store.read(at("e", "deep", "y"))) == b"y"

    # --- a rename replaces nothing, and fails where it cannot be done ---
    store.mkdirs(at("d"))
    store.write(at("file"), [b"1"], 1)
    for target in ("d", "file"):
        refusal(lambda target=target: store.rename(at("e"), at(target)))  # type: ignore[misc]
    refusal(lambda: store.rename(at("no"), at("d")))
    assert type(refusal(lambda: store.rename(at("no"), at("new")))).__name__ == "NotFound"
    assert type(refusal(lambda: store.rename(at("e"), at("no", "e")))).__name__ == "NotFound"
    refusal(lambda: store.rename(at("e"), at("e", "deep", "e")))
    refusal(lambda: store.rename(at("e"), at("file", "e")))
    refusal(lambda: store.rename(at("e"), at("a:b")))
    assert store.list(at("d")) == []
    assert [name for name, _, _ in sorted(store.list(at("e")))] == [at("e", "deep"), at("e", "x")]
    store.remove(at("e"))
    assert store.version(at("e")) is None

    # --- names ---
    for name in NAMES:
        store.mkdirs(at("n", name))
        store.write(at("n", name, name), [name.encode()], len(name.encode()))
        store.rename(at("n", name), at("m"))
        assert [path for path, _, _ in store.list(at("m"))] == [at("m", name)], name
        assert b"".join(store.read(at("m", name))) == name.encode()
        store.remove(at("m", name))
        assert store.list(at("m")) == [], name
        store.remove(at("m"))
    for name in REFUSED:
        lasts(lambda name=name: store.mkdirs(at("n", name)))  # type: ignore[misc]
        lasts(lambda name=name: store.write(at("n", name), [b"1"], 1))  # type: ignore[misc]
    assert store.list(at("n")) == []

    # --- the trash ---
    trash = store.trash(at("d"))
    assert trash.startswith("/user/")
    assert trash.endswith("/.Trash")
