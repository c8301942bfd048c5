"""Plan a submission: (Job, Site) → the exact YARN service, and the files to upload before it.

Planning is a pure function, without clock, environment, network or randomness. `render` prints
`plan(...).body`, and `submit` posts the same text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from submit_tf_job.container import contract
from submit_tf_job.errors import JobSpecError, UsageError
from submit_tf_job.jobspec.job import (
    AUTO_PORT,
    Job,
    Restart,
    Role,
    RoleKind,
)
from submit_tf_job.jobspec.rules import default_kind
from submit_tf_job.plan import check, data, docker, hadoop
from submit_tf_job.plan.delivery import (
    Contribution,
    Delivery,
    File,
    Stage,
    Upload,
    delivered,
    packages_contribution,
    remote_files,
)
from submit_tf_job.plan.site import Site
from submit_tf_job.plan.task_description import task_description, task_text
from submit_tf_job.yarn import service_properties
from submit_tf_job.yarn.records import (
    Artifact,
    Component,
    ConfigFile,
    Configuration,
    KerberosPrincipal,
    PlacementConstraint,
    PlacementPolicy,
    PlacementScope,
    PlacementType,
    Resource,
    ResourceInformation,
    Service,
    dumps,
)
from submit_tf_job.yarn.run_names import Again, content_key, run_name

MAX_SERVICE_BYTES = 2_000_000  # `check` has the limit of Hadoop 3.1 and 3.2
MOST_QUICK_LINKS = 10  # tasks of a role that have quick links, so that the service stays small

_FAILURES_OF_A_COMPONENT = "yarn.service.container-failure-per-component.threshold"
# YARN leaves a node out after more than so many failures (ContainerFailureTracker)
_FAILURES_ON_A_NODE = "yarn.service.node-blacklist.threshold"
_NO_LIMIT = "2147483647"
SPARE_FAILURES = 10
# How much later than a follower, which stops a job after `start_timeout` and 30 s more, the
# ApplicationMaster gives up; also enough to find the containers of the attempt before it
# (`yarn.service.container-recovery.timeout.ms`, 120 s).
SPARE_START_S = 180

# Properties with defaults that are wrong for training
# (hadoop-facts.md#defaults-unsuited-for-training).
SERVICE_PROPERTIES = {
    # YARN restarts a killed AM, and the training containers keep running
    # (hadoop-facts.md#restart-of-the-applicationmaster).
    "yarn.service.am-restart.max-attempts": "4",
    # The default of 30 s would delay STABLE, and so `wait --for ready`.
    "yarn.service.readiness-check-interval.seconds": "1",
    # The rendezvous decides about restarts; on Hadoop 3.1 and 3.2 a NodeManager would retry
    # without limit.
    "yarn.service.container-failure.retry.max": "0",
    # Above the threshold the AM ends without unregistering: 36 s pass, and a second attempt runs
    # failed tasks again.
    _FAILURES_OF_A_COMPONENT: _NO_LIMIT,
}


@dataclass(frozen=True)
class Plan:
    """The plan of one run: the service and the uploads.

    Attributes:
        key: The idempotency key: two submissions with the same key are the same submission.
        content: The hash of the job and its files, which is also the key if no key was given.
        number: How often a run with the key was started before.
        again: Whether the key is run again after its run has ended.
        properties: Properties of the service, in addition to those that follow from the job.
        lifetime_s: The lifetime in seconds for a job that states none; 0 for no lifetime.
        ends_unstarted: Whether YARN ends the application if it gets no container.
        name_limit: The largest number of characters that the name of a run may have.
        task: The task description, which the bootstrap reads.
        service: The service to post; its name is the run's.
        uploads: Files that must be uploaded before the POST.
    """

    job: Job
    site: Site
    key: str
    content: str
    number: int
    again: Again
    properties: Mapping[str, str]
    lifetime_s: int
    ends_unstarted: bool
    name_limit: int
    task: Mapping[str, object]
    service: Service
    uploads: tuple[Upload, ...]

    @property
    def run(self) -> str:
        """The run's name, which is also the name of its service."""
        return self.service.name

    @property
    def given_key(self) -> str | None:
        """The idempotency key, if the caller gave one; None if it is the hash of the content."""
        return None if self.key == self.content else self.key

    @property
    def files(self) -> tuple[Upload, ...]:
        """All uploads except the keytab."""
        return tuple(upload for upload in self.uploads if not upload.secret)

    @property
    def keytab(self) -> Upload | None:
        """The keytab that is uploaded, or None."""
        return next((upload for upload in self.uploads if upload.secret), None)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Settings that YARN accepts but that are probably mistakes, each with its solution."""
        return tuple(check.warnings(self.job, self.site))

    def run_of(self, number: int) -> str:
        """Return the name of the run with this number."""
        return run_name(self.job.name, self.site.user, self.key, number, name_limit=self.name_limit)

    def at(self, number: int) -> Plan:
        """Return the plan of the run with this number."""
        if number == self.number:
            return self
        return self._planned_anew(number=number, ends_unstarted=self.ends_unstarted)

    def for_hadoop(self, version: str) -> Plan:
        """Return the plan for a version of Hadoop: without `ends_unstarted` for Hadoop 3.1 and 3.2,
        and for an unknown version, "".

        Hadoop 3.1 and 3.2 continue after the end of the deciding task and of the witness, which
        would then count as missing: their ApplicationMaster would be ended, and the next one would
        run the finished tasks again (docs/internals/endings.md).
        """
        ends = check.ends_by_one_component(version)
        if ends == self.ends_unstarted:
            return self
        return self._planned_anew(number=self.number, ends_unstarted=ends)

    def _planned_anew(self, *, number: int, ends_unstarted: bool) -> Plan:
        return plan(
            self.job,
            self.site,
            key=self.given_key,
            number=number,
            again=self.again,
            properties=self.properties,
            lifetime_s=self.lifetime_s,
            ends_unstarted=ends_unstarted,
        )

    @cached_property
    def body(self) -> str:
        """The body of the request, byte for byte: what `render` prints and `submit` posts."""
        return dumps(self.service)

    @property
    def lists(self) -> str:
        """The URI of the directory for the lists of the run's sharded inputs."""
        return f"{Stage.of(self.site.staging, self.job.name).lists}/{self.run}"

    def list_uri(self, name: str) -> str:
        """Return the URI of a sharded input's list, from which the tasks read it."""
        return f"{self.lists}/{contract.INPUT_LIST % name}"


