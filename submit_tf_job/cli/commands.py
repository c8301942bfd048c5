"""The commands: the module of each command, and its line in the help. The build makes the manual
page from these tables.
"""

from __future__ import annotations

# Section of `--help` → command → (module of this package, its line of the help), in the order of
# `--help`. The function has the command's name, and `_` behind it if Python has that name, too.
SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Run jobs": {
        "submit": ("submit", "Submit a job and follow it to its end."),
        "run": ("submit", "Run a program as a job, without a job spec file."),
        "notebook": ("interactive", "Run a Jupyter notebook on the cluster."),
        "tensorboard": ("interactive", "Run TensorBoard over the outputs of jobs."),
        "local": ("submit", "Run a job on this machine, without a cluster."),
        "validate": ("spec_files", "Report every problem of job spec files."),
        "render": ("spec_files", "Print the service that submit would post."),
        "init": ("spec_files", "Print a starter job spec."),
        "convert": ("spec_files", "Print a job of another system as a job spec."),
        "formats": ("spec_files", "List the formats that `convert` reads."),
        "schema": ("spec_files", "Print the JSON Schema of job specs."),
    },
    "Watch jobs": {
        "list": ("many_jobs", "List jobs, the newest first."),
        "history": ("many_jobs", "List runs, beyond what the ResourceManager remembers."),
        "compare": ("compare", "Compare runs: what differs, metrics, memory, outputs."),
        "top": ("compare", "Show the free capacity, and whether a job would start now."),
        "status": ("one_job", "Show the state of a job."),
        "why": ("one_job", "Show why a job waits or failed, and what is new."),
        "describe": ("one_job", "Show a job in detail: tasks, limits, links, last events."),
        "watch": ("many_jobs", "Watch a job, or all jobs, in a live view."),
        "wait": ("one_job", "Wait until a job is ready or done."),
        "logs": ("one_job", "Show what tasks wrote."),
        "events": ("one_job", "Show what happened to a job, in order of time."),
        "stacks": ("one_job", "Print where the Python processes of a running job stand."),
        "ui": ("ui", "Show your jobs in a browser: curves, use, runs side by side."),
        "usage": (
            "use_of_resources",
            "Show what a job uses of what it asked for, or a team's account.",
        ),
        "open": ("one_job", "Print the address of what a role serves."),
        "tunnel": ("one_job", "Print the ssh command that makes a role's port reachable here."),
    },
    "Change jobs": {
        "stop": ("change", "Stop a job."),
        "release": ("change", "End the hold of a failed task's container."),
        "delete": ("change", "Delete the ended runs of a job, or one run."),
        "scale": ("change", "Change the number of tasks of a sidecar or an elastic role."),
        "restart": ("change", "End one task, so that YARN starts it again."),
        "priority": ("change", "Change the priority of a job within its queue."),
        "move": ("change", "Move a job to another queue."),
        "extend": ("change", "Extend the time limit of a running job."),
    },
    "Check and set up": {
        "doctor": ("setup", "Check that this machine can run jobs on the cluster."),
        "put": ("setup", "Copy files of this host to HDFS, without Java."),
        "image": ("setup", "Check Docker images."),
        "config": ("setup", "Show the settings, and where each comes from."),
        "staging": ("setup", "Manage files staged on HDFS."),
        "sandbox": ("sandbox", "Run a real YARN cluster on this machine."),
        "gateway": ("gateway", "Run the REST gateway."),
        "help": ("manual", "Print a page of the documentation."),
        "version": ("manual", "Print the version."),
    },
}
COMMANDS = {name: row for rows in SECTIONS.values() for name, row in rows.items()}

# A group's commands, which its module has, with their lines of the group's help.
SUBCOMMANDS = {
    "config show": "Show every setting, its value, and where it comes from.",
    "gateway serve": "Serve jobs over HTTP until SIGTERM.",
    "gateway token": "Make a token for a caller.",
    "image check": "Report what YARN, HDFS or TensorFlow will miss in an image.",
    "sandbox up": "Start a YARN cluster on this machine, or repair a running one.",
    "sandbox down": "Stop a sandbox and remove all that it wrote.",
    "sandbox status": "Show each daemon of a sandbox.",
    "sandbox logs": "Print the log of one daemon.",
    "staging gc": "Remove what was staged for jobs that no longer exist.",
}
# These read no settings, and have no options of the cluster.
WITHOUT_SETTINGS = frozenset(
    {"init", "formats", "schema", "help", "version", "gateway token"}
    | {name for name in SUBCOMMANDS if name.startswith("sandbox ")}
)

# What --output takes beside text and json.
MORE_FORMATS = {"compare": ("csv",)}

EPILOG = """\
Exit status: 0 done, or the job succeeded; 1 the job failed; 2 wrong usage, job spec or settings; 3 the job was stopped; 4 not allowed;
5 no such job; 6 another run of the job is alive; 7 no ResourceManager could be reached; 8 the deadline passed; 9 the cluster refused the job;
74 the result could not be written; 130 and 143 interrupted: the job keeps running.

More: submit_tf_job help, and submit_tf_job COMMAND --help."""  # noqa: E501
