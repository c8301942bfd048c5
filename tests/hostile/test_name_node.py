"""A NameNode that responds after the caller gave up: the process exits with its own status. One that
is not active: the other one is asked."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from submit_tf_job.container.data import stores
from submit_tf_job.errors import ClusterUnavailable
from submit_tf_job.storage import open_storage
from tests.builders.host import hadoop_xml
from tests.tool import until
from tests.world.name_node import late_name_node
from tests.world.web_hdfs import Fault, web_name_node

# Python says that it ends, and takes two seconds for it, so that the answer comes while it is at it;
# with the path of a file, two seconds more from when that is there.
GIVES_UP = """
import atexit, os, sys, time
class Slow:
    def __init__(self):
        self.path = os.environ.get("ENDS_AFTER")
    def __del__(self, sleep=time.sleep, exists=os.path.exists):
        while self.path and not exists(self.path):
            sleep(0.05)
        sleep(2)
slow = Slow()
from submit_tf_job.errors import ClusterUnavailable
from submit_tf_job.storage import open_storage
from submit_tf_job.storage.hdfs import calls_under_way
try:
    open_storage("hdfs://" + sys.argv.pop(), user="alice", timeout_s=0.3).stat("/")
except ClusterUnavailable as error:
    print(error.message.partition(": ")[2])
assert calls_under_way()
atexit.register(print, "ends", flush=True)
"""
AS_COMMAND = """
from submit_tf_job.cli import main
sys.exit(main())
"""


def test_program_exits_with_its_status_after_an_abandoned_call(tmp_path: Path) -> None:
    may_answer, said, answered = threading.Event(), tmp_path / "stdout", tmp_path / "answered"
    argv = [sys.executable, "-c", GIVES_UP + "sys.exit(3)"]
    with late_name_node(may_answer) as address, said.open("w") as out:
        program = subprocess.Popen(
            [*argv, address],
            env={**os.environ, "ENDS_AFTER": str(answered)},
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
        )
        until(lambda: "ends" in said.read_text() or program.poll() is not None, "it ends")
        may_answer.set()
        answered.touch()
        _, err = program.communicate(timeout=240)
    assert (program.returncode, err) == (3, "")
    assert said.read_text() == "no answer within 0.3 s\nends\n"


def test_command_exits_with_its_status_after_an_abandoned_call() -> None:
    """It does not wait for the answer, which never comes."""
    with late_name_node(threading.Event()) as address:
        done = subprocess.run(
            [sys.executable, "-c", GIVES_UP + AS_COMMAND, "version", address],
            capture_output=True,
            text=True,
            timeout=240,
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("no answer within 0.3 s\nsubmit_tf_job "), "its output"


@pytest.mark.parametrize("other", ["standby", "down"])
def test_webhdfs_of_a_nameservice_is_that_of_its_active_name_node(
    tmp_path: Path, other: str
) -> None:
    said = "Operation category READ is not supported in state standby."

    def refuse(_operation: str, _path: str) -> None:
        raise Fault(403, "StandbyException", said)

    with web_name_node() as standby, web_name_node() as active:
        standby.before = refuse
        active.put("/d/x", b"content")
        places = {"nn1": standby.address if other == "standby" else "127.0.0.1:1"}
        places["nn2"] = active.address
        web = {f"dfs.namenode.http-address.ns2.{node}": at for node, at in places.items()}
        more = {"dfs.nameservices": "ns1, ns2", "dfs.ha.namenodes.ns2": "nn1,nn2"}
        (tmp_path / "core-site.xml").write_text(hadoop_xml({"fs.defaultFS": "hdfs://ns1"}))
        (tmp_path / "hdfs-site.xml").write_text(hadoop_xml({**more, **web}))
        storage = open_storage("webhdfs://ns2", hadoop_conf=tmp_path, user="alice")
        assert storage.read("/d/x") == b"content"
        assert storage.stat("hdfs://ns2/d/x").size == 7
        assert storage.url("/d") == "hdfs://ns2/d"
        environ = {"HADOOP_CONF_DIR": str(tmp_path), "HADOOP_USER_NAME": "alice"}
        store, path = stores.open_store("webhdfs://ns2/d/x", environ)
        assert b"".join(store.read(path)) == b"content"
        assert ("GET", "GETFILESTATUS", "alice") in active.asked
        active.before = refuse
        with pytest.raises(ClusterUnavailable):
            storage.stat("/d/x")
