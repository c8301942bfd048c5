"""Links in Airflow's UI: the application, its logs, and what the job serves. Each is an XCom, written as soon as it is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from submit_tf_job.airflow.versions import BaseOperatorLink

if TYPE_CHECKING:
    from submit_tf_job.api import Cluster

__all__ = ["ApplicationLink", "LogsLink", "TensorBoardLink", "links_at_start", "links_of_running"]


class _Link(BaseOperatorLink):
    """A link that stands in an XCom."""

    name = ""

    @property
    def xcom_key(self) -> str:
        """Key of the XCom; Airflow 3 reads it by itself."""
        return f"_link_{type(self).__name__}"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the address, "" while there is none."""
        from submit_tf_job.airflow.versions import XCom

        if getattr(operator, "links_known", True) is False:
            return ""  # Airflow 3 asks at the end of every try, and would log it as an error that there are none
        return str(XCom.get_value(ti_key=ti_key, key=self.xcom_key) or "")


class ApplicationLink(_Link):
    """The application's page at the ResourceManager."""

    name = "YARN application"


class LogsLink(_Link):
    """The logs of the deciding task, at its NodeManager; before that task runs, the application's page."""

    name = "Logs"


class TensorBoardLink(_Link):
    """What the role `tensorboard` serves, else the first port that any role serves."""

    name = "TensorBoard"


def links_at_start(cluster: Cluster, application_id: str) -> dict[str, str]:
    """Return the links of a job that was just submitted, by XCom key."""
    page = f"{cluster.settings.resource_managers[0]}/cluster/app/{application_id}"
    return {ApplicationLink().xcom_key: page, LogsLink().xcom_key: page, TensorBoardLink().xcom_key: ""}


def links_of_running(cluster: Cluster, name: str, application_id: str | None) -> dict[str, str]:
    """Ask which links a running job has more, by XCom key."""
    from submit_tf_job import api
    from submit_tf_job.description import links_of

    seen = api.in_detail(cluster, api.JobRef(name, application_id)).seen
    served = sorted(links_of(seen), key=lambda link: not link.task.startswith("tensorboard-"))
    found = {LogsLink().xcom_key: api.log_page(cluster, seen), TensorBoardLink().xcom_key: served[0].url if served else None}
    return {key: url for key, url in found.items() if url}
