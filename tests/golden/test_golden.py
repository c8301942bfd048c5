"""Compare the plan of every example job spec with its golden file, byte for byte.

There are two forms: `NAME.json` with files and bootstrap staged, `NAME.inline.json` with both
inside the service. bootstrap.zip and its hash are abbreviated, and in the inline form a role's files
are a list. Everything else is exact.

`make goldens` rewrites the files; read the difference before you commit it.
"""

from __future__ import annotations

import base64
import difflib
import io
import json
import os
import tarfile
import zlib
from hashlib import sha256
from pathlib import Path

import pytest

from submit_tf_job.plan import Plan, plan
from submit_tf_job.plan.bootstrap_zip import bootstrap_zip
from submit_tf_job.plan.delivery import Pack
from tests.golden.fixed import GOLDEN, SITE, SITE_WITHOUT_STAGING, SPECS, load

UPDATE = bool(os.environ.get("SUBMIT_TF_JOB_TEST_UPDATE_GOLDENS"))


def listed(files: str) -> str:
    """Return the names, modes and hashes of the files in a tar in base64."""
    with tarfile.open(fileobj=io.BytesIO(zlib.decompress(base64.b64decode(files)))) as tar:
        members = [(member, tar.extractfile(member)) for member in tar]
        return "\n".join(
            f"{m.name} {m.mode:04o} {sha256(file.read()).hexdigest()}"
            for m, file in members
            if file
        )


def golden(planned: Plan) -> str:
    """Return a plan's body in the form of the golden files."""
    made = bootstrap_zip()
    body = planned.body.replace(base64.b64encode(made).decode(), "BOOTSTRAP")
    body = body.replace(sha256(made).hexdigest(), "HASH")
    for component in planned.service.with_files().components:
        for file in component.configuration.files if component.configuration else ():
            content = (file.properties or {}).get("content", "")
            if file.dest_file == "tfjob-files.tar.base64":
                body = body.replace(json.dumps(content), json.dumps(listed(content)))
    for upload in planned.uploads:
        sent = upload.content
        if isinstance(sent, (Pack, bytes)):
            named = sent.sha256 if isinstance(sent, Pack) else sha256(sent).hexdigest()
            assert upload.uri.split("/")[-2] == named
    return body


def compare(path: Path, text: str) -> None:
    if UPDATE:
        path.write_text(text, encoding="ascii")
    expected = path.read_text(encoding="ascii") if path.exists() else ""
    if text != expected:
        lines = difflib.unified_diff(
            expected.splitlines(), text.splitlines(), path.name, "now", n=2, lineterm=""
        )
        pytest.fail(
            "the plan has changed; if that is meant, `make goldens`\n"
            + "\n".join(line[:300] for line in lines),
            pytrace=False,
        )


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.stem)
def test_plan_staged_equals_golden(spec: Path) -> None:
    planned = plan(load(spec), SITE)
    assert planned.uploads
    compare(GOLDEN / f"{spec.stem}.json", golden(planned))


# Lists of sharded inputs need HDFS.
WITHOUT_STAGING = [spec for spec in SPECS if not any(item.sharded for item in load(spec).inputs)]


@pytest.mark.parametrize("spec", WITHOUT_STAGING, ids=lambda spec: spec.stem)
def test_plan_inline_equals_golden(spec: Path) -> None:
    planned = plan(load(spec), SITE_WITHOUT_STAGING)
    assert planned.uploads == ()
    compare(GOLDEN / f"{spec.stem}.inline.json", golden(planned))


def test_goldens_all_belong_to_a_spec() -> None:
    wanted = {f"{s.stem}.json" for s in SPECS} | {f"{s.stem}.inline.json" for s in WITHOUT_STAGING}
    assert {path.name for path in GOLDEN.glob("*.json")} == wanted
