"""Import the bootstrap's modules, whose bytecode an application's tasks on one node share.

`bootstrap.py` runs this module before any other one. Compiling takes more than half of a task's
start. Only bytecode is used that this user wrote, that nobody else can have written, and that is
whole: a full disk, a crash or a program of the job may leave anything there.
"""

from __future__ import annotations

import marshal
import os
import sys
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import CodeType, ModuleType
    from typing import Any


class Modules:
    """Finds and loads the modules, for `sys.meta_path`.

    Their files are for readers, and for the processes that the bootstrap starts.
    """

    def __init__(self, sources: Mapping[str, str], about: bytes) -> None:
        """Write the files into `.tfjob-bootstrap`.

        Args:
            sources: The source of each module, by its path.
            about: What all sources follow from.
        """
        self.sources = sources
        self.root = os.path.abspath(".tfjob-bootstrap")
        python = "%s %d" % (sys.version, sys.flags.optimize)
        self.key = zlib.crc32(about, zlib.crc32(python.encode("utf-8")))
        above = os.path.dirname(os.path.dirname(self.root))
        self.shared = os.path.join(above, ".tfjob-bootstrap-%08x" % self.key)
        os.makedirs(self.root, 0o700, exist_ok=True)  # for this user alone, whatever the umask is
        for name, source in sources.items():
            path = os.path.join(self.root, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as out:
                out.write(source)

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> Any:
        """Return the spec of a module, or None for a foreign one."""
        for end in ("/__init__.py", ".py"):
            file = name.replace(".", "/") + end
            if file in self.sources:
                origin = os.path.join(self.root, file)
                # `importlib.machinery`, which has the class, takes long to import
                make: Any = type(sys.__spec__)
                spec = make(name, self, origin=origin, is_package=end != ".py")
                spec.has_location = True
                return spec
        return None

    def create_module(self, _spec: Any) -> None:
        """Have Python create the module."""

    def exec_module(self, module: ModuleType) -> None:
        """Run a module."""
        name = os.path.relpath(str(module.__file__), self.root)
        exec(self.code(name), module.__dict__)  # noqa: S102  (as every loader does)

    def code(self, name: str) -> CodeType:
        """Return a module's code, as another task compiled it if possible."""
        shared = os.path.join(self.shared, name.replace("/", "."))
        key = zlib.crc32(name.encode("ascii"), self.key)
        try:
            content = _own(shared)
            if content[:8] == b"%08x" % zlib.crc32(content[8:], key):
                code: CodeType = marshal.loads(content[8:])  # noqa: S302  (this user's own)
                return code
        except OSError:
            pass
        code = compile(self.sources[name], ".tfjob-bootstrap/" + name, "exec")
        content, made = marshal.dumps(code), os.path.join(self.root, name + ".new")
        try:
            os.makedirs(self.shared, 0o700, exist_ok=True)
            with open(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
                out.write(b"%08x" % zlib.crc32(content, key) + content)
            os.rename(made, shared)
        except OSError:
            pass  # the disk is full, or this user cannot write there
        return code


def _own(path: str) -> bytes:
    """Return what is in a file, nothing if others may have written it."""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        found = os.fstat(file.fileno())
        foreign = found.st_uid != os.geteuid() or found.st_mode & 0o022
        return b"" if foreign else file.read() or b""
