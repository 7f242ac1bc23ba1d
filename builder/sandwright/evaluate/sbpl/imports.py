"""Finds the profiles that a profile imports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sandwright.evaluate.sbpl.library import IMPORT_DIRECTORIES
from sandwright.evaluate.sbpl.reader import MAX_SIZE
from sandwright.evaluate.sbpl.source import SourceFile
from sandwright.resources import data_path

APPROXIMATE = " (approximate)"
"""The suffix of the system profiles that we wrote ourselves, from facts."""

STAND_INS = frozenset({"system.sb", "bsd.sb"})
"""The system profiles for which we have approximations."""


@dataclass(frozen=True)
class FileImporter:
    """Looks for imported profiles in files.

    A relative name is looked for in `directories`, then where macOS looks; an absolute one is read as it is,
    but one in macOS' own directories is looked for in `directories` first. Both reach beyond `directories`
    only if `trusted`: a profile that someone else sent must not make us read
    files. `system.sb` and `bsd.sb`, when they are not found, are stood in for by approximations of our own;
    their names then end in `APPROXIMATE`.
    """

    directories: Sequence[Path] = ()
    trusted: bool = False

    def __call__(self, name: str, directories: Sequence[str]) -> SourceFile | None:
        """The profile called `name`, or None; `directories` is where macOS looks."""
        for path in self._candidate_paths(name, directories):
            if path.is_file() and path.stat().st_size <= MAX_SIZE:
                return SourceFile(str(path), path.read_bytes())
        base = name.rpartition("/")[2]
        if base in STAND_INS:
            return SourceFile(base + APPROXIMATE, data_path("seatbelt", "system", base).read_bytes())
        return None

    def _candidate_paths(self, name: str, directories: Sequence[str]) -> list[Path]:
        if "\0" in name or ".." in name.split("/"):
            return []
        if name.startswith("/"):
            of_macos = (f"{each}/" for each in IMPORT_DIRECTORIES if name.startswith(f"{each}/"))
            relative = [name.removeprefix(each) for each in of_macos]
            copies = [directory / each for directory in self.directories for each in relative]
            return [*copies, *([Path(name)] if self.trusted else [])]
        beyond = [Path(directory) for directory in directories] if self.trusted else []
        return [directory / name for directory in [*self.directories, *beyond]]
