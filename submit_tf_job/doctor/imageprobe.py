"""Probe an image from within, for `image check`, and print the findings as one line of JSON.

Standard library only, Python 3.6 and later: this file is copied into the image to check. It runs as
YARN would run a task: under a user id that the image does not contain, without a network, and on a
read-only file system.
"""

import json
import os
import sys

MARK = "submit_tf_job-image "
MODULES = ("ssl", "zlib", "ctypes", "sqlite3")


def version_of(package: str) -> str:
    """Return a distribution's version, or "" if it is not installed."""
    try:
        from importlib import metadata

        return metadata.version(package)
    except Exception:  # noqa: BLE001 - Python 3.7 has no such module, other packages no such name
        return ""


def imports(module: str) -> str:
    """Import a module; return why the import fails, or "" if it succeeds."""
    try:
        __import__(module)
    except BaseException as error:  # noqa: BLE001 - a compiled module may raise anything
        return "{}: {}".format(type(error).__name__, error)[:200]
    return ""


def loads(*libraries: str) -> bool:
    """Return whether one of these shared libraries can be loaded."""
    import ctypes

    for library in libraries:
        try:
            ctypes.CDLL(library)
        except OSError:
            continue
        return True
    return False


def first_file(name: str, directories: "list[str]") -> str:
    """Return the path of the first file with this name below the given directories, or "". Of each
    directory at most 200 subdirectories are searched.
    """
    for directory in directories:
        for here, folders, files in os.walk(directory):
            folders[:] = folders[:200]
            if name in files:
                return os.path.join(here, name)
    return ""


def tensorflow() -> "dict[str, str]":
    """Return TensorFlow's version and build options, and the versions of Keras, without an import,
    which would take ten seconds; {} if TensorFlow is not installed.
    """
    import importlib.util
    import re

    found = importlib.util.find_spec("tensorflow")
    if found is None or not found.origin:
        return {}
    names = ("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tensorflow_cpu", "tf-nightly")
    about = {"version": next((version for version in map(version_of, names) if version), "")}
    about.update({name: version_of(name) for name in ("keras", "tf_keras")})
    try:
        with open(
            os.path.join(os.path.dirname(found.origin), "python", "platform", "build_info.py")
        ) as handle:
            text = handle.read()
    except OSError:
        return about
    for key in ("is_cuda_build", "cuda_version", "cudnn_version"):
        # a dict, or a list of pairs
        match = re.search(r"""['"]{}['"]\s*[:,]\s*['"]?([\w.]+)""".format(key), text)
        about[key] = match.group(1) if match else ""
    return about


def cuda() -> "dict[str, bool]":
    """Return, for each version of CUDA's and cuDNN's libraries that TensorFlow is built for,
    whether it can be found.

    The libraries are on the loader's path, or in NVIDIA's wheels, in which TensorFlow finds them.
    """
    roots = [os.path.join(path, "nvidia") for path in sys.path if path] + [
        "/usr/local/cuda",
        "/usr/local/cuda/lib64",
    ]
    seen = {}
    for name, versions in (
        ("libcudart.so", ("10.1", "11.0", "12", "13")),
        ("libcudnn.so", ("7", "8", "9")),
    ):
        for version in versions:
            full = "{}.{}".format(name, version)
            seen[full] = loads(full) or bool(
                first_file(full, [root for root in roots if os.path.isdir(root)])
            )
    return seen


def hadoop() -> "dict[str, str]":
    """Return the libraries for HDFS that the image has."""
    home = os.environ.get("HADOOP_HOME") or os.environ.get("HADOOP_HDFS_HOME") or ""
    places = [
        path
        for path in (home, "/opt/hadoop", "/usr/lib/hadoop", "/usr/local/hadoop")
        if path and os.path.isdir(path)
    ]
    return {
        "hdfs_native": version_of("hdfs-native"),
        "hdfs_native_error": imports("hdfs_native"),
        "libhdfs": first_file("libhdfs.so", places),
        "home": home,
        "java": os.environ.get("JAVA_HOME", ""),
    }


def locale_error() -> str:
    """Return why the locale en_US.UTF-8, which YARN sets, is not available; "" if it is."""
    import locale

    try:
        locale.setlocale(locale.LC_ALL, "en_US.UTF-8")
    except locale.Error as error:
        return str(error)
    return ""


def certificates() -> bool:
    """Return whether Python has CA certificates to verify servers."""
    try:
        import ssl
    except ImportError:
        return False
    paths = ssl.get_default_verify_paths()
    return bool(paths.cafile) or bool(paths.capath and os.listdir(paths.capath))


def findings() -> "dict[str, object]":
    """Return all findings."""
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
    print(MARK + json.dumps(findings()))
