"""Read the exceptions in a program's output: Python's tracebacks in the forms that launchers,
notebooks and libraries give them, and the messages with which programs in other languages end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from submit_tf_job.container.output_lines import START
from submit_tf_job.diagnose.output import OutputLine, without_box, without_workdir

OF_LAUNCHER = frozenset({"ChildFailedError", "CalledProcessError"})
_LONGEST = 500
_MESSAGE_LINES, _OPEN_LINES, _FOREIGN_LINES, _SENTENCE_LINES = 40, 400, 20, 4
_CAUSE = "The above exception was the direct cause of the following exception:"
_CONTEXT = "During handling of the above exception, another exception occurred:"
_ENDS_MESSAGE = (_CAUSE, _CONTEXT, '"""')
_FRAME = re.compile(
    r'^(?:>|\s)\s*File "(?P<file>[^"\n]+)", line (?P<line>\d+)(?:, in (?P<function>\S+))?'
)
_LAST = re.compile(
    r"^(?P<name>[A-Za-z_][\w.]*\.\w+|(?![A-Z_\d]+\b)[A-Z_]\w*)(?:\([\w.]+\)| \(see above for traceback\))?(?:: ?(?P<words>.*))?$"  # noqa: E501
)
# Names of exception classes, for errors without a traceback such as SyntaxError.
_BARE = re.compile(
    r"^(?P<name>(?:[A-Za-z_][\w.]*\.)?_?[A-Z]\w*(?:Error|Exception|Interrupt|Exit)"
    # of any name in a module for exceptions
    r"|[a-z_][\w.]*\.(?:_?errors?|exceptions?|exc)\.[A-Z]\w*(?=: |$))"
    r"(?: \(see above for traceback\))?(?:: (?P<words>.*))?$"
)
_LIBRARY = re.compile(
    r"/(?:site|dist)-packages/|/lib/python\d(?:\.\d+)?/|/python\d(?:\.\d+)?/lib/|/bin/[^/.]+$|^<frozen "  # noqa: E501
    r"|^<__array_function__|^<decorator|^<attrs|__autograph_generated_|\.pyx$|\.pxi?d?$|\.egg/"
    r"|\.zip/|tfjob_callee\.py$"
)
_NOTEBOOK = re.compile(r"^(?P<name>[A-Z]\w*) {2,}Traceback \(most recent call last\)$")
_CELL = re.compile(
    r"^(?:Cell In ?\[(?P<cell>\d+)\](?:, line (?P<at>\d+))?|Input In \[(?P<input>\d+)\]"
    r"|File (?P<file>\S+?):(?P<line>\d+)(?:, in (?P<function>\w+))?"
    r"|<ipython-input-(?P<old>\d+)-\w+> in |(?P<path>\S+\.py) in (?P<called>\w+)\()"
)
_ARROW = re.compile(r"^-+> *(?P<line>\d+) ")
_BOX = re.compile(r"^\s*[╭┌+][─━-]+ " + re.escape(START) + r"[^─━-]* [─━-]+[╮┐+]\s*$")
_BOX_END = re.compile(r"^\s*[╰└+][─━-]+[╯┘+]\s*$")
_BOX_FRAME = re.compile(r"^(?P<file>\S.*?):(?P<line>\d+)(?: in(?: (?P<function>\S+))?)?$")
_GROUP = re.compile(r"^\s*\+ Exception Group " + re.escape(START))
_GUTTER = re.compile(
    r"^\s*(?:\|(?: (?P<words>.*))?|\+-[+-]*(?: (?:\d+|\.\.\.) -+)?|\+ (?P<first>.*))$"
)
_OPEN = re.compile(
    r"^$|:$|^\d+ validation errors? for |raises an \S+ exception\.$|^in user code:"
    r"|^Graph execution error:|^Exception encountered when calling|^Caught \w+ in "
    r"|^\d+ root error\(s\) found|^Error\(s\) in loading state_dict|^ray::"
    r"|\(most recent call last\)"
)
# first lines that tell nothing of what follows them
_SHELL = re.compile(
    r"^$|^in user code:|^Graph execution error:|^Exception encountered when calling"
    r"|^\d+ root error\(s\) found"
    r"|^Caught \w+ in |^ray::|\(most recent call last\)|look up to see its traceback"
    r"|raises an \S+ exception\.$"
)
# their messages have one line: what follows is not theirs
ONE_LINE = frozenset(
    {"ImportError", "ModuleNotFoundError", "FileNotFoundError", "PermissionError", "KeyError"}
    | {"IndexError", "AttributeError", "NameError", "ZeroDivisionError", "ConnectionRefusedError"}
)
_NESTED = re.compile(r'^(?:"""|\'\'\'|-- Process \d+ terminated|Original Traceback|ray::|-{20,})')
_IN_USER_CODE = re.compile(
    r"^\s+(?P<name>[A-Za-z_][\w.]*(?:Error|Exception|Warning)): (?P<words>.*)$"
)
_IGNORED = re.compile(
    r"^(?:Exception ignored |--- Logging error ---|Error in atexit|Error in sys\.excepthook)"
)
_TORCH_SCRIPT = "Traceback of TorchScript"
_THREAD = re.compile(r"^(?:Exception in thread |Process \S+:$|\[\w+\] Process \S+:)")
_LOGGED = re.compile(r"(?:never retrieved|^future: <|^handle: <|^Unhandled exception in )")
_MODULE = re.compile(r"^<module>$|^_run_module|^_bootstrap|^_wrap$|^run_code$|^<cell")


