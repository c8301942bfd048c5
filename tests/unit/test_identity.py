"""A job's Kerberos on the submitting side: what is planned, looked at, staged, removed and said."""

from __future__ import annotations

import getpass
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from submit_tf_job import keytab, staging
from submit_tf_job.api import control, identity, submitting
from submit_tf_job.errors import AuthError, ClusterUnavailable, JobSpecError, NameTaken, Refused, SubmitTFJobError
from submit_tf_job.job import Job, Kerberos, Krb5Conf, OwnLogin, Place, TFConfigMode
from submit_tf_job.plan import Plan, Site, plan
from submit_tf_job.settings import Settings, krb5_conf_files, load_settings
from submit_tf_job.storage import NoSuchPath, Stat, Storage
from submit_tf_job.storage.local import LocalStorage
from tests.fakes.keytabs import RECORDED
from tests.fakes.keytabs import keytab as made
from tests.golden.fixed import SITE, SITE_WITHOUT_STAGING, STAGING, SUBMISSION, make_job

PRINCIPAL = "svc/_HOST@EXAMPLE.COM"
SECURE = replace(SITE, secure=True)
DAY = 86400
LOCAL = Kerberos(PRINCIPAL, "svc.keytab", RECORDED)


def problems(job: Job, site: Site = SECURE) -> list[str]:
    with pytest.raises(JobSpecError) as caught:
        plan(job, site)
    return [problem.message for problem in caught.value.problems]


# --- the plan -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("login", "lifetime_s", "logs_in"),
    [
        (OwnLogin.AUTO, None, True),
        (OwnLogin.AUTO, 7 * DAY + 1, True),
        (OwnLogin.AUTO, 7 * DAY, False),
        (OwnLogin.ALWAYS, 60, True),
        (OwnLogin.NEVER, None, False),
    ],
)
def test_a_job_that_may_outlive_its_tokens_logs_in(login: OwnLogin, lifetime_s: int | None, logs_in: bool) -> None:
    job = make_job(kerberos=Kerberos(PRINCIPAL, "hdfs:///k", login=login), lifetime_s=lifetime_s)
    planned = plan(job, SECURE, submission=SUBMISSION)
    files = [file.to_json() for part in planned.service.components if part.configuration for file in part.configuration.files]
    keytabs = [file for file in files if file["dest_file"] == "tfjob.keytab"]
    assert keytabs == ([{"type": "STATIC", "dest_file": "tfjob.keytab", "src_file": "hdfs:///k"}] * 2 if logs_in else [])
    assert plan(job, replace(SECURE, token_life_s=30)).body.count('"tfjob.keytab"') == (2 if login is not OwnLogin.NEVER else 0)


def test_a_keytab_of_this_host_is_staged_beside_the_job_and_never_in_the_service() -> None:
    planned = plan(make_job(kerberos=LOCAL), SECURE, submission=SUBMISSION)
    [upload] = [upload for upload in planned.uploads if upload.secret]
    where = f"{STAGING}/keytabs/mnist/{SUBMISSION}-"
    assert upload.uri.startswith(where)
    assert upload.uri.endswith("/tfjob.keytab")
    assert upload.content == RECORDED
    assert "secret=True" in repr(upload)
    assert repr(RECORDED)[2:20] not in repr(planned)
    service = json.loads(planned.body)
    assert service["kerberos_principal"] == {"principal_name": PRINCIPAL, "keytab": upload.uri}
    key = RECORDED[70:100]
    assert not any(form in planned.body for form in (key.hex(), repr(key)[2:-1]))


def test_a_new_edition_of_the_keytab_is_another_submission_and_its_keys_decide_nothing() -> None:
    """A hash over keys that come from a password could be guessed; versions and dates are no secret."""
    first = make(made("svc/a@EXAMPLE.COM", key=b"1" * 32))
    assert make(made("svc/a@EXAMPLE.COM", key=b"2" * 32)) == first
    assert make(made("svc/a@EXAMPLE.COM", key=b"1" * 32, made=1_800_000_000)) != first


