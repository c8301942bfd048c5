"""`logs`: of a job that runs, followed through restarts and faults, and of one that is over."""

from __future__ import annotations

import json
import re
import tempfile
import time
from typing import Any

import pytest

from tests.builders.command_line import Done
from tests.world import World
from tests.world.transport import Answer

LOGS = "/ws/v1/node/containers"
FIRST = "worker-0 | 2023-05-12 12:00:01 a"


@pytest.fixture
def two(world: World) -> dict[str, str]:
    """Let a job run whose workers have written something; return task → container."""
    world.submitted()
    found = world.runs("worker-0", "worker-1")
    one, other = found.values()
    world.writes(one, "stdout.txt", "2023-05-12 12:00:01 a\n2023-05-12 12:00:03 b\n")
    world.writes(one, "stderr.txt", "2023-05-12 12:00:02 err\n")
    world.writes(one, "other.log", "other\n")
    world.writes(other, "stdout.txt", b"2023-05-12 12:00:02.5 c\xff\n")
    return found


def later(world: World, seconds: float, container: str, text: str) -> None:
    world.cluster.clock.after(seconds, lambda: world.writes(container, "stdout.txt", text))


def follow(world: World, *words: str, ends_s: float = 10) -> Done:
    world.cluster.clock.after(ends_s, world.ends)
    return world("logs", "mnist", *words, "-f")


# --- as it is now ---------------------------------------------------------------------------------


def test_logs_of_all_tasks_are_merged_by_time(world: World, two: dict[str, str]) -> None:
    assert world("logs", "mnist") == Done(
        0,
        f"{FIRST}\nworker-0 | 2023-05-12 12:00:02 err\nworker-1 | 2023-05-12 12:00:02.5 c\\xff\n"
        "worker-0 | 2023-05-12 12:00:03 b\n",
        "",
    )
    assert FIRST[11:] in world("logs", "mnist", "--no-prefix").out.splitlines()
    stamped = world("logs", "mnist", "worker-1", "-t", "--prefix").out
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d worker-1 \| 2023-05-12", stamped)


@pytest.mark.parametrize(
    ("words", "out"),
    [
        (("worker-1",), "2023-05-12 12:00:02.5 c\\xff\n"),
        (("worker-0", "--tail", "1"), "2023-05-12 12:00:02 err\n2023-05-12 12:00:03 b\n"),
        (("worker-0", "--file", "other.log,stderr.txt"), "other\n2023-05-12 12:00:02 err\n"),
        (("worker", "--grep", "err$"), "worker-0 | 2023-05-12 12:00:02 err\n"),
        (("worker-1", "--since", "10s"), ""),
    ],
)
def test_logs_selected(world: World, two: dict[str, str], words: tuple[str, ...], out: str) -> None:
    found = world("logs", "mnist", *words)
    assert (found.status, sorted(found.out.splitlines())) == (0, sorted(out.splitlines())), found


@pytest.mark.parametrize(
    ("words", "status", "said", "hint"),
    [
        (("--file", "nosuch.log"), 5, "there is no log file nosuch.log", "There are other.log, "),
        (("ps",), 2, "no task or role 'ps'", "There are worker-0, worker-1."),
        (("worker-9",), 2, "there is no task 'worker-9'", "worker has 2 tasks, 0 to 1."),
        (("--grep", "("), 2, "not a valid regular expression", ""),
        (("--tail", "-1"), 2, "--tail", ""),
        (("--since", "soon"), 2, "--since: ", ""),
        (("--user", "bob"), 5, "There is no job mnist", "alice runs a job of that name, as"),
    ],
)
def test_logs_of_what_is_not_there(
    world: World, two: dict[str, str], words: tuple[str, ...], status: int, said: str, hint: str
) -> None:
    done = world("logs", "mnist", *words)
    assert (done.status, done.out) == (status, "")
    assert said in done.err
    assert hint in done.err