@dataclass(frozen=True)
class Frame:
    """One call of a traceback: its file, line and function, and the text of the source line ("" if
    unknown).
    """

    file: str
    line: int
    function: str = ""
    source: str = ""

    @property
    def is_own(self) -> bool:
        """Whether the frame is in a file of the user, and not in a file of a library or a
        launcher.
        """
        made = self.file == "<string>" and re.match(r"__|raise_from$", self.function)
        return not _LIBRARY.search(self.file) and not made  # made: by dataclasses, six

    @property
    def place(self) -> str:
        """The file's name and the line, `train.py:12`."""
        return f"{self.file.rpartition('/')[2]}:{self.line}"


@dataclass(frozen=True)
class Raised:
    """One exception that a program's output shows.

    Attributes:
        name: The class with its module, as printed.
        message: The whole message.
        frames: The calls that led to the exception, the outermost first.
    """

    name: str
    message: str = ""
    frames: tuple[Frame, ...] = ()

    @property
    def short_name(self) -> str:
        """The exception's class without its module."""
        return self.name.rpartition(".")[2]

    @property
    def words(self) -> str:
        """The class, and the most informative line of the message."""
        told = telling(self.message)
        name = self.name.removeprefix("__main__.")
        return without_workdir(f"{name}: {told}" if told else name)[:_LONGEST]

    @property
    def text(self) -> str:
        """The class and the whole message."""
        return f"{self.name}: {self.message}" if self.message else self.name

    @property
    def own_text(self) -> str:
        """The class and the message, as the text for patterns. Only the first three lines of the
        message are used, unless the first line announces more lines: other processes may write
        between the lines.
        """
        lines = self.text.split("\n")
        return "\n".join(lines if _OPEN.search(self.message.split("\n")[0].strip()) else lines[:3])


