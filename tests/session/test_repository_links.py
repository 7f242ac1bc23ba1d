"""Links in Git's directories: programs inside can make none, so Git on the host writes through none.

Tests of launcher/source/links.c.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from session.conftest import Project
from support.processtrees import below

pytestmark = pytest.mark.needs("bwrap", "git")

POLICY = "schema: 1\nmethod: bwrap\nfilesystem:\n  write: [$PROJECT]\n"
NAMES = ("COMMIT_EDITMSG", "FETCH_HEAD", "logs/refs/heads/new", "refs/heads/new", "index.new")
"""The files that Git on the host writes, or moves aside, in everyday work."""


def git(project: Project, *words: str | Path, cwd: Path | None = None) -> str:
    ended = subprocess.run(
        ("git", *words),
        cwd=cwd or project.root,
        env=project.environ,
        check=True,
        capture_output=True,
        text=True,
    )
    return ended.stdout


@pytest.fixture
def repository(project: Project) -> Project:
    """A project that is a repository with a submodule, and the user's file that an attack aims at."""
    project.environment |= {"SANDWRIGHT_TRUST": "1", "GIT_CONFIG_NOSYSTEM": "1"}
    (project.home / ".bashrc").write_text("mine\n")
    shutil.rmtree(project.root / ".git")
    git(project, "config", "--global", "user.name", "Ada")
    git(project, "config", "--global", "user.email", "ada@example.org")
    git(project, "config", "--global", "protocol.file.allow", "always")
    git(project, "init", "-q", "-b", "main", project.home / "library")
    git(project, "commit", "-q", "--allow-empty", "-m", "first", cwd=project.home / "library")
    git(project, "init", "-q", "-b", "main")
    git(project, "submodule", "--quiet", "add", project.home / "library", "library")
    project.policy.write_text(POLICY)
    git(project, "add", ".")
    git(project, "commit", "-q", "-m", "first")
    return project


ATTACK = """
import os, sys
target, names = sys.argv[1], sys.argv[2:]
os.symlink(target, "link")
os.mkdir("folder")
os.symlink(target, "folder/COMMIT_EDITMSG")
git = os.open(".git", os.O_PATH)

def forms(name):
    above, last = os.path.split(name)
    path = f".git/{name}"
    yield lambda: os.symlink(target, path)
    yield lambda: os.symlink(target, os.path.abspath(path))
    yield lambda: os.symlink(target, f"library/../.git/./{name}")
    yield lambda: os.symlink(target, name, dir_fd=git)
    yield lambda: os.symlink(target, f"/proc/self/fd/{git}/{name}")
    yield lambda: os.symlink(target, f"/proc/self/cwd/{path}")
    yield lambda: (os.symlink(os.path.abspath(f".git/{above}"), "way"), os.symlink(target, f"way/{last}"))
    yield lambda: (os.chdir(f".git/{above}"), os.symlink(target, last))
    yield lambda: os.rename("link", path)
    yield lambda: os.link("link", path, follow_symlinks=False)
    yield lambda: os.rename("folder", f".git/{above}/moved")
    yield lambda: os.rename(".git", "elsewhere")

made = []
start = os.getcwd()
for name in names:
    os.makedirs(os.path.dirname(f".git/{name}"), exist_ok=True)
    for number, act in enumerate(forms(name)):
        try:
            act()
        except OSError as fault:
            continue
        finally:
            os.chdir(start)
            if os.path.lexists("way"):
                os.unlink("way")
        made.append(f"{name} {number}")
print(made)
"""


def links_below(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_symlink()]


@pytest.mark.parametrize("folder", ["", "modules/library/"])
def test_no_form_of_making_a_link_reaches_a_repository(repository: Project, folder: str) -> None:
    names = [f"{folder}{name}" for name in NAMES]
    ended = repository.run("python3", "-c", ATTACK, str(repository.home / ".bashrc"), *names)
    assert (ended.returncode, ended.stdout) == (0, b"[]\n"), ended.stderr
    assert links_below(repository.root / ".git") == []


def test_git_on_the_host_writes_to_no_file_of_the_users(repository: Project) -> None:
    """Git runs during the run, before any scan at its end could have removed a link."""
    target = repository.home / ".bashrc"
    script = (
        f"ln -sf {target} .git/COMMIT_EDITMSG; ln -s {target} l; mv -f l .git/COMMIT_EDITMSG;"
        "echo alias ls=evil >.git/MERGE_MSG; echo up; until [ -e go ]; do sleep 0.05; done"
    )
    with repository.start("sh", "-c", script) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"up\n"
        git(repository, "-c", "core.editor=true", "commit", "--allow-empty")
        (repository.root / "go").touch()
        run.communicate(timeout=60)
    assert target.read_text() == "mine\n"


