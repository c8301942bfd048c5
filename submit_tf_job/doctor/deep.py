"""doctor --deep: a tiny real job that looks around inside its containers, and is deleted whatever happens."""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from submit_tf_job.api.cluster import Cluster, JobRef, connect
from submit_tf_job.errors import SubmitTFJobError
from submit_tf_job.settings import Settings

if TYPE_CHECKING:
    from submit_tf_job.diagnose.findings import Finding
    from submit_tf_job.watch import Look

__all__ = ["DEFAULT_IMAGE", "deep"]

DEFAULT_IMAGE = "tensorflow/tensorflow:2.15.0"
FOLLOW_S = 420.0  # a first pull of a TensorFlow image takes minutes


def deep(
    settings: Settings,
    *,
    image: str | None = None,
    queue: str | None = None,
    on_look: Callable[[Look], None] = lambda _look: None,
    timeout_s: float = FOLLOW_S,
) -> tuple[Finding, ...]:
    """Submit a job of two small tasks and return what they saw.

    Args:
        settings: The settings.
        image: Image of the containers; default: that of the settings' `job`, or a TensorFlow image.
        queue: Queue of the job.
        on_look: Told how the job stands.
        timeout_s: How long the job may take.
    """
    from submit_tf_job.api.control import delete
    from submit_tf_job.diagnose.findings import FAILURE, Finding

    name = f"doctor-{secrets.token_hex(4)}"
    cluster = connect(settings)
    try:
        look, answers = _run(cluster, _job_spec(settings, name, image, queue), name, on_look, timeout_s)
    except SubmitTFJobError as error:
        return (Finding("job", FAILURE, error.message, "every job like it", error.hint),)
    finally:
        with contextlib.suppress(SubmitTFJobError):  # what kept it from running keeps it from being deleted; its lifetime ends it
            delete(cluster, name, force=True)
    return _findings(look, answers)


def _job_spec(settings: Settings, name: str, image: str | None, queue: str | None) -> bytes:
    from submit_tf_job import probe

    spec: dict[str, Any] = {
        "name": name,
        "image": image or settings["job"].get("image") or DEFAULT_IMAGE,
        "strategy": "custom",
        "deciding_role": "probe",
        "command": ["python3", "probe.py"],
        "files": [{"src": str(Path(probe.__file__)), "dst": "probe.py"}],
        "env": {probe.ENV_NAMENODE: _name_node(settings)},
        "roles": {"probe": {"instances": 2, "memory": "1Gi"}},
        "lifetime": "15m",
        "start_timeout": "5m",
    }
    return json.dumps({**spec, **({"queue": queue} if queue else {})}).encode()


def _name_node(settings: Settings) -> str:
    """Return the NameNode as host:port, "" where the configuration names none, or a nameservice of several."""
    from submit_tf_job.storage import default_fs

    conf: Path | None = settings["hadoop_conf"]
    if conf is None:
        return ""
    try:
        parts = urlsplit(default_fs(conf))
        return f"{parts.hostname}:{parts.port}" if parts.scheme == "hdfs" and parts.port else ""
    except (SubmitTFJobError, ValueError):
        return ""


def _run(
    cluster: Cluster, text: bytes, name: str, on_look: Callable[[Look], None], timeout_s: float
) -> tuple[Look, tuple[Mapping[str, Any], ...]]:
    from submit_tf_job.api.submitting import follow_own, load_job, make_plan, submit

    job = load_job(Path(f"{name}.json"), cluster.settings, text=text)
    done = submit(make_plan(job, cluster.settings), cluster)
    look = follow_own(cluster, done, timeout_s=timeout_s, on_look=on_look)
    return look, _answers(cluster, done.ref)


def _answers(cluster: Cluster, ref: JobRef) -> tuple[Mapping[str, Any], ...]:
    """Read what the tasks printed; logs that are still on their way are waited for."""
    from submit_tf_job.api.reading import logs
    from submit_tf_job.probe import MARK

    for pause_s in (0.0, 1.0, 2.0, 4.0, 8.0, 15.0):
        cluster.sleep(pause_s)
        try:
            lines = [line.text for line in logs(cluster, ref.application_id or ref.name, files=["stdout.txt"])]
        except SubmitTFJobError:
            continue
        found = tuple(value for line in lines if line.startswith(MARK) and isinstance(value := _json(line[len(MARK) :]), dict))
        if found:
            return found
    return ()


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _findings(look: Look, answers: tuple[Mapping[str, Any], ...]) -> tuple[Finding, ...]:
    from submit_tf_job.diagnose.findings import FAILURE, OK, WARNING, Finding, inside

    state, reason = look.verdict.state.value, look.verdict.reason
    facts = {"application_id": look.seen.application_id, "state": state}
    if state != "SUCCEEDED":
        fix = look.verdict.hint or "see docs/troubleshooting.md"
        job = Finding("job", FAILURE, f"a job of two tasks ended as {state}: {reason}", "every job like it", fix, facts)
    else:
        job = Finding("job", OK, "a job of two tasks was submitted, ran and ended well", facts=facts)
    if not answers:
        fix = "is log aggregation on, and HDFS readable from here?"
        return (job, Finding("inside", WARNING, "what the tasks saw could not be read from their logs", "reading logs", fix))
    return (job, *inside(_worst(answers)))


def _worst(answers: tuple[Mapping[str, Any], ...]) -> dict[str, Any]:
    """Of several tasks' answers to one question take the worst."""
    weight: dict[Any, int] = {"failure": 2, "warning": 1}
    found: dict[str, Any] = {}
    for answer in answers:
        for name, value in answer.items():
            if isinstance(value, dict) and weight.get(value.get("status"), 0) >= weight.get(found.get(name, {}).get("status"), 0):
                found[name] = value
    return found
