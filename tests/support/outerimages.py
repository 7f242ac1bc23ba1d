"""The image `gvisor` as a test uses it: Debian 13's runsc, this machine's busybox, our session program."""

from __future__ import annotations

import contextlib
import io
import tarfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sandwright import process
from sandwright.resources import data_path
from support import debian13, enginehosts

DIRECTORIES = (
    "bin",
    "dev",
    "etc",
    "host",
    "proc",
    "run/sandwright",
    "sandwright/rootfs",
    "sys",
    "tmp",
    "usr/bin",
)


@dataclass(frozen=True)
class OuterHost:
    """An engine with the image, under a separate name."""

    engine: enginehosts.EngineHost
    image: str


@contextlib.contextmanager
def outer_host(name: str) -> Iterator[OuterHost]:
    """The engine with the image, for the length of a `with`."""
    with enginehosts.engine_host(name) as host:
        image = f"sandwright-outer-{uuid.uuid4().hex[:12]}:latest"
        process.run(host.program, "import", "-", image, stdin=archive(), env=host.environment, timeout=120)
        try:
            yield OuterHost(host, image)
        finally:
            host.run("rmi", "--force", image, check=False)


def archive() -> bytes:
    """The files of the image that matter, as an archive."""
    sink = io.BytesIO()
    runsc = debian13.unpacked("runsc", "usr/bin/runsc") / "usr/bin/runsc"
    files = data_path("images", "gvisor", "files")
    with tarfile.open(fileobj=sink, mode="w") as tar:
        for directory in DIRECTORIES:
            entry = tarfile.TarInfo(directory)
            entry.type, entry.mode = (
                tarfile.DIRTYPE,
                0o1777 if directory.startswith(("tmp", "run/")) else 0o755,
            )
            tar.addfile(entry)
        for name in ("hosts", "resolv.conf"):
            tar.addfile(tarfile.TarInfo(f"etc/{name}"))
        tar.add(process.which("busybox"), "bin/busybox", filter=_owned_by_root)
        tar.add(runsc, "usr/bin/runsc", filter=_owned_by_root)
        for name in ("session", "bundle.awk"):
            tar.add(files / name, f"sandwright/{name}", filter=_owned_by_root)
    return sink.getvalue()


def _owned_by_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.mode |= 0o444
    return entry


def unpacked_root(folder: Path) -> Path:
    """A root of busybox for the sandboxes, with the paths that an engine's files cover."""
    folder.mkdir()
    with tarfile.open(fileobj=io.BytesIO(enginehosts.archive())) as tar:
        tar.extraction_filter = getattr(tarfile, "tar_filter", None)  # Debian 12's Python 3.11.2 has none
        tar.extractall(folder)
    for name in ("hosts", "resolv.conf", "passwd", "group"):
        (folder / "etc" / name).touch()
    folder.chmod(0o755)
    return folder
