"""Landlock: a process restricts itself, where no namespace can be made."""

from __future__ import annotations

from collections.abc import Mapping

from sandwright.methods.contract import Form
from sandwright.methods.parts import MethodParts
from sandwright.methods.properties import Properties

PROPERTIES = Properties(
    verifiable=True,
    proposed={"linux": 6},
    last_resort=True,
    walls=(
        "Landlock's rules for paths, in the host's own namespaces",
        "the filters of system calls",
    ),
    kernel_bug=(
        "all files of the machine: the host's kernel answers, and there is no wall behind it; more of it "
        "can be called than under bwrap, as there are no namespaces"
    ),
)
"""What others have to know of it."""

FORMS: Mapping[str, Form] = {}
"""It has no other."""

_PARTS = MethodParts(
    __name__,
    artifacts=".render:render_landlock",
    reader=".explain:read_landlock",
    backend=".backend:Landlock",
)
declare = _PARTS.declare
make_artifacts = _PARTS.make_artifacts
read_artifacts = _PARTS.read_artifacts
make_backend = _PARTS.make_backend
expect = _PARTS.expect
