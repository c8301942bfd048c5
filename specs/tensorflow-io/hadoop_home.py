"""Make a Hadoop home with libhdfs, where there is no unpacked Hadoop: python hadoop_home.py JARS DIRECTORY

JARS has Hadoop's jars, such as those of a sandbox (~/.cache/submit_tf_job/hadoop-3.4.2/jars); they are linked. libhdfs is built of the
sources that are in pydoop, by gcc and the JDK of JAVA_HOME or PATH.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PYDOOP = "pydoop==2.0.0"


def part_of(jar):
    """Return the directory of share/hadoop where the distribution has a jar."""
    if jar.startswith("hadoop-yarn"):
        return "yarn"
    if jar.startswith("hadoop-hdfs"):
        return "hdfs"
    return "common" if jar.startswith("hadoop-common") else "common/lib"


def link_jars(jars, home):
    for jar in sorted(jars.glob("*.jar")):
        target = home / "share/hadoop" / part_of(jar.name) / jar.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(jar.resolve())


def build_libhdfs(library):
    java = Path(os.environ.get("JAVA_HOME") or Path(shutil.which("javac")).resolve().parents[1])
    with tempfile.TemporaryDirectory() as made:
        # Its setup.py needs pkg_resources, which later setuptools do not have.
        tools = str(Path(made) / "tools")
        pip = [sys.executable, "-m", "pip", "--quiet"]
        subprocess.run([*pip, "install", "--target", tools, "setuptools<70", "wheel"], check=True)
        source = ["--no-deps", "--no-binary=:all:", "--no-build-isolation", "--dest", made, PYDOOP]
        environ = {**os.environ, "PYTHONPATH": tools}
        subprocess.run([*pip, "download", *source], env=environ, check=True)
        with tarfile.open(next(Path(made).glob("pydoop-*.tar.gz"))) as archive:
            archive.extractall(made, filter="data")
        sources = next(Path(made).glob("pydoop-*/src/libhdfs"))
        files = [p for d in (".", "common", "os/posix") for p in sources.glob(f"{d}/*.c")]
        folders = [
            sources / d for d in (".", "include", "include/hdfs", "os", "os/posix", "common")
        ]
        folders += [java / "include", java / "include/linux"]
        jvm = next(java.glob("**/server/libjvm.so")).parent
        library.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ["gcc", "-shared", "-fPIC", "-O2", "-w", "-o", library, *files]
            + [f"-I{folder}" for folder in folders]
            + [f"-L{jvm}", "-ljvm", "-lpthread"],
            check=True,
        )


def main():
    jars, home = Path(sys.argv[1]), Path(sys.argv[2])
    link_jars(jars, home)
    build_libhdfs(home / "lib/native/libhdfs.so")
    print(f"HADOOP_HDFS_HOME={home.resolve()}")


if __name__ == "__main__":
    main()