def test_logs_as_objects(world: World, two: dict[str, str]) -> None:
    done = world("logs", world.application, "worker-0", "--grep", "err$", "-o", "json")
    found = done.json
    assert {name: found[name] for name in ("task", "container", "file", "text")} == {
        "task": "worker-0",
        "container": two["worker-0"],
        "file": "stderr.txt",
        "text": "2023-05-12 12:00:02 err",
    }
    assert found["time"].startswith("2023-05-12T12:00:02")  # the world begins in November 2023
    listed = world("logs", "mnist", "worker-0", "--list")
    assert listed.out.splitlines() == [
        f"worker-0  {two['worker-0']} on node1",
        "  other.log   6 B",
        "  stderr.txt  24 B",
        "  stdout.txt  44 B",
    ]
    assert world("logs", "mnist", "--list", "-o", "json").json["kind"] == "LogFiles"


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (b"\x1b[31mred\x1b[0m\x07\x1b]0;x\n", "red\\x07\\x1b]0;x"),  # colours are taken away
        (b"nul\0\x7f \xc2\x9b31m\n", "nul\\x00\\x7f \\x9b31m"),
        (b"\xff\xfe\xc3\n", "\\xff\\xfe\\xc3"),
        (b"10%\r50%\r100%\r\n", "100%"),
        (b"one\n\ttwo\n", "one\n\ttwo"),
        ("\u202eright to left\u2028new line\n".encode(), "\\x202eright to left\\x2028new line"),
    ],
)
def test_logs_escape_controls(world: World, two: dict[str, str], written: bytes, text: str) -> None:
    world.writes(two["worker-0"], "x.txt", written)
    assert world("logs", "mnist", "worker-0", "--file", "x.txt").out == f"{text}\n"
    lines = world("logs", "mnist", "worker-0", "--file", "x.txt", "-o", "json").out.splitlines()
    assert all(line.isprintable() for line in lines)
    assert len([json.loads(line) for line in lines]) == text.count("\n") + 1


def test_logs_of_many_tasks_need_room_to_be_sorted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    roles = {"worker": {"memory": "1Gi", "instances": 9}}
    world.submitted(strategy="custom", roles=roles)
    for container in world.runs(*(f"worker-{number}" for number in range(9))).values():
        world.writes(container, "stdout.txt", "a line\n")
    monkeypatch.setattr(tempfile, "tempdir", "/no/such/directory")
    assert world("logs", "mnist") == Done(
        2,
        "",
        "error: there is no room for a temporary file to sort the logs: No such file or directory\n"
        "  hint: Set TMPDIR to a larger directory, or use --tail, or name one task.\n",
    )


def test_logs_resume_after_a_broken_connection(world: World, two: dict[str, str]) -> None:
    text = "".join(f"{number:07}\n" for number in range(100_000))
    world.writes(two["worker-1"], "stdout.txt", text)
    world.fails(1, "GET", "0003/logs/stdout.txt", "truncated")
    done = world("logs", "mnist", "worker-1")
    assert done.out.partition("\n")[2] == text, done.err
    assert world("logs", "mnist", "worker-1", "--tail", "1").out == "0099999\n"


def test_logs_without_one_lost_node(world: World, two: dict[str, str]) -> None:
    world.yarn.containers["worker"][1]["bare_host"] = "node2"
    done = world("logs", "mnist")
    assert len(done.out.splitlines()) == 3
    lost = "worker-1: its logs cannot be read: no NodeManager of node2 is in service\n"
    assert (done.status, done.err) == (0, lost)
    assert world("logs", "mnist", "worker-1").status == 7


def test_logs_before_the_first_container(world: World) -> None:
    world.submitted()
    done = world("logs", "mnist")
    assert (done.status, "has no logs yet" in done.err, "-f waits" in done.err) == (5, True, True)


def test_logs_of_the_application_master(world: World, two: dict[str, str]) -> None:
    world.am_says("2023-05-12 12:00:00,001 [main] INFO  am\n")
    for words in (("am",), ("--am",)):
        found = world("logs", "mnist", *words).out
        assert found.endswith("2023-05-12 12:00:00,001 [main] INFO  am\n")
    assert "\nam  container_" in world("logs", "mnist", "--list").out


def test_logs_of_lines_without_a_time_are_in_the_order_of_their_index(world: World) -> None:
    world.submitted()
    one, two = world.runs("worker-0", "worker-1").values()
    now = time.time()
    for container, text, offset, times in (
        (one, "first\nfourth\n", 6, (10, 40)),
        (two, "second\nthird\n", 7, (20, 30)),
    ):
        world.writes(container, "stdout.txt", text)
        rows = zip((0, offset), times, strict=True)
        index = "".join(f"stdout.txt {at} {now - 900 + time}\n" for at, time in rows)
        world.writes(container, "tfjob-times.txt", index)
    order = ["first", "second", "third", "fourth"]
    assert [line.split()[-1] for line in world("logs", "mnist").out.splitlines()] == order
    followed = follow(world).out.splitlines()
    assert [line.split()[-1] for line in followed] == order


def test_logs_of_a_job_that_is_over(world: World, two: dict[str, str]) -> None:
    """From its nodes first; then from where the cluster has collected them."""
    for task, container in two.items():
        world.writes(container, "launch_container.sh", f'export TFJOB_INSTANCE="{task}"\n')
    world.ends()
    gone = world("logs", "mnist")
    assert (gone.status, "hadoop_conf is not set" in gone.err) == (2, True)
    world.hdfs()
    world.collects()
    done = world("logs", "mnist")
    assert (done.status, done.out.splitlines()[0], len(done.out.splitlines())) == (0, FIRST, 4)


