"""Run TensorBoard on event files that lie on a file system TensorFlow itself cannot read: mirror them, and serve the mirror.

python tensorboard_from.py hdfs:///models/digits/events PORT
"""

import os
import subprocess
import sys
import tempfile
import time

import fsspec


def mirror(source, local):
    fs, root = fsspec.core.url_to_fs(source)
    try:
        names = fs.find(root)
    except FileNotFoundError:
        return
    for name in names:
        target = os.path.join(local, os.path.relpath(name, root))
        size = fs.info(name)["size"]
        if not os.path.exists(target) or os.path.getsize(target) != size:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            fs.get_file(name, target)


def main():
    source, port = sys.argv[1], sys.argv[2]
    local = tempfile.mkdtemp()
    board = subprocess.Popen(["tensorboard", "--logdir", local, "--port", port, "--bind_all"])
    while board.poll() is None:
        mirror(source, local)
        time.sleep(5)
    return board.returncode


if __name__ == "__main__":
    sys.exit(main())
