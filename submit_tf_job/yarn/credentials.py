"""A secret that lies in a file or that a command prints: read when it is needed, and again when the server calls it lapsed."""

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
    """One secret of `credentials.file` or `credentials.command`.

    Args:
        what: What it is, for messages: "bearer token".
        file: Where it lies; its owner alone may read it.
        command: Words of the command that prints it; run without a shell, its standard error is shown where it fails.

    Raises:
        SettingsError: when neither is given, or both.
    """

    def __init__(self, what: str, file: Path | None, command: Sequence[str] | None) -> None:
        if (file is None) == (command is None):
            raise SettingsError(
                f"the {what} is {'nowhere to be found' if file is None else 'to be found in two places'}",
                hint="set one of credentials.file and credentials.command",
            )
        self.what = what
        self._file = file
        self._command = tuple(command or ())
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
