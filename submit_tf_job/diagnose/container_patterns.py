"""Patterns of failures in the NodeManager's diagnostics of a container whose command never ran.

The texts are those of a real NodeManager with Docker (hadoop-facts.md#docker-errors).
"""

from __future__ import annotations

from submit_tf_job.diagnose.patterns import Pattern, known

_ASK = "ask the administrator of the cluster"

# Errors in the ApplicationMaster's log: hadoop-facts.md#errors-of-the-applicationmaster
MASTER: tuple[Pattern, ...] = (
    known(
        "kerberos-somebody-else",
        r"Permission denied: user=(?P<user>[^,\s]+), access=\w+, inode=\"(?P<path>/user/(?P<owner>[^/\"]+)/\.yarn[^\"]*)",  # noqa: E501
        "the ApplicationMaster logged in as {user}, who may not read {path}: the "
        "principal of `kerberos` is not {owner}'s",
        "name a principal and a keytab of {owner}'s: {owner}/_HOST@REALM; or submit as {user}",
    ),
    known(
        "kerberos-login",
        r"KerberosAuthException: failure to login: for principal: (?P<who>\S+) from keytab \S+[^\n]*?LoginException: (?P<why>[^\n]+)",  # noqa: E501
        "the ApplicationMaster could not log in as {who}: {why}",
        "is the keytab the principal's latest (kvno)? a ktadd elsewhere makes older ones "
        "useless; kinit -kt KEYTAB {who} shows it",
    ),
)

