"""Servers with invalid responses: one clear message, the right exit status, in time."""

from __future__ import annotations

import email.utils
import gzip
import json
import re
import resource
import shutil
import socket
import ssl
import subprocess
import time
import zlib
from pathlib import Path

import pytest

from tests.builders.command_line import Cli, Done
from tests.hostile.conftest import Serve
from tests.hostile.server import Answering, Asked, Authority, always, raw

pytestmark = pytest.mark.usefixtures("patient", "train")

STATUS, SUBMIT = ("status", "mnist"), ("submit", "train.yaml", "--detach")
COMMANDS = {"status": STATUS, "submit": SUBMIT}
APP = "application_1700000000000_0001"
JSON = "application/json"


def said(done: Done, status: int, sentence: str) -> None:
    """Assert that there is one message, this one, and nothing else."""
    assert done.status == status, done
    assert done.out == ""
    error, *more = done.err.splitlines()
    assert re.fullmatch(f"error: {sentence}", error), error
    assert len(more) <= 1, more
    assert all(line.startswith("  hint: ") for line in more), more
    assert all(c.isprintable() or c == "\n" for c in done.err)


def trickle(begin: bytes) -> Answering:
    """Begin an answer, and go on so slowly, and for ever, that no wait for a byte is ever long."""

    def drip(_asked: Asked, stream: socket.socket) -> None:
        stream.sendall(begin)
        while True:  # until the client has gone
            time.sleep(0.2)
            stream.sendall(b" ")

    return drip


HTML = raw(200, b"<html><title>Welcome \x1b[31m</title>hello</html>", "text/html")
BOMB = zlib.compress(b" " * 300_000_000, 1)
NOT_OF_THIS_SHAPE = r"http://\S+ answered 200 with JSON that is cut off or of another shape\."
DESCRIBES_NOTHING = (
    r"http://\S+ answered with JSON (of another shape|that does not describe applications).*\."
)
UNANSWERED = r"No ResourceManager answered GET /\S+: http://\S+ \(%s\)\."
UNREACHED = r"No ResourceManager could be reached: %s \(%s\)\."
NOT_UNPACKED = UNANSWERED % "its answer cannot be unpacked"
NOT_HTTP = UNANSWERED % "what it answers is not HTTP"
BROKE, CUT_OFF = (UNANSWERED % why for why in ("the connection broke", "its answer was cut off"))
RPC_SAYS = (  # Hadoop's Server.RECEIVED_HTTP_REQ_RESPONSE
    b"It looks like you are making an HTTP request to a Hadoop IPC port."
    b" This is not the correct port for the web interface on this daemon.\r\n"
)


def encoded(body: bytes, encoding: str = "gzip") -> bytes:
    return raw(200, body, JSON, f"Content-Encoding: {encoding}")


def chunked(body: bytes) -> bytes:
    return raw(200, body, JSON, "Transfer-Encoding: chunked", length=False)


