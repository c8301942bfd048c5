"""Commands doctor, put, image check, config show and staging gc, and what they print."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from submit_tf_job.cli.context import Context
from submit_tf_job.cli.jobs import FromOption, SetOption, read_job, seconds
from submit_tf_job.diagnose.amounts import clause, plural, size
from submit_tf_job.errors import UsageError
from submit_tf_job.jobspec.job import NO_IMAGE, Job
from submit_tf_job.json_values import document, plain, plain_value
from submit_tf_job.operations.staging import sweep_staging
from submit_tf_job.settings import Settings, keys

if TYPE_CHECKING:
    from submit_tf_job.doctor.findings import Check, Examination
    from submit_tf_job.operations.staging import Sweep
    from submit_tf_job.storage.staging import Leftover


def doctor(
    context: Context,
    deep: Annotated[
        bool,
        typer.Option(
            "--deep",
            help="Submit a tiny job that checks from inside containers; deleted at the end.",
        ),
    ] = False,
    image: Annotated[
        str | None, typer.Option(metavar="IMAGE", help="Image of the tiny job.")
    ] = None,
    queue: Annotated[
        str | None, typer.Option(metavar="QUEUE", help="Queue to check, and of the tiny job.")
    ] = None,
    spec: Annotated[
        str | None,
        typer.Option(
            "--file",
            "-f",
            metavar="FILE",
            help="Job spec whose image, queue, network and mounts the tiny job gets.",
            show_default=False,
        ),
    ] = None,
    overrides: SetOption = None,
    dialect: FromOption = None,
) -> int:
    """Check that this machine can run jobs on the cluster; exit status 1 if a check fails.

    Settings, names, ResourceManagers, services API, authentication, queue, nodes, Docker, Registry
    DNS, logs, HDFS, clocks: each finding is ok, a warning or a failure, with its effect and how to
    fix it.

    \b
    Examples:
      submit_tf_job doctor
      submit_tf_job doctor --queue ml
      submit_tf_job doctor --deep --image tensorflow/tensorflow:2.15.0
      submit_tf_job doctor --deep --file train.yaml
    """
    if image is not None and not deep:
        raise UsageError("--image is the image of the job that --deep submits", hint="add --deep")
    if spec is not None and not deep:
        raise UsageError("--file is the job that --deep imitates", hint="add --deep")
    if (overrides or dialect) and spec is None:
        raise UsageError("--set and --from need --file", hint="leave them out")
    from submit_tf_job.doctor.checks import doctor as examine
    from submit_tf_job.doctor.deep import deep as look_inside

    settings = context.settings()
    job = None
    if spec is not None:
        job = read_job(spec, settings, overrides, None, context.say, dialect)
        queue = queue or job.queue
    found = examine(settings, queue=queue)
    if deep and "services-api" in found.skipped:
        found = replace(found, skipped=(*found.skipped, "job"))
    elif deep:
        context.interrupted = "The job of the doctor is deleted."
        context.say("submitting a job of small tasks; a first pull of its image takes minutes")
        spread = any(check.id == "placement" and check.status == "ok" for check in found.findings)
        inside = look_inside(settings, image=image, queue=queue, job=job, spread=spread)
        found = replace(found, findings=(*found.findings, *inside))
    context.result(_examination_lines(found), lambda: _doctor_object(found))
    context.say(_summary_line(found))
    return int(found.failed)


# --- put ---


def put(
    context: Context,
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH... TARGET",
            help="Files and directories of this host, and last where they go.",
            show_default=False,
        ),
    ],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace files that exist there.")
    ] = False,
) -> int:
    """Copy files and directories of this host to HDFS, without Java, as `hdfs dfs -put` does.

    TARGET is a URI, or a path of the cluster's default file system. What is a directory there, ends
    in `/`, or gets several files has them below it; else it is the new name. Nothing is copied if
    something of that name is there, or a name does not suit HDFS.

    \b
    Examples:
      submit_tf_job put churn.csv hdfs:///data/
      submit_tf_job put images/ hdfs:///data/images
      submit_tf_job put a.csv b.csv /user/alice/ --overwrite
    """
    if len(paths) < 2:
        raise UsageError("missing TARGET", hint=f"such as: put {paths[0]} hdfs:///user/NAME/")
    from submit_tf_job.operations.put import put as copy

    *sources, target = paths
    found = copy(context.settings(), sources, target, overwrite=overwrite)
    lines = [
        f"{one.source} → {one.uri}  {plural(one.files, 'file')}, {size(one.bytes)}" for one in found
    ]
    context.result(lines, lambda: document("Put", copied=[plain(one) for one in found]))
    return 0


# --- image check ----------------------------------------------------------------------------------


def check(
    context: Context,
    image: Annotated[
        str | None,
        typer.Argument(
            metavar="[IMAGE]",
            help="Image on this machine, named as in a job spec.",
            show_default=False,
        ),
    ] = None,
    spec: Annotated[
        str | None,
        typer.Option(
            "--file",
            "-f",
            metavar="FILE",
            help="Check the images of this job spec instead.",
            show_default=False,
        ),
    ] = None,
    overrides: SetOption = None,
    dialect: FromOption = None,
    python: Annotated[
        str | None,
        typer.Option(
            metavar="PROGRAM",
            help="Interpreter for the bootstrap.  [default: python3, or the job spec's]",
            show_default=False,
        ),
    ] = None,
) -> int:
    """Check images of this machine for what YARN, HDFS, Kerberos, GPUs and TensorFlow need.

    The exit status is 1 if a check fails. The image is run for some seconds, without a network and
    under a user id that it does not contain; its ENTRYPOINT is tried, too.
    `submit_tf_job help images` lists what an image must have.

    \b
    Examples:
      submit_tf_job image check registry.example.com/ml/tf:2.15
      submit_tf_job image check ml/tf:2.15 --python /opt/bin/python -o json
      submit_tf_job image check --file train.yaml
    """
    from submit_tf_job.doctor.images import check_image

    settings = context.settings()
    if spec is not None:
        if image is not None:
            raise UsageError("image check takes an image or --file", hint="leave one of them out")
        return _check_all(
            context,
            settings,
            read_job(spec, settings, overrides, None, context.say, dialect),
            python,
        )
    if image is None:
        raise UsageError(
            "image check needs an image, or a job spec by --file",
            hint="submit_tf_job image check --file train.yaml",
        )
    if overrides or dialect:
        raise UsageError("--set and --from need --file", hint="leave them out")
    found = check_image(settings, image, python=python or "python3")
    context.result(_examination_lines(found), lambda: _image_object(image, found))
    context.say(_summary_line(found))
    return int(found.failed)


def _check_all(context: Context, settings: Settings, job: Job, python: str | None) -> int:
    """Check each image of a job once, with the interpreter of the first role that uses the image,
    unless `python` is given. Print the findings, and return the exit status.

    Raises:
        UsageError: The job has no image.
        SubmitTFJobError: As `check_image`.
    """
    from submit_tf_job.doctor.images import check_image

    interpreters = {
        role.image: python or job.python_of(role).interpreter
        for role in reversed(list(job.roles.values()))
        if role.image != NO_IMAGE
    }
    if not interpreters:
        raise UsageError(f"{job.name} has no image", hint="its tasks are processes of their nodes")
    checked = {
        image: check_image(settings, image, python=interpreters[image])
        for image in sorted(interpreters)
    }
    lines = []
    for image, found in checked.items():
        lines += [image, *_examination_lines(found), _summary_line(found)]
    failed = any(found.failed for found in checked.values())
    images = [_image_object(image, found) for image, found in checked.items()]
    context.result(lines, lambda: document("Images", ok=not failed, images=images))
    return int(failed)


# --- config ---------------------------------------------------------------------------------------


def show(context: Context) -> None:
    """Show every setting, its value, and where the value came from.

    \b
    Example: submit_tf_job config show --profile prod
    """
    settings = context.settings()
    values: dict[str, dict[str, Any]] = {}
    for name, key in keys().items():
        origins = settings.origins
        values[name] = {"value": plain_value(key.value_of(settings)), "origin": origins[name]}
        if key.merged:
            of_keys = {path: at for path, at in origins.items() if path.startswith(f"{name}.")}
            values[name]["origins"] = of_keys
    context.result(
        _settings_lines(settings.profile, values),
        lambda: document("Settings", profile=settings.profile, settings=values),
    )


# --- staging --------------------------------------------------------------------------------------


WEEK_S = 7 * 24 * 3600.0


def gc(
    context: Context,
    older_than: Annotated[
        str,
        typer.Option(
            metavar="DURATION", help="Only files that were last submitted this long ago: 12h, 7d."
        ),
    ] = "7d",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be removed, and remove nothing.")
    ] = False,
) -> None:
    """Remove files from HDFS that were staged for jobs that no longer exist, and the ended runs of
    all jobs beyond `keep_runs` of the settings.

    `delete` removes a job's files with its runs. Files remain of clients that died during a
    submission, and of finished jobs that were not deleted. Files of a waiting or running job are
    never removed.

    \b
    Examples:
      submit_tf_job staging gc --dry-run
      submit_tf_job staging gc --older-than 12h
    """
    limit = timedelta(seconds=seconds(older_than, "--older-than") or WEEK_S)
    swept = sweep_staging(context.cluster(), older_than=limit, dry_run=dry_run)
    context.result(
        _sweep_lines(swept),
        lambda: document(
            "Sweep",
            root=swept.root,
            dry_run=swept.dry_run,
            runs=list(swept.runs),
            removed=list(map(_leftover_object, swept.removed)),
            kept=list(map(_leftover_object, swept.kept)),
        ),
    )


# --- what they print ---


_WORDS = {"ok": "ok", "warning": "WARNING", "failure": "FAILURE"}


def _doctor_object(found: Examination) -> dict[str, Any]:
    return document(
        "Doctor",
        ok=not found.failed,
        findings=list(map(plain, found.findings)),
        skipped=list(found.skipped),
    )


def _image_object(image: str, found: Examination) -> dict[str, Any]:
    return {**_doctor_object(found), "kind": "Image", "image": image}


def _examination_lines(found: Examination) -> Iterator[str]:
    for finding in found.findings:
        yield from _finding_lines(finding)


def _finding_lines(finding: Check) -> Iterator[str]:
    yield f"{_WORDS.get(finding.status, finding.status):<8} {finding.id:<17} {finding.checked}"
    if finding.status != "ok" and finding.breaks:
        yield f"{'':<26} Affects: {finding.breaks}"
    if finding.status != "ok" and finding.fix:
        yield f"{'':<26} Fix: {finding.fix}"


def _summary_line(found: Examination) -> str:
    failures = sum(finding.status == "failure" for finding in found.findings)
    warnings = sum(finding.status == "warning" for finding in found.findings)
    skipped = clause("; skipped: {}", ", ".join(found.skipped))
    passed = len(found.findings) - failures - warnings
    counts = [f"{passed} passed"]
    if failures:
        counts.append(f"{failures} failed")
    if warnings:
        counts.append(plural(warnings, "warning"))
    return f"{len(found.findings)} checks: {', '.join(counts)}{skipped}"


def _settings_lines(profile: str | None, values: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield f"profile: {profile or '(none)'}"
    rows: list[tuple[str, Any, str]] = []
    for name, one in values.items():
        rows += _rows_of_keys(name, one["value"], one["origin"], one.get("origins", {}))
    width = max(len(name) for name, _, _ in rows)
    for name, value, origin in rows:
        yield f"{name:<{width}}  {_shown_value(name, value):<40}  {origin}"


def _rows_of_keys(
    path: str, value: Any, origin: str, origins: Mapping[str, str]
) -> Iterator[tuple[str, Any, str]]:
    """Yield one row for a setting, or one for each of its keys that has an origin of its own."""
    inner: dict[str, Any] = {}
    if isinstance(value, dict):
        inner = {f"{path}.{key}": item for key, item in value.items()}
    elif isinstance(value, list):
        inner = {f"{path}[{index}]": item for index, item in enumerate(value)}
    if not any(known.startswith(tuple(inner)) for known in origins):
        yield path, value, origins.get(path, origin)
        return
    for key, item in inner.items():
        yield from _rows_of_keys(key, item, origin, origins)


def _shown_value(name: str, value: Any) -> str:
    if value in (None, [], {}):
        return "-"
    if isinstance(value, float):
        days, rest = divmod(value, 86400)
        return f"{days:g}d" if days and not rest else f"{value:.15g}s"
    if name in ("gateway.upload_size", "caps.memory"):
        return f"{value // 1024**2}Mi"
    if isinstance(value, list):
        return {"ports.range": "-"}.get(name, ", ").join(map(str, value))
    if isinstance(value, dict):
        return json.dumps(value)
    return str(value)


def _sweep_lines(swept: Sweep) -> Iterator[str]:
    verb = "would be removed" if swept.dry_run else "removed"
    for item in swept.kept:
        yield f"{item.name}: kept, the job is alive ({size(item.size)})"
    for item in swept.removed:
        yield (
            f"{item.name}: {verb}, {size(item.size)}, last submitted {item.used:%Y-%m-%d %H:%M} UTC"
        )
    ended = "would be deleted" if swept.dry_run else "deleted"
    yield from (f"{run}: {ended}, one of more than keep_runs" for run in swept.runs)
    count = len(swept.removed)
    total = size(sum(item.size for item in swept.removed))
    if count:
        yield f"{total} of {plural(count, 'job')} {verb} in {swept.root}"
    elif not swept.runs:
        yield f"nothing to remove in {swept.root}"


def _leftover_object(item: Leftover) -> dict[str, Any]:
    return {
        "name": item.name,
        "bytes": item.size,
        "used": item.used.isoformat(timespec="seconds"),
        "paths": list(item.paths),
    }
