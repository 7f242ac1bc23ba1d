"""An account of the project's own, on Linux."""

from __future__ import annotations

from collections.abc import Mapping

from sandwright.methods.contract import Form
from sandwright.methods.parts import MethodParts
from sandwright.methods.properties import Properties

PROPERTIES = Properties(
    own_account=True,
    placeholders=True,
    verifiable=True,
    walls=(
        "an account of the project's own, to which your closed files are closed",
        "a mount namespace that holds what the plan shows",
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
    __name__, artifacts=".render:render_user", reader=".explain:read_user", backend=".backend:User"
)
declare = _PARTS.declare
make_artifacts = _PARTS.make_artifacts
read_artifacts = _PARTS.read_artifacts
make_backend = _PARTS.make_backend
expect = _PARTS.expect