@pytest.mark.parametrize(
    ("missing", "report", "waits"),
    [
        ("", {}, False),
        ("worker-1", {}, True),
        ("am", {}, True),
        # what an earlier container has written may still come
        ("", {"attempt": 1}, True),
        ("", {"roles": {"worker": {"wanted": 2, "restarts": 1}}}, True),
        # the report is not the last one, or names no container
        ("", {"state": "running"}, True),
        ("", {"tasks": []}, True),
    ],
)
def test_logs_wait_for_the_collection_only_where_something_may_be_missing(
    world: World, missing: str, report: dict[str, Any], *, waits: bool
) -> None:
    """Hadoop 3.5 calls the collection unfinished for ever."""
    found = world.running()
    tasks = [{"task": task, "container": one, "host": "node1"} for task, one in found.items()]
    told = {"state": "succeeded", "tasks": tasks, **report}
    world.reports(found["chief-0"], told.pop("state"), **told)
    for container in found.values():
        world.writes(container, "stdout.txt", "a line\n")
    world.am_says("it began\n")
    world.ends()
    logs = world.cluster.node.logs
    gone = found.get(missing, "_01_000001")
    for one in [key for key in logs if missing and gone in key[0]]:
        del logs[one]
    world.hdfs()
    world.collects("RUNNING")
    begun = world.cluster.clock()
    done = world("logs", "mnist")
    assert (done.status, "a line" in done.out) == (0, True), done
    assert (world.cluster.clock() - begun > 50) is waits
    assert ("is collecting its logs; waiting" in done.err) is waits


@pytest.mark.parametrize(
    ("aggregation", "retained_s", "after_s", "sentence"),
    [
        ("DISABLED", 0, 60, "the cluster does not collect logs"),
        ("SUCCEEDED", 0, 60, "its logs were collected, but are not in"),
        ("SUCCEEDED", 3600, 2 * 86400, "the cluster keeps them for 60 min"),
        ("FAILED", 0, 60, "no node could upload its logs"),
    ],
)
def test_logs_explain_why_there_are_none(
    world: World, aggregation: str, retained_s: int, after_s: float, sentence: str
) -> None:
    world.running()
    world.ends()
    keeps = {"yarn.log-aggregation.retain-seconds": str(retained_s)} if retained_s else {}
    world.hdfs(**keeps)
    world.cluster.node.logs.clear()
    world.yarn.aggregation = aggregation
    world.passes(after_s)
    done = world("logs", "mnist")
    assert (done.status, sentence in done.err, "hint: " in done.err) == (5, True, True), done.err


# --- followed -------------------------------------------------------------------------------------


def test_logs_follow_until_the_end(world: World, two: dict[str, str]) -> None:
    later(world, 3, two["worker-0"], "later\nunfin")
    later(world, 6, two["worker-0"], "ished\nlast without end")
    done = follow(world)
    assert done.out.splitlines()[4:] == [
        "worker-0 | later",
        "worker-0 | unfinished",
        "worker-0 | last without end",
    ]
    assert done.err == ""


def test_logs_follow_requests_little(world: World, two: dict[str, str]) -> None:
    later(world, 20.5, two["worker-1"], "news\n")
    world.asked()
    done = follow(world, "worker-1", "--tail", "1", ends_s=40)
    assert done.out == "2023-05-12 12:00:02.5 c\\xff\nnews\n"
    asked = [path for _, path in world.asked() if path.startswith(LOGS)]
    assert len([path for path in asked if path.endswith("stdout.txt")]) <= 4
    assert len(asked) <= 60


def test_logs_follow_a_task_into_its_next_container(world: World, two: dict[str, str]) -> None:
    again = f"{two['worker-0'][:-1]}9"
    later(world, 2.9, two["worker-0"], "its last\n")
    row = world.yarn.containers["worker"][0]
    world.cluster.clock.after(3, lambda: row.update(id=again))
    later(world, 4, again, "again\n")
    done = follow(world, "worker-0")
    assert done.out.splitlines()[3:] == ["its last", "again"]
    assert done.err == f"worker-0 was started again as {again}; its log continues there\n"


def test_logs_follow_waits_for_the_first_container(world: World) -> None:
    world.submitted()

    def starts() -> None:
        world.writes(world.runs("worker-0")["worker-0"], "stdout.txt", "begun\n")

    world.cluster.clock.after(12, starts)
    assert follow(world, ends_s=20).out == "worker-0 | begun\n"


TROUBLES = [
    ("rm", ["the cluster does not answer", "the cluster answers again"]),
    ("node", ["its logs cannot be read just now", "its logs can be read again"]),
    ("am", ["which containers it has is not known just now", "the cluster answers again"]),
]


