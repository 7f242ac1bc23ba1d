"""The provenance of a policy's value: its layer, file, line and column, for errors and `explain`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from sandwright.errors import DocumentError, Problem
from sandwright.policy.secretnames import without_values

T_co = TypeVar("T_co", covariant=True)

LAYERS = ("built-in", "preset", "floor", "user", "project", "run")
"""The layers of a policy, the lowest first."""


@dataclass(frozen=True)
class PolicySource:
    """The position of a setting in a layer.

    `layer` is the layer's name: `built-in`, `preset default`, `floor`, `user`, `project`, `run`. `line` and
    `column` count from 1, and are 0 for built-in settings without a document. `field` is written as the
    document nests it: `filesystem.write[1]`.
    """

    layer: str
    file: str = ""
    line: int = 0
    column: int = 0
    field: str = ""

    def __str__(self) -> str:
        """`project sandbox.yaml:5:10`."""
        return f"{self.layer} {self.file}:{self.line}:{self.column}" if self.line else self.layer

    @property
    def rank(self) -> int:
        """The height of the layer: a later one has the greater."""
        return LAYERS.index(self.layer.partition(" ")[0])

    @property
    def is_shipped(self) -> bool:
        """Whether it stands in a preset, below the layers (`extends`) or above them (`--preset`)."""
        return self.layer.startswith("preset ") or (self.layer == "run" and self.file.startswith("presets/"))


BUILT_IN = PolicySource("built-in")
"""The source of rules that always hold and stand in no document."""


@dataclass(frozen=True)
class Sourced(Generic[T_co]):
    """A value and its position."""

    value: T_co
    source: PolicySource


@dataclass
class Faults:
    """The faults in the documents of a policy, gathered so that all are reported at once.

    `secrets` are variables with their values: messages have the names instead.
    """

    found: list[tuple[PolicySource, str]] = field(default_factory=list)
    secrets: Mapping[str, str] = field(default_factory=dict)

    def add(self, source: PolicySource, message: str) -> None:
        """Add a fault of a document."""
        self.found.append((source, without_values(message, self.secrets)))

    def raise_any(self) -> None:
        """Raise DocumentError with all faults of the highest layer that has any."""
        if self.found:
            top = max(self.found, key=lambda fault: fault[0].rank)[0].file
            raise DocumentError(top, list(_problems(self.found, top)))


def _problems(found: Iterable[tuple[PolicySource, str]], file: str) -> Iterable[Problem]:
    for source, message in found:
        if source.file == file:
            yield Problem(source.line, source.column, source.field, message)
