"""Commands that move images to and from registries."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from sandwright.cli import console
from sandwright.cli.arguments import build_directory, image_path
from sandwright.cli.image_arguments import registry_settings
from sandwright.errors import UsageError
from sandwright.image.cache import Cache, default_cache
from sandwright.image.remote import open_layout, pull_layout
from sandwright.registry.attachments import push_attachments
from sandwright.registry.push import push
from sandwright.registry.reference import parse_reference
from sandwright.registry.repository import open_repository


def push_image(
    *,
    image: str,
    reference: str,
    tag: Sequence[str] | None = None,
    mount_from: Sequence[str] | None = None,
    ref: str = "",
    output: str = "",
    insecure: Sequence[str] | None = None,
    ca_file: str = "",
    authfile: str = "",
) -> None:
    """Push an image with all its platforms by digest, read it back, compare it, and tag it last."""
    target = parse_reference(reference)
    if target.digest:
        raise UsageError(f"'{reference}': push to a tag, not to a digest: the image determines its digest")
    layout = open_layout(image_path(image, build_directory(output)), ref or None)
    tags = [target.what, *(tag or ())]
    with (
        console.watching() as progress,
        open_repository(
            target, registry_settings(insecure or (), ca_file, authfile), push=True
        ) as repository,
    ):
        done = push(
            repository,
            layout.graph,
            layout.open_blob,
            tags=tags,
            mount_from=mount_from or (),
            progress=progress,
        )
        more = push_attachments(
            repository, layout.graph, layout.attachments, layout.open_blob, progress=progress
        )
    evidence = f", and {len(more)} parts of its evidence" if more else ""
    sent = f"sent {len(done.sent)} of {len(layout.graph.nodes) + len(layout.graph.blobs)} parts{evidence}"
    moved = f", tagged {', '.join(done.tagged)}" if done.tagged else ""
    console.line(f"{target.name}@{done.digest}: {sent + moved if done.changed else 'nothing has changed'}")


def pull_image(
    *,
    reference: str,
    to: str = "",
    platform: Sequence[str] | None = None,
    evidence: bool = True,
    output: str = "",
    insecure: Sequence[str] | None = None,
    ca_file: str = "",
    authfile: str = "",
) -> None:
    """Pull an image into an OCI layout, and compare every part with its digest."""
    source = parse_reference(reference)
    where = Path(to) if to else build_directory(output) / "pulled" / source.repository.replace("/", "-")
    with console.watching() as progress:
        digest = pull_layout(
            source,
            where,
            platforms=platform or (),
            evidence=evidence,
            settings=registry_settings(insecure or (), ca_file, authfile),
            cache=Cache(default_cache(os.environ)),
            progress=progress,
        )
    console.line(f"{where}: {source.name}@{digest}")
