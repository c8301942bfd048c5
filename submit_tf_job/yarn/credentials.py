"""Secrets from a file, a command or the caller: read at first use, and again after they expire."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

from submit_tf_job.errors import AuthError, SettingsError
from submit_tf_job.host.secretfile import one_secret, read_secret

__all__ = ["Credentials"]

COMMAND_TIMEOUT_S = 60.0


class Credentials:
    """One secret of `credentials.file` or `credentials.command`, or one given directly.

    Args:
        what: Kind of secret, for messages: "bearer token".
        file: File that contains it, which only its owner may read.
        command: Words of the command that prints it; run without a shell. Its standard error is
            shown if it fails.
        given: The secret itself, instead of both.

    Raises:
        SettingsError: when none of these is given, or more than one, or the given secret is not
            valid.
    """

    def __init__(
        self,
        what: str,
        file: Path | None,
        command: Sequence[str] | None,
        *,
        given: str | None = None,
    ) -> None:
        if sum(source is not None for source in (file, command, given)) != 1:
            raise SettingsError(
                f"the {what} is "
                f"{'to be found in two places' if file or command else 'nowhere to be found'}",
                hint="set one of credentials.file and credentials.command",
            )
        self.what = what
        self._file = file
        self._command = tuple(command or ())
        self._given = None
        if given is not None:
            self._given = one_secret(given.encode(), f"the {what}")
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
        """Read the secret again after a server rejected `lapsed`; return None if unchanged."""
        with self._reading:
            if self._secret in (None, lapsed):
                self._secret = self._read()
            if self._secret == lapsed:
                return None
            return self._secret

    def _read(self) -> str:
        if self._given is not None:
            return self._given
        if self._file is not None:
            return read_secret(self._file, f"the {self.what}")
        return self._run()

    def _run(self) -> str:
        name = self._command[0]
        try:
            done = subprocess.run(
                self._command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=COMMAND_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            why = getattr(error, "strerror", f"no answer within {COMMAND_TIMEOUT_S:.0f} s")
            raise AuthError(
                f"credentials.command {name!r} cannot be run: {why}", hint="try it by hand"
            ) from None
        if done.returncode != 0:
            words = done.stderr.decode(errors="replace").strip().splitlines()
            raise AuthError(
                f"credentials.command {name!r} exited with status "
                f"{done.returncode}{f': {words[-1]}' if words else ''}",
                hint="try it by hand",
            )
        return one_secret(done.stdout, f"what credentials.command {name!r} printed as {self.what}")
