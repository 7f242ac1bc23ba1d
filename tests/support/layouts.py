"""Images in all their forms, written byte by byte, without the code under test."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from support import tars

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
REF = "org.opencontainers.image.ref.name"

Json = dict[str, Any]

HELLO = tars.archive(
    tars.folder(b"bin"),
    tars.file(b"bin/hello", b"#!/bin/sh\n", mode=0o755),
    tars.folder(b"etc"),
    tars.file(b"etc/passwd", b"root:x:0:0:root:/root:/bin/sh\napp:x:1000:1001::/home/app:/bin/sh\n"),
    tars.file(b"etc/group", b"root:x:0:\napp:x:1001:\nextra:x:2000:app\n"),
)
"""The archive of a layer with a program and two accounts."""


class Layout:
    """An OCI layout in the making."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "blobs" / "sha256").mkdir(parents=True)
        (path / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')

    def blob(self, content: bytes, media_type: str, **more: Any) -> Json:
        """Store a blob and give its descriptor."""
        digest = hashlib.sha256(content).hexdigest()
        (self.path / "blobs" / "sha256" / digest).write_bytes(content)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content), **more}

    def document(self, content: Any, media_type: str, **more: Any) -> Json:
        """Store a JSON document and give its descriptor."""
        return self.blob(json.dumps(content).encode(), media_type, **more)

    def image(
        self,
        *archives: bytes,
        config: Mapping[str, Any] | None = None,
        arch: str = "amd64",
        change_config: Mapping[str, Any] | None = None,
        change: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Json:
        """Store an image of gzipped layers; give the descriptor of its manifest."""
        return self.document(
            self.manifest(*archives, config=config, arch=arch, change_config=change_config)
            | dict(change or {}),
            MANIFEST,
            **more,
        )

    def manifest(
        self,
        *archives: bytes,
        config: Mapping[str, Any] | None = None,
        arch: str = "amd64",
        change_config: Mapping[str, Any] | None = None,
    ) -> Json:
        """A manifest whose config and layers are stored; the manifest itself is not."""
        layers = [self.blob(gzip.compress(raw, 1, mtime=0), f"{LAYER}+gzip") for raw in archives]
        document = image_config(archives, config, arch) | dict(change_config or {})
        return {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self.document(document, CONFIG),
            "layers": layers,
        }

    def index(self, *manifests: Json, **more: Any) -> Path:
        """Write index.json."""
        document = {"schemaVersion": 2, "mediaType": INDEX, "manifests": list(manifests), **more}
        (self.path / "index.json").write_text(json.dumps(document))
        return self.path


def image_config(archives: Sequence[bytes], config: Mapping[str, Any] | None, arch: str = "amd64") -> Json:
    """The configuration of an image."""
    return {
        "os": "linux",
        "architecture": arch,
        "config": {"Cmd": ["/bin/hello"]} if config is None else dict(config),
        "rootfs": {
            "type": "layers",
            "diff_ids": [f"sha256:{hashlib.sha256(raw).hexdigest()}" for raw in archives],
        },
    }


def named(descriptor: Json, name: str) -> Json:
    """The descriptor with a reference name."""
    return {**descriptor, "annotations": {**descriptor.get("annotations", {}), REF: name}}


def platform(arch: str, system: str = "linux", **more: str) -> Json:
    """The `platform` of a descriptor."""
    return {"os": system, "architecture": arch, **more}


def simple(path: Path, *archives: bytes, config: Mapping[str, Any] | None = None) -> Path:
    """A layout with one image, by default of `HELLO`."""
    layout = Layout(path)
    return layout.index(layout.image(*(archives or (HELLO,)), config=config))


def tar_of(path: Path, folder: Path, *, prefix: str = "", mode: str = "w") -> Path:
    """A tar archive of a directory, as users make them."""
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for item in sorted(folder.rglob("*")):
            archive.add(item, f"{prefix}{item.relative_to(folder)}", recursive=False)
    return path


def tar_with(path: Path, members: Sequence[tuple[str, bytes | str]]) -> Path:
    """A tar archive of files (bytes) and symbolic links (text), in order."""
    with tarfile.open(path, "w") as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            if isinstance(content, str):
                info.type, info.linkname = tarfile.SYMTYPE, content
                archive.addfile(info)
            else:
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return path


def docker_members(
    *archives: bytes,
    config: Mapping[str, Any] | None = None,
    tags: Sequence[str] = ("example/app:1",),
    change_config: Mapping[str, Any] | None = None,
) -> list[tuple[str, bytes | str]]:
    """The archive format of Docker before release 25: a directory per layer, a repeated layer as a link."""
    raw = json.dumps(image_config(archives, config) | dict(change_config or {})).encode()
    name = f"{hashlib.sha256(raw).hexdigest()}.json"
    members: list[tuple[str, bytes | str]] = [(name, raw)]
    seen: dict[bytes, str] = {}
    paths = []
    for number, archive in enumerate(archives):
        folder = f"{number:064x}"
        content: bytes | str = f"../{seen[archive]}/layer.tar" if archive in seen else archive
        seen.setdefault(archive, folder)
        members += [(f"{folder}/VERSION", b"1.0"), (f"{folder}/layer.tar", content)]
        paths.append(f"{folder}/layer.tar")
    row = {"Config": name, "RepoTags": list(tags) or None, "Layers": paths}
    return [*members, ("manifest.json", json.dumps([row]).encode())]