@dataclass(frozen=True)
class Block:
    """The output about one failure: an exception together with the exceptions that led to it.

    Attributes:
        chain: The exceptions, the first cause first.
        first: The index of the first line.
        end: The index of the line after the last line.
        process: The process that wrote the block, as a launcher names it.
        is_logged: Whether a line of a log introduces the exception: then the program had caught it.
        is_ignored: Whether Python says that the exception was ignored, so that it ended nothing.
        is_aside: Whether the exception ended a thread, or a process other than the main process.
        is_whole: Whether the first call in it is known to be the first call of the program although
            calls are missing: Hydra leaves some out.
        is_last_told: Whether the first in `chain` is the exception that was raised last.
        is_python: Whether Python wrote the block.
        statuses: The exit statuses with which such a failure may end a process: 1 for Python, and
            the statuses of `_Language` for others.
    """

    chain: tuple[Raised, ...]
    first: int
    end: int
    process: str = ""
    is_logged: bool = False
    is_ignored: bool = False
    is_aside: bool = False
    is_whole: bool = False
    is_last_told: bool = False
    is_python: bool = True
    statuses: tuple[int, ...] = (1,)

    @property
    def root(self) -> Raised:
        """The exception that caused the others: the first in `chain`."""
        return self.chain[0]

    @property
    def last(self) -> Raised:
        """The exception that was printed last."""
        return self.chain[-1]

    @property
    def is_caught(self) -> bool:
        """Whether the first call in the traceback is not the first call of the program: then the
        program caught the exception there.
        """
        frames = self.last.frames
        return (
            bool(frames)
            and not self.is_whole
            and not (
                _MODULE.match(frames[0].function) or not frames[0].is_own or not frames[0].function
            )
        )

    @property
    def place(self) -> str:
        """The line of the user's own file that raised the exception, such as `train.py:12`, or
        "".
        """
        for raised in self.chain:
            own = [frame for frame in raised.frames if frame.is_own]
            if own:
                return own[-1].place
        return ""


def telling(message: str) -> str:
    """Return the most informative line of an exception's message: the first line, if it is not
    empty and does more than introduce the other lines.
    """
    lines = message.split("\n")
    first = lines[0].strip()
    if told := _told_further_on(first, message):
        return told
    if first and not _OPEN.search(first):
        if first.startswith("Command '") and not re.search(r"' (?:returned|died)", first):
            return f"{first} … {lines[-1].strip()}"  # its command has several lines
        # of Java below Python: `An error occurred while calling f.` and `: Class: words`
        return f"{first} {lines[1][2:].strip()}" if lines[1:2] and lines[1][:2] == ": " else first
    found: list[str] = []
    skip_source = False
    for line in lines[1:]:
        words = line.strip()
        if skip_source and line.startswith("      "):
            skip_source = False
            continue
        skip_source = words.startswith('File "')
        if (
            found
            and len(found) < _SENTENCE_LINES
            and words[:1].islower()
            and found[-1][-1:].isalpha()
        ):
            found.append(words)  # the sentence goes on
            continue
        if found and len(" ".join(found)) > 12:
            break
        if skip_source or not words or re.match(_SAYS_NOTHING, words):
            continue
        found.append(re.sub(r"^(?:\(\d+\) (?:[A-Z_]+: *)?|\{\{function_node \S*\}\} *)", "", words))
        if len(found) == 2:
            break
    if not found:
        return first
    kept = "" if _SHELL.search(first) else f"{first} "
    return f"{kept}{' '.join(found)}".strip()


def _told_further_on(first: str, message: str) -> str:
    """Return the first line of a message with the line that tells more, where its form says which
    one that is; "" if it does not.
    """
    if first.endswith("{") and (said := _IN_JSON.search(message)):  # what a server answered
        return f"{first.rstrip(_BEFORE_JSON)}: {said[1]}"
    if dead := _OF_RAY.search(message):  # behind what it knows of the actor
        return f"{first} {dead[0]}"
    before, _, last = message.rpartition("\n")
    if before and (place := _IN_FILE.match(last)):  # of YAML, the place of the fault
        return f"{first} {place[0].strip()}"
    return ""


_IN_JSON = re.compile(r'^\s*"message": "([^"\n]+)"', re.MULTILINE)
_BEFORE_JSON = " '{"
_OF_RAY = re.compile(r"^The (?:actor|worker|task) is dead because its owner [^\n.]*", re.MULTILINE)
_IN_FILE = re.compile(r'^  in "[^"]{1,300}", line \d+, column \d+$')
_SAYS_NOTHING = (
    r"Detected at node |Node: '|<stack traces|\[\[\{\{|\(most recent call last\)|Stack trace for|[-*=#]{5,}$|The exception content is"  # noqa: E501
    r"|Root error\(s\)|\d+ root error|Arguments received by|Original Traceback|Traceback \("
    r"|Exception encountered at|\^+$|~+|Call arguments received"
)


# --- blocks ---------------------------------------------------------------------------------------


