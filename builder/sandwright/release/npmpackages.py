"""The packages of npm in an image that no package of the distribution brings: those below /usr/local/lib."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sandwright.documents import strictjson
from sandwright.image.lock import LanguagePackage
from sandwright.image.lockednpm import PATH, LockedNpm
from sandwright.release.contents import ImageContents
from sandwright.release.licences import UNKNOWN, spdx_licence
from sandwright.release.packages import NPM, Package

_DESCRIBED = re.compile(rf"{re.escape(NPM.decode().removesuffix('node_modules/'))}{PATH}/package\.json")


def find_npm_packages(contents: ImageContents, locked: Sequence[LanguagePackage] = ()) -> list[Package]:
    """The packages of npm, sorted, with the files in their directories. `locked` are packages of the lock.

    Those that another package bundles are listed only where the lock has none of npm: otherwise they are part
    of the other. A package in several directories is listed once. Dependencies are not resolved, so they are
    not complete.
    """
    sums = {(each.name, each.version): each.sha256 for each in locked if isinstance(each, LockedNpm)}
    described = dict(_package_directories(contents))
    if sums:
        described = {key: value for key, value in described.items() if _npm_identity(value) in sums}
    files: dict[tuple[str, str], list[bytes]] = {_npm_identity(each): [] for each in described.values()}
    for path in contents.files if described else ():
        owner = _innermost_owner(path, described)
        if owner is not None:
            files[_npm_identity(described[owner])].append(path)
    documents = {_npm_identity(each): each for each in described.values()}
    return sorted(
        Package(
            "npm",
            *identity,
            "",
            sums.get(identity, ""),
            maintainer=_npm_author(document.get("author")),
            complete=False,
            licence=spdx_licence(licence) if isinstance(licence := document.get("license"), str) else UNKNOWN,
            files=tuple(files[identity]),
        )
        for identity, document in documents.items()
    )


def _package_directories(contents: ImageContents) -> Iterator[tuple[bytes, Mapping[str, Any]]]:
    """The directories of packages, each with its package.json."""
    for path, content in contents.tree.kept.items():
        if _DESCRIBED.fullmatch(path.decode("utf-8", "replace")):
            try:
                document = strictjson.loads_lenient(content.decode("utf-8-sig"))
            except ValueError:
                continue
            if isinstance(document, dict) and document.get("name") and document.get("version"):
                yield path.rpartition(b"/")[0], document


def _npm_identity(document: Mapping[str, Any]) -> tuple[str, str]:
    return str(document["name"]), str(document["version"])


def _innermost_owner(path: bytes, directories: Mapping[bytes, object]) -> bytes | None:
    """The innermost of the directories that has a path."""
    directory = path.rpartition(b"/")[0]
    while directory.startswith(NPM):
        if directory in directories:
            return directory
        directory = directory.rpartition(b"/")[0]
    return None


def _npm_author(value: object) -> str:
    """`Name <address>`, as npm has it in one text or by field."""
    if isinstance(value, dict):
        name, address = (str(value.get(key) or "") for key in ("name", "email"))
        return f"{name} <{address}>" if address else name
    return value.partition(" (")[0] if isinstance(value, str) else ""
