"""An image of empty directories: what an engine starts where nothing of an image is needed but a root."""

from __future__ import annotations

import io
import tarfile
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from sandwright import process
from sandwright.runtime.docker_archive import write_docker_archive

_DIRECTORIES = ("dev", "proc", "sys", "tmp", "etc", "run", "usr", "var")
_LIMIT = 60.0


@contextmanager
def empty_image(
    engine: str, platform: str, *, purpose: str, links: Mapping[str, str] = MappingProxyType({})
) -> Iterator[str]:
    """An image that an engine has for the length of a `with`, by its reference, in which `purpose` stands.

    `engine` is its client, docker or podman. `links` are symbolic links at its root. Raise CommandFailed when
    it doesn't take the image.
    """
    reference = f"localhost/sandwright-{purpose}-{uuid.uuid4().hex[:12]}:latest"
    with tempfile.TemporaryFile() as archive:
        write_docker_archive(archive, reference, platform, _layer(links, reference), {"Cmd": ["/none"]})
        archive.seek(0)
        process.run(engine, "load", "--quiet", stdin=archive, timeout=_LIMIT)
    try:
        yield reference
    finally:
        process.run(engine, "rmi", "--force", reference, timeout=_LIMIT, check=False)


def _layer(links: Mapping[str, str], comment: str) -> bytes:
    """With a comment of its own: an engine keeps equal images as one, which others are removing meanwhile."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w", pax_headers={"comment": comment}) as tar:
        for name in _DIRECTORIES:
            member = tarfile.TarInfo(name)
            member.type, member.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(member)
        for name, target in links.items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            tar.addfile(member)
    return layer.getvalue()
