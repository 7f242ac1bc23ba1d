"""Reads the artifacts of `vm` back: bubblewrap's arguments or the plan of mounts, and the filter inside."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from sandwright.errors import DocumentError, Problem
from sandwright.evaluate.explain import calls
from sandwright.evaluate.explain.enclosure import Enclosure
from sandwright.evaluate.explain.isolation import Isolation
from sandwright.evaluate.explain.plans import read_plan
from sandwright.evaluate.explain.verdict import ArtifactPosition
from sandwright.launcher.plan import NAME
from sandwright.methods.bwrap.explain import read_bwrap
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.mount_watch import PLAN
from sandwright.render.mounts import Mount
from sandwright.render.rendered import Rendered


def read_vm(rendered: Rendered, policy: ResolvedPolicy) -> Enclosure:
    """The sandbox that the arguments make. No Unix socket of the host can be connected to from inside."""
    return dataclasses.replace(
        read_bwrap(rendered, policy),
        calls=calls.of_bpf(rendered.artifact("guest.bpf").content, "guest.bpf"),
        connects=(),
        sockets=False,
    )


def read_vm_landlock(rendered: Rendered, _policy: ResolvedPolicy) -> Enclosure:
    """The mounts by which the supervisor judges each path; Landlock's rules behind it are not looked at.

    Raise DocumentError for a kind of mount that the launcher doesn't know.
    """
    read = read_plan(rendered)
    links = [
        (Mount(target, "symlink", source=source, entry="symlink"), ArtifactPosition(NAME, "vm.links"))
        for target, source in read.plan.vm.links
    ]
    return Enclosure(
        "host",
        (*_mounts(rendered.artifact(PLAN).content), *links),
        network=ArtifactPosition(NAME, "vm.kernel"),
        environment={word.partition("=")[0]: place for word, place in read.placed("landlock.settings")},
        passing=read.passing(),
        calls=calls.of_bpf(rendered.artifact("guest.bpf").content, "guest.bpf"),
        isolated=Isolation(ArtifactPosition(PLAN, "")),
        absent=read.absent(),
        localhost=read.ports("localhost"),
        expose=read.ports("expose"),
        connects=(),
        sockets=False,
    )


def _mounts(content: bytes) -> Iterator[tuple[Mount, ArtifactPosition]]:
    """The mounts of a plan, as `sandwright.render.mount_watch` writes it."""
    words = content.decode("utf-8", "surrogateescape").split("\0")[2:-1]
    for record in zip(words[::4], words[1::4], words[2::4], words[3::4], strict=True):
        yield _mount(*record), ArtifactPosition(PLAN, f"{record[0]} {record[1]}")


def _mount(kind: str, target: str, source: str, flags: str) -> Mount:
    match kind:
        case "write" | "read":
            return Mount(target, "bind", kind == "write", source)
        case "mask-directory" | "mask-file":
            return Mount(target, "mask", entry="directory" if kind == "mask-directory" else "file")
        case "own" if target in ("/dev", "/proc"):
            return Mount(target, "dev" if target == "/dev" else "proc", writable=True)
        case "own":
            return Mount(target, "tmpfs", writable="o" in flags)
        case "cover-directory":
            return Mount(target, "tmpfs")
        case "cover-file":
            return Mount(target, "bind", source=source, entry="file")
        case _:
            raise DocumentError(PLAN, [Problem(0, 0, kind, "is no kind of mount")])
