"""An account of the project's own, on Linux."""

from __future__ import annotations

from sandwright.methods.contract import Method, Parts
from sandwright.methods.properties import Properties

METHOD = Method(
    properties=Properties(
        own_account=True,
        placeholders=True,
        verifiable=True,
        isolation_layers=(
            "an account of the project's own, to which your closed files are closed",
            "a mount namespace that holds what the plan shows",
            "namespaces of processes, network and IPC",
            "the filter of system calls",
            "Landlock, where the kernel has it: a second list of what may be written, and read where "
            "a policy lists that",
        ),
        kernel_exploit_impact=(
            "all files of the machine: the host's kernel answers, and there is no wall behind it"
        ),
    ),
    parts=Parts(
        declaration="sandwright.methods.user.support:DECLARATION",
        render="sandwright.methods.user.render:render_user",
        read_back="sandwright.methods.user.explain:read_user",
        backend="sandwright.methods.user.backend:User",
        expected="sandwright.methods.user.expected:EXPECTED",
    ),
)
