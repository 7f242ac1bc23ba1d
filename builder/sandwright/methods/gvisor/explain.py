"""Reads `config.json` of runsc, on the host and in an engine's container."""

from __future__ import annotations

from dataclasses import replace

from sandwright.evaluate.explain.enclosure import Enclosure
from sandwright.methods.gvisor.outer.render import HOST
from sandwright.methods.shared.runtime_spec.explain import read_runsc
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.mounts import Mount
from sandwright.render.rendered import Rendered


def read_gvisor(rendered: Rendered, policy: ResolvedPolicy) -> Enclosure:
    """The container that runsc makes. Its mounts name paths of the host, also within an outer container."""
    read = read_runsc(rendered, policy)
    if policy.gvisor_engine == "none":
        return read
    return replace(read, mounts=tuple((_on_the_host(mount), at) for mount, at in read.mounts))


def _on_the_host(mount: Mount) -> Mount:
    """A mount as the host sees it; sources that are not below HOST are files of the outer container."""
    if mount.kind != "bind":
        return mount
    if mount.source == HOST or mount.source.startswith(f"{HOST}/"):
        return replace(mount, source=mount.source.removeprefix(HOST) or "/")
    return replace(mount, source=mount.source.lstrip("/"))
