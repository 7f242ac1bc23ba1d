"""Commands that damage a project, each in a review workspace; the control is the same command without one.

Tests of session/review.py: nothing of the project changes, whatever a command does.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from session.conftest import Project
from support.thorough import representative

pytestmark = pytest.mark.needs("bwrap", "git", "python3", "perl", "rsync")

POLICY = "schema: 1\nmethod: bwrap\nfilesystem: {write: [$PROJECT]}\n"
PYTHON = "python3 -c '{}'"
DAMAGE = {
    "rm": "rm -rf ./* .git",
    "find-delete": "find . -type f -delete",
    "git-clean": "git clean -qfdx",
    "git-reset": "git reset -q --hard",
    "git-checkout": "git checkout -q -- .",
    "git-stash": "git stash -q -u",
    "git-rm": "git rm -qf a.txt",
    "git-amend": "git commit -q --amend -m other",
    "git-branch": "git branch -D side",
    "git-reset-back": "git reset -q --hard HEAD~1",
    "git-gc": "git reflog expire --expire=now --all; git gc -q --prune=now",
    "git-rebase": "git rebase -q --root --exec 'rm -f b.txt' || rm b.txt",
    "git-update-ref": "git update-ref -d refs/heads/side",
    "git-rm-index": "rm .git/index",
    "redirect": ": > a.txt",
    "append": "echo more >> a.txt",
    "tee": "echo x | tee a.txt b.txt",
    "sed": "sed -i s/a/b/ a.txt",
    "perl": "perl -pi -e 's/a/b/' a.txt",
    "truncate": "truncate -s 1 a.txt",
    "grow": "truncate -s 1M a.txt",
    "dd": "dd if=/dev/zero of=a.txt bs=1 count=4 conv=notrunc status=none",
    "shred": "shred -u a.txt",
    "sort": "sort -r -o a.txt a.txt",
    "gzip": "gzip a.txt",
    "move-over": "mv a.txt b.txt",
    "move-folder": "mv folder moved",
    "copy-over": "cp b.txt a.txt",
    "install": "install -m 600 /dev/null a.txt",
    "link-over": "ln -sf /etc/passwd a.txt",
    "hard-link": "ln a.txt c.txt; echo x > c.txt",
    "chmod": "chmod -R 000 folder; chmod 700 folder",
    "touch": "touch -d 1999-01-01 a.txt",
    "rsync": "mkdir ../tmp 2>/dev/null; rsync -a --delete folder/ ./ --exclude folder",
    "tar": "tar cf /tmp/x.tar b.txt --transform s/b/a/; tar xf /tmp/x.tar",
    "patch": "printf -- '--- b.txt\\n+++ b.txt\\n@@ -1 +1 @@\\n-aaa\\n+bbb\\n' | git apply",
    "mmap": PYTHON.format(
        'import mmap; f = open("a.txt", "r+b"); m = mmap.mmap(f.fileno(), 0); m[0] = 120; m.flush()'
    ),
    "rename-loop": "for each in *.txt; do mv $each $each.bak; done",
    "mkfifo": "rm a.txt; mkfifo a.txt",
    "punch": PYTHON.format('import os; f = os.open("a.txt", os.O_RDWR); os.pwrite(f, bytes(3), 0)'),
    "exchange": "mv a.txt t; mv b.txt a.txt; mv t b.txt",
}
"""At least 41, from reports about agents, and from their everyday work."""


def test_there_are_enough() -> None:
    assert len(DAMAGE) >= 41


@pytest.fixture
def damaged(project: Project) -> Project:
    shutil.rmtree(project.root)
    (project.root / "folder").mkdir(parents=True)
    for name in ("a.txt", "b.txt", "folder/inner.txt"):
        (project.root / name).write_text("aaa\n")
    for words in (
        "init -q .",
        "add .",
        "commit -q -m first",
        "branch side",
        "commit -q --allow-empty -m second",
    ):
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b.invalid", *words.split()]
        subprocess.run(command, cwd=project.root, check=True, timeout=60)
    (project.root / "a.txt").write_text("aaa, not committed\n")
    (project.root / "new.txt").write_text("not tracked\n")
    project.policy.write_text(POLICY)
    project.environment |= {
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "a"), ("EMAIL", "a@b.invalid"))
    }
    return project


def _state(root: Path) -> dict[str, tuple[object, ...]]:
    """Everything below a directory: kinds, modes, times, content."""
    found: dict[str, tuple[object, ...]] = {}
    for base, folders, files in os.walk(root):
        for name in (*folders, *files, "."):
            path = Path(base, name)
            status = path.lstat()
            content = hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(status.st_mode) else ""
            link = str(path.readlink()) if path.is_symlink() else ""
            found[str(path)] = (status.st_mode, status.st_mtime_ns, status.st_nlink, content, link)
    return found


@pytest.mark.parametrize(
    "name",
    representative([pytest.param(name, id=name) for name in DAMAGE], "rm", "git-reset", "mmap", "hard-link"),
)
def test_the_damage_is_held(damaged: Project, name: str) -> None:
    before = _state(damaged.root)
    damaged.run("sh", "-c", DAMAGE[name], options=("--review",))
    assert _state(damaged.root) == before
    listed = damaged.sandwright("changes").stdout
    assert b"\n0 changes" not in listed
    damaged.run("sh", "-c", DAMAGE[name])
    assert _state(damaged.root) != before, "the control did no damage"