def make(content: bytes) -> tuple[str, str]:
    planned = plan(make_job(kerberos=Kerberos(PRINCIPAL, "k", content)), SECURE)
    return planned.submission, planned.body


def test_a_keytab_and_a_krb5_conf_of_the_nodes_are_mounted() -> None:
    kerberos = Kerberos(PRINCIPAL, "file:///etc/k", krb5_conf=Krb5Conf("node", "/etc/krb5.conf"))
    [first, _] = json.loads(plan(make_job(kerberos=kerberos), SECURE).body)["components"]
    assert first["configuration"]["env"]["YARN_CONTAINER_RUNTIME_DOCKER_MOUNTS"] == "/etc/krb5.conf:/etc/krb5.conf:ro,/etc/k:/etc/k:ro"
    alone = replace(kerberos, login=OwnLogin.NEVER)
    [first, _] = json.loads(plan(make_job(kerberos=alone), SECURE).body)["components"]
    assert first["configuration"]["env"]["YARN_CONTAINER_RUNTIME_DOCKER_MOUNTS"] == "/etc/krb5.conf:/etc/krb5.conf:ro"


def test_what_can_be_refused_before_the_service_is_built() -> None:
    nowhere = replace(SITE_WITHOUT_STAGING, secure=True)
    assert problems(make_job(kerberos=LOCAL), nowhere) == [
        "a keytab of this host is put on HDFS for the job, and no HDFS is known; set hadoop_conf, or staging: hdfs://…"
    ]
    assert problems(make_job(kerberos=LOCAL), replace(SECURE, staging="s3a://bucket")) == problems(make_job(kerberos=LOCAL), nowhere)
    assert problems(make_job(kerberos=LOCAL), SITE) == [
        "this cluster believes everybody's name (auth: simple), so that everybody could read a keytab that is put on its HDFS; "
        "leave `kerberos` out, or set auth: kerberos"
    ]


def test_without_the_bootstrap_nobody_logs_in() -> None:
    kerberos = Kerberos(PRINCIPAL, "hdfs:///k", krb5_conf=Krb5Conf("inline", content=b"x"))
    plain: dict[str, Any] = {"bootstrap": False, "tf_config": TFConfigMode.NONE}
    assert "tfjob" not in plan(make_job(kerberos=kerberos, **plain), SECURE).body
    stated = {"kerberos.krb5_conf": Place("t.yaml", 3, 1)}
    asked = make_job(kerberos=replace(kerberos, login=OwnLogin.ALWAYS), places=stated, **plain)
    assert sorted(problems(asked)) == [
        "without the bootstrap nobody logs in for the task; leave login out, or the bootstrap in",
        "without the bootstrap nobody unpacks it in the container; say none, or the path of one there",
    ]


# --- staging --------------------------------------------------------------------------------------------------------------


def test_a_secret_is_its_owners_alone(tmp_path: Path) -> None:
    storage, me = LocalStorage(), getpass.getuser()
    path = tmp_path / "staging/keytabs/mnist/abc/tfjob.keytab"
    (tmp_path / "staging/keytabs").mkdir(parents=True)
    (tmp_path / "staging/keytabs").chmod(0o755)

    def stage(content: bytes) -> bool:
        return staging.stage_secret(storage, str(path), content, user=me, levels=3)

    assert stage(b"first") is True
    modes = [found.stat().st_mode & 0o7777 for found in (path, *list(path.parents)[:3])]
    assert modes == [0o400, 0o700, 0o700, 0o700]
    assert stage(b"first") is False
    assert stage(b"other") is False
    assert (path.read_bytes(), path.stat().st_mode & 0o7777) == (b"other", 0o400)
    assert [found.name for found in path.parent.iterdir()] == ["tfjob.keytab"]


