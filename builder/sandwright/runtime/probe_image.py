"""The probe as an image, in both forms that runtimes take: a bundle, and an archive."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any, BinaryIO

from sandwright.engines.archive import archive_member, write_docker_archive
from sandwright.runtime.contract import StartableImage
from sandwright.runtime.probe import PROBE

PROGRAM = "probe"
FORBIDDEN = "/open/sandwright-was-here"
"""A file that can't be created: its directory is open to all users, and the root is read-only, so the error
must be EROFS. gVisor checks permissions first and would answer EACCES elsewhere.
"""

USER = 65532
"""The user of the image, where users can be chosen: some hosts deny other users calls that root may make."""

_OPEN = "open"
_DIRECTORIES = ("dev", "proc", "sys", "tmp", "etc", "run", _OPEN)


def probe_subject(
    platform: str, bundle: Path, rootfs: Path, *, rootless: tuple[int, int] | None
) -> StartableImage:
    """Write the probe's bundle into `bundle` and its root into `rootfs`; give it with its archive.

    `rootless` is the caller's uid and gid where runtimes are started without root.
    """
    for name in _DIRECTORIES:
        (rootfs / name).mkdir(parents=True)
    (rootfs / _OPEN).chmod(0o1777)
    program = PROBE.path(platform).read_bytes()
    (rootfs / PROGRAM).write_bytes(program)
    (rootfs / PROGRAM).chmod(0o755)
    (bundle / "config.json").write_text(json.dumps(_bundle_config(rootfs, rootless)))

    def write_archive(sink: BinaryIO, reference: str) -> None:
        config = {"Entrypoint": [f"/{PROGRAM}"], "User": f"{USER}:{USER}"}
        write_docker_archive(sink, reference, platform, _probe_layer(program), config)

    return StartableImage("probe", platform, bundle, write_archive)


def _bundle_config(rootfs: Path, rootless: tuple[int, int] | None) -> dict[str, Any]:
    namespaces = ["mount", "pid", "network", "ipc", "uts"]
    linux: dict[str, Any] = {}
    user = USER
    if rootless:
        user = 0
        namespaces.append("user")
        uid, gid = rootless
        linux["uidMappings"] = [{"containerID": 0, "hostID": uid, "size": 1}]
        linux["gidMappings"] = [{"containerID": 0, "hostID": gid, "size": 1}]
    return {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": user, "gid": user},
            "args": [f"/{PROGRAM}"],
            "env": ["PATH=/"],
            "cwd": "/",
            "capabilities": {},
            "noNewPrivileges": True,
        },
        "root": {"path": str(rootfs), "readonly": True},
        "hostname": "probe",
        "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
        "linux": {"namespaces": [{"type": kind} for kind in namespaces], **linux},
    }


def _probe_layer(program: bytes) -> bytes:
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for name in _DIRECTORIES:
            tar.addfile(archive_member(name, tarfile.DIRTYPE, mode=0o1777 if name == _OPEN else 0o755))
        tar.addfile(archive_member(PROGRAM, size=len(program)), io.BytesIO(program))
    return layer.getvalue()
