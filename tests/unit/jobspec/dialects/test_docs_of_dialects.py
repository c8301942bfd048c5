"""docs/dialects.md holds the table of each format's keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from submit_tf_job.jobspec.dialects import COMMANDS, FORMATS, table

PAGE = (Path(__file__).parents[4] / "docs" / "dialects.md").read_text("utf-8")


@pytest.mark.parametrize("name", [*FORMATS, *COMMANDS])
def test_page_holds_what_formats_prints(name: str) -> None:
    _, _, rest = PAGE.partition(f"<!-- submit_tf_job formats {name} -->\n")
    shown, end, _ = rest.partition("<!-- end -->")
    assert end
    assert shown.strip() == "\n".join(table(name)).strip()
