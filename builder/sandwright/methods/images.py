"""Where the unpacked root of a policy's image is, for the methods that run on one without an engine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from sandwright.errors import HostError
from sandwright.looks import Looks
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.resources import data_path
from sandwright.rootfs.bundles.bundle import unpacked
from sandwright.rootfs.images.source import open_image

VARIABLE = "SANDWRIGHT_BUILD"
"""Names the directory that `build-images` wrote, where it is none of those that are looked at."""

ROOTFS = "SANDWRIGHT_ROOTFS"
"""Names the unpacked root itself, for the launcher, and from the caller."""


def rootfs(policy: ResolvedPolicy, looks: Looks) -> Path:
    """The root file system of a policy's image, unpacked if it has not been.

    Raise HostError when the image is nowhere, with the command that makes it; and when it lies where the
    sandbox could write, as what is there decides what the next one sees.
    """
    if given := os.environ.get(ROOTFS):
        looks.ask("variable", ROOTFS)
        return _untouched(Path(given).absolute(), policy, f"{ROOTFS} names it")
    looks.ask_all([("variable", VARIABLE), ("variable", ROOTFS)])
    tried = []
    for output in _outputs(policy):
        layout = output / "images" / policy.image
        looks.ask("digest", str(layout / "index.json"))
        if (layout / "index.json").exists():
            _untouched(output, policy, f"{VARIABLE} can name another directory")
            image = open_image(layout, platform=policy.facts.platform)
            root = unpacked(image, output / "rootfs", rootless=policy.facts.uid != 0).path.absolute()
            looks.ask("identity", str(root))
            return root
        tried.append(str(output))
    raise HostError(
        f"the image {policy.image} is not in {' or '.join(tried)}: "
        f"sandwright build-images --name {policy.image}, or set {VARIABLE} to where it was built"
    )


def layouts(policy: ResolvedPolicy, name: str, looks: Looks) -> Iterator[Path]:
    """The layouts of an image that were built here, the one that is taken first.

    Raise HostError when it lies where the sandbox could write.
    """
    looks.ask("variable", VARIABLE)
    for output in _outputs(policy):
        index = output / "images" / name / "index.json"
        looks.ask("digest", str(index))
        if index.exists():
            _untouched(output, policy, f"{VARIABLE} can name another directory")
            yield index.parent


def our_layout(name: str) -> Path | None:
    """The layout of an image that no project decides about: in $SANDWRIGHT_BUILD, or this checkout's."""
    given = os.environ.get(VARIABLE)
    layout = (Path(given).absolute() if given else data_path("images").parent / "build") / "images" / name
    return layout if (layout / "index.json").exists() else None


def _outputs(policy: ResolvedPolicy) -> Iterator[Path]:
    """The directories that images may have been built into: the one named, or those here."""
    if given := os.environ.get(VARIABLE):
        yield Path(given).absolute()
        return
    places = [Path.cwd(), Path(policy.facts.project), data_path("images").parent]
    yield from dict.fromkeys(place / "build" for place in places)


def _untouched(place: Path, policy: ResolvedPolicy, helps: str) -> Path:
    real = os.path.realpath(place)
    if policy.filesystem.tree.changes_host(real):
        raise HostError(
            f"{place} is where the sandbox can write, and would decide what the next one sees; {helps}"
        )
    return place
