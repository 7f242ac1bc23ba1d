"""Licences from Debian's copyright files and apk's fields, as SPDX expressions.

Tests of release/licences.py.
"""

from __future__ import annotations

import re

import pytest
from license_expression import get_spdx_licensing

from sandwright.release.licences import UNKNOWN, Licence, copyright_licence, debian_licence, spdx_licence
from sandwright.release.packages import Package, _with_shared_licences

HEAD = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: x\n"


def stated(*names: str) -> str:
    """A copyright file with a paragraph of files for each licence."""
    files = [
        f"Files: {number}/*\nCopyright: nobody\nLicense: {name}\n text\n" for number, name in enumerate(names)
    ]
    return "\n".join([HEAD, *files, "License: unused\n the text of a licence that is named elsewhere\n"])


@pytest.mark.parametrize(
    ("names", "expression"),
    [
        (["Expat"], "MIT"),
        (["GPL-2"], "GPL-2.0-only"),
        (["GPL-2+"], "GPL-2.0-or-later"),
        (["GPL-3.0+"], "GPL-3.0-or-later"),
        (["LGPL-2.1+"], "LGPL-2.1-or-later"),
        (["LGPL-2"], "LGPL-2.0-only"),
        (["GFDL-NIV-1.3+"], "GFDL-1.3-no-invariants-or-later"),
        (["BSD-3-clause"], "BSD-3-Clause"),
        (["zlib"], "Zlib"),
        (["GPL-3+ with GCC exception"], "GPL-3.0-or-later WITH GCC-exception-3.1"),
        (["Expat", "Expat"], "MIT"),
        (["GPL-2+", "Expat"], "GPL-2.0-or-later AND MIT"),
        (["Expat or GPL-2+"], "MIT OR GPL-2.0-or-later"),
        (["Expat or GPL-2+", "ISC"], "ISC AND (MIT OR GPL-2.0-or-later)"),
        (["GPL-2 and Expat"], "GPL-2.0-only AND MIT"),
        (["GPL-2 and Expat", "Expat and ISC"], "GPL-2.0-only AND ISC AND MIT"),
        (["GPL-2 and Expat or ISC"], "GPL-2.0-only AND MIT OR ISC"),
        (["public-domain"], "LicenseRef-public-domain"),
        (["GPL-2+ with OpenSSL exception"], "LicenseRef-GPL-2-with-OpenSSL-exception"),
        (["BSD-like, and more"], "LicenseRef-BSD-like-and-more"),
        (["GPL-9"], "LicenseRef-GPL-9"),
    ],
)
def test_what_is_stated(names: list[str], expression: str) -> None:
    found = debian_licence(stated(*names))
    assert found.expression == expression
    known = {"LicenseRef-" + each for each in expression.split("LicenseRef-")[1:]}
    assert set(found.names) == known
    get_spdx_licensing().parse(
        found.expression.replace("LicenseRef-", "MIT AND LicenseRef-"), validate=not known
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "This package was debianized by Nobody.\n\nLicense: GPL-2 or so, see /usr/share/common-licenses\n",
        "\n\n\n",
        "\0\xff garbage",
    ],
)
def test_prose_is_not_guessed_at(text: str) -> None:
    assert debian_licence(text) == UNKNOWN


def test_prose_is_a_licence_of_its_own() -> None:
    """The whole file becomes the licence, the same one for packages with the same file."""
    prose = "This package was debianized by Nobody.\n\nIt is free.\n"
    found = copyright_licence(prose)
    assert re.fullmatch("LicenseRef-copyright-[0-9a-f]{16}", found.expression)
    assert (found.names, found.text) == ({found.expression: "the whole copyright file"}, prose)
    assert copyright_licence(prose + "x").expression != found.expression
    assert copyright_licence(" \n") == UNKNOWN
    get_spdx_licensing().parse(found.expression)
    assert copyright_licence(stated("MIT")) == debian_licence(stated("MIT"))


def test_packages_of_a_source_share_a_licence() -> None:
    """Debian Policy 12.5 permits a package's documentation to be a link to another's."""
    mit, isc = Licence("MIT"), Licence("ISC")

    def package(name: str, source: str, licence: Licence = UNKNOWN) -> Package:
        return Package("deb", name, "1", "amd64", source=source, source_version="1", licence=licence)

    packages = [package("a", "s", mit), package("b", "s"), package("c", "t"), package("d", "t", mit)]
    packages += [package("e", "t", isc), package("f", ""), package("g", "", mit)]
    found = {each.name: each.licence.expression for each in _with_shared_licences(packages)}
    assert found == {"a": "MIT", "b": "MIT", "c": "", "d": "MIT", "e": "ISC", "f": "", "g": "MIT"}


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("MIT", "MIT"),
        ("GPL-2.0-only", "GPL-2.0-only"),
        ("MIT AND BSD-2-Clause", "MIT AND BSD-2-Clause"),
        ("GPL-2.0-or-later WITH GCC-exception-3.1", "GPL-2.0-or-later WITH GCC-exception-3.1"),
        ("(MIT OR ISC) AND Zlib", "(MIT OR ISC) AND Zlib"),
        ("custom", "LicenseRef-custom"),
        ("", ""),
        ("MIT; rm -rf", ""),
    ],
)
def test_what_alpine_states(text: str, expression: str) -> None:
    assert spdx_licence(text).expression == expression
