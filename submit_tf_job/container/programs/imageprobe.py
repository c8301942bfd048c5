"""What `image check` runs in a container of the image: it looks around and prints what it sees as one line of JSON.

Standard library only, Python 3.7 and later: this very file travels into whatever image is looked at. It runs as YARN
would run a task, under a user id that the image does not know, without a network, and on a file system that cannot be written.
"""

from __future__ import annotations

import json
import os
import sys

MARK = "submit_tf_job-image "
MODULES = ("ssl", "zlib", "ctypes", "sqlite3")


def version_of(package: str) -> str:
    """Return a distribution's version, "" where there is none."""
    try:
        from importlib import metadata

        return metadata.version(package)
    except Exception:  # noqa: BLE001 - Python 3.7 has no such module, other packages no such name
        return ""


def imports(module: str) -> str:
    """Import a module; return why it cannot be, "" where it can."""
    try:
        __import__(module)
    except BaseException as error:  # noqa: BLE001 - a compiled module may raise anything
        return "{}: {}".format(type(error).__name__, error)[:200]
    return ""


def loads(*libraries: str) -> bool:
    """Say whether one of some shared libraries can be loaded."""
    import ctypes

    for library in libraries:
        try:
            ctypes.CDLL(library)
        except OSError:
            continue
        return True
    return False


def first_file(name: str, directories: list[str]) -> str:
    """Return the first file of a name below some directories."""
    for directory in directories:
        for here, folders, files in os.walk(directory):
            folders[:] = folders[:200]
            if name in files:
                return os.path.join(here, name)
    return ""


def tensorflow() -> dict[str, str]:
    """Read what TensorFlow was built for; importing it would take ten seconds and more."""
    import importlib.util
    import re

    found = importlib.util.find_spec("tensorflow")
    if found is None or not found.origin:
        return {}
    names = ("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tensorflow_cpu", "tf-nightly")
    about = {"version": next((version for version in map(version_of, names) if version), "")}
    try:
        with open(os.path.join(os.path.dirname(found.origin), "python", "platform", "build_info.py")) as handle:
            text = handle.read()
    except OSError:
        return about
    for key in ("is_cuda_build", "cuda_version", "cudnn_version"):
        match = re.search(r"""['"]{}['"]\s*[:,]\s*['"]?([\w.]+)""".format(key), text)  # a dict, or a list of pairs
        about[key] = match.group(1) if match else ""
    return about


def cuda() -> dict[str, bool]:
    """Say which of CUDA's libraries are there: on the loader's path, or as NVIDIA's wheels, which TensorFlow finds by itself."""
    roots = [os.path.join(path, "nvidia") for path in sys.path if path] + ["/usr/local/cuda", "/usr/local/cuda/lib64"]
    seen = {}
    for name, versions in (("libcudart.so", ("10.1", "11.0", "12", "13")), ("libcudnn.so", ("7", "8", "9"))):
        for version in versions:
            full = "{}.{}".format(name, version)
            seen[full] = loads(full) or bool(first_file(full, [root for root in roots if os.path.isdir(root)]))
    return seen


def hadoop() -> dict[str, str]:
    """Say what is there to reach HDFS."""
    home = os.environ.get("HADOOP_HOME") or os.environ.get("HADOOP_HDFS_HOME") or ""
    places = [path for path in (home, "/opt/hadoop", "/usr/lib/hadoop", "/usr/local/hadoop") if path and os.path.isdir(path)]
    return {
        "hdfs_native": version_of("hdfs-native"),
        "hdfs_native_error": imports("hdfs_native"),
        "libhdfs": first_file("libhdfs.so", places),
        "home": home,
        "java": os.environ.get("JAVA_HOME", ""),
    }


def locale_error() -> str:
    """Say why the locale that YARN sets cannot be used, "" where it can."""
    import locale

    try:
        locale.setlocale(locale.LC_ALL, "en_US.UTF-8")
    except locale.Error as error:
        return str(error)
    return ""


def certificates() -> bool:
    """Say whether Python has CA certificates to check servers by."""
    try:
        import ssl
    except ImportError:
        return False
    paths = ssl.get_default_verify_paths()
    return bool(paths.cafile) or bool(paths.capath and os.listdir(paths.capath))


def look() -> dict[str, object]:
    """Look around."""
    return {
        "python": list(sys.version_info[:3]),
        "executable": sys.executable,
        "modules": {name: imports(name) for name in MODULES},
        "tmp_mode": os.stat("/tmp").st_mode & 0o7777 if os.path.isdir("/tmp") else -1,  # noqa: S108 - it is the image's
        "krb5": loads("libgssapi_krb5.so.2"),
        "certificates": certificates(),
        "locale_error": locale_error(),
        "hadoop": hadoop(),
        "tensorflow": tensorflow(),
        "cuda": cuda(),
    }


if __name__ == "__main__":
    print(MARK + json.dumps(look()))
