"""Reading an image's output: only lines of this start count, and their content does no harm."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandwright.verify.smoke.evidence import read_evidence
from sandwright.watchdog import Ended

WORD = "secondfirst"


def _ended(stdout: str | bytes) -> Ended:
    raw = stdout if isinstance(stdout, bytes) else stdout.encode()
    return Ended("exited", 0, raw, "", 0.1)


def test_lines_of_this_start_are_collected() -> None:
    text = f"warning of the runtime\n{WORD} ('begin', '3.11')\nnoise\n{WORD} ('root', {{'/': 'EROFS'}})\n"
    assert read_evidence(_ended(text), WORD).attempts == {"begin": "3.11", "root": {"/": "EROFS"}}


@pytest.mark.parametrize(
    "line",
    [
        "firstsecond ('begin', 1)",
        f"{WORD}('begin', 1)",
        f" {WORD} ('begin', 1)",
        f"{WORD} ('begin',)",
        f"{WORD} ['begin', 1]",
        f"{WORD} (1, 'begin')",
        f"{WORD} __import__('os').system('true')",
        f"{WORD} ('begin', open('/etc/passwd'))",
        f"{WORD} ('begin', " + "(" * 5000 + ")" * 5000 + ")",
        f"{WORD} ('begin', 1",
        f"{WORD} ",
    ],
    ids=[
        "other-word",
        "glued",
        "indented",
        "short",
        "list",
        "no-name",
        "call",
        "call-inside",
        "deep",
        "cut",
        "empty",
    ],
)
def test_lines_that_do_not_count(line: str) -> None:
    assert read_evidence(_ended(line + "\n"), WORD).attempts == {}


def test_the_first_word_on_an_attempt_stands() -> None:
    """A later line from a program of the image, by accident or malice, changes nothing."""
    text = f"{WORD} ('root', {{'/': 'done'}})\n{WORD} ('root', {{'/': 'EROFS'}})\n"
    assert read_evidence(_ended(text), WORD).attempts == {"root": {"/": "done"}}


@given(st.binary(max_size=300))
def test_any_bytes_are_read(tail: bytes) -> None:
    read_evidence(_ended(WORD.encode() + b" " + tail), WORD)


@pytest.mark.parametrize(
    ("said", "broken"),
    [
        pytest.param("", "was not attempted (exit status 0)", id="not-said"),
        pytest.param(f"{WORD} ('root', 'x')", "said something else: x", id="no-mapping"),
    ],
)
def test_an_attempt_without_outcome_is_broken(said: str, broken: str) -> None:
    assert read_evidence(_ended(said), WORD).attempt("root") == {"broken": broken}
