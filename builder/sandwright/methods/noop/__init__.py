"""The method that enforces nothing."""

from __future__ import annotations

from sandwright.methods.contract import Method, Parts
from sandwright.methods.properties import Properties

METHOD = Method(
    properties=Properties(
        system="any",
        kernel_exploit_impact="there is no barrier: the command can access all your files",
    ),
    parts=Parts(
        declaration="sandwright.methods.noop.support:DECLARATION",
        render="sandwright.methods.noop.render:render_noop",
        read_back="sandwright.methods.noop.explain:read_noop",
        backend="sandwright.methods.noop.backend:Noop",
        expected="sandwright.methods.noop.expected:EXPECTED",
    ),
)
