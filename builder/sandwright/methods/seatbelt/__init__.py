"""Seatbelt: macOS' own sandbox, through sandbox-exec."""

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
    system="darwin",
    shims=True,
    verifiable=True,
    simulated_by="profile.sb",
    proposed={"darwin": 1},
    foreign_paths=(
        "seatbelt is rendered for the paths of a Linux host, for a look at it only: run `sandwright "
        "facts` on the Mac, and give its output with --facts"
    ),
    walls=("the profile of `sandbox-exec`",),
    kernel_bug="all that your account may read and write, or more: macOS' kernel answers",
)
"""What others have to know of it."""

FORMS: Mapping[str, Form] = {}
"""It has no other."""


def declare() -> Declaration:
    """The part `support`."""
    from sandwright.methods.seatbelt.support import DECLARATION  # noqa: PLC0415

    return DECLARATION


def make_artifacts(policy: ResolvedPolicy) -> tuple[Artifact, ...]:
    """The part `render`."""
    from sandwright.methods.seatbelt.render import render_seatbelt  # noqa: PLC0415

    return render_seatbelt(policy)


def read_artifacts(rendered: Rendered, policy: ResolvedPolicy) -> ReadBack:
    """The part `explain`."""
    from sandwright.methods.seatbelt.explain import read_seatbelt  # noqa: PLC0415

    return read_seatbelt(rendered, policy)


def make_backend() -> Backend | None:
    """The part `backend`."""
    from sandwright.methods.seatbelt.backend import Seatbelt  # noqa: PLC0415

    return Seatbelt()


def expect() -> Mapping[str, Answers]:
    """The part `expected`."""
    from sandwright.methods.seatbelt.expected import EXPECTED  # noqa: PLC0415

    return EXPECTED
