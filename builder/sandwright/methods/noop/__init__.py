"""The method that enforces nothing."""

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
    system="any",
    kernel_bug="nothing is between: the command has your files",
)
"""What others have to know of it."""

FORMS: Mapping[str, Form] = {}
"""It has no other."""


def declare() -> Declaration:
    """The part `support`."""
    from sandwright.methods.noop.support import DECLARATION  # noqa: PLC0415

    return DECLARATION


def make_artifacts(policy: ResolvedPolicy) -> tuple[Artifact, ...]:
    """The part `render`."""
    from sandwright.methods.noop.render import render_noop  # noqa: PLC0415

    return render_noop(policy)


def read_artifacts(rendered: Rendered, policy: ResolvedPolicy) -> ReadBack:  # noqa: ARG001
    """The part `explain`."""
    from sandwright.methods.noop.explain import read_noop  # noqa: PLC0415

    return read_noop(rendered)


def make_backend() -> Backend | None:
    """The part `backend`."""
    from sandwright.methods.noop.backend import Noop  # noqa: PLC0415

    return Noop()


def expect() -> Mapping[str, Answers]:
    """The part `expected`."""
    from sandwright.methods.noop.expected import EXPECTED  # noqa: PLC0415

    return EXPECTED
