"""Docker archives of one layer: the form of an image that every engine loads."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from typing import Any, BinaryIO


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
            tar.addfile(archive_member(name, size=len(content)), io.BytesIO(content))


def archive_member(
    name: str, kind: bytes = tarfile.REGTYPE, size: int = 0, mode: int = 0o755
) -> tarfile.TarInfo:
    """A member of root's, with no time."""
    member = tarfile.TarInfo(name)
    member.type = kind
    member.mode = mode
    member.size = size
    return member
