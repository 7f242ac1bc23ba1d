"""Progress of long-running work, independent of its display.

The rooms below the command line get a `Progress` and call it; the command line gives one that draws bars on a
terminal and prints plain lines elsewhere. `SILENT` is for callers of the library.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class ProgressStep(Protocol):
    """One piece of work that is under way."""

    def advance(self, amount: int) -> None:
        """`amount` more of the unit given at the start is done. May be called from any thread."""
        ...


class Progress(Protocol):
    """An observer of progress."""

    def step(
        self, label: str, total: int | None = None, *, unit: str = "bytes"
    ) -> AbstractContextManager[ProgressStep]:
        """Work named `label` begins; `total` in `unit` (bytes, or a plural noun), None when not known."""
        ...

    def note(self, text: str) -> None:
        """Report a message that the user should see: one line."""
        ...


class _Silent:
    def advance(self, amount: int) -> None:
        """Ignore the progress."""

    def step(
        self,
        label: str,  # noqa: ARG002
        total: int | None = None,  # noqa: ARG002
        *,
        unit: str = "bytes",  # noqa: ARG002
    ) -> AbstractContextManager[ProgressStep]:
        """Ignore the step."""
        return nullcontext(self)

    def note(self, text: str) -> None:
        """Ignore the note."""


SILENT: Progress = _Silent()