SSO = raw(302, b"", "text/html", "Location: https://sso.example/?token=s3cret")
NO_TYPE = r"http://\S+ answered 200 with no content type instead of JSON\."
NO_SSO = r"http://\S+ redirects to https://sso\.example/, which is not followed\."
NO_RPC = r"http://localhost:\d+ is Hadoop's RPC port, not its web address\."
ANOTHER = b'{"apps": [[5]], "app": {"id": {}}, "clusterInfo": 7}'
NO_ANSWERS: dict[str, tuple[bytes | Answering, str]] = {
    "html": (HTML, r"http://localhost:\d+/\S+ answered 200 with text/html instead of JSON\."),
    "nothing": (raw(200), NOT_OF_THIS_SHAPE),
    "no type": (b"HTTP/1.1 200 OK\r\n\r\n{}", NO_TYPE),
    "10 MB": (raw(200, b"[" + b"1," * 5_000_000 + b"1]"), NOT_OF_THIS_SHAPE),
    "deep": (raw(200, b"[" * 100_000 + b"]" * 100_000), NOT_OF_THIS_SHAPE),
    "long number": (raw(200, b'{"name":%s}' % (b"9" * 10_000)), DESCRIBES_NOTHING),
    "a list": (raw(200, b"[1, 2]"), NOT_OF_THIS_SHAPE),
    "another object": (raw(200, ANOTHER), DESCRIBES_NOTHING),
    "an object for everything": (raw(200, b'{"app": {}, "clusterInfo": []}'), DESCRIBES_NOTHING),
    "bomb": (encoded(BOMB, "deflate"), r"http://\S+ answered with more than 64 MiB\."),
    "rubbish, packed": (encoded(b"\x1f\x8bnothing"), NOT_UNPACKED),
    "bomb in a bomb": (
        encoded(gzip.compress(gzip.compress(b" " * 10**6)), "gzip, gzip"),
        NOT_UNPACKED,
    ),
    "bytes": (b"\x00\x01\x02" * 100, NOT_HTTP),
    "fields without end": (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200, NOT_HTTP),
    "a field without end": (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000, NOT_HTTP),
    "bad chunk": (chunked(b"zz\r\n{}\r\n0\r\n\r\n"), NOT_HTTP),
    "hang up": (b"", BROKE),
    "cut off": (raw(200, b"{" * 50)[:-25], CUT_OFF),
    "cut off, by its text": (raw(200, b'{"name": "mn', length=False), CUT_OFF),
    "cut off, in its head": (b"HTTP/1.1 200 OK\r\nDate: Sa", CUT_OFF),
    "login page": (SSO, NO_SSO),
    "Hadoop's RPC": (raw(404, RPC_SAYS, "text/plain"), NO_RPC),
    "chunk of a negative length": (chunked(b"-5\r\n{}\r\n0\r\n\r\n"), BROKE),
    "chunks, cut off": (chunked(b"5\r\n{    \r\n"), CUT_OFF),
    "packed, cut off": (encoded(gzip.compress(b"{" * 50)[:-12]), CUT_OFF),
}


def give_up_after(monkeypatch: pytest.MonkeyPatch, wait: str) -> None:
    """Set when a server is left that is asked again until then."""
    monkeypatch.setenv("SUBMIT_TF_JOB_TIMEOUTS_FAILOVER", wait)


def give_up_after_rounds(monkeypatch: pytest.MonkeyPatch, rounds: int) -> None:
    """Leave a server that is asked again after so many questions, however long each takes."""
    defaults = {"params": None, "body": None, "read_s": None, "deadline": None, "repeatable": True}
    monkeypatch.setattr(
        "submit_tf_job.yarn.rest.HttpClient.request.__kwdefaults__", {**defaults, "rounds": rounds}
    )


def is_asked_again(sentence: str) -> bool:
    return sentence.startswith(UNANSWERED.partition("%")[0])


