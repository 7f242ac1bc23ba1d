"""The first process of images with `config.init`: a small static program that ships built."""

from __future__ import annotations

import hashlib
from pathlib import Path

from sandwright.errors import BuildError
from sandwright.prebuilt import PrebuiltProgram

INIT = PrebuiltProgram("init", Path(__file__).parent, ("linux/amd64", "linux/arm64"))


def program(platform: str) -> bytes:
    """The program for a platform (`linux/arm64`). Raise BuildError for one that has none."""
    if platform not in INIT.platforms:
        raise BuildError(f"there is no first process for {platform}, only for {', '.join(INIT.platforms)}")
    return INIT.path(platform).read_bytes()


def checksum() -> str:
    """The SHA-256 of its bytes for all platforms."""
    digest = hashlib.sha256(b"".join(hashlib.sha256(program(each)).digest() for each in INIT.platforms))
    return f"sha256:{digest.hexdigest()}"
