"""bubblewrap: namespaces of the kernel, without a daemon and without root."""

from __future__ import annotations

from collections.abc import Mapping

from sandwright.methods.contract import Form
from sandwright.methods.parts import MethodParts
from sandwright.methods.properties import Properties

PROPERTIES = Properties(
    own_user_namespace=True,
    shims=True,
    placeholders=True,
    records=True,
    verifiable=True,
    proposed={"linux": 1},
    walls=(
        "a mount namespace that holds what the plan shows",
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
    __name__, artifacts=".render:render_bwrap", reader=".explain:read_bwrap", backend=".backend:Bwrap"
)
declare = _PARTS.declare
make_artifacts = _PARTS.make_artifacts
read_artifacts = _PARTS.read_artifacts
make_backend = _PARTS.make_backend
expect = _PARTS.expect
