"""A Python for programs inside a sandbox, wherever the clone and its environment are."""

from __future__ import annotations

import os
import sys


def seen_inside() -> str:
    """The environment's Python, or the one behind it.

    A sandbox has its own /tmp, which hides an environment there; and neither the first line of a script nor
    the words of a shell can contain a path with blanks.
    """
    below_tmp = os.path.realpath(sys.prefix).startswith("/tmp/")
    if below_tmp or any(each.isspace() for each in sys.executable):
        return os.path.realpath(sys.executable)  # an environment's links lead to its base
    return sys.executable


INSIDE = seen_inside()
