"""bubblewrap: namespaces of the kernel, without a daemon and without root."""

from __future__ import annotations

from sandwright.methods.contract import Method, Parts
from sandwright.methods.properties import Properties

METHOD = Method(
    properties=Properties(
        own_user_namespace=True,
        exec_unsupported="",
        shims=True,
        placeholders=True,
        supervises_creation=True,
        records=True,
        verifiable=True,
        proposed={"linux": 1},
        isolation_layers=(
            "a mount namespace with the mounts of the plan",
            "a user namespace without capabilities outside",
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
        declaration="sandwright.methods.bwrap.support:DECLARATION",
        render="sandwright.methods.bwrap.render:render_bwrap",
        read_back="sandwright.methods.bwrap.explain:read_bwrap",
        backend="sandwright.methods.bwrap.backend:Bwrap",
        expected="sandwright.methods.bwrap.expected:EXPECTED",
    ),
)
