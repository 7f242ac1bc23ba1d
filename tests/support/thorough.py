"""How many examples hypothesis makes up: few each time, all of them nightly (`invoke test --thorough`)."""

from __future__ import annotations

import os

THOROUGH = os.environ.get("SANDWRIGHT_THOROUGH") == "1"
PART = 8
"""One in so many examples is tried where nobody asks for all."""


def examples(full: int = 100) -> int:
    """The number of examples for a test that deserves `full` of them."""
    return full if THOROUGH else max(5, full // PART)
