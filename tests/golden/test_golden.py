"""Every example job spec and its service, byte for byte, as `render` prints it and `submit` posts it.

Two forms of each: `NAME.json` with files and bootstrap staged, `NAME.inline.json` with all of it inside. What is our own code is not
written out in them: in the inline form CODE is one line, and FILES is a list of the files; in the staged form the directory of
bootstrap.py is the hash of that same shortened text. Everything else is exact. What is left out here is proven in `test_payload`.

`make goldens` writes them anew; read the difference before you commit it.
"""

from __future__ import annotations

import base64
import difflib
import io
import json
import os
import tarfile
import zlib
from pathlib import Path

import pytest

from submit_tf_job.plan import Plan, check, payload, plan
from submit_tf_job.plan.data import needs_lists
from submit_tf_job.plan.packing import Pack
from tests.golden.fixed import GOLDEN, SITE, SITE_WITHOUT_STAGING, SPECS, SUBMISSION, block, load

UPDATE = bool(os.environ.get("SUBMIT_TF_JOB_TEST_UPDATE_GOLDENS"))


def shortened(bootstrap: str) -> str:
    """Replace what is compressed in a bootstrap.py by what it holds."""
    code, files = block(bootstrap, "CODE"), block(bootstrap, "FILES")
    task = json.loads(block(bootstrap, "TASK"))
    assert code == payload._base64_lines(payload.code(payload.needs(task)))
    out = bootstrap.replace(f'CODE = """\n{code}\n"""', 'CODE = """\ncontract.py, tfconfig.py and bootstrap/ of submit_tf_job\n"""')
    return out.replace(f'FILES = """\n{files}\n"""', f'FILES = """\n{listed(files)}\n"""')


def listed(files: str) -> str:
    if not files:
        return ""
    with tarfile.open(fileobj=io.BytesIO(zlib.decompress(base64.b64decode(files)))) as tar:
        members = [(member, tar.extractfile(member)) for member in tar]
        return "\n".join(f"{m.name} {m.mode:04o} {payload.content_id(file.read())}" for m, file in members if file)


def golden(planned: Plan) -> str:
    """Write a plan's body as the golden files hold it."""
    body = planned.body
    for component in planned.service.components:
        for file in component.configuration.files if component.configuration else ():
            content = (file.properties or {}).get("content", "")
            if file.dest_file == "bootstrap.py" and content:
                body = body.replace(json.dumps(content), json.dumps(shortened(content)))
    for upload in planned.uploads:
        if isinstance(upload.content, Pack):
            assert upload.uri.split("/")[-2] == upload.content.id
        if isinstance(upload.content, bytes):
            assert upload.uri.split("/")[-2] == payload.content_id(upload.content)
        if upload.uri.endswith("/bootstrap.py") and isinstance(upload.content, bytes):
            text = upload.content.decode("ascii")
            body = body.replace(payload.content_id(upload.content), payload.content_id(shortened(text).encode()))
    return body


def compare(path: Path, text: str) -> None:
    if UPDATE:
        path.write_text(text, encoding="ascii")
    expected = path.read_text(encoding="ascii") if path.exists() else ""
    if text != expected:
        lines = difflib.unified_diff(expected.splitlines(), text.splitlines(), path.name, "now", n=2, lineterm="")
        pytest.fail("the plan has changed; if that is meant, `make goldens`\n" + "\n".join(line[:300] for line in lines), pytrace=False)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.stem)
def test_the_staged_form(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "fits", lambda _service: False)  # whatever the bootstrap's size is today
    planned = plan(load(spec), SITE, submission=SUBMISSION)
    assert bool(planned.uploads) == planned.job.bootstrap
    compare(GOLDEN / f"{spec.stem}.json", golden(planned))


WITHOUT_STAGING = [spec for spec in SPECS if not needs_lists(load(spec))]  # lists of sharded inputs go to HDFS


@pytest.mark.parametrize("spec", WITHOUT_STAGING, ids=lambda spec: spec.stem)
def test_the_inline_form(spec: Path) -> None:
    planned = plan(load(spec), SITE_WITHOUT_STAGING, submission=SUBMISSION)
    assert planned.uploads == ()
    compare(GOLDEN / f"{spec.stem}.inline.json", golden(planned))


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.stem)
def test_a_plan_is_ascii_json_that_ends_with_a_newline(spec: Path) -> None:
    body = plan(load(spec), SITE).body
    assert body.isascii()
    assert body == json.dumps(json.loads(body), indent=2) + "\n"


def test_no_golden_is_left_over() -> None:
    wanted = {f"{spec.stem}.json" for spec in SPECS} | {f"{spec.stem}.inline.json" for spec in WITHOUT_STAGING}
    assert {path.name for path in GOLDEN.glob("*.json")} == wanted