def test_not_in_somebody_elses_directory(tmp_path: Path) -> None:
    path = tmp_path / "a/b/c/tfjob.keytab"
    with pytest.raises(AuthError, match=r"belongs to .*, not to nobody-we-know"):
        staging.stage_secret(LocalStorage(), str(path), b"x", user="nobody-we-know", levels=3)
    assert not path.exists()


class Rightless(LocalStorage):
    """Keeps no rights, as an object store."""

    def stat(self, path: str) -> Stat:
        found = super().stat(path)
        return replace(found, mode=0o700 if found.is_dir else 0o777)


def test_not_where_rights_are_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "a/b/c/tfjob.keytab"
    with pytest.raises(AuthError, match="cannot be closed to others there"):
        staging.stage_secret(Rightless(), str(path), b"x", user=getpass.getuser(), levels=3)
    assert not path.exists()


# --- around the POST ------------------------------------------------------------------------------------------------------


class Hdfs:
    """What api/identity.py asks of a storage, and nothing else."""

    def __init__(self) -> None:
        self.files: dict[str, tuple[bytes, int]] = {}
        self.trouble: SubmitTFJobError | None = None
        self.removed: list[str] = []

    def path(self, uri: str) -> str:
        return "/" + uri.removeprefix("hdfs://").partition("/")[2]

    def stat(self, uri: str) -> Stat:
        if self.trouble:
            raise self.trouble
        path = self.path(uri)
        if path not in self.files:
            raise NoSuchPath(f"{uri}: no such file or directory")
        content, mode = self.files[path]
        return Stat(path, len(content), is_dir=mode > 0o777, mode=mode & 0o777)

    def read(self, uri: str) -> bytes:
        return self.files[self.path(uri)][0]

    def list_dir(self, uri: str) -> list[Stat]:
        start = self.path(uri) + "/"
        names = {path.removeprefix(start).partition("/")[0] for path in self.files if path.startswith(start)}
        return [Stat(start + name, 0, is_dir=True) for name in sorted(names)]

    def remove(self, uri: str, *, recursive: bool = False) -> None:
        if self.trouble:
            raise self.trouble
        assert recursive
        self.removed.append(self.path(uri))
        self.files = {path: found for path, found in self.files.items() if not path.startswith(self.path(uri) + "/")}


@pytest.fixture
def hdfs(monkeypatch: pytest.MonkeyPatch) -> Hdfs:
    found = Hdfs()
    monkeypatch.setattr("submit_tf_job.storage.open_storage", lambda _uri, **_named: found)
    return found


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    conf = tmp_path / "conf"
    conf.mkdir()
    xml = "<configuration>{}</configuration>"
    prop = "<property><name>{}</name><value>{}</value></property>"
    core = prop.format("fs.defaultFS", "hdfs://nn.example.com:8020") + prop.format("hadoop.security.authentication", "kerberos")
    (conf / "core-site.xml").write_text(xml.format(core))
    (conf / "hdfs-site.xml").write_text(xml.format(prop.format("dfs.namenode.delegation.token.max-lifetime", 2 * DAY * 1000)))
    given = {"user": "alice", "resource_managers": ["http://rm:1"], "hadoop_conf": str(conf)}
    return load_settings(arguments=given, environ={"HOME": str(tmp_path)}, cwd=tmp_path, system_file=tmp_path / "none")


def test_the_site_knows_how_long_tokens_live_and_that_they_are_needed(settings: Settings) -> None:
    site = submitting.site_of(settings)
    assert (site.secure, site.token_life_s, site.staging) == (True, 2 * DAY, STAGING)


def checked(settings: Settings, uri: str = "hdfs:///k") -> str:
    planned = plan(make_job(kerberos=Kerberos(PRINCIPAL, uri)), SECURE)
    try:
        identity.check_keytab(planned, settings)
    except JobSpecError as error:
        return str(error).partition("kerberos.keytab: ")[2]
    return ""


