"""Reads `config.json` of runsc, on the host and in an engine's container."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sandwright.evaluate.boundary import KERNEL_CALLS
from sandwright.evaluate.explain.calls import UNLISTED, only
from sandwright.evaluate.explain.enclosure import Enclosure, Passing
from sandwright.evaluate.explain.plans import Placed
from sandwright.methods.gvisor.outer.render import FLAGS, HOST, grant
from sandwright.methods.shared.engine.explain import engine_options, read_container, read_launch
from sandwright.methods.shared.runtime_spec.explain import read_config, read_runsc
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.mounts import Mount
from sandwright.render.rendered import Rendered


def read_gvisor(rendered: Rendered, policy: ResolvedPolicy) -> Enclosure:
    """The container that runsc makes. Its mounts name paths of the host, also within an outer container."""
    if policy.gvisor_engine == "none":
        return read_runsc(rendered, policy)
    read = read_config(rendered, tuple(_placed_flags(rendered)))
    return replace(read, mounts=tuple((_on_the_host(mount), at) for mount, at in read.mounts))


def _on_the_host(mount: Mount) -> Mount:
    """A mount as the host sees it; sources that are not below HOST are files of the outer container."""
    if mount.kind != "bind":
        return mount
    if mount.source == HOST or mount.source.startswith(f"{HOST}/"):
        return replace(mount, source=mount.source.removeprefix(HOST) or "/")
    return replace(mount, source=mount.source.lstrip("/"))


def read_outer(rendered: Rendered, policy: ResolvedPolicy) -> tuple[Enclosure, ...]:
    """The container that an engine makes around runsc; none where runsc runs on the host.

    The host's paths are those below HOST. Its variables are runsc's own, and none is the sandbox's.
    """
    if policy.gvisor_engine == "none":
        return ()
    read = read_container(rendered)
    granted_to_runsc = grant(rootless=policy.facts.uid != 0)
    below_host = (
        (replace(mount, target=mount.target.removeprefix(HOST)), position)
        for mount, position in read.mounts
        if mount.target.startswith(f"{HOST}/")
    )
    isolated = replace(
        read.isolated,
        granted=frozenset(each.removeprefix("CAP_") for each in granted_to_runsc.capabilities),
        unmasked=read.isolated.unmasked if granted_to_runsc.masked else {},
    )
    calls = only(
        (*KERNEL_CALLS, "read", UNLISTED),
        read.calls,
        "runsc makes these calls; its kernel filters those of programs inside",
    )
    container = replace(read, mounts=tuple(below_host), isolated=isolated, sockets=False, calls=calls)
    return (replace(container, environment={}, passing=Passing()),)


def _placed_flags(rendered: Rendered) -> Iterator[Placed]:
    """The flags of runsc in the artifacts of the outer container."""
    for name, value, position in engine_options(read_launch(rendered)):
        if name == "--env" and value.startswith(f"{FLAGS}="):
            yield from ((flag, position) for flag in value.partition("=")[2].split())
