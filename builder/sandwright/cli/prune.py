"""The command that frees disk space: `sandwright prune-images`."""

from __future__ import annotations

from sandwright.cli import console
from sandwright.cli.arguments import build_directory
from sandwright.image.prune import remove_rootfs, stale_rootfs


def prune_images(*, output: str = "", dry_run: bool = False) -> None:
    """Remove unpacked root file systems of images that are not built any more."""
    stale = stale_rootfs(build_directory(output))
    for each in stale:
        if not dry_run:
            remove_rootfs(each)
        console.line(f"{each.path}: {console.size(each.bytes)}{'' if dry_run else ' removed'}")
    total = console.size(sum(each.bytes for each in stale))
    console.line(f"{len(stale)} root file systems, {total}" if stale else "there is nothing to remove")
