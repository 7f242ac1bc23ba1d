"""Reads the artifacts of `vm` back: bubblewrap's arguments or the plan of mounts, and the filter inside."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

from sandwright.errors import DocumentError, Problem
from sandwright.evaluate.explain import calls
from sandwright.evaluate.explain.enclosure import Enclosure, Passing
from sandwright.evaluate.explain.isolation import Isolation
from sandwright.evaluate.explain.plans import read_plan
from sandwright.evaluate.explain.verdict import ArtifactPosition, Asked, MethodVerdict, words_in
from sandwright.launcher.plan import NAME
from sandwright.methods.bwrap.explain import read_bwrap
from sandwright.methods.landlock.explain import rule_mounts
from sandwright.methods.landlock.grants import DEVICES, TERMINAL
from sandwright.policy.facts import HostFacts
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
    """The mounts by which the supervisor judges each path (`read_landlock_rules`: the paths behind it).

    Raise DocumentError for a kind of mount that the launcher doesn't know.
    """
    read = read_plan(rendered)
    links = [
        (Mount(target, "symlink", source=source, entry="symlink"), ArtifactPosition(NAME, "vm.links"))
        for target, source in read.plan.vm.links
    ]
    return Enclosure(
        "host",
        (*_planned_mounts(rendered.artifact(PLAN).content), *links),
        network=ArtifactPosition(NAME, "vm.kernel"),
        environment=read.settings("landlock.settings"),
        passing=read.passing(),
        calls=calls.of_bpf(rendered.artifact("guest.bpf").content, "guest.bpf"),
        isolated=Isolation(ArtifactPosition(PLAN, "")),
        absent=read.absent(),
        localhost=read.ports("localhost"),
        expose=read.ports("expose"),
        connects=(),
        sockets=False,
    )


@dataclass(frozen=True)
class LandlockRules(Enclosure):
    """The rules of the kernel's process, behind the supervisor that makes its calls."""

    def answer(self, question: Asked, facts: HostFacts, arch: str) -> MethodVerdict:
        """Answer a question about files by the rules; the supervisor decides about everything else."""
        if question.kind in ("read", "write"):
            return super().answer(question, facts, arch)
        return MethodVerdict(allowed=None, because="the supervisor decides")

    def can_move(self, path: str, facts: HostFacts) -> None:
        """None for unknown: the supervisor moves no mount points."""

    def why_looser(self, policy: ResolvedPolicy, question: Asked) -> str:
        """Landlock grants all of a directory that may be written, and of /proc."""
        mount = self.mount_over(question.path, policy.facts)
        tree = policy.filesystem.tree
        if mount is not None and (
            mount.target == "/proc" or (mount.writable and tree.changes_host(mount.target))
        ):
            return "the supervisor enforces the restrictions in it"
        return ""


def read_landlock_rules(rendered: Rendered, _policy: ResolvedPolicy) -> tuple[LandlockRules, ...]:
    """The rules behind the supervisor. Raise DocumentError for a grant that the launcher doesn't know."""
    rules = LandlockRules(
        "host",
        tuple(rule_mounts(rendered.artifact("rules").content)),
        network=ArtifactPosition(NAME, "landlock.ports_closed"),
        environment={},
        passing=Passing(),
        calls=calls.no_filter("the supervisor's filters decide"),
        isolated=Isolation(ArtifactPosition("rules", "")),
        sockets=False,
        brought=(*DEVICES, TERMINAL),
    )
    return (rules,)


def _planned_mounts(content: bytes) -> Iterator[tuple[Mount, ArtifactPosition]]:
    """The mounts of a plan, as `sandwright.render.mount_watch` writes it."""
    words = words_in(content)[2:]
    for record in zip(words[::4], words[1::4], words[2::4], words[3::4], strict=True):
        yield _mount_of_record(*record), ArtifactPosition(PLAN, f"{record[0]} {record[1]}")


def _mount_of_record(kind: str, target: str, source: str, flags: str) -> Mount:
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
