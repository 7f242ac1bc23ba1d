"""A wheel in the lock of an image."""

import re
import urllib.parse
from dataclasses import dataclass
from typing import Annotated, Literal

from sandwright.documents.checks import expected
from sandwright.image.lockfile import is_count, text_of

_PART = r"[A-Za-z0-9][A-Za-z0-9._+!]*"


@dataclass(frozen=True, order=True)
class LockedWheel:
    """A Python package. `name` is normalised; `file` is the name of the wheel."""

    name: Annotated[str, text_of("[a-z0-9][a-z0-9-]*", "the normalised name of a Python package")]
    version: Annotated[str, text_of(_PART, "a version")]
    size: Annotated[int, expected("a number of bytes", is_count)]
    sha256: Annotated[str, text_of("[0-9a-f]{64}", "a SHA-256 in 64 hexadecimal digits")]
    file: Annotated[str, text_of(rf"{_PART}(?:-{_PART}){{4,5}}\.whl", "the name of a wheel")]

    @property
    def format(self) -> Literal["wheel"]:
        """The format of its file."""
        return "wheel"

    @property
    def url(self) -> str:
        """Its package URL."""
        return python_url(self.name, self.version)

    def __str__(self) -> str:
        return f"{self.name} {self.version} (Python)"


def python_url(name: str, version: str) -> str:
    """The package URL of a Python package (the type `pypi`)."""
    return f"pkg:pypi/{name}@{urllib.parse.quote(version, safe='')}"


def normalised(name: str) -> str:
    """The name of a Python package as indexes compare it (PyPA, "Names and normalization")."""
    return re.sub(r"[-_.]+", "-", name).lower()
