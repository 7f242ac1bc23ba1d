"""An account of the project's own, on macOS, through alcless."""

from __future__ import annotations

from sandwright.methods.contract import Method, Parts
from sandwright.methods.properties import Properties

METHOD = Method(
    properties=Properties(
        system="darwin",
        own_account=True,
        isolation_layers=("a separate account, with a copy of the project",),
        kernel_exploit_impact="all files of the machine: macOS' kernel serves the calls",
    ),
    parts=Parts(
        declaration="sandwright.methods.alcless.support:DECLARATION",
        render="sandwright.methods.alcless.render:render_alcless",
        read_back="sandwright.methods.alcless.explain:read_alcless",
        backend="sandwright.methods.alcless.backend:Alcless",
        expected="sandwright.methods.alcless.expected:EXPECTED",
    ),
)
