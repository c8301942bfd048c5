"""One name stands for one thing: class names are unique, and few module names occur twice."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import submit_tf_job

PACKAGE = Path(submit_tf_job.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
TESTS = Path(__file__).parents[1]


def test_no_class_name_is_defined_twice() -> None:
    names = Counter(
        name
        for path in MODULES
        for name in re.findall(r"^ *class (\w+)[(:]", path.read_text("utf-8"), re.MULTILINE)
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_at_most_ten_module_names_occur_twice() -> None:
    names = Counter(path.stem for path in MODULES if path.stem not in ("__init__", "__main__"))
    assert len([name for name, count in names.items() if count > 1]) <= 10


def test_no_test_file_imports_another() -> None:
    imported = re.compile(r"^(?:from|import) tests\.(?:\w+\.)*test_\w+", re.MULTILINE)
    found = {
        str(path.relative_to(TESTS)): imported.findall(path.read_text("utf-8"))
        for path in TESTS.rglob("*.py")
    }
    assert {name: lines for name, lines in found.items() if lines} == {}
