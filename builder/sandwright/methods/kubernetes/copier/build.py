"""`python -m sandwright.methods.kubernetes.copier.build`: builds the committed program from `source/`."""

from __future__ import annotations

from sandwright.crossbuild import rebuild
from sandwright.methods.kubernetes.copier import COPIER

if __name__ == "__main__":
    rebuild(COPIER)
