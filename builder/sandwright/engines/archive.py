"""Docker archives of one layer, which every engine loads; and an image of empty directories.

The rules are those of moby's image/spec/v1.2.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, BinaryIO

from sandwright.engines.client import EngineClient

_DIRECTORIES = ("dev", "proc", "sys", "tmp", "etc", "run", "usr", "var")
_LIMIT = 60.0


def write_docker_archive(
    sink: BinaryIO, reference: str, platform: str, layer: bytes, config: Mapping[str, Any]
) -> None:
    """Write a Docker archive of one layer, small enough for memory.

    `layer` is a tar archive; `config` the image's configuration.
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
    name: str, kind: bytes = tarfile.REGTYPE, size: int = 0, mode: int = 0o755, link: str = ""
) -> tarfile.TarInfo:
    """A member that belongs to root, with no time."""
    member = tarfile.TarInfo(name)
    member.type, member.mode, member.size, member.linkname = kind, mode, size, link
    return member


@contextmanager
def empty_image(
    engine: EngineClient, platform: str, *, purpose: str, links: Mapping[str, str] = MappingProxyType({})
) -> Iterator[str]:
    """An image of empty directories that an engine has for the length of a `with`; give its reference.

    `purpose` is a part of its name, `links` are symbolic links at its root. Raise CommandFailed when the
    engine doesn't take the image.
    """
    reference = f"localhost/sandwright-{purpose}-{uuid.uuid4().hex[:12]}:latest"
    layer = _link_layer(links, reference)

    def write(sink: BinaryIO, name: str) -> None:
        write_docker_archive(sink, name, platform, layer, {"Cmd": ["/none"]})

    engine.load_archive(write, reference, timeout=_LIMIT)
    try:
        yield reference
    finally:
        engine.untag(reference)


def _link_layer(links: Mapping[str, str], comment: str) -> bytes:
    # The comment differs each time: an engine keeps equal images as one, which others may be removing.
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w", pax_headers={"comment": comment}) as tar:
        for name in _DIRECTORIES:
            # runc 1.1 gives a tmpfs the mode of the directory below it, and ignores the mount's options.
            tar.addfile(archive_member(name, tarfile.DIRTYPE, mode=0o1777 if name == "tmp" else 0o755))
        for name, target in links.items():
            tar.addfile(archive_member(name, tarfile.SYMTYPE, mode=0o644, link=target))
    return layer.getvalue()
