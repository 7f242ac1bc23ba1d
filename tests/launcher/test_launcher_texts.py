"""What the launcher has in place of big parts of libc: formats, addresses, accounts."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from sandwright.launcher import GUEST, LAUNCH
from sanitized import HARNESS, built

FORMATS = re.compile(r"%(?!(?:\.\*s|s|c|%|(?:0\d+)?(?:l{0,2}|z)[dux]))[^\n\"]{0,6}")
SOURCES = sorted({*LAUNCH.sources(), *GUEST.sources()})
LITERALS = re.compile(r'"(?:[^"\\\n]|\\.)*"')


@pytest.mark.needs("cc")
def test_formats_addresses_and_accounts(tmp_path: Path) -> None:
    program = built(
        tmp_path / "texts",
        "cc",
        "-fsanitize=address,undefined",
        main=HARNESS.with_name("texts.c"),
        parts=("bytes.c", "account.c"),
    )
    ended = subprocess.run([program], capture_output=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")


def test_no_format_is_used_that_is_not_known() -> None:
    """At such a one the launcher would abort. All in quotes: a format may be one of two, or passed on."""
    found = {each.name: LITERALS.findall(_without_comments(each)) for each in SOURCES}
    found["bytes.c"].remove('"%"')  # what it looks for
    assert sum("%" in literal for each in found.values() for literal in each) > 250
    wrong = {name: [literal for literal in each if FORMATS.search(literal)] for name, each in found.items()}
    assert {name: each for name, each in wrong.items() if each} == {}


def test_nothing_brings_the_big_parts_of_libc() -> None:
    big = re.compile(r"\b(?:[a-z]*printf|[a-z]*scanf|qsort|getpw[a-z]+|getgr(?:nam|gid)|inet_ntop|fopen)\(")
    for each in SOURCES:
        text = _without_comments(each).replace("format(printf", "")
        assert big.findall(text) == [], each.name


def _without_comments(source: Path) -> str:
    return re.sub(r"/\*.*?\*/", "", source.read_text(), flags=re.DOTALL)
