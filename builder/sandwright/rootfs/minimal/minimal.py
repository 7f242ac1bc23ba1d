"""Makes a minimal root file system and its bundle: of an image's files, those that given programs need."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sandwright.errors import BuildError, UsageError
from sandwright.progress import SILENT, Progress
from sandwright.render.baseline import load_baseline
from sandwright.rootfs.bundles import convert
from sandwright.rootfs.bundles.bundle import (
    WHY,
    Bundle,
    Rootfs,
    caller_of,
    check,
    embedding_bundle,
    finish,
    from_record,
    prepared_root,
    record,
    shared_or_embedded,
    unpacked,
)
from sandwright.rootfs.bundles.convert import PLAIN, BundleOptions
from sandwright.rootfs.bundles.identity import ExecUser, read_accounts, resolve_user
from sandwright.rootfs.bundles.program import find_program
from sandwright.rootfs.images.source import Image
from sandwright.rootfs.minimal.closure import DependencyClosure
from sandwright.rootfs.minimal.selection import Selection
from sandwright.rootfs.minimal.trace import TracedCommand, trace
from sandwright.rootfs.minimal.treecopy import copy_paths
from sandwright.rootfs.securejoin import Root
from sandwright.rootfs.unpacking.store import encode, explained, write_atomically


@dataclass(frozen=True)
class MinimalOptions:
    """The wanted contents of a minimal root.

    `programs` are absolute paths, or names for the image's PATH. `keep` are paths and patterns (`*`, `**`)
    whose files are kept too, `drop` those that never are. `trace` are command lines that are run in the full
    root to record the files that they use. `dependencies` adds the data of the packages that the programs'
    packages depend on.
    """

    programs: tuple[str, ...]
    keep: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    trace: tuple[tuple[str, ...], ...] = ()
    dependencies: bool = False


@dataclass(frozen=True)
class RootfsSize:
    """The number of files and links in a root, and the bytes of its files, each inode once."""

    files: int
    bytes: int


@dataclass(frozen=True)
class MinimalBundle:
    """A bundle over a minimal root.

    `full` and `minimal` are the sizes of the image's root, at `full_path`, and its own.
    """

    bundle: Bundle
    selection: Selection
    full: RootfsSize
    minimal: RootfsSize
    full_path: Path


def write_minimal_bundle(
    image: Image,
    bundle: Path,
    options: MinimalOptions,
    *,
    store: Path,
    settings: BundleOptions = PLAIN,
    rootless: bool | None = None,
    progress: Progress = SILENT,
) -> MinimalBundle:
    """Write a bundle over a root with only the files for `options`, and `why.json` beside its `config.json`.

    The image is unpacked into `store` as for any bundle; the minimal root is a copy of its chosen files, in
    the store too, shared by all bundles with the same choice, or with `settings.embed_root` in the bundle. If
    the image starts a program that is not kept, the bundle starts the first of `wanted.programs`. Raise
    BuildError for a program that could not start in the image.
    """
    if not options.programs:
        raise UsageError("a minimal bundle needs at least one program to keep")
    if settings.writable:
        raise UsageError("a minimal root stays read-only")
    caller = caller_of(rootless)
    check(image, settings if settings.command else replace(settings, command=options.programs[:1]))
    full = unpacked(image, store, rootless=caller is not None, progress=progress)
    with progress.step("choose what to keep", unit="files"), Root(full.path) as root:
        selection = select(image, root, full, options, settings)
        settings, notes = _with_command(image, root, selection, settings)
    embed = embedding_bundle(bundle, settings)
    rootfs = _minimal(image, full, selection, store, rootless=caller is not None, embed=embed)
    written = finish(image, bundle, rootfs, settings=settings, caller=caller)
    with explained(bundle):
        changed = write_atomically(bundle / WHY, encode(selection.as_dict()))
    written = replace(written, notes=(*written.notes, *notes), changed=written.changed or changed)
    return MinimalBundle(written, selection, _measure(full.path), _measure(rootfs.path), full.path)


def select(
    image: Image, root: Root, rootfs: Rootfs, options: MinimalOptions, settings: BundleOptions
) -> Selection:
    """Choose the files to keep of a root that is unpacked and prepared."""
    section = convert.image_section(image.config)
    identity = resolve_user(convert.user(section), read_accounts(root))
    environment = environment_of(section, settings, identity)
    path = environment["PATH"]
    closure = DependencyClosure(
        root,
        search=[os.fsencode(folder) for folder in path.split(":") if folder.startswith("/")],
        library_path=environment.get("LD_LIBRARY_PATH", ""),
        drop=map(os.fsencode, options.drop),
        dependencies=options.dependencies,
    )
    for name in options.programs:
        closure.program(_located(root, name, path))
    for pattern in options.keep:
        closure.declared(_absolute(pattern), "asked for by name")
    _keep_ground(closure, section, rootfs, identity)
    for argv in options.trace:
        user = (identity.uid, identity.gid) if identity.uid else None
        run = TracedCommand(argv, environment, convert.process_cwd(section, settings), user)
        closure.traced(trace(rootfs.path, run), " ".join(argv))
    return closure.selection()


def _keep_ground(
    closure: DependencyClosure, section: Mapping[str, Any], rootfs: Rootfs, identity: ExecUser
) -> None:
    """Keep the mount points and start directories of bundles, with the image's owners and modes."""
    baseline = load_baseline()
    for point in baseline.files:
        closure.declared(os.fsencode(point.path), "a mount point of every bundle", required=False)
    closure.declared(b"/etc/os-release", "says what the files are", required=False)
    folders = [point.path for point in baseline.directories]
    folders += [convert.process_cwd(section), identity.home, *(mount.destination for mount in rootfs.volumes)]
    for folder in folders:
        closure.folder(os.fsencode(folder), "a mount point, working directory or home")


