"""Seatbelt: macOS' own sandbox, through sandbox-exec."""

from __future__ import annotations

from collections.abc import Mapping

from sandwright.methods.contract import Form
from sandwright.methods.parts import MethodParts
from sandwright.methods.properties import Properties

PROPERTIES = Properties(
    system="darwin",
    shims=True,
    verifiable=True,
    simulated_by="profile.sb",
    proposed={"darwin": 1},
    foreign_paths=(
        "seatbelt is rendered for the paths of a Linux host, for a look at it only: run `sandwright "
        "facts` on the Mac, and give its output with --facts"
    ),
    walls=("the profile of `sandbox-exec`",),
    kernel_bug="all that your account may read and write, or more: macOS' kernel answers",
)
"""What others have to know of it."""

FORMS: Mapping[str, Form] = {}
"""It has no other."""

_PARTS = MethodParts(
    __name__,
    artifacts=".render:render_seatbelt",
    reader=".explain:read_seatbelt",
    reader_needs_policy=True,
    backend=".backend:Seatbelt",
)
declare = _PARTS.declare
make_artifacts = _PARTS.make_artifacts
read_artifacts = _PARTS.read_artifacts
make_backend = _PARTS.make_backend
expect = _PARTS.expect
