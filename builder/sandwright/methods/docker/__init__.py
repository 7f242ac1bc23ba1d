"""Docker: containers of its engine."""

from __future__ import annotations

from sandwright.methods.contract import Method, MethodVariant, Parts
from sandwright.methods.properties import Properties

METHOD = Method(
    properties=Properties(
        runs_elsewhere=True,
        exec_unsupported="",
        root="image",
        needs_image=True,
        engine=True,
        proxy="launcher",
        shims=True,
        placeholders=True,
        verifiable=True,
        proposed={"linux": 3, "darwin": 3},
        isolation_layers=(
            "the image's root, with what the policy lists",
            "your user ID, without capabilities",
            "PID, network and IPC namespaces",
            "the seccomp filter",
        ),
        kernel_exploit_impact=(
            "all files of the machine: the host's kernel serves the calls, and no layer is behind it"
        ),
    ),
    parts=Parts(
        declaration="sandwright.methods.docker.support:DECLARATION",
        render="sandwright.methods.docker.render:render_docker",
        read_back="sandwright.methods.shared.engine.explain:read_engine",
        read_others="sandwright.methods.shared.engine.compose_explain:read_compose",
        backend="sandwright.methods.docker.backend:Docker",
        expected="sandwright.methods.docker.expected:EXPECTED",
    ),
    variants={
        "devcontainer": MethodVariant(
            Parts(
                declaration="sandwright.methods.docker.devcontainer:DECLARATION",
                render="sandwright.methods.docker.devcontainer:render_devcontainer",
                read_back="sandwright.methods.docker.devcontainer_explain:read_devcontainer",
            )
        ),
    },
)
