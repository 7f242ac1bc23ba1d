"""`sandwright prune-images`: removes unpacked root file systems that no image and no bundle needs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sandwright.documents.strictjson import loads
from sandwright.errors import IntegrityError
from sandwright.image.existing import read_layout
from sandwright.rootfs.securejoin import Root
from sandwright.rootfs.unpacking.store import explained, locked, remove_tree

_ROOTLESS = "-rootless"
_KINDS = ("sha256-", "minimal-")


@dataclass(frozen=True)
class StaleRootfs:
    """A root file system to remove. `bytes` are those of its files."""

    path: Path
    bytes: int


def stale_rootfs(output: Path) -> list[StaleRootfs]:
    """The roots in `output/rootfs` of no image in `output/images`, no bundle in `output/bundles`, no mount.

    Raise IntegrityError for an unreadable image, because its blobs are unknown.
    """
    store = output / "rootfs"
    if not store.is_dir():
        return []
    needed = {*_of_images(output / "images"), *_of_bundles(output / "bundles")}
    mounted = _mounted_sources()
    with explained(store):
        found = [
            path
            for path in sorted(store.iterdir())
            if path.name.startswith(_KINDS) and path.is_dir() and not path.is_symlink()
        ]
    return [
        StaleRootfs(path, _rootfs_bytes(path))
        for path in found
        if path.name.removesuffix(_ROOTLESS) not in needed and not _is_mounted(path, mounted)
    ]


def remove_rootfs(stale: StaleRootfs) -> None:
    """Remove a root file system and its record."""
    path = stale.path
    with explained(path), locked(path):
        path.with_name(f"{path.name}.json").unlink(missing_ok=True)  # first: without it, the root is not used
        remove_tree(path)


def _of_images(images: Path) -> Iterator[str]:
    for layout in sorted(images.iterdir()) if images.is_dir() else ():
        if not layout.name.startswith("."):
            for image in read_layout(layout).images.values():
                yield image.manifest.digest.replace(":", "-")


def _of_bundles(bundles: Path) -> Iterator[str]:
    for config in sorted(bundles.glob("*/config.json")):
        try:
            root = loads(config.read_bytes())["root"]["path"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise IntegrityError(f"cannot read {config}: {error}") from None
        yield Path(str(root)).name.removesuffix(_ROOTLESS)


def _mounted_sources() -> set[str]:
    """The mounts of every namespace that can be inspected: paths from the root of the file system."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/mountinfo"):
        with contextlib.suppress(OSError):
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                found.add(line.split(" ", 4)[3])  # proc_pid_mountinfo(5): the fourth field
    return found


def _is_mounted(path: Path, sources: set[str]) -> bool:
    """Whether a directory is a mount's source: a source is the end of the path, below where its disk is."""
    whole = str(path.resolve()).replace(" ", "\\040")
    return any(whole.endswith(source) for source in sources if source.endswith(f"/{path.name}"))


def _rootfs_bytes(path: Path) -> int:
    with Root(path) as root:
        return root.measure()[1]
