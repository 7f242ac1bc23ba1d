"""Podman: containers of its engine."""

from __future__ import annotations

from collections.abc import Mapping

from sandwright.methods.contract import Form
from sandwright.methods.parts import MethodParts
from sandwright.methods.properties import Properties

PROPERTIES = Properties(
    root="image",
    needs_image=True,
    engine=True,
    proxy="launcher",
    shims=True,
    placeholders=True,
    verifiable=True,
    proposed={"linux": 2, "darwin": 2},
    walls=(
        "an image's root, with what the policy lists",
        "your own number without capabilities; without root a user namespace besides",
        "namespaces of processes, network and IPC",
        "the filter of system calls",
    ),
    kernel_bug="all files of the machine: the host's kernel answers, and there is no wall behind it",
)
"""What others have to know of it."""

FORMS: Mapping[str, Form] = {}
"""It has no other."""

_PARTS = MethodParts(
    __name__,
    artifacts=".render:render_podman",
    reader="..shared.engine.explain:read_engine",
    backend=".backend:Podman",
)
declare = _PARTS.declare
make_artifacts = _PARTS.make_artifacts
read_artifacts = _PARTS.read_artifacts
make_backend = _PARTS.make_backend
expect = _PARTS.expect
