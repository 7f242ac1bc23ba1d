"""Placeholders: files in a project while a run needs them, and nowhere else or afterwards.

Tests of launcher/source/placeholders.c.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import shutil
import stat
import struct
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from launcher.conftest import WAIT, Drive, Start
from sandwright.questions import is_placeholder

pytestmark = pytest.mark.needs("cc")

SET_UP = ("place", "lock", "make")
UNCHANGED = """\
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/stat.h>
int mkdirat(int directory, const char *name, mode_t mode)
{
    (void)mode;
    return ((int (*)(int, const char *, mode_t))dlsym(RTLD_NEXT, "mkdirat"))(directory, name, 0755);
}
"""
"""A file system without modes."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "p"
    (project / ".git" / "info").mkdir(parents=True)
    (project / "src").mkdir()
    return project


def _words(project: Path, *directories: str, files: Sequence[str] = ()) -> list[str]:
    """The fields of a plan."""
    found = [f"project={project}"]
    found += [f"placeholder_directories={project / each}" for each in directories]
    for name, _, line in (each.partition("=") for each in files):
        found += [f"placeholder_files={project / name}", f"placeholder_files={line}"]
    return found


@pytest.fixture
def words(project: Path) -> list[str]:
    files = (".git/commondir=.", ".git/config.worktree", ".git/info/attributes")
    return _words(project, ".envrc", ".vscode", ".git/refs", "src/made", files=files)


def _tree(folder: Path) -> dict[str, int]:
    return {path.relative_to(folder).as_posix(): path.lstat().st_mode for path in folder.rglob("*")}


def _end(running: subprocess.Popen[str]) -> str:
    said, _ = running.communicate("go on\n", timeout=WAIT)
    assert running.returncode == 0
    return said


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o777])
@pytest.mark.parametrize("mode", [0o755, 0o2755])
def test_they_are_there_while_it_runs(
    project: Path, words: list[str], start: Start, mask: int, mode: int
) -> None:
    project.chmod(mode)
    before, masked = _tree(project), os.umask(mask)
    try:
        running = start(*words, *SET_UP, "wait", "remove")
    finally:
        os.umask(masked)
    made = _tree(project).keys() - before
    assert {project / name for name in made} == {Path(word.partition("=")[2]) for word in words} & {
        project / name for name in made
    }
    assert len(made) == 7
    assert all(is_placeholder(str(project / name), (project / name).lstat()) for name in made)
    assert (project / ".git/commondir").read_text() == ".\n"
    assert _end(running) == "removed\n"
    assert _tree(project) == before


