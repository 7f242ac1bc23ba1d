"""An account of the project's own, on macOS, through alcless."""

from __future__ import annotations

from collections.abc import Mapping

from sandwright.methods.contract import Form
from sandwright.methods.parts import MethodParts
from sandwright.methods.properties import Properties

PROPERTIES = Properties(
    system="darwin",
    own_account=True,
    explained=False,
    walls=("an account of its own, which has a copy of the project",),
    kernel_bug="all files of the machine: macOS' kernel answers",
)
"""What others have to know of it."""

FORMS: Mapping[str, Form] = {}
"""It has no other."""

_PARTS = MethodParts(__name__, artifacts=".render:render_alcless", backend=".backend:Alcless")
declare = _PARTS.declare
make_artifacts = _PARTS.make_artifacts
read_artifacts = _PARTS.read_artifacts
make_backend = _PARTS.make_backend
expect = _PARTS.expect
