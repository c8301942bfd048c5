"""Determine the cause of a failure from the end of a task's program: its exit status and its
output.

docs/internals/diagnosis.md explains the order in which evidence is used.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from submit_tf_job.container import contract
from submit_tf_job.diagnose.cause import Cause, CauseEvidence
from submit_tf_job.diagnose.exceptions import (
    OF_LAUNCHER,
    ONE_LINE,
    Block,
    Raised,
    bare_exception,
    blocks_of,
    own_frames,
)
from submit_tf_job.diagnose.last_words import LastWords, is_trailer, last_words
from submit_tf_job.diagnose.output import OutputLine, of_process, read_lines, without_workdir
from submit_tf_job.diagnose.outside import by_status, more_memory
from submit_tf_job.diagnose.patterns import (
    GPU_MEMORY_HINT,
    GPU_TWICE_HINT,
    LINES,
    PROGRAM,
    hint_of,
    of_libhdfs,
    recognise,
)

_QUOTED = 12  # lines of evidence
_AROUND = 30
_LONGEST = 4000  # of a message, for patterns
_NEAR_LINES = 500
# what a task tells that had only lost or awaited another one
OF_PEERS = ("peer-failed", "rendezvous-failed", "collective-timeout")
_ABORTS = (signal.SIGABRT, signal.SIGTRAP)


@dataclass(frozen=True)
class ProgramEnd:
    """How the program of a task ended.

    Attributes:
        task: The task.
        status: The exit status of its command, None if it is not known.
        reason: The bootstrap's word for why the program ended; "" if it is not known.
        asked_mib: The memory of the task's container in MiB.
        has_gpus: Whether the task's role asks for GPUs.
    """

    task: str
    status: int | None
    reason: str = ""
    asked_mib: int | None = None
    has_gpus: bool = False

    @property
    def signal(self) -> int:
        """The signal that ended the program; 0 if no signal did."""
        if self.reason == contract.REASON_EXITED or not self.status:
            return 0
        return contract.signal_of_status(self.status)

    @property
    def by_status(self) -> Cause | None:
        """The cause that can be concluded from the exit status alone; None if that is 0 or not
        known.
        """
        return by_status(self.task, self.status, self.asked_mib, self.reason)


@dataclass(frozen=True)
class _Output:
    """The parsed output of a program.

    Attributes:
        lines: The lines of all processes.
        blocks: The exceptions in the output, each with the lines of the process that raised it.
    """

    lines: Sequence[OutputLine]
    blocks: tuple[tuple[Block, Sequence[OutputLine]], ...] = ()
    stream: str = "stderr"
    text: str = field(default="", repr=False)


def by_program(ending: ProgramEnd, streams: Mapping[str, str]) -> Cause | None:
    """Return the cause that a program's output shows; None if the output shows no cause.

    Args:
        ending: How the program ended.
        streams: The ends of the program's outputs by name, stderr first. The first output that
            shows more than the exit status counts.
    """
    guess: Cause | None = None
    for stream, text in streams.items():
        if not text.strip():
            continue
        cause = _of_stream(ending, stream, text)
        if cause is not None and (cause.certain or cause.code != "exited"):
            return cause
        guess = guess or cause
    return guess


def _of_stream(ending: ProgramEnd, stream: str, text: str) -> Cause | None:
    output = _read_output(stream, text)
    ending, process = _below_launcher(ending, output)
    status = ending.status
    blocks = _usable_exceptions(output, process)
    ended = _ended_by(blocks)
    if ending.signal and ending.signal not in _ABORTS:
        return _cause_of_signal(ending, output)
    if ending.signal:
        return _of_abort(ending, output, blocks, ended)
    if ended is None:
        return _cause_of_last_words(ending, output, blocks)
    block, lines = ended
    after = _words_after(blocks, block, lines)
    is_its_status = status is None or status in block.statuses
    if after is not None and (not _is_ended_anyway(block, after) or _is_of_fs_shell(block, after)):
        return _cause_of_last_words(ending, output, blocks, after)
    if is_its_status:
        sure = not (block.is_logged or block.is_caught)
        return _cause_of_block(ending, output, block, certain=sure and status is not None)
    if block.is_logged or block.is_caught:
        return _cause_of_last_words(ending, output, blocks, LastWords())
    found = _cause_of_block(ending, output, block, certain=False)
    if found.code != "python-exception":
        return found
    sentence = f"{_how_it_ended(ending)}; its last words: {block.root.words}"
    return replace(found, code="exited", sentence=sentence)


def _read_output(stream: str, text: str) -> _Output:
    lines = read_lines(text)
    blocks: list[tuple[Block, Sequence[OutputLine]]] = []
    for name in dict.fromkeys(line.process for line in lines):
        own = of_process(lines, name)
        found = blocks_of(own)
        launcher = next((b.first for b in found if b.last.short_name in OF_LAUNCHER), len(own))
        # what a launcher writes is not the program's
        blocks.extend((block, own[: max(launcher, block.end)]) for block in found)
    blocks.sort(key=lambda found: found[1][found[0].first].number)
    if not blocks:
        blocks = _bare_exceptions(lines)
    return _Output(lines, tuple(blocks), stream, text)


def _bare_exceptions(lines: Sequence[OutputLine]) -> list[tuple[Block, Sequence[OutputLine]]]:
    """Return, in a list, the exception that the last lines show without a traceback; [] if there is
    none.
    """
    kept = [at for at, line in enumerate(lines) if line.text.strip() and not is_trailer(line)]
    for at in reversed(kept[-3:]):
        if raised := bare_exception(lines[at]):
            return [(Block((raised,), at, at + 1, lines[at].process), lines)]
    return []


# --- launchers ------------------------------------------------------------------------------------

# torchrun's table, its first failure; rank and exit code of the process (torch 2.15)
_OF_TORCHRUN = re.compile(
    r"^ *Root Cause[^\n]*\n(?:[^\n]*\n){0,4}? +rank *: (?P<rank>\d+)[^\n]*\n +exitcode *: (?P<code>-?\d+)",  # noqa: E501
    re.MULTILINE,
)
_OF_CHILD = (
    re.compile(
        r"mpi(?:run|exec) noticed that process rank (?P<rank>\d+) [^\n]{0,300}exited on signal (?P<signal>\d+)"  # noqa: E501
    ),
    re.compile(r"Process name: (?:\[\[\d+,\d+\],)?(?P<rank>\d+)\]?\n\s*Exit code: +(?P<code>\d+)"),
    re.compile(r"\[launch\.py[^\n]{0,4000}exits with return code = (?P<code>-?\d+)"),
    # torchrun, where its table is cut off
    re.compile(r"failed \(exitcode: (?P<code>-?\d+)\) local_rank: \d+ \(pid: \d+\) of binary"),
    re.compile(r"^make(?:\[\d+\])?: \*\*\* \[[^\]\n]{0,300}\] Error (?P<code>\d+)", re.MULTILINE),
)


def _below_launcher(ending: ProgramEnd, output: _Output) -> tuple[ProgramEnd, str]:
    """Return the end and the rank of the process that a launcher reports as the first to fail; if
    no launcher does, the end of the program itself, and "".
    """
    text = "\n".join(line.text for line in output.lines[-600:])
    for pattern in (_OF_TORCHRUN, *_OF_CHILD):
        if found := pattern.search(text):
            groups = found.groupdict()
            code = int(groups.get("code") or 0) or -int(groups.get("signal") or 0)
            status = 128 - code if code < 0 else code
            if code and ending.status in (None, 1, 2, status, code & 255):  # 2 of make
                return replace(ending, status=status, reason=""), groups.get("rank") or ""
    return ending, ""


def _usable_exceptions(output: _Output, rank: str) -> list[tuple[Block, Sequence[OutputLine]]]:
    """Return the exceptions that may have ended the program. If a launcher names the process that
    failed first, these are only the exceptions of that process; the launcher's own exceptions are
    left out.
    """
    found = [one for one in output.blocks if not one[0].is_ignored and one[0].root.name]
    if any(of_libhdfs(block.last.text) for block, _ in found):
        found = [one for one in found if one[0].is_python]  # Java's are what libhdfs printed of it
    own = [one for one in found if one[0].last.short_name not in OF_LAUNCHER]
    if own:
        found = own
    elif any(one[0].last.short_name == "ChildFailedError" for one in found):
        found = []
    named = [
        one for one in found if rank and re.search(rf"(?<!\d){rank}$", one[0].process.rstrip("]"))
    ]
    return named or found


# --- which exception ended the program ------------------------------------------------------------


def _ended_by(
    blocks: Sequence[tuple[Block, Sequence[OutputLine]]],
) -> tuple[Block, Sequence[OutputLine]] | None:
    """Return the exception that ended the program, or None: the first exception after which the
    program did not continue, unless it is a consequence of another exception.
    """
    alive = [
        one
        for at, one in enumerate(blocks)
        if not _is_survived(one, [b for b, _ in blocks[at + 1 :]])
    ]
    fatal = [one for one in alive if not (one[0].is_logged or one[0].is_caught)]
    if not fatal:
        return alive[-1] if alive else None
    ended = next((one for one in fatal if not _is_consequence(one[0])), fatal[0])
    if _POINTS_BACK.search(ended[0].root.message):
        earlier = blocks[: blocks.index(ended)]
        return earlier[-1] if earlier else ended
    return ended


_POINTS_BACK = re.compile(r"inspect the previous error|see the (?:error|exception|traceback) above")


def _is_survived(found: tuple[Block, Sequence[OutputLine]], later: Sequence[Block]) -> bool:
    """Return whether the program continued after an exception."""
    block, lines = found
    until = next((other.first for other in later if other.process == block.process), len(lines))
    if _goes_on(lines, block, until):
        return True
    for other in later:
        if other.process != block.process:
            continue
        if (block.is_logged or block.is_caught) and not (other.is_logged or other.is_caught):
            return not other.is_aside
        mine, its = block.last.frames, other.last.frames
        if mine and its and mine[0].file == its[0].file and mine[0].line < its[0].line:
            return not block.is_aside
    return False


def _goes_on(lines: Sequence[OutputLine], block: Block, until: int) -> bool:
    """Return whether the lines after an exception are of the kind that a program writes repeatedly
    while it works.
    """
    before = {
        _without_numbers(line.text) for line in lines[max(0, block.first - 200) : block.first]
    }
    seen: dict[str, int] = {}
    is_weak = block.is_logged or block.is_caught
    for line in lines[block.end : min(until, block.end + 400)]:
        words = line.message or line.text
        if not words.strip() or is_trailer(line):
            continue
        if line.is_bar:
            if is_weak:
                return True
            continue
        form = _without_numbers(line.text)
        if (line.level and not is_weak) or not re.search(r"\d", line.text):
            continue
        seen[form] = seen.get(form, 0) + 1
        if seen[form] >= 3 or (form in before and not line.level):
            return True
    return False


def _without_numbers(text: str) -> str:
    return re.sub(r"\d+(?:\.\d+)?(?:e-?\d+)?|0x[0-9a-f]+", "0", text).strip()


def _is_consequence(block: Block) -> bool:
    """Return whether an exception only reports that another process or thread has failed."""
    text = "\n".join(raised.text for raised in block.chain)
    return bool(
        re.search(
            r"Connection (?:closed|reset) by peer|Broken ?[Pp]ipe|Collective ops is aborted|Socket closed"  # noqa: E501
            r"|DistNetworkError|^(?:_queue\.|queue\.)?(?:Empty|Full)\b|^EOFError$|UnavailableError"
            r"|KeyboardInterrupt|Timed out waiting|CancelledError|BrokenBarrierError"
            r"|HorovodInternalError|Horovod has been shut down|ncclRemoteError",
            text,
            re.MULTILINE,
        )
    )


def _words_after(
    blocks: Sequence[tuple[Block, Sequence[OutputLine]]], block: Block, lines: Sequence[OutputLine]
) -> LastWords | None:
    """Return the last sentence that the process wrote after its exceptions; None if it wrote only
    blank lines and trailers.
    """
    end = max(other.end for other, _ in blocks if other.process == block.process)
    words = last_words(lines[end:], after=True)
    return words if words.lines else None


def _is_ended_anyway(block: Block, after: LastWords) -> bool:
    """Return whether an exception ended the program although the program wrote more lines after
    it.
    """
    if block.is_logged or block.is_caught:
        return after.level in ("info", "warning") or not after.words
    if after.level or after.is_of_tool or not after.words:
        return True
    frames = block.last.frames
    return bool(frames) and not (frames[-1].is_own and block.last.name in ONE_LINE)


def _is_of_fs_shell(block: Block, after: LastWords) -> bool:
    """Return whether Hadoop's FsShell tells after an exception of Java why it ended: it only logs
    exceptions.
    """
    return not block.is_python and bool(_OF_FS_SHELL.match(after.words))


_OF_FS_SHELL = re.compile(
    r"^(?:cat|ch(?:mod|own|grp)|copy\w{4,9}|count|cp|du|find|get\w{0,5}|ls|mkdir|moveFromLocal|mv|put"
    r"|rm|setrep|stat|tail|test|text|touchz?): (?:`|(?!.*Exception\b)[A-Z])"
)


# --- sentences ------------------------------------------------------------------------------------


def _how_it_ended(ending: ProgramEnd) -> str:
    told = ending.by_status
    if ending.signal and told is not None:
        return told.sentence
    return f"{ending.task} ended with exit status {ending.status}"


def _cause_of_block(ending: ProgramEnd, output: _Output, block: Block, *, certain: bool) -> Cause:
    """Return the cause for an exception."""
    cause = None if _says_own_words(block) else _recognised_cause(ending, output, block)
    if cause is None:
        words = block.root.words
        if len(block.chain) > 1 and (more := _later_words(block)):
            words = f"{words}; then {more}"
        elif more := _failed_condition(_own_lines(output, block)[: block.first], words):
            words = f"{words}: {more}"
        elif more := _words_of_command(output, block):
            words = f"{words}; its last words: {more}"
        how = "ended by a Python exception" if block.is_python else "ended by an exception"
        how = how if certain else "probably ended by an exception that it logged"
        hint = hint_of(block.root.own_text[:_LONGEST])
        cause = Cause("python-exception", f"{ending.task} {how}: {words}"[:900], hint)
    elif not (certain := certain and cause.certain):
        then = cause.sentence
        if then.startswith(f"{ending.task} "):
            then = f"it {then.removeprefix(f'{ending.task} ')}"
        cause = replace(cause, sentence=f"{_how_it_ended(ending)}; probably {then}")
    place = block.place
    facts = {**cause.facts, **({"place": place} if place else {})}
    return replace(
        cause,
        facts=facts,
        exception=block.root.words,
        certain=certain,
        lost_peer=cause.lost_peer or block.root.short_name == "BrokenPipeError",
        permanent=_is_permanent(block) or cause.permanent,
        evidence=_quoted_evidence(ending, output, _lines_of(output, block)),
    )


def _later_words(block: Block) -> str:
    last = block.last
    if block.is_last_told or last.short_name in _WRAPPERS or last.words == block.root.words:
        return ""
    told = last.words
    if block.root.short_name == "CalledProcessError":  # the output of a compiler, mostly
        reasons = re.findall(
            r"^.*(?:\berror: |not found$|No such file).*$", last.message, re.MULTILINE
        )
        told = f"{last.name}: {reasons[0].strip()}" if reasons else told
    return "" if block.root.message and block.root.message[:60] in told else told[:200]


def _failed_condition(lines: Sequence[OutputLine], words: str) -> str:
    """Return the last assertion that code on a GPU printed in `lines`; "" if there is none, or if
    `words`, the message of the failure, does not name a device-side assertion.
    """
    if "device-side assert" not in words:
        return ""
    texts = (line.text for line in reversed(lines[-_ASSERTIONS:]))
    return next((found[0] for text in texts if (found := _ASSERTED.search(text))), "")


def _words_of_command(output: _Output, block: Block) -> str:
    """Return the reason that a command printed before an exception which contains only the
    command's exit status; "" if it printed none, and for any other exception.
    """
    if block.root.short_name != "CalledProcessError":
        return ""
    words = last_words(_own_lines(output, block)[: block.first])
    return words.words if words.is_reason else ""


_ASSERTIONS = 2000  # lines: one for each thread of the GPU
_ASSERTED = re.compile(r"Assertion `[^`\n]{1,300}` failed")
_WRAPPERS = frozenset(
    {"ProcessRaisedException", "PapermillExecutionError", "RayTaskError", "ExceptionGroup"}
    | {"BaseExceptionGroup", "_RemoteTraceback", "RemoteTraceback"}
)


def _says_own_words(block: Block) -> bool:
    """Return whether the user's program raised the exception with a sentence of its own; patterns
    are not applied to such a sentence.
    """
    root = block.root
    if not root.frames or root.short_name in ("OSError", "ImportError") or "." in root.name:
        return False
    last = root.frames[-1]
    own = last.is_own and last.source.startswith(("raise ", "assert "))
    return own and root.short_name in _BUILT_IN


_BUILT_IN = frozenset(
    {"ValueError", "RuntimeError", "AssertionError", "TypeError", "KeyError", "IndexError"}
    | {"Exception", "ArithmeticError", "LookupError", "AttributeError", "NotImplementedError"}
)


def _recognised_cause(ending: ProgramEnd, output: _Output, block: Block) -> Cause | None:
    around = ""
    for raised in block.chain:
        files = ", ".join(
            dict.fromkeys(frame.file.rpartition("/")[2] for frame in raised.frames[-1:])
        )
        told = raised.own_text[:_LONGEST]
        if not told.startswith(raised.words):  # its telling line is not its first
            told = f"{raised.words}\n{told}"
        text = f"{told}\nin {files}" if files else told
        around = around or _lines_around(output, block)
        cause = recognise(text, PROGRAM, task=ending.task, status=ending.status, around=around)
        if cause is not None and cause.code == "process-killed" and "owner has died" in raised.text:
            continue  # it was well: the process that had started it ended, or that one's node
        if cause is not None and (cause.code not in OF_PEERS or _tells_of_peers(raised)):
            return _with_more_facts(ending, output, cause, block.root, block)
    return None


def _tells_of_peers(raised: Raised) -> bool:
    """Return whether the message of an exception itself is about another task, and not only lines
    that other processes wrote into it.
    """
    native = (
        r"(?:tensorflow\.\S*)?"
        r"(?:Unavailable|Aborted|Cancelled|Internal|DeadlineExceeded|Unknown)Error"
    )
    if re.match(rf"{native}|jax|\S*XlaRuntimeError|xgboost|lightgbm", raised.name):
        return True
    if not re.search(
        r"(?:Runtime|Connection|Dist|OS|Pipe|Horovod|Rendezvous|Timeout|Rpc)\w*$", raised.name
    ):
        return False  # a fault of data or of the program, whatever others wrote into it
    first = f"{raised.name}: {raised.message.partition(chr(10))[0]}"
    cause = recognise(first, PROGRAM, task="")
    return cause is not None and cause.code in OF_PEERS


def _lines_around(output: _Output, block: Block) -> str:
    at = max(0, block.first - _AROUND)
    near = [*output.lines[at : block.first], *output.lines[block.end : block.end + _AROUND]]
    return "\n".join(line.text[:_NEAR_LINES] for line in near)


def _is_permanent(block: Block) -> bool:
    """Return whether the next attempt will meet the same exception, because it is an error in the
    program's text, or something is not allowed.
    """
    root, text = block.root, block.root.text[:_LONGEST]
    if root.short_name in _OF_TEXT and "." not in root.name:
        return True
    return bool(_OF_SETUP.search(text) or (_REFUSED.search(text) and not _OF_RATE.search(text)))


# faults of the program's text or configuration by libraries' own classes
_OF_SETUP = re.compile(
    r"^\S*PicklingError: Can't|^jax\.errors\.(?!JaxRuntime)|^omegaconf\.errors\."
    r"|MisconfigurationException: |Weights only load failed|getpwuid\(\): uid not found"
    r"|Duplicate GPU detected|Collective ops must be configured at program startup"
    r"|IllegalArgumentException: Wrong FS: |is not a valid DFS filename"
    r"|no mechanism available: No worthy mechs"
    r"|^java\.lang\.(?:UnsatisfiedLink|IncompatibleClassChange|NoSuchField|AbstractMethod)Error"
    r"|InaccessibleObjectException: Unable to make "
)
# what stores and servers refuse, for who or how they are asked; of libraries' classes by the name
_REFUSED = re.compile(
    r"^\w+\.[\w.]*?(?:AccessDenied|Forbidden|Unauthori[sz]ed|Authentication(?:Failed|Failure)?)(?:Error|Exception)?(?::|$)"
    r"|\b(?:AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|\w*ExpiredToken\w*|PermanentRedirect"
    r"|AuthorizationPermissionMismatch|HiveAccessControlException|ACCESS_DENIED)\b"
    r"|\((?:30[17]|40[13]|InvalidToken)\) when calling|Status Code: (?:301|401|403)\b"
    r"|[Ss]tatus'?:? 40[13]\b|\bcode'?:? 40[13]\b|\b40[13] (?:Client Error|Unauthorized)\b"
    r"|\b403 Forbidden\b|HTTP Error 401:|Forbidden: 403 |Tunnel connection failed: 40[37]\b"
    r"|does not have storage\.\S+ access|This request is not authorized to perform this operation"
    r"|UsageError: api_key not configured|you do not have permission to access"
    r"|(?:No|Default)CredentialsError: |No AWS Credentials provided|AWS Credentials have not been set"  # noqa: E501
)
# refused for now
_OF_RATE = re.compile(r"[Rr]ate.?[Ll]imit|TimeTooSkewed|Signature expired")
_OF_TEXT = frozenset(
    {"SyntaxError", "IndentationError", "TabError", "NameError", "UnboundLocalError", "ImportError"}
    | {
        "ModuleNotFoundError",
        "AttributeError",
        "TypeError",
        "NotImplementedError",
        "RecursionError",
    }
)


def _own_lines(output: _Output, block: Block) -> Sequence[OutputLine]:
    return of_process(output.lines, block.process)


def _lines_of(output: _Output, block: Block) -> list[str]:
    own = _own_lines(output, block)
    return [line.text for line in own[block.first : block.end] if line.text.strip()]


def _quoted_evidence(ending: ProgramEnd, output: _Output, lines: Sequence[str]) -> CauseEvidence:
    kept = [without_workdir(line)[:300] for line in lines]
    if len(kept) > _QUOTED:
        kept = [*kept[:2], "…", *kept[3 - _QUOTED :]]
    return CauseEvidence(ending.task, output.stream, tuple(kept))


# --- what a known cause still needs ---------------------------------------------------------------

_PEER = re.compile(r"/job:(\w+)/(?:replica:\d+/)?task:(\d+)")
# of bash, in a command that goes on after it
_NO_COMMAND = re.compile(r"^(?:\S+: )?line \d+: ([^\s:]+): command not found$", re.MULTILINE)
_OF_TASK = re.compile(r"^[a-z][\w-]*-\d+(?:\.|$)")
_OF_NCCL = re.compile(r"Last error: ?\n([^\n]+)")
_HOST = re.compile(r"host='([\w.-]+)'")
_DOWNLOADS = re.compile(r"^(?:Downloading|Download|Fetching|Using)\b")
_URL = re.compile(r"https?://(?:[^\s/@'\"]*@)?([\w.-]+)")
_BYTES = {
    "bytes": 1 / 2**20,
    "failed": 1 / 2**20,
    "KiB": 1 / 1024,
    "MiB": 1.0,
    "GiB": 1024.0,
    "TiB": 2.0**20,
    "PiB": 2.0**30,
}
_WANTED = re.compile(
    r"(?:[Aa]llocat\w{1,20}|malloc of size) ([\d.]{1,40}) ?(bytes|[KMGTP]iB|failed)"
)
_FAR_TOO_MUCH_MIB = 4 * 2**20


def _with_more_facts(
    ending: ProgramEnd,
    output: _Output,
    cause: Cause,
    error: Raised | None,
    block: Block | None = None,
) -> Cause:
    """Return a recognised cause, completed with what its pattern alone does not know: amounts of
    memory, hosts, other tasks.
    """
    task = ending.task
    if cause.code in ("program-missing", "file-missing"):
        return _without_command(cause, ending, output)
    if cause.code == "out-of-memory":
        return _of_memory(ending, cause, error)
    if cause.code == "gpu-out-of-memory" and error:
        return replace(cause, hint=f"{cause.hint}{_allocator_hint(error.text)}")
    if cause.code == "process-killed":
        hint = (
            f"mostly the kernel, at a memory limit: {more_memory(task, ending.asked_mib)}; or start "  # noqa: E501
            "fewer of them (num_workers of a data loader)"
        )
        return replace(cause, hint=hint, facts={**cause.facts, "asked_mib": ending.asked_mib})
    if cause.code == "certificate-untrusted" and not cause.hint:
        return _of_certificate(ending, cause, block)
    if cause.code in ("host-unreachable", "name-not-found"):
        return _with_host(ending, output, cause, block)
    if cause.code in ("shapes-differ", "weights-differ", "versions-differ") and error:
        return replace(cause, sentence=f"{cause.sentence}: {error.words}")
    if cause.code == "nccl-failed" and error and (why := _OF_NCCL.search(error.text)):
        hint = GPU_TWICE_HINT if "Duplicate GPU" in why[1] else cause.hint
        sentence = f"{cause.sentence}: {without_workdir(why[1])[:200]}"
        lost = "Connect to " in why[1] or "closed by remote peer" in why[1]
        return replace(cause, sentence=sentence, hint=hint, lost_peer=lost)
    if cause.code == "peer-failed" and (peer := _named_peer(task, output)):
        sentence = f"{cause.sentence}; it names {peer}"
        return replace(cause, sentence=sentence, facts={**cause.facts, "peer": peer})
    return cause


def _allocator_hint(text: str) -> str:
    """Return the end of a hint: the setting of the allocator of a GPU's memory that may help,
    chosen by the framework's own message; "" if there is none.
    """
    if text.startswith("tensorflow."):
        return "; TF_FORCE_GPU_ALLOW_GROWTH=true in `env`, where it shares the GPU"
    if "expandable_segments" in text:
        return "; PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True in `env` against fragments"
    return ""


def _of_memory(ending: ProgramEnd, cause: Cause, error: Raised | None) -> Cause:
    said = f"{cause.sentence}: {error.words}" if error else cause.sentence
    device = error is not None and re.search(r"ResourceExhausted|RESOURCE_EXHAUSTED", error.text)
    if (
        device
        and ending.has_gpus
        and not re.search(r"device:CPU|DefaultCPU", error.own_text if error else "")
    ):
        return Cause(
            "gpu-out-of-memory",
            said.replace("ran out of memory", "ran out of GPU memory"),
            f"{GPU_MEMORY_HINT}{_allocator_hint(error.text)}" if error else GPU_MEMORY_HINT,
        )
    wanted = _wanted_mib(error.text) if error else 0.0
    if wanted > _FAR_TOO_MUCH_MIB:
        hint = "no node has so much: is a size or a shape in the program wrong?"
        return replace(cause, sentence=said, hint=hint, permanent=True)
    need = wanted * 1.25 + (ending.asked_mib or 0) if wanted else None
    hint = more_memory(ending.task, ending.asked_mib, need)
    if option := next((one for pattern, one in _OF_JAVA if pattern.search(said)), ""):
        hint = f"Java has a limit of its own: a {option} in its options; with that, {hint}"
    return replace(
        cause,
        sentence=said,
        hint=hint,
        facts={**cause.facts, "asked_mib": ending.asked_mib},
    )


_OF_JAVA = (
    (re.compile(r"Java heap space|GC overhead limit"), "larger -Xmx"),
    (re.compile(r"Direct buffer memory"), "larger -XX:MaxDirectMemorySize"),
    (re.compile(r"Could not reserve enough space"), "smaller -Xmx"),
)


def _wanted_mib(text: str) -> float:
    found = _WANTED.search(text)
    return float(found[1]) * _BYTES.get(found[2], 0.0) if found else 0.0


def _with_host(ending: ProgramEnd, output: _Output, cause: Cause, block: Block | None) -> Cause:
    """Return the cause of a failed connection with the host added. If the host does not belong to
    this job, the cause becomes `host-unreachable`.
    """
    told = ("name", "peer", "host", "asked", "hub", "end", "url", "to")
    host = next((str(cause.facts[key]) for key in told if cause.facts.get(key)), "")
    if not host and block is not None:
        texts = [raised.text for raised in reversed(block.chain)]
        named = (_HOST.search(text) for text in texts)
        host = next((found[1] for found in named if found), "")
    if not host and block is not None:
        texts += [frame.source for frame in own_frames(block)]
        near = output.lines[max(0, block.first - _AROUND) : block.first]
        texts += [line.text for line in reversed(near) if _DOWNLOADS.search(line.text)]
        host = next((found[1] for text in texts if (found := _URL.search(text))), "")
    host = host.rstrip(".")
    if host and (_OF_TASK.match(host) or (cause.code == "name-not-found" and "." not in host)):
        return replace(cause, facts={**cause.facts, "host": host})
    error = f": {block.root.words}" if block else ""
    sentence = f"{ending.task} could not reach {host or 'another host'}{error}"
    hint = (
        "nodes often have no way to the internet: send the file by `files` or `inputs`; or set "
        "https_proxy in `env`"
    )
    if cause.hint and cause.code == "host-unreachable":
        return cause
    if block is not None and _OF_PROXY.search(block.root.text):
        sentence = f"{ending.task} could not reach {host or 'another host'} by its proxy{error}"
        hint = (
            "does the proxy that https_proxy names let this host through? no_proxy in `env` names "
            "hosts that are reached without it"
        )
    elif re.match(r"^(?:localhost$|127\.)", host):
        hint = (
            "that is the task's own container, in which nothing answers: name the host on which "
            "it runs"
        )
    elif not host or re.match(r"^(?:10\.|192\.168\.|172\.)", host):
        hint = "does it run, and can containers reach it? " + hint
    if cause.code == "name-not-found" and not host:
        hint = f"{hint}. For a task of the job: does Registry DNS answer? see `dns.server` in the settings"  # noqa: E501
    facts = {**cause.facts, "host": host}
    return replace(
        cause,
        code="host-unreachable",
        sentence=sentence,
        hint=hint,
        facts=facts,
    )


_OF_PROXY = re.compile(r"ProxyError|Tunnel connection failed")
_EXPIRED = (
    "whoever runs that server renews its certificate; a wrong clock of the node does this, too"
)
_OTHER_NAME = "name the server as its certificate does"
_UNKNOWN_AUTHORITY = (
    "the image does not know who signed that server's certificate: send its authority's "
    "certificate by `files`, and name it by SSL_CERT_FILE and REQUESTS_CA_BUNDLE (of boto: "
    "AWS_CA_BUNDLE)"
)


def _of_certificate(ending: ProgramEnd, cause: Cause, block: Block | None) -> Cause:
    """Return the cause for a certificate that the program does not trust, with the server's name
    and with what helps against the reason.
    """
    told = block.root.words if block else ""
    texts = [raised.text for raised in reversed(block.chain)] if block else []
    texts += [frame.source for frame in own_frames(block)] if block else []
    named = (_HOST.search(text) or _URL.search(text) for text in texts)
    host = next((found[1] for found in named if found), "")
    why = str(cause.facts.get("why") or "")
    hint = _EXPIRED if "expired" in why else _OTHER_NAME if "ismatch" in why else _UNKNOWN_AUTHORITY
    return replace(
        cause,
        sentence=f"{ending.task} does not trust the certificate of {host or 'a server'}"
        f"{f': {told}' if told else ''}",
        hint=hint,
        facts={**cause.facts, "host": host},
    )


def _without_command(found: Cause, ending: ProgramEnd, output: _Output) -> Cause:
    """If a file is missing that a command should have made, and the shell did not find that
    command, return this as the cause.
    """
    lacked = _NO_COMMAND.search("\n".join(line.text for line in output.lines))
    if lacked is None:
        return found
    then = found.sentence.removeprefix(f"{ending.task} ")
    return Cause(
        "command-not-found",
        f"{ending.task} did not find the command {lacked[1]}, and after that {then}",
        f"is {lacked[1]} in the image, and on its PATH? `set -e` ends a command at its first error",
        {**found.facts, "command": lacked[1], "code": found.code},
    )


def _named_peer(task: str, output: _Output) -> str | None:
    text = "\n".join(line.text for line in output.lines)[-32_000:]
    named = [f"{role}-{index}" for role, index in _PEER.findall(text)]
    return next((name for name in reversed(named) if name != task), None)


# --- ends without an exception --------------------------------------------------------------------


def _cause_of_last_words(
    ending: ProgramEnd,
    output: _Output,
    blocks: Sequence[tuple[Block, Sequence[OutputLine]]],
    words: LastWords | None = None,
) -> Cause | None:
    """Return the cause of a program that ended with a sentence and no exception; None if its exit
    status is 0 or not known, or it wrote nothing that tells more.

    Args:
        ending: How the program ended.
        output: The output.
        blocks: The exceptions that it had survived.
        words: The sentence; None to search for it in the output.
    """
    if not ending.status:
        return None
    words = words if words is not None else last_words(output.lines, by_signal=bool(ending.signal))
    cause = _known_words(ending, output, words)
    remark = _survived_words(blocks)
    if cause is None:
        if not words.words and not remark:
            return None
        cause = ending.by_status
        if cause is None:
            return None
        told = f"; its last words: {words.words}" if words.words else ""
        if asserted := _failed_condition(output.lines, words.words):
            told = f"{told}: {asserted}"
        code = "arguments-invalid" if words.is_usage else cause.code
        ended = _how_it_ended(ending) if ending.status not in (126, 127) else cause.sentence
        hint = cause.hint
        if words.is_usage:
            hint = "compare the `command` of the job spec with what the program's --help says"
        if words.is_abort:  # of an abort without a word
            hint = hint.partition("; an abort")[0]
        hint = hint_of(words.words) or hint
        cause = replace(
            cause,
            code=code,
            sentence=f"{ended}{told}",
            hint=hint,
            certain=words.is_usage,
            lost_peer=_tell_of_peers(words),
        )
    if remark and cause.code in ("exited", "aborted", "arguments-invalid"):
        cause = replace(cause, sentence=f"{cause.sentence}; it had logged before: {remark}")
    if not words.lines:
        return cause
    facts = {**cause.facts, **({"place": words.place} if words.place else {})}
    return replace(cause, facts=facts, evidence=_quoted_evidence(ending, output, words.lines))


def _tell_of_peers(words: LastWords) -> bool:
    cause = recognise(words.words, PROGRAM, task="")
    return cause is not None and cause.code in OF_PEERS


def _known_words(ending: ProgramEnd, output: _Output, words: LastWords) -> Cause | None:
    if not words.words or words.is_usage or words.level == "info":
        return None
    for table in (LINES, PROGRAM):
        # JAX tells the reason in the lines behind the one that says that it ends the process
        more = words.lines if words.words.startswith("Terminating") else words.lines[:1]
        text = "\n".join([words.words, *more])
        near = "\n".join(line.text[:_NEAR_LINES] for line in output.lines[-_AROUND:])
        cause = recognise(text, table, task=ending.task, status=ending.status, around=near)
        if cause is None or (cause.code in OF_PEERS and not words.is_abort):
            continue  # a line of noise may tell of a lost connection, too
        if table is PROGRAM and not cause.facts:
            cause = replace(cause, sentence=f"{cause.sentence}: {words.words}")
        sure = words.is_abort or (table is LINES and ending.status in (126, 127))
        sure = sure and cause.certain
        return replace(_with_more_facts(ending, output, cause, None), certain=sure)
    return None


def _survived_words(blocks: Sequence[tuple[Block, Sequence[OutputLine]]]) -> str:
    return blocks[-1][0].root.words[:200] if blocks else ""


def _cause_of_signal(ending: ProgramEnd, output: _Output) -> Cause | None:
    """Return the cause for a program that a signal ended: the output of a crash, if it tells more;
    else the signal alone.
    """
    cause = ending.by_status
    if cause is None:
        return None
    words = last_words(output.lines, by_signal=bool(ending.signal))
    if ending.signal in contract.CRASHES and words.is_abort:
        known = _known_words(ending, output, words)
        if known is not None:
            return known
        facts = {**cause.facts, **({"place": words.place} if words.place else {})}
        hint = cause.hint.replace("PYTHONFAULTHANDLER=1 in `env` shows where; ", "")
        if words.place:
            hint = hint.replace("PYTHONFAULTHANDLER=1 in `env` shows where", "")
        evidence = _quoted_evidence(ending, output, words.lines)
        sentence = f"{cause.sentence}{f', at {words.place}' if words.place else ''}"
        return replace(cause, sentence=sentence, facts=facts, hint=hint, evidence=evidence)
    if ending.signal in contract.CRASHES and _NO_THREAD.search("\n".join(words.lines)):
        starved = recognise("pthread_create failed", PROGRAM, task="it")
        return starved and replace(
            starved,
            sentence=f"{cause.sentence}; probably {starved.sentence}",
            certain=False,
            evidence=_quoted_evidence(ending, output, words.lines),
        )
    return cause


# the last lines of OpenBLAS, which crashes then
_NO_THREAD = re.compile(r"blas_thread_init: (?:pthread_create|RLIMIT_NPROC)")


def _of_abort(
    ending: ProgramEnd,
    output: _Output,
    blocks: Sequence[tuple[Block, Sequence[OutputLine]]],
    ended: tuple[Block, Sequence[OutputLine]] | None,
) -> Cause | None:
    """Return the cause for a program that native code aborted: the message of that code, or the
    exception directly before it.
    """
    words = last_words(output.lines, by_signal=bool(ending.signal))
    is_silent = ended is not None and words.words.startswith("terminate called")
    if words.is_abort and not is_silent:
        known = _known_words(ending, output, words)
        if known is not None:
            return replace(known, evidence=_quoted_evidence(ending, output, words.lines))
        return _cause_of_last_words(ending, output, blocks if ended is None else (), words)
    if ended is not None:
        block, lines = ended
        after = _words_after(blocks, block, lines)
        if after is None or is_silent or _is_ended_anyway(block, after):
            return _cause_of_block(ending, output, block, certain=after is None or is_silent)
    return _cause_of_last_words(ending, output, blocks, words)
