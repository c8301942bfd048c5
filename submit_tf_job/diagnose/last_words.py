"""Find the sentence with which a program ended, if it raised no exception."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from submit_tf_job.container.output_lines import START
from submit_tf_job.diagnose.output import OutputLine, without_box, without_workdir

_LONGEST = 300
_ERRORISH = re.compile(
    r"\b(?:\w*error|fatal|fail(?:ed|ure|s)?|can(?:no|')t|could(?: not|n't)|unable|invalid|missing|not found|denied|exceed\w*"  # noqa: E501
    r"|unknown|unrecogni[sz]ed|refused|timed out|no such|must|expected|illegal|corrupt\w*|truncated|mismatch|not in \w+ format|abort\w*|required|not (?:set|allowed|exist))\b",  # noqa: E501
    re.IGNORECASE,
)
# what trackers, shells, build tools and run times write behind the words of a program
_TRAILER = re.compile(
    r"^(?:wandb|comet|COMET \w+|clearml|ClearML \w+|neptune|mlflow|aim|swanlab)\b ?:|^🏃|^🧪|^View run "  # noqa: E501
    r"|^Set the environment variable HYDRA_FULL_ERROR|^make(?:\[\d+\])?: (?:\*\*\*|Leaving|Entering)|^\S*[Mm]akefile:\d+: recipe for target|^npm ERR!|^srun: |^slurmstepd: "  # noqa: E501
    r"|^(?:\S+: )?(?:line \d+: +)?(?:\d+ )?(?:Aborted|Killed|Segmentation fault|Terminated|Bus error)\b.*$"  # noqa: E501
    r"|^Exception ignored |^sys:\d+: \w*Warning|^\s*warnings\.warn\(|^\S+:\d+: \w*Warning: |^note: run with `RUST_BACKTRACE"  # noqa: E501
    r"|^\S+: (?:line )?\d+: `.*'$|^\s*\[\[(?:\{\{|[Nn]ode)|^exit status \d+$|^Node\.js v|^Execution halted$|^Calls: |^BEGIN failed--|^<no Python frame>|^Current thread \S+ \(most recent|^Elapsed|^real\t|^user\t|^sys\t|^\(core dumped\)|^=+$|^-+$|^\*+$"  # noqa: E501
    r"|^For more information|^Extension modules: |^If you want to see the full|^Please (?:report|check|file)|^\[Inferior"  # noqa: E501
    r"|^Error executing job with overrides:|^The above exception was the direct"
    r"|^\*\*\* Check failure stack|^\s+@ +0x[0-9a-f]+ |^lost connection$"  # of glog, ssh
    r"|^\d+ errors?$|^collect2: error: ld returned|^Execution of \S+ aborted due to compilation"
    r"|^error: command '\S+' failed with exit|^compilation terminated|^\s+(?:\d+ )?\| "  # compilers
    r"|^-- Configuring incomplete|^Call Stack \(most recent|^Error: (?:Could not create the Java Virtual|A fatal exception has occ)"  # noqa: E501
    r"|^More details here: https?:|^curl failed to verify|^establish a secure connection to it\.|^how to fix it, please visit"  # of curl  # noqa: E501
    r"|^error: called from|^\s+\S+ at line \d+ column \d+$"  # of Octave
    r"|^\++ \S|^ERROR conda\.cli\.main_run|^\W*$|^\[notice\]"  # of bash -x, conda, boxes, pip
    r"|^\s+at [\w.$<>/@]+\(|^\s+\.\.\. \d+ (?:more|common)|^Driver stacktrace:"  # of Java
    # the native code of PyTorch; Open MPI; DeepSpeed; torchrun
    r"|^frame #\d+: |^Exception raised from .*\(most recent call first\)"
    r"|^CUDA kernel errors might be|^For debugging consider passing|^Compile with `TORCH_USE_CUDA"
    r"|^\[[\w.-]+:\d+\] (?:\*\*\* (?:End of error|Process received)|Signal|Failing at|\[ ?\d+\])"
    r"|^(?:\[(?:INFO|ERROR)\] )?\[launch\.py:\d+:\w+\] (?:Killing subprocess|\[.*exits with)"
    r"|^Root Cause \(first observed|^Failures:$|^\s+<NO_OTHER_FAILURES>$|^\[\d+\]:$"
    r"|^\S+\.py FAILED$|^torch\.\S+ChildFailedError: ?$"
    r"|^\s+(?:time|host|rank|exitcode|error_file|traceback) *: "
    r"|^\s*#\d+ +0x|^\s+\[C\]: in |^\s+\S+:\d+: in |^stack traceback:$|Backtrace:$"  # of C, Lua, Fortran  # noqa: E501
)
# what is advised after a reason
_ADVICE = re.compile(
    r"^(?:\S+: )?(?:(?:hint|note|help|tip|notice|important|try|see|you (?:can|may)(?!'| not\b)|if you|to \w+ your \w+"  # noqa: E501
    r"|check (?:the|that|your|if|whether)|available \w+ \w+ are|consider|please)\b|<?https?://\S+$)",
    re.IGNORECASE,
)
_OF_MATLAB = re.compile(r"^Error in \S+ \(line \d+\)$")
_DASHES = re.compile(r"^-{70,}$")
_BOX_LINES = 8
_OF_MPI = re.compile(
    r"^(?:Primary job|mpi\S+ (?:detected that one|noticed that)|MPI_ABORT was|An MPI communication|prterun)"  # noqa: E501
)
_GENERIC = re.compile(
    r"^(?:\S+: Error is not recoverable: |)(?:closing\b.*|(?:exit(?:ing|ed)?(?: now)?|abort(?:ed|ing)?|bye|done|killed|terminated|goodbye|stopp(?:ed|ing)|shutting down|clean\w* up|finished)[\s!.…:]*"  # noqa: E501
    r"|(?!.*\b(?:not|never|in)\b)[\w ]{1,60} (?:completed|finished|done)[\s!.…]*)$",
    re.IGNORECASE,
)
_OF_COMPILER = re.compile(r"^\S{1,200}:\d+:(?:\d+:)? (?:fatal )?error: ")
_TOOL = re.compile(r"^(?!error|fatal|usage|abort)[\w./-]+: (?!error)", re.IGNORECASE)
_USAGE = re.compile(r"^\s*usage:", re.IGNORECASE)
_OF_FS_SHELL = re.compile(r"^-\w+: [\w.]+Exception\b")  # prints its usage behind any error
_USAGE_ERROR = re.compile(
    r"^(?P<program>[\w./ -]*?: )?error: (?P<words>.+)$|^ERROR: (?P<fire>.+)$", re.IGNORECASE
)
_BOX_OF_ERROR = re.compile(r"^\s*[╭┌+][─-]+ (?:[A-Z]\w+ )?[Ee]rror [─-]+[╮┐+]")
_ABSL = re.compile(r"Flags parsing error:\s*(?P<words>.*)$")
_CLICK = re.compile(
    r"^Error: (?:Invalid value for|No such (?:option|command)|Missing (?:option|argument|parameter))"  # noqa: E501
)
_BASH = re.compile(r"^(?P<script>[^\s:]+): (?:line )?(?P<line>\d+): (?P<words>.+)$")
_AT_LINE = re.compile(
    r" (?:at|in) (?:\S{0,300}/)?(?P<file>[\w.-]{1,100}) (?:on )?line (?P<line>\d+)\b"
)  # Perl, PHP
_FILE_LINE = re.compile(
    r"^(?:\S{1,100}: )?(?P<file>[\w./-]{1,200}\.[a-z]{1,4}):(?P<line>\d+):(?:\d+:)? "
)  # C, Lua
_WHAT = re.compile(r"^\s*what\(\): +(?P<words>.*)$")
_TERMINATE = re.compile(r"terminate called (?:after throwing an instance of '(?P<type>[^']+)'|.*)$")
_ABORT = re.compile(
    r"(?P<words>(?:Check failed: |Assertion [`'].{1,600}' failed|\*\*\* stack smashing|double free or|free\(\): |malloc\(\): "  # noqa: E501
    r"|munmap_chunk|corrupted (?:size|double|top)|realloc\(\): |libc\+\+abi|Fatal Python error: |INTEL MKL ERROR"  # noqa: E501
    r"|LLVM ERROR|Unhandled exception[.:] |Unexpected error|Terminating process because|terminated? due to|CHECK failed).*)$"  # noqa: E501
)
# the report of a Java virtual machine that crashed
_HOTSPOT = re.compile(
    r"^#\s+(?P<words>(?:SIG[A-Z]+ |Internal Error|Out of Memory|There is insuff|Native memory).*)$"
)
_HOT_FRAME = re.compile(r"^# ([CVJjv]\s+\S.{0,200})")
# a line that C++ logs before it aborts, by its level
_FATAL = re.compile(r"^(?:: )?F(?:\d{4,8} [\d:.]+ +\d+)? (?P<words>\S+:\d+\] .*)$")
_FAULT_FRAME = re.compile(r'^  File "(?P<file>[^"]+)", line (?P<line>\d+) in ')
_LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib/python\d|^<frozen ")


@dataclass(frozen=True)
class LastWords:
    """The sentence with which a program ended.

    Attributes:
        words: The sentence; "" if there is none.
        lines: The lines from which the sentence was taken.
        place: The script and line that the sentence names, such as `run.sh:3`, or "".
        level: `error`, `warning` or `info` for a line of a log, else "".
        is_usage: Whether the program refused its arguments.
        is_abort: Whether the sentence is the message of native code that aborted.
        is_of_tool: Whether the name of a command precedes the sentence, as in `cp: cannot stat
            'x'`.
    """

    words: str = ""
    lines: tuple[str, ...] = ()
    place: str = ""
    level: str = ""
    is_usage: bool = False
    is_abort: bool = False
    is_of_tool: bool = False

    @property
    def is_reason(self) -> bool:
        """Whether the sentence tells that something failed."""
        is_told = self.is_abort or self.is_of_tool or self.level == "error"
        return is_told or bool(_ERRORISH.search(self.words))


def is_trailer(line: OutputLine) -> bool:
    """Return whether a line may follow the end of any program, so that it does not show a
    reason.
    """
    return bool(_TRAILER.search(line.text))


def last_words(
    lines: Sequence[OutputLine], *, by_signal: bool = False, after: bool = False
) -> LastWords:
    """Return the sentence that tells why a program ended.

    Args:
        lines: The program's output.
        by_signal: Whether a signal ended it.
        after: Whether the lines are those after an exception.
    """
    kept = [
        line
        for line in _without_boxes(lines[-400:], after=after)
        if line.text.strip() and not is_trailer(line)
    ]
    if by_signal:
        return _of_abort(kept)
    usage = _of_usage(kept[-60:])
    if usage is not None:
        return usage
    aborted = LastWords() if after else _of_abort(kept[-12:])
    if aborted.is_abort:
        return aborted
    if compiled := next((line for line in kept[-12:] if _OF_COMPILER.match(line.text)), None):
        return _with_context(compiled, [compiled], compiled.text)
    of_hydra = any("HYDRA_FULL_ERROR" in line.text for line in lines[-12:])
    return replace(_last_sentence(_without_matlab(kept)), is_usage=of_hydra and not after)


def _without_boxes(lines: Sequence[OutputLine], *, after: bool) -> Sequence[OutputLine]:
    """Shorten what mpirun writes between two dashed lines to its first paragraph; if there are
    other lines, or an exception was before them, also remove the lines that only tell that a
    process has ended.
    """
    found: list[OutputLine] = []
    boxes: list[OutputLine] = []
    at = 0
    while at < len(lines):
        end = next(
            (n for n in range(at + 1, min(at + 40, len(lines))) if _DASHES.match(lines[n].text)), 0
        )
        if not end or not _DASHES.match(lines[at].text):
            found.append(lines[at])
            at += 1
            continue
        inside = [line.text for line in lines[at + 1 : end]]
        first = " ".join(itertools.takewhile(str.strip, inside))
        if first.endswith(":"):
            first = " ".join(map(str.strip, inside[:_BOX_LINES]))
        told = replace(lines[at], text=first, level="", message="")
        (boxes if _OF_MPI.match(first) else found).append(told)
        at = end + 1
    return found if after or any(line.text.strip() for line in found) else boxes


def _without_matlab(lines: Sequence[OutputLine]) -> Sequence[OutputLine]:
    """Return the lines without the list of calls, each with its source line, that MATLAB prints
    after an error.
    """
    return [
        line
        for at, line in enumerate(lines)
        if not any(_OF_MATLAB.match(one.text) for one in lines[max(0, at - 1) : at + 1])
    ]


def _make_last_words(
    words: str,
    lines: Sequence[OutputLine],
    place: str = "",
    *,
    is_usage: bool = False,
    is_abort: bool = False,
) -> LastWords:
    told = without_workdir(" ".join(words.split()))[:_LONGEST]
    quoted = tuple(line.text for line in lines)
    return LastWords(told, quoted, place, is_usage=is_usage, is_abort=is_abort)


def _of_usage(lines: Sequence[OutputLine]) -> LastWords | None:
    """Return the message with which a command-line library refuses arguments; None if there is
    none.
    """
    for at, line in enumerate(lines):
        if _BOX_OF_ERROR.match(line.text):
            inside = [without_box(one.text) for one in lines[at + 1 : at + 6]]
            told = [one for one in inside if one.strip() and not re.match(r"[╰└+]", one)]
            return _make_last_words(" ".join(told), lines[at : at + 3], is_usage=True)
        if found := _ABSL.search(line.text):
            words = found["words"] or " ".join(one.text for one in lines[at + 1 : at + 2])
            return _make_last_words(words, lines[at : at + 2], is_usage=True)
    for line in lines[-3:]:
        if _CLICK.match(line.text):
            return _make_last_words(line.text, [line], is_usage=True)
    uses = [at for at, line in enumerate(lines) if _USAGE.match(line.text)]
    if not uses:
        return None
    near = lines[max(0, uses[-1] - 3) :]
    error = next((line for line in reversed(near) if _USAGE_ERROR.match(line.text)), None)
    if error is not None and error.text.endswith(":"):
        at = near.index(error)
        more = near[at : at + 6]
        return _make_last_words(" ".join(line.text for line in more), more, is_usage=True)
    if error is not None:
        return _make_last_words(error.text, [lines[uses[-1]], error], is_usage=True)
    before = lines[uses[-1] - 1] if uses[-1] else None
    if before is not None and _OF_FS_SHELL.match(before.text):
        return _make_last_words(before.text, [before])
    if before is not None and _is_reason(before):
        return _make_last_words(before.text, [before, lines[uses[-1]]], is_usage=True)
    if uses[-1] >= len(lines) - 12:
        return _make_last_words(lines[uses[-1]].text, lines[uses[-1] :], is_usage=True)
    return None


def _of_abort(lines: Sequence[OutputLine]) -> LastWords:
    """Return the message that native code printed before it aborted, with the place that Python's
    fault handler printed; without such a message, the last sentence.
    """
    for at in range(len(lines) - 1, max(-1, len(lines) - 200), -1):
        text = lines[at].text
        if found := _TERMINATE.search(text):
            what = next((m for one in lines[at : at + 3] if (m := _WHAT.match(one.text))), None)
            kind = found["type"] or "terminate called"
            words = f"{kind}: {what['words']}" if what else found["type"] or text
            return _make_last_words(words, lines[at : at + 2], is_abort=True)
        if found := _HOTSPOT.match(text):
            frame = next(
                (m[1] for one in lines[at : at + 12] if (m := _HOT_FRAME.match(one.text))), ""
            )
            return _make_last_words(f"{found['words']} {frame}", lines[at : at + 2], is_abort=True)
        if not _ABORT.search(text) and (found := _FATAL.match(text)):
            return _make_last_words(found["words"], lines[at : at + 1], is_abort=True)
        if found := _ABORT.search(text):
            place = _of_faulthandler(lines[at:])
            words = text if "Assertion" in text else found["words"]
            if "Assertion" in text and (named := _FILE_LINE.match(text)):
                place = f"{named['file'].rpartition('/')[2]}:{named['line']}"
            if words.startswith("Fatal Python error: Aborted"):
                logged = [one.text for one in reversed(lines[max(0, at - 5) : at])]
                fatal = (
                    m["words"] for one in logged if (m := _FATAL.match(one) or _ABORT.search(one))
                )
                words = next(fatal, words)
            more = (
                " ".join(one.text for one in lines[at + 1 : at + 4])
                if "Terminating" in text
                else ""
            )
            return _make_last_words(f"{words} {more}", lines[at : at + 3], place, is_abort=True)
    return _last_sentence(lines)


def _of_faulthandler(lines: Sequence[OutputLine]) -> str:
    begin = next((at for at, line in enumerate(lines) if line.text.startswith("Current thread")), 0)
    for line in lines[begin : begin + 60]:
        if (found := _FAULT_FRAME.match(line.text)) and not _LIBRARY.search(found["file"]):
            return f"{found['file'].rpartition('/')[2]}:{found['line']}"
    return ""


def _last_sentence(lines: Sequence[OutputLine]) -> LastWords:
    """Return the last line. If that only announces the end, advises or informs, return the last
    line with a reason instead, if there is one.
    """
    end = [line for line in lines[-15:] if not line.is_bar]
    if not end:
        return LastWords()
    chosen = end[-1]
    words = chosen.message or chosen.text
    if _GENERIC.match(words) or _ADVICE.match(words) or chosen.level == "info":
        chosen = next((line for line in reversed(end) if _is_reason(line)), chosen)
    if chosen.text.startswith(("  ", "\t")) and chosen is end[-1]:
        heads = [line for line in end if not line.text.startswith((" ", "\t"))]
        head = next((line for line in reversed(heads) if _is_reason(line)), None)
        if head is not None:
            at = end.index(head)
            said = list(itertools.takewhile(lambda one: START not in one.text, end[at : at + 5]))
            return _with_context(head, said, " ".join(one.text for one in said))
    return _with_context(chosen, [chosen], chosen.message or chosen.text)


def _with_context(line: OutputLine, lines: Sequence[OutputLine], words: str) -> LastWords:
    place = ""
    if found := _AT_LINE.search(words):
        place = f"{found['file']}:{found['line']}"
    elif found := _FILE_LINE.match(line.text):
        place = f"{found['file'].rpartition('/')[2]}:{found['line']}"
    elif found := _BASH.match(line.text):
        script = found["script"].rpartition("/")[2]
        place = "" if script in ("bash", "sh") else f"{script}:{found['line']}"
    made = _make_last_words(words, lines, place)
    return LastWords(
        made.words,
        made.lines,
        made.place,
        level=line.level,
        is_of_tool=bool(_TOOL.match(line.text)),
    )


def _is_reason(line: OutputLine) -> bool:
    words = line.message or line.text
    if _GENERIC.match(words) or _ADVICE.match(words):
        return False
    return line.level == "error" or (not line.level and bool(_ERRORISH.search(line.text)))
