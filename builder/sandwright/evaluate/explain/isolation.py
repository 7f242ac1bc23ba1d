"""Isolation apart from files, network and variables, read from artifacts: namespaces, rights, devices."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from sandwright.errors import DocumentError, Problem
from sandwright.evaluate.explain.verdict import ArtifactPosition
from sandwright.policy.declaration import Namespace

ALL = "ALL"
"""All capabilities."""

ENGINE_DEFAULTS = "those that the engine gives by default"

_Positions = Mapping[str, ArtifactPosition]


@dataclass(frozen=True)
class Isolation:
    """The isolation of a sandbox from the host, according to its artifacts.

    `at` is where they say it. `namespaces` are its own; questions about connections cover that of the
    network. `capabilities` are those that any process inside can have, without `CAP_`, and `granted` those of
    them that the method needs under every policy. `devices` are those of the host that can be opened.
    `unmasked` are the words that lift an engine's masks over /proc and /sys, and `engine_masks` says that it
    has them.
    """

    at: ArtifactPosition
    namespaces: AbstractSet[Namespace] = frozenset()
    capabilities: _Positions = field(default_factory=dict)
    granted: AbstractSet[str] = frozenset()
    gains_rights: ArtifactPosition | None = None
    writable_root: ArtifactPosition | None = None
    devices: _Positions = field(default_factory=dict)
    unmasked: _Positions = field(default_factory=dict)
    engine_masks: bool = False


def refuse_unknown(position: ArtifactPosition) -> DocumentError:
    """The error for an unknown option or key: its effect is unknown, so the artifact is not used."""
    problem = Problem(
        position.line, position.column, "", f"{position.text!r} is unknown: the artifact is not used"
    )
    return DocumentError(position.artifact, [problem])
