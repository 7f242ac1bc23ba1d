"""The types of values in an image definition: names, paths, modes, globs, variables.

Each has a check, whose message names the allowed values, and a pattern for editors.
"""

from __future__ import annotations

import re
from typing import Annotated

from sandwright.documents.checks import NONEMPTY_LIST, in_range, matching, quoted
from sandwright.documents.model import ValueCheck
from sandwright.errors import UsageError
from sandwright.image.compress import parse_compression
from sandwright.registry.reference import parse_reference

MAX_ID = 2**32 - 2
"""The largest user or group id; the one above means "no change" to chown(2)."""


def check_path(text: str) -> str:
    """Return an absolute, normalised path unchanged; raise ValueError for any other."""
    if not text.startswith("/"):
        raise ValueError(f"{quoted(text)} is not an absolute path")
    if re.search(r"[\x00-\x1f\x7f]", text):
        raise ValueError(f"{quoted(text)} holds a control character")
    parts = text.split("/")[1:]
    if ".." in parts or "." in parts:
        raise ValueError(f"{quoted(text)} holds '.' or '..'; write where it leads")
    if "" in parts and text != "/":
        raise ValueError(f"{quoted(text)} has a slash too many")
    if len(text.encode()) > 4095 or any(len(part.encode()) > 255 for part in parts):
        raise ValueError(f"{quoted(text)} is longer than Linux takes")
    return text


def _check_entry_path(text: str) -> str:
    if check_path(text) == "/":
        raise ValueError("'/' is the root itself, which every image has")
    return text


def _check_source(text: str) -> str:
    if text.startswith("/"):
        raise ValueError(f"{quoted(text)} must be relative to the definition's directory")
    check_path(f"/{text}")
    return text


def _check_glob(text: str) -> str:
    check_path(text)
    if text.count("[") != text.count("]"):
        raise ValueError(f"{quoted(text)} has a bracket without its partner")
    return text


def _check_mode(text: object) -> int:
    if not isinstance(text, str) or not re.fullmatch(r"0?[0-7]{3,4}", text):
        written = quoted(text) if isinstance(text, str) else f"{text} without quotes"
        raise ValueError(f'must be octal digits in quotes, like "0755", not {written}')
    return int(text, 8)


def _check_no_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("holds a NUL character")
    return text


def check_reference(text: str) -> str:
    """The name of an image in a registry. Raise ValueError."""
    try:
        parse_reference(text)
    except UsageError as error:
        raise ValueError(str(error)) from None
    return text


def _check_port(text: str) -> str:
    number, slash, protocol = text.partition("/")
    if (
        not re.fullmatch(r"[1-9][0-9]{0,4}", number)
        or int(number) > 65535
        or (slash and protocol not in _PROTOCOLS)
    ):
        raise ValueError(f"{quoted(text)} is not a port, like '8080' or '53/udp'")
    return f"{number}/{protocol or 'tcp'}"


_PROTOCOLS = ("tcp", "udp")


def _check_compression(text: str) -> str:
    parse_compression(text)
    return text


_ABSOLUTE = {"type": "string", "pattern": "^/"}

RootPath = Annotated[str, ValueCheck(check_path, _ABSOLUTE)]
"""An absolute path in its shortest form; may be `/`."""

EntryPath = Annotated[str, ValueCheck(_check_entry_path, {"type": "string", "pattern": "^/."})]
"""An absolute path of something created in the image, so not `/`."""

SourcePath = Annotated[str, ValueCheck(_check_source, {"type": "string", "pattern": "^[^/]"})]
"""A path of a file below the definition's directory."""

Glob = Annotated[str, ValueCheck(_check_glob, _ABSOLUTE)]
"""An absolute path with wildcards, as dpkg's `path-exclude` reads them: `*` and `?` match `/` too."""

