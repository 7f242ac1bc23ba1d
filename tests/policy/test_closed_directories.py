"""A directory that a run closed (chmod), or a repository that it took apart, is still protected in the next
run.

A program inside owns the files of the project: it can hide a protected name from one search, and restore it
while the sandbox that was made without it runs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandwright import inputs as live
from sandwright.api import Policy
from sandwright.errors import UsageError
from sandwright.inputs import LiveHost

OTHER = 65534
"""The user of the tests, because modes deny root nothing."""
GIT = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}


@pytest.fixture
def project(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project of a normal user; this process runs as that user."""
    home = Path(tempfile.mkdtemp(prefix="sandwright-test-", dir="/var/tmp"))
    root = home / "p"
    root.mkdir()
    (root / "sandbox.yaml").write_text("schema: 1\nmethod: bwrap\n")
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    became = os.geteuid() == 0
    if became:
        for path in (home, root, root / "sandbox.yaml"):
            os.chown(path, OTHER, OTHER)
        os.setresuid(OTHER, OTHER, 0)
    yield root
    if became:
        os.setresuid(0, 0, 0)
    shutil.rmtree(home)


def _writable(project: Path, path: str) -> bool:
    policy = Policy.load(project / "sandbox.yaml").resolve()
    return policy.filesystem.tree.changes_host(f"{project}/{path}")


@pytest.mark.needs("git")
@pytest.mark.parametrize("mode", [0o000, 0o300, 0o600])
@pytest.mark.parametrize(
    ("repository", "closed"),
    [("z/r/.git", "z"), ("z/r/.git", "z/r"), (".git/modules/s", ".git/modules"), ("p/.git", ".")],
)
def test_a_closed_directory_is_refused(project: Path, repository: str, closed: str, mode: int) -> None:
    (project / repository).mkdir(parents=True)
    subprocess.run(["git", "init", "-q", "--bare", project / repository], check=True, env=GIT)
    assert not _writable(project, f"{repository}/config")
    policy = Policy.load(project / "sandbox.yaml")
    (project / closed).chmod(mode)
    try:
        with pytest.raises(UsageError, match=r"cannot search .*: its owner has no right|is no directory"):
            policy.resolve()
    finally:
        (project / closed).chmod(0o755)


def test_a_recording_does_not_hold_when_a_directory_was_closed(project: Path) -> None:
    (project / "z").mkdir()
    asking = LiveHost()
    asking.ask("nested", str(project), ".git")
    asking.ask("listing", f"{project}/z")
    recording = asking.recording()
    assert live.changed(recording) is None
    (project / "z").chmod(0)
    try:
        assert [live.changed([each]) for each in recording] == [each for each, _ in recording]
    finally:
        (project / "z").chmod(0o755)


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a directory of another user")
def test_a_directory_that_another_user_closed_is_passed_over(project: Path) -> None:
    """Containers fill such directories; no program inside opens them either."""
    (project / "data").mkdir()
    os.setresuid(0, 0, 0)
    os.chown(project / "data", 12345, 12345)
    (project / "data").chmod(0o700)
    os.setresuid(OTHER, OTHER, 0)
    try:
        assert _writable(project, "x")
    finally:
        os.setresuid(0, 0, 0)
        (project / "data").rmdir()


@pytest.mark.needs("git")
@pytest.mark.parametrize("moved", [["HEAD"], ["refs"], ["HEAD", "refs"]])
def test_a_bare_repository_without_some_of_its_names_is_held(project: Path, moved: list[str]) -> None:
    """`config` and `objects` can't be moved, because mounts cover them."""
    subprocess.run(["git", "init", "-q", "--bare", project / "z.git"], check=True, env=GIT)
    for name in moved:
        (project / "z.git" / name).rename(project / "z.git" / f"{name}.away")
    for name in ("config", "hooks/post-update", "commondir", "objects/info/alternates"):
        assert not _writable(project, f"z.git/{name}"), name
    assert _writable(project, "z.git/HEAD")


def test_what_only_has_a_name_of_a_repository_is_no_repository(project: Path) -> None:
    """An example is `src/objects` beside `src/config`."""
    for name in ("src/objects", "src/config", "lib/objects"):
        (project / name).mkdir(parents=True)
    (project / "src/HEAD.md").touch()
    (project / "lib/index").touch()
    for name in ("src/config/x", "src/hooks", "src/commondir", "lib/config"):
        assert _writable(project, name), name
