"""runc and crun on an unpacked image."""

from __future__ import annotations

from collections.abc import Mapping

from sandwright.methods.contract import Form
from sandwright.methods.parts import MethodParts
from sandwright.methods.properties import Properties

PROPERTIES = Properties(
    root="image",
    needs_image=True,
    own_user_namespace=True,
    unpacked_image=True,
    shims=True,
    placeholders=True,
    verifiable=True,
    proposed={"linux": 5},
    walls=(
        "an image's root, with what the policy lists",
        "a user namespace without rights outside",
        "namespaces of processes, network and IPC",
        "the filter of system calls",
        "Landlock, where the kernel has it: a second list of what may be written, and read where a policy "
        "lists that",
    ),
    kernel_bug="all files of the machine: the host's kernel answers, and there is no wall behind it",
)
"""What others have to know of it."""

FORMS: Mapping[str, Form] = {}
"""It has no other."""

_PARTS = MethodParts(
    __name__,
    artifacts=".render:render_oci",
    reader="..shared.runtime_spec.explain:read_oci",
    backend=".backend:Oci",
)
declare = _PARTS.declare
make_artifacts = _PARTS.make_artifacts
read_artifacts = _PARTS.read_artifacts
make_backend = _PARTS.make_backend
expect = _PARTS.expect
