"""`sandwright run --detach`."""

from __future__ import annotations

from collections.abc import Callable

from sandwright.cli import console
from sandwright.session import detached
from sandwright.session.request import RunRequest


def detach(request: RunRequest, run: Callable[[], int]) -> int:
    """Start the run of a request in the background, and print its name or ID; give an exit status."""
    return detached.start(request, run, console.line)
