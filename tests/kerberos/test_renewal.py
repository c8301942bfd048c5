"""A keytab logs in again by itself before its ticket ends, in memory; a ticket of kinit is looked
at and left alone.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.kerberos.conftest import REALM, Kdc

# As the client does it: one exchange for the first request, another one when the first ticket has
# ended.
PROGRAM = """
import sys, time
from pathlib import Path
import spnego
from submit_tf_job.host import kerberos

keytab, principal = Path(sys.argv[1]), sys.argv[2] or None
kerberos.log_in(principal, keytab)
ends = []
for pause in (0, 3, 3):
    time.sleep(pause)
    spnego.client(username=principal, hostname="localhost", service="HTTP", protocol="kerberos").step()
    ends.append(kerberos.ticket().ends)
assert ends[0] < time.time() and ends[0] < ends[-1], ends
print(kerberos.ticket().principal, kerberos.ticket().cache)
"""


@pytest.mark.parametrize("principal", ["", "alice"])
def test_keytab_logs_in_before_its_ticket_ends(kdc: Kdc, tmp_path: Path, principal: str) -> None:
    path = kdc.keytab("short")
    kdc.admin("addprinc -randkey -maxlife 4s short", f"ktadd -norandkey -k {path} short")
    name = principal or "short"
    if principal:
        kdc.admin("modprinc -maxlife 4s alice")
    try:
        environ = {**kdc.environ, "KRB5CCNAME": f"FILE:{tmp_path}/krb5cc"}
        argv = [sys.executable, "-c", PROGRAM, str(kdc.keytab(name)), principal]
        done = subprocess.run(
            argv, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=240
        )
    finally:
        kdc.admin("modprinc -maxlife 1d alice", "delprinc -force short")
    assert done.returncode == 0, done.stderr
    who, cache = done.stdout.split()
    assert who == f"{name}@{REALM}"
    assert cache.startswith("MEMORY:")
    assert list(tmp_path.iterdir()) == [], "a file was left behind"
