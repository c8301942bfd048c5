"""Find the program in a command line, behind any launcher, and the files of this directory that it
needs.
"""

from __future__ import annotations

import ast
import json
import os
import posixpath
import re
import shlex
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.machinery import FrozenImporter
from pathlib import Path

from submit_tf_job.errors import UsageError
from submit_tf_job.host.quoting import clip
from submit_tf_job.host.user_files import is_directory, is_file, reason
from submit_tf_job.jobspec.secret_names import is_secret
from submit_tf_job.jobspec.shell_text import Shell, is_assignment

SMALL = 1_000_000  # bytes of a file that is sent because the command line names it
_PROGRAMS = (".py", ".sh")
_LANGUAGES = {".py": "python", ".sh": "shell"}
_BEGIN = 4096  # bytes of a script that show its first line and its line ends
_OF_THE_IMAGE = "a program of the image has an absolute path, such as /opt/train.py"
_PYTHON = re.compile(r"(.*/)?(python|pypy)[\d.]*")
_SHELL = re.compile(r"(.*/)?(ba|da|z|k)?sh")
_TORCHRUN = ("torchrun", "torch.distributed.run", "torch.distributed.launch")
_FOR_A_SHELL = re.compile(r"[|&;<>()$`*?\[~\n]")
# words that only a shell knows: before a command, and those that change the shell itself
_BEFORE_COMMANDS = frozenset(("command", "exec", "time"))
_OF_THE_SHELL = frozenset(
    (".", "cd", "eval", "export", "set", "source", "trap", "ulimit", "umask", "unset")
)
_SHOWS = frozenset(("-V", "-VV", "--version", "-h", "--help"))  # options of Python that end it
_WORD_ENDS = re.compile(r"[\s;&|()<>'\"=,]+")
_INSTALLED = frozenset(("bin", "site-packages", "dist-packages"))
# what the source of a program says that trains together with others, or finds them itself
_STRATEGIES = re.compile(
    r"distribut|horovod|\bhvd\b|accelerat|deepspeed|lightning|transformers|estimator|collective"
    r"|MultiWorker|ParameterServer|ClusterResolver|mpi4py|byteps|fairscale|\bray\b|\bdask\b"
    r"|lightgbm|xgboost|jax|TFJOB_|TF_CONFIG|MASTER_ADDR|WORLD_SIZE|\bRANK\b|grpc|socket|torchrun"
)
# variables of the meeting of all tasks: a program that sets them itself trains alone
_OF_THE_JOB = ("TF_CONFIG", "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")
# options of torchrun and accelerate that say the same to each task
_OF_A_MEETING = re.compile(
    r"--(nnodes=1|(master_addr|node_rank|rdzv_endpoint|machine_rank|main_process_ip"
    r"|master_port|main_process_port)=[^$]+)"
)
# Options of programs that say which of the tasks this one is, or where they are. LoRA has a rank,
# too, which is never 0.
_OF_ONE_TASK = re.compile(
    r"--(?P<index>task_(?:index|id)|(?:node|machine|worker|process)_(?:rank|id)|process_index)=\d+"
    r"|--(?P<rank>(?:global_)?rank)=0"
    r"|--(?P<hosts>(?:worker|ps|chief)_hosts)=[^$]+"
    r"|--(?P<address>\w*(?:init|dist|master)\w*)=tcp://[^$]+"
)
_INSTEAD = {
    "index": "leave it out where TF_CONFIG says it; or write $TFJOB_INDEX in the text of a shell",
    "rank": "leave it out where the program reads RANK (--strategy torch); or write $TFJOB_RANK in "
    "the text of a shell",
    "hosts": "the job's tasks are on others: leave it out where TF_CONFIG names them; or write "
    "$TFJOB_HOSTS_WORKER in the text of a shell",
    "address": "the task of rank 0 is elsewhere: env:// takes it from the job (--strategy torch)",
}
# Launchers that start a set of processes by themselves, each task its own, and what to write in
# their place (torchrun reads from its variables where all tasks meet, and is no such launcher).
_OWN_SETS = tuple(
    (re.compile(names), advice)
    for names, advice in (
        (
            r"accelerate(\.commands\.\w+)?|deepspeed(\.launcher\.\w+)?|colossalai(\.cli)?"
            r"|composer(\.cli\.launcher)?|fabric|lightning",
            "write torchrun in its place",
        ),
        (
            r"horovodrun|horovod\.run(ner)?(\.launch)?",
            "leave it out, with --strategy custom --set variables=horovod",
        ),
        (
            r"(mpirun|mpiexec|orterun|prterun)(\.\w+)?",
            "leave it out (for Horovod with --strategy custom --set variables=horovod)",
        ),
        (r"srun", "leave it out"),
    )
)
# commands that need what a task does not have, and what to do instead
_ELSEWHERE = {
    **dict.fromkeys(
        ("docker", "podman"),
        "starts a container of its own, which a task mostly may not: its image belongs to --image, "
        "and its program behind --",
    ),
    **dict.fromkeys(
        ("sbatch", "qsub", "bsub"),
        "hands a script to another scheduler: run the script itself, as -- bash FILE",
    ),
    **dict.fromkeys(
        ("uv", "poetry", "pipenv", "pixi", "pdm"),
        "looks for the project that it belongs to, which is not sent: leave it out, and send "
        "packages by `python` of a job spec (submit_tf_job help files)",
    ),
    "spark-submit": "needs Spark in each task: a program of TFCluster is run by python "
    "(submit_tf_job help coming-from/tensorflowonspark)",
    "kubectl": "speaks to Kubernetes: a TFJob is read as it is, by submit_tf_job submit FILE",
    "sudo": "is not in most images, and asks for a password: leave it out",
}
_OF_A_TASK = re.compile(r"\$\{?(TFJOB_|PET_|MASTER_ADDR|(GROUP_)?RANK)")
_ALONE = "which replaces the job's: each task may train alone"


