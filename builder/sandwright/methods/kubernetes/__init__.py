"""A Job in a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sandwright.methods.contract import Form
from sandwright.methods.kubernetes.travel import REGISTRY
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
    proxy="launcher",
    walls=(
        "an image's root, with the project's volume",
        "no rights, no new ones (Pod Security `restricted`)",
        "the node's namespaces",
        "the filter of system calls",
    ),
    kernel_bug=(
        "all files of the node, and of the Pods on it; with a RuntimeClass of gVisor as there. Your own "
        "machine is another"
    ),
    remote=True,
    travels=REGISTRY,
    verifiable=True,
)
"""What others have to know of it."""


def _make_install(policy: ResolvedPolicy) -> tuple[Artifact, ...]:
    from sandwright.methods.kubernetes.install import render_install  # noqa: PLC0415

    return render_install(policy)


FORMS: Mapping[str, Form] = {"kubernetes-install": Form(make_artifacts=_make_install)}
"""What an administrator of a cluster installs for the sandbox."""


def declare() -> Declaration:
    """The part `support`."""
    from sandwright.methods.kubernetes.support import DECLARATION  # noqa: PLC0415

    return DECLARATION


def make_artifacts(policy: ResolvedPolicy) -> tuple[Artifact, ...]:
    """The part `render`."""
    from sandwright.methods.kubernetes.render import render_kubernetes  # noqa: PLC0415

    return render_kubernetes(policy)


def read_artifacts(rendered: Rendered, policy: ResolvedPolicy) -> ReadBack:  # noqa: ARG001
    """The part `explain`."""
    from sandwright.methods.kubernetes.explain import read_cluster  # noqa: PLC0415

    return read_cluster(rendered)


def make_backend() -> Backend | None:
    """The part `backend`."""
    from sandwright.methods.kubernetes.backend import Kubernetes  # noqa: PLC0415

    return Kubernetes()


def expect() -> Mapping[str, Answers]:
    """The part `expected`."""
    from sandwright.methods.kubernetes.expected import EXPECTED  # noqa: PLC0415

    return EXPECTED
