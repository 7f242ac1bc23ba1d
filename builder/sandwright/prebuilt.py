"""Small static C programs that ship built for each platform, so that users need no compiler.

The programs are committed beside their sources. `programs.json` records their digests, that of the sources,
and the version of Zig that built them; tests compare the digests, build the programs again and compare them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class PrebuiltProgram:
    """A program and its sources in `room`, a directory with `source/` and `programs/`."""

    name: str
    room: Path
    platforms: tuple[str, ...]
    flags: tuple[str, ...] = ()
    """The compiler's, behind those that all programs have."""
    shared: tuple[Path, ...] = ()
    """Sources of another program that are in this one too."""

    @property
    def source(self) -> Path:
        """The directory of its sources."""
        return self.room / "source"

    @property
    def record(self) -> Path:
        """The file with the digests of the programs and the version of the compiler."""
        return self.room / "programs" / "programs.json"

    def path(self, platform: str) -> Path:
        """The program for a platform, `linux/amd64`."""
        return self.record.parent / platform.replace("/", "-") / self.name

    def sources(self) -> list[Path]:
        """Its sources and their headers."""
        files = (each for each in self.source.iterdir() if each.suffix in (".c", ".h"))
        return sorted((*files, *self.shared))

    def source_digest(self) -> str:
        """The SHA-256 of the names and bytes of its sources."""
        digest = hashlib.sha256()
        for each in self.sources():
            digest.update(each.name.encode() + b"\0" + hashlib.sha256(each.read_bytes()).digest())
        return f"sha256:{digest.hexdigest()}"
