"""Writes docs/internals/performance.md, and the same table for the terminal."""

from __future__ import annotations

from tests.bench.measure import Row

__all__ = ["page", "table"]

HEAD = """\
# Performance

`make bench` measures this and writes this page ({date}, revision {revision}, Python {python}, {cores} cores{busy}). No time stands alone:
each is compared with its floor, the least that anybody could take for the same thing, measured turn by turn in the same run. Times in
seconds are there to show proportions on that machine; they promise nothing for another.

"""
HOW = """
## What is measured

**Start-up.** `version`, `render specs/parameter-server.yaml`, and `status`, `list` and `wait` of a finished job (answered by a server in the
measuring process) against a hello-world application of typer's, each a process of its own, {startup_rounds} rounds after one that does not
count, all with a warm bytecode cache. The goal is on CPU time (the least of all rounds), because a neighbour on the machine changes it little;
the wall clock stands beside it. The floor of the commands that ask a ResourceManager is the same application after one GET by `requests`: they
may take 1.6 times as long. Against hello world alone there is no goal: the ratio moves by half with typer's release. What keeps it small: only the module of the command is imported; help and errors are plain text, so that rich is never
imported; `requests` is imported with the first request, threads' pools only where several files are read, `yaml` at
the first file, `jsonschema`, `fsspec` and `hdfs_native` only where they are used. `tests/processes/test_command_line.py` asserts this by name.

**The bootstrap.** A job of one task without files that runs `true`, from the start of Python to its end: 0.15 s of CPU time, where bare Python 3.11
takes 0.01 (2026-11-25). More than half of it is Python's compiler, for the modules in `bootstrap.zip`.

**Size.** `specs/parameter-server.yaml` with 10 and with 10,000 workers, without a staging directory, so that all files travel inside. The
service carries counts; TF_CONFIG is built inside each container.

**Followers.** The real bootstrap of a deciding task, and followers whose connections one process of the benchmark makes. Twenty, drawn at
random, share an address, as on the network of a node. None has a name in DNS, so every one is sent the addresses of all, which is the only
message that grows with the number of tasks: where names resolve it holds none. After the start all lose their connections, and come back. An
exponent tells how a quantity grows with the number of followers: 1 is as much for each, however many they are. Then one of them stops sending, as a
task whose node died or was cut off: nothing closes its connection, and the others go on.

**Two hundred tasks.** One job of 200 containers on one node of a sandbox, all of them on two cores. `describe` splits its start: until YARN had
started the last container, until the last task had found the deciding one and connected to it, and from then to the start of the programs.

**Lost tasks.** A job of two tasks with `retries` whose programs write the time of their first line: one program is killed, or its whole
container; against torchrun's restart of the same two programs (where the benchmark is given an environment with PyTorch), and against
`stop`, `delete` and a new submission.

**Submission.** A job of one task on a sandbox. Its program writes the time of its first and of its last line. `submit_tf_job submit` is
timed from the start of its process; the floor from the moment before the POST, by a ten-line script (`tests/bench/bare_post.py`) that
sends the very bytes that `render` prints. A second floor is that service without the bootstrap: the difference is what the bootstrap
costs. The ways take turns, in an order that changes. Once YARN has accepted the job, tool and floor run the same bytes on the same cluster,
and most of that time is the start of the ApplicationMaster, which varies by seconds on a busy machine: so the medians are taken apart at
the acceptance, and the part after it is shared. The ratio of the plain medians stands beside it.

**End.** From the program's last line to the exit of `submit_tf_job submit`, split at the moment that the ResourceManager gives as the
application's end. Before it: the container's end, its way through NodeManager and ApplicationMaster, and the {linger:g} seconds that YARN's
service ApplicationMaster sleeps before it unregisters. After it: the tool's next look, and the verdict.

**Status.** `submit_tf_job status` of a job that is over, with its report, against Hadoop's own ApplicationCLI -status, which asks the
ResourceManager alone; each a process of its own, turn by turn. In the same rounds, by their CPU time: `status`, `logs --tail` and
`submit --detach` on that sandbox, against the hello-world application.

**Many jobs.** The client of `watch` on a server that replays a recorded answer under 1,000 ids: requests counted, memory traced.

**Files.** A job's files staged, each way a process of its own, turn by turn (a gigabyte after a round that does not count): all that
`submit` does with them before its POST, from the start of Python over the hashing (nothing is remembered) to the last byte in HDFS; against
Hadoop's FsShell -put of the same directory. Then a tree that has not changed, staged again, less the same without files. And whole jobs
with files and without.

**Kerberos.** The first and the second call of a session on a sandbox with Kerberos: the second carries the cookie and no ticket, which
`tests/cluster/test_kerberos.py` asserts.

**Failover.** The active of two ResourceManagers is killed while a client asks. The clock starts when the other one first answers as the
active one, which a second client, that asks it all the time, finds out; it stops when the first client has its answer.

**Gateway.** Eight submissions, four at a time, through the gateway and by the calls that it makes itself, on the same sandbox; what was
submitted is deleted before the next turn. What the gateway adds to one submission is measured on a server that answers as a ResourceManager
does and always takes the same time, so that the slowest of a hundred is the gateway's doing. That 500 listeners of one job cost the
ResourceManager one look a second is asserted by `tests/gateway/test_load.py`, and there, too, that 100,000 requests leave no memory behind
(`make matrix`).

**Logs.** Collected logs (TFile, not compressed) of a job of eight tasks, and of a job of one task that printed 50 MB. `submit_tf_job logs`
against Hadoop's own LogsCLI for the same application, container or end of a file, each a process of its own, turn by turn. What the tail
of the large log reads is asserted by `tests/cluster/test_task_logs.py`: less than a megabyte.
"""


def table(rows: list[Row]) -> str:
    """Write the rows as a Markdown table."""
    lines = ["| what | against | ratio | goal | more |", "|---|---|---|---|---|"]
    for row in rows:
        goal = "-" if row.goal is None else f"≤ {row.goal:g}: {'met' if row.met else 'MISSED'}"
        ratio = f"{row.ratio:.4f}" if abs(row.ratio - 1) < 0.005 else f"{row.ratio:.2f}"
        lines.append(f"| {row.what} | {row.floor} | {ratio} | {goal} | {row.details} |")
    return "\n".join(lines) + "\n"


def page(rows: list[Row], **facts: object) -> str:
    """Write the page."""
    return HEAD.format(**facts) + table(rows) + HOW.format(**facts)
