"""The table of causes in docs/troubleshooting.md: `python -m tests.cause_table` writes it anew."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PATH = Path(__file__).parents[1] / "docs" / "troubleshooting.md"


def table() -> str:
    """Return the table as the package prints it."""
    command = [sys.executable, "-m", "submit_tf_job.diagnose.codes"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.rstrip()


def main() -> None:
    """Write the table."""
    page = PATH.read_text("utf-8")
    before, head, rest = page.partition("| code | what happened |")
    assert head
    PATH.write_text(before + table() + rest[rest.index("\n\n") :], "utf-8")


if __name__ == "__main__":
    main()
