"""Bounds the directories and links that the members of an archive lead through. Pure."""

from __future__ import annotations

from sandwright.rootfs.tar.entry import EntryRefused, show

LONGEST = 8192
"""Steps for one path: each of 40 links may have 2,000 components."""

_FREE = 200_000
_EACH = 32


class StepBudget:
    """Bounds the directories entered for all members together: 200,000, and 32 for each member.

    Images need fewer than ten for a member. Without the bound, an archive of deep, distant members would cost
    the square of its length.
    """

    def __init__(self) -> None:
        self._left = _FREE

    def allow(self) -> None:
        """Add the steps of another member."""
        self._left += _EACH

    def spend(self, path: bytes) -> None:
        """Spend one step towards `path`. Raise EntryRefused when none is left."""
        self._left -= 1
        if self._left < 0:
            raise EntryRefused(
                f"its folder {show(path)} and those before it are too many directories to enter"
            )
