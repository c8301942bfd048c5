"""Notice words that only a shell would expand, in values and commands that are not read by a shell.

A list command and `env` are passed as they are written (docs/job-spec.md#commands). A word is
noticed if it has a form that is hardly ever meant literally: a variable in capitals, `$(…)`, `~/`,
or an operator that is a word of its own. `${model}` of OmegaConf, `$ref` of JSON and regular
expressions are not. In a text, an `&` at its end is noticed, because it ends the task before its
program.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator, Sequence

from submit_tf_job.container.child import SHELLS
from submit_tf_job.jobspec.job import Command, Job

_AT_HOME = r"(?:^|(?<=[=:,]))~/"
# `$$` and `\$` mean a dollar sign where anything is expanded at all
_FOR_A_SHELL = re.compile(
    r"(?<![$\\])\$(?:[A-Z_][A-Z0-9_]*(?![A-Z0-9_$])|\([^()\s][^()]*\)|\(\([^\s()]+\)\)"
    r"|\{[A-Z_][A-Z0-9_]*(?:(?::?[-=?+]|[#%])[^{}]*)?\})"
    rf"|(?:^|(?<==))`[^`]+`|\{{\{{[A-Z_][A-Z0-9_]*\}}\}}|{_AT_HOME}[^\s:,]*"
)
# a whole word: a command's output, all arguments, an option whose value is in quotes
_WHOLE = re.compile(r"""(?:(?!\$\()[^\s=])*=?\$\(.+\)|\$[@*]|--?[\w-]+=(["']).*\1""")
_OF_KUBERNETES = re.compile(r"(?<![$\\])\$\(([A-Z_][A-Z0-9_]*)\)")
_OF_YARN = re.compile(r"\{\{([A-Z_][A-Z0-9_]*)\}\}")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_JOINS = frozenset(("&&", "||", "|", "|&", ";", "&"))
_REDIRECTS = re.compile(
    r"\d?>{1,2}(&\d|/\S+|[\w./-]*\w\.[a-z]+)?|\d>{1,2}[a-z]\w*|&>{1,2}\S*|<{1,2}"
)
# words that only a shell knows as commands
_OF_THE_SHELL = frozenset((".", "!", "eval", "export", "set", "source", "ulimit", "umask", "unset"))
_OWN_LANGUAGE = frozenset(
    ("awk", "envsubst", "expr", "find", "gawk", "jq", "mawk", "perl", "ruby", "sed", "test", "[")
)
_CODE = re.compile(r"-[A-Za-z]*[ce]|--command|--eval")
_ONE_SIGN = re.compile(
    r"-[A-Za-z]|(?=--?[\w-]*(?:sep|delim|char|oper|op|cmp|compar|sign|symbol))--?[\w-]*"
)
_LONGEST_TEXT = 120
# the last command of a text is left in the background: not `&&`, `>&` or `\\&`
_BACKGROUND = re.compile(r"(?<![&>\\|])&[\s)}]*(#[^\n]{0,200}(\n\s*)?)?\Z")
_WAITS = re.compile(r"(?:^|[\s;&|(])wait(?:\s|;|$)")


def literal_words(job: Job) -> Iterator[str]:
    """Yield a sentence for each command and variable that contains a word which only a shell would
    expand, once for each place in the job spec. Words about which the translation of another
    system's file has a remark are left out.
    """
    told: set[str] = set()
    translated = " ".join(remark.text for remark in job.remarks)
    for path, words, sentence in (*_of_commands(job), *_of_variables(job)):
        place = job.origin(path)[0]
        if words and place not in told and not all(repr(word) in translated for word in words):
            told.add(place)
            yield f"{place}: {sentence}"


def _of_commands(job: Job) -> Iterator[tuple[str, list[str], str]]:
    """Yield, for each command, its path, the noticed words and the sentence about it."""
    commands = [(f"roles.{role.name}.command", role.command) for role in job.stated_roles]
    if job.prepare:
        commands.append(("prepare", job.prepare))
    for path, command in commands:
        if command.argv is not None:
            yield path, *_of_list(command.argv, job, path)
        else:
            yield path, *_of_text(command)


def _of_list(argv: Sequence[str], job: Job, path: str) -> tuple[list[str], str]:
    if len(argv) == 1 and re.search(r"\s", argv[0].strip()):
        return [argv[0]], f"{argv[0]!r} is one word of a list, so one program's name; write text"
    if _ASSIGNMENT.match(argv[0]):
        name = argv[0].partition("=")[0]
        return [argv[0]], f"a list begins with its program, and {name}= is none; use `env`"
    if argv[0] in _OF_THE_SHELL:
        sentence = f"a list begins with its program, and {argv[0]} is a word of a shell; write text"
        return [argv[0]], sentence
    words = list(_words_of_shell(argv))
    is_of_run = job.origin(path)[1].source == "run"
    way = "give the whole command line in quotes" if is_of_run else "write the command as text"
    text = " ".join(_for_a_shell(word) if word in words else shlex.quote(word) for word in argv)
    if len(text) <= _LONGEST_TEXT and "\n" not in text:
        way += f": -- {shlex.quote(text)}" if is_of_run else f": {text}"
    own = any(word.startswith(("$TFJOB_INPUT", "$TFJOB_OUTPUT")) for word in words)
    also = "; or the directory tfjob-inputs/NAME or tfjob-outputs/NAME" if own else ""
    return words, f"{_stay_sentence(words)} in a list, which no shell reads; {way}{also}"


def _of_text(command: Command) -> tuple[list[str], str]:
    text = command.script or ""
    if _BACKGROUND.search(text) and not _WAITS.search(text):
        sentence = "a program behind & is ended with its task, which is over at once; leave & out"
        return ["&"], sentence
    found = _OF_KUBERNETES.search(text)
    if not found:
        return [], ""
    name = found[1]
    return [found[0]], f"bash runs a program named {name} for {found[0]}; write ${name}"


def _of_variables(job: Job) -> Iterator[tuple[str, list[str], str]]:
    for role in job.stated_roles:
        for name, value in role.env.items():
            words = _FOR_A_SHELL.findall(value)
            if not words:
                continue
            way = "write the value itself"
            if len(value) <= _LONGEST_TEXT and "`" not in value and not _OF_YARN.search(value):
                way += f'; or, in a command that is text: export {name}="{_for_a_shell(value)}"; …'
            sentence = f"{_stay_sentence(words)}, as no shell reads `env`; {way}"
            yield f"roles.{role.name}.env.{name}", words, sentence


def _words_of_shell(argv: Sequence[str]) -> Iterator[str]:
    """Yield the words of a list that only a shell would expand or obey."""
    if posixpath.basename(argv[0]) in _OWN_LANGUAGE:
        return
    before, by_shell = "", False
    for word in argv:
        if _CODE.fullmatch(before) and (by_shell or re.search(r"\s|\(", word)):
            return  # the text of a shell, or code, and its own arguments
        if word in _JOINS or _REDIRECTS.fullmatch(word):
            is_for_a_shell = bool(before) and not _ONE_SIGN.fullmatch(before)
        else:
            found = None if re.search(r"\s", word) else _FOR_A_SHELL.search(word)
            is_for_a_shell = bool(found or _WHOLE.fullmatch(word))
        if is_for_a_shell:
            yield word
        before, by_shell = word, by_shell or posixpath.basename(word) in SHELLS


def _for_a_shell(text: str) -> str:
    """Return a word in the form that bash would expand: `~/` becomes `$HOME/` at the beginning, or
    after `=`, `:` or `,`; the forms of YARN and Kubernetes become `$NAME`.
    """
    text = re.sub(_AT_HOME, "$HOME/", text)
    return _OF_YARN.sub(r"$\1", _OF_KUBERNETES.sub(r"$\1", text))


def _stay_sentence(words: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(words))
    verb = "stay as they are" if len(distinct) > 1 else "stays as it is"
    return f"{', '.join(distinct)} {verb}"
