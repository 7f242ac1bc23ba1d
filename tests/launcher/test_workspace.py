"""The launcher shows the copy of a review workspace at the project's path.

Tests of launcher/source/workspace.c: the mount, a replaced copy, no copy.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sandwright.launcher.run_document import RunDocument
from session.conftest import WAIT
from session.jobs import NOBODY, Place, place
from session.test_keys import METHODS
from support.rundocuments import launching
from support.waiting import until

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="becomes other users"),
    pytest.mark.needs("busybox", "setpriv"),
]
CELLS = [
    pytest.param((method, uid), marks=METHODS[method], id=f"{method}-{'user' if uid else 'root'}")
    for method in ("bwrap", "oci", "gvisor", "landlock", "vm")
    for uid in (0, NOBODY)
]
CHANGE = "echo new > kept; rm gone; mkdir made; mv folder moved; echo x > made/x; cat moved/inner; pwd"


@pytest.fixture(params=CELLS)
def at(request: pytest.FixtureRequest) -> Iterator[Place]:
    method, uid = request.param
    # With the host's network there is no `sandwright-changes`, which needs a bridge.
    host = "network: {mode: host}\n" if method in ("bwrap", "oci", "gvisor") else ""
    with place(method, uid, f"workspace: review\n{host}") as found:
        (found.root / "folder").mkdir(exist_ok=True)
        for name, text in (("kept", "old"), ("gone", "old"), ("folder/inner", "inner")):
            (found.root / name).write_text(text)
        for path in (found.root, *found.root.rglob("*")):
            os.chown(path, uid, uid)
        yield found


def _copied(at: Place) -> Path:
    copy = at.root.parent / "copy"
    subprocess.run(["cp", "-a", at.root, copy], check=True, timeout=WAIT)
    return copy


def _words(project: Path, copy: Path) -> tuple[str, ...]:
    found = [(path, path.lstat()) for path in (project, copy)]
    return tuple(word for path, of in found for word in (str(path), f"{of.st_dev}:{of.st_ino}"))


def _run(at: Place, words: tuple[str, ...], *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*at.before, launching(at.launcher, RunDocument(workspace=words)), *command],
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT,
        cwd=at.root,
        env=at.environ,
    )


def _content(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): path.read_text() if path.is_file() else "" for path in root.rglob("*")
    }


def test_the_copy_is_changed_and_the_project_is_not(at: Place) -> None:
    copy = _copied(at)
    before = _content(at.root)
    ended = _run(at, _words(at.root, copy), "sh", "-c", CHANGE)
    assert (ended.returncode, ended.stdout) == (0, f"inner{at.root}\n"), ended.stderr
    assert _content(at.root) == before
    assert (copy / "kept").read_text() == "new\n"
    assert not (copy / "gone").exists()
    assert (copy / "moved/inner").read_text() == "inner"


def test_without_a_copy_nothing_runs(at: Place) -> None:
    before = _content(at.root)
    ended = _run(at, (), "sh", "-c", CHANGE)
    assert ended.returncode == 125
    assert "workspace: review" in ended.stderr
    assert _content(at.root) == before


@pytest.mark.parametrize("which", [0, 1], ids=["project", "copy"])
def test_what_was_replaced_since_is_not_used(at: Place, which: int) -> None:
    copy = _copied(at)
    words = _words(at.root, copy)
    replaced = (at.root, copy)[which]
    replaced.rename(f"{replaced}.old")
    shutil.copytree(f"{replaced}.old", replaced)
    ended = _run(replace(at, root=replaced.parent), words, "true")
    assert ended.returncode == 125
    assert f"{replaced} was replaced" in ended.stderr


@pytest.mark.parametrize("which", [0, 1], ids=["project", "copy"])
def test_a_link_is_not_followed(at: Place, which: int) -> None:
    copy = _copied(at)
    words = _words(at.root, copy)
    replaced = (at.root, copy)[which]
    replaced.rename(f"{replaced}.old")
    replaced.symlink_to(f"{replaced}.old")
    ended = _run(replace(at, root=replaced.parent), words, "true")
    assert ended.returncode == 125
    assert str(replaced) in ended.stderr


def test_refusals_are_reported_at_once(at: Place, tmp_path: Path) -> None:
    """The report goes to a file that only another process has open, as with `--detach` and `--denials`."""
    copy = _copied(at)
    with (
        (tmp_path / "journal").open("w+b") as file,
        subprocess.Popen([*at.before, "/bin/sleep", str(WAIT)], stdin=file) as holder,
    ):
        os.fchmod(file.fileno(), 0o666)
        document = RunDocument(workspace=_words(at.root, copy), journal=f"/proc/{holder.pid}/fd/0")
        until(lambda: Path(f"/proc/{holder.pid}/comm").read_text() == "sleep\n", "it does not start")
        try:
            ended = subprocess.run(
                [*at.before, launching(at.launcher, document), "true"],
                capture_output=True,
                check=False,
                timeout=WAIT,
                cwd=at.root,
                env=at.environ,
            )
        finally:
            holder.kill()
    assert ended.returncode == 0, ended.stderr.decode()


def test_no_mount_is_left_on_the_host(at: Place) -> None:
    mounts = Path("/proc/self/mountinfo").read_text()
    copy = _copied(at)
    assert _run(at, _words(at.root, copy), "true").returncode == 0
    assert str(copy) not in Path("/proc/self/mountinfo").read_text()
    assert str(at.root) not in mounts
