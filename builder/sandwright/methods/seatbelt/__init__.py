"""Seatbelt: macOS' own sandbox, through sandbox-exec."""

from __future__ import annotations

from sandwright.methods.contract import Method, Parts
from sandwright.methods.properties import Properties

METHOD = Method(
    properties=Properties(
        system="darwin",
        shims=True,
        verifiable=True,
        simulated_by="profile.sb",
        proposed={"darwin": 1},
        foreign_paths=(
            "seatbelt is rendered with the paths of a Linux host, only for inspection: run `sandwright "
            "facts` on the Mac, and give its output with --facts"
        ),
        isolation_layers=("the profile of `sandbox-exec`",),
        kernel_exploit_impact=(
            "all that your account may read and write, or more: macOS' kernel serves the calls"
        ),
    ),
    parts=Parts(
        declaration="sandwright.methods.seatbelt.support:DECLARATION",
        render="sandwright.methods.seatbelt.render:render_seatbelt",
        read_back="sandwright.methods.seatbelt.explain:read_seatbelt",
        backend="sandwright.methods.seatbelt.backend:Seatbelt",
        expected="sandwright.methods.seatbelt.expected:EXPECTED",
    ),
)
