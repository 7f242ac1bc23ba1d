"""Landlock: a process restricts itself, where no namespace can be made."""

from __future__ import annotations

from sandwright.methods.contract import Method, Parts
from sandwright.methods.properties import Properties

METHOD = Method(
    properties=Properties(
        exec_unsupported="",
        verifiable=True,
        proposed={"linux": 6},
        last_resort=True,
        isolation_layers=(
            "Landlock's rules for paths, in the host's own namespaces",
            "the seccomp filters",
        ),
        kernel_exploit_impact=(
            "all files of the machine: the host's kernel serves the calls, and no layer is behind it; more "
            "of it can be called than under bwrap, as there are no namespaces"
        ),
    ),
    parts=Parts(
        declaration="sandwright.methods.landlock.support:DECLARATION",
        render="sandwright.methods.landlock.render:render_landlock",
        read_back="sandwright.methods.landlock.explain:read_landlock",
        backend="sandwright.methods.landlock.backend:Landlock",
        expected="sandwright.methods.landlock.expected:EXPECTED",
    ),
)
