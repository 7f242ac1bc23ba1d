"""Docker: containers of its engine."""

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
    proposed={"linux": 3, "darwin": 3},
    walls=(
        "an image's root, with what the policy lists",
        "your own number without capabilities",
        "namespaces of processes, network and IPC",
        "the filter of system calls",
    ),
    kernel_bug="all files of the machine: the host's kernel answers, and there is no wall behind it",
)
"""What others have to know of it."""


def _declare_devcontainer() -> Declaration:
    from sandwright.methods.docker.devcontainer import DECLARATION  # noqa: PLC0415

    return DECLARATION


def _make_devcontainer(policy: ResolvedPolicy) -> tuple[Artifact, ...]:
    from sandwright.methods.docker.devcontainer import render_devcontainer  # noqa: PLC0415

    return render_devcontainer(policy)


FORMS: Mapping[str, Form] = {
    "devcontainer": Form(declare=_declare_devcontainer, make_artifacts=_make_devcontainer)
}
"""Its other sandboxes."""


def declare() -> Declaration:
    """The part `support`."""
    from sandwright.methods.docker.support import DECLARATION  # noqa: PLC0415

    return DECLARATION


def make_artifacts(policy: ResolvedPolicy) -> tuple[Artifact, ...]:
    """The part `render`."""
    from sandwright.methods.docker.render import render_docker  # noqa: PLC0415

    return render_docker(policy)


def read_artifacts(rendered: Rendered, policy: ResolvedPolicy) -> ReadBack:  # noqa: ARG001
    """The part `explain`."""
    from sandwright.methods.shared.engine.explain import read_engine  # noqa: PLC0415

    return read_engine(rendered)


def make_backend() -> Backend | None:
    """The part `backend`."""
    from sandwright.methods.docker.backend import Docker  # noqa: PLC0415

    return Docker()


def expect() -> Mapping[str, Answers]:
    """The part `expected`."""
    from sandwright.methods.docker.expected import EXPECTED  # noqa: PLC0415

    return EXPECTED
