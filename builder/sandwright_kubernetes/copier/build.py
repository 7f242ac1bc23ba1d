"""`python -m sandwright_kubernetes.copier.build`: builds the committed program from `source/`."""

from __future__ import annotations

from sandwright.crossbuild import rebuild
from sandwright_kubernetes.copier import COPIER

if __name__ == "__main__":
    rebuild(COPIER)
