"""User-Mode Linux: a kernel of its own for each run, inside the sandbox that bubblewrap makes."""

from __future__ import annotations

from collections.abc import Mapping

from sandwright.methods.contract import Form
from sandwright.methods.parts import MethodParts, call, part
from sandwright.methods.properties import Properties

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

_PARTS = MethodParts(
    __name__, artifacts=".render:render_vm", reader=".explain:read_vm", backend=".backend:Vm"
)

QEMU_FORM = "vm-kvm"
WITH_QEMU = "its kernel runs in QEMU with KVM"
LANDLOCK = "vm-landlock"
WEAKER = "around its kernel stands Landlock, and no namespace"


FORMS: Mapping[str, Form] = {
    QEMU_FORM: Form(
        instead=WITH_QEMU,
        declare=part(__name__, ".kvm:WITH_KVM"),
        make_artifacts=call(__name__, ".kvm:render_vm_kvm"),
        read_artifacts=_PARTS.read_artifacts,
        make_backend=call(__name__, ".kvm:VmKvm"),
        expect=part(__name__, ".kvm:EXPECTED_KVM"),
    ),
    LANDLOCK: Form(
        instead=WEAKER,
        declare=part(__name__, ".support:WITH_LANDLOCK"),
        make_artifacts=call(__name__, ".landlock:render_vm_landlock"),
        make_backend=call(__name__, ".backend:VmLandlock"),
    ),
}
"""Where User-Mode Linux isn't, or where no namespace can be made."""

declare = _PARTS.declare
make_artifacts = _PARTS.make_artifacts
read_artifacts = _PARTS.read_artifacts
make_backend = _PARTS.make_backend
expect = _PARTS.expect
