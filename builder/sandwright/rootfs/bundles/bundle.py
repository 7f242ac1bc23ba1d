"""Writes OCI runtime bundles: a `config.json` for an image, over a root that its bundles share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sandwright.errors import HostError
from sandwright.progress import SILENT, Progress
from sandwright.render.baseline import BaselineMount, load_baseline
from sandwright.rootfs.bundles import convert, extramounts
from sandwright.rootfs.bundles.convert import PLAIN, BundleOptions, CallerIds
from sandwright.rootfs.bundles.identity import ExecUser, read_accounts, resolve_user
from sandwright.rootfs.bundles.mountpoints import PreparedRootfs, RootfsChange, is_volume, prepare
from sandwright.rootfs.bundles.program import check_cwd, find_program, search_path
from sandwright.rootfs.images.source import Image
from sandwright.rootfs.securejoin import Root
from sandwright.rootfs.unpacking.store import StoredRootfs, encode, explained, stored_rootfs, write_atomically
from sandwright.rootfs.unpacking.unpack import unpack

WHY = "why.json"
"""The file of a minimal bundle with the reason for each kept file."""

_ROOTLESS_USER = "a rootless bundle maps one id: the process is the caller, and root inside"


@dataclass(frozen=True)
class Rootfs:
    """A root file system that is ready: complete, with every mount point, and not to be written any more.

    `changes` are the changes to the image's files for that, `volumes` the mounts for its volumes, `notes` the
    remarks of unpacking. `fresh`: this call made it.
    """

    path: Path
    changes: tuple[RootfsChange, ...]
    volumes: tuple[BaselineMount, ...]
    notes: tuple[str, ...] = ()
    fresh: bool = False


@dataclass(frozen=True)
class Bundle:
    """A bundle on the disk.

    `config` is its `config.json`; `stripped` are labels of the image that did not become annotations.
    `changed` is false when the very same bundle was there already.
    """

    path: Path
    rootfs: Rootfs
    config: Mapping[str, Any]
    stripped: tuple[str, ...]
    notes: tuple[str, ...]
    changed: bool


def write_bundle(
    image: Image,
    bundle: Path,
    *,
    store: Path,
    command: Sequence[str] | None = None,
    settings: BundleOptions = PLAIN,
    rootless: bool | None = None,
    progress: Progress = SILENT,
) -> Bundle:
    """Write a bundle for an image to the directory `bundle`, which is made where it is missing.

    The root file system is unpacked into `store`, unless this image's is there. `command` stands for that
    of `settings`. `rootless` None means: when we are not root. With `settings.writable` or
    `settings.embed_root` the root is `rootfs` in the bundle; raise HostError where another image's is there.
    Existing files with the same content are not written again.
    """
    settings = settings if command is None else replace(settings, command=tuple(command))
    caller = caller_of(rootless)
    check(image, settings)
    rootfs = unpacked(
        image,
        store,
        rootless=caller is not None,
        bundle=embedding_bundle(bundle, settings),
        progress=progress,
    )
    made = finish(image, bundle, rootfs, settings=settings, caller=caller)
    with explained(bundle):  # it may have been a minimal one
        (bundle / WHY).unlink(missing_ok=True)
    return made


def check(image: Image, settings: BundleOptions) -> None:
    """Raise BuildError for an image that can't become a bundle, as far as that shows before unpacking."""
    convert.runtime_config(image.config, ExecUser(0, 0), baseline=load_baseline(), settings=settings)
    convert.volume_paths(convert.image_section(image.config))


def embedding_bundle(bundle: Path, settings: BundleOptions) -> Path | None:
    """The bundle, where its root is to be in it; None where the root is shared."""
    return bundle if settings.writable or settings.embed_root else None


def prepared_root(image: Image, rootfs: Path) -> PreparedRootfs:
    """Make the directories and mount points that runtimes and the image's configuration need in a root."""
    section = convert.image_section(image.config)
    cwd, volumes = convert.process_cwd(section), convert.volume_paths(section)
    with Root(rootfs) as root:
        return prepare(root, baseline=load_baseline(), cwd=cwd, volumes=volumes)


def unpacked(
    image: Image, store: Path, *, rootless: bool, bundle: Path | None = None, progress: Progress = SILENT
) -> Rootfs:
    """The root file system of an image in the store, or in `bundle`, made if it is not there.

    Its name is the image's digest: the directories that the image's own configuration requires (working
    directory, volumes) are in it too. Rootless ones are apart, since their files belong to the caller.
    """

    def make(destination: Path) -> Mapping[str, Any]:
        report = unpack(
            image.layers, destination, owners="rootless" if rootless else "root", progress=progress
        )
        return record(image, prepared_root(image, destination), report.as_dict())

    name = image.digest.replace(":", "-") + ("-rootless" if rootless else "")
    return from_record(shared_or_embedded(store, name, make, bundle))


