"""Reads the artifacts of `user` back: the plan as `inside.pl` takes it, the filter, the launcher."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace

from sandwright.errors import DocumentError, Problem
from sandwright.evaluate.explain import calls, launchers
from sandwright.evaluate.explain.enclosure import Enclosure
from sandwright.evaluate.explain.verdict import ArtifactPosition
from sandwright.methods.bwrap.render import COVERED
from sandwright.render.mounts import Mount
from sandwright.render.rendered import Rendered

_ARITY = {
    **dict.fromkeys(("bind", "ro-bind", "tmpfs", "symlink"), 2),
    **dict.fromkeys(("try", "proc", "dev", "readonly", "directory", "file"), 1),
    "loopback": 0,
}
"""How many words follow each step (oci/account/inside.pl)."""

_SETS = "    printf '%s\\0' "


def read_user(rendered: Rendered) -> Enclosure:
    """The sandbox that the plan makes. Raise DocumentError for a step that the program doesn't know."""
    steps = list(_steps(rendered.artifact("plan").content))
    enter, launch = (rendered.artifact(name).content.decode("utf-8", "surrogateescape") for name in _HALVES)
    return Enclosure(
        "host",
        tuple(_mounts(steps)),
        network=_network(enter, launch),
        environment=dict(_environment(launch)),
        passing=launchers.passing(launch),
        calls=calls.of_bpf(rendered.artifact("seccomp.bpf").content, "seccomp.bpf"),
        absent=dict(launchers.absent(launch)),
    )


_HALVES = ("enter", "launch")


def _steps(content: bytes) -> Iterator[tuple[str, ...]]:
    words = content.decode("utf-8", "surrogateescape").split("\0")[:-1]
    while words:
        count = _ARITY.get(words[0])
        if count is None or len(words) <= count:
            raise DocumentError("plan", [Problem(0, 0, words[0], "is no step, or lacks a word")])
        yield tuple(words[: count + 1])
        del words[: count + 1]


def _mounts(steps: Sequence[tuple[str, ...]]) -> Iterator[tuple[Mount, ArtifactPosition]]:
    """In the order in which they are made, with what is made read-only at the end."""
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
        case ("tmpfs", target, mode):
            return Mount(target, "tmpfs", writable=mode != COVERED)
        case ("dev" | "proc" as name, target):
            return Mount(target, "dev" if name == "dev" else "proc", writable=True)
        case ("symlink", text, target):
            return Mount(target, "symlink", source=text, entry="symlink")
    return None


def _network(enter: str, launch: str) -> ArtifactPosition | None:
    """Where a network namespace is made: by root's half, or around it by the way to a proxy."""
    for name, text, word in (("enter", enter, " --net'"), ("launch", launch, "with_proxy $sw_root ")):
        for number, row in enumerate(text.splitlines(), start=1):
            if word in row:
                return ArtifactPosition(name, row.strip(), number, len(row) - len(row.lstrip()) + 1)
    return None


def _environment(launch: str) -> Iterator[tuple[str, ArtifactPosition]]:
    """The variables with values, which are the words of one command."""
    before, found, rest = launch.partition(f"\n{_SETS}")
    if found:
        for word in shlex.split(rest.partition("\n}\n")[0]):
            name, equals, _ = word.partition("=")
            if equals:
                yield name, ArtifactPosition("launch", _SETS.strip(), before.count("\n") + 2, 5)
