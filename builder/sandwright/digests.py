"""SHA-256 in hexadecimal, for the modules of a repeated start."""

from __future__ import annotations

import hashlib


def sha256(data: bytes) -> str:
    """The SHA-256 of bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()