def blocks_of(lines: Sequence[OutputLine]) -> list[Block]:
    """Return the exceptions that the lines of one process contain, in order."""
    found: list[Block] = []
    at = 0
    while at < len(lines):
        block = _block_at(lines, at)
        if block is None:
            at += 1
            continue
        found.append(_with_introduction(lines, block))
        at = max(block.end, at + 1)
    return found


def _with_introduction(lines: Sequence[OutputLine], block: Block) -> Block:
    """Return a block, completed with the facts that the lines before it contain."""
    at = block.first - 1
    while at >= 0 and not lines[at].text.strip() and at >= block.first - 2:
        at -= 1
    if at < 0:
        return block
    before = lines[at]
    return replace(
        block,
        is_logged=not _FATAL_OF_JAVA.match(lines[block.first].text)
        and bool(block.is_logged or _is_introduction(before) or _LOGGED.search(before.text)),
        is_ignored=bool(_IGNORED.match(before.text)),
        is_aside=bool(_THREAD.match(before.text)),
        is_whole=before.text.startswith("Error executing job with overrides"),
    )


_FATAL_OF_JAVA = re.compile(r'^Exception in thread "main"')


def _is_introduction(line: OutputLine) -> bool:
    """Return whether a line of a Python log announces an exception; lines of C++ logs do not
    count.
    """
    return line.level == "error" and not re.search(r"\.(?:cc|cpp|cu|h|hpp|cuh):\d+[\]:]", line.text)


def _block_at(lines: Sequence[OutputLine], at: int) -> Block | None:
    chain: list[Raised] = []
    begin, first = at, at
    while begin < len(lines):
        read = _chain_at(lines, begin)
        if read is None:
            break
        raised, end = read
        chain.extend(raised)
        at = end
        begin = _next_of_chain(lines, end)
        if begin == 0:
            break
    if not chain:
        return _failure_of_other_language(lines, first)
    meant = _meant_first(chain)
    return Block(
        tuple(meant),
        first,
        at,
        lines[first].process,
        is_logged=bool(lines[first].level),
        is_last_told=meant is not chain,
    )


def _next_of_chain(lines: Sequence[OutputLine], end: int) -> int:
    """Return the line at which the next exception of a chain begins; 0 if there is no next
    exception.
    """
    for at in range(end, min(end + _OPEN_LINES, len(lines))):
        words = lines[at].text.strip(" |│")
        if words in (_CAUSE, _CONTEXT):
            at += 1
            while at < len(lines) and not lines[at].text.strip(" |│"):
                at += 1
            return at
        if START in words or lines[at].level:
            return 0  # the lines before it may be the rest of a message, after an empty line
    return 0


def _meant_first(chain: list[Raised]) -> list[Raised]:
    """Return the chain; if its first exception has no message of its own, and its handler raised
    the second one on purpose, with the second one moved to the front.

    In `except KeyError: raise ValueError("no such model")`, the message is in the exception that
    the handler raises. An exception that a handler raises by accident, as in a clean-up, is only a
    consequence.
    """
    if len(chain) < 2 or chain[0].short_name not in _SILENT:
        return chain
    first, second = chain[0], chain[1]
    if first.text == second.text:
        return chain  # of a pool's process, raised again
    if not second.frames or not second.frames[-1].source.startswith("raise"):
        return chain
    if _OPEN.search(second.message.split("\n")[0].strip()):
        return chain  # it quotes the first
    return [second, first, *chain[2:]] if len(chain) == 2 else [*chain[1:], first]


_SILENT = frozenset(
    {"KeyError", "StopIteration", "Empty", "AttributeError", "IndexError", "LookupError"}
)


def _chain_at(lines: Sequence[OutputLine], at: int) -> tuple[list[Raised], int] | None:
    """Return the exceptions of a chain that begins at a line, the first cause first, and the index
    of the line after the chain; None if no chain begins at that line.
    """
    text = lines[at].text
    if _BOX.match(text):
        return _boxed_exception(lines, at)
    if _GROUP.match(text):
        return _first_of_group(lines, at)
    if found := _NOTEBOOK.match(text.strip()):
        return _notebook_exception_at(lines, at, found["name"])
    if START in text:
        return _python_traceback(lines, at)
    if _FRAME.match(text) and not text.startswith(">"):
        return _syntax_error_at(lines, at)
    return None


