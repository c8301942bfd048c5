"""(Job, Site, submission id) → the YARN service, and the files that must be staged before it is posted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from submit_tf_job import contract
from submit_tf_job.job import HostFile, Job, Placement, Restart, Role, ShippedFile, TFConfigMode
from submit_tf_job.plan import data, docker, entrypoint, identity, packing, payload, shell
from submit_tf_job.plan.packing import Pack, Shipment
from submit_tf_job.plan.site import Site
from submit_tf_job.tfconfig import host_name, task_port, tf_config
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
)

__all__ = ["FILES", "Content", "Upload", "build", "literal_tf_config", "staged_for"]

COMPONENT_ID = "${COMPONENT_ID}"
HADOOP_CONF_DIRECTORY = "hadoop-conf"
FILES = "files"  # below the staging directory, beside the keytabs and the lists

# Every field whose default is wrong for training (facts: yarn-services 8.4, verified-docker 7):
SERVICE_PROPERTIES = {
    # A killed AM comes back, and the training containers live on (seen).
    "yarn.service.am-restart.max-attempts": "4",
    # 30 s by default: STABLE, and so `wait --for ready`, would lag by as much.
    "yarn.service.readiness-check-interval.seconds": "1",
    # The rendezvous decides about restarts; on Hadoop 3.1 and 3.2 a NodeManager would retry for ever.
    "yarn.service.container-failure.retry.max": "0",
    # Past the threshold the AM leaves without unregistering: 36 s lost and a second attempt that runs dead tasks again (seen).
    "yarn.service.container-failure-per-component.threshold": "2147483647",
}


Content: TypeAlias = bytes | HostFile | Pack


@dataclass(frozen=True)
class Upload:
    """A content that must stand at `uri` before the service is posted.

    Attributes:
        secret: Whether it is the job's keytab: readable by its owner alone, in a directory of its own, and removed with the job.
    """

    uri: str
    content: Content = field(repr=False)
    secret: bool = False

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.content) if isinstance(self.content, bytes) else self.content.size

    @property
    def directory(self) -> str:
        """The directory that it has for itself; its name is that of the content, but for secrets."""
        return self.uri.rpartition("/")[0]


@dataclass(frozen=True)
class _Delivery:
    """How bootstrap and files reach the components: inside the service, or staged.

    Attributes:
        staged: How each role's files travel where they are staged; None where they are inside.
    """

    staged: Mapping[str, Shipment] | None = None
    bootstrap_staged: bool = False


def build(job: Job, site: Site, submission: str, *, fits: Callable[[Service], bool]) -> tuple[Service, tuple[Upload, ...]]:
    """Build the service, staging only what makes it too large.

    Args:
        fits: Whether a service is small enough to be posted.

    Returns:
        The service, and what must be uploaded first. Where there is nowhere to stage, the service may be too large: `check` says so.
    """
    deliveries = [_Delivery()]
    if site.staging and job.bootstrap:
        staged = packing.shipments({role.name: _role_files(job, role) for role in job.roles.values()})
        inside = deliveries if _all_held(job) else []
        deliveries = [*inside, _Delivery(staged), _Delivery(staged, bootstrap_staged=True)]
    for delivery in deliveries:
        uploads: dict[str, Content] = {}
        service = _service(job, site, submission, delivery, uploads)
        if fits(service):
            break
    return service, (*(Upload(uri, content) for uri, content in uploads.items()), *_secrets(job, site, submission))


def _secrets(job: Job, site: Site, submission: str) -> tuple[Upload, ...]:
    if job.kerberos is None or job.kerberos.secret is None:
        return ()
    return (Upload(identity.keytab_uri(job, job.kerberos, site, submission), job.kerberos.secret, secret=True),)


def _service(job: Job, site: Site, submission: str, delivery: _Delivery, uploads: dict[str, Content]) -> Service:
    kerberos = job.kerberos
    return Service(
        name=job.name,
        version=submission,
        description=job.description or None,
        queue=job.queue,
        lifetime=job.lifetime_s,
        docker_client_config=job.docker_client_config,
        kerberos_principal=KerberosPrincipal(kerberos.principal, identity.keytab_uri(job, kerberos, site, submission))
        if kerberos
        else None,
        configuration=Configuration(
            properties={
                **SERVICE_PROPERTIES,
                contract.PROPERTY_SUBMISSION: submission,
                contract.PROPERTY_DECIDING: job.deciding_task,
                contract.PROPERTY_STRATEGY: job.strategy.value,
                contract.PROPERTY_BOOTSTRAP: "true" if job.bootstrap else "false",
            }
        ),
        components=tuple(_component(job, role, site, submission, delivery, uploads) for role in job.roles.values()),
        quicklinks={_link_name(role, name): _link(role, port) for role in job.roles.values() for name, port in role.ports.items()},
    )


def _link_name(role: Role, port: str) -> str:
    return f"{role.name} {port}"


def _link(role: Role, port: int) -> str:
    """Write a YARN quick link; the AM fills in its global tokens and no others (ServiceTimelinePublisher, ProviderUtils)."""
    scheme = "https" if port in (443, 8443) else "http"
    return f"{scheme}://{role.name}-0.${{SERVICE_NAME}}.${{USER}}.${{DOMAIN}}:{port}"


def _component(job: Job, role: Role, site: Site, submission: str, delivery: _Delivery, uploads: dict[str, Content]) -> Component:
    properties = {contract.PROPERTY_DECIDES: "true"} if role.name == job.deciding_role else {}
    if role.ports:
        properties[contract.PROPERTY_PORTS] = ",".join(f"{name}={port}" for name, port in role.ports.items())
    files: tuple[ConfigFile, ...] = ()
    if job.bootstrap:
        command, files = _bootstrap(job, role, site, submission, delivery, uploads)
    else:
        command = entrypoint.launch_command(role.command) if role.docker.entrypoint else shell.launch_command(role.command)
    return Component(
        name=role.name,
        number_of_containers=role.instances,
        launch_command=command,
        artifact=Artifact(role.image),
        resource=_resource(role, site),
        restart_policy="ON_FAILURE" if role.restart is Restart.ON_FAILURE else "NEVER",
        placement_policy=_placement(role),
        configuration=Configuration(properties=properties, env=_env(job, role, site, submission), files=files),
        quicklinks=tuple(_link_name(role, name) for name in role.ports),
    )


def _resource(role: Role, site: Site) -> Resource:
    additional = {site.gpu_resource: ResourceInformation(role.gpus)} if role.gpus else {}
    return Resource(cpus=role.cpus, memory=str(role.memory_mib), additional=additional)


def _bootstrap(
    job: Job, role: Role, site: Site, submission: str, delivery: _Delivery, uploads: dict[str, Content]
) -> tuple[str, tuple[ConfigFile, ...]]:
    config_files = []
    tar = None
    if delivery.staged is not None:
        config_files += _staged_files(job, site, delivery.staged[role.name], uploads)
    else:
        tar = payload.files_tar(_role_files(job, role))
    if job.packages:
        name = packing.packages_name(job.packages)
        config_files.append(ConfigFile("ARCHIVE", contract.PACKAGES_LINK, _stage(job, site, name, job.packages.archive, uploads)))
    text = payload.bootstrap_file(job, site, submission, tar, delivery.staged or {})
    path = f"conf/{contract.BOOTSTRAP_FILE}"
    if delivery.bootstrap_staged:
        path = contract.BOOTSTRAP_FILE
        config_files.append(ConfigFile("STATIC", path, _stage(job, site, path, text.encode("ascii"), uploads)))
    else:
        config_files.append(ConfigFile("TEMPLATE", contract.BOOTSTRAP_FILE, properties={"content": text}))
    if job.hadoop and job.hadoop.kind == "archive":
        config_files.append(ConfigFile("ARCHIVE", contract.HADOOP_CONF_LINK, job.hadoop.location))
    config_files += [*identity.config_files(job, site, submission), *data.config_files(job, role, site, submission)]
    # `exec`: YARN appends redirections, bash would stay process 1, and the program would never see SIGTERM (seen).
    return f"exec {job.python} {path}", tuple(config_files)


def _role_files(job: Job, role: Role) -> list[ShippedFile]:
    files = list(role.files)
    if job.hadoop and job.hadoop.kind == "inline":
        files += [ShippedFile(f"{HADOOP_CONF_DIRECTORY}/{file.name}", file.content) for file in job.hadoop.files]
    return files + identity.files(job)


def _all_held(job: Job) -> bool:
    return not any(isinstance(file.content, HostFile) for role in job.roles.values() for file in role.files)


def _staged_files(job: Job, site: Site, shipment: Shipment, uploads: dict[str, Content]) -> list[ConfigFile]:
    contents: dict[str, Content] = {**shipment.packs, **shipment.large}
    return [ConfigFile("STATIC", name, _stage(job, site, name, content, uploads)) for name, content in contents.items()]


def _stage(job: Job, site: Site, name: str, content: Content, uploads: dict[str, Content]) -> str:
    found = payload.content_id(content) if isinstance(content, bytes) else content.id if isinstance(content, Pack) else content.sha256
    uri = f"{staged_for(site.staging or '', job.name)}/{found}/{name}"
    uploads[uri] = content
    return uri


def staged_for(staging: str, job_name: str) -> str:
    """Return the directory of what is staged for jobs of a name: a name is one job's at a time."""
    return f"{staging}/{FILES}/{job_name}"