@pytest.mark.parametrize("replaced", [".git", ".git/info", "src", "."])
def test_no_link_leads_to_where_one_is_made(
    project: Path, words: list[str], drive: Drive, tmp_path: Path, replaced: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    (project / replaced).rename(elsewhere)
    (tmp_path / "p" / replaced).symlink_to(elsewhere)
    before = _tree(elsewhere)
    ended = drive(*words, "place", "make", status=125)
    assert ", so programs inside could" in ended.stderr
    assert _tree(elsewhere) == before


@pytest.mark.parametrize("replaced", [".git", ".git/info", "src", "."])
def test_no_link_leads_to_where_one_is_removed(
    project: Path, words: list[str], start: Start, tmp_path: Path, replaced: str
) -> None:
    """Another owner of the directories may replace them: the link's target looks the same, and stays."""
    before = _tree(project)
    running = start(*words, *SET_UP, "wait", "remove")
    made = _tree(project)
    elsewhere, moved = tmp_path / "elsewhere", tmp_path / "moved"
    shutil.copytree(project / replaced, elsewhere, symlinks=True)
    (project / replaced).rename(moved)
    (tmp_path / "p" / replaced).symlink_to(elsewhere)
    same = _tree(elsewhere)
    assert same
    assert _end(running) == "removed\n"
    assert _tree(elsewhere) == same
    (project / replaced).unlink()
    moved.rename(project / replaced)
    assert _tree(project) == before != made


def test_a_copy_is_removed_where_it_lies(project: Path, words: list[str], drive: Drive, start: Start) -> None:
    """The control: after a run was killed, another process removes its placeholders at their paths."""
    before = _tree(project)
    running = start(*words, *SET_UP, "wait")
    running.kill()
    running.communicate(timeout=WAIT)
    assert _tree(project) != before
    assert drive(*words, "place", "remove").stdout == "removed\n"
    assert _tree(project) == before


def test_who_replaces_a_directory_after_it_was_killed_has_nothing_removed_elsewhere(
    project: Path, words: list[str], drive: Drive, start: Start, tmp_path: Path
) -> None:
    running = start(*words, *SET_UP, "wait")
    running.kill()
    running.communicate(timeout=WAIT)
    (project / ".git").rename(tmp_path / "elsewhere")
    (project / ".git").symlink_to(tmp_path / "elsewhere")
    same = _tree(tmp_path / "elsewhere")
    assert drive(*words, "place", "remove").stdout == "removed\n"
    assert _tree(tmp_path / "elsewhere") == same
    assert sorted(path.name for path in project.iterdir()) == [".git", "src"]


@pytest.mark.parametrize("killed", [False, True])
def test_the_last_removes_those_of_all(
    project: Path, words: list[str], start: Start, tmp_path: Path, *, killed: bool
) -> None:
    """The last run removes the placeholders of runs with other policies and of killed runs."""
    before = _tree(project)
    other = _words(project, ".envrc", ".idea", files=(".git/commondir=.", ".git/other=x"))
    one = start(*words, *SET_UP, "wait", "remove")
    two = start(*other, *SET_UP, "wait", "remove")
    together = _tree(project)
    assert together.keys() >= {".idea", ".vscode", ".git/other", "src/made"}
    if killed:
        one.kill()
        one.communicate(timeout=WAIT)
    else:
        assert _end(one) == "others\n"
    assert _tree(project) == together
    assert _end(two) == "removed\n"
    assert _tree(project) == before
    assert not list((tmp_path / "state/sandwright/placeholders").iterdir())


def test_one_that_ends_waits_for_another_that_ends(
    project: Path, words: list[str], start: Start, driver: Path, environ: dict[str, str]
) -> None:
    running = start(*words, *SET_UP, "wait", "remove")
    second = subprocess.Popen(
        [driver, *words, "place", "remove=wait"], env=environ, stdout=subprocess.PIPE, text=True
    )
    assert _end(running) == "removed\n"
    assert second.communicate(timeout=WAIT)[0] == "removed\n"


def test_many_at_once(project: Path, words: list[str], driver: Path, environ: dict[str, str]) -> None:
    before = _tree(project)
    script = 'for i in 1 2 3 4 5 6 7 8 9 10; do "$@" >/dev/null || exit 1; done'
    argv = ["sh", "-c", script, "sh", str(driver), *words, *SET_UP, "remove"]
    running = [subprocess.Popen(argv, env=environ) for _ in range(6)]
    assert [each.wait(WAIT) for each in running] == [0] * 6
    assert _tree(project) == before


def _filled(project: Path) -> None:
    (project / ".vscode").chmod(0o1755)
    (project / ".vscode" / "tasks.json").write_text("mine")


@pytest.mark.parametrize(
    ("change", "left"),
    [
        pytest.param(lambda project: (project / ".vscode").chmod(0o755), {".vscode"}, id="writable"),
        pytest.param(_filled, {".vscode", ".vscode/tasks.json"}, id="filled"),
        pytest.param(
            lambda project: (project / ".git/commondir").chmod(0o644), {".git/commondir"}, id="writable file"
        ),
        pytest.param(
            lambda project: (project / ".git/commondir").rename(project / "x"), {"x"}, id="moved away"
        ),
        pytest.param(lambda project: (project / "src").rename(project / "x"), {"x"}, id="moved with src"),
    ],
)
def test_what_others_made_stays(
    project: Path, words: list[str], start: Start, change: Callable[[Path], object], left: set[str]
) -> None:
    before = _tree(project).keys()
    running = start(*words, *SET_UP, "wait", "remove")
    change(project)
    assert _end(running) == "removed\n"
    assert _tree(project).keys() - before == left


@pytest.mark.parametrize("when", ["before", "meanwhile"])
@pytest.mark.parametrize("name", [".vscode", ".git/config.worktree"])
def test_what_only_looks_like_one_stays(
    project: Path, words: list[str], start: Start, when: str, name: str
) -> None:
    """A user's own empty directory or file of that mode is recognised by its inode number."""
    path = project / name

    def make() -> None:
        path.mkdir() if name == ".vscode" else path.touch()
        path.chmod(0o1555 if name == ".vscode" else 0o444)

    if when == "before":
        make()
    running = start(*words, *SET_UP, "wait", "remove")
    if when == "meanwhile":
        path.rename(project / "moved")  # its inode number is not reused
        make()
    own = path.lstat().st_ino
    assert _end(running) == "removed\n"
    assert path.lstat().st_ino == own
    assert not (project / ".envrc").exists()


def test_another_content_stays(project: Path, words: list[str], start: Start) -> None:
    for name, content in ((".git/commondir", "..\n"), (".git/config.worktree", "[core]\n")):
        running = start(*words, *SET_UP, "wait", "remove")
        path = project / name
        path.unlink()
        path.write_text(content)
        path.chmod(0o444)
        assert _end(running) == "removed\n"
        assert path.read_text() == content
        path.unlink()


@pytest.mark.parametrize("name", [".vscode", ".git/commondir", ".git/config.worktree"])
@pytest.mark.parametrize("there", ["file", "directory", "filled", "link", "fifo"])
def test_nothing_is_made_where_one_appeared(
    project: Path, words: list[str], drive: Drive, name: str, there: str
) -> None:
    path = project / name
    match there:
        case "file":
            path.touch()
        case "directory":
            path.mkdir()
        case "filled":
            (path / "x").mkdir(parents=True)
            path.chmod(0o1555)
        case "link":
            path.symlink_to("nowhere")
        case _:
            os.mkfifo(path, 0o444)
    before = _tree(project)
    ended = drive(*words, *SET_UP, status=125)
    assert ended.stderr == f"sandbox: {path} appeared after this was rendered: render it again\n"
    assert _tree(project) == before
    assert drive(*words, *SET_UP[:1], "remove").stdout == "removed\n"
    assert _tree(project) == before


def test_what_was_only_begun_is_made_again(project: Path, words: list[str], start: Start) -> None:
    (project / ".git/commondir").touch(0o444)
    running = start(*words, *SET_UP, "wait", "remove")
    assert (project / ".git/commondir").read_text() == ".\n"
    (project / ".git/commondir").unlink()
    (project / ".git/commondir").touch(0o444)
    assert _end(running) == "removed\n"
    assert not (project / ".git/commondir").exists()


def test_where_the_directory_has_gone(project: Path, words: list[str], drive: Drive) -> None:
    (project / "src").rmdir()
    ended = drive(*words, *SET_UP, status=125)
    assert ended.stderr.endswith("/src/made, so programs inside could\n")
    assert drive(*words, "place", "remove").stdout == "removed\n"
    assert not (project / ".envrc").exists()


def test_where_it_can_not_be_written(
    project: Path, words: list[str], driver: Path, environ: dict[str, str]
) -> None:
    script = f'mount -t tmpfs -o ro none "{project}/src" && exec "$@"'
    argv = ["unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh", str(driver), *words, *SET_UP]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=WAIT, check=False, env=environ)
    assert ended.returncode == 125
    assert f"cannot write {project}/src, which the policy makes writable: list it under" in ended.stderr


