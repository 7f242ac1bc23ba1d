"""Small file trees of an image, the additions of a declaration, and the files below a directory."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sandwright.image.declared import Declared
from sandwright.image.overlay import Overlay
from sandwright.image.tree import FileNode, FileTree, PackageContents
from sandwright.rootfs.tar.entry import EntryKind

EPOCH = 1_700_000_000


def paths_below(folder: Path) -> set[str]:
    """All paths; some may be removed meanwhile, on which `Path.rglob` fails."""
    return {
        (Path(base) / name).relative_to(folder).as_posix()
        for base, folders, files in os.walk(folder)
        for name in (*folders, *files)
    }


def tree_of(*paths: str, kept: Mapping[str, bytes] | None = None) -> FileTree:
    """A tree. `a/` is a directory, `a -> b` a link, anything else a file; parents are created."""
    tree = FileTree()
    for path in paths:
        name, arrow, target = path.partition(" -> ")
        parts = name.rstrip("/").split("/")
        for up in range(1, len(parts)):
            above = "/".join(parts[:up]).encode()
            tree.add(above, tree.get(above) or FileNode(EntryKind.DIRECTORY, "base", 0o755, 0, 0, 0))
        kind = EntryKind.SYMLINK if arrow else EntryKind.DIRECTORY if name.endswith("/") else EntryKind.FILE
        tree.add(name.rstrip("/").encode(), FileNode(kind, "base", 0o644, 0, 0, 0, target.encode()))
    tree.kept = {path.encode(): content for path, content in (kept or {}).items()}
    return tree


def overlay_on(*paths: str, kept: Mapping[str, bytes] | None = None) -> Overlay:
    return Overlay(tree_of(*paths, kept=kept), epoch=EPOCH)


def shown(overlay: Overlay) -> dict[str, str | bytes]:
    """Path → content, link target, or mode of a directory."""
    found: dict[str, str | bytes] = {}
    for addition in overlay:
        entry = addition.entry
        assert entry.mtime_ns == EPOCH * 10**9
        match entry.kind:
            case EntryKind.FILE:
                found[entry.path.decode()] = b"".join(addition.content())
                assert len(found[entry.path.decode()]) == entry.size
            case EntryKind.SYMLINK:
                found[entry.path.decode()] = f"-> {entry.link.decode()}"
            case _:
                found[entry.path.decode()] = f"{entry.mode:04o} {entry.uid}:{entry.gid}"
    return found


def given(
    *packages: PackageContents, wanted: Callable[[str], bool] = lambda _: True, **more: Sequence[object]
) -> Declared:
    return Declared("amd64", packages, wanted, **more)  # type: ignore[arg-type]
