"""The links of a job in Airflow's UI: each is an XCom, written as soon as the address is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from submit_tf_job.airflow.airflow_names import BaseOperatorLink

if TYPE_CHECKING:
    from submit_tf_job.sdk.client import JobHandle


class _Link(BaseOperatorLink):
    """A link whose address is an XCom."""

    name = ""

    @property
    def xcom_key(self) -> str:
        """The XCom's key, which Airflow reads by itself."""
        return f"_link_{type(self).__name__}"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the address from the XCom of a task instance; "" if it is not known yet."""
        from airflow.sdk import BaseXCom

        if getattr(operator, "links_known", True) is False:
            # Airflow calls this at the end of every try, and would log missing links as an error
            return ""
        return str(BaseXCom.get_value(ti_key=ti_key, key=self.xcom_key) or "")


class ApplicationLink(_Link):
    """The application's page at the ResourceManager."""

    name = "YARN application"


class LogsLink(_Link):
    """The logs of the deciding task, on its NodeManager.

    Before that task runs, the link leads to the application's page.
    """

    name = "Logs"


class TensorBoardLink(_Link):
    """A link to the port that the role `tensorboard` serves; without that role, to the first port
    of any role. An address in a Docker network of a node is left out, because no browser reaches
    it.
    """

    name = "TensorBoard"


def links_at_start(handle: JobHandle) -> dict[str, str]:
    """Return the links of a newly submitted job, by XCom key."""
    return {
        ApplicationLink().xcom_key: handle.page,
        LogsLink().xcom_key: handle.page,
        TensorBoardLink().xcom_key: "",
    }


def links_of_running(handle: JobHandle) -> tuple[dict[str, str], bool]:
    """Return the links of a running job.

    Returns:
        The addresses by XCom key; and whether they are complete: a sidecar may start later than the
        job, and reports its port only then.
    """
    found = handle.links()
    served = sorted(found.served, key=lambda link: not link.task.startswith("tensorboard-"))
    # A browser cannot reach an address of a Docker network on a node.
    urls = {
        LogsLink().xcom_key: found.logs,
        TensorBoardLink().xcom_key: next((link.url for link in served if not link.via), None),
    }
    known = {key: url for key, url in urls.items() if url}
    return known, bool(known) and not (found.serves and not served)
