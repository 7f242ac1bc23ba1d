"""Licences from Debian's copyright files, as far as they are machine-readable, as SPDX expressions. Pure.

Format: Debian's copyright-format 1.0 (DEP-5). Its short names are SPDX's with some differences; a name that
is not known here becomes a `LicenseRef-…` of the same name. A file in another format is one `LicenseRef-…`
with the whole file as its text: no licence is guessed from prose.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sandwright.digests import sha256
from sandwright.rootfs.controlfields import control_paragraphs

_AS_SPDX = """
    AFL-2.1 AFL-3.0 Apache-1.1 Apache-2.0 Artistic-2.0 BSD-1-Clause BSD-2-Clause BSD-3-Clause BSD-4-Clause
    BSL-1.0 CC-BY-3.0 CC-BY-4.0 CC-BY-SA-3.0 CC-BY-SA-4.0 CC0-1.0 FSFAP FSFUL FSFULLR FTL HPND ICU ISC
    LPPL-1.3c MIT MIT-0 MPL-1.1 MPL-2.0 NCSA OFL-1.1 OLDAP-2.8 PostgreSQL Python-2.0 RSA-MD Ruby SGI-B-2.0
    Sleepycat TCL Unicode-DFS-2015 Unicode-DFS-2016 Unlicense W3C WTFPL X11 Zlib ZPL-2.1 bzip2-1.0.6 curl
"""
_GNU = re.compile(r"(A?GPL|LGPL)-([123])(?:\.([0-9]))?(?:\.0)?(\+|-only|-or-later)?")
_GFDL = re.compile(r"GFDL-(?:(NIV)-)?(1\.[123])(?:-no-invariants)?(\+|-only|-or-later)?")
_NAMES: Mapping[str, str] = {
    **{name.lower(): name for name in _AS_SPDX.split()},
    "apache-2": "Apache-2.0",
    "artistic": "Artistic-1.0",
    "artistic-1.0": "Artistic-1.0",
    "artistic-2": "Artistic-2.0",
    "boost-1.0": "BSL-1.0",
    "bsd-2-clauses": "BSD-2-Clause",
    "bsd-3-clauses": "BSD-3-Clause",
    "cc0": "CC0-1.0",
    "expat": "MIT",
    "mpl-2": "MPL-2.0",
    "psf-2": "PSF-2.0",
    "psf-2.0": "PSF-2.0",
    "python-2": "Python-2.0",
}
_OPERATORS = ("(", ")", "AND", "OR", "WITH")
_EXPRESSION = re.compile(r"(?:\( )*L(?: WITH L)?(?: \))*(?: (?:AND|OR) (?:\( )*L(?: WITH L)?(?: \))*)*")
"""The shape of an expression; whether each parenthesis has its other is left to who reads it."""

_EXCEPTIONS: Mapping[str, str] = {
    "autoconf": "Autoconf-exception-3.0",
    "bison": "Bison-exception-2.2",
    "font": "Font-exception-2.0",
    "gcc": "GCC-exception-3.1",
    "libtool": "Libtool-exception",
}


@dataclass(frozen=True)
class Licence:
    """A licence as an SPDX expression; empty when none is known.

    `names` are the `LicenseRef-…` in it with the names that they stand for. `text` is that of the only one,
    where it is known.
    """

    expression: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    text: str = ""


UNKNOWN = Licence()


def copyright_licence(text: str) -> Licence:
    """The licence that a copyright file states; the file itself, named by its checksum, where it is prose."""
    found = debian_licence(text)
    if found.expression or not text.strip():
        return found
    reference = f"LicenseRef-copyright-{sha256(text.encode())[:16]}"
    return Licence(reference, {reference: "the whole copyright file"}, text)


def debian_licence(text: str) -> Licence:
    """The licence that a machine-readable copyright file states: all of those in it."""
    paragraphs = list(control_paragraphs(text))
    if not paragraphs or "Format" not in paragraphs[0]:
        return UNKNOWN
    stated = [
        each["License"].partition("\n")[0].strip()
        for number, each in enumerate(paragraphs)
        if each.get("License") and (number == 0 or "Files" in each)
    ]
    return _all_of(name for name in dict.fromkeys(stated) if name)


def spdx_licence(text: str) -> Licence:
    """The licence that a package states in SPDX's own words, as Alpine's do."""
    names: dict[str, str] = {}
    words = re.findall(r"\(|\)|[^\s()]+", text)
    if not _EXPRESSION.fullmatch(" ".join(_shape(word) for word in words)):
        return UNKNOWN
    for index, word in enumerate(words):
        if word not in _OPERATORS and words[index - 1 : index] != ["WITH"] and _spdx_identifier(word) != word:
            words[index] = _license_reference(word, names)
    return Licence(" ".join(words).replace("( ", "(").replace(" )", ")"), names)


def _shape(word: str) -> str:
    """The kind of a word in an expression: an operator, or a licence."""
    if word in _OPERATORS:
        return word
    return "L" if re.fullmatch(r"[A-Za-z0-9.+-]+", word) else "?"


def _all_of(stated: Iterator[str]) -> Licence:
    names: dict[str, str] = {}
    terms = sorted({term for each in stated for term in _terms(each, names)})
    if len(terms) > 1:
        terms = [f"({each})" if " OR " in each else each for each in terms]
    return Licence(" AND ".join(terms), names)


def _terms(stated: str, names: dict[str, str]) -> list[str]:
    """The licences that one `License` field names, as terms that all apply.

    `and` binds tighter than `or`; a text with commas is prose, and one name.
    """
    if "," in stated or "/" in stated:
        return [_license_reference(stated, names)]
    options = [
        [_atom(each, names) for each in re.split(r"\s+and\s+", option, flags=re.IGNORECASE)]
        for option in re.split(r"\s+or\s+", stated, flags=re.IGNORECASE)
    ]
    if len(options) == 1:
        return options[0]
    return [" OR ".join(" AND ".join(sorted(set(each))) for each in options)]


def _atom(stated: str, names: dict[str, str]) -> str:
    name, _, exception = stated.strip().partition(" with ")
    identifier = _spdx_identifier(name)
    if identifier and not exception:
        return identifier
    word = exception.split(" ")[0].lower().removesuffix("-exception")
    if identifier and word in _EXCEPTIONS:
        return f"{identifier} WITH {_EXCEPTIONS[word]}"
    return _license_reference(stated.strip(), names)


def _spdx_identifier(name: str) -> str:
    """SPDX's identifier for a short name; empty where there is none."""
    if match := _GNU.fullmatch(name):
        family, major, minor, more = match.groups()
        version = f"{major}.{minor or '0'}"
        versions = {"GPL": ("1.0", "2.0", "3.0"), "LGPL": ("2.0", "2.1", "3.0"), "AGPL": ("1.0", "3.0")}
        return f"{family}-{version}{_or_later(more)}" if version in versions[family] else ""
    if match := _GFDL.fullmatch(name):
        invariants = "-no-invariants" if match[1] or "-no-invariants" in name else ""
        return f"GFDL-{match[2]}{invariants}{_or_later(match[3])}"
    return _NAMES.get(name.lower(), "")


def _or_later(more: str | None) -> str:
    return "-or-later" if more in ("+", "-or-later") else "-only"


def _license_reference(name: str, names: dict[str, str]) -> str:
    reference = "LicenseRef-" + (re.sub(r"[^A-Za-z0-9.-]+", "-", name).strip("-") or "unnamed")
    names[reference] = name
    return reference
