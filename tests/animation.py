"""Draw a recorded terminal as an animated SVG: CSS alone, so that it also moves within a README."""

from __future__ import annotations

from html import escape
from io import StringIO
from itertools import pairwise

from rich.console import Console
from rich.text import Text

__all__ = ["drawn", "typed"]

Scene = list[tuple[float, str]]

LINE, CHARACTER, MARGIN, SHOWN = 20, 8.43, 16, 24
LONGEST_S, TYPED_S, PAUSE_S, END_S = 0.7, 1.2, 3.5, 7.0
PROMPT = "\x1b[1m$ "
COLOURS = {"red": "#ff7b72", "yellow": "#e3b341", "green": "#7ee787", "cyan": "#79c0ff"}
STYLE = """\
svg{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",monospace;fill:#e6edf3}
.w{fill:#0d1117;stroke:#30363d}.b{font-weight:bold}.d{fill:#8b949e}
text{white-space:pre;animation-duration:var(--t);animation-iteration-count:infinite;animation-timing-function:step-end}
#s{animation:s var(--t) step-end infinite}
@media(prefers-reduced-motion:reduce){text{animation:none!important}#s{animation-play-state:paused;animation-delay:calc(var(--t)*-.99)}}
"""


def typed(command: str) -> tuple[float, str]:
    """Return a piece of a scene: a command that the user types."""
    return (-1.0, f"{PROMPT}{command}\x1b[0m\n")


def drawn(scene: Scene, columns: int) -> str:
    """Return the picture; pauses are cut, and it begins anew after its end.

    Args:
        scene: Pieces of text, each with its second since the command began; from `typed` -1.
        columns: The width of the terminal; longer lines are wrapped.
    """
    lines = _lines(scene, columns)
    total_s = lines[-1][0] + END_S
    keys, texts = [], []
    for number, (at_s, line) in enumerate(lines):
        share = 100 * at_s / total_s
        keys.append(f"@keyframes l{number}{{0%{{opacity:0}}{share:.2f}%,100%{{opacity:1}}}}")
        texts.append(
            f'<text y="{(number + 1) * LINE}" style="animation-name:l{number}">{_spans(line)}</text>'
        )
    width, height = columns * CHARACTER + 2 * MARGIN, SHOWN * LINE + 2 * MARGIN
    size = width - 2 * MARGIN, height - 2 * MARGIN
    inner = f'x="{MARGIN}" y="{MARGIN}" width="{size[0]:.0f}" height="{size[1]}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" '
        f'width="{width:.0f}" height="{height}" '
        f'role="img" style="--t:{total_s:.1f}s"><title>A job fails, says why, and succeeds</title>\n'
        f"<style>{STYLE}{_scrolling(lines, total_s)}{''.join(keys)}</style>\n"
        f'<rect class="w" x=".5" y=".5" width="{width - 1:.0f}" height="{height - 1}" rx="8"/>\n'
        f'<svg {inner}><g id="s">\n{chr(10).join(texts)}\n</g></svg></svg>\n'
    )


def _lines(scene: Scene, columns: int) -> list[tuple[float, Text]]:
    """Return each line of the terminal with the second of the picture at which it appears."""
    console = Console(width=columns, file=StringIO())
    found: list[tuple[float, Text]] = []
    now_s = before_s = 0.0
    for at_s, text in scene:
        if at_s < 0:
            now_s, before_s = now_s + (PAUSE_S if found else 0.0), 0.0
        else:
            now_s += min(LONGEST_S, max(0.0, at_s - before_s))
            before_s = at_s
        for line in text.replace("\r", "").splitlines():
            wrapped = Text.from_ansi(line).wrap(console, columns, overflow="fold")
            found += [(now_s, piece) for piece in wrapped or [Text()]]
        if at_s < 0:
            now_s += TYPED_S
    return found


def _scrolling(lines: list[tuple[float, Text]], total_s: float) -> str:
    steps = {}
    for number, (at_s, _line) in enumerate(lines[SHOWN:], 1):
        steps[f"{100 * at_s / total_s:.2f}%"] = number * LINE
    frames = "".join(f"{at}{{transform:translateY(-{by}px)}}" for at, by in steps.items())
    last = max(0, len(lines) - SHOWN) * LINE
    return f"@keyframes s{{0%{{transform:none}}{frames}100%{{transform:translateY(-{last}px)}}}}"


def _spans(line: Text) -> str:
    """Return a line as text of SVG, with its colours."""
    ends = sorted({0, len(line), *(s.start for s in line.spans), *(s.end for s in line.spans)})
    shown = ""
    for start, end in pairwise(ends):
        styles = " ".join(str(span.style) for span in line.spans if span.start <= start < span.end)
        kinds = " ".join(letter for letter, word in (("b", "bold"), ("d", "dim")) if word in styles)
        colour = next((code for name, code in COLOURS.items() if name in styles), "")
        if colour or kinds:
            attributes = f' class="{kinds}"' * bool(kinds) + f' fill="{colour}"' * bool(colour)
            shown += f"<tspan{attributes}>{escape(line.plain[start:end])}</tspan>"
        else:
            shown += escape(line.plain[start:end])
    return shown
