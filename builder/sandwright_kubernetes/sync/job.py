"""The Job of an uploaded project: a separate volume, filled before the command and read after it.

Everything else stays as rendered: the mounts, which are of that volume then, and the command's container,
which sees neither the image of the snapshot nor the programs beside it.
"""

from __future__ import annotations

import copy
from typing import Any

from sandwright_kubernetes.copier import COPIER
from sandwright_kubernetes.pod import TMP_LIMIT, UID, closed_container

PROGRAM = f"/{COPIER.name}"
RETURN = "return"
"""The container that reads the volume when the command has ended."""

FILL = "fill"
IMAGE, VOLUME = "/project", "/volume"
CARRIER_MEMORY = 128
"""MiB that each container of ours may use."""

_LIMITS = {
    "requests": {"cpu": "10m", "memory": "32Mi", "ephemeral-storage": "16Mi"},
    "limits": {"memory": f"{CARRIER_MEMORY}Mi", "ephemeral-storage": "16Mi"},
}

Json = dict[str, Any]


def with_project(job: Json, image: str, *, returns: bool) -> Json:
    """The Job with a project that comes out of an image, and is read afterwards where it `returns`."""
    made = copy.deepcopy(job)
    pod = made["spec"]["template"]["spec"]
    name = ""
    for volume in pod["volumes"]:
        if volume.pop("persistentVolumeClaim", None) is not None:
            name = volume["name"]
            volume["emptyDir"] = {"sizeLimit": TMP_LIMIT}
    fill, back = sync_containers(image, name)
    pod["initContainers"] = [fill]
    if returns:
        pod["containers"].append(back)
    return made


def sync_containers(image: str = "", volume: str = "project") -> tuple[Json, Json]:
    """The container that fills the volume, and the one that reads it."""
    mount = {"name": volume, "mountPath": VOLUME}
    return (
        _sync_container(FILL, image, [PROGRAM, "fill", IMAGE, VOLUME], mount),
        _sync_container(RETURN, image, [PROGRAM, "wait"], mount),
    )


def diff_command(limit: int) -> list[str]:
    """The container's command that lists the changes after the run."""
    return [PROGRAM, "diff", IMAGE, VOLUME, str(limit)]


def _sync_container(name: str, image: str, command: list[str], mount: Json) -> Json:
    """A container as closed as the sandbox's. It reads the command's files, so it is not trusted here."""
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": command,
        "resources": copy.deepcopy(_LIMITS),
        "securityContext": {"runAsUser": UID, "runAsGroup": UID, **closed_container()},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [mount],
    }