@dataclass
class Program:
    """A command line, and the files of this host that it needs.

    Attributes:
        command: The command line, in which the program has its name in the task's working
            directory. It is a text if a shell must read it, else a list of words.
        env: The variables that are set before the command in the command line.
        name: The program's name without its directory and ending; "" for a command of the image.
        is_torchrun: Whether torchrun starts the program.
        files: Path on this host → name in the task's working directory.
        notes: What may be missing in the container, or will fail there.
        per_task_launcher: The launcher that starts the program in each task as a set of processes
            of its own (`_OWN_SETS`), and the command to write instead; ("", "") without such a
            launcher, or if the launcher gets the place of each task from the job's variables.
        place_notes: A sentence for each variable of the job (`_OF_THE_JOB`) that the program
            replaces, and for each option that gives every task the same place.
        is_read: Whether Python sources were read.
        names_strategy: Whether a source, or the command line, mentions a way to train with several
            tasks.
    """

    command: list[str] | str
    env: dict[str, str] = field(default_factory=dict)
    name: str = ""
    is_torchrun: bool = False
    files: dict[Path, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    per_task_launcher: tuple[str, str] = ("", "")
    place_notes: list[str] = field(default_factory=list)
    is_read: bool = False
    names_strategy: bool = False

    @property
    def words(self) -> list[str]:
        """The words of the command line."""
        return [self.command] if isinstance(self.command, str) else self.command

    def covers(self, real: str, given: Collection[str]) -> bool:
        """Return whether a file or directory is sent, either by itself or as part of a directory.

        Args:
            real: Its real path.
            given: The real paths of files and directories that are sent in any case.
        """
        places = {*map(os.path.realpath, self.files), *given}
        return any(real == place or real.startswith(f"{place}/") for place in places)


def find_program(
    command: Sequence[str],
    base: Path,
    given: Collection[str] = (),
    env: Mapping[str, str] | None = None,
) -> Program:
    """Return the program of this host that a command line starts, and the files that it needs.

    The program is looked for behind Python's options, launchers (torchrun, accelerate, coverage,
    nohup, …), in shell scripts, and in the text of a shell. Modules that the program imports are
    looked for as Python does: in the script's own directory; for `-m MODULE`, in the working
    directory. A package is sent with all its files. Small files that the command line names are
    sent, too.

    Args:
        command: The words of the command line.
        base: The working directory.
        given: The real paths of files that are sent in any case.
        env: The variables that the job sets.

    Raises:
        UsageError: The program does not exist, cannot be read, or cannot run.
    """
    words = list(command)
    text = words[0] if len(words) == 1 and re.search(r"\s", words[0]) else ""
    if text and not is_file(base / text):
        try:
            words = [text] if _FOR_A_SHELL.search(text) else shlex.split(text)
        except ValueError as error:
            raise UsageError(f"{clip(text)} is not a command line: {error}") from None
    first = next((word for word in words if not is_assignment(word)), "")
    if words != [text] and first in _OF_THE_SHELL:
        raise UsageError(
            f"{first} is a word of a shell, and no program",
            hint=f"quote the whole line: -- '{first} … && python train.py'",
        )
    if words != [text] and first in _BEFORE_COMMANDS:
        text = shlex.join(words)
        words = [text]
    found = Program(words)
    search = _Search(found, base, given, env or {})
    if words == [text]:
        found.command = text
        search.add_text(text)
    else:
        while words and is_assignment(words[0]):
            name, _, value = words.pop(0).partition("=")
            found.env[name] = value
            search.note_replaced_variable("the command line", name, value)
        if not words:
            raise UsageError("the command line has variables, and no program")
        search.add_command(words)
    search.add_named_files()
    found.names_strategy |= bool(_STRATEGIES.search(" ".join(command)))
    if not found.files and not given:
        why = f": {search.absent}" if search.absent else ""
        found.notes.append(f"nothing of this directory is sent{why}; --file sends a file")
    return found


@dataclass
class _Search:
    """The search for the program of one command line."""

    found: Program
    base: Path
    given: Collection[str]
    env: Mapping[str, str]
    absent: str = ""
    _in_text: bool = False
    _shell: Shell = field(init=False)
    # the texts of the command line, and their words with where `cd` had led
    _texts: set[str] = field(default_factory=set)
    _named: list[tuple[str, str]] = field(default_factory=list)
    _in_script: bool = False

    def __post_init__(self) -> None:
        self._shell = Shell(self.base)

    def add_command(self, words: list[str]) -> None:
        """Add the program of a simple command, and the files that it needs. In `words` it may get
        the name that it has in the task.

        Raises:
            UsageError: The program does not exist, or cannot run.
        """
        while len(words) > 1 and self._in_text and self._set_variable(words[0]):
            words = words[1:]
        first = words[0]
        path = self._shell.path_of(first)
        if _PYTHON.fullmatch(first):
            self._add_of_python(words, 0)
        elif _SHELL.fullmatch(first):
            self._add_of_shell(words, 0)
        elif not first.startswith("/") and is_file(path):
            self._refuse_bad_start(first, path)
            self._add_script(words, 0, first)
        elif is_directory(path) and not first.startswith("/") and first not in (".", ".."):
            raise UsageError(
                f"{clip(first)} is a directory", hint="write -- python -m NAME, or a program in it"
            )
        else:
            self._add_of_launcher(words, 0)

    def add_text(self, text: str, script: str = "") -> None:
        """Add the programs that a shell's text or script starts; parts of it that are not clear are
        skipped.

        `cd`, variables with a known value, and the directory of the script itself are followed.
        """
        before = self._in_text, self._in_script, self._shell
        self._in_text, self._shell = True, self._shell.inner()
        self._in_script |= bool(script)
        self._texts.add(text)
        for words in self._shell.commands(text, script):
            if words[0] == "export" or all(map(is_assignment, words)):
                _ = [self._set_variable(word) for word in words]
            self._add_of_text(words)
        self._in_text, self._in_script, self._shell = before

    def _add_of_text(self, words: list[str]) -> None:
        """Add the program of one command in a shell's text."""
        if not self._in_script:
            self._named += [(self._shell.inside, word) for word in words]
        try:
            self.add_command(words)
        except (OSError, UsageError):  # no name of a file, or meant for another directory
            return

    def _set_variable(self, word: str) -> bool:
        """If a word is an assignment of a shell, keep its value; return whether it is an
        assignment.
        """
        name, _, value = word.partition("=")
        if not is_assignment(word):
            return False
        self.note_replaced_variable(
            "a script" if self._in_script else "the command line", name, value
        )
        self._shell.assign(name, value)
        return True

    def add_named_files(self) -> None:
        """Add the small files of this directory that the command line names. Only note other names:
        directories, files of more than `SMALL` bytes, and files that look like secrets.
        """
        home = os.path.realpath(self.base)
        whole = [("", word) for word in self.found.words if word not in self._texts]
        parts = [
            (inside, part)
            for inside, word in (*whole, *self._named)
            for part in filter(None, _WORD_ENDS.split(word))
        ]
        for inside, word in dict.fromkeys(parts):
            path = self.base / inside / word
            real = os.path.realpath(path)
            if not real.startswith(f"{home}/") or self.found.covers(real, self.given):
                continue
            if real in self._shell.entered and any(
                os.path.realpath(sent).startswith(f"{real}/") for sent in self.found.files
            ):
                continue
            name = os.path.relpath(real, home)
            if word.startswith("/") and (is_file(path) or is_directory(path)):
                self.found.notes.append(
                    f"{word} is a path of this host, which tasks may lack; here it is {name}"
                )
                word = name
            if is_directory(path):
                what = "a directory here"
            elif not is_file(path):
                continue
            elif is_secret(path.name):
                what = "a file here that looks like a secret"
            elif path.stat().st_size > SMALL:
                what = f"a file here of {path.stat().st_size / 1e6:.1f} MB"
            else:
                self.found.files[path] = posixpath.normpath(posixpath.join(inside, word))
                if path.suffix == ".ipynb":
                    self._add_code(_code_of_notebook(path))
                continue
            self.found.notes.append(f"{word} is {what}, and is not sent; send it by --file {word}")

    # --- how programs are started ---

    def _add_of_python(self, words: list[str], index: int) -> None:
        """Add the program that a `python` command runs; several short options may be joined in one
        word.
        """
        index += 1
        while index < len(words) and words[index].startswith("-") and words[index] != "-":
            word = words[index]
            at = next((at for at, letter in enumerate(word) if letter in "mcWX"), 0)
            if word.startswith("--") or not at:
                index += 2 if word == "--check-hash-based-pycs" else 1
                continue
            value = word[at + 1 :]
            if not value:
                index += 1
                value = words[index] if index < len(words) else ""
            if word[at] == "m":
                self._add_module(value, words, index)
                return
            if word[at] == "c":
                self._add_code(value)
                return
            index += 1
        if index < len(words) and words[index] != "-":
            self._add_script(words, index, words[index], "python")
        elif not self._in_text and not _SHOWS.intersection(words):
            raise UsageError(
                f"{words[0]} has no program, and a task has no input to read one from",
                hint="write -- python train.py, or python -m NAME",
            )

    def _add_of_shell(self, words: list[str], index: int) -> None:
        for at in range(index + 1, len(words)):
            word = words[at]
            if not word.startswith(("-", "+")):
                if words[at - 1] not in ("-o", "+o", "-O", "+O", "--rcfile", "--init-file"):
                    self._add_script(words, at, word, "shell")
                    return
            elif not word.startswith("--") and "c" in word:
                self.add_text(" ".join(words[at + 1 : at + 2]))
                return

    def _add_of_launcher(self, words: list[str], index: int) -> None:
        """Add the program behind a launcher: a module after `-m`, another command, or a script."""
        self._note_launcher(words, index)
        self._note_make(words[index])
        is_module, rest = False, range(index + 1, len(words))
        for at in rest:
            word = words[at]
            self._note_launcher(words, at)  # such as `nohup torchrun train.py`
            self._note_option(words, index, at)
            if re.search(r"\s", word):  # such as `script -c "python train.py"`
                self.add_text(word)
                continue
            if word.endswith(_PROGRAMS) and self._is_own_file(word):
                self._add_script(words, at, word)
                return
            is_module = is_module or word in ("-m", "--module")
            own = word if is_module else word[2:] if word.startswith("-m") else ""
            if own and self._find_module(own):
                self._add_module(own, words, at)
                return
            if _PYTHON.fullmatch(word) or _SHELL.fullmatch(word):
                self.add_command(words_after := words[at:])
                words[at:] = words_after
                return
        for at in rest:  # such as `timeout 60 ./train`
            is_path = "/" in words[at] and self._is_own_file(words[at])
            if is_path and os.access(self.base / words[at], os.X_OK):
                self._add_script(words, at, words[at])
                return
        positional = [
            words[at]
            for at in rest
            if words[at].endswith(_PROGRAMS) and not re.search(r"\s", words[at])
        ]
        for word in positional:
            if not word.startswith(("/", "-", "$", "~")) and not self._in_text:
                raise UsageError(f"{clip(word)} is not in {self.base}", hint=_OF_THE_IMAGE)
        if is_module:
            after = words[next(at for at in rest if words[at] in ("-m", "--module")) + 1 :]
            named = [word for word in after if re.fullmatch(r"[A-Za-z_][\w.]*", word)]
            self.absent = f"{clip(named[0])} is not in {self.base}" if named else self.absent

    def _note_launcher(self, words: list[str], at: int) -> None:
        """Note a launcher: torchrun; one that starts a set of processes in each task by itself
        (`_OWN_SETS`); or a command that does not work in a task (`_ELSEWHERE`).
        """
        name = posixpath.basename(words[at])
        self.found.is_torchrun |= name in _TORCHRUN
        if name in _ELSEWHERE:
            self.found.notes.append(f"{name} {_ELSEWHERE[name]}")
        own = next((advice for names, advice in _OWN_SETS if names.fullmatch(name)), "")
        if own and not any(map(_OF_A_TASK.search, words)):
            self.found.per_task_launcher = name, own

    def _note_make(self, word: str) -> None:
        """Note that `make` follows a file of this directory, which is not sent."""
        names = ("GNUmakefile", "makefile", "Makefile")
        file = next((name for name in names if is_file(self._shell.path_of(name))), "")
        real = os.path.realpath(self._shell.path_of(file))
        if posixpath.basename(word) == "make" and file and not self.found.covers(real, self.given):
            self.found.notes.append(
                f"make follows {file}, which is not read, nor sent: write the command of its rule "
                f"in its place; or send it and the program by --file"
            )

    def _note_place(self, words: Sequence[str]) -> None:
        """Note options of a program that tell every task the same place among the tasks."""
        for at, word in enumerate(words):
            name, equals, value = word.partition("=")
            value = value if equals else "".join(words[at + 1 : at + 2])
            option = f"--{name[2:].replace('-', '_')}={value}"
            found = _OF_ONE_TASK.fullmatch(option) if name.startswith("--") else None
            if found and found.lastgroup:
                self.found.place_notes.append(
                    f"{name} is the same in each task: {_INSTEAD[found.lastgroup]}"
                )

    def note_replaced_variable(self, place: str, name: str, value: str) -> None:
        """Note a variable that the job sets for its tasks (`_OF_THE_JOB`), if it gets a value that
        does not contain the job's value.
        """
        if name in _OF_THE_JOB and name not in value:
            self.found.place_notes.append(f"{place} sets {name}, {_ALONE}")

    def _note_option(self, words: list[str], index: int, at: int) -> None:
        """Note an option of a launcher that tells where the tasks meet, or a variable that `env`
        sets.
        """
        name, equals, value = words[at].partition("=")
        value = value if equals else "".join(words[at + 1 : at + 2])
        option = f"--{name[2:].replace('-', '_')}={value}"
        if name == "--standalone" or _OF_A_MEETING.fullmatch(option):
            self.found.place_notes.append(
                f"{name} is the same in each task, and replaces the job's"
            )
        elif posixpath.basename(words[index]) == "env":
            self._set_variable(words[at])

    # --- modules, code and scripts ---

    def _find_module(self, name: str) -> Path | None:
        """Return the file or package of a module; None if it is not in a directory of this host.
        The directories of PYTHONPATH are searched, too (`_python_path`).
        """
        top = name.partition(".")[0]
        if self._shell.inside.startswith(("/", "..")):
            return None
        roots = [self._shell.path_of(""), *(self.base / place for place in self._python_path())]
        return next(filter(None, (_module_path(root, top) for root in roots)), None)

    def _python_path(self) -> list[str]:
        """Return the directories of this host that PYTHONPATH names, in the command line or in the
        variables of the job.
        """
        set_in = (self._shell.variables, self.found.env, self.env)
        places = ":".join(values.get("PYTHONPATH", "") for values in set_in).split(":")
        inside = (self._shell.name_of(place) for place in places if place)
        return [place for place in inside if not re.match(r"/|\.\.|.*\$", place)]

    def _is_own_file(self, word: str) -> bool:
        path = self._shell.path_of(word)
        return is_file(path) and not (
            path.is_absolute() and word.startswith("/") and _INSTALLED & {*path.parts}
        )

    def _add_module(self, name: str, words: list[str], index: int) -> None:
        top, _, rest = name.partition(".")
        module = self._find_module(name)
        if module is None:  # an installed one, which may start another
            self.absent = f"{clip(name)} is not in {self.base}"
            if _module_path(self._shell.path_of("src"), top) and not self._shell.inside:
                self.absent += f"; src has it: PYTHONPATH=src python -m {name}"
            self._add_of_launcher(words, index)
            return
        self.found.name = self.found.name or rest.rpartition(".")[2] or top
        self._note_place(words[index + 1 :])
        root = module.parent
        inner = root.joinpath(*name.split("."))
        main = inner / "__main__.py" if is_directory(inner) else inner.with_suffix(".py")
        self._add_program(module, root, self._name_prefix(root), main)

    def _add_code(self, text: str) -> None:
        try:
            tops = sorted(set(_imported_names(ast.parse(text))))
        except (SyntaxError, ValueError):
            return
        for module in filter(None, map(self._find_module, tops)):
            self._add_program(module, module.parent, self._name_prefix(module.parent), None)

    def _name_prefix(self, directory: Path) -> str:
        """Return the beginning of the names of files in a directory: the directory's path relative
        to the working directory, with a slash; "" for the working directory itself.
        """
        return "" if directory == self.base else f"{directory.relative_to(self.base).as_posix()}/"

    def _add_script(self, words: list[str], index: int, word: str, language: str = "") -> None:
        """Add a script. A script outside of the working directory is run by its file name alone.

        Args:
            words: The words of the command.
            index: Where the script is in them.
            word: The script, as it is written.
            language: `python` or `shell`, if the command says by what the script is read.
        """
        path = self._shell.path_of(word)
        if is_directory(path) and not word.startswith("/"):
            self._add_directory(path, words, index)
            return
        if not is_file(path):
            if word.startswith(("/", "$", "~")):
                self._add_of_launcher(words, index)
                return
            raise UsageError(f"{clip(word)} is not in {self.base}", hint=_OF_THE_IMAGE)
        if not self._is_own_file(word):  # such as `python $(which torchrun) train.py`
            self._add_of_launcher(words, index)
            return
        if path.suffix == ".ipynb":
            raise UsageError(
                f"{clip(word)} is a notebook, which Python does not run",
                hint=f"jupyter nbconvert --to script {path.name} makes a program of it",
            )
        inside = self._shell.name_of(word)
        if inside.startswith(("/", "..")):
            if self._in_text:
                return  # a shell's text is not rewritten
            inside = path.name
            words[index] = f"./{inside}" if index == 0 else inside
        self.found.name = self.found.name or path.stem
        self._note_place(words[index + 1 :])
        is_new = path not in self.found.files
        begin = _begin_of(path)
        language = language or _language_of(path, begin)
        if b"\r\n" in begin and (language == "shell" or (index == 0 and begin.startswith(b"#!"))):
            shown = os.path.relpath(path, self.base)
            self.found.notes.append(
                f"{shown} has line ends of Windows, with which it does not start: "
                f"sed -i 's/\\r$//' {shown}"
            )
        main = path if language == "python" and b"\0" not in begin else None  # no zipapp
        self._add_program(path, path.parent, inside[: -len(path.name)], main)
        if is_new and language == "shell":
            self.add_text(path.read_text("utf-8", "replace"), word)

    def _add_directory(self, path: Path, words: list[str], index: int) -> None:
        """Add a directory that Python runs by its `__main__.py`."""
        main = path / "__main__.py"
        inside = self._shell.name_of(words[index])
        if not is_file(main) or inside.startswith((".", "/")):
            hint = "write -- python -m NAME, or a program in it"
            raise UsageError(f"{clip(words[index])} is a directory", hint=hint)
        self.found.name = self.found.name or path.name
        self._note_place(words[index + 1 :])
        self.found.files[path] = inside
        for source in sorted(filter(is_file, path.rglob("*.py"))):
            self._imports_of(source, is_needed=source == main)

    def _refuse_bad_start(self, word: str, path: Path) -> None:
        """Refuse a file that the operating system of a container would not start."""
        starter = {".py": "python ", ".sh": "bash "}.get(path.suffix, "" if "/" in word else "./")
        if path.suffix == ".ipynb" or ("/" in word and os.access(path, os.X_OK)):
            return
        why = "is not executable" if "/" in word else "is a file here, and no program on PATH"
        hint = f"write -- {starter}{word}" if starter else f"chmod +x {word}"
        raise UsageError(f"{clip(word)} {why}", hint=hint)

    def _add_program(self, first: Path, root: Path, prefix: str, main: Path | None) -> None:
        """Add a module or script, and all modules below `root` that it imports, directly or through
        others.
        """
        roots = [(root, prefix)]
        places = map(self.base.joinpath, self._python_path())
        roots += ((place, self._name_prefix(place)) for place in places)
        queue = [(first, prefix)]
        while queue:
            path, prefix = queue.pop()
            if path in self.found.files:
                continue
            self.found.files[path] = prefix + path.name
            if path.suffix != ".sh":
                self._note_hidden(path)
            inside = (file for file in path.rglob("*.py") if is_file(file))
            for source in sorted(inside) if is_directory(path) else [path]:
                if source.suffix == ".py" or source == main:
                    is_needed = source in (path, main)
                    tops = self._imports_of(source, is_needed=is_needed)
                    for top in tops:
                        modules = [(_module_path(root, top), prefix) for root, prefix in roots]
                        queue += ((module, its) for module, its in modules if module)
                        if not any(module for module, _ in modules):
                            self._note_elsewhere(source, top, [root for root, _ in roots])

    def _note_elsewhere(self, source: Path, top: str, roots: Sequence[Path]) -> None:
        """Note a module of this directory, or of `src` in it, that a source imports and that Python
        does not find from where the program lies.
        """
        for place in (".", "src"):
            root = self.base / place
            module = (
                None if root in roots or top in sys.stdlib_module_names else _module_path(root, top)
            )
            if module is None or not (is_file(module) or is_file(module / "__init__.py")):
                continue
            where = "this directory" if place == "." else place
            note = (
                f"{os.path.relpath(source, self.base)} imports {top}, which is in {where}, where "
                f"Python does not look for it: PYTHONPATH={place} before the command sends it, if "
                f"the image does not have it"
            )
            if not any(f" imports {top}, " in told for told in self.found.notes):
                self.found.notes.append(note)

    def _imports_of(self, source: Path, *, is_needed: bool) -> list[str]:
        """Return the names that a source imports. If Python cannot parse the source, refuse it if
        the program needs it (`is_needed`); only note that, and return [], for any other source, for
        one that --file sends, and for a command line of Python 2.
        """
        shown = os.path.relpath(source, self.base)
        try:
            tree = ast.parse(source.read_bytes(), source.name)
        except (OSError, RecursionError, SyntaxError, ValueError) as error:
            why = f"{shown}: {getattr(error, 'strerror', None) or error}"
            is_python_2 = re.search(r"python2", " ".join(self.found.words))
            if not is_needed or is_python_2 or os.path.realpath(source) in self.given:
                self.found.notes.append(f"the imports of {shown} could not be read: {error}")
                return []
            raise UsageError(
                f"Python cannot read {why}",
                hint=f"correct it; if the image's Python can read it, give --file {shown}",
            ) from None
        self.found.is_read = True
        self.found.names_strategy |= bool(_STRATEGIES.search(source.read_text("utf-8", "replace")))
        for line, name in _assigned_variables(tree):
            self.found.place_notes.append(f"{shown}:{line} sets {name}, {_ALONE}")
        tops = sorted(set(_imported_names(tree)))
        if source.stem in tops and source.parent == self.base:
            self.found.notes.append(f"{shown} imports {source.stem}, which is itself; rename it")
        return tops

    def _note_hidden(self, path: Path) -> None:
        """Note a module that has the same name as one of Python's own modules and so hides it."""
        name = path.stem
        if name in sys.stdlib_module_names and not _is_loaded_first(name):
            self.found.notes.append(
                f"{path.name} hides Python's own module {name}, for installed packages, too; "
                f"rename it"
            )


def _begin_of(path: Path) -> bytes:
    """Return the beginning of a script.

    Raises:
        UsageError: The script cannot be read.
    """
    try:
        with path.open("rb") as file:
            return file.read(_BEGIN)
    except OSError as error:
        raise UsageError(f"{clip(path.name)} cannot be read: {reason(error)}") from None


def _language_of(path: Path, begin: bytes) -> str:
    """Return `python` or `shell` for a script, by its ending or its first line; "" for any other
    file.
    """
    if path.suffix in _LANGUAGES:
        return _LANGUAGES[path.suffix]
    words = begin.partition(b"\n")[0].decode("latin-1").removeprefix("#!").split()
    names = [posixpath.basename(word) for word in words if word != "-S"]
    name = next((name for name in names if name != "env"), "") if begin.startswith(b"#!") else ""
    if _PYTHON.fullmatch(name):
        return "python"
    return "shell" if _SHELL.fullmatch(name) else ""


def _code_of_notebook(path: Path) -> str:
    """Return the Python code of a notebook's cells; "" if the file is not a notebook, or cannot be
    read.
    """
    try:
        cells = json.loads(path.read_bytes())["cells"]
        sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (OSError, ValueError, LookupError, TypeError):
        return ""
    lines = (line for source in sources for line in source.splitlines())
    return "\n".join("" if re.match(r"\s*[%!?]", line) else line for line in lines)


def _imported_names(tree: ast.AST) -> Iterator[str]:
    """Yield the first part of the name of each module that a source imports by a fixed name."""
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if called in ("import_module", "__import__"):
                names = [str(node.args[0].value)]
        yield from (name.partition(".")[0] for name in names)


def _assigned_variables(tree: ast.AST, asked: str = "") -> Iterator[tuple[int, str]]:
    """Yield line and name of each variable of `_OF_THE_JOB` that a source sets without a check
    whether the job has set it.

    Args:
        tree: The source.
        asked: The conditions around the source: a condition that names the variable is such a
            check.
    """
    for node in ast.iter_child_nodes(tree):
        for name in _set_in_environment(node):
            if name in _OF_THE_JOB and name not in asked:
                yield getattr(node, "lineno", 0), name
        conditions = asked + ast.unparse(node.test) if isinstance(node, ast.If) else asked
        yield from _assigned_variables(node, conditions)


def _set_in_environment(node: ast.AST) -> Iterator[str]:
    """Yield the variables that a statement sets unconditionally, and not by `setdefault`."""
    assigned = ast.unparse(node.value) if isinstance(node, ast.Assign) else ""
    for target in node.targets if isinstance(node, ast.Assign) else ():
        if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
            name = str(target.slice.value)  # `x = environ.get("x", 1)` keeps the job's
            is_own = _is_environ(target.value) and repr(name) not in assigned
            yield from [name] if is_own else []
    if isinstance(node, ast.AugAssign) and _is_environ(node.target):
        yield from _constant_keys(node.value)
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return
    if call.func.attr == "update" and _is_environ(call.func.value):
        yield from (str(keyword.arg) for keyword in call.keywords)
        for argument in call.args:
            yield from _constant_keys(argument)
    elif call.func.attr == "putenv" and isinstance(call.args[0], ast.Constant):
        yield str(call.args[0].value)


def _constant_keys(node: ast.AST) -> Iterator[str]:
    """Yield the keys of `{...}` or `dict(...)`."""
    yield from (str(one.arg) for one in getattr(node, "keywords", ()))
    keys = node.keys if isinstance(node, ast.Dict) else ()
    yield from (str(key.value) for key in keys if isinstance(key, ast.Constant))


def _is_environ(node: ast.AST) -> bool:
    return ast.unparse(node).endswith("environ")


def _is_loaded_first(name: str) -> bool:
    """Return whether Python loads its own module of this name before it searches any directory."""
    return name in sys.builtin_module_names or FrozenImporter.find_spec(name) is not None


def _module_path(root: Path, name: str) -> Path | None:
    """Return the package or module with this name; None if there is none. A package needs no
    `__init__.py` (PEP 420), but then an installed package with the same name takes precedence.
    """
    package, module = root / name, root / f"{name}.py"
    if not name:
        return None
    if is_file(package / "__init__.py"):
        return package
    if is_file(module):
        return module
    is_own = name not in sys.stdlib_module_names and is_directory(package)
    return package if is_own and any(package.rglob("*.py")) else None


def find_secret(path: Path) -> Path | None:
    """Return a file below a directory that has the name of a secret (`is_secret`), such as .env or
    a keytab; None if there is none, or if the path is that of a file.
    """
    return next((file for file in sorted(path.rglob("*")) if is_secret(file.name)), None)
