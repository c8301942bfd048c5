"""Log in once from a keytab with the image's own MIT Kerberos library.

It is a program of its own, so that a broken library crashes only this process. KRB5_CLIENT_KTNAME
is the keytab and KRB5CCNAME the ticket cache: MIT's GSSAPI logs in with these. The program prints
one line: `ok` and the ticket's lifetime in seconds, `none` without the library, or `failed` and the
library's message.
"""

from __future__ import annotations

import ctypes
from ctypes import byref

LIBRARY = "libgssapi_krb5.so.2"
INITIATE, FOR_EVER = 1, 0xFFFFFFFF
Number = ctypes.c_uint32  # the C type OM_uint32


class Buffer(ctypes.Structure):
    """The C structure gss_buffer_desc."""

    _fields_ = (("length", ctypes.c_size_t), ("value", ctypes.c_void_p))


def log_in() -> str:
    """Log in, and return the line to print."""
    try:
        lib = ctypes.CDLL(LIBRARY)
    except OSError:
        return "none"
    acquire, inquire = lib.gss_acquire_cred, lib.gss_inquire_cred
    acquire.restype = inquire.restype = Number
    minor, life, cred, name = Number(), Number(), ctypes.c_void_p(), ctypes.c_void_p()
    major = acquire(
        byref(minor), None, Number(FOR_EVER), None, INITIATE, byref(cred), None, byref(life)
    )
    # without a name the library may delay the login until the credential is inspected
    if not major:
        major = inquire(byref(minor), cred, byref(name), byref(life), None, None)
    return "ok %d" % life.value if not major else "failed " + words(lib, major, minor.value)


def words(lib: ctypes.CDLL, major: int, minor: int) -> str:
    """Return the library's message for a failure."""
    parts = []
    for kind, status in ((1, major), (2, minor)):
        text, code = Buffer(), Number(status)
        failed = lib.gss_display_status(
            byref(Number()), code, kind, None, byref(Number()), byref(text)
        )
        if not failed and text.value:
            parts.append(ctypes.string_at(text.value, text.length).decode("utf-8", "replace"))
    return " ".join(". ".join(parts).split())[:500]


if __name__ == "__main__":
    print(log_in(), flush=True)