def test_where_modes_are_not_kept_they_go_too(
    project: Path, words: list[str], start: Start, environ: dict[str, str], tmp_path: Path
) -> None:
    """An empty directory that a user made meanwhile stays."""
    (tmp_path / "u.c").write_text(UNCHANGED)
    library = tmp_path / "unchanged.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "u.c"], check=True, timeout=WAIT)
    environ |= {"LD_PRELOAD": str(library)}
    environ["ASAN_OPTIONS"] += ":verify_asan_link_order=0"
    before = _tree(project)
    running = start(*words, *SET_UP, "wait", "remove")
    assert stat.S_IMODE((project / ".envrc").stat().st_mode) == 0o755
    (project / "keep").mkdir()
    (project / ".vscode").rmdir()
    (project / "keep").rename(project / ".vscode")
    assert _end(running) == "removed\n"
    assert _tree(project).keys() == before.keys() | {".vscode"}


def test_who_watches_the_project_is_woken_as_little_as_can_be(
    project: Path, words: list[str], start: Start
) -> None:
    """Watchers of the project get one event when a placeholder is created and one when it is removed."""
    with _watched(project) as root, _watched(project / ".git") as git:
        one = start(*words, *SET_UP, "wait", "remove")
        assert root() == [CREATE] * 2
        assert sorted(git()) == [MODIFY, *[CREATE] * 3]
        two = start(*words, *SET_UP, "wait", "remove")
        assert _end(two) == "others\n"
        assert root() == git() == []
        assert _end(one) == "removed\n"
        assert root() == [DELETE] * 2
        assert git() == [DELETE] * 3


