"""runc and crun on an unpacked image."""

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
    own_user_namespace=True,
    unpacked_image=True,
    shims=True,
    placeholders=True,
    verifiable=True,
    proposed={"linux": 5},
    walls=(
        "an image's root, with what the policy lists",
        "a user namespace without rights outside",
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


def declare() -> Declaration:
    """The part `support`."""
    from sandwright.methods.oci.support import DECLARATION  # noqa: PLC0415

    return DECLARATION


def make_artifacts(policy: ResolvedPolicy) -> tuple[Artifact, ...]:
    """The part `render`."""
    from sandwright.methods.oci.render import render_oci  # noqa: PLC0415

    return render_oci(policy)


def read_artifacts(rendered: Rendered, policy: ResolvedPolicy) -> ReadBack:  # noqa: ARG001
    """The part `explain`."""
    from sandwright.methods.shared.runtime_spec.explain import read_runtime  # noqa: PLC0415

    return read_runtime(rendered, gvisor=False)


def make_backend() -> Backend | None:
    """The part `backend`."""
    from sandwright.methods.oci.backend import Oci  # noqa: PLC0415

    return Oci()


def expect() -> Mapping[str, Answers]:
    """The part `expected`."""
    from sandwright.methods.oci.expected import EXPECTED  # noqa: PLC0415

    return EXPECTED
