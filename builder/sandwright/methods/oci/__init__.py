"""runc and crun on an unpacked image."""

from __future__ import annotations

from sandwright.methods.contract import Method, Parts
from sandwright.methods.properties import Properties

METHOD = Method(
    properties=Properties(
        root="image",
        needs_image=True,
        own_user_namespace=True,
        unpacked_image=True,
        exec_unsupported="",
        shims=True,
        placeholders=True,
        verifiable=True,
        proposed={"linux": 5},
        isolation_layers=(
            "the image's root, with what the policy lists",
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
        declaration="sandwright.methods.oci.support:DECLARATION",
        render="sandwright.methods.oci.render:render_oci",
        read_back="sandwright.methods.shared.runtime_spec.explain:read_runc",
        backend="sandwright.methods.oci.backend:Oci",
        expected="sandwright.methods.oci.expected:EXPECTED",
    ),
)
