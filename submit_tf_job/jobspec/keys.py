"""Every key of a job spec, in one table.

The reader, `--set`, the suggestions for mistyped keys, the JSON Schema and the tables of
docs/job-spec.md come from this table. docs/internals/architecture.md has the recipe for a new key.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from submit_tf_job.container.contract import RETRY_ANY, RETRY_LOST, RETRY_OOM
from submit_tf_job.host.located.tree import closest
from submit_tf_job.host.quoting import clip
from submit_tf_job.jobspec.job import (
    DEFAULT_GROW_AFTER_S,
    DEFAULT_NODE_LOSSES,
    DEFAULT_RETRIES,
    TRAINING_ROLES,
    Elastic,
    Ending,
    ImagePolicy,
    Input,
    KerasMode,
    OnFailure,
    OnRetry,
    OnStall,
    Output,
    OwnLogin,
    Placement,
    Restart,
    Retries,
    RoleKind,
    Stall,
    Strategy,
    TFConfigMode,
    Uploader,
    Variables,
)
from submit_tf_job.jobspec.kinds import (
    COMMAND,
    DURATION,
    FLAG,
    IMAGE,
    LABEL,
    MEMORY,
    NO_LABEL,
    PORT,
    PUBLISHED,
    Key,
    Keys,
    enum,
    factor,
    good_members,
    group,
    list_of,
    map_of,
    matching,
    text,
    whole,
    word_or_number,
    words,
)
from submit_tf_job.jobspec.path_kinds import (
    DESTINATION,
    HADOOP_CONF,
    KEYTAB,
    KRB5_CONF,
    LOCAL_PATH,
    MOUNT,
    PLAIN_URI,
    SCHEMES,
    SOURCE,
    URI,
)

DEFAULT_RESTARTS = 3
MAX_INSTANCES = 100_000
MAX_ROLES = 100

_LABEL = matching(
    LABEL,
    NO_LABEL,
    "DNS label: `a-z`, `0-9`, `-`; a letter first, no hyphen last, at most 63",
    definition="label",
)
_DATA_NAME = matching(  # in capitals it becomes the end of an environment variable's name
    "[a-z][a-z0-9_]{0,31}", "is not a valid name; use a-z, 0-9 and '_', a letter first, at most 32"
)
_INIT = "write a job spec instead: `submit_tf_job init` shows one"

# One row of the table is a paragraph.
# fmt: off

# --- the small mappings ---


def _make_placement(values: dict[str, Any]) -> Placement:
    spread, together = values.get("spread"), values.get("together")
    if spread and together and (spread, together) != ("node", "rack"):
        raise ValueError(
            f"spread: {spread} and together: {together} contradict each other; only "
            f"spread: node within together: rack can be met"
        )
    return Placement(**values)


_SCOPE = words({"node": "node", "rack": "rack"}, host="node", hostname="node", nodemanager="node")
PLACEMENT = Keys(
    "a mapping such as {spread: node}",
    [
        Key("spread", _SCOPE, "Put each task of the role on its own node (or rack).", ("node",),
            words="anti_affinity"),
        Key("together", _SCOPE, "Put all tasks of the role on one node (or in one rack).",
            ("rack",),
            more="Of the pairs only `spread: node` with `together: rack` can be met.",
            words="affinity"),
        Key("node_label", matching(r"[^\s,]+", "is not a valid node label; write its name alone"),
            "Node label (partition) to run in.", ("gpu",), field="partition",
            words="label node_partition partition"),
        # names with dots: rm.yarn.io/os
        Key("node_attributes", map_of(list_of(matching(r"[^\s,]+",
            "is not a valid value of a node attribute; write it without blanks and commas",
            exact=True), "a list", empty="the list of accepted values is empty; name at least one",
            or_one=True), "a mapping such as {gpu_model: [a100, h100]}",
            shown="mapping of name to text or list", dotted=True),
            "Nodes with one of these values of each attribute.",
            ({"gpu_model": ["a100", "h100"], "os": "rhel8"},), field="attributes",
            words="attributes node_selector"),
    ],
)


def _make_restart(values: dict[str, Any]) -> tuple[Restart, int] | None:
    policy, most = values["policy"], values.get("max")
    if policy is None:
        return None
    if policy is Restart.NEVER and most:
        raise ValueError("policy never has no max; leave max out, or say policy: on-failure")
    return policy, (most or DEFAULT_RESTARTS) if policy is Restart.ON_FAILURE else 0


RESTART = Keys(
    "a mapping such as {policy: on-failure, max: 3}",
    [
        Key("policy", enum(Restart, always="on-failure", exitcode="on-failure", no="never",
            none="never", onfailure="on-failure"), "Whether a failed task is started again.",
            ("on-failure",), missing="say never or on-failure", words="when"),
        Key("max", whole(1, 1_000, "say policy: never, or allow at least 1"),
            "How often each failed task of the role is started again.", (3,),
            default=DEFAULT_RESTARTS, words="limit max_restarts max_retries retries"),
    ],
    rules={
        "if": {"properties": {"policy": {"const": "never"}}},
        "then": {"properties": {"max": False}},
    },
)


def _make_retries(values: dict[str, Any]) -> Retries | None:
    found = Retries(**good_members(values))
    if found.memory and not found.max:
        raise ValueError("memory submits the job again at most `max` times; say max: 1 or more")
    return found if found.max else None


_RETRY_WORDS = {word: word for word in (RETRY_LOST, RETRY_OOM, RETRY_ANY)}
RETRIES = Keys(
    "a mapping such as {max: 3, on: [lost]}",
    [
        Key("max", whole(0, 100), "How often all tasks start again; 0 for never.", (3,),
            default=DEFAULT_RETRIES, words="attempts backoff_limit limit"),
        Key("on", list_of(word_or_number(_RETRY_WORDS, 1, 255, killed="lost", node="lost",
            oom="out-of-memory", preempted="lost"), "a list such as [lost, 42]",
            empty="the list is empty; name what is retried, or say retries: 0", or_one=True),
            "The failures that are retried. `lost`: a container or node is gone, or the task was "
            "killed from outside. `out-of-memory`: the kernel killed the program for its memory. "
            "A number: the program's exit status. `any`: every failure.",
            (["lost", 42], "any"), otherwise="`lost`", words="causes exit_codes when"),
        Key("node_losses", whole(0, 1_000), "After this number of failed containers of a role on "
            "one node YARN starts no more of them there; 0 for no limit, on clusters of few nodes.",
            (0,), default=DEFAULT_NODE_LOSSES, words="blacklist bad_nodes"),
        Key("memory", factor(10), "After a task ran out of memory, `submit` that follows the job "
            "submits it again, at most `max` times, with the memory of its role times this "
            "factor: of what it asked for or, where YARN says it, of what it used if that is more.",
            (1.5,), otherwise="it is not submitted again", words="factor grow memory_factor"),
    ],
)


def _make_stall(values: dict[str, Any]) -> Stall | None:
    then = values.get("then") or OnStall.WARN
    return Stall(values["after"], then) if values.get("after") else None


STALL = Keys(
    "a duration such as 20m, or a mapping such as {after: 20m, then: fail}",
    [
        Key("after", DURATION, "How long all tasks that train may go without printing anything "
            "or reporting a step. After that their CPU time is measured for 5 s: one that is at "
            "work has as long again.", ("20m",), missing="say how long, such as 20m"),
        Key("then", enum(OnStall, kill="fail", abort="fail", warning="warn"),
            "`warn`: the job has a warning. `fail`: it fails, or `retries` start all tasks again.",
            ("fail",), default="warn", words="action on_stall"),
    ],
)
_PRIVILEGED = (
    "privileged containers are not asked for here; the cluster's administrator grants devices and "
    "mounts"
)
_USER = "the user is the one who submits; see `submit_tf_job submit --user`"
_DEVICES = "GPUs come by `gpus`; other devices are the cluster's administrator's to grant"
_SHM = (
    "YARN cannot size /dev/shm; say docker: {tmpfs: [/dev/shm]}, which is bounded by the node's "
    "memory alone"
)
_ENTRYPOINT = (
    "YARN gives an image's ENTRYPOINT the task's command, and one that ends with exec \"$@\" runs "
    "it; leave the key out"
)
DOCKER = Keys(
    "a mapping such as {tmpfs: [/scratch]} (the image is said by `image`)",
    [
        Key("accounts", FLAG, "Whether the node's `/etc/passwd` and `/etc/group` are mounted, so "
            "that the task's user has a name (`whoami`, `pwd.getpwuid`).", (True,),
            more="Without it, the user is a number, and HOME a directory that can be written.",
            otherwise="`false`", words="passwd users"),
        # DockerLinuxContainerRuntime.TMPFS_MOUNT_PATTERN, without what a list in
        # YARN's environment cannot hold
        Key("tmpfs", list_of(matching(r"/(?!(.*/)?\.\.(/|$))[^:,\s]+", "is not a valid directory "
            "for a tmpfs; write an absolute path without '..', blanks, colons and commas",
            "directories"), "a list of directories"),
            "Directories that are kept in memory, empty at the start.",
            (["/scratch", "/dev/shm"],),  # noqa: S108 - a path in a container
            more="YARN has no switch for the size of `/dev/shm`, "
            "which has Docker's 64 MB; `tmpfs: [/dev/shm]` mounts one over it that only the "
            "node's memory bounds.", words="tmpfs_mounts"),
        Key("publish", list_of(PUBLISHED, "a list of ports such as ':8080'"),
            "Ports that the node forwards, on bridge networks.", ([":6006", "18080:8080"],),
            more='`":6006"`: some port of the node leads to this one of the container; '
            '`"18080:8080"`: that one does. Quote them.',
            words="port_mapping port_mappings ports ports_mapping"),
        Key("runtime", matching("[A-Za-z0-9][A-Za-z0-9_.-]*",
            "is not a valid runtime name; write it alone, as in runsc"),
            "OCI runtime, where it differs from the node's own choice; not for a role with `gpus`.",
            ("runsc",), words="oci_runtime"),
    ],
    advice={
        **dict.fromkeys(
            ("entry_point", "entrypoint", "run_override_disable", "use_entrypoint"), _ENTRYPOINT
        ),
        "image": "image stands beside `docker`, not in it",
        "mounts": "mounts stand beside `docker`, not in it",
        "volumes": "mounts stand beside `docker`, not in it",
        "network": "network belongs to the whole job",
        "hostname": "YARN names the container after its task",
        "privileged": _PRIVILEGED,
        "user": _USER,
        "devices": _DEVICES,
        "gpus": _DEVICES,
        "shm_size": _SHM,
        "shm": _SHM,
        "client_config": "say docker_client_config, for the whole job",
        "pid": "containers keep their own process ids",
        "capabilities": "the cluster's administrator decides about capabilities",
    },
)
HADOOP = Keys(
    "a mapping such as {conf: inline}",
    [
        Key("conf", HADOOP_CONF,
            "Where the tasks' Hadoop configuration comes from. `inline`: core-site.xml, "
            "hdfs-site.xml and yarn-site.xml (those that exist) of this host's configuration "
            "directory travel with the job; without a staging directory they may hold no secrets, "
            "because the service would show them. `hdfs://….zip`, `.tar.gz` or `.tgz`: an archive "
            "on HDFS, unpacked for each task. `/path`: a directory of the nodes, mounted "
            "read-only.",
            ("inline", "/etc/hadoop/conf", "hdfs:///apps/ml/hadoop-conf.zip"),
            missing="say where the configuration comes from, e.g. conf: inline",
            words="conf_dir config configuration hadoop_conf_dir")
    ],
)
KERBEROS = Keys(
    "a mapping such as {principal: svc/_HOST@EXAMPLE.COM, keytab: hdfs:///user/svc/svc.keytab}",
    [
        # ServiceApiUtil.validateKerberosPrincipal: it must contain a '/'
        Key("principal", matching(r"[^\s/@]+/[^\s/@]+(@[^\s/@]+)?", "is not a valid service "
            "principal; YARN wants name/host@REALM, as in svc/_HOST@EXAMPLE.COM"),
            "Service principal of the ApplicationMaster; it must have a `/`. `_HOST` stands for "
            "the host's name.", ("svc/_HOST@EXAMPLE.COM",),
            missing="say principal: svc/_HOST@EXAMPLE.COM",
            more="(YARN: ServiceApiUtil.validateKerberosPrincipal)", words="principal_name user"),
        Key("keytab", KEYTAB,
            "Keytab of the principal. `hdfs:///path`: on HDFS, fetched as you. `file:///path`: on "
            "every node. A path: on this host, relative to the job spec's directory or absolute; "
            "it is put on HDFS for this job, and removed with it.",
            ("hdfs:///user/svc/svc.keytab", "file:///etc/security/keytabs/svc.keytab",
             "svc.keytab"),
            missing="say keytab: hdfs:///user/svc/svc.keytab, or the path of one on this host",
            more="A file of this host must be yours alone (`chmod 600`).", words="keytab_file"),
        Key("krb5_conf", KRB5_CONF, "krb5.conf for the tasks. `inline`: this "
            "host's, with what it includes. `/path`: a file of the nodes, mounted read-only. "
            "`none`: the image's.", ("inline", "/etc/krb5.conf", "none"),
            more="This host's file is the one of the settings' `kerberos.krb5_conf`, else of "
            "`KRB5_CONFIG`, else /etc/krb5.conf.",
            otherwise="`inline` where this host has one, else `none`",
            words="conf krb5 krb5_config"),
        Key("login", enum(OwnLogin, **dict.fromkeys(("on", "true", "yes"), "always"),
            **dict.fromkeys(("off", "false", "no"), "never")), "When tasks log in with the keytab "
            "instead of using delegation tokens. `auto`: where the job has no `lifetime`, or a "
            "longer one than tokens.", ("always",), default="auto", words="own_login renew"),
    ],
)
INPUT = Keys(
    "a URI, or a mapping such as {uri: hdfs:///data/train, shard: files}",
    [
        Key("uri", URI, "A file, a directory, or a pattern with `*`, `?` and `[a-c]`.",
            ("hdfs:///data/train-*.tfrecord",),
            missing="say where it is, as in uri: hdfs:///data/train",
            more="`name: URI` is short for `name: {uri: URI}`.", words="path src url"),
        Key("shard", words({"files": True, "none": False}, file="files", true="files", no="none"),
            "`files`: each task that reads gets its own share of the files; `TFJOB_FILES_<NAME>` "
            "names the list of the task's files.", ("files",), otherwise="`none`", field="sharded",
            words="sharding"),
        Key("download", FLAG,
            "Whether the bootstrap copies the input to the task's disk before the command "
            "starts.", (True,),
            otherwise="`false`", words="fetch"),
    ],
)


_OF_UPLOADS = ("by", "on_failure", "on_retry", "overwrite", "collect")


def _make_output(values: dict[str, Any]) -> dict[str, Any]:
    for key in _OF_UPLOADS:
        if key in values and values.get("upload", False) is False:
            raise ValueError(
                f"{key} is about what is uploaded; say upload: true, or leave {key} out"
            )
    return values


_COLLECTED = list_of(
    replace(DESTINATION, expected="a path in the working directory", shown="paths or patterns"),
    "a list of paths, as in [model.keras]",
)
OUTPUT = Keys(
    "a URI, or a mapping such as {uri: hdfs:///models/mnist, upload: true}",
    [
        Key("uri", PLAIN_URI, "A file or directory.", ("hdfs:///models/mnist",),
            missing="say where, as in uri: hdfs:///models/mnist",
            more="`name: URI` is short for `name: {uri: URI}`.", words="dst path url"),
        Key("upload", FLAG, "Whether the program writes to a directory on its disk, which the "
            "bootstrap stores when the command has ended.", (True,), otherwise="`false`",
            words="publish"),
        Key("by", enum(Uploader, chief="deciding-task", all="every-task", each="every-task"),
            "Whose directory is stored: the deciding task's, or that of every task that trains, "
            "each below its own name. `all-that-write`: as `every-task`, but a task that has "
            "written nothing is passed over.",
            ("every-task",), otherwise="`deciding-task`", words="from"),
        Key("on_failure", enum(OnFailure, delete="discard", drop="discard"),
            "What becomes of it when the command failed or was stopped. `keep` stores it beside "
            "`uri`, as `<uri>.failed-<run>`.", ("keep",), otherwise="`discard`", words="if_failed"),
        Key("on_retry", enum(OnRetry), "What a restart of all tasks (`retries`) finds in its "
            "directory: nothing, or what the task has written, if its container is the same.",
            ("keep",), otherwise="`empty`"),
        Key("overwrite", FLAG, "Whether existing data at `uri` may be replaced.", (True,),
            otherwise="`false`", words="replace"),
        Key("collect", _COLLECTED, "Files and directories that the program writes beside its "
            "output: paths and patterns, from the directory in which the command starts. They are "
            "stored with the output.", (["model.keras", "*.csv"],),
            otherwise="`[]`", words="files keep patterns"),
    ],
    rules={
        "if": {"anyOf": [{"required": [key]} for key in _OF_UPLOADS]},
        "then": {"required": ["upload"], "properties": {"upload": {"const": True}}},
    },
)
_WHEELS = list_of(
    replace(LOCAL_PATH, expected="the path of a wheel", shown="paths"),
    "a list of wheels, as in [dist/*.whl]",
    empty="the list is empty; name a wheel, as in [dist/*.whl]",
)
SHIPPED = Keys(
    "a path, a pattern, or {src: path, dst: name}",
    [
        Key("src", SOURCE, "Path on this host; `hdfs://…`, which YARN copies to the nodes; or "
            "`https://…`, which is downloaded here when the job spec is read.",
            ("conf/prod.yaml",),
            missing="say which file, as in {src: conf/prod.yaml, dst: conf.yaml}",
            otherwise="required without `project` and `wheels`", words="from path source"),
        Key("dst", DESTINATION,
            "Path in the task's working directory; `.` puts a directory's content there.",
            ("conf.yaml",), missing="say the file's name in the task's working directory; without "
            "one, write the path alone", otherwise="required with `src`, unless `unpack`, "
            "`exclude` or `gitignore` stands there",
            words="dest name target to"),
        Key("unpack", FLAG, "Unpack the archive (.zip, .tar, .tar.gz, .tar.bz2, .tar.xz) in the "
            "task's working directory, or in `dst` below it.", (True,), otherwise="`false`",
            words="archive extract untar unzip"),
        Key("sha256", matching("[0-9a-f]{64}", "is not a SHA-256; write its 64 digits 0-9 and a-f"),
            "The SHA-256 of a file that is downloaded; other content is refused, and `http://` "
            "is allowed.", ("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",),
            words="checksum digest hash"),
        Key("exclude", list_of(matching(r"[^\x00-\x1f\x7f]{1,1024}", "is not a pattern of names"),
            "a list of patterns, as in [data, '*.ckpt']"),
            "What of a directory is not sent: patterns as those of .gitignore. Virtual "
            "environments, `.git`, caches, and `node_modules` at its top are not sent in any case, "
            "unless `!name` stands here.", (["data", "*.ckpt"],), otherwise="`[]`",
            words="ignore skip without"),
        Key("gitignore", FLAG, "Whether what the directory's .gitignore files name is not sent, "
            "too.", (True,), otherwise="`false`"),
        Key("project", LOCAL_PATH, "A Python project of this host (pyproject.toml or setup.py): "
            "its wheel is built here and unpacked where Python finds it.", ("../mylib",),
            words="package"),
        Key("wheels", _WHEELS, "Wheels of this host, unpacked where Python finds them.",
            (["dist/*.whl"],), words="wheel"),
    ],
    rules={
        "anyOf": [
            {"required": keys}
            for keys in (
                ["src", "dst"],
                ["src", "unpack"],
                ["src", "exclude"],
                ["src", "gitignore"],
                ["project"],
                ["wheels"],
            )
        ],
        "dependencies": {"project": {"maxProperties": 1}, "wheels": {"maxProperties": 1}},
    },
)
PYTHON = Keys(
    "the interpreter in the image, as in python3, or a mapping such as {requirements: "
    "requirements.txt}",
    [
        Key("interpreter", matching("(?![0-9.]+$)[A-Za-z0-9_./+-]+",
            "is not a valid interpreter; write its name or path, as in python3"),
            "The interpreter in the image that runs the bootstrap.", ("python3",),
            otherwise="`python3`",
            words="bin executable path"),
        Key("version", matching(r"3\.(?:[6-9]|[1-9][0-9])",
            'is not a Python version; write it as in version: "3.11"'),
            "The image's Python, for which requirements are resolved.", ("3.11",),
            otherwise="this host's", words="python_version"),
        Key("requirements", LOCAL_PATH, "A requirements file of this host; pip resolves it here, "
            "and the wheels travel with the job.", ("requirements.txt",),
            words="requirement requirements_file requires"),
        Key("wheels", _WHEELS, "Wheels of this host; patterns are expanded.", (["dist/*.whl"],),
            words="wheel"),
        Key("project", LOCAL_PATH, "A Python project of this host (pyproject.toml or setup.py), of "
            "which pip builds a wheel.", (".",), words="package"),
        Key("environment", LOCAL_PATH,
            "A whole environment, packed by conda-pack or venv-pack; not beside the others.",
            ("environment.tar.gz",), words="archive conda conda_env env venv virtualenv"),
    ],
    advice={
        "packages": "list wheels under wheels, or write them into a file and say requirements: "
        "requirements.txt",
        "pip": "write the packages into a file and say requirements: requirements.txt",
        "dependencies": "write the packages into a file and say requirements: requirements.txt",
    },
)

_PYTHON = group(PYTHON, short="interpreter", shown="text, or a mapping")

# --- keys that a job sets for all its training roles, and a role for itself ---

FILES = list_of(
    group(SHIPPED, short="src", shown="paths, patterns or mappings", expected=SHIPPED.expected),
    "a list of paths",
    make=list,
)
MOUNTS = list_of(MOUNT, "a list, each item a mount such as /data:/data:ro", make=list)
_SHARED = (
    Key("image", IMAGE, "Docker image. A role may have its own. `none`: no container; the command "
        "runs as a plain process of the node.", ("registry.example.com/ml/tf:2.15",),
        more="See [without an image](#without-an-image).", otherwise="the settings'",
        words="container container_image docker_image"),
    Key("command", COMMAND, "What a task runs. Text is run by bash; a list is the program and its "
        "arguments, run as it is. The job's is for the roles that train, and TensorFlow's.",
        ("python train.py --epochs 3", ["python", "train.py", "--epochs", "3"]),
        more="See [commands](#commands).",
        otherwise="required, here or in each role",
        words="args_list cmd launch_cmd launch_command run script",
        of_site=False),
    Key("env", map_of(text(exact=True), 'a mapping of names to text, as in {BATCH: "32"}',
        names=matching("[A-Za-z_][A-Za-z0-9_]*", "is not a valid name of an environment variable; "
        "use letters, digits and _, not first a digit"), shown="mapping of text"),
        "Environment of every task; a role's is laid over the job's, name by name. Values are "
        "text: put numbers, true and dates in quotes.", ({"TF_CPP_MIN_LOG_LEVEL": "1"},),
        more="See [strict YAML](#strict-yaml).", otherwise="`{}`",
        words="env_vars environment envs"),
    Key("files", FILES, "Files and directories of this host that every task finds in its working "
        "directory; a role's add to the job's. Relative to the job spec's directory; `*`, `?` and "
        "`**` are expanded.",
        (["train.py", "models", {"src": "conf/prod.yaml", "dst": "conf.yaml"}],),
        more="See [files](#files).", otherwise="`[]`", words="input_files", of_site=False),
    Key("mounts", MOUNTS, "Directories or files of the node that are mounted into the container: "
        "`/on/the/node:/in/the/container`, read-only unless `:rw` follows. A role's add to the "
        "job's, and replace it at the same target.",
        (["/data:/data:ro", "/scratch/models:/models:rw"],), more="See [mounts](#mounts).",
        otherwise="`[]`", words="binds volume_mounts volumemounts volumes"),
    Key("workdir", matching(r"(?!(.*/)?\.\.(/|$))[^\x00-\x1f\x7f]+", "is not a valid directory; "
        "write an absolute path of the container, or one below the task's working directory, "
        "without '..'", "path"), "Directory in which the command starts: below the task's working "
        "directory, where `files` are, or an absolute path of the container. It must exist when "
        "the command starts.", ("src",), otherwise="the task's working directory",
        words="working_dir working_directory cwd", of_site=False),
    Key("docker", group(DOCKER), "Options of Docker beyond image, network and mounts. Each key of "
        "a role's replaces the job's.", ({"tmpfs": ["/scratch"]},), more="See [Docker](#docker)."),
)
SHARED = {key.name: key._replace(shared=True) for key in _SHARED}
_SHARED_ADVICE = {
    **dict.fromkeys(
        ("entry_point", "entrypoint"),
        "say command; an image's ENTRYPOINT that ends with exec \"$@\" runs before it",
    ),
    "devices": _DEVICES,
    "shm_size": _SHM,
    "shm": _SHM,
    "tmpfs": "say docker: {tmpfs: [/path]}",
    "runtime": "say docker: {runtime: name}",
    **dict.fromkeys(("publish", "port_mappings"), "say docker: {publish: [':8080']}"),
    **dict.fromkeys(
        ("args", "arguments"),
        'put the arguments into command: [python, train.py, --epochs, "3"]',
    ),
    "priority_class": "YARN's priorities are numbers: say priority: 5, for the whole job",
    "privileged": _PRIVILEGED,
    "secrets": "name a file that only the job's user can read (on HDFS, or mounted); a job spec "
    "holds no secrets",
    "user": _USER,
}

# --- a role ---

_CPUS = Key("cpus", whole(1, 10_000), "Virtual cores of one task.", (4,), default=1,
    words="core cores cpu vcore vcores")
_MEMORY = Key("memory", MEMORY, "Memory of one task: whole numbers with `Mi`, `Gi` or `Ti`.",
    ("16Gi", "512Mi"), missing="say how much memory one task gets, e.g. memory: 4Gi",
    otherwise="required, here or by `shape`", more="YARN counts MiB. A bare number has no unit, "
    "and `G` is read in two ways; both are refused.", field="memory_mib",
    words="mem memory_mb ram")
_GPUS = Key("gpus", whole(0, 1_000), "GPUs of one task; a task without sees none.", (1,), default=0,
    words="gpu num_gpus")
_GPU_RESOURCE = Key("gpu_resource", matching(
    r"(?:[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*/)?[A-Za-z][\w.-]*",
    "is not a valid name of a resource; write it as YARN has it, such as nvidia.com/gpu"),
    "YARN's name for the GPUs of this role, where the cluster has several kinds.",
    ("nvidia.com/a100",), otherwise="`gpu_resource` of the settings",
    more="`submit` refuses a name that the cluster does not offer.",
    words="accelerator accelerator_type gpu_name gpu_type resource_name")
# a shape may say any of them
SHAPE = Keys("a mapping such as {cpus: 8, memory: 32Gi, gpus: 1}", [key._replace(missing="",
    default=None) for key in (_CPUS, _MEMORY, _GPUS, _GPU_RESOURCE)])


def _make_instances(values: dict[str, Any]) -> tuple[int, Elastic | None] | None:
    most, least = values["max"], values.get("min", values["max"])
    if most is None or least is None:
        return None
    if least > most:
        raise ValueError(f"min is {least}, and max {most}; say a larger max, or a smaller min")
    grow_after_s = values.get("grow_after_s") or DEFAULT_GROW_AFTER_S
    return most, Elastic(least, grow_after_s) if least < most else None


INSTANCES = Keys(
    "a mapping such as {min: 2, max: 8}",
    [
        Key("min", whole(1, MAX_INSTANCES), "The training starts and continues while at "
            "least this number of tasks runs.", (2,), missing="say how few tasks suffice",
            words="at_least least min_instances min_replicas minimum"),
        Key("max", whole(1, MAX_INSTANCES, "remove the role to run none"), "The number of "
            "tasks that YARN is asked for.", (8,), missing="say how many tasks YARN is asked for",
            words="at_most count max_instances max_replicas maximum most"),
        Key("grow_after", DURATION, "How long the training runs before all its tasks start again "
            "to include tasks that have joined.", ("10m",), default="5m", field="grow_after_s",
            words="cooldown grow"),
    ],
)
_ROLE_ROWS = (
    Key("instances", group(INSTANCES, _make_instances, short="max",
        shown="`4`, or `{min: 2, max: 8}`", expected=f"a whole number or {INSTANCES.expected}"),
        "Number of tasks; with `min` the training starts with fewer, see "
        "[elastic roles](#elastic-roles).", (4, {"min": 2, "max": 8}), default=1,
        more="Zero is refused: leave the role out. (A role without tasks in TF_CONFIG ends "
        "MultiWorkerMirroredStrategy with SIGSEGV; measured.)",
        words="count num num_containers num_instances num_replicas number_of_containers replica "
        "replicas size tasks"),
    Key("kind", enum(RoleKind, **dict.fromkeys(("train", "training", "trainer"), "trains"),
        **dict.fromkeys(("serve", "serving", "server"), "serves"),
        **dict.fromkeys(("eval", "evaluate", "evaluator"), "evaluates"),
        **dict.fromkeys(("helper", "service"), "sidecar")),
        "What the job expects of the role's tasks. `trains`: each must succeed. `serves`: they "
        "need not end by themselves; they are ended when the training is over. `evaluates`: as "
        "`trains`, but a task that is late after the training is ended with a warning. "
        "`sidecar`: the job neither waits for them nor fails with them.", ("serves",),
        more="See [kinds of roles](#kinds-of-roles).", otherwise="by strategy and name",
        words="duty role_kind role_type type"),
    _CPUS,
    _MEMORY,
    _GPUS,
    _GPU_RESOURCE,
    Key("shape", text("the name of a resource shape", shown="name"), "A resource shape of the "
        "settings: `cpus`, `memory`, `gpus` and `gpu_resource` under one name. The role's own "
        "values come first.",
        ("big",), more="See [settings](#what-the-settings-add).", words="flavor profile"),
    *SHARED.values(),
    Key("placement", group(PLACEMENT, _make_placement), "Where YARN puts the tasks of the role.",
        ({"spread": "node"},), more="See below.", words="affinity constraints placement_policy"),
    Key("after", list_of(_LABEL, "a list of roles such as [data]", empty="name a role, or leave "
        "after out", or_one=True), "The roles after which the commands of this one start: after "
        "those that train or evaluate have succeeded, and after all others run.",
        ("data", ["data", "index"]), otherwise="`[]`",
        more="All containers are there at once: it orders commands, and saves no resources. See "
        "[order](#order).",
        words="depends_on dependencies"),
    Key("restart", group(RESTART, _make_restart, short="policy",
        shown="`never`, `on-failure`, or `{policy: on-failure, max: 3}`"),
        "Whether a failed task is started again. Not for the deciding role, for the tasks of "
        "multi-worker, or for ps.", ("on-failure", {"policy": "on-failure", "max": 10}),
        default="never", more="See [failures](#failures).", words="restart_policy restartpolicy"),
    Key("tolerate", whole(0, MAX_INSTANCES), "How many tasks of the role may fail for good "
        "without failing the job; fewer than there are.", (1,), default=0,
        more="See [failures](#failures)."),
    Key("python", _PYTHON, "The role's interpreter and packages, instead of the job's; without "
        "`interpreter` the job's interpreter.", ("python3.11",),
        more="See [files.md](files.md#python-packages).", otherwise="the job's",
        words="interpreter"),
    Key("ports", map_of(PORT, "a mapping of names to ports, as in {http: auto}", names=_LABEL,
        shown="mapping of name to `auto` or a port"), "Ports that each task of the "
        "role serves, by name, shown as links. `auto`: a free port of its node, found when it "
        "starts. The command reads `TFJOB_PORT_<NAME>`.", ({"http": "auto"}, {"http": 6006}),
        more="See [ports](#ports).", otherwise="`{}`", words="port"),
)

ROLE = Keys(
    "a mapping such as {instances: 2, memory: 8Gi}",
    _ROLE_ROWS,
    rules={"anyOf": [{"required": ["memory"]}, {"required": ["shape"]}]},
)
_ROLE = group(ROLE, definition="role")
_AT_MOST_ONE = {"allOf": [_ROLE.reference, {"properties": {"instances": {"maximum": 1}}}]}

# --- the job ---


_TOO_MUCH_DATA = "more than 50; put what belongs together into one directory"


def _make_inputs(members: dict[str, dict[str, Any]]) -> tuple[Input, ...]:
    return tuple(Input(name, **values) for name, values in good_members(members).items())


def _make_outputs(members: dict[str, dict[str, Any]]) -> tuple[Output, ...]:
    return tuple(Output(name, **values) for name, values in good_members(members).items())


def _deciding_role(name: str) -> str:
    return "chief" if name == "master" else name


# other names → TensorFlow's role
_ROLE_NAMES = {
    **dict.fromkeys(("workers", "wrk", "node", "nodes"), "worker"),
    **dict.fromkeys(("chiefs", "leader", "coordinator", "primary"), "chief"),
    **dict.fromkeys(("parameter-server", "parameter-servers", "parameterserver"), "ps"),
    **dict.fromkeys(("pserver", "pservers", "server"), "ps"),
    **dict.fromkeys(("eval", "evaluators", "validator"), "evaluator"),
}


def role_meant(name: str) -> str | None:
    """Return the role of TensorFlow that the user most likely meant by a role's name; None if the
    name is correct, or similar to none.
    """
    word = name.lower().replace("_", "-")
    if word in TRAINING_ROLES:
        return word if word != name else None
    return _ROLE_NAMES.get(word) or closest(word, [role for role in TRAINING_ROLES if role != "ps"])


def _no_role_name(name: str) -> str:
    meant = role_meant(name)
    return (
        f"{clip(name)} is not a TensorFlow role; did you mean '{meant}'?"
        if meant
        else f"{clip(name)} {NO_LABEL}"
    )


ROLES = map_of(
    _ROLE,
    "a mapping of roles, as in {worker: {instances: 2, memory: 8Gi}}",
    shown="mapping of [roles](#a-role)",
    names=matching(LABEL, NO_LABEL, definition="label", explain=_no_role_name),
    empty="there is no role; add one, as in chief: {memory: 4Gi}",
    too_many=f"{{many}} roles are too many; the most is {MAX_ROLES}",
    make=dict,
    rules={
        "minProperties": 1,
        "maxProperties": MAX_ROLES,
        "properties": dict.fromkeys(("chief", "master", "evaluator"), _AT_MOST_ONE)
        | dict.fromkeys(("worker", "ps"), _ROLE.reference),
        "not": {"required": ["chief", "master"]},
    },
)
_JOB_ROWS = (
    Key("name", _LABEL, "Name of the job. Each run of it is a YARN service, such as "
        "`mnist-4k3f7qa2`, and every task's host name has the run's name, hence the rules.",
        ("mnist", "ranker-2026-11"),
        missing="give the job a name, e.g. name: mnist",
        more="(Hadoop: ServiceApiUtil, PatternValidator)", words="job_name", of_site=False),
    Key("description", text(empty=True), "A line for people; YARN shows it.",
        ("Nightly ranker training",), words="desc", of_site=False),
    *SHARED.values(),
    Key("strategy", enum(Strategy, allreduce="multi-worker", centralstorage="single",
        collective="multi-worker", distributed="multi-worker", horovod="multi-worker",
        local="single", mirrored="single", mirroredstrategy="single",
        multiworkermirrored="multi-worker", multiworkermirroredstrategy="multi-worker",
        mwms="multi-worker", none="single", onedevice="single",
        parameterserverstrategy="parameter-server", ps="parameter-server", pss="parameter-server",
        psv2="parameter-server", trainandevaluate="estimator", pytorch="torch",
        torchrun="torch", ddp="torch", elastic="torch"), "How the tasks train together. "
        "`single`: one task. `multi-worker`: MultiWorkerMirroredStrategy. `parameter-server`: "
        "ParameterServerStrategy. `estimator`: tf.estimator (TensorFlow up to 2.15). `torch`: "
        "PyTorch, with or without torchrun. `jax`: JAX, and Keras 3 on it. `custom`: "
        "anything else.", ("multi-worker",),
        missing="say how the tasks train together, e.g. strategy: multi-worker",
        more="See [strategies](#strategies).", words="distribution distribution_strategy",
        of_site=False),
    Key("queue", matching(r"[^\s,]+", "is not a valid queue; write a name or path, as in root.ml"),
        "YARN queue, by name or path.", ("ml", "root.prod.ml"), otherwise="the cluster's for you",
        words="queue_name schedulerqueue yarn_queue"),
    Key("priority", whole(0, 2**31 - 1), "Priority within the queue: jobs with a higher one get "
        "containers first. Set as soon as YARN has accepted the job.", (5,),
        more="The most is the cluster's `yarn.cluster.max-application-priority`, 0 by default: a "
        "priority that the cluster does not set is a warning, and the job runs without it. "
        "The service does not hold it.", otherwise="the cluster's"),
    Key("roles", ROLES, "The tasks: 1 to 100 roles. chief, worker, ps and evaluator are "
        "TensorFlow's (master is a spelling of chief); any other name is a role of your own.",
        ({"chief": {"memory": "4Gi"}},),
        missing="say which tasks there are, e.g. roles: {chief: {memory: 4Gi}}",
        words="components groups task_groups tasks", of_site=False),
    Key("network", matching("[a-zA-Z0-9][a-zA-Z0-9_.-]*",
        "is not a valid Docker network; use host, bridge, or the name of an allowed one"),
        "Docker network of the containers: `host`, `bridge`, or the name of one that the cluster "
        "allows.", ("host", "bridge", "overlay1"), default="host",
        more="`none` only for a job of one task."),
    Key("hadoop", group(HADOOP, shown="`{conf: …}`"),
        "The Hadoop configuration that the tasks see (HADOOP_CONF_DIR).",
        ({"conf": "/etc/hadoop/conf"},), more="See [Hadoop](#hadoop-and-kerberos)."),
    Key("kerberos", group(KERBEROS), "The identity of the job on a cluster with Kerberos.",
        ({"principal": "svc/_HOST@EXAMPLE.COM", "keytab": "hdfs:///user/svc/svc.keytab"},),
        more="See [Hadoop](#hadoop-and-kerberos)."),
    Key("inputs", map_of(group(INPUT, short="uri"),
        "a mapping of names to URIs, as in {data: hdfs:///data/train}", names=_DATA_NAME,
        most=50, too_many=_TOO_MUCH_DATA, make=_make_inputs, shown="mapping"),
        "Data that the job reads: checked before the job is submitted; the program finds it by "
        "`TFJOB_INPUT_<NAME>`.",
        ({"data": "hdfs:///data/train"},
         {"data": {"uri": "hdfs:///data/*.tfrecord", "shard": "files", "download": True}}),
        more="See [data.md](data.md#inputs).", otherwise="`{}`", words="datasets input_data",
        of_site=False),
    Key("outputs", map_of(group(OUTPUT, _make_output, short="uri"),
        "a mapping of names to URIs, as in {model: hdfs:///models/mnist}", names=_DATA_NAME,
        most=50, too_many=_TOO_MUCH_DATA, make=_make_outputs, shown="mapping"),
        "Data that the job writes: its location is checked before the job is submitted; the "
        "program finds it by `TFJOB_OUTPUT_<NAME>`.",
        ({"model": "hdfs:///models/mnist"},
         {"model": {"uri": "hdfs:///models/mnist", "upload": True, "overwrite": True}}),
        more="See [data.md](data.md#outputs).", otherwise="`{}`", of_site=False),
    Key("checkpoints", PLAIN_URI, "Where the program writes its checkpoints: `status` shows the "
        "newest one, and a restart of all tasks says whether there is one.",
        ("hdfs:///models/mnist/checkpoints",),
        otherwise="the output of that name, without `upload`",
        more="The names need a number, such as `ckpt-1200`; else the time decides.",
        words="checkpoint_dir checkpoint_path ckpt_dir", of_site=False),
    Key("lifetime", DURATION, "How long after the submission YARN kills the job. Its tasks save "
        "[before](operate.md#the-end-of-the-lifetime).", ("12h", "2d"),
        otherwise="no limit", field="lifetime_s",
        words="max_runtime time_limit timeout ttl walltime"),
    Key("start_timeout", DURATION,
        "How long all tasks may take to arrive, from the deciding task's start.", ("15m", "1h30m"),
        default="15m", field="start_timeout_s", more="Also how long the deciding task may be "
        "without a container, from the ApplicationMaster's start ([who ends the job "
        "then](troubleshooting.md#the-deciding-task-gets-no-container)). TensorFlow itself waits "
        "for a missing task without a message (measured: 15 minutes and more)."),
    Key("finish_timeout", DURATION, "How long other tasks may continue when the deciding task is "
        "done, such as an evaluator with its last evaluation.", ("10m",), default="10m",
        field="finish_timeout_s"),
    Key("grace", DURATION,
        "How long a task may be out of reach, or suspended, before it counts as failed.",
        ("30s", "2m"), default="30s", field="grace_s",
        more="See [the rendezvous](tf-config.md#the-rendezvous)."),
    Key("stop_grace", DURATION, "How long a command has from SIGTERM to SIGKILL where the job ends "
        "it: at the job's end, or because all tasks start again.", ("30s", "2m"), default="5s",
        field="stop_grace_s", words="grace_period termination_grace_period "
        "termination_grace_period_seconds", more="Time to write a checkpoint. Where it is stated, "
        "`submit_tf_job stop` [waits as long](operate.md#a-stop-that-lets-them-save). Preemption "
        "and a kill through YARN leave 250 ms, by "
        "`yarn.nodemanager.sleep-delay-before-sigkill.ms`."),
    Key("hold_on_failure", DURATION, "How long the container of the first failure stays, so that "
        "you can look at it; `release` ends that.", ("30m", "2h"), otherwise="it is not held",
        field="hold_s", more="See [operate.md](operate.md#look-into-a-failed-container)."),
    Key("prepare", COMMAND, "A command that runs once, in the deciding task's container, before "
        "the commands of all tasks: it fetches or converts what they read.",
        ("python make_vocabulary.py", ["hdfs", "dfs", "-mkdir", "-p", "/models/new"]),
        otherwise="none", more="It starts when every task has arrived, has the deciding task's "
        "files, environment and inputs, but no TF_CONFIG, and is not run again by `retries`. Its "
        "failure is the job's.", words="init pre_command setup", of_site=False),
    Key("tf_config", enum(TFConfigMode), "Whether a task gets TF_CONFIG. `counts`: yes, "
        "built in its container from the numbers of tasks. `none`: no.", ("counts",),
        otherwise="`counts`; `none` under `custom`"),
    Key("legacy_master", FLAG,
        "Spell chief as `master` in TF_CONFIG, for programs of TensorFlow 1.", (False,),
        default=False, more="With `strategy: estimator`, and not beside an evaluator; or with "
        "`custom` and `tf_config: counts`. `variables: cloud` adds `environment: cloud`.",
        of_site=False),
    Key("variables", list_of(enum(Variables, kubeflow="cloud", yarn8220="cloud",
        tfjob="cloud", xlearning="hbox"), "a list such as [cloud, tony]",
        or_one=True), "What programs written for other systems read beside TF_CONFIG. `tony`, "
        "`submarine`, `hbox`: the variables of that system. `horovod`: those of Horovod with Gloo. "
        "`cloud`: `environment: cloud` in TF_CONFIG.", ("tony", ["cloud", "tony"]),
        otherwise="`[]`",
        more="See [variables of other systems](tf-config.md#variables-of-other-systems).",
        words="also compat"),
    Key("keras", enum(KerasMode, keras2="legacy", tf_keras="legacy", tfkeras="legacy"),
        "Which Keras `tf.keras` is. `legacy`: Keras 2 of the package tf_keras, by "
        "`TF_USE_LEGACY_KERAS`. `installed`: as TensorFlow in the image has it, which is Keras 3 "
        "from 2.16 on.",
        ("legacy",), default="installed",
        more="Keras 3 does not train under `multi-worker` and `parameter-server`; see "
        "[frameworks.md](frameworks.md#keras-3)."),
    Key("retries", group(RETRIES, _make_retries, short="max",
        shown="`3`, or `{max: 3, on: [lost]}`", expected=f"a whole number or {RETRIES.expected}"),
        "How often all tasks start again in their containers after a failure that is not the "
        "program's own. Tasks whose container is lost get another one.",
        (3, {"max": 3, "on": ["lost", 42]}), otherwise="never",
        more="See [retries](#retries-of-the-whole-training).", words="attempts backoff_limit "
        "max_restarts retry"),
    Key("stall_timeout", group(STALL, _make_stall, short="after",
        shown="`20m`, or `{after: 20m, then: fail}`"),
        "A training stands still when no task that trains has printed anything or reported a step "
        "for this long, and none uses CPU time in the 5 s after that. The deciding task then takes "
        "the stacks of all tasks, and names the one that stands elsewhere than the rest.",
        ("20m", {"after": "20m", "then": "fail"}), otherwise="never",
        more="See [a training that stands still](operate.md#a-training-that-stands-still).",
        words="hang_timeout idle_timeout stall watchdog"),
    Key("image_policy", enum(ImagePolicy, required="require", warning="warn"), "What happens "
        "where a NodeManager runs a task as a plain process instead of in its image. `require`: "
        "the task fails with this cause before the command starts. `warn`: the command runs, and a "
        "warning says so. `allow`: it runs.",
        ("warn",), default="require", more="See [an image that the node "
        "ignored](troubleshooting.md#an-image-that-the-node-ignored)."),
    Key("python", _PYTHON,
        "The interpreter in the image that runs the bootstrap; or a mapping that lists the Python "
        "packages that travel with the job, for images that lack them.",
        ("python3", "/opt/conda/bin/python", {"interpreter": "python3.11"}), default="python3",
        more="See [files.md](files.md#python-packages).", words="interpreter"),
    Key("deciding_role", text("the name of a role",
        "a role's name", _deciding_role), "The role whose task 0 is the deciding task.",
        ("chief",), otherwise="`chief`, else `worker`, else the only role that trains",
        of_site=False),
    Key("ends_with", enum(Ending, **dict.fromkeys(("chief", "default"), "deciding-task"),
        **dict.fromkeys(("allworkers", "role"), "deciding-role"),
        **dict.fromkeys(("all", "training"), "all-that-train")),
        "The tasks whose end is the end of the training. `deciding-task`: task 0 of the deciding "
        "role. `deciding-role`: all tasks of that role. `all-that-train`: all tasks of "
        "[kind](#kinds-of-roles) `trains`.", ("all-that-train",), otherwise="`deciding-task`",
        more="The other tasks that must succeed then have `finish_timeout`. A task that fails "
        "ends the job in any case.", words="success_policy", of_site=False),
    # The ResourceManager opens this path (DockerClientConfigHandler), and its HTTP 500
    # quotes the first word of a file that is not JSON (seen on 3.4.2). So only distributed
    # file systems are accepted: file: and har: are on the ResourceManager's host, and
    # http:, ftp: and sftp: it would fetch.
    Key("docker_client_config",
        matching(rf"(({'|'.join(name for name in SCHEMES if name != 'file')})://|/(?!/))\S+",
        "is not a file that every ResourceManager sees; put it on HDFS and write /path on the "
        "default file system, or hdfs:///path", "path or URI"), "Docker's config.json with the "
        "image registry's credentials: a path on the cluster's default file system, or the URI of "
        "a distributed one.", ("hdfs:///user/me/docker-config.json",),
        more="Not `file://`: the ResourceManager would read a file of its own host.",
        words="docker_config"),
)

JOB = Keys("keys such as name: and roles:", _JOB_ROWS)
_JOB_ONLY = tuple(name for name in JOB.rows if name not in ROLE.rows)

# --- other tools' names without a single corresponding key ---

_KUBERNETES = f"this looks like a Kubernetes object; {_INIT}"
_RETRIES = "say restart: {policy: on-failure, max: 3}"
_ELASTIC = "instances: {min: 2, max: 8}"
_BOUNDS = ("max", "max_instances", "max_replicas", "min", "min_instances", "min_replicas")
_IN_ROLE = "write cpus, memory and gpus straight into the role"
JOB.advice = {
    **_SHARED_ADVICE,
    **{name: f"say roles.worker.{name}" for name in ROLE.rows if name not in JOB.rows},
    **{name: f"resources belong to a role: roles.worker.{name}" for name in SHAPE.rows},
    **{
        f"{prefix}{role}{suffix}": f"say roles.{target}.{key}"
        for role, target in (
            ("worker", "worker"),
            ("workers", "worker"),
            ("ps", "ps"),
            ("chief", "chief"),
            ("evaluator", "evaluator"),
        )
        for prefix, suffix, key in (
            ("num_", "", "instances"),
            ("n_", "", "instances"),
            ("", "_count", "instances"),
            ("", "_replicas", "instances"),
            ("", "_memory", "memory"),
            ("", "_cpus", "cpus"),
            ("", "_gpus", "gpus"),
            ("", "_resources", "cpus, memory and gpus"),
            ("", "_image", "image"),
            ("", "_command", "command"),
            ("", "_launch_cmd", "command"),
        )
    },
    **{
        role: f"roles stand under `roles:`, as roles.{role}"
        for role in (*TRAINING_ROLES, "master", "tensorboard")
    },
    **dict.fromkeys(("apiversion", "kind", "spec"), _KUBERNETES),
    "bootstrap": "every task starts under the bootstrap; leave the key out, and name the image's "
    "Python 3.6 or later by python where it is not python3",
    "tfreplicaspecs": f"this looks like a Kubeflow TFJob; {_INIT}",
    "keytab": "say kerberos.keytab",
    "principal": "say kerberos.principal",
    "hadoop_conf": "say hadoop.conf",
    "hadoop_conf_dir": "say hadoop.conf: inline, or the directory on the nodes",
    "namespace": "YARN has no namespaces; choose a queue",
    "node_label": "say roles.worker.placement.node_label",
    "replicas": "say roles.worker.instances",
    **dict.fromkeys(("elastic", "max_workers", "min_workers"), f"say roles.worker.{_ELASTIC}"),
    "resources": "resources belong to a role: roles.worker.cpus, memory, gpus",
    "version": "a job spec has no version",
}
ROLE.advice = {
    **_SHARED_ADVICE,
    **{name: f"{name} belongs to the whole job, one level above `roles`" for name in _JOB_ONLY},
    **dict.fromkeys(("max_restarts", "max_retries", "retries"), _RETRIES),
    **dict.fromkeys(("elastic", *_BOUNDS), f"say {_ELASTIC}"),
    "node_attributes": "say placement.node_attributes",
    "node_label": "say placement.node_label",
    **dict.fromkeys(("node_selector", "nodeselector"), "say placement.node_attributes"),
    **dict.fromkeys(("resource", "resources", "limits"), _IN_ROLE),
    "spread": "say placement.spread",
    "template": f"this looks like a Kubeflow TFJob; {_INIT}",
    "together": "say placement.together",
    "worker_launch_cmd": "say command",
}
# Keys that the settings may set for all jobs: none that distinguish one job from another.
SITE = Keys(
    "a partial job spec",
    [key for key in _JOB_ROWS if key.of_site],
    {
        **JOB.advice,
        **{key.name: "only a job spec can say this" for key in _JOB_ROWS if not key.of_site},
    },
)
