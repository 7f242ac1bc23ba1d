"""The lock file of an image, `lock.json` in its directory: read strictly, written whole or not at all."""

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

from sandwright.documents import strictjson
from sandwright.documents.checks import expected
from sandwright.documents.document import Document, without_positions
from sandwright.documents.model import ValueCheck
from sandwright.errors import DocumentError, FetchError, HostError, IntegrityError, LockError, Problem
from sandwright.outputs import write_output
from sandwright.reading import read_start

FILE = "lock.json"
SCHEMA = 1
COMMAND = "sandwright lock-images"
ARCHITECTURES: Mapping[str, str] = {"linux/amd64": "amd64", "linux/arm64": "arm64"}
"""Debian's name of the architecture for each platform that a lock can hold."""
APK_ARCHITECTURES: Mapping[str, str] = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}
"""Alpine's names of the same."""

_YEAR_10000 = 253_402_300_800


class NotLocked(LockError):
    """An image has no lock yet."""


@contextlib.contextmanager
def naming_errors(what: str) -> Iterator[None]:
    """Prepend to errors the object that could not be locked."""
    try:
        yield
    except (LockError, FetchError, IntegrityError) as error:
        raise type(error)(f"{what}: {error}") from error


def read_file(folder: Path) -> bytes:
    """Read the lock file in an image's directory. Raise NotLocked; LockError when it can't be read."""
    path = folder / FILE
    try:
        return read_start(path, size=strictjson.MAX_BYTES + 1)
    except FileNotFoundError:
        raise NotLocked(
            f"image '{folder.name}' is not locked; do so with '{COMMAND} --name {folder.name}'"
        ) from None
    except OSError as error:
        raise LockError(f"image '{folder.name}': cannot read {path}: {error.strerror}") from None


def parse_file(raw: bytes, *, file: str) -> Document:
    """Parse a lock file strictly. Raise DocumentError for a file that is no lock."""
    try:
        return without_positions(strictjson.loads(raw), file=file)
    except json.JSONDecodeError as error:
        problem = Problem(error.lineno, error.colno, "", f"is not JSON: {error.msg}")
        raise DocumentError(file, [problem]) from None
    except ValueError as error:
        raise DocumentError(file, [Problem(0, 0, "", f"is not a lock: {error}")]) from None


def write_file(folder: Path, text: str) -> None:
    """Write a lock into the directory of an image, whole or not at all. Raise LockError when that fails."""
    try:
        write_output(str(folder / FILE), text.encode(), mode=0o644)
    except HostError as error:
        raise LockError(str(error)) from error


def is_count(value: object) -> bool:
    """Whether it is a number of things that exist."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**40


def is_time(value: object) -> bool:
    """Whether it is a time in seconds since 1970 within the range of dates."""
    return is_count(value) and isinstance(value, int) and value < _YEAR_10000


def _read_schema(value: object) -> int:
    if type(value) is not int or value != SCHEMA:
        raise ValueError(f"this program reads {SCHEMA}")
    return value


def _known_platform(name: str) -> str:
    if name not in ARCHITECTURES:
        raise ValueError(f"is none of {', '.join(ARCHITECTURES)}")
    return name


def text_of(pattern: str, what: str) -> ValueCheck:
    """Text that a pattern matches whole."""
    compiled = re.compile(pattern)
    return expected(what, lambda value: isinstance(value, str) and compiled.fullmatch(value) is not None)


Checksum = Annotated[str, text_of("sha256:[0-9a-f]{64}", "sha256:…")]
Time = Annotated[int, expected("a time in seconds", is_time)]
FormatVersion = Annotated[int, ValueCheck(_read_schema, raw=True)]
PlatformName = Annotated[str, ValueCheck(_known_platform)]
