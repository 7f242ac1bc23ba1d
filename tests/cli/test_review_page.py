"""The page of a review: it shows each change with its diff and reason, and interprets no text of a sandbox.

Tests of cli/review_page.py, with cli/review_summary.py.
"""

from __future__ import annotations

import base64
import hashlib
import os
from html.parser import HTMLParser

import pytest

from sandwright.cli import review_page as page_module
from sandwright.cli.review_page import review_page
from sandwright.workspace.withheld import Withheld
from support.workspaces import Review, review

__all__ = ["review"]

HOSTILE = '<script>alert("x")<!-- \x1b[31m\u202e&amp;'


class _Page(HTMLParser):
    """The elements with their attributes, the style, and the text of all others."""

    def __init__(self, html: bytes) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.style = self.text = ""
        self._is_style = False
        self.feed(html.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._is_style = tag == "style"

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002 - as HTMLParser has it
        self._is_style = False

    def handle_data(self, data: str) -> None:
        if self._is_style:
            self.style += data
        else:
            self.text += data

    def chips(self) -> list[str]:
        return [
            each["class"] or "" for tag, each in self.elements if "chip " in (each.get("class") or "") and tag
        ]


def _page(review: Review, held: dict[str, Withheld] | None = None) -> _Page:
    return _Page(review_page(review.workspace, review.changes(), [*(held or {}).values()]))


def _held(review: Review, name: str, *, refused: bool = False) -> dict[str, Withheld]:
    (change,) = [each for each in review.changes() if os.fsdecode(each.path) == name]
    return {name: Withheld(change, f"the reason of {name}", refused=refused)}


def test_it_has_each_change_with_diff_and_reason(review: Review) -> None:
    review.write(a="one\n", gone="gone\n", d__inner="x\n")
    review.refresh()
    (review.tree / "a").write_text("one\ntwo <b>\n")
    (review.tree / "gone").unlink()
    (review.tree / "d/inner").chmod(0o755)
    (review.tree / ".envrc").write_text("layout\n")
    (review.tree / "pipe").write_text("")
    held = _held(review, ".envrc") | _held(review, "pipe", refused=True)
    read = _page(review, held)
    for text in ("+two <b>", "-gone", "+layout", "(644 to 755)", "the reason of .envrc", "5 changes", "d/"):
        assert text in read.text, text
    for text in ("1 change never applied", "1 change held back", "3 changes taken"):
        assert text in read.text, text
    assert sorted(read.chips()) == ["chip fail", "chip inconclusive", *["chip skipped"] * 5]
    opened = [each for tag, each in read.elements if each.get("class") == "probe" and "open" in each]
    assert len(opened) == 2


def test_it_obeys_no_text_of_a_sandbox(review: Review) -> None:
    review.refresh()
    (review.tree / HOSTILE.replace("/", "")).write_text(f"{HOSTILE}\n</pre></style>\n")
    (review.tree / "link").symlink_to(HOSTILE)
    (review.tree / os.fsdecode(b"\xff\n")).mkdir()
    read, plain = _page(review), _page(Review(review.project.parent, "other"))
    assert not [tag for tag, _ in read.elements if tag == "script"]
    assert read.style == plain.style
    assert r'<script>alert("x")<!-- \x1b[31m\u202e&amp;' in read.text
    assert all(each.isprintable() or each == "\n" for each in read.text)


def test_nothing_is_loaded_and_nothing_runs(review: Review) -> None:
    review.write(a="x")
    review.refresh()
    (review.tree / "a").write_text("y")
    read = _page(review)
    names = ("src", "href", "action", "srcset", "style", "onclick")
    targets = [each[name] for _, each in read.elements for name in names if name in each]
    assert targets == ["#d1"]
    csp = next(each["content"] for tag, each in read.elements if tag == "meta" and each.get("http-equiv"))
    digest = base64.b64encode(hashlib.sha256(read.style.encode()).digest()).decode()
    assert csp == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def test_lines_that_look_like_the_head_of_a_diff_are_shown(review: Review) -> None:
    review.write(a="-- a/x\n")
    review.refresh()
    (review.tree / "a").write_text("++ b/evil\n@@ -1 +1 @@\ndiff a/a b/a\n")
    read = _page(review)
    for text in ("--- a/x", "+++ b/evil", "+@@ -1 +1 @@", "+diff a/a b/a"):
        assert text in read.text, text
    assert "--- a/a" not in read.text


def test_it_is_bounded(review: Review, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "MOST_LINES", 10)
    monkeypatch.setattr(page_module, "MOST_BYTES", 100)
    review.refresh()
    for name in "abc":
        (review.tree / name).write_text("".join(f"{name} line {number}\n" for number in range(20)))
    text = _page(review).text
    assert "a line 5" in text
    assert "a line 15" not in text
    assert "more lines" in text
    assert "the page is full" in text
    assert "c line 1" not in text
    assert text.count("\n") < 200


def test_objects_of_git_are_counted(review: Review) -> None:
    review.refresh()
    path = review.tree / f".git/objects/ab/{'c' * 38}"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\0")
    text = _page(review).text
    assert ".git/objects: 1 added, not shown" in text
    assert "c" * 38 not in text
