"""gVisor's runsc on an unpacked image, on the host or in a container of its own."""

from __future__ import annotations

from collections.abc import Mapping

from sandwright.methods.contract import Form
from sandwright.methods.parts import MethodParts, call
from sandwright.methods.properties import Properties

PROPERTIES = Properties(
    root="image",
    needs_image=True,
    own_kernel=True,
    outer=True,
    unpacked_image=True,
    shims=True,
    placeholders=True,
    verifiable=True,
    proposed={"linux": 4},
    walls=(
        "an image's root, with what the policy lists",
        "a kernel of its own, in a process",
        "the filter of system calls in that kernel",
        "around that process: namespaces, an empty root, and runsc's own filter of the host's calls",
    ),
    kernel_bug=(
        "of runsc's kernel: what that process may do, which is behind namespaces and a filter; of the "
        "host's kernel only through the few calls that runsc makes"
    ),
)
"""What others have to know of it."""


FORMS: Mapping[str, Form] = {
    "gvisor-docker": Form(outer="docker", make_backend=call(__name__, ".outer.backend:DockerGvisor")),
    "gvisor-podman": Form(outer="podman", make_backend=call(__name__, ".outer.backend:PodmanGvisor")),
}
"""Its other sandboxes."""

_PARTS = MethodParts(
    __name__,
    artifacts=".render:render_gvisor",
    reader="..shared.runtime_spec.explain:read_gvisor",
    backend=".backend:Gvisor",
)
declare = _PARTS.declare
make_artifacts = _PARTS.make_artifacts
read_artifacts = _PARTS.read_artifacts
make_backend = _PARTS.make_backend
expect = _PARTS.expect