def _python_traceback(lines: Sequence[OutputLine], at: int) -> tuple[list[Raised], int] | None:
    written = lines[at].text
    indent = len(written) - len(written.lstrip())
    frames: list[Frame] = []
    skipped = 0
    for number in range(at + 1, len(lines)):
        text = lines[number].text
        text = text[indent:] if text[:indent].isspace() else text
        if frame := _FRAME.match(text):
            frames.append(_make_frame(frame, lines, number))
        elif not text.strip() or text[0] in " \t>│└":
            continue
        elif (last := _LAST.match(text)) and not lines[number].level:
            return _raised_with_message(
                lines, number, last["name"], last["words"] or "", frames, indent
            )
        elif START in text:
            return None
        else:
            skipped += 1  # TensorFlow's C++ code logs to the same stderr
            if skipped > _FOREIGN_LINES:
                return None
    return None


def _make_frame(found: re.Match[str], lines: Sequence[OutputLine], number: int) -> Frame:
    source = lines[number + 1].text.strip() if number + 1 < len(lines) else ""
    if source.startswith('File "'):
        source = ""
    return Frame(found["file"], int(found["line"]), found["function"] or "", source)


def _raised_with_message(
    lines: Sequence[OutputLine],
    at: int,
    name: str,
    words: str,
    frames: list[Frame],
    indent: int = 0,
) -> tuple[list[Raised], int]:
    """Return the exception that starts at line `at`, with its whole message, and the index of the
    line after it. If the message quotes another exception, the quoted exception comes first.
    """
    is_of_script = at + 1 < len(lines) and lines[at + 1].text.startswith(_TORCH_SCRIPT)
    is_open = is_of_script or bool(_OPEN.search(words.strip()))
    message, end = [words], at + 1
    longest = _OPEN_LINES if is_open else _MESSAGE_LINES
    nested: tuple[list[Raised], int] | None = None
    while end < len(lines) and end - at < longest:
        line = lines[end]
        text = line.text[indent:] if line.text[:indent].isspace() else line.text
        bare = text.strip()
        if line.level or line.is_bar or bare in _ENDS_MESSAGE or _IGNORED.match(bare):
            break
        quotes = name.startswith("tensorflow.") and end == at + 1
        if START in text and (quotes or f"Exception: {START}" in text):
            nested = _chain_at(lines, end)  # of a function that TensorFlow called
            break
        if START in text or _NOTEBOOK.match(bare):
            before = next((one for one in reversed(message) if one.strip()), "")
            if (is_open and (_NESTED.match(before.strip()) or bare.startswith("Original"))) or (
                is_open and _NOTEBOOK.match(bare)
            ):
                nested = _chain_at(lines, end)
            break
        if not is_open and (not bare or name in ONE_LINE):
            break
        message.append(text.rstrip())
        end += 1
    outer = Raised(name, "\n".join(message).rstrip(), tuple(frames))
    if nested is not None:
        return [*nested[0], outer], nested[1]
    if words.strip() == "in user code:":
        return [*_in_user_code(message), outer], end
    if words.startswith(("ray::", START)) or is_of_script:
        return [*_without_start(message), outer], end
    return [outer], end


def _in_user_code(message: list[str]) -> list[Raised]:
    """Return the exception that AutoGraph quotes, with the calls that it lists."""
    frames: list[Frame] = []
    for number, line in enumerate(message):
        if frame := _FRAME.match(line):
            source = message[number + 1].strip() if number + 1 < len(message) else ""
            frames.append(Frame(frame["file"], int(frame["line"]), frame["function"] or "", source))
        elif found := _IN_USER_CODE.match(line):
            rest = [found["words"], *(more.strip() for more in message[number + 1 :])]
            return [Raised(found["name"], "\n".join(rest).rstrip(), tuple(frames))]
    return []


