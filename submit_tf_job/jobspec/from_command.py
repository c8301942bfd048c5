"""Write the job spec for a command line that starts a program of the user."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import Any

from submit_tf_job.dialects.conversion import write
from submit_tf_job.errors import JobSpecError, Problem, UsageError
from submit_tf_job.host.located.tree import Diagnostics, Location, Table, from_python, to_python
from submit_tf_job.host.quoting import clip
from submit_tf_job.jobspec.job import Strategy
from submit_tf_job.jobspec.kinds import as_label
from submit_tf_job.jobspec.overrides import apply
from submit_tf_job.jobspec.own_program import Program, find_program, find_secret

_KEPT = "kept"  # the output of --keep
_LONGEST_NAME = 24  # YARN's host names have the job's name, the user and the domain
# path in the job spec → the option that sets it
_OPTIONS = (
    (r"name", "--name"),
    (r"image", "--image"),
    (r"strategy", "--strategy"),
    (r"roles\.ps\.instances", "--ps"),
    (r"roles\.\w+\.instances", "--workers"),
    (r"roles\.\w+\.memory", "--memory"),
    (r"roles\.\w+\.cpus", "--cpus"),
    (r"roles\.\w+\.gpus", "--gpus"),
    (r"env\b.*", "--env"),
    (r"files\b.*", "--file"),
    (r"inputs\b.*", "--data"),
    (r"outputs\.kept\b.*", "--keep"),
    (r"outputs\b.*", "--store"),
)


@dataclass(frozen=True)
class RunOptions:
    """The values of the options of `run`; None or empty for an option that was not given.

    Attributes:
        command: The words of the program's command line.
        ps: Number of parameter servers; None for none.
        files: The paths of --file.
        data: The inputs of --data, which are downloaded.
        data_uris: The inputs of --data-uri, which the program reads itself.
        outputs: The outputs of --store.
        keep: The patterns of --keep.
        home: The URI of the directory for outputs without a URI; None if no HDFS is configured.
        hadoop_conf: Whether this host has a Hadoop configuration.
    """

    command: Sequence[str]
    image: str | None
    memory: str | None
    workers: int | None = None
    ps: int | None = None
    cpus: int | None = None
    gpus: int | None = None
    strategy: str | None = None
    name: str | None = None
    files: Sequence[str] = ()
    env: Sequence[str] = ()
    data: Sequence[str] = ()
    data_uris: Sequence[str] = ()
    outputs: Sequence[str] = ()
    keep: Sequence[str] = ()
    home: str | None = None
    hadoop_conf: bool = False


@dataclass(frozen=True)
class ProgramJob:
    """A job spec that was made from a command line.

    Attributes:
        text: The job spec.
        tree: The job spec as a tree.
        notes: What the user should know about the job spec.
    """

    text: str
    tree: Table
    notes: tuple[str, ...]


def job_of_program(asked: RunOptions, base: Path, overrides: Sequence[str] = ()) -> ProgramJob:
    """Return the job spec of a command line.

    Args:
        asked: The command line and the options.
        base: The working directory.
        overrides: `path=value`, as `--set` takes them.

    Raises:
        UsageError: An option or the program is missing or wrong; or a file with the name of a
            secret would be sent, although no --file names it.
        JobSpecError: An override is wrong.
    """
    env = dict(map(_parse_variable, asked.env))
    program = find_program(asked.command, base, _real_paths(asked.files, base), env)
    notes = Diagnostics("run")
    tree = apply(
        from_python(_spec_of_program(asked, program, base, overrides), Location("run")),
        overrides,
        notes,
    )
    if notes.problems:
        raise JobSpecError(notes.problems)
    assert isinstance(tree, Table)
    alone = _alone_notes(program, asked, tree) if _task_count(tree) > 1 else ()
    said = (*program.notes, *alone, *_data_notes(tree), *_output_notes(tree))
    return ProgramJob(write(tree, "Made by submit_tf_job run", ()), tree, said)


def _spec_of_program(
    asked: RunOptions, program: Program, base: Path, overrides: Sequence[str]
) -> dict[str, Any]:
    inputs: dict[str, Any] = dict(map(_parse_input, asked.data_uris))
    for text in asked.data:
        name, uri = _parse_input(text)
        _refuse_local_data(text, uri, base)
        inputs[name] = {"uri": uri, "download": True}
    strategy = asked.strategy or _chosen_strategy(asked, program)
    spec: dict[str, Any] = {
        "name": asked.name or _name_of_program(program),
        "image": asked.image,
        "strategy": strategy,
        "command": program.command,
        "files": [*_file_entries(program, asked.files, base), *asked.files],
        "env": {**dict(map(_parse_variable, asked.env)), **program.env},
        "inputs": inputs,
        "outputs": _outputs_of_options(asked, asked.name or _name_of_program(program)),
        "roles": _roles_of_options(asked, strategy),
    }
    if strategy == Strategy.CUSTOM.value:
        spec["deciding_role"] = "worker"
    words = (*asked.command, *asked.env, *asked.data, *asked.data_uris, *overrides)
    stored = (str(output["uri"]) for output in spec["outputs"].values())
    if asked.hadoop_conf and "hdfs:/" in " ".join((*words, *stored)):
        spec["hadoop"] = {"conf": "inline"}
    return {key: value for key, value in spec.items() if value}


def _chosen_strategy(asked: RunOptions, program: Program) -> str:
    if program.is_torchrun:
        return str(Strategy.TORCH.value)  # under another each task would train alone
    if asked.ps:
        return str(Strategy.PARAMETER_SERVER.value)
    return str((Strategy.MULTI_WORKER if (asked.workers or 1) > 1 else Strategy.SINGLE).value)


def _roles_of_options(asked: RunOptions, strategy: str) -> Mapping[str, Any]:
    """Return the roles; with the strategies parameter-server and estimator, a chief is added to the
    workers.

    Raises:
        UsageError: The strategy is single, and more than one task is asked for.
    """
    task = {"memory": asked.memory}
    counts = {"cpus": asked.cpus, "gpus": asked.gpus}
    worker = {**task, **{key: count for key, count in counts.items() if count is not None}}
    if strategy == Strategy.SINGLE.value:
        if asked.ps or (asked.workers or 1) != 1:
            raise UsageError(
                "--strategy single is one task", hint="leave --strategy out, or --workers and --ps"
            )
        return {"worker": worker}
    instances = {} if asked.workers in (None, 1) else {"instances": asked.workers}
    roles: dict[str, Any] = {"worker": {**worker, **instances}}
    if strategy == Strategy.PARAMETER_SERVER.value:
        roles = {"chief": task, **roles}
    if strategy == Strategy.ESTIMATOR.value:
        roles = {"chief": worker, **roles}
    if asked.ps is not None:
        roles["ps"] = {**task, "instances": asked.ps}
    return roles


def _file_entries(program: Program, given: Sequence[str], base: Path) -> list[Any]:
    """Return the program's files as entries of `files`, except those that --file gives.

    Raises:
        UsageError: The name of a file is typical of a secret; only --file sends such a file.
    """
    listed = _real_paths(given, base)
    found: list[Any] = []
    for path, name in sorted(program.files.items(), key=lambda item: item[1]):
        real = os.path.realpath(path)
        if any(real == place or real.startswith(f"{place}/") for place in listed):
            continue
        if secret := find_secret(path):
            raise UsageError(
                f"{os.path.relpath(secret, base)} looks like a secret, and would be sent along",
                hint=f"move it; or, if it is to be sent, give --file {os.path.relpath(path, base)}",
            )
        src = os.path.relpath(path, base)
        found.append(src if src == name else {"src": src, "dst": name})
    return found


def _real_paths(given: Sequence[str], base: Path) -> set[str]:
    return {
        os.path.realpath(base / match)
        for file in given
        for match in (glob(file, root_dir=base, recursive=True) or [file])  # noqa: PTH207 - absolute patterns
    }


def _name_of_program(program: Program) -> str:
    first = program.words[0].split()[0]
    name = as_label(program.name or posixpath.basename(first))[:_LONGEST_NAME].strip("-")
    return name if name[:1].isalpha() else f"job-{name}".rstrip("-")


def _parse_variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--env takes NAME=VALUE, not {clip(text)}")
    return name, value


def _parse_input(text: str) -> tuple[str, str]:
    """Return an input's name and its URI; the default name is the last part of the URI without its
    ending, or `data` if that does not begin with a letter.
    """
    if named := re.match(r"([a-z][a-z0-9_]*)=", text):
        return named[1], text[named.end() :]
    last = posixpath.basename(text.rstrip("/")).partition(".")[0].lower()
    name = re.sub(r"[^a-z0-9]+", "_", last).strip("_")
    return (name if name[:1].isalpha() else "data"), text


def _outputs_of_options(asked: RunOptions, job: str) -> dict[str, dict[str, Any]]:
    """Return the outputs of --store and the output of --keep (`kept`), which may also be one of
    them.
    """
    found: dict[str, dict[str, Any]] = {}
    for text in asked.outputs:
        name, uri = (
            _parse_input(text)
            if re.search(r"=|://", text)
            else (text, _place_of_output(asked, job, text))
        )
        found[name] = {"uri": uri, "upload": True}
    if asked.keep:
        place = "" if _KEPT in found else _place_of_output(asked, job, _KEPT)
        found.setdefault(_KEPT, {"uri": place, "upload": True})["collect"] = [*asked.keep]
    return found


def _place_of_output(asked: RunOptions, job: str, output: str) -> str:
    """Return a URI for an output that states none.

    Raises:
        UsageError: No address of HDFS is known.
    """
    if asked.home is None:
        raise UsageError(
            f"where the output {output} is stored is not known: no HDFS is configured",
            hint=f"--store {output}=URI, such as {output}=hdfs://namenode/models/{job}",
        )
    return f"{asked.home}/{job}/{output}"


def _refuse_local_data(text: str, uri: str, base: Path) -> None:
    if "://" in uri or not (glob(uri, root_dir=base) or os.path.exists(base / uri)):  # noqa: PTH110, PTH207 - absolute patterns; long names
        return
    name = text.removesuffix(uri)
    target = f"hdfs:///data/{posixpath.basename(uri.rstrip('/'))}"
    raise UsageError(
        f"--data {clip(uri)} is on this machine, and not on the cluster",
        hint=f"--file {uri} sends it along; larger data: submit_tf_job put {uri} hdfs:///data/, "
        f"then --data {name}{target}",
    )


def _task_count(tree: Table) -> int:
    roles = to_python(tree).get("roles", {}).values()
    return sum(role.get("instances", 1) for role in roles if isinstance(role, dict))


def _alone_notes(program: Program, asked: RunOptions, tree: Table) -> Iterator[str]:
    """Yield reasons why each of several tasks may train separately, without the others."""
    strategy, count = to_python(tree).get("strategy"), _task_count(tree)
    launcher, advice = program.per_task_launcher
    if launcher:
        yield (
            f"{launcher} starts a set of processes in each of the {count} tasks, and no set knows "
            f"the others: {advice}; or leave --workers out, for one set in one task"
        )
    if program.is_torchrun and strategy != Strategy.TORCH.value:
        yield "torchrun finds the other tasks by --strategy torch alone: leave --strategy out"
    yield from program.place_notes
    known = program.names_strategy or program.place_notes or launcher or asked.files
    if program.is_read and not known and strategy != Strategy.CUSTOM.value:
        yield (
            "no module that is sent names a way to train together (tf.distribute, "
            f"torch.distributed, …): each of the {count} tasks may train a copy"
        )


def _data_notes(tree: Table) -> Iterator[str]:
    inputs = tree.find("inputs")
    for pair in inputs.value.entries if inputs and isinstance(inputs.value, Table) else ():
        variable = f"$TFJOB_INPUT_{pair.key.upper()}"
        if isinstance(pair.value, Table):
            yield f"each task downloads {pair.key}; the program opens the path in {variable}"
        else:
            yield f"the program reads the URI of {pair.key} from {variable}"


def _output_notes(tree: Table) -> Iterator[str]:
    for name, output in to_python(tree).get("outputs", {}).items():
        if not isinstance(output, dict):
            continue
        uri, collected = output.get("uri"), output.get("collect")
        if collected:
            yield f"{', '.join(map(str, collected))} of the working directory: stored at {uri}"
        else:
            variable = f"$TFJOB_OUTPUT_{name.upper()}"
            yield f"the program writes into the directory {variable}, which is stored at {uri}"


def by_option(error: JobSpecError, asked: RunOptions) -> JobSpecError:
    """Return the error with the options of `run` instead of line numbers, because the user has
    written no file.
    """
    uris = "|".join(_parse_input(text)[0] for text in asked.data_uris)
    given = "|".join(re.escape(text.partition("=")[0]) for text in asked.env)
    known = (
        (rf"inputs\.({uris})(\..*)?", "--data-uri"),
        (rf"(?:roles\.\w+\.)?env\.(?!(?:{given})$).*", "the command line"),
        *_OPTIONS,
    )
    problems: dict[tuple[str, str], Problem] = {}
    for problem in error.problems:
        options = (name for path, name in known if re.fullmatch(path, problem.path))
        option = next(options, "")
        shown = Problem(0, 0, "" if option else problem.path, problem.message, option or "run")
        problems.setdefault((option or problem.path, problem.message), shown)
    return JobSpecError(problems.values(), hint=error.hint)