def _minimal(
    image: Image, full: Rootfs, selection: Selection, store: Path, *, rootless: bool, embed: Path | None
) -> Rootfs:
    """The root that holds the selection, made if it is not in the store, or in the bundle `embed`."""
    identity = [image.digest, rootless, *(path.hex() for path in selection.kept)]
    key = hashlib.sha256(json.dumps(identity).encode()).hexdigest()

    def make(destination: Path) -> Mapping[str, Any]:
        with Root(full.path) as source:
            copy_paths(source, selection.kept, destination)
        return record(image, prepared_root(image, destination), {"contained": {}, "missing": {}})

    found = from_record(shared_or_embedded(store, f"minimal-{key}", make, embed))
    return replace(found, changes=tuple(sorted({*full.changes, *found.changes})), notes=full.notes)


def _with_command(
    image: Image, root: Root, selection: Selection, settings: BundleOptions
) -> tuple[BundleOptions, list[str]]:
    """Settings with a kept program: the image's if it is kept, otherwise the first requested one.

    Raise BuildError for a command of the caller that is not kept.
    """
    section = convert.image_section(image.config)
    first = os.fsdecode(selection.programs[0])
    try:
        args = convert.process_args(section, settings)
    except BuildError:
        return replace(settings, command=(first,)), [f"the image names no program: the bundle starts {first}"]
    located = find_program(
        root,
        args[0],
        path=environment_of(section, settings, ExecUser(0, 0))["PATH"],
        cwd=convert.process_cwd(section, settings),
        baseline=load_baseline(),
    )
    if located is not None and located.path in selection.kept:
        return settings, []
    if settings.command is not None:
        raise BuildError(f"the command starts {args[0]}, which is not kept: name it among the programs")
    note = f"the image starts {args[0]}, which is not kept: the bundle starts {first}"
    return replace(settings, command=(first,)), [note]


def environment_of(section: Mapping[str, Any], settings: BundleOptions, identity: ExecUser) -> dict[str, str]:
    """The variables that a bundle's process starts with."""
    defaults = {"PATH": load_baseline().path, "HOME": identity.home}
    entries = convert.process_env(section, settings, defaults)
    return {name: value for name, _, value in (entry.partition("=") for entry in entries)}


def _located(root: Root, name: str, path: str) -> bytes:
    """A program's path; the way through links is kept as it was written."""
    if name.startswith("/"):
        return os.fsencode(name)
    if "/" in name:
        raise UsageError(f"program {name!r}: give an absolute path, or a name for the image's PATH")
    for folder in path.split(":"):
        candidate = os.fsencode(f"{folder}/{name}")
        if folder.startswith("/") and root.locate(candidate).is_file:
            return candidate
    raise BuildError(f"the image has no program {name!r} in its PATH ({path})")


def _absolute(pattern: str) -> bytes:
    if not pattern.startswith("/"):
        raise UsageError(f"{pattern!r} to keep: not an absolute path or pattern")
    return os.fsencode(pattern)


def _measure(rootfs: Path) -> RootfsSize:
    with Root(rootfs) as root:
        return RootfsSize(*root.measure())
