"""Patterns of failures of programs: TensorFlow, PyTorch, JAX, Python, HDFS, shells.

The texts are from real runs (hadoop-facts.md#errors-of-a-task, tests/data/failures). More specific
patterns precede general ones. `PROGRAM` is applied to one exception, given as `Class: message` and
a line `in` with the files of its calls. `LINES` is applied to the line with which a program ended
without an exception (docs/internals/diagnosis.md). Other lines say nothing about the end:
TensorFlow also logs harmless warnings, such as those about missing CUDA libraries on a machine
without GPUs.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from submit_tf_job.diagnose.cause import Cause
from submit_tf_job.diagnose.output import without_workdir

_LONGEST = 200
_READ = 4000  # of the beginning and of the end of a longer text


@dataclass(frozen=True)
class Pattern:
    """A known failure.

    Attributes:
        code: The code of the failure, documented in docs/troubleshooting.md.
        regex: Matches the text of the failure, within lines; named groups may be used in the
            sentence and hint.
        sentence: What happened; `{task}` and `{role}` are replaced.
        hint: The next step.
        when: Exit statuses to which the pattern is limited; () for any.
        near: Matches exceptions for which the lines around the exception are read, too; "" for no
            exception.
        permanent: Whether the next try meets the same, although failures with this code are often
            temporary.
        sure: Whether the text proves the failure; False for a guess.
    """

    code: str
    regex: str
    sentence: str
    hint: str = ""
    when: tuple[int, ...] = ()
    near: str = ""
    permanent: bool = False
    sure: bool = True


def recognise(
    text: str,
    patterns: Iterable[Pattern],
    *,
    task: str,
    status: int | None = None,
    around: str = "",
) -> Cause | None:
    """Return the cause for the first pattern that matches a text; None if no pattern does.

    Args:
        text: The text. If it has more than 8,000 characters, only the first and the last 4,000 are
            used.
        patterns: The patterns, the most specific first.
        task: The task, for the sentence.
        status: The task's exit status.
        around: The lines around an exception, for the patterns that may read them.
    """
    if len(text) > 2 * _READ:
        text = f"{text[:_READ]}\n{text[-_READ:]}"
    for pattern in patterns:
        if pattern.when and status not in pattern.when:
            continue
        found = re.search(pattern.regex, text, re.MULTILINE)
        if not found and around and pattern.near and re.search(pattern.near, text):
            found = re.search(pattern.regex, around, re.MULTILINE)
        if found:
            groups = {
                name: without_workdir(value.strip())[:_LONGEST]
                for name, value in found.groupdict().items()
                if value
            }
            # a group without a match is ""
            words = defaultdict(str, {**groups, "task": task, "role": role_of(task)})
            return Cause(
                pattern.code,
                pattern.sentence.format_map(words).strip().replace("  ", " "),
                pattern.hint.format_map(words).strip(),
                groups,
                permanent=pattern.permanent,
                certain=pattern.sure,
            )
    return None


def hint_of(text: str) -> str:
    """Return the hint for an exception that has no code of its own, or ""."""
    return next((hint for pattern, hint in HINTS if pattern.search(text)), "")


def of_libhdfs(text: str) -> bool:
    """Return whether an exception contains only the number of an error that libhdfs has printed
    separately.
    """
    return bool(re.search(_OF_LIBHDFS, text))


def role_of(task: str) -> str:
    """Return the role of a task: `worker` for `worker-3`."""
    return task.rpartition("-")[0] or task


# libhdfs prints Java's exception, and pyarrow raises one with a number
_OF_LIBHDFS = (
    r"HDFS[^\n]{0,400} failed[^\n]{0,99}errno:? ?255|[Ee]rrno 255\][^\n]{0,400}HDFS"
    r"|HDFS connection failed|HDFS file does not exist"
)
_MEMORY_HINT = "make the batch or the model smaller"
GPU_TWICE_HINT = (
    "torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) in each process, and no more processes "
    "than the task has GPUs"
)
GPU_MEMORY_HINT = f"{_MEMORY_HINT}; does another process use that GPU?"
_CUDA_HINT = (
    "does the image's CUDA fit the program's framework and the node's driver? nvidia-smi there "
    "shows it"
)

# native code tells why a GPU failed in lines of its log, and Python raises one of these
_OF_GPU = (
    r"^(?:tensorflow\.\S*(?:Unknown|Internal|Unimplemented|FailedPrecondition)"
    r"|\S*XlaRuntime|\S*JaxRuntime)Error"
)

SHARED_MEMORY_HINT = (
    "`docker: {{tmpfs: [/dev/shm]}}` mounts another one over Docker's 64 MB; or read data with "
    "threads instead of processes"
)

# of a login that fails in the same way each time
LOGIN_FOR_GOOD = (
    r"Pre-?authentication (?:failed|information was invalid)|PREAUTH_FAILED|Checksum failed"
    r"|Integrity check on decrypted field failed|Unable to obtain password from user"
    r"|not found in Kerberos database|Key table (?:file|entry)|no suitable keys"
    r"|Password incorrect|(?:revoked|expired) while getting|[Ee]ncryption type"
    r"|Message stream modified"
)

# of Hadoop 3, and of older ones
_LOGIN_OF_JAVA = (
    r"(?:failure to login: (?:for principal: (?P<who>\S{1,200}))?"
    r"|Login failure for (?:user: )?(?:(?P<user>\S{1,200}) from keytab)?)[^\n]{0,400}?"
)

ARGUMENTS_TOO_LONG = Pattern(  # told by the program, or by YARN's launch script
    "arguments-too-long",
    r"Argument list too long",
    "{task} has an environment or a command that is too long to start a process",
    "put long values into a file under `files`",
)

PROGRAM: tuple[Pattern, ...] = (
    # --- memory, disk ---
    Pattern(
        "gpu-out-of-memory",
        r"CUDA_ERROR_OUT_OF_MEMORY|(?:CUDA|HIP|XPU|NPU|MPS backend) out of memory|(?:CUDA|HIP) error: out of memory"  # noqa: E501
        r"|cudaErrorMemoryAllocation|Out of memory error on GPU|hipErrorOutOfMemory|cuda[^\n]{0,100}out of memory|\.cuh?:\d+: Memory alloc|CU(?:BLAS|DNN)_STATUS_ALLOC_FAILED"  # noqa: E501
        r"|OOM when allocating tensor with shape ?(?P<shape>\[[\d,]{0,80}\])?[^\n]{0,300}GPU|Allocator \(GPU_\d+_bfc\) ran out of memory",  # noqa: E501
        "{task} ran out of GPU memory",
        GPU_MEMORY_HINT,
        near=r"^(?=tensorflow\.|\S*XlaRuntimeError)[^\n]*(?:OOM|out of memory|RESOURCE_EXHAUSTED)",
    ),
    Pattern(
        "out-of-memory",
        r"^(?:[\w.]+\.)?_?(?:Array)?MemoryError\b(?:: Unable to allocate (?P<wanted>[\d.]+ \w+))?"
        r"|^std::bad_alloc|DefaultCPUAllocator: [^\n]*tried to allocate (?P<bytes>\d+) bytes"
        r"|^(?:tensorflow\S*ResourceExhaustedError|(?:\S*XlaRuntimeError|\S*JaxRuntimeError)): [^\n]*(?:OOM when|[Oo]ut of memory)[^\n]*?(?:allocate (?P<size>\d+) bytes|$)"  # noqa: E501
        r"|^OSError: \[Errno 12\]|^\S+: [^\n]*(?:Cannot allocate memory|malloc of size (?P<malloc>\d+) failed|std::bad_alloc|C error: out of memory)"  # noqa: E501
        r"|java\.lang\.OutOfMemoryError|Could not reserve enough space for|insufficient memory for the Java Runtime|^Native memory alloc",  # noqa: E501
        "{task} ran out of memory",
    ),
    Pattern(
        "hdfs-quota",
        r"(?:NameSpace|DiskSpace) quota [^\n]{0,60}of (?:directory )?(?P<path>/\S+) is exceeded"
        r"|(?P<kind>DSQuotaExceeded|NSQuotaExceeded|QuotaByStorageTypeExceeded)Exception",
        "{task} could not write to HDFS: the directory's quota is used up {path}",
        "delete what is not needed, or ask the administrator of HDFS for more",
        near=_OF_LIBHDFS,
    ),
    Pattern(
        "shared-memory",
        r"insufficient shared memory \(shm\)|[Uu]nable to (?:open|allocate|write) (?:to )?(?:file </torch|shared memory)(?![^\n]*Too many open)|/dev/shm[^\n]*(?:No space|full)"  # noqa: E501
        r"|DataLoader worker \(pid[^)]*\) is killed by signal: Bus error"
        r"|\[Errno 28\][^\n]*\nin (?:[^\n]*, )?(?:synchronize|shared_memory|heap)\.py$",
        "{task} found /dev/shm full",
        SHARED_MEMORY_HINT,
    ),
    Pattern(
        "disk-full",
        r"^\S+: [^\n]*Disk quota exceeded(?:: '(?P<path>[^']+)')?",
        "{task} used up the quota of the disk that it wrote to {path}",
        "delete what is not needed there, or write to HDFS",
    ),
    Pattern(
        "disk-full",
        r"^\S+: [^\n]*No space left on device(?:: '(?P<path>[^']+)')?",
        "{task} found no space left on the disk that it wrote to {path}",
        "write less, or to HDFS; a container's working directory and /tmp are on the "
        "node's own disks",
    ),
    Pattern(
        "too-many-files",
        r"^\S+: [^\n]*(?:\[Errno 24\]|Too many open files)|received 0 items of ancdata",
        "{task} had more files open than a process may",
        "close files that are read; of PyTorch's loaders: "
        "torch.multiprocessing.set_sharing_strategy('file_system')",
    ),
    Pattern(
        "too-many-threads",
        r"can't start new thread|^BlockingIOError: \[Errno 11\](?![^\n]*lock)|pthread_create(?:(?:\(\))? failed|:)|Thread creation failed|^OSError: \[Errno 11\]"  # noqa: E501
        r"|^std::system_error: Resource temporarily unavailable",
        "{task} could not start another thread or process: its user or container has as many as "
        "it may",
        "fewer workers of the data loader; OMP_NUM_THREADS in `env` limits the threads of libraries",  # noqa: E501
    ),
    Pattern(
        "hardware-error",
        r"uncorrectable ECC|ECC error|GPU has fallen off the bus|^\S+: [^\n]*(?:\[Errno 5\]|Input/output error|\[Errno 116\]|Stale file handle|Transport endpoint is not connected)",  # noqa: E501
        "a device or a file system of the node failed under {task}",
        "submit again; the node's administrator should know",
    ),
    # --- authentication ---
    Pattern(
        "clocks-differ",
        r"Clock skew too great",
        "{task} could not log in to Kerberos: the clock of its node differs from that of the "
        "Kerberos server by more than is allowed (mostly 5 minutes): Clock skew too great",
        "the administrator sets the clock of that node; until then keep the job off it "
        "(`placement`)",
        near=_OF_LIBHDFS,
    ),
    Pattern(
        "clocks-differ",
        r"(?P<words>RequestTimeTooSkewed|difference between the request time and the (?:current|server's) time is too large"  # noqa: E501
        r"|Signature expired: \S+ is now earlier|Signature not yet current)",
        "{task} was refused by a store, because the clock of its node differs from that of the "
        "store by more than is allowed (mostly 15 minutes): {words}",
        "the administrator sets the clock of that node; until then keep the job off it "
        "(`placement`)",
        near=_OF_LIBHDFS,
    ),
    Pattern(
        "hdfs-principal",
        r"(?P<words>Server has invalid Kerberos principal: [^;\n]+|Failed to specify server's Kerberos principal name"  # noqa: E501
        r"|Bad Kerberos server principal configuration)",
        "{task} has a Hadoop configuration that does not fit the NameNode's Kerberos principal: "
        "{words}",
        "dfs.namenode.kerberos.principal names it: send the cluster's own configuration by "
        "`hadoop: {{conf: inline}}`; a host whose name resolves to another one does this, too",
        near=_OF_LIBHDFS,
    ),
    Pattern(
        "certificate-untrusted",
        r"PKIX path (?:building|validation) failed[^\n]*",
        "Java in {task} does not know who signed the certificate of a server",
        "add its authority's certificate to the image's store of Java (keytool -importcert), or "
        "name one by -Djavax.net.ssl.trustStore in JAVA_TOOL_OPTIONS",
        near=_OF_LIBHDFS,
    ),
    Pattern(  # its server and its hint are added in evidence.py
        "certificate-untrusted",
        r"CERTIFICATE_VERIFY_FAILED\]? ?(?:certificate verify failed)?(?:: (?P<why>[A-Za-z][^(\n'\"]{2,120}))?",  # noqa: E501
        "{task} does not trust the certificate of a server",
    ),
    Pattern(
        "hdfs-token-over",
        r"[Tt]oken [^\n\"]{0,400}?(?:has expired, current time|\bis expired|can't be found in cache)(?:: (?P<now>[\d-]+ [\d:]+))?",  # noqa: E501
        "{task} had a delegation token that HDFS takes no more: it had run out, or YARN "
        "had cancelled it",
        "give the job a keytab, and a login of its own by `kerberos.login`: always; see: "
        "submit_tf_job help kerberos",
        near=_OF_LIBHDFS,
    ),
    Pattern(
        "kerberos-realm",
        r"Can't get Kerberos realm|Cannot locate default realm|Configuration file does not specify default realm",  # noqa: E501
        "{task} has no krb5.conf that names a default realm, without which Java takes no "
        "token either",
        "send this host's along by `kerberos.krb5_conf`: inline; Java reads it only with "
        "-Djava.security.krb5.conf",
    ),
    Pattern(
        "kerberos-login",
        rf"{_LOGIN_OF_JAVA}Empty nameString not allowed",
        "{task} could not log in to Kerberos: the program gave no principal",
        "its own setting of the principal is empty, or is not read",
        permanent=True,
    ),
    Pattern(
        "kerberos-login",
        rf"{_LOGIN_OF_JAVA}(?P<why>Unable to obtain password from user)",
        "{task} could not log in to Kerberos {who}{user}: {why}",
        "is the keytab there, may the task's user read it, and does it hold that principal? "
        "klist -kt KEYTAB shows it",
        permanent=True,
    ),
    Pattern(
        "kerberos-login",
        rf"{_LOGIN_OF_JAVA}(?P<why>Message stream modified \(41\))",
        "{task} could not log in to Kerberos {who}{user}: {why}",
        "with Java 8u242 and later renew_lifetime in krb5.conf does this, and a realm in lower "
        "case: leave it out, or write it as the Kerberos server does",
        permanent=True,
    ),
    Pattern(
        "kerberos-login",
        r"(?:Client|Server) (?:'(?P<name>[^'\s]+)' )?not found in Kerberos database",
        "{task} could not log in to Kerberos: it does not know the principal {name}",
        "is its name right, with host and realm? a server's is made of the host name that was "
        "asked",
        permanent=True,
        near=_OF_LIBHDFS,
    ),
    Pattern(
        "kerberos-login",
        rf"{_LOGIN_OF_JAVA}(?P<why>Checksum failed|Pre-authentication information was invalid)",
        "{task} could not log in to Kerberos {who}{user}: {why}",
        "the keytab is not the principal's latest (kvno): a ktadd elsewhere makes older ones "
        "useless; kinit -kt shows it",
        permanent=True,
    ),
    Pattern(
        "kerberos-login",
        r"(?P<why>(?:KDC has no support for encryption type|Encryption type [^\n]{1,99} is not supported)[^\n]*)",  # noqa: E501
        "{task} could not log in to Kerberos: {why}",
        "the keytab, the Kerberos server and krb5.conf (permitted_enctypes) have to share one; "
        "klist -kte KEYTAB shows those of the keytab",
        permanent=True,
    ),
    Pattern(
        "kerberos-login",
        r"KerberosAuthException: (?:failure to login|Login failure)|Preauthentication failed|Cannot contact any KDC for realm '(?P<realm>[^']+)'",  # noqa: E501
        "{task} could not log in to Kerberos {realm}",
        "is the keytab the principal's latest (kvno), and does the krb5.conf that the "
        "task has name the KDC? kinit -kt there shows it",
    ),
    Pattern(
        "hdfs-credentials",
        r"GSS initiate failed|No valid credentials provided|Client cannot authenticate via:\s*\[|No Kerberos credentials available"  # noqa: E501
        r"|SIMPLE authentication is not enabled|HdfsError: Authentication failure"
        r"|GSS_S_NO_CRED|NoSASLMechanism|No credentials cache found|Credentials cache file '[^'\n]*' not found",  # noqa: E501
        "{task} had nothing to prove to HDFS who it is: no Kerberos ticket, and no "
        "delegation token that is still good",
        "say who the job is under `kerberos`; a job that outlives its tokens logs in with "
        "its keytab (`kerberos.login`)",
        near=_OF_LIBHDFS,
    ),
    # --- HDFS ---
    Pattern(
        "hdfs-safe-mode",
        r"Name[Nn]ode is in startup mode",
        "{task} could not use HDFS: its NameNode was still starting",
        "submit again when it has started",
        near=_OF_LIBHDFS,
    ),
    Pattern(
        "hdfs-no-datanode",
        r"(?P<words>(?:File \S+ )?could only be (?:replicated|written) to \d+ [^\n]+|Failed to find datanode[^\n]*"  # noqa: E501
        r"|Failed to replace a bad datanode [^(\n]+|All datanodes [^\n]+ are bad)",
        "HDFS had no DataNode for what {task} wrote: {words}",
        "excluded are DataNodes that the task could not reach, by name or port; where none is, "
        "they are full or dead: hdfs dfsadmin -report shows it",
        near=_OF_LIBHDFS,
    ),
    Pattern(
        "hdfs-lease",
        r"No lease on (?P<path>\S+)|[Ff]ailed to (?:APPEND_FILE|CREATE_FILE|create file) (?P<taken>/\S+) for DFSClient|File does not exist: (?P<file>\S+) \(inode \d+\)[^\n]*does not have any open files",  # noqa: E501
        "{task} has no lease on {path}{taken}{file}, which it wrote on HDFS: it was deleted, or "
        "another writer has it",
        "do two tasks write the same path, or does one clean its directory?",
        near=_OF_LIBHDFS,
    ),
    Pattern(
        "hdfs-block-missing",
        r"Could not obtain block: \S+ file=(?P<path>/\S+?)(?=org\.apache|[\s)]|$)",
        "{task} could not read {path} on HDFS: Could not obtain block",
        "its DataNodes are down, or cannot be reached from the task; hdfs fsck PATH shows whether "
        "a good copy is left",
        near=_OF_LIBHDFS,
    ),
    Pattern(
        "hdfs-permission",
        r"User: ?(?P<user>\S+) not allowed to do '(?P<operation>\w+)' on '(?P<key>[^']+)'",
        "{task} is not allowed by HDFS's key server: user {user} may not use the key {key} of an "
        "encrypted directory ({operation})",
        "the administrator of the keys allows it, or use a directory that is not encrypted",
        near=_OF_LIBHDFS,
    ),
    Pattern(
        "hdfs-permission",
        r"User: ?(?P<real>\S+) is not allowed to impersonate (?P<user>[^\s\"]+)",
        "{task} is not allowed by HDFS: {real} is not allowed to impersonate {user}",
        "the administrator of HDFS sets hadoop.proxyuser.{real}.hosts and .groups; or work as the "
        "user that has logged in",
        near=_OF_LIBHDFS,
    ),
    Pattern(
        "hdfs-safe-mode",
        r"SafeModeException|[Nn]ame ?node is in safe mode",
        "{task} could not write: HDFS is in safe mode",
        "wait until the NameNode has left it; if it does not, it lacks DataNodes or disk",
        near=_OF_LIBHDFS,
    ),
    Pattern(
        "hdfs-permission",
        r"Permission denied: user=(?P<user>[^,\s]+), access=(?P<access>\w+), inode=\\?\"(?P<path>[^\"\\]+)",  # noqa: E501
        "{task} is not allowed by HDFS: user {user} has no {access} access to {path}",
        "use a directory of {user}'s, or have its owner allow it",
        near=_OF_LIBHDFS,
    ),
    Pattern(
        "hdfs-permission",
        r"org\.apache\.hadoop\.security\.AccessControlException:? ?(?P<words>[^\n]*)",
        "{task} is not allowed by HDFS: {words}",
        "use another directory, or have its owner allow it",
    ),
    Pattern(
        "hdfs-unsupported",
        r"Unable to load (?P<library>libhdfs3?|libjvm)",
        "{task} cannot use hdfs:// : pyarrow did not find {library}",
        "name them in `env`: JAVA_HOME for libjvm, HADOOP_HOME or ARROW_LIBHDFS_DIR for libhdfs, "
        "in an image that has Java and Hadoop; or let the job copy it: `download: true` of an "
        "input",
    ),
    Pattern(
        "hdfs-unsupported",
        r"No FileSystem for scheme:? ?\"?(?P<scheme>\w+)",
        "{task} cannot use {scheme}:// : Hadoop's classes for it are not on its CLASSPATH",
        "for hdfs: export CLASSPATH=$(hadoop classpath --glob) before the program, with Hadoop's "
        "HDFS client in the image; for S3: hadoop-aws, and s3a://",
        near=_OF_LIBHDFS,
    ),
    Pattern(
        "hdfs-unsupported",
        r"File system scheme '?(?P<scheme>(?!hdfs|viewfs|webhdfs)\w+)'? not implemented",
        "{task} cannot use {scheme}:// : the image lacks what TensorFlow needs for it",
        "TensorFlow 2.6 and later need tensorflow-io, which the program imports; or let the job "
        "copy it: `download: true` of an input (`submit_tf_job help data`)",
    ),
    Pattern(
        "hdfs-unsupported",
        r"File system scheme '?(?P<scheme>\w+)'? not implemented|(?P<module>hdfs_native|pyarrow)[^\n]*(?:not installed|libhdfs)"  # noqa: E501
        r"|cannot open libhdfs|HadoopFileSystem load error",
        "{task} cannot use hdfs:// : the image lacks what TensorFlow needs for it",
        "let the job copy it: `download: true` of an input, `upload: true` of an output "
        "(`submit_tf_job help data`); TensorFlow 2.6 and later need tensorflow-io, libhdfs and "
        "Java to do it themselves, as that page shows",
        near=r"hdfs://",
    ),
    Pattern(
        "hdfs-unsupported",
        r"Environment variable CLASSPATH not set|getGlobalJNIEnv failed"
        r"|unable to get stack trace for java\.lang\.NoClassDefFoundError|from class \(null\)",
        "{task} cannot use hdfs:// : libhdfs did not find Hadoop's classes in CLASSPATH",
        "export CLASSPATH=$(hadoop classpath --glob) before the program; or let the job copy it: "
        "`download: true` of an input",
        near=r"hdfs|HDFS",
    ),
    Pattern(
        "uri-as-path",
        r"^(?:\w+Error): (?:\[Errno [12]\d?\] )?[^\n]*(?:No such file or directory|[Uu]nable to open file|not found|does not exist)[^\n]*?'?(?P<uri>(?:hdfs|viewfs|webhdfs|s3a?|gs|abfss?):/{1,2}[^\s'\")]+)'?(?<!\.)$(?!\nin [^\n]*(?:fsspec|pyarrow|hdfs))"  # noqa: E501
        r"|^FileNotFoundError: \[Errno 2\] [^\n]*'(?P<link>(?:hdfs|viewfs|webhdfs|s3a?|gs|abfss?):/{1,2}[^\s'\"]+)'",  # noqa: E501
        "{task} opened {uri}{link} as a file of its own disk, as Python's open() does with every name",  # noqa: E501
        "`download: true` of the input (`--set inputs.NAME.download=true`) puts it on the task's "
        "disk, and TFJOB_INPUT_NAME names it there; or read it with fsspec and hdfs-native",
    ),
    Pattern(
        "hdfs-path-missing",
        r"errors_impl\.NotFoundError: [^\n]*(?P<uri>hdfs://[^\s'\";)]+)",
        "TensorFlow in {task} did not find {uri}",
        "does it exist? a TensorFlow without tensorflow-io has no hdfs:// since 2.6, and "
        "says the same of every path",
    ),
    Pattern(
        "hdfs-path-missing",
        r"(?:HDFS f|F)ile does not exist: (?P<path>/[^\s'\"]*)|HdfsError: File (?P<file>/\S+) not found"  # noqa: E501
        r"|(?:NotFoundError|FileNotFound)[^\n]{0,600}(?P<uri>hdfs://[^\s'\";)]+)",
        "{task} did not find {path}{file}{uri} on HDFS",
        "does it exist, for the user that the job runs as? hdfs dfs -ls shows",
        near=_OF_LIBHDFS,
    ),
    Pattern(
        "hdfs-unreachable",
        r"HTTPS?ConnectionPool\(host='(?P<host>[^']+)', port=(?P<port>\d+)\)[^\n]{0,99}url: /webhdfs/v1(?![^\n]*CERTIFICATE)",  # noqa: E501
        "{task} did not reach HDFS at {host}:{port}",
        "WebHDFS sends its clients to the DataNodes by their names: can the container resolve that "
        "name, and reach that port?",
    ),
    Pattern(
        "host-unreachable",
        r"(?:Call|No Route to Host) [Ff]rom [^\n]{0,300} to (?P<peer>\S+:80(?:3[0-3]|50)) failed on",  # noqa: E501
        "{task} did not reach YARN's ResourceManager at {peer}",
        "a program that submits applications of its own needs the cluster's configuration: "
        "`hadoop: {{conf: inline}}`; can containers reach the ResourceManager?",
    ),
    Pattern(
        "hdfs-unreachable",
        r"(?:Call|No Route to Host) [Ff]rom [^\n]{0,300} to (?P<peer>\S+) failed on (?:connection|socket timeout) exception|UnknownHostException: (?P<host>[\w.:-]+)(?![\w.:-])(?! (?:Temporary failure|Name or service|No address))"  # noqa: E501
        r"|(?:hdfs|webhdfs|namenode|NameNode)[^\n]{0,600}(?:[Cc]onnection refused|timed out)",
        "{task} did not reach HDFS {peer}{host}",
        "give the job its cluster's configuration (`hadoop: {{conf: inline}}`); can "
        "containers reach the NameNode?",
        near=_OF_LIBHDFS,
    ),
    Pattern(
        "hdfs-unreachable",
        r"Operation category \w+ is not supported in state standby",
        "{task} asked a NameNode that is on standby",
        "name HDFS by its nameservice (hdfs://NAME) and not by one host; "
        "`hadoop: {{conf: inline}}` tells containers both NameNodes",
        near=_OF_LIBHDFS,
    ),
    # --- the other tasks ---
    Pattern(
        "steps-differ",  # TensorFlow's collective_param_resolver_local.cc
        r"expected type \d+ and data_type \d+|Shape mismatch in the collective instance"
        r"|Mismatched \w+ (?:tensor|data|operation|reduce|CPU/GPU|root)|HorovodInternalError: Stalled ranks",  # of Horovod's controller.cc  # noqa: E501
        "the tasks run different steps: {task} and another one did not exchange the same values",
        "start every worker from the same program, model and checkpoint, with the same number of "
        "steps; a worker that restored nothing, or runs another branch, does this",
    ),
    Pattern(
        "rendezvous-failed",
        r"Rendezvous(?:Timeout|Connection|Closed)Error|DistStoreError: Timed out after [^\n]*waiting for clients"  # noqa: E501
        # the store in which they look for one another
        r"|DistStoreError: (?:wait timeout|Socket Timeout)|RuntimeError: Socket Timeout$"
        r"|RuntimeError: Timeout waiting for key: "
        r"|NCCL communicator[^\n]*got error: (?:Socket Timeout|wait timeout|Timeout waiting)"
        r"|[Tt]imed out initializing process group in store based barrier"
        r"|DistNetworkError: The client socket has [^\n]*?connect to (?:any of the specified network addresses|\((?P<peer>[^)]+)\))",  # noqa: E501
        "{task} did not meet the other processes of PyTorch {peer}",
        "did another task end before it called init_process_group? can the containers reach the "
        "port of rank 0? see: submit_tf_job help frameworks",
    ),
    Pattern(
        "rendezvous-failed",
        r"connectFullMesh failed|gloo[^\n]*connect \[(?P<peer>127\.[\d.]+)\]",
        "{task} did not meet the other processes of PyTorch: gloo took an address that they cannot "
        "reach {peer}",
        "GLOO_SOCKET_IFNAME in `env` names the interface; see: submit_tf_job help frameworks",
    ),
    Pattern(
        "rendezvous-failed",
        r"DEADLINE_EXCEEDED[^\n]*\n*RPC: /\S*CoordinationService/RegisterTask|DEADLINE_EXCEEDED[^\n]*Barrier_id: PjRT_Client_Connect",  # noqa: E501
        "{task} did not meet the other processes of JAX within initialization_timeout",
        "did another task end before it called jax.distributed.initialize? can the containers "
        "reach the port of process 0? see: submit_tf_job help frameworks",
    ),
    Pattern(
        "variable-missing",
        r"Number of processes must be defined|coordinator_address should be defined|environment variable (?P<name>RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT) expected, but not set",  # noqa: E501
        "{task} was not told who the other processes are {name}",
        "`strategy: torch` or `strategy: jax` sets the variables of these frameworks; see: "
        "submit_tf_job help frameworks",
    ),
    Pattern(
        "name-not-found",
        r"DNS resolution failed for (?P<name>[\w.-]+)|(?<![\w.-])(?P<peer>(?!found:)[\w.-]+):\d*:? (?:Name or service not known|Domain name not found|Temporary failure in name|No address associated)"  # noqa: E501
        r"|\[Errno -[235]\] (?P<why>[\w ]+)|host not found: (?P<said>[\w ]+)|Failed to resolve '(?P<host>[\w.-]+)'|Could not resolve host: (?P<asked>[\w.-]+)",  # noqa: E501
        "{task} could not resolve the host name {name}{peer}{host}{asked}",
        "does Registry DNS answer, and does the containers' resolver ask it? see "
        "`dns.server` in the settings",
    ),
    Pattern(
        "host-unreachable",
        r"(?:HTTPS?ConnectionPool\(host='(?P<host>[^']+)'|^urllib\.error\.URLError|^httpx\.Connect|Cannot connect to host (?P<peer>[\w.-]+)|couldn't connect to 'https?://(?P<hub>[\w.-]+)|Could not connect to the endpoint URL: \"https?://(?P<end>[\w.-]+)|URL fetch failure on https?://(?P<url>[\w.-]+))"  # noqa: E501
        r"|^ConnectionRefusedError: |^(?:TimeoutError|socket\.timeout): (?:\[Errno 110\]|timed out)|^(?:[\w.]+\.)?(?:ConnectTimeout|LocalEntryNotFoundError)",  # noqa: E501
        "{task} could not reach {host}{peer}{hub}{end}{url}",
        "",
    ),
    Pattern(
        "port-in-use",
        r"Could not start gRPC server|^\S+: [^\n]*(?:Address already in use|EADDRINUSE|\[Errno 98\]|errno: 98)|Binding port \d+ failed",  # noqa: E501
        "{task} could not listen on a port: it is in use on the host",
        "does the program open it twice, or always the same one? $TFJOB_PORT and the role's "
        "`ports` name free ones",
        near=r"^tensorflow\.\S*UnknownError",
    ),
    Pattern(
        "tf-config-invalid",
        r'it must have one "chief" node',
        "{task} is an Estimator, which needs a chief in TF_CONFIG",
        "with `strategy: estimator` (`run --strategy estimator`) there is one",
    ),
    Pattern(
        "tf-config-invalid",
        r"Could not parse port for local server|exceeds the maximum id|not found in cluster_spec|Disallowed task type"  # noqa: E501
        r"|There must be at most one|`?task_type`? must be|KeyError: 'evaluator'"
        r"|^(?:json\.decoder\.JSONDecodeError|TypeError|KeyError|ValueError)\b[\s\S]*\nin [^\n]*tfconfig_cluster_resolver\.py",  # noqa: E501
        "{task} cannot work with its TF_CONFIG: the roles do not fit what the program "
        "does with them",
        "compare `strategy` and the roles with `submit_tf_job help tf-config`; does the "
        "program change TF_CONFIG?",
    ),
    Pattern(
        "peer-failed",
        r"Horovod has been shut down|ncclRemoteError|remote process exited or there was a network error",  # noqa: E501
        "{task} lost the connection to another task: the failure is elsewhere",
        "look at the task that ended first; its logs say why",
    ),
    Pattern(
        "nccl-failed",  # the words are those of libtorch_cuda.so of PyTorch 2.15
        r"nccl\w+ failed: (?P<call>unhandled cuda error)|NCCL error in: (?P<where>[^\n]*)|NCCL: unhandled (?P<words>[^\n.]*)|nccl(?:UnhandledCuda|System|Internal|Remote)Error",  # noqa: E501
        "{task} could not exchange data with other GPUs: NCCL failed {call}{where}{words}",
        "NCCL_DEBUG=INFO in `env` logs the reason; NCCL_SOCKET_IFNAME in `env` names the interface",
    ),
    Pattern(
        "collective-timeout",
        r"Watchdog caught collective operation timeout[^\n]*?OpType=(?P<operation>\w+)"
        r"|Collective operation timeout: \S*OpType=(?P<op>\w+)",
        "{task} waited for the other processes in {operation}{op} until its time was over",
        "did every process run the same steps, or did one read or save for longer? "
        "init_process_group(timeout=…) is how long they wait; `logs JOB` shows who was elsewhere",
    ),
    Pattern(
        "peer-failed",
        r"^\S*(?:UnavailableError|AbortedError)\b|Collective ops is aborted|[Hh]eartbeat timeout|(?:ABORTED|UNAVAILABLE): [^\n]{0,600}(?:/job:|task|peer|[Cc]onnection)"  # noqa: E501
        r"|reached monitoredBarrier, but received errors|failed to pass monitoredBarrier in"
        r"|Connection (?:reset|closed) by peer|JAX distributed service detected fatal errors"
        r"|DistNetworkError: Failed to recv|gloo/transport/[^\n]{0,300}\] Timed out waiting \d+ms for"  # noqa: E501
        r"|Socket (?:closed|(?:recv|send) error)|failed to connect to all addresses|HorovodInternalError|Received collective error",  # noqa: E501
        "{task} lost the connection to another task: the failure is elsewhere",
        "look at the task that ended first; its logs say why",
        near=r"^(?:tensorflow\.\S*(?:Cancelled|Aborted|Unavailable)Error|\S*XlaRuntimeError|\S*JaxRuntimeError)",
    ),
    Pattern(
        "crashed",
        r"(?:is killed by signal: |terminated with signal |died with <Signals\.)(?P<signal>SIG(?:SEGV|ILL|FPE|SYS)|Segmentation fault|Illegal instruction|Floating point exception)",  # noqa: E501
        "a process that {task} had started for a part of its work crashed: {signal}",
        "PYTHONFAULTHANDLER=1 in `env` shows where",
    ),
    Pattern(
        "stopped-from-outside",
        r"(?:is killed by signal: |terminated with signal |died with <Signals\.)(?P<signal>SIG(?:TERM|INT|HUP)|Terminated|Interrupt|Hangup)",  # noqa: E501
        "a process that {task} had started for a part of its work was ended by {signal}",
        "who sent it is not known: a person, a program, or a limit of time",
    ),
    Pattern(
        "process-killed",
        r"DataLoader worker \(pid(?:\(s\))? [\d, ]+\) is killed by signal: (?P<signal>[\w ]+)"
        r"|process \d+ terminated with signal (?P<sig>SIG\w+)|died with <Signals\.(?P<name>SIG\w+)"
        r"|^ray\.exceptions\.OutOfMemoryError",
        "a process that {task} had started for a part of its work was killed {signal}{sig}{name}",
    ),
    Pattern(
        "process-killed",  # they tell that it ended, and not how
        r"DataLoader worker \(pid(?:\(s\))? [\d, ]+\) exited unexpectedly|BrokenProcessPool: "
        r"|TerminatedWorkerError|(?:WorkerCrashed|ActorDied|RayActor)Error|\bKilledWorker: ",
        "a process that {task} had started for a part of its work ended without a word, and was "
        "killed",
        sure=False,
    ),
    # --- GPUs ---
    Pattern(
        "cuda-mismatch",
        r"CUDA driver version is insufficient|driver on your system is too old|no kernel image is available"  # noqa: E501
        r"|forward compatibility was attempted"
        r"|CUDAMismatchException|cuDNN version incompatibility|libcuda reported version [^\n]*|CUDNN_STATUS_\w*(?:MISMATCH|PREREQUISITE)|Loaded runtime CuDNN library[^\n]*but source",  # noqa: E501
        "{task} found a GPU, but CUDA, cuDNN or the driver do not fit together",
        _CUDA_HINT,
        near=_OF_GPU,
    ),
    Pattern(
        "python-exception",
        r"(?:Could not create cudnn handle: )?(?P<status>CUDNN_STATUS_\w+)"
        r"|Could not create cudnn handle",
        "{task} could not use its GPU: cuDNN failed {status}",
        "the GPU's memory may be in use: TF_FORCE_GPU_ALLOW_GROWTH=true in `env`, of JAX "
        f"XLA_PYTHON_CLIENT_PREALLOCATE=false; or versions differ: {_CUDA_HINT}",
        near=_OF_GPU,
    ),
    Pattern(
        "gpu-missing",
        r"CUDA error: (?P<error>invalid device ordinal)|failed call to cu\w+: (?P<tf>CUDA_ERROR_INVALID_DEVICE\b[^\n]*)",  # noqa: E501
        "{task} asked for a GPU that it does not see: {error}{tf}",
        "more `roles.{role}.gpus`, or fewer processes in a task: each has the GPU of its LOCAL_RANK, "  # noqa: E501
        "counted from 0 in each task",
        near=r"^tensorflow\.\S*InternalError",
    ),
    Pattern(
        "gpu-missing",
        r"no CUDA-capable device|No visible GPU devices|Found no NVIDIA driver|No CUDA GPUs are available|requires at least one CUDA device|Torch not compiled with CUDA enabled"  # noqa: E501
        r"|only supported with GPUs, no GPUs found|CUDA_ERROR_NO_DEVICE|Could not satisfy (?:explicit )?device specification[^\n]*GPU"  # noqa: E501
        r"|device_type:GPU[^\n]*unknown device|unknown device[^\n]*GPU|libcuda\.so[^\n]*cannot open shared object|Unknown backend:? '?(?:gpu|cuda)"  # noqa: E501
        r"|No OpKernel was registered to support Op 'Cudnn\w+'",
        "{task} wanted a GPU and saw none",
        f"ask for GPUs by `roles.{{role}}.gpus`; {_CUDA_HINT}",
    ),
    # --- numeric errors ---
    Pattern(
        "loss-not-finite",
        r"NanLossDuringTrainingError|Model diverged with loss = NaN|Invalid loss, terminating|(?:Nan|NaN|Inf) in summary histogram"  # noqa: E501
        r"|Tensor had (?:NaN|Inf)|[Ll]oss (?:is|was|became) (?:nan|NaN|inf)|^FloatingPointError: [^\n]*nan",  # noqa: E501
        "{task} stopped because the loss was no number any more",
        "a smaller learning rate, clipped gradients, and a look at the data; "
        "tf.debugging.enable_check_numerics() finds the place",
    ),
    Pattern(
        "keras-3",
        r"Attempt to convert a value \(PerReplica|pass this dataset to ClusterCoordinator\.create_per_worker_dataset",  # noqa: E501
        "{task}: Keras 3 does not train under this strategy",
        "install tf_keras and say `keras: legacy`; or use TensorFlow 2.15; see: submit_tf_job help "
        "frameworks",
    ),
    Pattern(
        "weights-differ",
        r"Error\(s\) in loading state_dict|Layer count mismatch|Weight count mismatch|Shape mismatch in layer #"  # noqa: E501
        r"|[Kk]ey \S+ not found in checkpoint|[Tt]ensor name \S+ not found in checkpoint|axes don't match array"  # noqa: E501
        r"|A total of \d+ objects could not be loaded|You are trying to load a weight file|expected \d+ variables, but received"  # noqa: E501
        r"|doesn't match a parameter group|loaded state dict (?:has|contains)|You set `ignore_mismatched_sizes`|Cannot assign value to variable",  # noqa: E501
        "{task} loaded weights of another model",
        "is the checkpoint that of this model, with the same sizes? an empty directory starts anew",
    ),
    Pattern(
        "shapes-differ",
        r"Dimensions must be equal|[Ii]ncompatible shapes|is incompatible with the layer|mat1 and mat2 shapes cannot"  # noqa: E501
        r"|size of tensor a \(\d+\) must match|[Ss]hapes? [^\n]* (?:are|is|be) (?:not )?(?:in)?compatible|shapes [^\n]* not aligned"  # noqa: E501
        r"|could not (?:be )?broadcast|Matrix size-incompatible|must have the same (?:first dimension|shape)"  # noqa: E501
        r"|logits and labels must|expects each tensor to be equal size|[Cc]annot reshape|is invalid for input of size"  # noqa: E501
        r"|dot_general requires|got incompatible shapes|Sizes of tensors must match|Expected input batch_size"  # noqa: E501
        r"|expected input\[[^\n]*channels|inhomogeneous shape|[Ff]eature shape mismatch|The number of features in data"  # noqa: E501
        r"|Data cardinality is ambiguous|Cannot batch tensors with different shapes|mismatch in its core dimension"  # noqa: E501
        r"|[Cc]annot copy a tensor with shape|Target size \([^\n]*must be the same as input size",
        "{task} computed with values whose shapes do not fit",
        "is the data what the model was written for? the shapes stand in the exception",
    ),
    # --- the program and its dependencies ---
    Pattern(
        "tensorflow-1",
        r"No module named '?(?P<module>tensorflow\.(?:contrib|examples|python\.platform)[\w.]*)"
        r"|module 'tensorflow(?:\.[\w.]+)?' has no attribute '(?P<name>placeholder|Session|InteractiveSession|app|contrib|flags|logging|gfile|GraphDef|ConfigProto"  # noqa: E501
        r"|global_variables_initializer|get_variable|variable_scope|get_default_graph|reset_default_graph|set_random_seed|layers|log|random_normal"
        r"|truncated_normal|to_float|AdamOptimizer|GradientDescentOptimizer|trainable_variables|placeholder_with_default|estimator)'",
        "{task} is written for TensorFlow 1: this TensorFlow has no {module}{name}",
        "use an image with TensorFlow 1.15, or tf.compat.v1 in the program",
    ),
    Pattern(
        "tensorflow-missing",
        r"No module named '?(?P<module>tensorflow|keras|tf_keras|tensorflow_io)(?:'|$)",
        "{task} found no {module} in its image",
        "use an image that has it, or name the interpreter that has it in `command`",
    ),
    Pattern(
        "module-missing",
        r"No module named '?encodings\b",
        "Python in {task} did not find its own standard library",
        "does PYTHONHOME, or a virtual environment that was copied, name a Python that the image "
        "does not have?",
    ),
    Pattern(
        "module-missing",
        r"No module named (?:'(?P<module>[\w.]+)'|(?P<name>[\w.]+)(?:$|; '))"
        r"|The '(?P<dist>[\w.-]{1,100})[^'\n]{0,100}' distribution was not found|No package metadata was found for (?P<package>[\w.-]{1,100})",  # noqa: E501
        "{task} could not import the module {module}{name}{dist}{package}",
        "install it in the image, or list it in a file for `python.requirements`; ship it under "
        "`files` if it is your own",
    ),
    Pattern(
        "module-missing",  # of R, Node, Java, Perl, Ruby, Julia
        r"there is no package called [‘'](?P<r>[\w.]+)|Cannot find module '(?P<node>[^'\s]+)'|cannot load such file -- (?P<ruby>\S+)"  # noqa: E501, RUF001
        r"|Package (?P<julia>\w+) not found in current path|Can't locate (?P<perl>\S+) in @INC|(?:ClassNotFoundException|NoClassDefFoundError): (?P<java>[\w.$/]+)|Could not find or load main class (?P<main>\S+)",  # noqa: E501
        "{task} did not find {r}{node}{ruby}{julia}{perl}{java}{main}, which its program loads",
        "install it in the image, or ship it under `files`; is it where the language looks for it "
        "(CLASSPATH, R_LIBS, NODE_PATH)?",
    ),
    Pattern(
        "library-missing",
        r"(?P<library>lib[\w.+-]{1,120}): cannot open shared object file",
        "{task} lacks the library {library}",
        "install it in the image",
    ),
    Pattern(
        "versions-differ",
        r"undefined symbol: (?P<symbol>\w+)|Server IPC version \d+ cannot communicate|symbol (?P<linked>\w+),? version \S+ not defined|UnsupportedClassVersionError|NoSuchMethodError|version `(?P<libc>(?:GLIBC|CXXABI)\w*_[\d.]+)' not found|numpy\.\w+ size changed|compiled (?:against|using) \S*(?:ABI|API|NumPy)"  # noqa: E501
        r"|numpy\.core\.(?:_?multiarray\w*|umath) failed to import|RuntimeError: Numpy is not available|Descriptors cannot (?:not )?be created directly|_ARRAY_API not found|VersionConflict|[\w-]{1,100}[<>=!~]=?[\d.]+[^\n]{0,200}but found",  # noqa: E501
        "{task} has libraries whose versions do not fit one another {symbol}{linked}{libc}",
        "install them together, with the versions that they ask of one another (pip check)",
    ),
    Pattern(
        "name-not-in-module",
        r"cannot import name '(?P<name>\w+)' from partially initialized module '(?P<module>[\w.]+)'"
        r"|partially initialized module '(?P<of>[\w.]+)' has no attribute '(?P<attribute>\w+)'",
        "{task}: {module}{of} had no {name}{attribute} yet, because modules import one another",
        "import it inside the function that needs it; a file of yours of the same name as a library "  # noqa: E501
        "does this, too",
    ),
    Pattern(
        "name-not-in-module",
        r"cannot import name '(?P<name>\w+)' from '(?P<module>[\w.]+)'[^\n]{0,300}Did you mean: '(?P<like>\w+)'"  # noqa: E501
        r"|module '(?P<of>[\w.]+)' has no attribute '(?P<attribute>\w+)'\. Did you mean: '(?P<alike>\w+)'",  # noqa: E501
        "{task}: {module}{of} has no {name}{attribute}",
        "Python suggests {like}{alike}; if it is no typing error, install the version of {module}{of} "  # noqa: E501
        "that the program was written for",
    ),
    Pattern(
        "name-not-in-module",
        r"cannot import name '(?P<name>\w+)' from '(?P<module>[\w.]+)'"
        r"|module '(?P<of>[\w.]+)' has no attribute '(?P<attribute>\w+)'",
        "{task}: {module}{of} has no {name}{attribute}",
        "install the version of {module}{of} that the program was written for; a file of yours of "
        "the same name hides a module, too",
    ),
    Pattern(
        "variable-missing",
        r"^KeyError: '(?P<name>\w+)'\nin (?:[^\n]*, )?(?:<frozen os>|os\.py)$|Environment variable '(?P<env>\w+)' not found"  # noqa: E501
        r"|^(?:\w+: )?(?P<unset>[A-Z][A-Z0-9_]+) (?:environment variable )?is not set\b",
        "{task} lacks the environment variable {name}{env}{unset}",
        "`env` of the job spec sets it",
    ),
    Pattern(
        "program-missing",
        r"Unable to access jarfile (?P<jar>\S+)|can't open file '(?P<file>[^']+)'(?!: \[Errno 13\])"
        r"|can't find '__main__' module in '(?P<folder>[^']+)'",
        "{task} did not find its program {jar}{file}{folder}",
        "name it under `files`, which puts it into the working directory; or mount it, or "
        "build it into the image",
    ),
    Pattern(
        "read-only",
        r"Read-only file system(?:: '(?P<path>[^']+)')?",
        "{task} wanted to write where it may only read {path}",
        "mounts are read-only unless they end in :rw",
    ),
    Pattern(
        "not-executable",
        r"^PermissionError: \[Errno 13\] [^\n]*: '(?P<command>[^']+)'\nin [^\n]*subprocess\.py$",
        "{task} found the command {command}, but may not execute it",
        "make it executable before it is shipped, or start it with its interpreter",
    ),
    Pattern(
        "permission-denied",
        r"failed to (?:bind|listen) (?:to|on) \S{1,200}:(?P<port>\d{1,5}) \(errno: 13\b",
        "{task} is not allowed to listen at port {port}",
        "ports below 1024 are for root: $TFJOB_PORT and the role's `ports` name free ones",
    ),
    Pattern(
        "permission-denied",
        r"(?:PermissionError|OSError): \[Errno 1?3\] [\w ]+: '(?P<path>[^']+)'"
        r"|PermissionDeniedError: (?P<tf>[^\s;]+); Permission denied"
        r"|can't open file '(?P<script>[^']+)': \[Errno 13\]"
        r"|FileNotFoundException: (?P<java>/\S+) \(Permission denied\)"
        r"|errno = 13, [^\n]*|^\S+: [^\n]*?(?:cannot|can't|could not|[Oo]pening) [\w ]*[`'‘\"]?(?P<file>/[^'’\"\s:]+)['’\"]?(?: failed)?: Permission denied",  # noqa: E501, RUF001
        "{task} is not allowed to use {path}{tf}{script}{java}{file}",
        "containers run as the user that YARN chooses on its nodes: that one needs the right",
    ),
    Pattern(
        "command-not-found",
        r"^FileNotFoundError: \[Errno 2\] [^\n]*: '(?P<command>[^'/]+)'\nin (?:[^\n]*, )?subprocess\.py$",  # noqa: E501
        "{task} did not find the command {command}, which it wanted to start",
        "is it in the image, and on its PATH?",
    ),
    Pattern(
        "file-missing",
        r"FileNotFoundError: \[Errno 2\] No such file or directory: '(?P<path>[^']+)'"
        r"|Unable to (?:synchronously )?open file \(unable to open file: name = '(?P<h5>[^']+)', errno = 2"  # noqa: E501
        r"|NotFoundError: [^\n]{0,600}?(?<![\w./-])(?P<tf>[\w./-]+); No such file or directory|matching files for (?P<checkpoint>[^\s\[]+)"  # noqa: E501
        r"|SavedModel file does not exist at: (?P<model>[^\s{]+?)/?(?:\{|\s|$)|File not found: filepath=(?P<keras>\S+?)\. "  # noqa: E501
        r"|No (?:file or directory|model|such file)[^\n]{0,300}? found at (?P<old>\S+)|Could not find directory (?P<folder>\S+)"  # noqa: E501
        r"|(?:Opening |LocalFileSystem::Open \")(?P<xgb>[^\s\"]+)\"?(?: failed)?: No such file|(?:Could not|Cannot) open (?:data )?(?:file )?(?=[\w-]*[./])(?P<lgb>[\w./-]+)|ListDirectory (?P<folder2>\S+) error: No such file|Data file (?P<data>\S+) doesn't exist"  # noqa: E501
        r"|(?P<hub>\.?/[\w./-]{1,255}) is not a local folder and is not a valid model|Unable to find '(?P<set>[^']+)'"  # noqa: E501
        r"|FileNotFoundError: (?:[^\n]{0,300}?['\"\s])?(?P<other>/[^\s'\":;]+)",
        "{task} did not find {path}{h5}{tf}{checkpoint}{model}{keras}{old}{folder}{xgb}{lgb}{folder2}{data}{hub}{set}{other}",  # noqa: E501
        "ship it under `files`; or mount its directory; paths are those inside the container",
    ),
    ARGUMENTS_TOO_LONG,
    Pattern(
        "wrong-architecture",
        r"[Ee]xec format error",
        "{task} has a program that is not for this node's processor",
        "build the image for the nodes' architecture, or give the script a first line "
        "such as #!/bin/sh",
    ),
    Pattern(
        "cpu-too-old",
        r"was compiled to use (?P<set>[\w.]+) instructions, but these aren't available",
        "{task}: TensorFlow uses {set} instructions, which this node's processor does not have",
        "send the job to newer nodes (`placement`), or build TensorFlow for these",
    ),
    Pattern(
        "syntax-error",
        r"^(?P<name>SyntaxError|IndentationError|TabError): (?P<words>[^\n]*)",
        "{task} could not read its program: {name}: {words}",
        "does the image have the version of the language that the program was written for? "
        "python -m py_compile, or node --check, shows such an error before the job is submitted",
    ),
)

# the line with which a program ended that raised no exception
LINES: tuple[Pattern, ...] = (
    Pattern(
        "variable-missing",
        r"(?:line \d+: |^)(?P<name>\w+): (?:unbound variable|parameter null or not set|parameter not set)",  # noqa: E501
        "{task} lacks the environment variable {name}",
        "`env` of the job spec sets it",
    ),
    Pattern(
        "arguments-invalid",
        r"^(?P<words>(?:Unrecognized (?:VM )?option|Invalid (?:\w+ )?heap size)[^\n]*)",
        "Java in {task} refused its options: {words}",
        "compare the `command` of the job spec, and JAVA_TOOL_OPTIONS, with what java -X says",
    ),
    Pattern(
        "command-not-found",
        r"\$?'?(?P<line>\\r)'?: command not found|(?<![^\s'])(?P<interpreter>[^\s']+(?:\\r|\^M))'?: (?:bad interpreter|No such file)|env: .(?P<env>\w+)\\r",  # noqa: E501
        "{task} has a script with line ends of Windows",
        "write it with line ends of Unix: sed -i 's/\\r$//' FILE, or dos2unix",
        near=r"No such file|not found|[Ss]yntax error|unexpected end",
    ),
    Pattern(
        "command-not-found",
        r"(?:line \d+: |^(?:\S*sh: )?)(?:\S*/)?(?P<command>[^\s:/]+): (?:command not found|not found|No such file or directory)$"  # noqa: E501
        r"|^env: [‘']?(?P<env>[\w.-]+)[’']?: No such file or directory",  # noqa: RUF001
        "{task} did not find the command {command}{env}",
        "is it in the image, and on its PATH? python is often called python3",
        when=(127,),
    ),
    Pattern(
        "command-not-found",  # in another language
        r"^\S*sh: (?:\S+ )?\d+ ?: (?P<command>[^\s:]+) ?: [^:\n]+$",
        "{task} did not find the command {command}",
        "is it in the image, and on its PATH? python is often called python3",
        when=(127,),
    ),
    Pattern(
        "not-executable",
        r"(?:line \d+: |^)(?P<command>\S+): cannot execute: required file not found$"
        r"|(?:^|: )(?P<script>\S+): \S+: bad interpreter: No such file",
        "{task} found {command}{script}, but not the interpreter that its first line names",
        "does the image have it? line ends of Windows in the script do this, too: sed -i 's/\\r$//' {command}{script}",  # noqa: E501
        when=(126, 127),
    ),
    Pattern(
        "not-executable",
        r"(?:line \d+: |^(?:\S*sh: )?)(?P<command>\S+): (?:Permission denied|cannot execute(?![^\n]*Exec format)[^\n]*|Is a directory)$",  # noqa: E501
        "{task} found the command {command}, but may not execute it",
        "make it executable before it is shipped, or start it with its interpreter: bash "
        "{command}, python {command}",
        when=(126,),
    ),
    Pattern(
        "syntax-error",
        r"(?:line |: )\d+: (?P<words>[Ss]yntax error[^\n]*|unexpected EOF[^\n]*|(?:\S+: )?[Bb]ad substitution)",  # noqa: E501
        "the shell in {task} could not read its script: {words}",
        "bash -n FILE shows such an error before the job is submitted",
    ),
    Pattern(
        "permission-denied",
        r"^\S+: (?:line \d+: )?(?:cannot|can't) [\w ]+ [‘'](?P<path>[^’']+)[’']: (?:Permission denied|Operation not permitted)"  # noqa: E501, RUF001
        r"|^\S+: (?:line \d+: )?(?P<file>[\w./-]+): Permission denied$",
        "{task} is not allowed to use {path}{file}",
        "containers run as the user that YARN chooses on its nodes: that one needs the right",
    ),
    Pattern(
        "hdfs-path-missing",  # of Hadoop's FsShell
        r"^\w+: `(?P<path>[^'\n]{1,300})': No such file or directory",
        "{task} did not find {path} on HDFS",
        "does it exist, for the user that the job runs as? a path without / is below that user's "
        "home, /user/NAME; hdfs dfs -ls shows it",
    ),
    Pattern(
        "kerberos-login",
        r"^kinit: (?P<words>(?:Key table file|[^\n]*not found in Kerberos database)[^\n]*)",
        "{task} could not log in to Kerberos: {words}",
        "is the name right, of the principal with its realm, or of the keytab in the container? "
        "`kerberos` of the job spec logs in without kinit",
        permanent=True,
    ),
    Pattern(
        "kerberos-login",
        r"^kinit: (?P<words>[^\n]*encryption type[^\n]*)",
        "{task} could not log in to Kerberos: {words}",
        "the keytab, the Kerberos server and krb5.conf (permitted_enctypes) have to share one; "
        "klist -kte KEYTAB shows those of the keytab",
        permanent=True,
    ),
    Pattern(
        "kerberos-login",
        r"^kinit: (?P<words>(?:Preauthentication failed|Keytab contains no suitable keys|Password incorrect|[^\n]{0,99}(?:revoked|expired))[^\n]*)",  # noqa: E501
        "{task} could not log in to Kerberos: {words}",
        "is the keytab the principal's latest (kvno)? `kerberos` of the job spec logs in without "
        "kinit",
        permanent=True,
    ),
    Pattern(
        "clocks-differ",
        r"^kinit: (?P<words>Clock skew[^\n]*)",
        "{task} could not log in to Kerberos, because the clock of its node is wrong: {words}",
        "the administrator sets the clock of that node; until then keep the job off it "
        "(`placement`)",
    ),
    Pattern(
        "kerberos-login",
        r"^kinit: (?P<words>[^\n]*)",
        "{task} could not log in to Kerberos: {words}",
        "is the keytab the principal's latest (kvno)? `kerberos` of the job spec logs in without "
        "kinit",
    ),
    Pattern(
        "file-missing",
        r"^\S+: (?:line \d+: )?(?:(?:cannot|can't) [\w ]+ |cd: )?[‘'\"]?(?=[\w*-]*[./])(?P<path>[\w./*-]+)[’'\"]?: (?:Cannot open: )?No such file or directory",  # noqa: E501, RUF001
        "{task} did not find {path}",
        "ship it under `files`; or mount its directory; paths are those inside the container",
    ),
    Pattern(
        "certificate-untrusted",
        r"^Could not fetch URL (?P<url>https?://[\w.:-]+)[^\n]*confirming the ssl certificate",
        "pip in {task} does not trust the certificate of {url}",
        "PIP_CERT in `env` names a file with its authority's certificate; or "
        "`python.requirements` sends packages along with the job",
        near=r"No matching distribution found",
    ),
    Pattern(
        "host-unreachable",
        r"^(?:WARNING: )?Retrying \(Retry\([^\n]*(?:NewConnection|ConnectTimeout|Proxy)Error",
        "pip in {task} did not reach the index of packages",
        "`python.requirements` sends packages along with the job",
        near=r"No matching distribution found",
    ),
    Pattern(
        "module-missing",
        r"satisfies the requirement (?P<module>[^\s(]{1,200}) [^\n]*\(from versions: (?!none)",
        "pip in {task}: No matching distribution found for {module}, for the Python of its image",
        "the line above has the versions that there are; an older one needs an older Python",
        near=r"No matching distribution found",
    ),
    Pattern(
        "command-not-found",  # mpirun quotes what the shell of the other host said
        r"^(?:\S*sh: )?(?:line \d+: )?(?:\S*/)?(?P<command>orted|prted|ssh|rsh): (?:command not found|not found|No such file or directory)$"  # noqa: E501
        r"|agent not found|no (?:suitable )?(?P<agent>ssh/rsh) (?:agents? )?(?:was |were )?found",
        "mpirun in {task} did not find {command}{agent}, by which it starts processes on other hosts",  # noqa: E501
        "YARN has started a task on each host already: leave mpirun out, with `strategy: custom` "
        "and `variables: horovod`; see: submit_tf_job help frameworks",
        near=r"unable to reliably start one or more daemons",
    ),
    Pattern(
        "host-unreachable",  # the same of ssh
        r"^ssh: (?:Could not resolve hostname|connect to host) (?P<host>[\w.-]+)",
        "{task} could not reach {host} by ssh, with which mpirun starts processes",
        "YARN has started a task on each host already: leave mpirun out, with `strategy: custom` "
        "and `variables: horovod`; see: submit_tf_job help frameworks",
        near=r"unable to reliably start one or more daemons",
    ),
    Pattern(
        "certificate-untrusted",
        r"^curl: \(60\) (?P<words>[^\n]*)",
        "{task} does not trust the certificate of a server: {words}",
        "send its authority's certificate by `files`, and name it by CURL_CA_BUNDLE in `env`",
    ),
    Pattern(
        "host-unreachable",
        r"[Cc]ould not resolve host: (?P<host>[\w.-]+)|unable to resolve host address [‘'](?P<peer>[\w.-]+)|Failed to connect to (?P<to>[\w.-]+) port \d+",  # noqa: E501, RUF001
        "{task} could not reach {host}{peer}{to}",
    ),
    Pattern(
        "process-killed",  # told by bash, whose script went on
        r"line \d+: +\d+ (?P<how>Killed)\b",
        "a process that {task} had started for a part of its work was killed",
        near=r".",
    ),
)

# what helps where an exception has no code of its own
HINTS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"Wrong FS: "),
        "fs.defaultFS of the program's Hadoop configuration names another file system than the path: "  # noqa: E501
        "`hadoop: {conf: inline}` sends the cluster's own along",
    ),
    (
        re.compile(r"device-side assert|illegal memory access|unspecified launch failure"),
        "CUDA_LAUNCH_BLOCKING=1 in `env` shows the operation that failed; mostly a label or an index is "  # noqa: E501
        "out of range",
    ),
    (
        re.compile(r"getpwuid\(\): uid not found"),
        "the image has no name for the user that the task runs as: `docker: {accounts: true}` mounts "  # noqa: E501
        "the node's names",
    ),
    (
        re.compile(r"UnpicklingError: invalid load key, '[v<]'"),
        "it is a text, and no checkpoint: `git lfs pull` brings the file for a pointer of Git LFS; a "  # noqa: E501
        "page of a server begins with <",
    ),
    (
        re.compile(r"\[Errno 99\]|Cannot bind to \d|errno: 99"),
        "the address is not one of this task's container: listen at 0.0.0.0",
    ),
    (
        re.compile(r"Collective ops must be configured at program startup"),
        "make the strategy first, before anything else of TensorFlow",
    ),
    (
        re.compile(r"no locator available for file"),
        "NUMBA_CACHE_DIR=/tmp in `env`: the packages of the image cannot be written",
    ),
    (
        re.compile(r"not been properly configured to use 'conda activate'"),
        "`conda run -n NAME python …` needs no activation; or source etc/profile.d/conda.sh of conda "  # noqa: E501
        "before it",
    ),
    (
        re.compile(r"'ascii' codec can't"),
        "PYTHONUTF8=1 in `env`: the container's locale has no other characters than ASCII",
    ),
    (
        re.compile(r"^EOFError: EOF when reading a line"),
        "a task has no keyboard: let the program take its answer from an argument",
    ),
    (
        re.compile(r"PicklingError: Can't|Can't pickle local object"),
        "define what other processes run at the top of a module: no lambda, no inner function",
    ),
    (
        re.compile(r"attempt has been made to start a new process before"),
        'start processes below `if __name__ == "__main__":`',
    ),
    (
        re.compile(r"Cannot re-initialize CUDA in forked subprocess"),
        "start processes with torch.multiprocessing.set_start_method('spawn')",
    ),
    (
        re.compile(r"Weights only load failed"),
        "torch.load(…, weights_only=False) reads a checkpoint of objects, if you trust its source; so "  # noqa: E501
        "did PyTorch before 2.6",
    ),
    (
        re.compile(r"unable to lock file"),
        "HDF5_USE_FILE_LOCKING=FALSE in `env`: a file system without locks, or another process that writes the file, does this",  # noqa: E501
    ),
    (
        re.compile(r"no \$DISPLAY|NoSuchDisplay|cannot connect to X server"),
        "MPLBACKEND=Agg in `env` draws without a display; xvfb-run before the command gives one",
    ),
    (
        re.compile(r"Unable to locate credentials|DefaultCredentialsError|AWS Credentials"),
        "mount a file of credentials, and name it: AWS_SHARED_CREDENTIALS_FILE in `env` "
        "(GOOGLE_APPLICATION_CREDENTIALS)",
    ),
    (
        re.compile(r"no mechanism available: No worthy mechs"),
        "the image lacks a plugin of Cyrus SASL: libsasl2-modules-gssapi-mit, cyrus-sasl-gssapi or "
        "cyrus-sasl-plain",
    ),
    (
        re.compile(r"401 Client Error[^\n]*huggingface|gated repo"),
        "mount a file with a token that may read it, and name it: HF_TOKEN_PATH in `env`",
    ),
    (
        re.compile(r"nltk\.download|NLTK Downloader"),
        "send the resource by `files`, and name its directory: NLTK_DATA in `env`",
    ),
    (
        re.compile(r"Failed to find C compiler|nvcc: not found|'nvcc'"),
        "the program compiles code: use an image with a compiler (of CUDA a -devel one)",
    ),
    (re.compile(r"api_key not configured"), "WANDB_MODE=offline in `env` needs no key"),
)

# what a program that had not ended logs while it waits
STILL_RUNS: tuple[Pattern, ...] = (
    Pattern(
        "session-waits",
        r"CreateSession still waiting for response from worker: /job:(?P<peer>\w+)/(?:replica:\d+/)?task:(?P<index>\d+)",  # noqa: E501
        "TensorFlow's session in {task} waited for {peer}-{index}",
        "a session begins when every task of the cluster answers, and one that has ended does not; "
        'give it config=tf.compat.v1.ConfigProto(device_filters=["/job:ps", '
        '"/job:worker/task:%d" % task_index]), MonitoredTrainingSession too',
    ),
)
