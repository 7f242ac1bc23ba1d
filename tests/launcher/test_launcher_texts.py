"""What the launcher has in place of big parts of libc: formats, addresses, accounts."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from sandwright.launcher import LAUNCH
from sanitized import HARNESS, built

FORMATS = re.compile(r"%(?!(?:\.\*s|s|c|%|(?:0\d+)?(?:l{0,2}|z)[dux]))[^\n\"]{0,6}")
CALLS = re.compile(
    r'\b(?:text|text_into|bytes_text|say|refuse|refuse_errno)\((?:[^";]*?)((?:"(?:[^"\\\n]|\\.)*"\s*)+)',
    re.DOTALL,
)
"""With the first literals among the arguments, where formats are."""


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
    """At such a one the launcher would abort."""
    found = [literal for each in LAUNCH.sources() for literal in CALLS.findall(each.read_text())]
    assert len(found) > 300
    assert [wrong for literal in found for wrong in FORMATS.findall(literal)] == []


def test_nothing_brings_the_big_parts_of_libc() -> None:
    big = re.compile(r"\b(?:[a-z]*printf|[a-z]*scanf|qsort|getpw[a-z]+|getgr(?:nam|gid)|inet_ntop|fopen)\(")
    for each in LAUNCH.sources():
        text = re.sub(r"/\*.*?\*/|\bformat\(printf", "", each.read_text(), flags=re.DOTALL)
        assert big.findall(text) == [], each.name
