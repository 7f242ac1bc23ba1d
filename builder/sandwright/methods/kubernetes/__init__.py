"""A Job in a cluster."""

from __future__ import annotations

from collections.abc import Mapping

from sandwright.methods.contract import Form
from sandwright.methods.kubernetes.travel import REGISTRY
from sandwright.methods.parts import MethodParts, call
from sandwright.methods.properties import Properties

PROPERTIES = Properties(
    root="image",
    needs_image=True,
    proxy="launcher",
    walls=(
        "an image's root, with the project's volume",
        "no rights, no new ones (Pod Security `restricted`)",
        "the node's namespaces",
        "the filter of system calls",
    ),
    kernel_bug=(
        "all files of the node, and of the Pods on it; with a RuntimeClass of gVisor as there. Your own "
        "machine is another"
    ),
    remote=True,
    travels=REGISTRY,
    verifiable=True,
)
"""What others have to know of it."""


FORMS: Mapping[str, Form] = {
    "kubernetes-install": Form(make_artifacts=call(__name__, ".install:render_install"))
}
"""What an administrator of a cluster installs for the sandbox."""

_PARTS = MethodParts(
    __name__,
    artifacts=".render:render_kubernetes",
    reader=".explain:read_cluster",
    backend=".backend:Kubernetes",
)
declare = _PARTS.declare
make_artifacts = _PARTS.make_artifacts
read_artifacts = _PARTS.read_artifacts
make_backend = _PARTS.make_backend
expect = _PARTS.expect