def plan(
    job: Job,
    site: Site,
    *,
    key: str | None = None,
    number: int = 0,
    again: Again | None = None,
    properties: Mapping[str, str] = MappingProxyType({}),
    lifetime_s: int = 0,
    ends_unstarted: bool = True,
) -> Plan:
    """Plan one run of a job.

    Args:
        job: The job.
        site: The cluster, and the user there.
        key: The idempotency key: two submissions with the same key are the same submission. It may
            be the id that a scheduler has: 1 to 64 letters, digits, `.`, `_` or `-`. By default the
            key is a hash of the job and its files, so that the same command finds its own run.
        number: How often a run with the key was started before.
        again: Whether the key is run again after its run has ended; by default never if a key is
            given, and always if none is given.
        properties: Properties that are added to those of the service.
        lifetime_s: The lifetime in seconds for a job that states none, 0 for no lifetime; the
            default key does not depend on it.
        ends_unstarted: Whether YARN ends the application if it gets no container (`for_hadoop`);
            the default key does not depend on it.

    Returns:
        The plan; equal arguments give equal plans.

    Raises:
        JobSpecError: YARN, a NodeManager or the settings (`check_job`) would refuse the job; the
            error has all problems. Or the service would have more than `MAX_SERVICE_BYTES`.
        UsageError: The key is not valid.

    Example:
        >>> plan(job, Site("alice", domain="example.com")).body  # doctest: +SKIP
    """
    if key is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", key):
        raise UsageError(
            f"{key!r} is not a valid submission id",
            hint="use 1 to 64 letters, digits, '.', '_' or '-', beginning with a letter or digit",
        )
    again = again or (Again.NEVER if key else Again.ALWAYS)
    content = content_key(job)
    extra_properties = (
        {**properties, service_properties.CONTENT: content} if key else dict(properties)
    )
    if again is not Again.ALWAYS:
        extra_properties[service_properties.AGAIN] = again.value
    key = key or content
    name_limit = check.limit_of_run_name(job, site)
    run = run_name(job.name, site.user, key, number, name_limit=name_limit)
    parts = _contributions_of(job, site, run, name_limit)
    shipped = [file for part in parts for file in part.shipped]
    delivery = delivered(job, shipped, site.staging)
    task = task_description(job, site, run, of_roles=delivery.task, parts=parts)
    files = (
        File(contract.TASK_FILE, type="TEMPLATE", text=task_text(task)),
        *delivery.files,
        *(file for part in parts for file in part.files),
    )
    uploads = {
        uri: Upload(uri, file.content, secret=file.secret, shared=file.shared)
        for file in files
        if file.content is not None and (uri := run.join(file.uri))
    }
    service = _Service(job, site, run, parts, delivery, files, ends_unstarted).build(
        key, extra_properties, lifetime_s
    )
    planned = Plan(
        job=job,
        site=site,
        key=key,
        content=content,
        number=number,
        again=again,
        properties=properties,
        lifetime_s=lifetime_s,
        ends_unstarted=ends_unstarted,
        name_limit=name_limit,
        task=task,
        service=service,
        uploads=tuple(uploads.values()),
    )
    _check_size(planned)
    return planned


