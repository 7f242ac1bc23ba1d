"""The file of variables: shells and `explain` read the rendered words."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandwright import process
from sandwright.errors import DocumentError, RenderError
from sandwright.evaluate.explain.variables import rows_of
from sandwright.render.artifact import Artifact
from sandwright.render.rendered import Rendered
from sandwright.render.shell import patterns, plain_script, variables

HOSTILE = [
    "", " ", "'", "'\"'\"'", "\\", "\n", "\n}\n", "x\nnever() {\n    \"$@\" \\\n        A\n}\n", "$(id)",
    "`id`", "-n", "*", "a\rb", "\x01", "é", "a\udcffb", "#", "=", "~", "!", "'\n}\nsw_word=y\n",
]  # fmt: skip
TEXTS = st.text(st.characters(exclude_characters="\0", codec="utf-8"))
SHOW = 'show() { printf "%s\\0" "$#" "$@"; }; . "$1"; show "$sw_word"; words show; each show\n'


def _shown(shell: list[str], path: Path) -> list[str]:
    said = process.run(*shell, "-fuc", SHOW, "sh", str(path), timeout=30).stdout
    return said.decode("utf-8", "surrogateescape").split("\0")[:-1]


def _expected(word: str, words: list[str], rows: list[list[str]]) -> list[str]:
    return ["1", word, str(len(words)), *words, *(part for row in rows for part in (str(len(row)), *row))]


@pytest.mark.parametrize("shell", [["dash"], ["bash"], ["bash", "--posix"], ["busybox", "sh"]], ids=" ".join)
def test_each_shell_reads_hostile_words(tmp_path: Path, shell: list[str]) -> None:
    if process.find(shell[0]) is None:
        pytest.skip(f"{shell[0]} is not installed")
    for word in HOSTILE:
        rows = [[word, word], ["x"]]
        made = variables({"word": word, "words": [word, *HOSTILE]}, rows={"each": rows})
        (tmp_path / "variables.sh").write_bytes(made.content)
        assert _shown(shell, tmp_path / "variables.sh") == _expected(word, [word, *HOSTILE], rows)


@settings(max_examples=60)
@given(TEXTS, st.lists(TEXTS), st.lists(st.lists(TEXTS, min_size=1)))
def test_what_is_read_back_is_what_was_rendered(word: str, words: list[str], rows: list[list[str]]) -> None:
    made = variables({"word": word, "words": words}, rows={"each": rows})
    read = rows_of(_rendered(made))
    assert [text for text, _ in read["words"][0]] == words
    assert [[text for text, _ in row] for row in read["each"]] == rows
    assert not word or [text for text, _ in read["sw_word"][0]] == [word]
    lines = made.content.decode().split("\n")
    for row in (*read["words"], *read["each"]):
        for _, place in row:
            assert "\n".join(lines[place.line - 1 :])[place.column - 1 :].startswith(place.text)


@pytest.mark.parametrize(
    "more", ["touch x\n", "sw_word=a b\n", "sw_word=$(x)\n", 'words() {\n    "$@" `x`\n}\n']
)
def test_other_text_is_not_read(more: str) -> None:
    made = variables({"word": "a"})
    with pytest.raises(DocumentError, match=r"variables\.sh:3:1: is not as it is rendered"):
        rows_of(_rendered(Artifact(made.name, made.content + more.encode(), made.purpose)))


def _rendered(made: Artifact) -> Rendered:
    return Rendered("noop", (made,), ())


def test_a_word_with_nul_is_refused() -> None:
    with pytest.raises(RenderError, match="NUL"):
        variables({"word": "\0"})


def test_what_is_no_pattern_is_refused() -> None:
    for wrong in ("A B", "*", "A*B", "1", "$(x)", "A\n"):
        with pytest.raises(RenderError, match="no name of a variable"):
            patterns(["PATH", wrong])


def test_a_script_without_a_place_for_the_digest_is_refused() -> None:
    with pytest.raises(RenderError, match="has no place for the digest"):
        plain_script("seatbelt", "README.md", name="launch", values=variables({}), purpose="a test")