CONTAINER: tuple[Pattern, ...] = (
    known(
        "docker-unreachable",
        r"Cannot connect to the Docker daemon",
        "Docker does not answer on the node of {task}",
        f"{_ASK} to look at dockerd there; until then keep the job off that node",
    ),
    known(
        "image-not-pulled",
        r"pull access denied for (?P<denied>[^\s,]+)|(?:unauthorized|no basic auth credentials|authentication required)[^\n]*",  # noqa: E501
        "the image {denied} of {task} may not be pulled: the registry wants credentials",
        "give Docker's config.json as `docker_client_config`, and check the image's name",
    ),
    known(
        "image-not-pulled",
        r"manifest for (?P<image>\S+) not found|manifest unknown|Unable to find image '(?P<local>[^']+)' locally"  # noqa: E501
        r"|No such image: (?P<none>\S+)",
        "the image {image}{local}{none} of {task} is not on its node and could not be pulled",
        "check its name and tag; can the nodes reach the registry?",
    ),
    known(
        "image-without-bash",
        r"exec: \\?\"?(?P<program>[\w./-]*sh)\\?\"?: (?:executable file not found|stat [^\n]*no such file)",  # noqa: E501
        "the image of {task} has no {program}, with which YARN starts every command",
        "install bash in the image",
    ),
    known(
        "image-not-trusted",
        r"image: (?P<image>\S+) is not trusted|Disable mount volume for untrusted image",
        "the image {image} of {task} is not from a registry that the nodes trust: YARN "
        "takes its mounts away, and nothing can start",
        "docker.trusted.registries in container-executor.cfg names them; use an image "
        "from one of those",
    ),
    known(
        "image-name-invalid",
        r"Image name '(?P<image>[^']+)' doesn't match docker image name pattern|Invalid docker image name",  # noqa: E501
        "YARN does not take {image} for the name of an image",
        "lower case letters, digits, and a tag after the colon",
    ),
    known(
        "mount-refused",
        r"Configuration does not allow mount src='(?P<source>[^']+)', dest='(?P<target>[^']+)'|Invalid read-(?:only|write) mount",  # noqa: E501
        "the node does not allow the mount {source} of {task}",
        "docker.allowed.ro-mounts and docker.allowed.rw-mounts in container-executor.cfg "
        "say what may be mounted; is :rw needed?",
    ),
    # container-executor rejects every mount if a path in its own lists does not exist
    # (docker-util.c, add_mounts).
    known(
        "allowed-mount-missing",
        r"(?:Could not determine real path of mount '(?P<source>[^']+)'[^\n]*\n(?:[^\n]*\n){0,3}?[^\n]*)?"  # noqa: E501
        r"(?:Unable to find permitted docker mounts on disk|docker error code=52\b)",
        "container-executor.cfg on the node of {task} allows mounts of a path that does "
        "not exist there: {source}",
        f"{_ASK} to create that path or to remove it from docker.allowed.ro-mounts and "
        f"docker.allowed.rw-mounts; "
        "until then no Docker container with a mount starts on that node, whatever the job mounts",
    ),
    known(
        "mount-missing",
        r"Could not determine real path of mount '(?P<source>[^']+)'",
        "the mount {source} of {task} does not exist on its node",
        "a mount must be there on every node that may run the task; `placement` can name those",
    ),
    known(
        "mount-invalid",
        r"Unable to parse user supplied mount list: (?P<mounts>[^\n]+)",
        "YARN cannot read the mounts of {task}: {mounts}",
    ),
    known(
        "network-refused",
        r"Disallowed network:\s+'(?P<network>[^']+)' specified\. Allowed networks: are (?P<allowed>\[[^\]]*\])",  # noqa: E501
        "the node does not allow the network {network}; it allows {allowed}",
        "choose one of them as `network`",
    ),
    known(
        "network-refused",
        r"Could not inspect docker network|network (?P<network>\S+) not found",
        "the node of {task} has no Docker network {network}",
        f"{_ASK}, or choose another `network`",
    ),
    known(
        "privileged-refused",
        r"Privileged container being requested but",
        "privileged containers are not allowed on the nodes",
        "leave it out",
    ),
    known(
        "runtime-refused",
        r"Disallowed runtime:\s+'(?P<runtime>[^']+)'|Invalid docker runtime",
        "the nodes do not allow Docker's runtime {runtime}",
        f"{_ASK}: yarn.nodemanager.runtime.linux.docker.allowed-container-runtimes",
    ),
    known(
        "runtime-refused",
        r"Requested runtime not allowed",
        "the node of {task} does not allow Docker as a runtime",
        f"{_ASK}: docker belongs into yarn.nodemanager.runtime.linux.allowed-runtimes",
    ),
    known(
        "host-name-too-long",
        r"Hostname can not be greater than 64 characters: (?P<name>\S+)",
        "the host name of {task} is longer than the 64 characters that Docker takes",
        "a shorter name for the job or the role",
    ),
    known(
        "gpu-not-prepared",
        r"ResourceHandlerChain\.preStart\(\) failed|make sure gpu module is enabled|nvidia-docker",
        "the node could not prepare GPUs for {task}",
        f"{_ASK}: [gpu] module.enabled in container-executor.cfg, and nvidia-docker-v2 as "
        f"the plugin",
    ),
    known(
        "user-missing",
        r"User (?P<user>\S+) not found|Requested user (?P<banned>\S+) is (?:banned|not whitelisted)|user (?P<low>\S+) .*min\.user\.id",  # noqa: E501
        "the user {user}{banned}{low} may not run containers on the node, or does not exist there",
        f"{_ASK}: every node needs the user, above min.user.id and not banned",
    ),
    known(
        "arguments-too-long",
        r"Argument list too long",
        "{task} has an environment or a command that is too long to start a process",
        "put long values into a file under `files`",
    ),
    # Commands of YARN's launch script; docs/images.md lists what YARN requires of an image.
    known(
        "image-without-tools",
        r"launch_container\.sh: line \d+: (?:\S*/)?(?P<tool>ls|find|cp|chmod|mkdir|ln|cat|date): "
        r"(?:command not found|not found|No such file or directory)",
        "the image of {task} has no {tool}, which YARN's launch script calls before the command",
        "install coreutils and findutils in the image; see: submit_tf_job help images",
    ),
    known(
        "python-missing",
        r"(?:line \d+: |exec: )\"?(?P<python>[^\s:\"]*python[\d.]*)\"?: "
        r"(?:command not found|not found|No such file or directory|executable file not found)",
        "the image of {task} has no {python}, which the bootstrap needs",
        "use an image with Python 3.6 or later, or name its interpreter as `python`",
    ),
    known(
        "command-not-found",
        r"(?:line \d+: |exec: )(?P<command>[^\s:]+): (?:command not found|not found|No such file or directory)",  # noqa: E501
        "{task} did not find the command {command}",
        "is it in the image, and on its PATH?",
    ),
    # hadoop.tmp.dir of the ApplicationMasters is one directory for all users: ServiceScheduler
    known(
        "hdfs-permission",
        r"Permission denied: user=(?P<user>[^,\s]+), access=\w+, inode=\"(?P<path>[^\"]*/\.yarn(?:/services)?)\":(?P<owner>[^:\s]+):",  # noqa: E501
        "YARN could not launch {task}: {path} belongs to {owner}, who ran the first service, and "
        "{user} may not write there",
        "the administrator of HDFS lets all users write there: hdfs dfs -chmod 1777 {path}",
    ),
    known(
        "hdfs-permission",
        r"Permission denied: user=(?P<user>[^,\s]+), access=(?P<access>\w+), inode=\"(?P<path>[^\"]+)\"",  # noqa: E501
        "YARN could not launch {task}: user {user} has no {access} access to {path} on HDFS",
        "the administrator of HDFS creates it, or allows it",
    ),
    known(
        "files-not-there",
        r"(?:FileNotFoundException|does not exist)[^\n]*?(?P<path>(?:hdfs|viewfs|file|/)\S*)|changed on src filesystem",  # noqa: E501
        "a file that YARN was to bring to {task} was not there, or had changed: {path}",
        "submit again, which stages the files anew",
        when=(-1000, -1, 1),
    ),
    known(
        "executor-configuration",
        r"container-executor\.cfg|Configuration file [^\n]*|Invalid permissions or ownership|not owned by root",  # noqa: E501
        "the node's container-executor is not set up well",
        _ASK,
        when=(6, 22, 24, -1000, -1),
    ),
)

# The ResourceManager's diagnostics: hadoop-facts.md#requests-that-are-never-granted
NEVER_GRANTED: tuple[Pattern, ...] = (
    known(
        "request-refused",
        r"Invalid resource request[^\n]*?resource type=\[(?P<resource>[^\]]+)\], Requested resource=(?P<asked><[^>]+>), "  # noqa: E501
        r"maximum allowed allocation=(?P<most><[^>]+>)",
        "YARN gives no container as large as was asked for: {asked}, and {most} is the "
        "most it gives",
        "ask for less {resource}",
    ),
)
