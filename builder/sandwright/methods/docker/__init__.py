"""Docker: containers of its engine."""

from __future__ import annotations

from collections.abc import Mapping

from sandwright.methods.contract import Form
from sandwright.methods.parts import MethodParts, call, part
from sandwright.methods.properties import Properties

PROPERTIES = Properties(
    root="image",
    needs_image=True,
    engine=True,
    proxy="launcher",
    shims=True,
    placeholders=True,
    verifiable=True,
    proposed={"linux": 3, "darwin": 3},
    walls=(
        "an image's root, with what the policy lists",
        "your own number without capabilities",
        "namespaces of processes, network and IPC",
        "the filter of system calls",
    ),
    kernel_bug="all files of the machine: the host's kernel answers, and there is no wall behind it",
)
"""What others have to know of it."""


FORMS: Mapping[str, Form] = {
    "devcontainer": Form(
        declare=part(__name__, ".devcontainer:DECLARATION"),
        make_artifacts=call(__name__, ".devcontainer:render_devcontainer"),
    )
}
"""Its other sandboxes."""

_PARTS = MethodParts(
    __name__,
    artifacts=".render:render_docker",
    reader="..shared.engine.explain:read_engine",
    backend=".backend:Docker",
)
declare = _PARTS.declare
make_artifacts = _PARTS.make_artifacts
read_artifacts = _PARTS.read_artifacts
make_backend = _PARTS.make_backend
expect = _PARTS.expect
