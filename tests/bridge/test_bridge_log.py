"""The bridge's log: one line for each event, whatever the sandbox sends, without secrets, and of limited
size.

Tests of bridge/audit.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sandwright.bridge import audit
from sandwright.bridge.audit import Audit, Full

SECRET = 'to"ken\\with-é-33'


@pytest.fixture
def log(tmp_path: Path) -> Audit:
    return Audit(tmp_path / "state" / "log.jsonl", "a-session", [SECRET])


def _lines(tmp_path: Path) -> list[dict[str, object]]:
    text = (tmp_path / "state" / "log.jsonl").read_bytes()
    assert text.isascii()
    assert text.endswith(b"\n")
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize(
    "word",
    [
        '\n{"event": "stop"}',
        "\r\n\x1b[2K\x07",
        "\u2028\u2029\x85\x0b\x0c",
        "\x00\ud800\U0010ffff",
        'a"}, {"b": "\\',
        "\\udcff",
    ],
    ids=repr,
)
def test_what_is_meant_to_be_another_line(log: Audit, tmp_path: Path, word: str) -> None:
    log.write("refused", why=log.masked(word), arguments=log.words([word, word]), program=None)
    (line,) = _lines(tmp_path)
    assert line["event"] == "refused"
    assert line["why"] == word
    assert line["arguments"] == [word, word]
    assert "program" not in line


def test_secrets_and_long_words(log: Audit, tmp_path: Path) -> None:
    """A secret is removed before a word is cut; otherwise its beginning would stay."""
    long = "x" * (audit.MAX_WORD - 3) + SECRET
    log.write("call", arguments=log.words([f"a{SECRET}b{SECRET}", long, *["y"] * 100]))
    (line,) = _lines(tmp_path)
    words = line["arguments"]
    assert isinstance(words, list)
    assert words[0] == "a[secret]b[secret]"
    assert words[1].startswith("x" * (audit.MAX_WORD - 3) + "[se…")
    assert words[-1] == "… (102 arguments)"
    assert SECRET[:4] not in (tmp_path / "state" / "log.jsonl").read_text()


def test_only_its_owner_reads_it(log: Audit, tmp_path: Path) -> None:
    log.write("start")
    assert (tmp_path / "state" / "log.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_link_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "log.jsonl").symlink_to("/dev/null")
    with pytest.raises(OSError, match="symbolic links"):
        Audit(tmp_path / "state" / "log.jsonl", "a-session", [])


def test_when_it_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the log is full, no call begins, only the end is written, and the disk does not fill up."""
    monkeypatch.setattr(audit, "MAX_BYTES", 1000)
    log = Audit(tmp_path / "state" / "log.jsonl", "a-session", [])
    log.check()
    for _ in range(50):
        log.write("refused", why="x" * 200)
    with pytest.raises(Full):
        log.check()
    log.write("stop", calls=50)
    lines = _lines(tmp_path)
    assert len(lines) < 8
    assert lines[-1]["event"] == "stop"