def _without_start(message: list[str]) -> list[Raised]:
    """Return the exception of a Ray or TorchScript task, whose traceback lacks the first line that
    Python prints, or the one that a message quotes from its first line on.
    """
    frames: list[Frame] = []
    for number, line in enumerate(message[1:], 1):
        if frame := _FRAME.match(line):
            source = message[number + 1].strip() if number + 1 < len(message) else ""
            frames.append(Frame(frame["file"], int(frame["line"]), frame["function"] or "", source))
        elif (last := _LAST.match(line)) and frames:
            rest = [last["words"] or "", *message[number + 1 :]]
            return [Raised(last["name"], "\n".join(rest).rstrip(), tuple(frames))]
    return []


def _syntax_error_at(lines: Sequence[OutputLine], at: int) -> tuple[list[Raised], int] | None:
    """Return an error that has a place but no traceback, such as SyntaxError, and the index of the
    line after it; None if there is none at this line.
    """
    frames: list[Frame] = []
    for number in range(at, min(at + 6, len(lines))):
        text = lines[number].text
        if frame := _FRAME.match(text):
            frames.append(_make_frame(frame, lines, number))
        elif (last := _BARE.match(text)) and not lines[number].level:
            return _raised_with_message(lines, number, last["name"], last["words"] or "", frames)
        elif text and not text.startswith((" ", "\t")):
            return None
    return None


def _boxed_exception(lines: Sequence[OutputLine], at: int) -> tuple[list[Raised], int] | None:
    """Return an exception that the library rich drew as a box, and the index of the line after it;
    None if the box, or the exception below it, is incomplete.
    """
    frames: list[Frame] = []
    kept = ""
    for number in range(at + 1, len(lines)):
        text = lines[number].text
        if _BOX_END.match(text):
            return _below_box(lines, number + 1, frames)
        words = without_box(text)
        if not words.strip() or words[0] in " ❱╭│╰┌└":
            found = re.match(r"^❱ *\d+ [│ ]*(.*)", words)
            if found and frames:
                frames[-1] = replace(frames[-1], source=found[1].strip())
            kept = ""
            continue
        kept += words.strip()
        if frame := _BOX_FRAME.match(kept):
            frames.append(Frame(frame["file"], int(frame["line"]), frame["function"] or "<module>"))
            kept = ""
    return None


def _below_box(
    lines: Sequence[OutputLine], at: int, frames: list[Frame]
) -> tuple[list[Raised], int] | None:
    for number in range(at, min(at + 3, len(lines))):
        text = lines[number].text
        if last := _LAST.match(text.strip()):
            indent = len(text) - len(text.lstrip())
            return _raised_with_message(
                lines, number, last["name"], last["words"] or "", frames, indent
            )
    return None


def _first_of_group(lines: Sequence[OutputLine], at: int) -> tuple[list[Raised], int] | None:
    """Return the first exception of an exception group and then the group, with the index of the
    line after them; None if no exception group is printed at line `at`.
    """
    inner: list[OutputLine] = []
    end = at
    while end < len(lines) and (found := _GUTTER.match(lines[end].text)):
        words = found["words"] or ""
        if found["first"]:
            words = f"{START}:"
        inner.append(replace(lines[end], text=words))
        end += 1
    found_blocks = blocks_of(inner)
    if not found_blocks:
        return None
    group, *members = found_blocks
    leaf = next((one for one in members if "ExceptionGroup" not in one.root.name), None)
    chain = leaf.chain if leaf else tuple(_without_traceback(inner[group.end :]))
    return [*chain, *group.chain], end


def _without_traceback(lines: Sequence[OutputLine]) -> list[Raised]:
    """Return the first exception of an exception group, if it was never raised and so has no
    traceback.
    """
    found = (bare_exception(line) for line in lines)
    return [next(one for one in found if one)] if any(map(bare_exception, lines)) else []


def _notebook_exception_at(
    lines: Sequence[OutputLine], at: int, name: str
) -> tuple[list[Raised], int] | None:
    """Return an exception in the form that IPython prints, and the index of the line after it; None
    if its last line is missing.
    """
    frames: list[Frame] = []
    for number in range(at + 1, len(lines)):
        text = lines[number].text
        if found := _CELL.match(text):
            cell = found["cell"] or found["input"] or found["old"]
            file = f"Cell In[{cell}]" if cell else found["file"] or found["path"] or "cell"
            line = int(found["at"] or found["line"] or 0)
            called = found["function"] or found["called"] or "<module>"
            frames.append(Frame(file, line, called))
        elif (arrow := _ARROW.match(text)) and frames:
            source = text.partition(f"{arrow['line']} ")[2].strip()
            frames[-1] = replace(frames[-1], line=int(arrow["line"]), source=source)
        elif text.startswith((f"{name}: ", f"{name}:")) or text.strip() == name:
            return _raised_with_message(lines, number, name, text.partition(":")[2].strip(), frames)
        elif START in text and number > at + 1:
            return None
    return None


