"""The Docker Engine of this machine, through its own command line: what it said, or why it did not.

The command line and not a library: it knows contexts, DOCKER_HOST and credential helpers, and is there wherever an engine is.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from submit_tf_job.errors import AuthError, ClusterUnavailable, Refused, SubmitTFJobError

__all__ = ["Answer", "Docker", "refusal"]

CALL_S = 60.0
PULL_S = 3600.0


@dataclass(frozen=True)
class Answer:
    """What one call of Docker came to."""

    status: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """Docker's own words, in one line."""
        lines = [line.strip() for line in self.err.splitlines() if line.strip() and not line.startswith(("See 'docker", "Run 'docker"))]
        return lines[-1].removeprefix("docker: ").removeprefix("Error response from daemon: ") if lines else f"status {self.status}"


@dataclass(frozen=True)
class Docker:
    """One Docker Engine.

    Args:
        variables: Environment of the command line; DOCKER_HOST and DOCKER_CONTEXT in it are Docker's to read.
        host: Its address; "" for the one that Docker itself would take.
    """

    variables: Mapping[str, str] = field(repr=False)
    host: str = ""

    def argv(self, *words: str) -> list[str]:
        """Return the command line of a call."""
        return ["docker", *(("--host", self.host) if self.host else ()), *words]

    def call(self, *words: str, timeout_s: float = CALL_S, stdin: str = "") -> Answer:
        """Call Docker; a call that fails is an answer, too.

        Raises:
            ClusterUnavailable: There is no Docker here, it does not run, or did not answer in time.
            AuthError: Its socket is not ours to use.
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
            raise ClusterUnavailable("there is no `docker` on this machine's PATH", hint="install it: apt-get install docker.io") from None
        except subprocess.TimeoutExpired:
            raise ClusterUnavailable(f"`docker {words[0]}` gave no answer within {timeout_s:g} s", hint="is dockerd well?") from None
        answer = Answer(done.returncode, done.stdout, done.stderr)
        if answer.status:
            _raise_unreachable(answer)
        return answer

    def ask(self, *words: str, timeout_s: float = CALL_S) -> str:
        """Call Docker and return what it printed.

        Raises:
            SubmitTFJobError: It refused, or was not to be reached.
        """
        answer = self.call(*words, timeout_s=timeout_s)
        if answer.status:
            raise refusal(answer, f"`docker {words[0]}`")
        return answer.out

    def image(self, name: str) -> dict[str, Any] | None:
        """Return what Docker knows of an image, None where this machine does not have it."""
        answer = self.call("image", "inspect", name)
        if answer.status:
            if "no such image" in answer.err.lower():
                return None
            raise refusal(answer, f"image {name}")
        found: list[dict[str, Any]] = json.loads(answer.out)
        return found[0] if found else None

    def pull(self, name: str) -> None:
        """Fetch an image from its registry.

        Raises:
            Refused: It is not to be had.
        """
        answer = self.call("pull", "--quiet", name, timeout_s=PULL_S)
        if answer.status:
            raise Refused(
                f"image {name} is not on this machine, and cannot be pulled: {answer.complaint}",
                hint="correct the name, `docker login` to its registry, or build it here",
            )


def refusal(answer: Answer, what: str) -> SubmitTFJobError:
    """Turn an answer that is a refusal into one of our errors."""
    if re.search(r"pull access denied|not found: manifest|manifest unknown|no such image|unable to find image", answer.err, re.IGNORECASE):
        return Refused(f"{what}: {answer.complaint}", hint="correct the name, `docker login` to its registry, or build it here")
    return Refused(f"{what}: Docker refused: {answer.complaint}")


def _raise_unreachable(answer: Answer) -> None:
    """Raise where the engine itself was not reached."""
    said = answer.err
    if "permission denied while trying to connect" in said:
        raise AuthError(
            "Docker's socket may not be used by you",
            hint="have your user added to the group docker (that is as good as root), or name an engine of your own by docker.host",
            details={"docker": answer.complaint},
        )
    if re.search(r"[Cc]annot connect to the Docker daemon|error during connect|unable to resolve docker endpoint", said):
        raise ClusterUnavailable(
            f"Docker does not answer: {answer.complaint}",
            hint="start it (`systemctl start docker`), or name another engine by docker.host or DOCKER_HOST",
        )
