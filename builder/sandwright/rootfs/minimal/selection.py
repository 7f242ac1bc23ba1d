"""The files of a minimal root file system, with a reason for every path kept or left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Because = Literal[
    "asked", "link", "interpreter", "needed", "script", "package", "rule", "declared", "trace", "dlopen"
]
"""Requested; a link on the way; ELF interpreter; DT_NEEDED; a script's interpreter; data of a program's
package; a rule of oci/minimal.json; declared by caller or image; seen in a traced run; a library loaded at
run time, by a note in a file or a traced run."""


@dataclass(frozen=True)
class Reason:
    """The reason to keep a path: the kind, the kept path that led to it (None at the start), and details."""

    kind: Because
    parent: bytes | None = None
    detail: str = ""

    def __str__(self) -> str:
        led = f" by {path_text(self.parent)}" if self.parent else ""
        return f"{self.kind}{led}" + (f" ({self.detail})" if self.detail else "")


@dataclass(frozen=True)
class Question:
    """A question that files cannot answer: its subject, and the kept files (or paths) that raise it."""

    about: str
    raised_by: tuple[bytes, ...]


@dataclass(frozen=True)
class Selection:
    """The result of a selection. `kept` maps each path to the reasons that led to it, the first first.

    `left_out` are paths that belong to something kept and were not, with the reason; `missing` are things
    that a kept file names and the image doesn't have. Parent directories are not listed: kept files bring
    them along.
    """

    programs: tuple[bytes, ...]
    kept: Mapping[bytes, tuple[Reason, ...]]
    left_out: Mapping[bytes, str]
    missing: tuple[str, ...]
    questions: tuple[Question, ...]

    @property
    def loaded_late(self) -> tuple[bytes, ...]:
        """Kept libraries that no file needs by its header, but that are loaded at run time."""
        late = (path for path, reasons in self.kept.items() if any(r.kind == "dlopen" for r in reasons))
        return tuple(late)

    def as_dict(self) -> dict[str, Any]:
        """The selection for JSON: names as text, with escapes for bytes that are not UTF-8."""
        return {
            "programs": [path_text(path) for path in self.programs],
            "kept": {
                path_text(path): [_row(reason) for reason in reasons] for path, reasons in self.kept.items()
            },
            "left_out": {path_text(path): reason for path, reason in self.left_out.items()},
            "missing": list(self.missing),
            "questions": [
                {"about": each.about, "raised_by": [path_text(path) for path in each.raised_by]}
                for each in self.questions
            ],
        }


def _row(reason: Reason) -> dict[str, str]:
    row = {"kind": str(reason.kind)}
    if reason.parent is not None:
        row["by"] = path_text(reason.parent)
    if reason.detail:
        row["detail"] = reason.detail
    return row


def path_text(path: bytes) -> str:
    """A path for a person; bytes that are no UTF-8 are escaped."""
    return path.decode("utf-8", "backslashreplace")