Mode = Annotated[int, ValueCheck(_check_mode, {"type": "string", "pattern": "^0?[0-7]{3,4}$"}, raw=True)]
"""Permission bits; written as octal digits in text, `"0755"` or `"1777"`."""

ImageName = Annotated[
    str, matching(r"[a-z0-9]+(?:-[a-z0-9]+)*", "an image name: words of a-z and 0-9, joined by '-'")
]
RegistryReference = Annotated[str, ValueCheck(check_reference, {"type": "string", "pattern": "^[^\\s]+$"})]
"""An image in a registry: `host[:port]/repository[:tag][@digest]`; without a host it is Docker Hub's."""

PackageName = Annotated[str, matching(r"[a-z0-9][a-z0-9+._-]+", "the name of a package")]
"""Debian Policy 5.6.1, and `_` for Alpine."""

PackageSpec = Annotated[
    str,
    matching(
        r"[a-z0-9][a-z0-9+._-]+(?:=[A-Za-z0-9.+:~*_-]+|/[a-z][a-z0-9-]*)?",
        "a package: name, name=version or name/suite",
    ),
]
"""As for `apt-get install`, where `*` in a version matches anything; a suite is Debian's only."""

AlpineRelease = Annotated[str, matching(r"[0-9]{1,2}\.[0-9]{1,2}|edge", "a release of Alpine, like '3.22'")]
SuiteName = Annotated[str, matching(r"[a-z0-9][A-Za-z0-9.-]*(?:/[A-Za-z0-9.-]+)*", "the name of a suite")]
ComponentName = Annotated[str, matching(r"[a-z0-9][A-Za-z0-9.-]*", "the name of a component")]
ArchiveUrl = Annotated[
    str,
    matching(
        r"(?:https?://[A-Za-z0-9.:-]+|file://)(?:/[A-Za-z0-9+_~:][A-Za-z0-9.+_~:-]*)*/?",
        "the address of an archive, as https://packages.example/debian",
    ),
]

AccountName = Annotated[str, matching(r"[a-z_][a-z0-9_-]{0,31}", "a name for a user or group")]
AccountText = Annotated[
    str, matching(r"[^:\x00-\x1f\x7f]*", "text for a field of passwd, which ':' would end")
]
VariableName = Annotated[str, matching(r"[A-Za-z_][A-Za-z0-9_]*", "the name of an environment variable")]
Signal = Annotated[str, matching(r"SIG[A-Z0-9]+(?:[+-][0-9]+)?|[0-9]{1,2}", "a signal, like SIGTERM")]
UserSpec = Annotated[
    str,
    matching(
        r"(?:[a-z_][a-z0-9_-]*|[0-9]+)(?::(?:[a-z_][a-z0-9_-]*|[0-9]+))?",
        "a user, like 'name' or '1000:1000'",
    ),
]
"""The user that a container runs as: `user` or `user:group`, names or numbers (image-spec, config.User)."""

Id = Annotated[int, in_range(0, MAX_ID)]
Owner = AccountName | Id
"""A user or group: by name, as the image's passwd or group file has it, or by number."""

Port = Annotated[str, ValueCheck(_check_port, {"type": "string", "pattern": "^[0-9]{1,5}(/(tcp|udp))?$"})]
"""A port such as `8080/tcp`. Without a protocol, it is TCP."""

Line = Annotated[str, matching(r"[^\x00-\x1f\x7f]*[^\x00-\x20\x7f][^\x00-\x1f\x7f]*", "a line of text")]
CompressionName = Annotated[
    str, ValueCheck(_check_compression, {"type": "string", "pattern": "^(gzip|zstd)(:[0-9]+)?$"})
]
"""`gzip` or `zstd`, alone or with `:LEVEL`."""

Text = Annotated[str, ValueCheck(_check_no_nul)]
Word = Annotated[str, ValueCheck(_check_no_nul)]
Command = Annotated[tuple[Word, ...], NONEMPTY_LIST]
"""A program and its arguments. There is no shell."""