def shared_or_embedded(
    store: Path, name: str, make: Callable[[Path], Mapping[str, Any]], bundle: Path | None
) -> StoredRootfs:
    """A root of the store, or `rootfs` in the bundle. Raise HostError where something else is there."""
    if bundle is None:
        return stored_rootfs(store, name, make)
    rootfs = bundle / "rootfs"
    if not os.path.lexists(rootfs) or os.path.lexists(bundle / "rootfs.json"):
        found = stored_rootfs(bundle, rootfs.name, lambda path: {**make(path), "name": name})
        if found.record.get("name") == name:
            return found
    raise HostError(
        f"{rootfs} is not the root file system that would be unpacked there: "
        f"remove {bundle}, or name another directory with --bundle"
    )


def record(image: Image, prepared: PreparedRootfs, unpacking: Mapping[str, object]) -> dict[str, object]:
    """The store's record of a root file system; `unpacking` is the report of `unpack`, as a dict."""
    return {
        "image": image.digest,
        "changes": [asdict(change) for change in prepared.changes],
        "volumes": [asdict(mount) for mount in prepared.volumes],
        "unpacked": dict(unpacking),
    }


def from_record(found: StoredRootfs) -> Rootfs:
    """Decode the store's record. Raise HostError for a record with mounts that are no volumes'."""
    rows = [{**row, "options": tuple(row["options"])} for row in found.record["volumes"]]
    volumes = tuple(BaselineMount(**row) for row in rows)
    if not all(map(is_volume, volumes)):
        raise HostError(f"{found.rootfs}: its record has mounts that no image asks for: remove the directory")
    return Rootfs(
        found.rootfs,
        tuple(RootfsChange(**row) for row in found.record["changes"]),
        volumes,
        tuple(_unpacking_notes(found.record["unpacked"])),
        found.fresh,
    )


def finish(
    image: Image, bundle: Path, rootfs: Rootfs, *, settings: BundleOptions, caller: CallerIds | None
) -> Bundle:
    """Write `config.json` over a root file system that is ready. See `write_bundle`."""
    config, notes = _bundle_config_of(image, bundle, rootfs, settings, caller)
    _, stripped = convert.convert_labels(image.config, load_baseline())
    with explained(bundle):
        bundle.mkdir(parents=True, exist_ok=True, mode=0o700)
        changed = write_atomically(bundle / "config.json", encode(config))
    return Bundle(bundle, rootfs, config, tuple(stripped), (*rootfs.notes, *notes), changed or rootfs.fresh)


def _bundle_config_of(
    image: Image, bundle: Path, rootfs: Rootfs, settings: BundleOptions, caller: CallerIds | None
) -> tuple[dict[str, Any], list[str]]:
    baseline, section = load_baseline(), convert.image_section(image.config)
    with Root(rootfs.path) as root:
        identity = resolve_user(convert.user(section), read_accounts(root))
        fresh = [mount.destination for mount in (*baseline.mounts, *rootfs.volumes)]
        mounts = extramounts.settle(root, settings.mounts, fresh, rootless=caller is not None)
        config = convert.runtime_config(
            image.config,
            identity,
            baseline=baseline,
            rootfs=_relative_root(rootfs.path, bundle),
            settings=replace(settings, mounts=mounts),
            volumes=rootfs.volumes,
            rootless=caller,
        )
        process = config["process"]
        check_cwd(root, process["cwd"], baseline=baseline, mounted=[*fresh, *(m.destination for m in mounts)])
        find_program(
            root,
            process["args"][0],
            path=search_path(process["env"]),
            cwd=process["cwd"],
            baseline=baseline,
            mounted=[mount.destination for mount in mounts],
        )
    moved = caller is not None and identity.uid != 0
    return config, [f"user {convert.user(section)!r}: {_ROOTLESS_USER}"] if moved else []


def _unpacking_notes(unpacked: Mapping[str, Any]) -> Iterator[str]:
    """The notes of unpacking, one line per kind."""
    for label in ("contained", "missing"):
        for kind, note in unpacked[label].items():
            names = ", ".join(note["examples"][:3])
            yield f"{label}: {kind} ({note['count']}{': ' + names if names else ''})"


def _relative_root(rootfs: Path, bundle: Path) -> str:
    """The way from the bundle to its root, without links: runtimes refuse a root behind one."""
    return os.path.relpath(rootfs.resolve(), bundle.resolve())


def caller_of(rootless: bool | None) -> CallerIds | None:
    """The caller's ids for a rootless bundle, None for one of root; without a wish, by who we are."""
    if rootless or (rootless is None and os.geteuid() != 0):
        return CallerIds(os.geteuid(), os.getegid())
    if os.geteuid() != 0:
        raise HostError("a bundle for root can only be made by root: its files belong to many users")
    return None
