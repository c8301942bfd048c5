"""Call the Docker Engine of this machine through Docker's command line.

Docker's own command line supports contexts, DOCKER_HOST and credential helpers, and is installed
wherever an engine is.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from submit_tf_job.errors import AuthError, Refused, SettingsError, SubmitTFJobError

CALL_S = 60.0
PULL_S = 3600.0


@dataclass(frozen=True)
class Answer:
    """The result of one Docker command."""

    status: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """Docker's own error message, in one line."""
        last = f"status {self.status}"
        for line in self.err.splitlines():
            if line.strip() and not line.startswith(("See 'docker", "Run 'docker")):
                last = line.strip()
        return last.removeprefix("docker: ").removeprefix("Error response from daemon: ")


@dataclass(frozen=True)
class Docker:
    """One Docker Engine.

    Args:
        variables: Environment of the command line; Docker reads DOCKER_HOST and DOCKER_CONTEXT.
        host: The engine's address; "" for Docker's default.
    """

    variables: Mapping[str, str] = field(repr=False)
    host: str = ""

    def argv(self, *words: str) -> list[str]:
        """Return the command line of a call."""
        if self.host:
            words = ("--host", self.host, *words)
        return ["docker", *words]

    def call(self, *words: str, timeout_s: float = CALL_S, stdin: str = "") -> Answer:
        """Run a Docker command and return its result, even if it fails.

        Raises:
            SettingsError: Docker is not installed, does not run, or did not respond in time.
            AuthError: This user may not use Docker's socket.
        """
        try:
            done = subprocess.run(
                self.argv(*words),
                env=dict(self.variables),
                input=stdin,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout_s,
                check=False,
            )
        except FileNotFoundError:
            raise SettingsError(
                "there is no `docker` on this machine's PATH",
                hint="install it: apt-get install docker.io",
            ) from None
        except subprocess.TimeoutExpired:
            raise SettingsError(
                f"`docker {words[0]}` gave no answer within {timeout_s:g} s",
                hint="check that dockerd runs",
            ) from None
        answer = Answer(done.returncode, done.stdout, done.stderr)
        if answer.status:
            _raise_unreachable(answer)
        return answer

    def ask(self, *words: str, timeout_s: float = CALL_S) -> str:
        """Run a Docker command and return its output.

        Raises:
            SubmitTFJobError: The call failed, or Docker could not be reached.
        """
        answer = self.call(*words, timeout_s=timeout_s)
        if answer.status:
            raise refusal(answer, f"`docker {words[0]}`")
        return answer.out

    def image(self, name: str) -> dict[str, Any] | None:
        """Return what `docker image inspect` reports; None if this machine does not have the image.

        Raises:
            SubmitTFJobError: The call failed for another reason.
        """
        answer = self.call("image", "inspect", name)
        if answer.status:
            if "no such image" in answer.err.lower():
                return None
            raise refusal(answer, f"image {name}")
        found: list[dict[str, Any]] = json.loads(answer.out)
        return next(iter(found), None)

    def pull(self, name: str) -> None:
        """Fetch an image from its registry.

        Raises:
            Refused: The image is not available.
            SettingsError, AuthError: As `call`.
        """
        answer = self.call("pull", "--quiet", name, timeout_s=PULL_S)
        if answer.status:
            raise Refused(
                f"image {name} is not on this machine, and cannot be pulled: {answer.complaint}",
                hint="correct the name, `docker login` to its registry, or build it here",
            )


def refusal(answer: Answer, what: str) -> SubmitTFJobError:
    """Return the error for a call that failed; `what` is the subject of the message."""
    return Refused(f"{what}: Docker refused: {answer.complaint}")


def _raise_unreachable(answer: Answer) -> None:
    """Raise an error if the engine could not be reached."""
    said = answer.err
    if "permission denied while trying to connect" in said:
        raise AuthError(
            "you may not use Docker's socket",
            hint="have your user added to the group docker (which gives root's rights), or set "
            "docker.host to an engine of your own",
            details={"docker": answer.complaint},
        )
    if re.search(
        r"[Cc]annot connect to the Docker daemon|error during connect|unable to resolve docker endpoint",  # noqa: E501
        said,
    ):
        raise SettingsError(
            f"Docker does not answer: {answer.complaint}",
            hint="start it (`systemctl start docker`), or set docker.host or DOCKER_HOST to "
            "another engine",
        )
