"""Bounds how far the members of an archive may lead us through directories and links. Pure."""

from __future__ import annotations

from sandwright.rootfs.tar.entry import EntryRefused, show

LONGEST = 8192
"""Steps for one path: each of 40 links may have 2,000 components."""

_FREE = 200_000
_EACH = 32


class StepBudget:
    """How many directories may be entered for all members together: 200,000, and 32 for each member.

    Images take fewer than ten for a member. An archive whose members lie a thousand directories deep, each
    far from the one before, takes a thousand for each, so that its cost grows with the square of its length.
    """

    def __init__(self) -> None:
        self._left = _FREE

    def allow(self) -> None:
        """Another member is to be found."""
        self._left += _EACH

    def spend(self, path: bytes) -> None:
        """Take one step on the way to `path`. Raise EntryRefused when there is none left."""
        self._left -= 1
        if self._left < 0:
            raise EntryRefused(
                f"its folder {show(path)} and those before it are too many directories to enter"
            )
