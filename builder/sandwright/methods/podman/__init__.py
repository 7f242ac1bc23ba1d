"""Podman: containers of its engine."""

from __future__ import annotations

from sandwright.methods.contract import Method, Parts
from sandwright.methods.properties import Properties

METHOD = Method(
    properties=Properties(
        root="image",
        needs_image=True,
        engine=True,
        proxy="launcher",
        shims=True,
        placeholders=True,
        verifiable=True,
        proposed={"linux": 2, "darwin": 2},
        isolation_layers=(
            "an image's root, with what the policy lists",
            "your own number without capabilities; without root a user namespace besides",
            "namespaces of processes, network and IPC",
            "the filter of system calls",
        ),
        kernel_exploit_impact=(
            "all files of the machine: the host's kernel answers, and there is no wall behind it"
        ),
    ),
    parts=Parts(
        declaration="sandwright.methods.podman.support:DECLARATION",
        render="sandwright.methods.podman.render:render_podman",
        read_back="sandwright.methods.shared.engine.explain:read_engine",
        read_others="sandwright.methods.shared.engine.compose_explain:read_compose",
        backend="sandwright.methods.podman.backend:Podman",
        expected="sandwright.methods.podman.expected:EXPECTED",
    ),
)
