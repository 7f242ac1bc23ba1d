"""User-Mode Linux: a kernel of its own for each run, inside the sandbox that bubblewrap makes."""

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
    own_kernel=True,
    placeholders=True,
    verifiable=True,
    walls=(
        "a kernel of its own, in a process, with mounts that show what the plan does",
        "the filter of system calls in that kernel",
        "around that process: the mounts and namespaces of bwrap, without a network",
        "a filter of the host's calls that lets it trace (ptrace), and make no Unix sockets",
    ),
    kernel_bug=(
        "of the kernel inside: what bwrap would show, and no more; of the host's kernel all files of the "
        "machine, through the calls that the process makes"
    ),
)
"""What others have to know of it."""

FORMS: Mapping[str, Form] = {}
"""It has no other."""


def declare() -> Declaration:
    """The part `support`."""
    from sandwright.methods.vm.support import DECLARATION  # noqa: PLC0415

    return DECLARATION


def make_artifacts(policy: ResolvedPolicy) -> tuple[Artifact, ...]:
    """The part `render`."""
    from sandwright.methods.vm.render import render_vm  # noqa: PLC0415

    return render_vm(policy)


def read_artifacts(rendered: Rendered, policy: ResolvedPolicy) -> ReadBack:  # noqa: ARG001
    """The part `explain`."""
    from sandwright.methods.vm.explain import read_vm  # noqa: PLC0415

    return read_vm(rendered)


def make_backend() -> Backend | None:
    """The part `backend`."""
    from sandwright.methods.vm.backend import Vm  # noqa: PLC0415

    return Vm()


def expect() -> Mapping[str, Answers]:
    """The part `expected`."""
    from sandwright.methods.vm.expected import EXPECTED  # noqa: PLC0415

    return EXPECTED
