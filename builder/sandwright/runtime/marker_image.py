"""The marker program as an image, in both forms that runtimes take: a bundle, and an archive."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from sandwright.runtime.contract import Subject
from sandwright.runtime.marker import marker_program

PROGRAM = "marker"
FORBIDDEN = b"/open/sandwright-was-here"
"""What the program tries to create, in a directory where anybody may; the root is read-only, so it must be
denied with EROFS. gVisor asks for permissions first and would say EACCES elsewhere.
"""

USER = 65532
"""Whom the marker runs as, where users can be chosen: some hosts deny to others what they allow to root."""

_OPEN = "open"
_DIRECTORIES = ("dev", "proc", "sys", "tmp", "etc", "run", _OPEN)


def marker_subject(
    platform: str, word: bytes, directory: Path, *, rootless: tuple[int, int] | None
) -> Subject:
    """Write the marker's bundle into `directory`, an empty one, and give it with its archive.

    `rootless` is the caller's uid and gid where runtimes are started without root.
    """
    rootfs = directory / "rootfs"
    for name in _DIRECTORIES:
        (rootfs / name).mkdir(parents=True)
    (rootfs / _OPEN).chmod(0o1777)
    program = marker_program(platform.split("/")[1], word, FORBIDDEN)
    (rootfs / PROGRAM).write_bytes(program)
    (rootfs / PROGRAM).chmod(0o755)
    (directory / "config.json").write_text(json.dumps(_config(rootless)))

    def write_archive(sink: BinaryIO, reference: str) -> None:
        config = {"Entrypoint": [f"/{PROGRAM}"], "User": f"{USER}:{USER}"}
        write_docker_archive(sink, reference, platform, _layer(program), config)

    return Subject("marker", platform, directory, write_archive)


def _config(rootless: tuple[int, int] | None) -> dict[str, Any]:
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
        "root": {"path": "rootfs", "readonly": True},
        "hostname": "marker",
        "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
        "linux": {"namespaces": [{"type": kind} for kind in namespaces], **linux},
    }


def _layer(program: bytes) -> bytes:
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for name in _DIRECTORIES:
            tar.addfile(_member(name, tarfile.DIRTYPE, mode=0o1777 if name == _OPEN else 0o755))
        tar.addfile(_member(PROGRAM, size=len(program)), io.BytesIO(program))
    return layer.getvalue()


def write_docker_archive(
    sink: BinaryIO, reference: str, platform: str, layer: bytes, config: Mapping[str, Any]
) -> None:
    """A Docker archive of one layer, small enough for memory: the form that every engine loads.

    Its rules are those of moby's image/spec/v1.2. `layer` is a tar archive; `config` the image's
    configuration.
    """
    operating_system, architecture = platform.split("/")[:2]
    digest = hashlib.sha256(layer).hexdigest()
    document = {
        "os": operating_system,
        "architecture": architecture,
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    encoded = json.dumps(document).encode()
    config_name = f"{hashlib.sha256(encoded).hexdigest()}.json"
    manifest = [{"Config": config_name, "RepoTags": [reference], "Layers": ["layer.tar"]}]
    files = {config_name: encoded, "layer.tar": layer, "manifest.json": json.dumps(manifest).encode()}
    with tarfile.open(fileobj=sink, mode="w|") as tar:
        for name, content in files.items():
            tar.addfile(_member(name, size=len(content)), io.BytesIO(content))


def _member(name: str, kind: bytes = tarfile.REGTYPE, size: int = 0, mode: int = 0o755) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type = kind
    member.mode = mode
    member.size = size
    return member
