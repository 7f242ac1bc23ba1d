"""gVisor's runsc on an unpacked image, on the host or in a container of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sandwright.methods.contract import Form
from sandwright.methods.properties import Answers, Properties

if TYPE_CHECKING:
    from sandwright.evaluate.explain.reading import ReadBack
    from sandwright.methods.contract import Backend
    from sandwright.policy.declaration import Declaration
    from sandwright.policy.resolved import ResolvedPolicy
    from sandwright.render.artifact import Artifact
    from sandwright.render.rendered import Rendered

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


def _backend_in_docker() -> Backend:
    from sandwright.methods.gvisor.outer.backend import DockerGvisor  # noqa: PLC0415

    return DockerGvisor()


def _backend_in_podman() -> Backend:
    from sandwright.methods.gvisor.outer.backend import PodmanGvisor  # noqa: PLC0415

    return PodmanGvisor()


FORMS: Mapping[str, Form] = {
    "gvisor-docker": Form(outer="docker", make_backend=_backend_in_docker),
    "gvisor-podman": Form(outer="podman", make_backend=_backend_in_podman),
}
"""Its other sandboxes."""


def declare() -> Declaration:
    """The part `support`."""
    from sandwright.methods.gvisor.support import DECLARATION  # noqa: PLC0415

    return DECLARATION


def make_artifacts(policy: ResolvedPolicy) -> tuple[Artifact, ...]:
    """The part `render`."""
    from sandwright.methods.gvisor.render import render_gvisor  # noqa: PLC0415

    return render_gvisor(policy)


def read_artifacts(rendered: Rendered, policy: ResolvedPolicy) -> ReadBack:  # noqa: ARG001
    """The part `explain`."""
    from sandwright.methods.shared.runtime_spec.explain import read_runtime  # noqa: PLC0415

    return read_runtime(rendered, gvisor=True)


def make_backend() -> Backend | None:
    """The part `backend`."""
    from sandwright.methods.gvisor.backend import Gvisor  # noqa: PLC0415

    return Gvisor()


def expect() -> Mapping[str, Answers]:
    """The part `expected`."""
    from sandwright.methods.gvisor.expected import EXPECTED  # noqa: PLC0415

    return EXPECTED
