"""Unpacked roots of a policy's image, for the methods that run on one without an engine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from sandwright import user_dirs
from sandwright.errors import HostError
from sandwright.inputs import LiveHost
from sandwright.methods.contract import Notify, quiet
from sandwright.policy.load import built_in
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.trusted import BUILD, ROOTFS, default_build
from sandwright.progress import SILENT, ProgressStep
from sandwright.rootfs.bundles.bundle import unpacked
from sandwright.rootfs.images.source import Image, open_image


def how_to_build(image: str, platform: str) -> str:
    """The remedy for a missing image, for one platform: emulated ones take minutes."""
    return (
        f"sandwright build-images --name {image} --platform {platform} (or `sandwright run --build`), "
        f"or set {BUILD} to where it was built"
    )


def rootfs(policy: ResolvedPolicy, inputs: LiveHost, *, notify: Notify = quiet) -> Path:
    """The image that a run takes: the root file system of the policy's, unpacked if it has not been.

    Raise HostError when the image is missing, with the command that builds it; when the sandbox could write
    there, since it would then control the next sandbox; and when its source is not trusted.
    """
    if configured := os.environ.get(ROOTFS):
        inputs.ask("variable", ROOTFS)
        return _untouched(Path(configured).absolute(), policy, f"{ROOTFS} names it")
    inputs.ask_all([("variable", BUILD), ("variable", ROOTFS)])
    tried = []
    for output in _outputs(policy):
        layout = output / "images" / policy.image
        inputs.content(str(layout / "index.json"))
        if _layout_exists(layout):
            _untouched(output, policy, f"{BUILD} can name another directory")
            _refuse_foreign_build(output)
            store = store_of(output)
            _untouched(store, policy, "XDG_CACHE_HOME can name another directory")
            image = _open_layout(layout, policy)
            root = unpacked(
                image, store, rootless=policy.facts.uid != 0, progress=_Once(policy, image, notify)
            ).path.absolute()
            inputs.ask("stamp", str(root))
            return root
        tried.append(str(output))
    raise HostError(
        f"the image {policy.image} is not in {' or '.join(tried)}: "
        f"{how_to_build(policy.image, policy.facts.platform)}"
    )


class _Once:
    """Reports the unpacking of an image at its first layer."""

    def __init__(self, policy: ResolvedPolicy, image: Image, notify: Notify) -> None:
        size = sum(layer.size for layer in image.layers)
        self._line = f"the image {policy.image} ({size / 1e6:.0f} MB) is unpacked, once"
        self._notify = notify

    def step(
        self, label: str, total: int | None = None, *, unit: str = "bytes"
    ) -> AbstractContextManager[ProgressStep]:
        """A layer."""
        if self._line:
            self._notify(self._line)
            self._line = ""
        return SILENT.step(label, total, unit=unit)

    def note(self, text: str) -> None:
        """None are made."""


def store_of(output: Path) -> Path:
    """The directory for this user's unpacked images of a build: beside them, or in the user's cache.

    Beside them only who built them unpacks: a store belongs to one user, who alone may enter it.
    """
    store = output / "rootfs"
    try:
        is_writable = store.stat().st_uid == os.geteuid()
    except FileNotFoundError:
        is_writable = output.stat().st_uid == os.geteuid()
    except PermissionError:
        is_writable = False
    return store if is_writable else Path(user_dirs.private(user_dirs.cache())).parent / "rootfs"


def _layout_exists(layout: Path) -> bool:
    """Whether a layout is there. Raise HostError for one in a directory that this user may not enter."""
    try:
        return (layout / "index.json").exists()
    except PermissionError:
        raise _unreadable_layout(layout) from None


def _open_layout(layout: Path, policy: ResolvedPolicy) -> Image:
    """The image in a layout. Raise HostError with the way out where this user may not read it."""
    try:
        image = open_image(layout, platform=policy.facts.platform)
    except HostError as error:
        if isinstance(error.__cause__, PermissionError):
            raise _unreadable_layout(layout) from None
        raise
    for layer in image.layers:
        blob = layout.joinpath("blobs", *layer.digest.split(":"))
        if not os.access(blob, os.R_OK, effective_ids=True):
            raise _unreadable_layout(layout)
    return image


def _unreadable_layout(layout: Path) -> HostError:
    command = f"sandwright build-images --name {layout.name} --output DIRECTORY"
    return HostError(
        f"this user may not read the image in {layout}: build one of your own with {command} "
        f"and set {BUILD} to that directory"
    )


def default_image() -> str:
    """The image of a policy that names none."""
    image = built_in().policy.image
    assert image is not None
    return image


def why_missing(image: str) -> str:
    """The reason why an image is missing, as far as it is known without a project; empty if it is here."""
    if os.environ.get(ROOTFS):
        return ""
    configured = os.environ.get(BUILD)
    output = Path(configured).absolute() if configured else default_build()
    try:
        if _layout_exists(output / "images" / image):
            return ""
    except HostError as error:
        return str(error)
    return f"the image {image} is not in {output}"


def layouts(policy: ResolvedPolicy, name: str, inputs: LiveHost) -> Iterator[Path]:
    """The layouts of an image that were built here, the one that is taken first.

    Raise HostError when it lies where the sandbox could write, or may be a stranger's.
    """
    inputs.ask("variable", BUILD)
    for output in _outputs(policy):
        index = output / "images" / name / "index.json"
        inputs.content(str(index))
        if index.exists():
            _untouched(output, policy, f"{BUILD} can name another directory")
            _refuse_foreign_build(output)
            yield index.parent


def our_layout(name: str) -> Path | None:
    """The layout of an image on which no project decides: in $SANDWRIGHT_BUILD or the default directory."""
    configured = os.environ.get(BUILD)
    layout = (Path(configured).absolute() if configured else default_build()) / "images" / name
    return layout if (layout / "index.json").exists() else None


def _outputs(policy: ResolvedPolicy) -> Iterator[Path]:
    """The directories that images may have been built into: the one named, or those here."""
    if configured := os.environ.get(BUILD):
        yield Path(configured).absolute()
        return
    yield from dict.fromkeys((Path.cwd() / "build", Path(policy.facts.project) / "build", default_build()))


def _refuse_foreign_build(output: Path) -> None:
    """Raise HostError for a build that was not named and that may have come with a project.

    An engine would have it under our name for it, in every project's sandboxes and as their proxy.
    """
    if not os.environ.get(BUILD) and os.path.realpath(output) != os.path.realpath(default_build()):
        raise HostError(
            f"{output} has an image, and may have come with the project; if you built it, say so with "
            f"{BUILD}={output}"
        )


def _untouched(directory: Path, policy: ResolvedPolicy, helps: str) -> Path:
    real = os.path.realpath(directory)
    if policy.filesystem.tree.changes_host(real):
        raise HostError(
            f"{directory} can be written by the sandbox, and decides what the next sandbox sees; {helps}"
        )
    return directory
