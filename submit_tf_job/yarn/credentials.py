"""A secret that lies in a file, that a command prints or that a program holds: read when it is needed, and again when it has lapsed."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

from submit_tf_job.errors import AuthError, SettingsError
from submit_tf_job.secretfile import one_secret, read_secret

__all__ = ["Credentials"]

COMMAND_TIMEOUT_S = 60.0


class Credentials:
    """One secret of `credentials.file` or `credentials.command`, or one that was given.

    Args:
        what: What it is, for messages: "bearer token".
        file: Where it lies; its owner alone may read it.
        command: Words of the command that prints it; run without a shell, its standard error is shown where it fails.
        given: The secret itself, in place of both.

    Raises:
        SettingsError: when none of these is given, or more than one, or what is given is no secret.
    """

    def __init__(self, what: str, file: Path | None, command: Sequence[str] | None, *, given: str | None = None) -> None:
        if sum(source is not None for source in (file, command, given)) != 1:
            raise SettingsError(
                f"the {what} is {'to be found in two places' if file or command else 'nowhere to be found'}",
                hint="set one of credentials.file and credentials.command",
            )
        self.what = what
        self._file = file
        self._command = tuple(command or ())
        self._given = None if given is None else one_secret(given.encode(), f"the {what}")
        self._secret: str | None = None
        self._reading = threading.Lock()

    def __repr__(self) -> str:
        return f"Credentials({self.what!r})"  # never the secret

    @property
    def secret(self) -> str:
        """The secret, read at its first use.

        Raises:
            SettingsError: The file cannot be used.
            AuthError: The command failed.
        """
        with self._reading:
            if self._secret is None:
                self._secret = self._read()
            return self._secret

    def renewed(self, lapsed: str) -> str | None:
        """Read again after a server refused the secret `lapsed`; None where there is no other."""
        with self._reading:
            if self._secret in (None, lapsed):
                self._secret = self._read()
            return self._secret if self._secret != lapsed else None

    def _read(self) -> str:
        if self._given is not None:
            return self._given
        return read_secret(self._file, f"the {self.what}") if self._file is not None else self._run()

    def _run(self) -> str:
        name = self._command[0]
        try:
            done = subprocess.run(self._command, stdin=subprocess.DEVNULL, capture_output=True, timeout=COMMAND_TIMEOUT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            why = f"no answer within {COMMAND_TIMEOUT_S:.0f} s" if isinstance(error, subprocess.TimeoutExpired) else error.strerror
            raise AuthError(f"credentials.command {name!r} cannot be run: {why}", hint="try it by hand") from None
        if done.returncode != 0:
            words = done.stderr.decode(errors="replace").strip().splitlines()
            raise AuthError(
                f"credentials.command {name!r} ended with status {done.returncode}{f': {words[-1]}' if words else ''}",
                hint="try it by hand",
            )
        return one_secret(done.stdout, f"what credentials.command {name!r} printed as {self.what}")
