"""`python -m sandwright.launcher.build`: builds the committed launcher from `source/`, with its record."""

from __future__ import annotations

from sandwright.crossbuild import rebuild
from sandwright.launcher import LAUNCH

if __name__ == "__main__":
    rebuild(LAUNCH)