WORK = """
set -e
export GIT_AUTHOR_NAME=Ada GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=Ada GIT_COMMITTER_EMAIL=a@b
ln -s x made; ln -sf y made; [ "$(readlink made)" = y ]
mkdir d; ln -s ../made d/up; cp -a d e; [ "$(readlink e/up)" = ../made ]
tar -cf t.tar e; rm -r e; tar -xf t.tar; [ -L e/up ]
ln -s "$PWD/made" "$PWD/whole"; (cd d && ln -s . here && ln -s x here/here/deep); [ -L d/deep ]
ln -s x /tmp/private; [ -L /tmp/private ]
python3 -c 'import os; d = os.open("d", os.O_PATH); os.symlink("x", "by-fd", dir_fd=d)
os.symlink("x", f"/proc/self/fd/{d}/by-proc"); os.symlink("x", "/proc/thread-self/cwd/by-cwd")'
[ -L d/by-fd ] && [ -L d/by-proc ] && [ -L by-cwd ]
git init -q new; [ "$(git -C new config core.symlinks || echo true)" = true ]; rm -rf new
git clone -q . /tmp/clone; git -C /tmp/clone log -1 --oneline
git add -A; git commit -q -m work; git stash list
git checkout -q -b other; git rm -q made; git commit -q -m two
git checkout -q main; [ -L made ]
git rebase -q other; git tag -a -m t t; git gc -q; git bisect start; git bisect reset
git worktree add -q tree; [ -L tree/d/up ]
! ln -s x /etc/of-a-test
echo fine
"""


def test_work_with_links_goes_on(repository: Project) -> None:
    ended = repository.run("sh", "-c", WORK)
    assert ended.stdout.decode().splitlines()[-1:] == ["fine"], ended.stderr


ERRORS = """
import errno, os
long = "n" * 300
open("file", "w"); os.symlink("loop", "loop"); os.symlink("x", "there")
def fails(*words, **options):
    try:
        os.symlink(*words, **options)
    except OSError as fault:
        print(words[1][:12], errno.errorcode[fault.errno])
    else:
        print(words[1][:12], "made")
fails("", "p")
for path in ("", "/", ".", "..", "there", "none/p", "file/p", "loop/p", long, "p/", "file/", "there/",
             "/proc/self/p", "d" * 250 + "/" + "p" * 4000):
    fails("x", path)
fails("x" * 4096, "p")
fails("x", "p", dir_fd=999)
fails("x", "p", dir_fd=os.open("file", os.O_RDONLY))
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
for words in ((None, b"p"), (b"x", None), (b"x", ctypes.c_void_p(1 << 46))):
    assert libc.symlink(*words) == -1
    print(errno.errorcode[ctypes.get_errno()])
"""


def test_errors_are_the_kernels(repository: Project) -> None:
    inside = repository.run("python3", "-c", ERRORS)
    for name in ("file", "loop", "there"):
        (repository.root / name).unlink()
    outside = subprocess.run(
        ("python3", "-c", ERRORS),
        cwd=repository.root,
        capture_output=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert inside.stdout == outside.stdout, inside.stderr


def test_no_link_is_made_in_a_bare_repository(repository: Project) -> None:
    subprocess.run(("git", "init", "-q", "--bare", repository.root / "store"), check=True)
    ended = repository.run("sh", "-c", "ln -s /etc/x store/FETCH_HEAD; ln -s /etc/x l; mv l store/FETCH_HEAD")
    assert b"Operation not permitted" in ended.stderr
    assert links_below(repository.root / "store") == []


@pytest.mark.parametrize("by", ["run", "cleanup"])
def test_a_link_that_a_killed_run_left_is_removed(repository: Project, by: str) -> None:
    """The link is in a repository that the run made, where links are possible."""
    script = "git init -q new; ln -s /etc/x new/.git/COMMIT_EDITMSG; echo up; sleep 600"
    with repository.start("sh", "-c", script) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"up\n"
        for each in (*below(run.pid), run.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        run.communicate(timeout=60)
    link = repository.root / "new/.git/COMMIT_EDITMSG"
    assert link.is_symlink()
    if by == "run":
        repository.run("true")  # the record stays while there are placeholders, which this run removes
    ended = repository.sandwright(*(("run", "--", "true") if by == "run" else ("cleanup",)))
    said = f"a run that was killed: new or changed while it ran: {link}: a link in a repository was removed"
    assert said.encode() in ended.stderr
    assert not link.is_symlink()
