"""Landlock: a process restricts itself, where no namespace can be made."""

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
    verifiable=True,
    proposed={"linux": 6},
    last_resort=True,
    walls=(
        "Landlock's rules for paths, in the host's own namespaces",
        "the filters of system calls",
    ),
    kernel_bug=(
        "all files of the machine: the host's kernel answers, and there is no wall behind it; more of it "
        "can be called than under bwrap, as there are no namespaces"
    ),
)
"""What others have to know of it."""

FORMS: Mapping[str, Form] = {}
"""It has no other."""


def declare() -> Declaration:
    """The part `support`."""
    from sandwright.methods.landlock.support import DECLARATION  # noqa: PLC0415

    return DECLARATION


def make_artifacts(policy: ResolvedPolicy) -> tuple[Artifact, ...]:
    """The part `render`."""
    from sandwright.methods.landlock.render import render_landlock  # noqa: PLC0415

    return render_landlock(policy)


def read_artifacts(rendered: Rendered, policy: ResolvedPolicy) -> ReadBack:  # noqa: ARG001
    """The part `explain`."""
    from sandwright.methods.landlock.explain import read_landlock  # noqa: PLC0415

    return read_landlock(rendered)


def make_backend() -> Backend | None:
    """The part `backend`."""
    from sandwright.methods.landlock.backend import Landlock  # noqa: PLC0415

    return Landlock()


def expect() -> Mapping[str, Answers]:
    """The part `expected`."""
    from sandwright.methods.landlock.expected import EXPECTED  # noqa: PLC0415

    return EXPECTED