@pytest.mark.parametrize(("trouble", "said"), TROUBLES)
def test_logs_follow_says_each_trouble_once(
    world: World, two: dict[str, str], trouble: str, said: list[str]
) -> None:
    clock = world.cluster.clock
    if trouble == "rm":
        clock.after(3, lambda: world.cluster.kill_active(back_s=40))
    elif trouble == "am":
        clock.after(3, lambda: setattr(world.yarn.site, "am_answers", False))
        clock.after(15, lambda: setattr(world.yarn.site, "am_answers", True))
    else:
        refusal = Answer.text("no", 500)
        clock.after(3, lambda: world.fails(3, "GET", f"{two['worker-0']}/logs$", refusal))
    later(world, 20, two["worker-0"], "meanwhile\n")
    done = follow(world, ends_s=80)
    assert "worker-0 | meanwhile" in done.out.splitlines()
    lines = done.err.splitlines()
    assert len(lines) == len(said)
    assert all(words in line for words, line in zip(said, lines, strict=True)), lines


def test_logs_follow_reads_a_shorter_file_again(world: World, two: dict[str, str]) -> None:
    file = (two["worker-1"], "stdout.txt")
    world.cluster.clock.after(3, lambda: world.cluster.node.logs.update({file: b"new\n"}))
    done = follow(world, "worker-1")
    assert done.out.splitlines()[1:] == ["new"]
    assert "stdout.txt has become shorter; it is read again from its beginning" in done.err


def test_logs_follow_where_the_end_cannot_be_read(world: World, two: dict[str, str]) -> None:
    """The lines that were read remain, and a sentence says what is missing."""
    world.cluster.clock.after(5, lambda: world.ends("KILLED", "KILLED"))
    world.cluster.clock.after(5, world.cluster.node.logs.clear)
    done = world("logs", "mnist", "-f")
    assert len(done.out.splitlines()) == 4
    assert "the last lines of worker-0, worker-1 cannot be read: where the" in done.err


def test_logs_follow_to_the_last_byte_where_the_cluster_has_collected_the_end(
    world: World, two: dict[str, str]
) -> None:
    world.hdfs()
    for task, container in two.items():
        world.writes(container, "launch_container.sh", f'export TFJOB_INSTANCE="{task}"\n')

    def end() -> None:
        world.writes(two["worker-0"], "stdout.txt", "its last")
        world.ends()
        world.collects()

    world.cluster.clock.after(5, end)
    assert world("logs", "mnist", "-f").out.splitlines()[4:] == ["worker-0 | its last"]


def test_logs_follow_two_hundred_containers_with_few_requests(world: World) -> None:
    names = [f"worker-{number}" for number in range(200)]
    roles = {"worker": {"memory": "1Gi", "instances": 200}}
    world.submitted(strategy="custom", roles=roles)
    found = world.runs(*names)
    for name, container in found.items():
        world.writes(container, "stdout.txt", f"line of {name}\n")
    world.asked()
    lines = follow(world, ends_s=24).out.splitlines()
    assert sorted(line.split()[-1] for line in lines) == sorted(names)
    polls = [path for _, path in world.asked() if path == f"{LOGS}/{found['worker-0']}/logs"]
    assert 3 <= len(polls) <= 9


# --- TLS in front of the ResourceManager, or of the nodes alone -----------------------------------

GATEWAY = "rm1:8088/gateway/node1"


@pytest.mark.parametrize(
    ("in_front", "node", "link", "reached"),
    [
        ("https", "http", "http://node1:8042", True),
        ("http", "https", "https://node1:8042", True),
        # a gateway writes links to itself, so the scheme that a node answers to is found out
        ("https", "http", f"https://{GATEWAY}", True),
        ("http", "https", f"http://{GATEWAY}", True),
        # a cluster with TLS: what answers without is none of its nodes
        ("https", "http", "https://node1:8042", False),
    ],
)
def test_nodes_are_read_by_the_scheme_of_their_own(
    world: World, in_front: str, node: str, link: str, *, reached: bool
) -> None:
    world.cluster.scheme, world.cluster.node.scheme, world.cluster.node.link = in_front, node, link
    chief, *_ = world.running().values()
    world.writes(chief, "stdout.txt", "step 1\n")
    status = world("status", "mnist", "-o", "json").json
    assert status["state"] == "RUNNING"
    done = world("logs", "mnist", "chief-0")
    assert (done.status, "step 1" in done.out) == ((0, True) if reached else (7, False)), done
    assert "Write its address" not in done.err
    if not reached:
        assert "it does not speak TLS" in done.err
    assert "its node is slow" not in world("status", "mnist").out
