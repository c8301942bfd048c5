"""The bootstrap logs its task in against a real KDC: by the Kerberos library, by kinit, again
before the ticket ends, or not at all.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import sysconfig
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from submit_tf_job.container import contract, keytab
from tests.bootstrap.harness import Cluster, cluster, role
from tests.builders.keytabs import keytab as made
from tests.builders.tokens import hdfs_token, token_file
from tests.kerberos.conftest import REALM, Kdc

PRINCIPAL = f"svc/node-of-chief-0@{REALM}"
LIFE_S = 16
SUM = "sum() { cksum < tfjob-krb5cc; };"


@pytest.fixture(scope="module")
def svc(kdc: Kdc) -> Path:
    """A keytab of several hosts, of which the task's is not the first."""
    path = kdc.directory / "svc.keytab"
    for host in ("another", "node-of-chief-0"):
        kdc.admin(f"addprinc -randkey svc/{host}", f"ktadd -norandkey -k {path} svc/{host}")
    path.chmod(0o400)
    return path


@pytest.fixture
def task(kdc: Kdc, tmp_path: Path) -> Iterator[Cluster]:
    (tmp_path / "tokens").write_bytes(token_file(hdfs_token()))
    with cluster(tmp_path) as found:
        yield found


def run(
    task: Cluster, kdc: Kdc, path: Path, command: str = "", *, login: str = "auto", **env: str
) -> tuple[int, str]:
    """Run one task, and return its status and what the bootstrap said of its login; tickets live
    for 16 s.
    """
    conf, lives = task.root / "krb5.conf", f"[libdefaults]\n ticket_lifetime = {LIFE_S}s"
    conf.write_text(kdc.krb5_conf.read_text().replace("[libdefaults]", lives))
    kerberos = {"krb5_conf": str(conf), "principal": f"svc/_HOST@{REALM}"}
    kerberos |= {"keytab": str(path), "login": login}
    command = command or "klist; env | grep -e KRB -e TOKEN -e OPTS | sort"
    task.job({"chief": role(1, "trains", command)}, tokens=True, kerberos=kerberos)
    own = {"HADOOP_TOKEN_FILE_LOCATION": str(task.root / "tokens"), "HADOOP_OPTS": "-Xmx1g"}
    task.start(env={**own, **env})
    status = task.wait("chief-0")
    return status, task.stderr("chief-0")


def test_a_task_that_is_logged_in(task: Cluster, kdc: Kdc, svc: Path) -> None:
    status, said = run(task, kdc, svc)
    cwd, printed = task.places["chief-0"][0], task.stdout("chief-0")
    assert status == 0, said
    until = r"[-\d]+ [:\d]+ UTC; the ticket is renewed here\n"
    assert re.search(rf"\] {PRINCIPAL} is logged in from its keytab until {until}", said)
    assert f"Default principal: {PRINCIPAL}" in printed
    assert printed.splitlines()[-6:] == [
        f"HADOOP_OPTS=-Xmx1g -Djava.security.krb5.conf={task.root}/krb5.conf",
        f"HADOOP_TOKEN_FILE_LOCATION={task.root}/tfjob-tokens",
        f"KRB5CCNAME=FILE:{cwd}/tfjob-krb5cc",
        f"KRB5_CLIENT_KTNAME=FILE:{cwd}/tfjob-own.keytab",
        f"KRB5_CONFIG={task.root}/krb5.conf",
        f"LIBHDFS_OPTS=-Djava.security.krb5.conf={task.root}/krb5.conf",
    ]
    # none that could run out under it
    assert (task.root / "tfjob-tokens").read_bytes() == token_file()
    for name in ("tfjob-krb5cc", "tfjob-own.keytab"):
        assert (cwd / name).stat().st_mode & 0o7777 == 0o600
    entries = keytab.read((cwd / "tfjob-own.keytab").read_bytes())
    assert {entry.principal for entry in entries} == {PRINCIPAL}
    told: list[dict[str, Any]] = task.report()["credentials"]
    assert [(item["kind"], item["owner"]) for item in told] == [
        ("HDFS_DELEGATION_TOKEN", "alice"),
        ("kerberos-ticket", PRINCIPAL),
    ]


def test_the_ticket_is_renewed_while_the_program_runs(task: Cluster, kdc: Kdc, svc: Path) -> None:
    """Longer than a ticket lives, with a KDC that is away for a while: it is said once, and once
    that all is well again.
    """
    # A machine that stood still between two looks may have slept through the renewal: look again.
    late = "[ $((SECONDS - last)) -gt 3 ] && until klist -s; do sleep 0.1; done"
    command = (
        f"{SUM} klist -s && sum; touch ../went; until [ -e ../back ]; do sleep 0.1; done; "
        "sum; was=$(sum); last=$SECONDS; "
        f'while [ "$(sum)" = "$was" ]; do klist -s || {{ {late}; }} || exit 9; '
        "last=$SECONDS; sleep 0.1; done; klist -s && sum"
    )

    def outage() -> None:
        task.until(lambda: (task.root / "app" / "went").exists())
        kdc.stop()
        task.until(lambda: "could not be renewed" in task.stderr("chief-0"))
        kdc.start()
        task.until(lambda: "is logged in again" in task.stderr("chief-0"))
        (task.root / "app" / "back").touch()

    away = threading.Thread(target=outage)
    away.start()
    status, said = run(task, kdc, svc, command)
    away.join(60)
    assert status == 0, f"there was no moment without a ticket: {said}"
    assert len(set(task.stdout("chief-0").splitlines())) == 3, "each renewal gives another ticket"
    lost = r"the ticket of \S+ could not be renewed; it ends at [^:]+:\d\d:\d\d UTC: .*KDC"
    assert len(re.findall(lost, said)) == 1, said
    warnings = [str(item) for item in task.report()["warnings"]]
    assert [text for text in warnings if "logged in again" in text] != []


