"""Links in Airflow's UI: the application, its logs, and the ports that the job serves.

Each is an XCom, written as soon as the address is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from submit_tf_job.airflow.airflow_names import BaseOperatorLink

if TYPE_CHECKING:
    from submit_tf_job.operations import Cluster

__all__ = ["ApplicationLink", "LogsLink", "TensorBoardLink", "links_at_start", "links_of_running"]


class _Link(BaseOperatorLink):
    """A link whose address is an XCom."""

    name = ""

    @property
    def xcom_key(self) -> str:
        """The XCom's key, which Airflow reads by itself."""
        return f"_link_{type(self).__name__}"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the address, or "" if it is not known yet."""
        from airflow.sdk import BaseXCom

        if getattr(operator, "links_known", True) is False:
            # Airflow calls this at the end of every try, and would log missing links as an error
            return ""
        return str(BaseXCom.get_value(ti_key=ti_key, key=self.xcom_key) or "")


class ApplicationLink(_Link):
    """The application's page at the ResourceManager."""

    name = "YARN application"


class LogsLink(_Link):
    """The logs of the deciding task at its NodeManager.

    Before that task runs, it is the application's page.
    """

    name = "Logs"


class TensorBoardLink(_Link):
    """The port that the role `tensorboard` serves, else the first port of any role."""

    name = "TensorBoard"


def links_at_start(cluster: Cluster, application_id: str) -> dict[str, str]:
    """Return the links of a newly submitted job, by XCom key."""
    page = f"{cluster.settings.resource_managers[0]}/cluster/app/{application_id}"
    return {
        ApplicationLink().xcom_key: page,
        LogsLink().xcom_key: page,
        TensorBoardLink().xcom_key: "",
    }


def links_of_running(cluster: Cluster, job: str) -> tuple[dict[str, str], bool]:
    """Return the links of a running job, by its name or application id.

    Returns:
        Address by XCom key; and whether these are all: a sidecar may start later than the job, and
        reports its port only then.
    """
    from submit_tf_job import operations
    from submit_tf_job.container import contract
    from submit_tf_job.operations.detail import links_of

    seen = operations.status_of(cluster, operations.find(cluster, job))
    served = sorted(links_of(seen), key=lambda link: not link.task.startswith("tensorboard-"))
    # A browser cannot reach an address of a Docker network on a node.
    found = {
        LogsLink().xcom_key: operations.log_page(cluster, seen),
        TensorBoardLink().xcom_key: next((link.url for link in served if not link.via), None),
    }
    serves = any(contract.PROPERTY_PORTS in component.properties for component in seen.components)
    known = {key: url for key, url in found.items() if url}
    return known, bool(known) and not (serves and not served)
