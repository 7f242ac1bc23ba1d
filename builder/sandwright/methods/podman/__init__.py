"""Podman: containers of its engine."""

from __future__ import annotations

from sandwright.methods.contract import Method, Parts
from sandwright.methods.properties import Properties

METHOD = Method(
    properties=Properties(
        exec_unsupported="",
        root="image",
        needs_image=True,
        engine=True,
        proxy="launcher",
        shims=True,
        placeholders=True,
        verifiable=True,
        proposed={"linux": 2, "darwin": 2},
        isolation_layers=(
            "the image's root, with what the policy lists",
            "your user ID, without capabilities; without root also a user namespace",
            "PID, network and IPC namespaces",
            "the seccomp filter",
        ),
        kernel_exploit_impact=(
            "all files of the machine: the host's kernel serves the calls, and no layer is behind it"
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
