"""Modes that keep a normal user out of its own copy; decided in builder/sandwright/workspace/changes.py."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandwright.workspace.store import exists, remove
from support.workspaces import Review

NOBODY = 65534


@pytest.fixture
def owned(monkeypatch: pytest.MonkeyPatch) -> Iterator[Review]:
    """A project and workspace of a user other than root, who also reviews them."""
    with tempfile.TemporaryDirectory(prefix="sandwright-") as folder:
        uid = os.geteuid() or NOBODY
        os.chown(folder, uid, -1)
        monkeypatch.setenv("HOME", f"{folder}/home")
        os.seteuid(uid)
        try:
            found = Review(Path(folder))
            found.write(a="a", deep__er__f="f")
            found.refresh()
            yield found
            remove(found.workspace)
        finally:
            os.seteuid(os.getuid())


@pytest.mark.parametrize("mode", [0, 0o200, 0o400, 0o600])
def test_a_closed_directory_is_one_change(owned: Review, mode: int) -> None:
    (owned.tree / "deep").chmod(mode)
    assert owned.kinds() == {"deep": "mode"}
    owned.refresh()


@pytest.mark.parametrize("mode", [0, 0o400, 0o500])
def test_a_closed_copy_is_opened(owned: Review, mode: int) -> None:
    (owned.tree / "a").write_text("new")
    owned.tree.chmod(mode)
    assert owned.kinds() == {"a": "changed"}
    owned.tree.chmod(mode)
    owned.write(b="b")
    owned.refresh()
    assert (owned.tree / "b").read_text() == "b"


def test_a_closed_copy_is_removed(owned: Review) -> None:
    (owned.tree / "deep").chmod(0)
    owned.tree.chmod(0)
    remove(owned.workspace)
    assert not exists(owned.workspace)
