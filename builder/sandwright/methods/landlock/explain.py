"""Reads the artifacts of `landlock` back: its grants, both filters, the launcher's plan."""

from __future__ import annotations

from collections.abc import Iterator

from sandwright.errors import DocumentError, Problem
from sandwright.evaluate.explain import calls
from sandwright.evaluate.explain.enclosure import Calls, Enclosure
from sandwright.evaluate.explain.isolation import Isolation
from sandwright.evaluate.explain.plans import read_plan
from sandwright.evaluate.explain.verdict import ArtifactPosition, Asked, MethodVerdict, words_in
from sandwright.launcher.plan import NAME
from sandwright.methods.landlock.grants import DEVICES, GRANTS, TERMINAL
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.mounts import Mount
from sandwright.render.rendered import Rendered


def read_landlock(rendered: Rendered, _policy: ResolvedPolicy) -> Enclosure:
    """The sandbox that the grants make. Raise DocumentError for a grant that the launcher doesn't know."""
    read = read_plan(rendered)
    closed = read.plan.landlock.ports_closed
    return Enclosure(
        "host",
        tuple(rule_mounts(rendered.artifact("rules").content)),
        network=ArtifactPosition(NAME, "landlock.ports_closed") if closed else None,
        environment=read.settings("landlock.settings"),
        passing=read.passing(),
        calls=_combined_calls(rendered),
        isolated=Isolation(ArtifactPosition("rules", "")),
        absent=read.absent(),
        localhost=read.ports("landlock.ports_connect"),
        expose=read.ports("landlock.ports_bind"),
        sockets=read.plan.sockets.supervised,
        connects=read.plan.sockets.host if read.plan.sockets.supervised else None,
        brought=(*DEVICES, TERMINAL),
    )


def rule_mounts(content: bytes) -> Iterator[tuple[Mount, ArtifactPosition]]:
    """Each grant as the mount that would grant the same."""
    words = words_in(content)
    for grant, path in zip(words[::2], words[1::2], strict=False):
        if grant not in GRANTS:
            raise DocumentError("rules", [Problem(0, 0, grant, "is no grant")])
        mount = Mount(path, "tmpfs") if grant == "hide" else Mount(path, "bind", grant != "read", path)
        yield mount, ArtifactPosition("rules", f"{grant} {path}")


def _combined_calls(rendered: Rendered) -> Calls:
    """A call runs when both filters allow it; the refusal of the policy's filter is reported first."""
    policy_calls, closed = (
        calls.of_bpf(rendered.artifact(name).content, name) for name in ("seccomp.bpf", "closed.bpf")
    )

    def answer(question: Asked, arch: str) -> MethodVerdict:
        first = policy_calls(question, arch)
        return first if first.allowed is not True else _stricter(first, closed(question, arch))

    return answer


def _stricter(first: MethodVerdict, other: MethodVerdict) -> MethodVerdict:
    return other if other.allowed is False else first
