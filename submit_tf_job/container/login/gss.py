"""Log in once from a keytab with the image's own MIT Kerberos library.

It is a program of its own, so that a broken library crashes only this process. KRB5_CLIENT_KTNAME
is the keytab and KRB5CCNAME the ticket cache: MIT's GSSAPI logs in with these. The program prints
one line: `ok` and the ticket's lifetime in seconds, `none` without the library, or `failed` and the
library's message.
"""

from __future__ import annotations

import ctypes

LIBRARY = "libgssapi_krb5.so.2"
INITIATE, FOR_EVER = 1, 0xFFFFFFFF


class Buffer(ctypes.Structure):
    """The C structure gss_buffer_desc."""

    _fields_ = (("length", ctypes.c_size_t), ("value", ctypes.c_void_p))


def log_in() -> str:
    """Log in, and return the line to print."""
    try:
        lib = ctypes.CDLL(LIBRARY)
    except OSError:
        return "none"
    minor, life = ctypes.c_uint32(), ctypes.c_uint32()
    cred, name = ctypes.c_void_p(), ctypes.c_void_p()
    acquire, inquire = lib.gss_acquire_cred, lib.gss_inquire_cred
    number, pointer = ctypes.POINTER(ctypes.c_uint32), ctypes.POINTER(ctypes.c_void_p)
    acquire.restype = inquire.restype = ctypes.c_uint32
    acquire.argtypes = [
        number,
        ctypes.c_void_p,
        ctypes.c_uint32,
        ctypes.c_void_p,
        ctypes.c_int,
        pointer,
        ctypes.c_void_p,
        number,
    ]
    inquire.argtypes = [number, ctypes.c_void_p, pointer, number, ctypes.c_void_p, ctypes.c_void_p]
    major = acquire(minor, None, FOR_EVER, None, INITIATE, cred, None, life)
    # without a name the library may delay the login until the credential is inspected
    if not major:
        major = inquire(minor, cred, name, life, None, None)
    return "ok %d" % life.value if not major else "failed " + words(lib, major, minor.value)


def words(lib: ctypes.CDLL, major: int, minor: int) -> str:
    """Return the library's message for a failure."""
    display = lib.gss_display_status
    display.restype = ctypes.c_uint32
    more = ctypes.c_uint32
    display.argtypes = [
        ctypes.POINTER(more),
        more,
        ctypes.c_int,
        ctypes.c_void_p,
        ctypes.POINTER(more),
        ctypes.POINTER(Buffer),
    ]
    parts = []
    for kind, status in ((1, major), (2, minor)):
        text, rest = Buffer(), more()
        if not display(more(), status, kind, None, rest, text) and text.value:
            parts.append(ctypes.string_at(text.value, text.length).decode("utf-8", "replace"))
    return " ".join(". ".join(parts).split())[:500]


if __name__ == "__main__":
    print(log_in(), flush=True)