# --- other languages ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Language:
    """How the runtime of a programming language reports that a program failed.

    Attributes:
        start: Pattern of the first line of the report, with the groups `name`, `words`, `file` and
            `line`.
        more: Pattern of further lines that belong to the report.
        statuses: The exit statuses with which the process then ends.
    """

    start: re.Pattern[str]
    more: re.Pattern[str]
    statuses: tuple[int, ...]


_LANGUAGES = (
    _Language(  # Java, Scala
        re.compile(
            r'^(?P<thread>Exception in thread "[^"]*" |Caused by: )?(?P<name>(?:[a-z][\w$]*\.)+[A-Z][\w$.]*(?:Exception|Error|\$InvalidToken)(?(thread)(?:\([\w.$]+\))?))(?::? (?P<words>.*))?$'  # noqa: E501
        ),
        re.compile(
            r"^\s+at [\w.$<>/@]+\(|^\s+\.\.\. \d+ (?:more|common)|^Caused by: |^\s+Suppressed: "
        ),
        (1, 255),
    ),
    _Language(
        re.compile(r"^(?P<name>panic|fatal error): (?P<words>.*)$"),
        re.compile(
            r"^$|^goroutine |^(?=\S+\().*\)$|^\t\S+:\d+|^\[signal |^exit status |^created by "
        ),
        (2, 1),
    ),
    _Language(
        re.compile(
            r"^thread '[^']*' (?:\(\d+\) )?(?P<name>panicked) at (?P<file>[^\s:']+):(?P<line>\d+):\d+:?(?P<words>)$"  # noqa: E501
        ),
        re.compile(r"^\S.*|^note: |^\s+\d+: |^\s+at "),
        (101,),
    ),
    _Language(  # Node
        re.compile(r"^(?P<name>(?:Uncaught )?(?:[A-Z]\w*)?Error(?: \[\w+\])?): (?P<words>.*)$"),
        re.compile(r"^\s+at .*:\d+:\d+\)?$|^Node\.js v|^$|^\s+(?:code|errno|path|syscall): "),
        (1, 7),
    ),
    _Language(
        re.compile(r"^(?P<name>Error in )(?P<words>(?!.*\(line \d+\)$).*)$"),
        re.compile(r"^  \S.*|^Calls: |^Execution halted|^In addition: |^Warning message"),
        (1,),
    ),
    _Language(  # Julia
        re.compile(r"^(?P<name>ERROR): (?P<words>(?:LoadError: )?.*)$"),
        re.compile(r"^- |^Stacktrace:|^\s+\[\d+\] |^\s+@ |^in expression starting at "),
        (1,),
    ),
    _Language(  # Ruby
        re.compile(
            r"^(?P<file>\S+\.rb):(?P<line>\d+):in [`'][^']*': (?P<words>.*) \((?P<name>[A-Z]\w*(?:::\w+)*)\)$"  # noqa: E501
        ),
        re.compile(r"^\s+from "),
        (1,),
    ),
)
_JAVA_FRAME = re.compile(r"^\s+at (?P<call>[\w.$<>/@]+)\((?P<file>\w+\.\w+):(?P<line>\d+)\)")
_OF_THRIFT = re.compile(r"^Caused by: (?P<name>[A-Z]\w*Exception)\(\w+:(?P<words>.*)$")
_FOREIGN_LIBRARY = re.compile(
    r"@ (?:Base |Core )?\./"  # of Julia
    r"|(?:\(|at )node:|/node_modules/|/\.julia/|/julia/|/pkg/mod/|/usr/local/go/|/rustc/|/\.cargo/"
)
_PLACE_ABOVE = re.compile(r"^(?P<file>/\S{1,300}):(?P<line>\d+)$")  # of Node's syntax errors
_JAVA_LIBRARY = re.compile(r"^(?:java|javax|jdk|sun|scala|org\.apache)\b")
_PLACE = re.compile(
    r"^\s(?:.*[\s:()])?[^\s:()/]*(?P<file>/[^\s:()]+):(?P<line>\d+)(?::\d+\)?)?(?: \+0x\w+)?$"
)


