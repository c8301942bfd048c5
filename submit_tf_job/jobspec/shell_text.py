"""Follow the text of a shell without running it: its commands, where `cd` leads, and what its
variables hold. Parts that are not clear stay as they are written.
"""

from __future__ import annotations

import os
import posixpath
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from submit_tf_job.host.user_files import is_directory

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_LONGEST_WORD = 4096  # of a shell's text with its variables; PATH_MAX
# how a script names the directory that it lies in; the directory behind $(cd DIRECTORY && pwd)
_OWN_DIRECTORY = re.compile(
    r"""\$\(\s*dirname\s+(?:--\s+)?(?P<q>["']?)(?:\$0|\$\{0\}|\$BASH_SOURCE|\$\{BASH_SOURCE(?:\[0\])?\})"""
    r"""(?P=q)\s*\)|\$\{(?:0|BASH_SOURCE(?:\[0\])?)%/\*\}"""
)
_DIRECTORY_ITSELF = re.compile(r"\$\(cd ([\w./-]+)\s*(?:&&|;)\s*pwd(?: -P)?\)")
_SHELL_VARIABLE = re.compile(r"\$\{?([A-Za-z_]\w*)\}?")


@dataclass
class Shell:
    """The state of a shell while its text is followed.

    Attributes:
        base: The directory in which the shell starts.
        inside: The directory that `cd` has entered, relative to `base`; "" for `base`.
        variables: The variables with known values.
        entered: The real paths that were given to `cd` or to a variable.
    """

    base: Path
    inside: str = ""
    variables: dict[str, str] = field(default_factory=dict)
    entered: set[str] = field(default_factory=set)

    def inner(self) -> Shell:
        """Return the state in which a script or a `bash -c` starts. Its `cd` commands and variables
        do not change the outer state; only `entered` is shared.
        """
        return Shell(self.base, self.inside, {**self.variables}, self.entered)

    def commands(self, text: str, script: str = "") -> Iterator[list[str]]:
        """Yield the words of each simple command of a text, with the values of known variables;
        `cd` commands and parentheses are followed.

        Args:
            text: The text.
            script: The name of the script that contains it; "" for the text of a command line.
        """
        if script:
            text = _OWN_DIRECTORY.sub(posixpath.dirname(script) or ".", text)
        outside: list[str] = []
        for written in _simple_commands(text):
            words = [self._expand_variables(word) for word in written]
            if words == ["("]:
                outside.append(self.inside)
            elif words == [")"]:
                self.inside = outside.pop() if outside else self.inside
            elif words[0] in ("cd", "pushd"):
                self._enter_directory(words[-1])
            else:
                yield words

    def assign(self, name: str, value: str) -> None:
        """Store the value of a variable for the commands that follow."""
        entered = _DIRECTORY_ITSELF.fullmatch(value)
        self.variables[name] = value = entered[1] if entered else value
        self.entered.add(os.path.realpath(self.path_of(value)))

    def path_of(self, word: str) -> Path:
        """Return the path that a word stands for, after all `cd` commands before it."""
        return self.base / self.inside / word

    def name_of(self, word: str) -> str:
        """Return the path that a word stands for, relative to `base`."""
        return posixpath.normpath(posixpath.join(self.inside, word))

    def _enter_directory(self, word: str) -> None:
        """Follow a `cd`; ignore it if its directory is below `base` and does not exist."""
        path = self.name_of(word)
        if path.startswith(("/", "..")) or is_directory(self.base / path):
            self.inside = "" if path == "." else path
            self.entered.add(os.path.realpath(self.base / path))

    def _expand_variables(self, word: str) -> str:
        """Return a word in which the variables with known values are expanded."""
        known = {"PWD": ".", **self.variables}
        word = word.replace("$(pwd)", ".")
        value = _SHELL_VARIABLE.sub(lambda found: known.get(found[1], found[0]), word)
        return word if len(value) > _LONGEST_WORD else value


def is_assignment(word: str) -> bool:
    """Return whether a word sets a variable: `NAME=value`."""
    return _ASSIGNMENT.fullmatch(word) is not None


def _simple_commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each simple command in a shell's text; the parsing is only approximate."""
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        try:
            tokens = list(lexer)
        except ValueError:
            tokens = line.split()
        words: list[str] = []
        for token in (*tokens, ";"):
            if not re.fullmatch(r"[();<>|&]+", token):
                words.append(token)
                continue
            if words:
                yield words
                words = []
            yield from ([sign] for sign in token if sign in "()")
