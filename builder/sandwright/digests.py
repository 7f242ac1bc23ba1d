"""SHA-256 without OpenSSL, whose library takes longer to load than `sandwright run` has to hash."""

from __future__ import annotations


def sha256(data: bytes) -> str:
    """The SHA-256 of bytes, in hexadecimal."""
    try:
        from _sha256 import sha256 as make  # type: ignore[import-not-found]  # noqa: PLC0415 - Python 3.11
    except ImportError:
        try:
            from _sha2 import sha256 as make  # type: ignore[import-not-found]  # noqa: PLC0415
        except ImportError:
            from hashlib import sha256 as make  # noqa: PLC0415
    found: str = make(data).hexdigest()
    return found