def _failure_of_other_language(lines: Sequence[OutputLine], at: int) -> Block | None:
    """Return the failure that begins at this line and was reported by the runtime of another
    language; None if there is none.
    """
    if lines[at].level and not lines[at].text.startswith("ERROR: LoadError"):
        return None
    for language in _LANGUAGES:
        if found := language.start.match(lines[at].text):
            end = at + 1
            while end < len(lines) and language.more.match(lines[end].text):
                end += 1
            if not any(line.text.strip() for line in lines[at + 1 : end]):
                continue
            held = [line.text for line in lines[at:end]]
            raised = _of_language(found.groupdict(), held)
            above = (_PLACE_ABOVE.match(line.text) for line in lines[max(0, at - 5) : at])
            if not raised[0].frames and (named := next(filter(None, above), None)):
                frame = Frame(named["file"], int(named["line"]))
                raised = (replace(raised[0], frames=(frame,)), *raised[1:])
            process = lines[at].process
            return Block(raised, at, end, process, statuses=language.statuses, is_python=False)
    return None


def _of_language(groups: dict[str, str | None], held: list[str]) -> tuple[Raised, ...]:
    name, words = groups["name"] or "", groups["words"] or ""
    frames = []
    if groups.get("file"):
        frames.append(Frame(str(groups["file"]), int(groups["line"] or 0)))
    if name == "panicked":
        words = next((line for line in held[1:] if line.strip()), "")
    elif name == "Error in ":  # R continues a long call on the next line
        words = " ".join([words, *(line.strip() for line in held[1:2] if line.startswith("  "))])
        call, _, words = words.partition(" : ")
        name = f"{name}{call.rstrip(' :')}"
    chain = [Raised(name, words, tuple(frames))]
    own: list[Frame] = []
    for line in held[1:]:
        if line.startswith("Caused by: ") and (found := _LANGUAGES[0].start.match(line)):
            chain.insert(0, Raised(found["name"], found["words"] or "", ()))
            own = []
        elif thrift := _OF_THRIFT.match(line):
            chain.insert(0, Raised(thrift["name"], thrift["words"], ()))
            own = []
        elif java := _JAVA_FRAME.match(line):
            if not _JAVA_LIBRARY.match(java["call"]):
                own.append(Frame(java["file"], int(java["line"])))
        elif (place := _PLACE.match(line)) and not _FOREIGN_LIBRARY.search(line):
            own.append(Frame(place["file"], int(place["line"])))
        if own and not chain[0].frames:
            chain[0] = replace(chain[0], frames=(own[0],))
    while _is_nameless(chain):
        chain[1] = replace(chain[1], frames=chain[1].frames or chain[0].frames)
        del chain[0]
    return tuple(chain)


def _is_nameless(chain: Sequence[Raised]) -> bool:
    """Return whether the first of chained exceptions is Java's of a connection, which does not name
    the other side, and the next one has its words and more.
    """
    told = chain[0].message
    if not chain[1:] or not told or len(chain[1].message) < len(told) + 8:
        return False
    is_of_net = chain[0].name.startswith("java.net.") or " failed: " in told
    return is_of_net and told in chain[1].message


def bare_exception(line: OutputLine) -> Raised | None:
    """Return the exception in a line that has no traceback, as with `sys.tracebacklimit = 0`; None
    if the line names no exception.
    """
    found = _BARE.match(line.text) if not line.level else None
    return Raised(found["name"], found["words"] or "") if found else None


def own_frames(block: Block) -> Iterator[Frame]:
    """Yield the calls of a block that are in files of the user."""
    for raised in block.chain:
        yield from (frame for frame in raised.frames if frame.is_own)
