"""Podman: containers of its engine."""

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
    root="image",
    needs_image=True,
    engine=True,
    proxy="launcher",
    shims=True,
    placeholders=True,
    verifiable=True,
    proposed={"linux": 2, "darwin": 2},
    walls=(
        "an image's root, with what the policy lists",
        "your own number without capabilities; without root a user namespace besides",
        "namespaces of processes, network and IPC",
        "the filter of system calls",
    ),
    kernel_bug="all files of the machine: the host's kernel answers, and there is no wall behind it",
)
"""What others have to know of it."""

FORMS: Mapping[str, Form] = {}
"""It has no other."""


def declare() -> Declaration:
    """The part `support`."""
    from sandwright.methods.podman.support import DECLARATION  # noqa: PLC0415

    return DECLARATION


def make_artifacts(policy: ResolvedPolicy) -> tuple[Artifact, ...]:
    """The part `render`."""
    from sandwright.methods.podman.render import render_podman  # noqa: PLC0415

    return render_podman(policy)


def read_artifacts(rendered: Rendered, policy: ResolvedPolicy) -> ReadBack:  # noqa: ARG001
    """The part `explain`."""
    from sandwright.methods.shared.engine.explain import read_engine  # noqa: PLC0415

    return read_engine(rendered)


def make_backend() -> Backend | None:
    """The part `backend`."""
    from sandwright.methods.podman.backend import Podman  # noqa: PLC0415

    return Podman()


def expect() -> Mapping[str, Answers]:
    """The part `expected`."""
    from sandwright.methods.podman.expected import EXPECTED  # noqa: PLC0415

    return EXPECTED