def _contributions_of(job: Job, site: Site, run: str, name_limit: int) -> tuple[Contribution, ...]:
    """Return the contribution of each part of a job to its plan.

    Raises:
        JobSpecError: YARN, a NodeManager or the settings (`check_job`) would refuse the job; the
            error has all problems.
    """
    stage = Stage.of(site.staging, job.name)
    parts: tuple[Contribution, ...] = (
        packages_contribution(job, site, stage),
        hadoop.configuration_contribution(job, site),
        hadoop.contribution(job, site, stage),
        data.contribution(job, site, stage),
        hadoop.meeting_contribution(job, site, stage),
        hadoop.report_contribution(site, run),
        remote_files(job),
    )
    mounts = [mount for part in parts for mount in part.mounts]
    parts = (*parts, docker.contribution(job, site, mounts))
    problems = set(check.check_job(job, site, name_limit))
    problems.update(problem for part in parts for problem in part.problems)
    if problems:
        raise JobSpecError(sorted(problems))
    return parts


@dataclass(frozen=True)
class _Service:
    """Builds the service of one run.

    Attributes:
        run: The run's name.
        parts: The contributions of the job's parts.
        delivery: How the bootstrap and the roles' files get to the tasks.
        files: The files that YARN puts into the tasks' working directories.
        ends_unstarted: As in `Plan`.
    """

    job: Job
    site: Site
    run: str
    parts: Sequence[Contribution]
    delivery: Delivery
    files: Sequence[File]
    ends_unstarted: bool

    def build(self, key: str, extra_properties: Mapping[str, str], lifetime_s: int) -> Service:
        """Return the service."""
        job = self.job
        properties = {
            **SERVICE_PROPERTIES,
            service_properties.SUBMISSION: key,
            **service_properties.of_job(job),
        }
        if job.retries:
            losses = job.retries.node_losses
            properties[_FAILURES_ON_A_NODE] = str(losses - 1) if losses else _NO_LIMIT
            if job.retries.memory:
                properties[service_properties.RESUBMISSIONS_MAX] = str(job.retries.max)
        properties.update(extra_properties)
        principal = None
        if job.kerberos:
            keytab = next(file for file in self.files if file.name == contract.KEYTAB_FILE)
            principal = KerberosPrincipal(job.kerberos.principal, self.run.join(keytab.uri))
        # the witness first: YARN launches components in their order, and the capacity scheduler
        # preempts in the reverse one (FifoCandidatesSelector)
        roles = sorted(job.roles.values(), key=lambda role: role.name != contract.WITNESS_ROLE)
        return Service(
            name=self.run,
            version=key,
            description=job.description or None,
            queue=job.queue,
            lifetime=job.lifetime_s or lifetime_s or None,
            docker_client_config=job.docker_client_config,
            kerberos_principal=principal,
            configuration=Configuration(
                properties=properties,
                files=tuple(self._config_file(file) for file in self.files if file.roles is None),
            ),
            components=tuple(self._component_of(role) for role in roles),
            quicklinks={
                name: url
                for role in job.roles.values()
                for name, url in _quick_links(job, role).items()
            },
        )

    def _component_of(self, role: Role) -> Component:
        properties = {}
        retried = self.job.retries is not None and role.kind is not RoleKind.SIDECAR
        if role.elastic:
            properties[service_properties.INSTANCES] = f"{role.elastic.min}-{role.instances}"
        # a lost task that serves is taken back without a retry
        counted = role.elastic is None or role.kind is not RoleKind.SERVES
        if self.job.retries and retried and counted:
            # An end for containers that fail before their bootstrap starts: only it counts retries.
            most = role.instances * (self.job.retries.max + 1) + SPARE_FAILURES
            properties[_FAILURES_OF_A_COMPONENT] = str(most)
        # the role of one task whose end ends the service (Hadoop 3.3 and later)
        witnessed = contract.WITNESS_ROLE in self.job.roles
        if role.name == (contract.WITNESS_ROLE if witnessed else self.job.deciding_role):
            properties[service_properties.DECIDES] = "true"
            if self.ends_unstarted:
                # so long the ApplicationMaster waits for the container whose end ends the job
                wait_s = int(self.job.start_timeout_s) + SPARE_START_S
                properties.update(service_properties.ended_without(wait_s))
        default = default_kind(self.job.strategy, role.name, self.job.deciding_role)
        if role.kind is not default:
            properties[service_properties.KIND] = role.kind.value
        if role.ports:
            properties[service_properties.PORTS] = ",".join(
                f"{name}={'auto' if port == AUTO_PORT else port}"
                for name, port in role.ports.items()
            )
        own = [file for file in self.files if role.name in (file.roles or ())]
        return Component(
            name=role.name,
            number_of_containers=role.instances,
            launch_command=self.delivery.command(self.job.python_of(role).interpreter),
            artifact=Artifact(role.image) if role.in_container else None,
            resource=_resource_of(role, self.site),
            # after the loss of a container YARN starts another one; all else is the rendezvous'
            restart_policy=(
                "ON_FAILURE" if retried or role.restart is Restart.ON_FAILURE else "NEVER"
            ),
            placement_policy=_placement_of(role),
            configuration=Configuration(
                properties=properties,
                env=self._yarn_environment(role.name),
                files=tuple(self._config_file(file) for file in own),
            ),
            quicklinks=tuple(_quick_links(self.job, role)),
        )

    def _config_file(self, file: File) -> ConfigFile:
        if file.type == "TEMPLATE":
            return ConfigFile("TEMPLATE", file.name, properties={"content": file.text})
        return ConfigFile(file.type, file.name, self.run.join(file.uri))

    def _yarn_environment(self, role: str) -> dict[str, str]:
        """Return the variables that YARN sets for a role; if two parts of the job set the same
        variable, the first value counts.
        """
        found: dict[str, str] = {}
        for part in self.parts:
            found = {**part.env.get(role, {}), **found}
        return {**found, contract.ENV_INSTANCE: "${COMPONENT_INSTANCE_NAME}"}


