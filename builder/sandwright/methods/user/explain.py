"""Reads the artifacts of `user` back: the mounts as root makes them, the filter, the launcher's plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import attrgetter

from sandwright.errors import DocumentError, Problem
from sandwright.evaluate.explain import calls
from sandwright.evaluate.explain.enclosure import Enclosure
from sandwright.evaluate.explain.isolation import Isolation
from sandwright.evaluate.explain.plans import ReadPlan, read_plan
from sandwright.evaluate.explain.verdict import ArtifactPosition, words_in
from sandwright.launcher.plan import NAME
from sandwright.methods.bwrap.render import PLACEHOLDER_MODE
from sandwright.methods.user.render import ACCOUNTS
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.mounts import Mount
from sandwright.render.rendered import Rendered

_ARITY = {
    **dict.fromkeys(("bind", "ro-bind", "tmpfs", "symlink", "beside", "trusted"), 2),
    **dict.fromkeys(("try", "proc", "dev", "readonly", "directory", "file", "ignored"), 1),
    "loopback": 0,
}
"""The number of words after each step (launcher/source/user.c)."""


def read_user(rendered: Rendered, _policy: ResolvedPolicy) -> Enclosure:
    """The sandbox that the plan makes. Raise DocumentError for a step that the program doesn't know."""
    steps = list(_parse_steps(rendered.artifact("plan").content))
    read = read_plan(rendered)
    return Enclosure(
        "host",
        tuple(_mounts(steps)),
        network=_network_position(read),
        environment=read.settings("user.settings"),
        passing=read.passing(),
        calls=calls.of_bpf(rendered.artifact("seccomp.bpf").content, "seccomp.bpf"),
        isolated=Isolation(ArtifactPosition("plan", "")),
        absent=read.absent(),
        localhost=read.ports("localhost"),
        expose=read.ports("expose"),
        brought=(f"{ACCOUNTS}/{read.plan.user.account}/home",),
    )


def _parse_steps(content: bytes) -> Iterator[tuple[str, ...]]:
    words = words_in(content)
    while words:
        count = _ARITY.get(words[0])
        if count is None or len(words) <= count:
            raise DocumentError("plan", [Problem(0, 0, words[0], "is no step, or lacks a word")])
        yield tuple(words[: count + 1])
        del words[: count + 1]


def _mounts(steps: Sequence[tuple[str, ...]]) -> Iterator[tuple[Mount, ArtifactPosition]]:
    """In mount order, with read-only remounts at the end."""
    closed = {step[1] for step in steps if step[0] == "readonly"}
    for step in steps:
        mount = _mount(step)
        if mount is not None:
            writable = mount.writable and mount.target not in closed
            yield replace(mount, writable=writable), ArtifactPosition("plan", " ".join(step))


def _mount(step: tuple[str, ...]) -> Mount | None:
    match step:
        case ("ro-bind", "/dev/null", target):
            return Mount(target, "mask", entry="file")
        case ("bind" | "ro-bind" as name, source, target):
            return Mount(target, "bind", name == "bind", source)
        case ("beside" | "trusted", _, target):  # a file of the artifacts, or of the run's proxy
            return Mount(target, "bind", writable=False, source=target, entry="file")
        case ("tmpfs", target, mode):
            return Mount(target, "tmpfs", writable=mode != PLACEHOLDER_MODE)
        case ("ignored", target):
            return Mount(target, "tmpfs")
        case ("dev" | "proc" | "try" as name, target):  # optional paths below /proc are made read-only
            return Mount(target, "dev" if name == "dev" else "proc", writable=name != "try")
        case ("symlink", text, target):
            return Mount(target, "symlink", source=text, entry="symlink")
    return None


def _network_position(read: ReadPlan) -> ArtifactPosition | None:
    """The setting that shows a network namespace: with a proxy it is made for the way there."""
    settings = ("user.network", "proxy", "localhost", "expose")
    names = [name for name in settings if attrgetter(name)(read.plan)]
    return ArtifactPosition(NAME, names[0]) if names else None
