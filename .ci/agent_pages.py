"""Write SKILL.md and llms.txt, which are made from docs/agents.md and docs/README.md."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
HEAD = """\
---
name: submit_tf_job
description: Run a training program (TensorFlow, PyTorch, JAX) on a Hadoop YARN cluster, or on a \
sandbox of this machine, and find out why a job failed or waits. Use it when a job is to be run on \
YARN with submit_tf_job.
---

"""


def pages() -> dict[str, str]:
    """Return the text of each page, by its name."""
    agents = (ROOT / "docs/agents.md").read_text("utf-8")
    index = (ROOT / "docs/README.md").read_text("utf-8")
    readme = (ROOT / "README.md").read_text("utf-8")
    skill = re.sub(r"\]\((\w[\w./-]*\.md)", r"](docs/\1", agents)
    [said] = re.findall(r"^\*\*(.*?)\*\*$", readme, re.MULTILINE | re.DOTALL)
    rows = re.findall(r"^\| \[([^\]]+)\]\(([^)]+)\) \| (.*) \|$", index, re.MULTILINE)
    lines = []
    for name, target, text in rows:
        words = re.sub(r"\]\((?!http)", "](docs/", text)
        lines.append(f"- [{name}](docs/{target}): {words}")
    first = f"- [SKILL.md](SKILL.md): {agents.splitlines()[0].removeprefix('# ')}"
    llms = [
        "# submit_tf_job",
        "",
        *(f"> {line}" for line in said.splitlines()),
        "",
        "## Docs",
        "",
        first,
        *lines,
    ]
    return {"SKILL.md": HEAD + skill, "llms.txt": "\n".join(llms) + "\n"}


if __name__ == "__main__":
    for name, text in pages().items():
        (ROOT / name).write_text(text, "utf-8")
