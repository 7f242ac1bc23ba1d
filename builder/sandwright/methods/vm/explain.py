"""Reads the artifacts of `vm` back: bubblewrap's arguments, and the filter inside."""

from __future__ import annotations

import dataclasses

from sandwright.evaluate.explain import calls
from sandwright.evaluate.explain.enclosure import Enclosure
from sandwright.methods.bwrap.explain import read_bwrap
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.rendered import Rendered


def read_vm(rendered: Rendered, policy: ResolvedPolicy) -> Enclosure:
    """The sandbox that the arguments make. No Unix socket of the host can be connected to from inside."""
    return dataclasses.replace(
        read_bwrap(rendered, policy),
        calls=calls.of_bpf(rendered.artifact("guest.bpf").content, "guest.bpf"),
        connects=(),
        sockets=False,
    )
