"""`python -m sandwright.launcher.build`: builds the committed `launch` and `guest`, with their records."""

from __future__ import annotations

from sandwright.crossbuild import rebuild
from sandwright.launcher import GUEST, LAUNCH, LAUNCH_INIT, LAUNCH_VM

if __name__ == "__main__":
    for program in (LAUNCH, LAUNCH_INIT, LAUNCH_VM, GUEST):
        rebuild(program)