@pytest.mark.parametrize(
    ("content", "mode", "why"),
    [
        (RECORDED, 0o400, ""),
        (RECORDED, 0o440, ""),
        (RECORDED, 0o644, "hdfs:///k can be read by everybody (mode 644); hdfs dfs -chmod 400 /k"),
        (RECORDED, 0o1400, "hdfs:///k is a directory; name the keytab in it"),
        (b"x", 0o400, "hdfs:///k cannot be used: it is no keytab of MIT's format (it does not begin with 05 02)"),
        (b"x" * (keytab.LONGEST + 1), 0o400, "hdfs:///k has 1048577 bytes; no keytab is so large"),
        (made("bob/b@R"), 0o400, f"hdfs:///k cannot be used: it holds no key of {PRINCIPAL}, only of bob/b@R"),
    ],
)
def test_a_keytab_on_hdfs_is_looked_at(hdfs: Hdfs, settings: Settings, content: bytes, mode: int, why: str) -> None:
    hdfs.files["/k"] = (content, mode)
    assert checked(settings) == why


def test_one_that_is_not_there_and_one_that_is_somebody_elses(hdfs: Hdfs, settings: Settings) -> None:
    assert checked(settings) == (
        "hdfs:///k is not there (as alice sees HDFS); YARN would run the job without it, and only its log would say so"
    )
    hdfs.trouble = AuthError('hdfs:///k: AccessControlException: Permission denied: user=alice, access=READ, inode="/k":bob:bob:-r--------')
    assert checked(settings) == f"hdfs:///k is not readable for alice, as whom YARN fetches it: {hdfs.trouble.message}"


@pytest.mark.parametrize("error", [AuthError("GSSAPIError: No credentials"), ClusterUnavailable("no NameNode answers")])
def test_what_cannot_be_looked_at_from_here_is_left_to_yarn(hdfs: Hdfs, settings: Settings, error: SubmitTFJobError) -> None:
    hdfs.trouble = error
    assert checked(settings) == ""
    assert checked(settings, "file:///k") == ""


@pytest.fixture
def planned() -> Plan:
    return plan(make_job(kerberos=LOCAL), SECURE, submission=SUBMISSION)


def submitted(planned: Plan, settings: Settings, monkeypatch: pytest.MonkeyPatch, answer: Any, *, there: bool = False) -> list[str]:
    """Submit with a cluster that answers so; return what happened to the keytab."""
    done: list[str] = []

    def stage(*_args: object, **_named: object) -> bool:
        done.append("staged")
        return not there

    def post(*_args: object, **_named: object) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr("submit_tf_job.yarn.submit.submit", post)
    monkeypatch.setattr(submitting, "check_identity", lambda _cluster: None)
    monkeypatch.setattr(submitting, "_check_limits", lambda *_args: done.append("limits"))
    monkeypatch.setattr(submitting, "_upload", lambda *_args: None)
    monkeypatch.setattr("submit_tf_job.staging.stage_secret", stage)
    monkeypatch.setattr(identity, "forget_keytab", lambda *_args: done.append("removed"))
    monkeypatch.setattr(identity, "forget_other_keytabs", lambda *_args: done.append("others removed"))
    cluster: Any = SimpleNamespace(settings=settings, client=SimpleNamespace(deadline=lambda _seconds: None))
    try:
        submitting.submit(planned, cluster)
    except SubmitTFJobError:
        done.append("raised")
    return done


