"""The meeting place: a directory on HDFS where tasks find the deciding task without Registry DNS.

The deciding task makes an entry there, an empty directory called `NUMBER_ADDRESS`; HDFS allows no
colon in a name, so an IPv6 address has dashes. To make a directory, only the NameNode is needed (no
DataNode, no block), and a reader never sees half of a name. If YARN starts the deciding task again
elsewhere, the new container makes the entry with the next number, and removes the older entries.
"""

from __future__ import annotations

import contextlib
import posixpath
import socket
import time
from collections.abc import Callable

from submit_tf_job.container import untrusted
from submit_tf_job.container.data.store import NotFound, StoreError, retry
from submit_tf_job.container.data.webhdfs_client import WebHdfs
from submit_tf_job.container.dns_client import Resolver, family_of, look_up
from submit_tf_job.container.info import Info

MODE = "700"  # of the directories
NOT_WRITTEN = "the address of this task cannot be written for the others: %s"
READS_A_SECOND = 200.0  # of all tasks together
MOST_S = 30.0  # between two reads of a task


class Place:
    """The directory, accessed through WebHDFS at any of its NameNodes; each method raises
    `StoreError`.
    """

    def __init__(self, info: Info) -> None:
        """Take the path of the directory and the addresses from the task description, and the
        delegation token of this container.
        """
        rule = info.task["meeting"]
        self.path = posixpath.join(rule["path"], info.run)
        env = dict(info.env, HADOOP_USER_NAME=rule["user"])
        self.store = WebHdfs(rule["protocol"], rule["addresses"], env)

    def entries(self) -> list[tuple[int, str, str]]:
        """Return number, address and path of each entry, the latest last; [] if the directory does
        not exist.
        """
        entries = []
        with contextlib.suppress(NotFound):
            for path, _, _ in self.store.list(self.path):
                number, _, address = posixpath.basename(path).partition("_")
                if number.isdecimal() and len(number) <= untrusted.DIGITS and address:
                    entries.append((int(number), address.replace("-", ":"), path))
        return sorted(entries)

    def announce(self, address: str) -> None:
        """Make the entry of the deciding task, and remove the entries of its former containers."""
        former = self.entries()
        number = former[-1][0] + 1 if former else 1
        entry = f"{number}_{address.replace(':', '-')}"
        self.store.mkdirs(posixpath.join(self.path, entry), permission=MODE)
        for _, _, path in former:
            self.store.remove(path)


def own_address(info: Info) -> str:
    """Return the address of this task: the address from which it connects to the NameNode; "" if it
    cannot.

    On the host network, where the NameNode may be on the same node, a loopback address or no
    address is replaced by the address of the node's name.
    """
    found = ""
    for address in info.task["meeting"]["addresses"]:
        host, _, port = address.rpartition(":")
        where = look_up(None, host.strip("[]"))
        if not where:
            continue
        try:  # a host without IPv6 makes no such socket
            with socket.socket(family_of(where), socket.SOCK_DGRAM) as sock:
                sock.connect((where, int(port)))  # sends nothing
                found = sock.getsockname()[0]
        except (OSError, ValueError):
            continue
        break
    loops = found.startswith("127.") or found == "::1"
    if (found and not loops) or info.task["ports"]["mode"] != "host":
        return found
    return look_up(None, info.node) or found  # the NameNode may be on this node


def announce(info: Info, address: str, failed: Callable[[str, bool], None]) -> None:
    """Make the entry of the deciding task with its `address`. Try until the entry exists or HDFS
    has refused it; without an address fail at once. This function blocks: run it in a thread.

    `failed` is called with a sentence, and with whether no further attempt is made.
    """
    place = Place(info)
    if not address:
        text = "this task has no address from which it reaches HDFS (%s)"
        failed(text % ", ".join(place.store.addresses), True)
        return
    try:
        retry(
            lambda: place.announce(address),
            float("inf"),
            time.sleep,
            lambda err, _since_s: failed(NOT_WRITTEN % err, False),
        )
    except StoreError as err:
        failed(NOT_WRITTEN % err, True)


class Finder(Resolver):
    """Finds the deciding task by its entry in the meeting place; if Registry DNS may have its name,
    too, also by that.
    """

    def __init__(self, info: Info, post: Callable[[Callable[[], None]], None]) -> None:
        """Create a finder; `post(f)` runs f in the event loop."""
        super().__init__(info, post)
        self.longest_pause_s = min(MOST_S, max(self.longest_pause_s, info.total / READS_A_SECOND))
        self.place = Place(info)
        self.last: str | None = None  # where the deciding task was

    def sought(self) -> str:
        """Return the name of the deciding task: its host name, or `ROLE-0` if DNS is not used."""
        return self.info.deciding if self.info.by_place else super().sought()

    def missing(self) -> str:
        """Return why the deciding task is not found."""
        text = f"{self.info.deciding} has not written its address to {self.place.path} yet"
        text = self.trouble or text
        return (
            text
            if self.info.by_place
            else f"{text}, and the name {super().sought()} does not resolve"
        )

    def find(self, name: str) -> str | None:
        """Return the address of the deciding task, by its entry or else, if DNS is used, by its
        name. While neither is known, return the last known address, or None if there was none.
        """
        found: str | None = None
        try:
            found = "".join(address for _, address, _ in self.place.entries()[-1:])
            self.trouble = ""
        except StoreError as err:
            self.trouble = str(err)
        if not found and not self.info.by_place:
            found = super().find(name)
        self.last = found or self.last
        return self.last
