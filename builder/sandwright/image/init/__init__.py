"""The first process of images that say `config.init`, as a static program: small C, beside this module.

It is built by the compiler of `crossbuild` alone, so that an image has the same bytes wherever it is built.
"""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from sandwright import crossbuild

SOURCE = Path(__file__).parent


def program(platform: str) -> bytes:
    """The program for a platform (`linux/arm64`). Raise ToolMissing without the compiler."""
    with tempfile.TemporaryDirectory(prefix="sandwright-") as scratch:
        return crossbuild.build(_sources(), target=platform, output=Path(scratch) / "init").read_bytes()


def checksum() -> str:
    """The SHA-256 of all that decides about its bytes. Raise ToolMissing without the compiler."""
    digest = hashlib.sha256(crossbuild.compiler_version().encode())
    for source in _sources():
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return f"sha256:{digest.hexdigest()}"


def _sources() -> list[Path]:
    return sorted(path for path in SOURCE.iterdir() if path.suffix in (".c", ".h"))
