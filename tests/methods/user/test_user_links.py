"""Links under the method `user`: the account makes its own, and none in the project's repository."""

from __future__ import annotations

import os
from pathlib import Path

from support.ownedprojects import Project

ATTACK = """
ln -s /home/ada/.bashrc .git/COMMIT_EDITMSG
ln -s /home/ada/.bashrc link; mv link .git/COMMIT_EDITMSG; ln -P link .git/COMMIT_EDITMSG
mkdir folder; (cd folder; ln -s x ../up; ln -s x "$PWD/../down"); ls -d up down >&2
tar -cf t.tar up; mkdir from-tar; tar -xf t.tar -C from-tar
ln -s x folder/link; python3 -c 'import os; os.rename("folder", ".git/folder")'
cp -d link .git/COMMIT_EDITMSG
true
"""


def test_the_account_makes_links_but_not_in_the_repository(project: Project) -> None:
    (project.root / ".git/index").touch()
    ended = project.run("sh", "-c", ATTACK)
    made = project.root / "link"
    try:
        assert ended.returncode == 0, ended.stderr
        assert {(project.root / name).is_symlink() for name in ("up", "down", "from-tar/up")} == {True}, (
            ended.stderr
        )
        assert made.readlink() == Path("/home/ada/.bashrc"), ended.stderr
        assert os.lstat(made).st_uid == project.uid
        assert [each for each in (project.root / ".git").rglob("*") if each.is_symlink()] == []
        assert ended.stderr.count(b"Operation not permitted") >= 1
    finally:
        project.run("sh", "-c", "rm -rf link folder up down t.tar from-tar")
