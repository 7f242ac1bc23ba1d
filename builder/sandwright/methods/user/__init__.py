"""An account of the project's own, on Linux."""

from __future__ import annotations

from sandwright.methods.contract import Method, Parts
from sandwright.methods.properties import Properties

METHOD = Method(
    properties=Properties(
        exec_unsupported="",
        own_account=True,
        placeholders=True,
        verifiable=True,
        isolation_layers=(
            "an account for the project alone, which cannot read your private files",
            "a mount namespace with the mounts of the plan",
            "PID, network and IPC namespaces",
            "the seccomp filter",
            "Landlock, where available: a second allow list for writing, and for reading where the policy "
            "lists what may be read",
        ),
        kernel_exploit_impact=(
            "all files of the machine: the host's kernel serves the calls, and no layer is behind it"
        ),
    ),
    parts=Parts(
        declaration="sandwright.methods.user.support:DECLARATION",
        render="sandwright.methods.user.render:render_user",
        read_back="sandwright.methods.user.explain:read_user",
        backend="sandwright.methods.user.backend:User",
        expected="sandwright.methods.user.expected:EXPECTED",
    ),
)
