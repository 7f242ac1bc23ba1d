"""The method that enforces nothing."""

from __future__ import annotations

from collections.abc import Mapping

from sandwright.methods.contract import Form
from sandwright.methods.parts import MethodParts
from sandwright.methods.properties import Properties

PROPERTIES = Properties(
    system="any",
    kernel_bug="nothing is between: the command has your files",
)
"""What others have to know of it."""

FORMS: Mapping[str, Form] = {}
"""It has no other."""

_PARTS = MethodParts(
    __name__, artifacts=".render:render_noop", reader=".explain:read_noop", backend=".backend:Noop"
)
declare = _PARTS.declare
make_artifacts = _PARTS.make_artifacts
read_artifacts = _PARTS.read_artifacts
make_backend = _PARTS.make_backend
expect = _PARTS.expect
