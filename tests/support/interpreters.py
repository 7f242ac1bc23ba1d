"""A Python that programs inside a sandbox find, wherever the clone and its environment are."""

from __future__ import annotations

import os
import sys


def seen_inside() -> str:
    """The environment's Python, or the one behind it.

    A sandbox has a /tmp of its own, which hides an environment there; and the first line of a script, and
    the words of a shell, can't hold a path with blanks.
    """
    below_tmp = os.path.realpath(sys.prefix).startswith("/tmp/")
    if below_tmp or any(each.isspace() for each in sys.executable):
        return os.path.realpath(sys.executable)  # links of an environment lead to what it was made of
    return sys.executable


INSIDE = seen_inside()