MODIFY, CREATE, DELETE = 0x2, 0x100, 0x200  # sys/inotify.h
WATCHED = 0x3C6
"""The events that file watchers ask for: these, changes of attributes, and moves."""


@contextlib.contextmanager
def _watched(folder: Path) -> Iterator[Callable[[], list[int]]]:
    """Yield the events of a directory."""
    libc = ctypes.CDLL(None)
    descriptor = libc.inotify_init1(os.O_NONBLOCK)
    assert libc.inotify_add_watch(descriptor, os.fsencode(folder), WATCHED) > 0

    def events() -> list[int]:
        found = []
        with contextlib.suppress(BlockingIOError):
            content = os.read(descriptor, 1 << 20)
            while content:
                _, mask, _, length = struct.unpack_from("iIII", content)
                found.append(mask & WATCHED)
                content = content[16 + length :]
        return found

    yield events
    os.close(descriptor)


def test_who_holds_the_lock_is_named(project: Path, words: list[str], drive: Drive) -> None:
    descriptor = os.open(project, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        ended = drive(*words, "lock", status=125)
    finally:
        os.close(descriptor)
    name = Path("/proc/self/comm").read_text().strip()
    said = f"sandbox: the project is locked by process {os.getpid()} ({name}): wait"
    assert ended.stderr.startswith(said)


def test_without_any_nothing_is_locked(project: Path, drive: Drive) -> None:
    descriptor = os.open(project, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        drive(f"project={project}", "lock", "make", "remove")
    finally:
        os.close(descriptor)


def test_a_list_of_somebody_else_is_no_way_out(
    project: Path, words: list[str], start: Start, tmp_path: Path
) -> None:
    """Whatever the list contains, only placeholders are removed."""
    running = start(*words, *SET_UP, "wait", "remove")
    (name,) = (tmp_path / "state/sandwright/placeholders").glob("*-*")
    (tmp_path / "victim").mkdir()
    (tmp_path / "file").write_text("x\n")
    for content in (
        b"",
        b"\0",
        b"x",
        b"\0\0\0x\0y",
        f"{tmp_path}/victim\0\0{tmp_path}/file\0x\0{tmp_path}".encode(),
    ):
        name.with_name(name.name.rpartition("-")[0] + f"-{len(content)}").write_bytes(content)
    assert _end(running) == "removed\n"
    assert (tmp_path / "victim").is_dir()
    assert (tmp_path / "file").exists()
