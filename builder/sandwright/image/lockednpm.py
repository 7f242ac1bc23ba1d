"""A package of npm in the lock of an image."""

import re
import urllib.parse
from dataclasses import dataclass
from typing import Annotated, Literal

from sandwright.documents.checks import expected
from sandwright.image.lockfile import is_count, text_of

NAME = r"(?:@[a-z0-9~-][a-z0-9._~-]*/)?[A-Za-z0-9~_-][A-Za-z0-9._~-]*"
"""The name of a package of npm; those of old packages have capitals."""
PATH = rf"node_modules/{NAME}(?:/node_modules/{NAME})*"
VERSION = r"[0-9]+\.[0-9]+\.[0-9]+(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?"
"""A version of semver 2.0.0, which names no file, address or tag to npm."""


@dataclass(frozen=True, order=True)
class LockedNpm:
    """A package of npm. `path` is its directory, as package-lock.json has it: `node_modules/a`.

    `direct`: the project needs it itself, so its programs are put where PATH has them.
    """

    path: Annotated[str, text_of(PATH, "a path like node_modules/NAME")]
    name: Annotated[str, text_of(NAME, "the name of a package of npm")]
    version: Annotated[str, text_of(VERSION, "a version like 1.2.3")]
    size: Annotated[int, expected("a number of bytes", is_count)]
    sha256: Annotated[str, text_of("[0-9a-f]{64}", "a SHA-256 in 64 hexadecimal digits")]
    direct: bool

    @property
    def format(self) -> Literal["npm"]:
        """The format of its file."""
        return "npm"

    @property
    def file(self) -> str:
        """The package's file name in `oras pull`. The names of scopes are directories."""
        return f"{self.name}-{self.version}.tgz"

    @property
    def url(self) -> str:
        """Its package URL."""
        return npm_url(self.name, self.version)

    def __str__(self) -> str:
        return f"{self.name} {self.version} (npm)"


def npm_url(name: str, version: str) -> str:
    """The package URL of a package of npm (the type `npm`)."""
    return f"pkg:npm/{urllib.parse.quote(name, safe='/')}@{urllib.parse.quote(version, safe='')}"


def is_version(text: object) -> bool:
    """Whether npm fetches that version from a registry, and takes it for nothing else."""
    return isinstance(text, str) and re.fullmatch(VERSION, text) is not None
