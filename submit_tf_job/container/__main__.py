"""Start the bootstrap: Python runs this file of `bootstrap.zip`.

Every version of Python can parse this file, so that a Python that is too old gives a clear message.
"""

import os
import sys


def start():
    # type: () -> int
    """Run the task; return its exit status, or 90 if Python is too old."""
    if sys.version_info < (3, 6):
        sys.stderr.write(
            "[submit_tf_job] the bootstrap needs Python 3.6 or later, and %s is Python %s; name "
            "another interpreter by `python` in the job spec\n"
            % (sys.executable, sys.version.split()[0])
        )
        return 90
    sys.dont_write_bytecode = True
    # the file behind YARN's link, which the program may remove
    sys.path[0] = os.path.realpath(sys.path[0])
    # the image's PYTHONPATH comes last: a file there may have the name of a module of Python's
    named = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    sys.path.sort(key=lambda path: os.path.abspath(path) in named)
    from submit_tf_job.container.main import main

    return main()


if __name__ == "__main__":
    sys.exit(start())