def _check_size(planned: Plan) -> None:
    size = len(planned.body)
    if size <= MAX_SERVICE_BYTES:
        return
    way_out = "put long commands into scripts, and long values into files"
    if not planned.site.staging:
        way_out = "set hadoop_conf (or staging) in the settings: files then go to HDFS"
    message = f"the service would have {size} bytes, and at most {MAX_SERVICE_BYTES} are sent"
    raise JobSpecError([planned.job.problem("", f"{message}; {way_out}")])


def _resource_of(role: Role, site: Site) -> Resource:
    name = role.gpu_resource or site.gpu_resource
    additional = {name: ResourceInformation(role.gpus)} if role.gpus else {}
    return Resource(cpus=role.cpus, memory=str(role.memory_mib), additional=additional)


def _quick_links(job: Job, role: Role) -> dict[str, str]:
    """Return YARN's quick links of a role: one for each fixed port of each task, up to a limit.

    In quick links, the AM replaces only its global tokens (ServiceTimelinePublisher,
    ProviderUtils). The deciding task reports ports that the bootstrap chooses. The names of tasks
    on a Docker network resolve to addresses of that network, which other hosts may not reach, so
    the label ends with `(from its node)`.
    """
    where = "" if job.network == "host" else " (from its node)"
    several = role.instances > 1
    return {
        (f"{role.name}-{index} {name}" if several else f"{role.name} {name}") + where: _quick_link(
            role, index, port
        )
        for index in range(min(role.instances, MOST_QUICK_LINKS))
        for name, port in role.ports.items()
        if port != AUTO_PORT
    }


def _quick_link(role: Role, index: int, port: int) -> str:
    scheme = "https" if port in (443, 8443) else "http"
    return f"{scheme}://{role.name}-{index}.${{SERVICE_NAME}}.${{USER}}.${{DOMAIN}}:{port}"


def _placement_of(role: Role) -> PlacementPolicy | None:
    placement = role.placement
    if placement is None:
        return None
    kind: PlacementType = "AFFINITY_WITH_CARDINALITY"
    if placement.spread:
        kind = "ANTI_AFFINITY"
    elif placement.together:
        kind = "AFFINITY"
    scope: PlacementScope = "RACK" if "rack" in (placement.spread, placement.together) else "NODE"
    # Without spread and together only the nodes are restricted.
    anywhere = kind == "AFFINITY_WITH_CARDINALITY"
    constraint = PlacementConstraint(
        kind,
        scope,
        # Hadoop before 3.4 accepts only the component's own name
        # (hadoop-facts.md#scope-of-a-placement).
        target_tags=(role.name,),
        node_attributes=placement.attributes,
        node_partitions=(placement.partition,) if placement.partition else (),
        min_cardinality=0 if anywhere else None,
        max_cardinality=role.instances if anywhere else None,
    )
    return PlacementPolicy((constraint,))
