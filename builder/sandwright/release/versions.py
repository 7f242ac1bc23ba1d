"""Orders versions of packages as dpkg and apk do: Debian Policy 5.6.12, apk-package(5)."""

from __future__ import annotations

import re
from itertools import zip_longest

from sandwright.image.lock import PackageFormat

_APK = re.compile(
    r"(?P<numbers>[0-9]+(?:\.[0-9]+)*)(?P<letter>[a-z]?)(?P<suffixes>(?:_[a-z]+[0-9]*)*)(?:~[0-9a-f]+)?"
    r"(?:-r(?P<release>[0-9]+))?"
)
_BEFORE = ("alpha", "beta", "pre", "rc")
_AFTER = ("cvs", "svn", "git", "hg", "p")
_ENDS = 0
_RELEASED = len(_BEFORE)
"""The rank of a version without a suffix, between those of suffixes for versions before and after it."""


def is_older(kind: PackageFormat, version: str, other: str) -> bool:
    """Whether a version is below another. Raise ValueError for a text that is no version of this format."""
    if kind == "apk":
        return _apk_compare(version, other) < 0
    return _deb_key(version) < _deb_key(other)


def _deb_key(version: str) -> tuple[int, tuple[object, ...], tuple[object, ...]]:
    epoch, colon, rest = version.partition(":")
    upstream, dash, revision = (rest if colon else version).rpartition("-")
    if colon and not epoch.isdecimal():
        raise ValueError(f"{version!r} is no version of a Debian package")
    parts = (upstream, revision) if dash else (revision, "")
    return (int(epoch) if colon else 0, _deb_part(parts[0]), _deb_part(parts[1]))


def _deb_part(text: str) -> tuple[object, ...]:
    """Alternating runs of other characters and of digits; `~` sorts before the end, letters before others."""
    found: list[object] = []
    for other, digits in re.findall(r"([^0-9]*)([0-9]*)", text):
        found.append((*map(_deb_character, other), _ENDS))
        found.append(int(digits or "0"))
    return tuple(found)


def _deb_character(character: str) -> int:
    if character == "~":
        return -1
    return ord(character) if character.isalpha() else ord(character) + 256


def _apk_compare(version: str, other: str) -> int:
    for one, another in zip_longest(_apk_parts(version), _apk_parts(other)):
        if one is None or another is None:
            return -1 if one is None else 1
        if one != another:
            return -1 if one < another else 1
    return 0


def _apk_parts(version: str) -> list[tuple[int, ...]]:
    """Parts that are compared in turn: the kind of a part first, as a following number is newer."""
    match = _APK.fullmatch(version)
    if match is None:
        raise ValueError(f"{version!r} is no version of an Alpine package")
    first, *more = match["numbers"].split(".")
    parts: list[tuple[int, ...]] = [(9, 1, int(first))]
    parts += [_apk_number(each) for each in more]
    if match["letter"]:
        parts.append((8, ord(match["letter"])))
    parts += [_apk_suffix(each) for each in match["suffixes"].split("_")[1:]]
    return [*parts, (_RELEASED, 0, 0), (0, int(match["release"] or "0"))]


def _apk_number(text: str) -> tuple[int, ...]:
    """A number after the first: with leading zeros it is a fraction, and below every other."""
    if text.startswith("0") and len(text) > 1:
        return (9, 0, *map(ord, text))
    return (9, 1, int(text))


def _apk_suffix(text: str) -> tuple[int, ...]:
    name = text.rstrip("0123456789")
    if name not in (*_BEFORE, *_AFTER):
        raise ValueError(f"_{text} is no suffix of a version")
    rank = _BEFORE.index(name) if name in _BEFORE else _RELEASED + 1 + _AFTER.index(name)
    return (rank, int(text[len(name) :] or "0"), 0)
