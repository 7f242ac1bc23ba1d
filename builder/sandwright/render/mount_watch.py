"""The plan of mounts as the launcher's watch reads it.

The plan consists of words that each end with NUL: a name and a version, then four words for each mount: its
kind, the path inside, the path on the host (which may be empty), and flags.

`w`: the mount lies on a file or directory of the host, and a process that replaces that removes the mount.
`a`: no program inside can write there, so that a replaced file can be hidden again.
`r`: programs on the host replace the file in normal work, and the new one is bound read-only again.
`o`: the sandbox's private directories may be written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.artifact import Artifact
from sandwright.render.mounts import Mount, MountPlan
from sandwright.render.placeholders import Placeholder

PLAN = "mounts"
_VERSION = "1"
_KINDS: Mapping[str, str] = {"tmpfs": "own", "dev": "own", "proc": "own"}


def mounts_artifact(mounts: Sequence[Mount], placeholders: Sequence[Placeholder]) -> Artifact:
    """The mount plan as the artifact `mounts`."""
    words = b"".join(
        word.encode("utf-8", "surrogateescape") + b"\0" for word in plan_words(mounts, placeholders)
    )
    return Artifact(PLAN, words, "the mounts that are watched")


def engine_watch(policy: ResolvedPolicy, plan: MountPlan) -> tuple[Artifact, ...]:
    """The plan for an engine's launcher; nothing where that is no program, on macOS."""
    return (mounts_artifact(plan.mounts, plan.placeholders),) if policy.facts.os == "linux" else ()


def plan_words(mounts: Sequence[Mount], placeholders: Sequence[Placeholder]) -> Iterator[str]:
    """The words of a plan; mounts stand in the order in which they are made, parents first."""
    yield from ("sandwright-mounts", _VERSION)
    below: dict[str, Mount] = {}
    for mount in mounts:
        if mount.kind == "symlink" or mount.of_image:  # programs on the host don't replace an image's files
            continue
        yield from _watch_record(mount, _lies_on(mount.target, below))
        below[mount.target] = mount
    for placeholder in placeholders:
        source = placeholder.path
        yield from (f"cover-{placeholder.entry}", placeholder.path, source, "w")


def _watch_record(mount: Mount, under: Mount | None) -> tuple[str, str, str, str]:
    """No program on the host can remove a mount on something that only the sandbox has."""
    if mount.kind == "bind":
        kind = "write" if mount.writable else "read"
    elif mount.kind == "mask":
        kind = "mask-directory" if mount.entry == "directory" else "mask-file"
    else:
        kind = _KINDS[mount.kind]
    protects = mount.kind in ("mask", "tmpfs") or mount.pin or not mount.writable
    watched = under is not None and under.kind == "bind" and protects and mount.target != "/"
    flags = "w" if watched else ""
    if watched and mount.kind == "mask" and under is not None and not under.writable:
        flags += "a"
    if watched and mount.replaced:
        flags += "r"
    if kind == "own" and mount.writable:
        flags += "o"
    source = mount.source if mount.kind == "bind" else mount.target if watched else ""
    return kind, mount.target, source, flags


def _lies_on(path: str, below: Mapping[str, Mount]) -> Mount | None:
    """The nearest mount above a path."""
    while path != "/":
        path = path.rpartition("/")[0] or "/"
        if path in below:
            return below[path]
    return None
