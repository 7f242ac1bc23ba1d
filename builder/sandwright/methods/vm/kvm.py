"""The method vm with QEMU and KVM: a virtual machine, in the same sandbox of bubblewrap's."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sandwright.errors import HostError
from sandwright.host import MachineFacts
from sandwright.inputs import LiveHost
from sandwright.methods.contract import LIMIT, Notify, Preflight, quiet
from sandwright.methods.properties import Answers
from sandwright.methods.vm.backend import Vm
from sandwright.methods.vm.machine import MACHINE, QEMU, machine
from sandwright.methods.vm.render import memory, render_vm
from sandwright.methods.vm.support import DECLARATION, PROCESSORS
from sandwright.policy.declaration import Support
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.artifact import Artifact

DEVICE = "/dev/kvm"
_NO_FILES = "9p, by which files are seen, has no sockets and FIFOs"
UNPROVED = Support("cannot", "connections are carried to User-Mode Linux alone")

WITH_KVM = dataclasses.replace(
    DECLARATION,
    support={
        **DECLARATION.support,
        **dict.fromkeys(
            ("network.proxy", "network.private", "network.localhost", "network.expose"), UNPROVED
        ),
        "network.own-sockets": Support("stricter", f"without a path: {_NO_FILES}"),
        "resources.cpus": Support("stricter", PROCESSORS.replace("User-Mode Linux", "the machine")),
    },
)
"""The form `vm-kvm`."""

EXPECTED_KVM: Mapping[str, Answers] = {
    "foreign-abi": Answers(
        "SIGSYS", "this kernel has calls of 32-bit programs, and the filter inside refuses them"
    ),
    "fifo.make": Answers("ENXIO", _NO_FILES),
    "unix.own": Answers("ENXIO", _NO_FILES),
    "unix.own.temporary": Answers("ENXIO", _NO_FILES),
}
"""By claim, where it differs from the method's."""


def render_vm_kvm(policy: ResolvedPolicy) -> tuple[Artifact, ...]:
    """Render the artifacts as `render_vm` does, for a machine of QEMU. Raise like `render_vm`."""
    return render_vm(policy, kernel=QEMU, accelerator="kvm")


@dataclass(frozen=True)
class VmKvm(Vm):
    """The method vm with QEMU and KVM. The leftovers of a run are those of bubblewrap."""

    name: str = "vm-kvm"

    def programs(self) -> Sequence[str]:
        """The programs bwrap and QEMU."""
        return ("bwrap", QEMU)

    def environment(
        self, policy: ResolvedPolicy, inputs: LiveHost | None = None, *, notify: Notify = quiet
    ) -> Mapping[str, str]:
        """The variable with the directory of the machine, which is created if it does not exist.

        Raise HostError like `machine`.
        """
        if inputs is not None:
            inputs.program(QEMU)
        return {MACHINE: str(machine(memory(policy), notify=notify))}

    def trial(self) -> Mapping[str, str]:
        """The variable for a trial's policy, which has no limits. Raise like `machine`."""
        return {MACHINE: str(machine(memory(None)))}

    def preflight(self, host: MachineFacts, *, limit: float = LIMIT) -> Preflight:
        """Start a machine with KVM, copy it, restore it: the device's existence proves nothing."""
        if lacking := self.lacking(host):
            return lacking
        if not os.access(DEVICE, os.R_OK | os.W_OK):
            return Preflight(self.name, "kernel-lacks", f"{DEVICE} is not there, or not for this user")
        try:
            self.trial()
        except HostError as error:
            return Preflight(self.name, "hangs" if "hangs" in str(error) else "not-started", str(error))
        return super().preflight(host, limit=limit)
