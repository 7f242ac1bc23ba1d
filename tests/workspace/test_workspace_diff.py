"""Diffs of changes, in patch(1)'s format, of hostile content, in bounded time.

Tests of workspace/diff.py.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandwright import process
from sandwright.workspace.changes import Change
from sandwright.workspace.diff import MOST_BYTES, SECONDS, diff_change, groups, unified, without_objects
from sandwright.workspace.hunks import Hunks
from support.workspaces import Review, review

__all__ = ["review"]


def _diffs(review: Review) -> dict[str, list[bytes]]:
    return {os.fsdecode(each.path): diff_change(review.workspace, each) for each in review.changes()}


def test_a_line_break_in_a_name_begins_no_line(review: Review) -> None:
    review.write(a="1\n")
    review.refresh()
    (review.tree / "x\n@@ -1 +1 @@\n-1").write_text("2\n")
    (lines,) = _diffs(review).values()
    assert [each for each in lines if b"\n" in each[:-1]] == []


def test_objects_of_git_are_grouped(review: Review) -> None:
    """The controls: files that only look like objects, and files that are not new, are shown."""
    review.write(a="1\n")
    review.refresh()
    objects = [
        f".git/objects/ab/{'c' * 38}",
        f"sub/.git/objects/ab/{'c' * 62}",
        ".git/objects/pack/pack-ab.idx",
    ]
    others = [
        f".git/objects/ab/{'g' * 38}",
        f".git/objects/{'c' * 38}",
        f"ab/{'c' * 38}",
        ".git/objects/pack/evil.sh",
        ".git/objects/info/alternates",
        f".git/hooks/.git/objects/zz/{'c' * 38}",
    ]
    for name in (*objects, *others):
        (review.tree / name).parent.mkdir(parents=True, exist_ok=True)
        (review.tree / name).write_bytes(b"x")
    (review.tree / f".git/objects/ab/{'d' * 38}").symlink_to("x")
    (review.tree / ".git/objects/ee").mkdir()
    rest, found = without_objects(review.changes())
    assert sorted(os.fsdecode(each.path) for group in found.values() for each in group) == sorted(objects)
    assert sorted(found) == [b".git/objects", b"sub/.git/objects"]
    shown = {os.fsdecode(each.path) for each in rest}
    assert {*others, f".git/objects/ab/{'d' * 38}", ".git/objects/ee"} <= shown
    assert not {".git/objects/ab", "sub/.git/objects/ab"} & shown


def test_each_kind_of_change_has_its_header(review: Review) -> None:
    review.write(a="1\n2\n3\n", gone="gone\n", mode="m")
    (review.project / "link").symlink_to("a")
    review.refresh()
    tree = review.tree
    (tree / "a").write_text("1\ntwo\n3")
    (tree / "gone").unlink()
    (tree / "mode").chmod(0o4755)
    (tree / "link").unlink()
    (tree / "link").symlink_to("b")
    (tree / "new").mkdir()
    (tree / "new/binary").write_bytes(b"\0\1")
    found = {name: b"".join(lines).decode() for name, lines in _diffs(review).items()}
    assert found == {
        "a": "diff a/a b/a\n--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n 1\n-2\n-3\n+two\n+3\n"
        "\\ No newline at end of file\n",
        "gone": "diff a/gone b/gone\ndeleted file mode 0644\n"
        "--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n",
        "link": "diff a/link b/link\n--- a/link\n+++ b/link\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n"
        "+b\n\\ No newline at end of file\n",
        "mode": "diff a/mode b/mode\nold mode 0644\nnew mode 4755\n",
        "new": "diff a/new b/new\nnew directory mode 0755\n",
        "new/binary": "diff a/new/binary b/new/binary\nnew file mode 0644\nBinary files differ\n",
    }


def test_a_file_that_the_host_changed_is_told(review: Review) -> None:
    review.write(a="1\n")
    review.refresh()
    (review.tree / "a").write_text("2\n")
    review.write(a="3\n")
    lines = _diffs(review)["a"]
    assert lines[1].startswith(b"The project's file was changed since")
    assert lines[-2:] == [b"-3\n", b"+2\n"]


def test_a_large_file_is_one_line(review: Review) -> None:
    review.write(a="x")
    review.refresh()
    (review.tree / "a").write_bytes(b"x\n" * MOST_BYTES)
    assert _diffs(review)["a"][1:] == [b"Files differ, and are too large to be shown\n"]


LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"\n", b"\xff\r\n"]), max_size=30)


@given(old=LINES, new=LINES, end=st.booleans())
def test_patch_makes_the_new_text_of_the_old_one(old: list[bytes], new: list[bytes], end: bool) -> None:
    if new and end:
        new = [*new[:-1], b"last without an end"]
    assert _patched(old, list(unified(old, new))) == new


def _patched(old: list[bytes], diff: list[bytes]) -> list[bytes]:
    """The output of patch(1): every line is at the position in its hunk."""
    made, at = [], 0
    for number, line in enumerate(diff):
        if line.startswith(b"@@"):
            first, _, length = line.split()[1][1:].partition(b",")
            start = int(first) - (length != b"0")
            made += old[at:start]
            at = start
        elif line.startswith(b"\\"):
            pass
        else:
            text = line[1:]
            if number + 1 < len(diff) and diff[number + 1].startswith(b"\\"):
                text = text.removesuffix(b"\n")
            if line[:1] in b" -":
                assert old[at] == text
                at += 1
            if line[:1] in b" +":
                made.append(text)
    return made + old[at:]


@given(
    removed=st.sets(st.integers(0, 79), max_size=8),
    added=st.sets(st.integers(0, 79), max_size=8),
    skipped=st.sets(st.integers(0, 15)),
)
def test_chosen_hunks_make_what_patch_makes_of_them(
    removed: set[int], added: set[int], skipped: set[int]
) -> None:
    old = [b"%d\n" % number for number in range(80)]
    new = [
        line
        for number, each in enumerate(old)
        for line in ([b"new\n"] * (number in added) + [each] * (number not in removed))
    ]
    whole = Hunks(Change(b"a", "changed", None, None), old, new, list(groups(old, new)))
    every = range(len(whole.groups))
    taken = [number for number in every if number not in skipped]
    assert whole.content(()) == b"".join(old)
    assert whole.content(every) == b"".join(new)
    diff = [line for number in taken for line in whole.lines(number)]
    assert whole.content(taken) == b"".join(_patched(old, diff))


def _permuted() -> tuple[list[bytes], list[bytes]]:
    lines = [b"%d\n" % number for number in range(3900)]
    return lines, random.sample(lines, len(lines))


def _few_lines() -> tuple[list[bytes], list[bytes]]:
    return [[random.choice((b"a\n", b"b\n")) for _ in range(3900)] for _ in range(2)]  # type: ignore[return-value]


def _many_lines() -> tuple[list[bytes], list[bytes]]:
    return [b"\n"] * 500_000, [b"x\n", *[b"\n"] * 400_000, b"y\n"]


@pytest.mark.parametrize("make", [_permuted, _few_lines, _many_lines])
def test_no_text_takes_long(make: object) -> None:
    assert callable(make)
    old, new = make()
    begun = time.monotonic()
    list(unified(old, new))
    assert time.monotonic() - begun < SECONDS + 8


@pytest.mark.needs("patch")
def test_the_real_patch_takes_it(review: Review, tmp_path: Path) -> None:
    old = [f"line {number}\n" for number in range(200)]
    review.write(a="".join(old))
    review.refresh()
    new = [line for number, line in enumerate(old) if number % 50] + ["more\n"]
    (review.tree / "a").write_text("".join(new))
    (tmp_path / "diff").write_bytes(b"".join(_diffs(review)["a"]))
    process.run("patch", "-p1", "-d", str(review.project), "-i", str(tmp_path / "diff"))
    assert (review.project / "a").read_text() == "".join(new)
