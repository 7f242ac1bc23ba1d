"""Finds the program that a command line starts, inside a root file system."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath

from sandwright.errors import BuildError
from sandwright.render.baseline import Baseline
from sandwright.rootfs.bundles.mountpoints import refuse_forbidden
from sandwright.rootfs.securejoin import ResolvedPath, Root
from sandwright.rootfs.tar.entry import show


def search_path(env: Sequence[str]) -> str:
    """The PATH of an environment; the last one counts, as it does to execvp(3) of the runtimes we know."""
    return next((entry[5:] for entry in reversed(env) if entry.startswith("PATH=")), "")


def find_program(
    root: Root, name: str, *, path: str, cwd: str, baseline: Baseline, mounted: Iterable[str] = ()
) -> ResolvedPath | None:
    """Find the program `name`; None when it may lie in one of `mounted`, which are not searched.

    A name without a slash is searched in `path`, one with a slash is taken from `cwd`. Raise BuildError
    when there is no executable file of that name, and when it is one of the kernel's (`/proc/self/exe` is
    the runtime itself: CVE-2019-5736).
    """
    found: list[str] = []
    for candidate in _program_paths(name, path, cwd):
        resolved = root.locate(candidate)
        refuse_forbidden(resolved.path, "the program", baseline)
        if any(_lies_in(resolved.path, os.fsencode(mount)) for mount in mounted):
            return None
        if resolved.is_file and resolved.status is not None and resolved.status.st_mode & 0o111:
            return resolved
        if resolved.status is not None:
            found.append(
                f"{show(candidate)} is {resolved.kind}{', not executable' if resolved.is_file else ''}"
            )
    raise BuildError(f"the image has no program {name!r}" + (f": {'; '.join(found)}" if found else ""))


def check_cwd(root: Root, cwd: str, *, baseline: Baseline, mounted: Iterable[str]) -> None:
    """Raise BuildError for a working directory that is none, unless it may lie in one of `mounted`.

    One among the kernel's files could be a directory of the host, by a descriptor (CVE-2024-21626).
    """
    resolved = root.locate(os.fsencode(cwd))
    refuse_forbidden(resolved.path, "working directory", baseline)
    if not resolved.is_directory and not any(
        _lies_in(resolved.path, os.fsencode(mount)) for mount in mounted
    ):
        raise BuildError(f"working directory {cwd!r} is {resolved.kind} in the image")


def _program_paths(name: str, path: str, cwd: str) -> Iterator[bytes]:
    if "/" in name:
        yield os.fsencode(PurePosixPath(cwd, name))
        return
    for folder in path.split(":"):
        yield os.fsencode(PurePosixPath(cwd, folder, name))


def _lies_in(path: bytes, tree: bytes) -> bool:
    return path == tree or path.startswith(tree.rstrip(b"/") + b"/")
