"""User-Mode Linux: a separate kernel for each run, inside a bubblewrap sandbox."""

from __future__ import annotations

from sandwright.methods.contract import Method, MethodVariant, Parts
from sandwright.methods.properties import Properties

QEMU_FORM = "vm-kvm"
WITH_QEMU = "its kernel runs in QEMU with KVM"
LANDLOCK = "vm-landlock"
WEAKER = "Landlock confines its kernel, without namespaces"

METHOD = Method(
    properties=Properties(
        exec_unsupported="the line to the guest kernel carries the streams of one command",
        own_kernel=True,
        placeholders=True,
        verifiable=True,
        isolation_layers=(
            "a separate kernel, in a process, with the mounts of the plan",
            "the seccomp filter in that kernel",
            "around that process: the mounts and namespaces of bwrap, without a network; where none can "
            "be created, a supervisor that makes each call that names a file, and Landlock",
            "a seccomp filter on the host that allows ptrace and no Unix sockets",
        ),
        kernel_exploit_impact=(
            "of the guest kernel: the files that bwrap would show, and with Landlock also names, sizes and "
            "times of all files and the arguments of other processes; of the host's kernel: all files of the "
            "machine, through the calls that the process makes"
        ),
    ),
    parts=Parts(
        declaration="sandwright.methods.vm.support:DECLARATION",
        render="sandwright.methods.vm.render:render_vm",
        read_back="sandwright.methods.vm.explain:read_vm",
        backend="sandwright.methods.vm.backend:Vm",
        expected="sandwright.methods.vm.expected:EXPECTED",
    ),
    variants={
        # Where User-Mode Linux is not installed, or where no namespace can be made.
        QEMU_FORM: MethodVariant(
            Parts(
                declaration="sandwright.methods.vm.kvm:WITH_KVM",
                render="sandwright.methods.vm.kvm:render_vm_kvm",
                read_back="sandwright.methods.vm.explain:read_vm",
                backend="sandwright.methods.vm.kvm:VmKvm",
                expected="sandwright.methods.vm.kvm:EXPECTED_KVM",
            ),
            fallback=WITH_QEMU,
        ),
        LANDLOCK: MethodVariant(
            Parts(
                declaration="sandwright.methods.vm.support:WITH_LANDLOCK",
                render="sandwright.methods.vm.landlock:render_vm_landlock",
                read_back="sandwright.methods.vm.explain:read_vm_landlock",
                read_others="sandwright.methods.vm.explain:read_landlock_rules",
                backend="sandwright.methods.vm.backend:VmLandlock",
            ),
            fallback=WEAKER,
        ),
    },
)