def test_a_keytab_that_its_administrator_rotates(
    task: Cluster, kdc: Kdc, svc: Path, tmp_path: Path
) -> None:
    """The file on the node has the new keys; the old ones log nobody in any more."""
    rotated = tmp_path / "node.keytab"
    shutil.copy(svc, rotated)
    command = (
        f"{SUM} touch ../went; until [ -e ../turned ]; do sleep 0.1; done; was=$(sum); "
        'until [ "$(sum)" != "$was" ]; do sleep 0.1; done; klist -s'
    )

    def rotate() -> None:
        task.until(lambda: (task.root / "app" / "went").exists())
        task.kill("chief-0", signal.SIGSTOP)  # no login finds the old file with the new key
        kdc.admin(f"cpw -randkey {PRINCIPAL}")
        kdc.admin(
            f"ktadd -norandkey -k {tmp_path}/new svc/another",
            f"ktadd -norandkey -k {tmp_path}/new {PRINCIPAL}",
        )
        (tmp_path / "new").replace(rotated)
        task.kill("chief-0", signal.SIGCONT)
        (task.root / "app" / "turned").touch()

    turning = threading.Thread(target=rotate)
    turning.start()
    try:
        status, said = run(task, kdc, rotated, command)
    finally:
        turning.join(60)
        kdc.admin(
            f"ktadd -norandkey -k {svc}.new svc/another",
            f"ktadd -norandkey -k {svc}.new {PRINCIPAL}",
        )
        Path(f"{svc}.new").replace(svc)
    assert (status, "could not be renewed" in said) == (0, False), said


def test_by_kinit_without_a_library(task: Cluster, kdc: Kdc, svc: Path, tmp_path: Path) -> None:
    """An image with a Kerberos of its own, whose library has another name."""
    blocked = tmp_path / "lib"
    blocked.mkdir()
    (blocked / "libgssapi_krb5.so.2").write_text("no library")
    hidden = {"LD_LIBRARY_PATH": str(blocked)}
    for program in ("kinit", "klist"):
        found = blocked / program
        found.write_text(f'#!/bin/sh\nunset LD_LIBRARY_PATH\nexec {shutil.which(program)} "$@"\n')
        found.chmod(0o755)
    own = f"{blocked}:{os.environ['PATH']}"
    status, said = run(task, kdc, svc, "klist", PATH=own, **hidden)
    assert status == 0, said
    assert f"Default principal: {PRINCIPAL}" in task.stdout("chief-0")
    bare = os.fspath(_only(tmp_path / "bin", "bash", "env"))
    status, said = run(task, kdc, svc, "true", PATH=bare, **hidden)
    assert status == 0
    assert f"the login of svc/_HOST@{REALM} failed: the image has neither " in said
    assert "libgssapi_krb5.so.2 nor kinit" in said
    assert "the program has only YARN's delegation tokens, and loses HDFS with them" in said


def test_by_kinit_with_a_python_without_ctypes(
    task: Cluster, kdc: Kdc, svc: Path, tmp_path: Path
) -> None:
    """The library is there, and this Python cannot call it."""
    library = Path(sysconfig.get_path("stdlib"))
    home = tmp_path / "home" / "lib" / library.name
    home.mkdir(parents=True)
    for entry in library.iterdir():
        if entry.name != "ctypes":
            (home / entry.name).symlink_to(entry)
    status, said = run(task, kdc, svc, "klist", PYTHONHOME=os.fspath(tmp_path / "home"))
    assert status == 0, said
    assert f"Default principal: {PRINCIPAL}" in task.stdout("chief-0")


def _only(folder: Path, *programs: str) -> Path:
    folder.mkdir()
    for program in programs:
        found = shutil.which(program)
        assert found
        (folder / program).symlink_to(found)
    (folder / Path(sys.executable).name).symlink_to(sys.executable)
    return folder


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, r"the keytab \S+/x.keytab cannot be read: No such file or directory"),
        (made(f"bob/here@{REALM}"), rf"it holds no key of svc/_HOST@{REALM}, only of bob/here@"),
        (made(f"svc/here@{REALM}"), r"Client 'svc/here@KDC.TEST' not found in Kerberos database"),
        # keys that are none
        (made(PRINCIPAL), r"Preauthentication failed|[Dd]ecrypt|Password incorrect"),
    ],
    ids=["missing", "somebody else's", "unknown to the KDC", "old keys"],
)
def test_a_login_that_fails_ends_the_task_only_where_it_must_not_go_on(
    task: Cluster, kdc: Kdc, svc: Path, tmp_path: Path, content: bytes | None, why: str
) -> None:
    path = tmp_path / "x.keytab"
    if content is not None:
        path.write_bytes(content)
    status, said = run(task, kdc, path, "echo $HADOOP_TOKEN_FILE_LOCATION", login="always")
    ended = task.outcome("chief-0")
    assert (status, ended["reason"]) == (contract.EXIT_BOOTSTRAP_ERROR, "login-failed")
    assert re.search(why, ended["message"]), said
    if content is None:
        status, said = run(task, kdc, path, "echo $HADOOP_TOKEN_FILE_LOCATION")
        assert (status, task.stdout("chief-0")) == (0, f"{task.root}/tokens\n"), said
        assert re.search(why, said)
