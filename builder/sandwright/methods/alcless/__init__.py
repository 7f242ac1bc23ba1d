"""An account of the project's own, on macOS, through alcless."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sandwright.errors import RenderError
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
    own_account=True,
    explained=False,
    walls=("an account of its own, which has a copy of the project",),
    kernel_bug="all files of the machine: macOS' kernel answers",
)
"""What others have to know of it."""

FORMS: Mapping[str, Form] = {}
"""It has no other."""


def declare() -> Declaration:
    """The part `support`."""
    from sandwright.methods.alcless.support import DECLARATION  # noqa: PLC0415

    return DECLARATION


def make_artifacts(policy: ResolvedPolicy) -> tuple[Artifact, ...]:
    """The part `render`."""
    from sandwright.methods.alcless.render import render_alcless  # noqa: PLC0415

    return render_alcless(policy)


def read_artifacts(rendered: Rendered, policy: ResolvedPolicy) -> ReadBack:  # noqa: ARG001
    """Nothing: its artifacts can't be read back."""
    raise RenderError("alcless is rendered, but not read back yet")


def make_backend() -> Backend | None:
    """The part `backend`."""
    from sandwright.methods.alcless.backend import Alcless  # noqa: PLC0415

    return Alcless()


def expect() -> Mapping[str, Answers]:
    """The part `expected`."""
    from sandwright.methods.alcless.expected import EXPECTED  # noqa: PLC0415

    return EXPECTED