def _env(job: Job, role: Role, site: Site, submission: str) -> dict[str, str]:
    env = docker.variables(job, role, site)
    if job.bootstrap:
        env[contract.ENV_INSTANCE] = "${COMPONENT_INSTANCE_NAME}"
    else:
        raw = role.docker.entrypoint
        env.update({name: value if raw else shell.env_value(value) for name, value in role.env.items()})
        if role.gpus == 0 and "CUDA_VISIBLE_DEVICES" not in env:
            env["CUDA_VISIBLE_DEVICES"] = ""  # else a node whose Docker defaults to the nvidia runtime shows it every GPU
    if job.tf_config is TFConfigMode.LITERAL:
        literal = literal_tf_config(job, role, site, submission)
        if literal:
            entry_point = role.docker.entrypoint
            env[contract.ENV_TF_CONFIG] = entrypoint.json_value(literal) if entry_point else shell.env_value(literal, tokens=[COMPONENT_ID])
    return env


def literal_tf_config(job: Job, role: Role, site: Site, submission: str) -> str:
    """Write TF_CONFIG for a role with the AM's `${COMPONENT_ID}` as the index, or "" where the role needs none."""
    counts = job.counts
    ports = payload.port_rule(job, site)

    def address(name: str, index: int) -> str:
        host = host_name(name, index, job.name, site.registry_user, site.domain)
        return f"{host}:{task_port(ports, counts, submission, name, index)}"

    value = tf_config(counts, payload.cluster_roles(job), role.name, 0, address, job.legacy_master)
    return value[: -len('"index":0}}')] + f'"index":{COMPONENT_ID}}}}}' if value else ""


def _placement(role: Role) -> PlacementPolicy | None:
    placement = role.placement
    if placement is None:
        return None
    return PlacementPolicy((_constraint(role, placement),))


def _constraint(role: Role, placement: Placement) -> PlacementConstraint:
    kind: PlacementType = "ANTI_AFFINITY" if placement.spread else "AFFINITY" if placement.together else "AFFINITY_WITH_CARDINALITY"
    scope: PlacementScope = "RACK" if "rack" in (placement.spread, placement.together) else "NODE"
    anywhere = kind == "AFFINITY_WITH_CARDINALITY"  # neither apart nor together: only the nodes are restricted
    return PlacementConstraint(
        kind,
        scope,
        target_tags=(role.name,),  # its own name: Hadoop before 3.4 demands exactly that (verified-versions 1.3)
        node_attributes=placement.attributes,
        node_partitions=(placement.partition,) if placement.partition else (),
        min_cardinality=0 if anywhere else None,
        max_cardinality=role.instances if anywhere else None,
    )
