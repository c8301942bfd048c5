"""Log in with the job's keytab, for jobs that outlive YARN's delegation tokens.

After half of the ticket's lifetime, the bootstrap replaces the whole ticket cache file. MIT's
GSSAPI (hdfs-native) could renew the ticket itself, with KRB5_CLIENT_KTNAME; but Java's clients only
read the file again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping

from submit_tf_job.container import keytab, own_python, task_files
from submit_tf_job.container.child import run
from submit_tf_job.container.guards import in_thread
from submit_tf_job.container.info import BootstrapProblem, Info, log
from submit_tf_job.container.tokens import when

CACHE = "tfjob-krb5cc"
OWN_KEYTAB = "tfjob-own.keytab"
# pauses before each attempt: a KDC that many tasks query at once may drop a request
ATTEMPTS_S = (0.0, 2.0, 8.0)
# errors that are worth a retry; a KDC repeats its refusals
TRANSIENT = ("Cannot contact", "no answer", "temporarily")
ONE_ATTEMPT_S = 30.0
LEAST_PAUSE_S = 5.0
KINIT_LIFE_S = 3600.0  # kinit does not report the ticket's lifetime
LIBRARY = "libgssapi_krb5.so.2"
INITIATE, FOR_EVER = 1, 0xFFFFFFFF


class LoginFailed(Exception):
    """The keytab cannot be used, or the login gave no new ticket."""


class Login:
    """One principal of a keytab, and its ticket cache. Its methods raise `OSError` if a file cannot
    be written.

    Raises:
        LoginFailed: The keytab cannot be used.
    """

    def __init__(self, info: Info, env: Mapping[str, str]) -> None:
        self.info, self.task = info, info.task["kerberos"]
        self.cache = os.path.join(info.cwd, CACHE)
        self.env = dict(env)
        self._read_keytab()
        self.until = 0.0

    def _read_keytab(self) -> None:
        """Choose the principal. If the keytab also has keys of other principals, write a keytab
        that has only the keys of this one.

        This is repeated before each login, because an administrator may have put a keytab with new
        keys on the node.

        Raises:
            LoginFailed: The keytab cannot be used.
        """
        self.keytab = os.path.join(self.info.cwd, self.task["keytab"])
        try:
            with open(self.keytab, "rb") as source:
                content = source.read(keytab.LONGEST)
        except OSError as err:
            text = "the keytab %s cannot be read: %s"
            raise LoginFailed(text % (self.keytab, err.strerror)) from err
        why = keytab.find_problem(content, self.task["principal"])
        if why:
            raise LoginFailed(f"the keytab {self.keytab} cannot be used: {why}")
        entries = keytab.read(content)
        principals = [entry.principal for entry in entries]
        self.principal = choose(principals, self.task["principal"], self.info.node)
        # GSSAPI always uses the first principal of a keytab
        if any(entry.principal != self.principal for entry in entries):
            self.keytab = os.path.join(self.info.cwd, OWN_KEYTAB)
            task_files.write_file(self.keytab, keytab.extract(entries, self.principal), 0o600)

    def begin(self) -> None:
        """Log in for the first time, with retries.

        Raises:
            LoginFailed: The login gave no ticket.
        """
        for number, pause_s in enumerate(ATTEMPTS_S):
            time.sleep(pause_s)
            try:
                self.renew()
            except LoginFailed as err:
                if number + 1 == len(ATTEMPTS_S) or not any(word in str(err) for word in TRANSIENT):
                    raise
                log(f"the login of {self.principal} failed, and is retried: {err}")
            else:
                text = "%s is logged in from its keytab until %s; the ticket is renewed here"
                log(text % (self.principal, when(self.until)))
                return

    def renew(self) -> None:
        """Replace the ticket by a new one.

        Raises:
            LoginFailed: The login failed.
        """
        self._read_keytab()
        fresh = self.cache + ".new"
        if os.path.exists(fresh):
            os.unlink(fresh)
        files = {"KRB5CCNAME": "FILE:" + fresh, "KRB5_CLIENT_KTNAME": "FILE:" + self.keytab}
        env = dict(self.env, LC_ALL="C", **files)
        life_s = self._by_library(env) or self._by_kinit(env, fresh)
        if not os.path.exists(fresh):
            raise LoginFailed("no ticket came of it")
        os.chmod(fresh, 0o600)
        os.replace(fresh, self.cache)
        self.until = time.time() + life_s

    def _by_library(self, env: Mapping[str, str]) -> float:
        """Log in with MIT's library, and return the ticket's lifetime in seconds; 0 if the image
        has no such library, Python cannot call it, or it crashes.

        Raises:
            LoginFailed: The library could not log in.
        """
        argv = own_python.command_line("submit_tf_job.container.login", self.info, env)
        own = dict(own_python.environment_of(self.info, env), LC_ALL="C")
        word, _, rest = _output_of(argv, own).partition(" ")
        if word == "ok" and rest.isdecimal():
            if int(rest):
                return float(rest)
            raise LoginFailed("the ticket that came of it is over already")
        if word in ("none", ""):  # no library, or one that crashed
            return 0.0
        raise LoginFailed(rest or "the Kerberos library did not say why")

    def _by_kinit(self, env: Mapping[str, str], fresh: str) -> float:
        kinit = shutil.which("kinit", path=env.get("PATH"))
        if not kinit:
            text = "the image has neither %s nor kinit, so that nothing here can log in"
            raise LoginFailed(text % LIBRARY)
        argv = [kinit, "-k", "-t", self.keytab, "-c", "FILE:" + fresh, self.principal]
        output = _output_of(argv, env)
        if not os.path.exists(fresh):
            raise LoginFailed(output or "kinit did not say why")
        return KINIT_LIFE_S

    def keep(self, warn: Callable[[str], None]) -> None:
        """Start a thread that renews the ticket; it calls `warn` when renewals start to fail, and
        when they succeed again.
        """

        def failed(err: Exception) -> None:
            text = "the ticket of %s is not renewed; it ends at %s: %r"
            warn(text % (self.principal, when(self.until), err))

        in_thread("login", lambda: self._keep_ticket(warn), failed)

    def _keep_ticket(self, warn: Callable[[str], None]) -> None:
        well = True
        while True:
            time.sleep(max(LEAST_PAUSE_S, (self.until - time.time()) / 2))
            try:
                self.renew()
                if not well:
                    warn(f"{self.principal} is logged in again, until {when(self.until)}")
                well = True
            except Exception as err:  # noqa: BLE001  (the next renewal may succeed)
                if well:
                    text = "the ticket of %s could not be renewed; it ends at %s: %s"
                    warn(text % (self.principal, when(self.until), err))
                well = False


def choose(principals: list[str], wanted: str, node: str) -> str:
    """Return the principal to use, of those that match the wanted one (at least one must): exactly
    that, or with `_HOST` the one with the name of this node, or else the first one.

    HDFS maps all of them to one user.
    """
    mine = [name for name in principals if keytab.matches(name, wanted)]
    here = wanted.replace(keytab.HOST, node.lower())  # SecurityUtil.replacePattern
    return next((name for name in mine if keytab.matches(name, here)), mine[0])


def _output_of(argv: list[str], env: Mapping[str, str]) -> str:
    """Run a program and return its output on one line.

    The exit status is not used, because `Child.poll` may reap the process first.

    Raises:
        LoginFailed: The program cannot be run, or does not end in time.
    """
    try:
        done = run(argv, ONE_ATTEMPT_S, env)
    except subprocess.TimeoutExpired:
        raise LoginFailed(f"no answer within {ONE_ATTEMPT_S:.0f} s") from None
    except OSError as err:
        raise LoginFailed(f"{argv[0]} cannot be run: {err.strerror}") from err
    return " ".join(done.stdout.decode("utf-8", "replace").split())[:500]


def log_in(info: Info, env: dict[str, str], warn: Callable[[str], None]) -> Login | None:
    """Log in, and return the login; None if the login failed and the job does not require it. After
    a login, the variables for Kerberos are set in `env`.

    Raises:
        BootstrapProblem: The login failed, and the job requires it.
    """
    try:
        login = Login(info, env)
        login.begin()
    except (LoginFailed, OSError) as err:
        text = f"the login of {info.task['kerberos']['principal']} failed: {err}"
        if info.task["kerberos"]["login"] == "always":
            raise BootstrapProblem(text, "login-failed") from err
        warn(text + "; the program has only YARN's delegation tokens, and loses HDFS with them")
        return None
    env["KRB5CCNAME"] = "FILE:" + login.cache
    env["KRB5_CLIENT_KTNAME"] = "FILE:" + login.keytab
    return login


# --- MIT's library --------------------------------------------------------------------------------
def gss_login() -> str:
    """Log in once with the image's own MIT Kerberos library.

    KRB5_CLIENT_KTNAME is the keytab and KRB5CCNAME the ticket cache: MIT's GSSAPI logs in with
    these. This function runs as a separate process, so that a broken library crashes only that
    process.

    Returns:
        `ok` and the ticket's lifetime in seconds; `none` if the image has no such library, or a
        Python without ctypes; or `failed` and the library's message.
    """
    try:
        import ctypes  # which not every image has
        from ctypes import byref

        lib = ctypes.CDLL(LIBRARY)
    except (ImportError, OSError):
        return "none"
    number = ctypes.c_uint32  # the C type OM_uint32
    acquire, inquire = lib.gss_acquire_cred, lib.gss_inquire_cred
    acquire.restype = inquire.restype = number
    minor, life, cred, name = number(), number(), ctypes.c_void_p(), ctypes.c_void_p()
    major = acquire(
        byref(minor), None, number(FOR_EVER), None, INITIATE, byref(cred), None, byref(life)
    )
    # without a name the library may delay the login until the credential is inspected
    if not major:
        major = inquire(byref(minor), cred, byref(name), byref(life), None, None)
    if not major:
        return f"ok {int(life.value)}"
    parts = []
    for kind, status in ((1, major), (2, minor.value)):
        text = (ctypes.c_size_t * 2)()  # the C structure gss_buffer_desc: length and address
        failed = lib.gss_display_status(
            byref(number()), number(status), kind, None, byref(number()), byref(text)
        )
        if not failed and text[1]:
            parts.append(ctypes.string_at(text[1], text[0]).decode("utf-8", "replace"))
    return "failed " + " ".join(". ".join(parts).split())[:500]


def main() -> int:
    """Log in, print the result of `gss_login`, and return 0."""
    print(gss_login(), flush=True)
    return 0
