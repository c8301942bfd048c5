"""Write the job specs of `notebook` and `tensorboard`: one task that serves a page until it is
stopped, or until its lifetime ends.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import Any

from submit_tf_job.dialects.conversion import write
from submit_tf_job.host.located.tree import Location, Table, from_python

PORT = "http"
TOKEN_FILE = ".jupyter-token"  # in the task's working directory  # noqa: S105 - a name
# The token is in no argument, and in no variable that YARN shows: Jupyter reads the variable.
_JUPYTER = f"""\
export JUPYTER_TOKEN=$(cat {TOKEN_FILE})
flags="--ip 0.0.0.0 --port $TFJOB_PORT_HTTP --no-browser --allow-root"
if command -v jupyter-lab >/dev/null; then exec jupyter lab $flags; fi
exec jupyter notebook $flags
"""
_TENSORBOARD = (
    "exec tensorboard --logdir tfjob-inputs --port $TFJOB_PORT_HTTP --bind_all --reload_interval 0"
)
_LONGEST_NAME = 28  # of an input before a number; with it, 32 (`_DATA_NAME` of `keys.py`)
# names of outputs that hold events
_EVENTS = re.compile(r"board|curve|event|log|summar|^tb$")


@dataclass(frozen=True)
class Page:
    """The options that `notebook` and `tensorboard` share.

    Attributes:
        name: The job's name.
        lifetime: How long the job may run.
        task: The role's other keys beside its port: memory, cpus, gpus.
        image: The image; None for the image in the settings.
        home: The URI of the user's home directory on HDFS; None if no HDFS is configured.
    """

    name: str
    lifetime: str
    task: Mapping[str, Any]
    image: str | None
    home: str | None = None


def notebook_spec(
    page: Page, token: str, files: Sequence[str], is_free: Callable[[str], bool]
) -> dict[str, Any]:
    """Return the job spec of a notebook. Without `page.home` its notebooks are not stored.

    They are stored where nothing is: the notebooks of an earlier session stay. A session that is
    stopped stores them beside that place, so only one that was shut down takes it.

    Args:
        page: The options.
        token: The path on this host of the file that contains Jupyter's token.
        files: Further files that are sent.
        is_free: Returns whether nothing is stored at a URI.
    """
    place = f"{page.home}/{page.name}/notebooks"
    places = chain([place], (f"{place}-{number}" for number in count(2)))
    notebooks = {
        "uri": next(filter(is_free, places)) if page.home else "",
        "upload": True,
        "collect": ["*.ipynb"],
        "on_failure": "keep",
    }
    return {
        **_spec_of_page(page, "notebook", _JUPYTER),
        "files": [*files, {"src": token, "dst": TOKEN_FILE}],
        "stop_grace": "30s",
        **({"outputs": {"notebooks": notebooks}} if page.home else {}),
    }


def tensorboard_spec(page: Page, uris: Mapping[str, str]) -> dict[str, Any]:
    """Return the job spec of a TensorBoard that shows downloaded copies of directories; `uris` has
    the URI of each directory by the name of its input.
    """
    inputs = {name: {"uri": uri, "download": True} for name, uri in uris.items()}
    return {**_spec_of_page(page, "tensorboard", _TENSORBOARD), "inputs": inputs}


def _spec_of_page(page: Page, role: str, command: str) -> dict[str, Any]:
    return {
        "name": page.name,
        **({"image": page.image} if page.image else {}),
        **({"hadoop": {"conf": "inline"}} if page.home else {}),
        "strategy": "custom",
        "deciding_role": role,
        "command": command,
        "roles": {role: {**page.task, "ports": {PORT: "auto"}}},
        "lifetime": page.lifetime,
    }


def events_of(outputs: Mapping[str, str]) -> dict[str, str]:
    """Return name → URI of those outputs of a job whose names suggest that they contain events; if
    there are none, of all outputs.
    """
    return {name: uri for name, uri in outputs.items() if _EVENTS.search(name)} or dict(outputs)


def input_name(text: str, taken: Mapping[str, str]) -> str:
    """Return a valid name for an input, made from a job's name or from the end of a URI; it ends in
    a number if `taken` already has the name.
    """
    name = re.sub(r"[^a-z0-9]+", "_", posixpath.basename(text.rstrip("/")).lower()).strip("_")
    name = (name if name[:1].isalpha() else f"run_{name}")[:_LONGEST_NAME].rstrip("_")
    numbered = (f"{name}_{number}" for number in count(1))
    return name if name not in taken else next(one for one in numbered if one not in taken)


def as_text(spec: Mapping[str, Any], command: str) -> tuple[Table, str]:
    """Return a job spec as a located tree, and as the text of a file.

    Args:
        spec: The job spec.
        command: The command that made the job spec, for locations and for the first line.
    """
    tree = from_python(dict(spec), Location(command))
    assert isinstance(tree, Table)
    return tree, write(tree, f"Made by submit_tf_job {command}", ())
