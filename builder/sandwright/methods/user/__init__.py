"""An account of the project's own, on Linux."""

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
    own_account=True,
    placeholders=True,
    verifiable=True,
    walls=(
        "an account of the project's own, to which your closed files are closed",
        "a mount namespace that holds what the plan shows",
        "namespaces of processes, network and IPC",
        "the filter of system calls",
        "Landlock, where the kernel has it: a second list of what may be written, and read where a policy "
        "lists that",
    ),
    kernel_bug="all files of the machine: the host's kernel answers, and there is no wall behind it",
)
"""What others have to know of it."""

FORMS: Mapping[str, Form] = {}
"""It has no other."""


def declare() -> Declaration:
    """The part `support`."""
    from sandwright.methods.user.support import DECLARATION  # noqa: PLC0415

    return DECLARATION


def make_artifacts(policy: ResolvedPolicy) -> tuple[Artifact, ...]:
    """The part `render`."""
    from sandwright.methods.user.render import render_user  # noqa: PLC0415

    return render_user(policy)


def read_artifacts(rendered: Rendered, policy: ResolvedPolicy) -> ReadBack:  # noqa: ARG001
    """The part `explain`."""
    from sandwright.methods.user.explain import read_user  # noqa: PLC0415

    return read_user(rendered)


def make_backend() -> Backend | None:
    """The part `backend`."""
    from sandwright.methods.user.backend import User  # noqa: PLC0415

    return User()


def expect() -> Mapping[str, Answers]:
    """The part `expected`."""
    from sandwright.methods.user.expected import EXPECTED  # noqa: PLC0415

    return EXPECTED