def test_when_a_staged_keytab_goes(planned: Plan, settings: Settings, hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is certain that no job will need it; never where the answer was lost, or another call had put it there."""

    def happens(answer: Any, **more: bool) -> list[str]:
        return submitted(planned, settings, monkeypatch, answer, **more)

    assert happens(SimpleNamespace(application_id="a", adopted=False)) == ["limits", "staged", "others removed"]
    assert happens(SimpleNamespace(application_id="a", adopted=True)) == ["limits", "staged"]
    assert happens(NameTaken("x")) == ["limits", "staged", "removed", "raised"]
    assert happens(Refused("x"), there=True) == ["limits", "staged", "raised"]
    assert happens(ClusterUnavailable("x")) == ["limits", "staged", "raised"]


def test_what_is_removed_is_this_jobs(planned: Plan, settings: Settings, hdfs: Hdfs) -> None:
    [mine] = [hdfs.path(upload.uri) for upload in planned.uploads if upload.secret]
    home = "/user/alice/.submit_tf_job/staging/keytabs"
    hdfs.files = dict.fromkeys((mine, f"{home}/mnist/old/k", f"{home}/mnist2/a/k"), (b"k", 0o400))
    identity.forget_other_keytabs(planned, settings)
    assert set(hdfs.files) == {mine, f"{home}/mnist2/a/k"}
    identity.forget_keytab(planned, settings)
    assert hdfs.removed == [f"{home}/mnist/old", mine.rpartition("/")[0]]
    identity.forget_keytabs("mnist", settings)
    assert hdfs.removed[-1] == f"{home}/mnist"
    assert list(hdfs.files) == [f"{home}/mnist2/a/k"]


def test_delete_says_where_a_keytab_may_be_left(settings: Settings, hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "_delete", lambda *_args: True)
    cluster: Any = SimpleNamespace(settings=settings)
    told: list[SubmitTFJobError] = []
    assert control.delete(cluster, "mnist", on_trouble=told.append) is True
    assert (told, len(hdfs.removed)) == ([], 1)
    hdfs.trouble = ClusterUnavailable("no NameNode answers")
    assert control.delete(cluster, "mnist", on_trouble=told.append) is True
    assert told[0].message == "whether a keytab that was staged for mnist is left on HDFS is not certain: no NameNode answers"
    assert told[0].hint == f"remove {STAGING}/keytabs/mnist, or delete mnist again"
    simple = replace(settings, values={**settings.values, "auth": "simple"})
    identity.forget_keytabs("mnist", simple)  # asks nobody


# --- what will not work ---------------------------------------------------------------------------------------------------


def test_a_job_without_kerberos_on_a_cluster_with_it_is_told_what_will_not_work(settings: Settings) -> None:
    assert identity.warnings(make_job(), settings) == [
        "the cluster uses Kerberos and the job names no principal: it will run, but status, scale and a stop in good order need one, and "
        "HDFS shuts it out when its delegation tokens end, after 2 days at most; "
        "write kerberos: {principal: alice/_HOST@REALM, keytab: <path of its keytab>}"
    ]
    good = Kerberos("alice/_HOST@EXAMPLE.COM", "hdfs:///k")
    assert identity.warnings(make_job(kerberos=good), settings) == []
    weak = replace(good, keytab="alice.keytab", secret=made("alice/a@EXAMPLE.COM", kind=23))
    assert identity.warnings(make_job(kerberos=weak), settings) == [
        "the keytab alice.keytab: its keys of alice/_HOST@EXAMPLE.COM are of weak types (arcfour-hmac), which Java 17 and later refuse"
    ]
    assert identity.warnings(make_job(kerberos=LOCAL), settings) == [
        f"the principal {PRINCIPAL} is svc to Hadoop, unless the cluster maps it to alice, who submits; "
        "the ApplicationMaster would not be let to alice's files"
    ]
    simple = replace(settings, values={**settings.values, "auth": "simple"})
    assert identity.warnings(make_job(), simple) == []


def test_the_fake_is_asked_as_a_storage_is() -> None:
    for name in ("path", "stat", "read", "list_dir", "remove"):
        assert hasattr(Storage, name)


def test_which_krb5_conf_travels(settings: Settings, tmp_path: Path) -> None:
    assert krb5_conf_files(settings, {"KRB5_CONFIG": "/a:/b"}) == (Path("/a"), Path("/b"))
    assert krb5_conf_files(settings, {}) == ((Path("/etc/krb5.conf"),) if Path("/etc/krb5.conf").is_file() else ())
    own = replace(settings, values={**settings.values, "kerberos.krb5_conf": tmp_path / "krb5.conf"})
    assert krb5_conf_files(own, {"KRB5_CONFIG": "/a"}) == (tmp_path / "krb5.conf",)
