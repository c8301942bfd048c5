"""Log in once from a keytab by the image's own MIT Kerberos library; run as a program of its own, which a broken library may crash.

KRB5_CLIENT_KTNAME names the keytab, KRB5CCNAME where the ticket goes: MIT's GSSAPI then logs in by itself. It prints one line: `ok` and the
ticket's life in seconds, `none` where there is no such library, or `failed` and the library's words.
"""

from __future__ import annotations

import ctypes

LIBRARY = "libgssapi_krb5.so.2"
INITIATE, FOR_EVER = 1, 0xFFFFFFFF


class Buffer(ctypes.Structure):
    """gss_buffer_desc."""

    _fields_ = (("length", ctypes.c_size_t), ("value", ctypes.c_void_p))


def log_in() -> str:
    """Log in, and say how it went."""
    try:
        lib = ctypes.CDLL(LIBRARY)
    except OSError:
        return "none"
    minor, life = ctypes.c_uint32(), ctypes.c_uint32()
    cred, name = ctypes.c_void_p(), ctypes.c_void_p()
    acquire, inquire = lib.gss_acquire_cred, lib.gss_inquire_cred
    number, pointer = ctypes.POINTER(ctypes.c_uint32), ctypes.POINTER(ctypes.c_void_p)
    acquire.restype = inquire.restype = ctypes.c_uint32
    acquire.argtypes = [number, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_int, pointer, ctypes.c_void_p, number]
    inquire.argtypes = [number, ctypes.c_void_p, pointer, number, ctypes.c_void_p, ctypes.c_void_p]
    major = acquire(minor, None, FOR_EVER, None, INITIATE, cred, None, life)
    if not major:  # with no name given the library may have put the login off until somebody looks
        major = inquire(minor, cred, name, life, None, None)
    return "ok %d" % life.value if not major else "failed " + words(lib, major, minor.value)


def words(lib: ctypes.CDLL, major: int, minor: int) -> str:
    """Return the library's words for a failure."""
    display = lib.gss_display_status
    display.restype = ctypes.c_uint32
    more = ctypes.c_uint32
    display.argtypes = [ctypes.POINTER(more), more, ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(more), ctypes.POINTER(Buffer)]
    said = []
    for kind, status in ((1, major), (2, minor)):
        text, rest = Buffer(), more()
        if not display(more(), status, kind, None, rest, text) and text.value:
            said.append(ctypes.string_at(text.value, text.length).decode("utf-8", "replace"))
    return " ".join(". ".join(said).split())[:500]


if __name__ == "__main__":
    print(log_in(), flush=True)
