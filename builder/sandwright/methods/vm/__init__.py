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
        "around that process: the mounts and namespaces of bwrap, without a network; where none can be made, "
        "a launcher that makes each call that names a file, and Landlock",
        "a filter of the host's calls that lets it trace (ptrace), and make no Unix sockets",
    ),
    kernel_bug=(
        "of the kernel inside: what bwrap would show, and no more, but with Landlock around it also names, "
        "sizes and times, and the arguments of other processes; of the host's kernel all files of the "
        "machine, through the calls that the process makes"
    ),
)
"""What others have to know of it."""

QEMU_FORM = "vm-kvm"
WITH_QEMU = "its kernel runs in QEMU with KVM"
LANDLOCK = "vm-landlock"
WEAKER = "around its kernel stands Landlock, and no namespace"


def _declare_landlock() -> Declaration:
    from sandwright.methods.vm.support import WITH_LANDLOCK  # noqa: PLC0415

    return WITH_LANDLOCK


def _artifacts_landlock(policy: ResolvedPolicy) -> tuple[Artifact, ...]:
    from sandwright.methods.vm.landlock import render_vm_landlock  # noqa: PLC0415

    return render_vm_landlock(policy)


def _backend_landlock() -> Backend:
    from sandwright.methods.vm.backend import VmLandlock  # noqa: PLC0415

    return VmLandlock()


def _declare_kvm() -> Declaration:
    from sandwright.methods.vm.kvm import WITH_KVM  # noqa: PLC0415

    return WITH_KVM


def _artifacts_kvm(policy: ResolvedPolicy) -> tuple[Artifact, ...]:
    from sandwright.methods.vm.kvm import render_vm_kvm  # noqa: PLC0415

    return render_vm_kvm(policy)


def _read_kvm(rendered: Rendered, policy: ResolvedPolicy) -> ReadBack:
    return read_artifacts(rendered, policy)


def _expect_kvm() -> Mapping[str, Answers]:
    from sandwright.methods.vm.kvm import EXPECTED_KVM  # noqa: PLC0415

    return EXPECTED_KVM


def _backend_kvm() -> Backend:
    from sandwright.methods.vm.kvm import VmKvm  # noqa: PLC0415

    return VmKvm()


FORMS: Mapping[str, Form] = {
    QEMU_FORM: Form(
        instead=WITH_QEMU,
        declare=_declare_kvm,
        make_artifacts=_artifacts_kvm,
        read_artifacts=_read_kvm,
        make_backend=_backend_kvm,
        expect=_expect_kvm,
    ),
    LANDLOCK: Form(
        instead=WEAKER,
        declare=_declare_landlock,
        make_artifacts=_artifacts_landlock,
        make_backend=_backend_landlock,
    ),
}
"""Where User-Mode Linux isn't, or where no namespace can be made."""


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