@pytest.mark.parametrize(
    ("answer", "sentence", "command"),
    [
        pytest.param(answer, sentence, command, id=f"{name}-{verb}")
        for name, (answer, sentence) in NO_ANSWERS.items()
        for verb, command in COMMANDS.items()
        if verb == "status" or not is_asked_again(sentence)
    ],
)
def test_invalid_responses(
    cli: Cli,
    serve: Serve,
    answer: bytes | Answering,
    sentence: str,
    command: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if is_asked_again(sentence):
        give_up_after_rounds(monkeypatch, 2)
    server = serve(always(answer) if isinstance(answer, bytes) else answer)
    said(cli(*command, "--rm", server.url()), 7, sentence)
    assert all(asked.method == "GET" for asked in server.asked), (
        "a job went to a server that is no ResourceManager"
    )


@pytest.mark.parametrize(
    ("begin", "why"),
    [
        (b"HTTP/", "no answer in time"),
        (raw(200, b"{", length=False), "its answer did not end in time"),
    ],
    ids=["head", "body"],
)
def test_slow_server_is_left_at_the_deadline(
    cli: Cli, serve: Serve, monkeypatch: pytest.MonkeyPatch, begin: bytes, why: str
) -> None:
    """The command ends, though every byte would put off an end that waits for the next one."""
    monkeypatch.setenv("SUBMIT_TF_JOB_TIMEOUTS_READ", "1h")
    give_up_after(monkeypatch, "20s")
    said(cli(*STATUS, "--rm", serve(trickle(begin)).url()), 7, UNANSWERED % why)


def test_a_resource_manager_that_hangs_leaves_time_for_the_other(
    cli: Cli, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_up_after(monkeypatch, "40s")  # half of it for the other
    hangs = serve(lambda _asked, stream: stream.recv(1))  # until the client has gone
    other = serve(always(raw(200, b'{"apps": null}')))
    done = cli("list", "--rm", hangs.url(), "--rm", other.url())
    assert (done.status, len(hangs.asked), bool(other.asked)) == (0, 1, True), done


def test_no_services_api(cli: Cli, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    servlet = "org.apache.hadoop.http.WebServlet-6bca7e0d"
    page = {"servlet": servlet, "message": "Not Found", "url": "/app", "status": "404"}
    lists = raw(200, b'{"apps": null, "clusterInfo": {"state": "STARTED"}}')
    none = raw(404, json.dumps(page).encode())
    server = serve(lambda asked, stream: stream.sendall(none if "/app/" in asked.path else lists))
    without = r"The ResourceManager at http://localhost:\d+ has no services API\."
    said(cli(*SUBMIT, "--rm", server.url()), 9, without)
    give_up_after_rounds(monkeypatch, 2)
    busy = serve(always(raw(503, json.dumps({**page, "status": "503"}).encode())))
    said(cli(*STATUS, "--rm", busy.url()), 7, UNANSWERED % "HTTP 503 Said")
    assert len(busy.asked) > 1


@pytest.mark.parametrize(
    "command",
    [
        *(("status", "mnist"), ("submit", "train.yaml")),
        *((verb, APP) for verb in ("status", "wait", "describe", "logs", "stop")),
    ],
)
def test_404_of_a_proxy_is_no_missing_job(cli: Cli, serve: Serve, command: tuple[str, ...]) -> None:
    """A web server of Go's says so of every path that it does not serve."""
    proxy = serve(always(raw(404, b"404 page not found\n", "text/plain; charset=utf-8")))
    done = cli(*command, "--rm", proxy.url())
    assert (done.status, done.out) == (7, ""), done
    assert "404 page not found" in done.err
    assert "knows no" not in done.err


def test_compressed_bomb_is_refused(cli: Cli, serve: Serve) -> None:
    server = serve(always(encoded(BOMB, "deflate")))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert cli(*STATUS, "--rm", server.url()).status == 7
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 250 * 1024, (
        "more than 64 MiB and their copies were kept"
    )


# --- where credentials go -------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("command", [STATUS, SUBMIT], ids=["status", "submit"])
def test_redirect_to_another_host_is_refused(
    cli: Cli, serve: Serve, status: int, command: tuple[str, ...]
) -> None:
    shown = b'{"name": "mnist", "id": "application_1_0001", "state": "STABLE"}'
    trap = serve(always(raw(200, shown)))
    target = trap.url("127.0.0.1") + "/app/v1/services/mnist?user.name=alice"
    fields = (f"Location: {target}", f"Refresh: 1;url={target}")
    server = serve(always(raw(status, b"", "text/plain", *fields)))
    done = cli(*command, "--rm", server.url())
    where = re.escape(trap.url("127.0.0.1"))
    followed = rf"http://\S+ redirects to {where}/app/v1/services/mnist, which is not followed\."
    if status == 307:  # as a standby says it
        followed = rf"The active ResourceManager is {where}, which is not configured; "
        followed += rf"tried http://\S+ \(standby of {where}\)\."
    said(done, 7, followed)
    assert not trap.asked, "a redirect was followed to a host that is not configured"


def test_redirect_to_an_address_that_is_none_is_a_standby_s(
    cli: Cli, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_up_after_rounds(monkeypatch, 2)
    server = serve(always(raw(307, b"", "text/plain", "Location: http://[x/ws")))
    said(cli(*STATUS, "--rm", server.url()), 7, UNREACHED % (r"http://\S+", "standby"))


def test_cookie_is_ignored(cli: Cli, serve: Serve) -> None:
    cookie = 'Set-Cookie: hadoop.auth="u=mallory&t=simple"; Path=/'
    server = serve(always(raw(200, b'{"apps": {}}', "application/json", cookie)))
    assert cli(*STATUS, "--rm", server.url()).status == 5
    assert len(server.asked) > 1, "one session sends several requests"
    assert not any("cookie:" in asked.head.lower() for asked in server.asked)
    assert all("user.name=alice" in asked.target for asked in server.asked)


def test_environment_credentials_are_not_sent(
    cli: Cli, serve: Serve, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, proxy = serve(always(raw(404, b"{}"))), serve(always(raw(200, b"{}")))
    (home / ".netrc").write_text("machine localhost login alice password s3cret\n")
    (home / ".netrc").chmod(0o600)
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, proxy.url())
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nowhere")
    cli(*STATUS, "--rm", server.url())
    assert server.asked
    assert not proxy.asked, "a proxy out of the environment was used"
    assert not any("authorization" in asked.head.lower() for asked in server.asked), (
        "a password out of .netrc was sent"
    )


@pytest.mark.parametrize("user", ["alice\r\nX-Admin: yes", "alice bob", "", "alice\x00"])
def test_names_cannot_inject_headers(cli: Cli, serve: Serve, user: str) -> None:
    server = serve(always(raw(200, b"{}")))
    done = cli(*STATUS, "--rm", server.url(), "--user", user)
    assert (done.status, done.out) == (2, ""), done
    assert not server.asked


def test_names_cannot_change_the_path(cli: Cli, serve: Serve) -> None:
    server = serve(always(raw(200, b'{"apps": {}}')))
    for job in ("../../ws/v1/cluster/apps", "a/b?user.name=root#", "mnist\r\nX-Admin: yes"):
        assert cli("status", job, "--rm", server.url()).status in (2, 5)
    assert {asked.path for asked in server.asked} <= {"/ws/v1/cluster/apps"}


# --- who is refused -------------------------------------------------------------------------------


def remote(message: str, java_class: str) -> bytes:
    name = java_class.rpartition(".")[2]
    error = {"message": message, "exception": name, "javaClassName": java_class}
    return raw(403, json.dumps({"RemoteException": error}).encode())


def challenge(text: str) -> bytes:
    return raw(401, b"", "text/html", f"WWW-Authenticate: {text}")


def by_java(words: str, *headers: str) -> bytes:
    reason = f" GSSException: Failure unspecified at GSS-API level (Mechanism level: {words})"
    return raw(403, b"", "text/html", *headers).replace(b" Said", reason.encode(), 1)


AN_HOUR_AGO = b"Date: AN HOUR AGO"


def an_hour_ago() -> bytes:
    return f"Date: {email.utils.formatdate(time.time() - 3600)}".encode()


IMPERSONATE = remote(
    "User: gw@SANDBOX.TEST is not allowed to impersonate bob",
    "org.apache.hadoop.security.authorize.AuthorizationException",
)
FORBIDDEN = remote("User alice has no {right}", "org.apache.hadoop.yarn.webapp.ForbiddenException")
NO_TOKEN = remote(
    "org.apache.hadoop.security.token.SecretManager$InvalidToken: Token for real user: , "
    "can't be found in cache",
    "org.apache.hadoop.security.authentication.client.AuthenticationException",
)
TOKEN = "does not accept the delegation token: .*"
TICKET = "refuses the Kerberos ticket: "
REFUSALS = [
    ("simple", challenge("Negotiate"), "wants Kerberos, and user.name=alice was sent.", "kinit"),
    ("simple", challenge('Basic realm="x"'), "does not accept user.name=alice.", "--auth basic"),
    ("simple", IMPERSONATE, "", "hadoop.proxyuser.gw.hosts"),
    ("simple", by_java("Clock skew too great (37)", AN_HOUR_AGO.decode()), TICKET + r"this machine's clock is 3[67]\d\d s ahead of the server's.", "NTP"),
    ("simple", by_java("Clock skew too great (37)"), TICKET + "this machine's clock is too far from the server's.", "NTP"),
    ("simple", by_java("Checksum failed"), TICKET + "the keys of HTTP/localhost in its keytab are not those of the KDC.", "keytab"),
    ("simple", by_java("Invalid argument (400) - Cannot find key of appropriate type to decrypt AP REP - RC4"), TICKET + "it has no key of the ticket's encryption type.", "klist -e"),
    ("simple", by_java("Something new (99)"), TICKET + "Something new.", "log"),
    ("delegation-token", NO_TOKEN, TOKEN, "get a new one"),
    ("delegation-token", remote("java.io.EOFException", "java.io.EOFException"), TOKEN, "get a new one"),
    ("delegation-token", FORBIDDEN, "", ""),
    ("delegation-token", challenge("Negotiate"), "wants Kerberos, and the delegation token was sent.", "--auth kerberos"),
    ("basic", challenge("Basic"), "does not accept the password of alice.", "credentials.file"),
    ("basic", challenge("Negotiate"), "wants Kerberos, and the password of alice was sent.", "--auth kerberos"),
    ("bearer", challenge("Bearer"), "does not accept the bearer token.", "expired"),
]  # fmt: skip
INSTEAD = {
    IMPERSONATE: "gw@SANDBOX.TEST may not submit for bob.",
    FORBIDDEN: "The cluster did not allow to list applications: User alice has no {right}",
}


@pytest.mark.parametrize(("auth", "answer", "words", "hint"), REFUSALS)
def test_what_a_refusal_means(
    cli: Cli,
    serve: Serve,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    auth: str,
    answer: bytes,
    words: str,
    hint: str,
) -> None:
    secret = home / "secret"
    secret.write_text("canary-3e1f\n")
    secret.chmod(0o600)
    monkeypatch.setenv("SUBMIT_TF_JOB_AUTH", auth)
    monkeypatch.setenv("SUBMIT_TF_JOB_CREDENTIALS_FILE", str(secret))
    server = serve(always(answer.replace(AN_HOUR_AGO, an_hour_ago())))
    done = cli(*STATUS, "--rm", server.url())
    url = re.escape(f"{server.url()}/ws/v1/cluster/apps ")
    said(done, 4, re.escape(INSTEAD[answer]) if answer in INSTEAD else url + words)
    assert hint in done.err
    assert "canary" not in done.err
    assert len(server.asked) == 1, "what was refused was asked again"


# --- TLS ------------------------------------------------------------------------------------------


def test_a_certificate_of_the_sites_own_authority(
    cli: Cli, serve: Serve, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(always(raw(200, b'{"apps": null}')), authority.server("good", "localhost"))
    why = "its certificate was refused: (unable to get|self).*"
    done = cli(*STATUS, "--rm", server.url())
    said(done, 7, UNREACHED % (r"https://localhost:\d+", why))
    assert done.err.endswith("  hint: Set ca_file to the CA that signed the certificate.\n")
    assert not server.asked
    monkeypatch.setenv("SUBMIT_TF_JOB_CA_FILE", str(authority.certificate))
    assert cli(*STATUS, "--rm", server.url()).status == 5
    assert server.asked


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_an_authority_of_the_machine(
    cli: Cli,
    serve: Serve,
    authority: Authority,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    kind: str,
) -> None:
    directory = tmp_path / "certs"
    directory.mkdir()
    shutil.copy(authority.certificate, directory)
    subprocess.run(["openssl", "rehash", directory], check=True, timeout=600)
    file = authority.certificate if kind == "file" else tmp_path / "cert.pem"
    found = ssl.get_default_verify_paths()._replace(
        openssl_cafile=str(file), openssl_capath=str(directory)
    )
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: found)
    server = serve(always(raw(200, b'{"apps": null}')), authority.server("good", "localhost"))
    assert cli(*STATUS, "--rm", server.url()).status == 5
    assert server.asked


@pytest.mark.parametrize(
    ("host", "expired", "why", "hint"),
    [
        ("rm.example.com", False, "Hostname mismatch, certificate is not valid for 'localhost'", "Write"
         " the address with a name that the certificate was issued for."),
        ("localhost", True, "certificate has expired", "The ResourceManager's administrator has to "
         "renew it; or is the clock of this machine wrong?"),
    ],
)  # fmt: skip
def test_invalid_certificates(
    cli: Cli,
    serve: Serve,
    authority: Authority,
    monkeypatch: pytest.MonkeyPatch,
    host: str,
    expired: bool,
    why: str,
    hint: str,
) -> None:
    monkeypatch.setenv("SUBMIT_TF_JOB_CA_FILE", str(authority.certificate))
    server = serve(always(raw(200, b"{}")), authority.server("bad", host, expired=expired))
    for command in (STATUS, SUBMIT):
        done = cli(*command, "--rm", server.url())
        refused = f"its certificate was refused: {why}"
        said(done, 7, UNREACHED % (r"https://localhost:\d+", refused))
        assert done.err.endswith(f"  hint: {hint}\n")
    assert not server.asked


def test_scheme_is_not_changed(
    cli: Cli, serve: Serve, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither http where https was said, nor the reverse; and an address of the other scheme is
    another address.
    """
    monkeypatch.setenv("SUBMIT_TF_JOB_CA_FILE", str(authority.certificate))
    plain = serve(always(raw(200, b"{}")))
    secure = serve(always(raw(200, b"{}")), authority.server("good", "localhost"))
    for wrong, why, right in (
        (f"https://localhost:{plain.port}", "it does not speak TLS", "http"),
        (f"http://localhost:{secure.port}", "it speaks TLS", "https"),
    ):
        done = cli(*STATUS, "--rm", wrong)
        said(done, 7, UNREACHED % (wrong, why))
        assert done.err.endswith(f"  hint: Write its address with {right}://.\n")
    assert not plain.asked
    address = f"http://localhost:{plain.port}"
    redirect = raw(307, b"", "text/plain", f"Location: {address}/ws")
    down = serve(always(redirect), authority.server("good", "localhost"))
    done = cli(*STATUS, "--rm", down.url(), "--rm", f"https://localhost:{plain.port}")
    said(done, 7, f"The active ResourceManager is {address}, which is not configured; tried .*")
    assert not plain.asked, "https became http because a server said so"


@pytest.mark.parametrize("content", [None, b"", b"rubbish\n"], ids=["absent", "empty", "rubbish"])
def test_unreadable_ca_file(
    cli: Cli,
    serve: Serve,
    authority: Authority,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    content: bytes | None,
) -> None:
    server = serve(always(raw(200, b"{}")), authority.server("good", "localhost"))
    path = home / "ca.pem"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setenv("SUBMIT_TF_JOB_CA_FILE", str(path))
    said(cli(*STATUS, "--rm", server.url()), 2, rf"{path}: .*")
    assert not server.asked


def test_unresolvable_name(cli: Cli) -> None:
    for command in (STATUS, SUBMIT):
        done = cli(*command, "--rm", "http://no-such-host.invalid:8088")
        said(done, 7, UNREACHED % (r"http://no-such-host\.invalid:8088", "unknown host name"))
