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
        shims=True,
        placeholders=True,
        verifiable=True,
        proposed={"linux": 5},
        isolation_layers=(
            "an image's root, with what the policy lists",
            "a user namespace without rights outside",
            "namespaces of processes, network and IPC",
            "the filter of system calls",
            "Landlock, where the kernel has it: a second list of what may be written, and read where "
            "a policy lists that",
        ),
        kernel_exploit_impact=(
            "all files of the machine: the host's kernel answers, and there is no wall behind it"
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
