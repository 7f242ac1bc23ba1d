"""`sandwright uninstall` removes sandwright's own files: through no link or mount, and none of other users.

Tests of cli/uninstall.py.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from sandwright import user_dirs
from sandwright.cli.program import main
from support import labworker

NAMES = (".cache/sandwright", ".local/state/sandwright", ".local/share/sandwright", ".config/sandwright")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    for name in NAMES:
        (home / name / "closed").mkdir(parents=True)
        (home / name / "closed/file").write_bytes(bytes(100_000))
        (home / name / "closed").chmod(0o500)
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    runtime = tmp_path / "run"
    (runtime / "sandwright").mkdir(parents=True)
    (runtime / "sandwright").chmod(0o700)
    runtime.chmod(0o700)
    scratch = str(tmp_path / "scratch")  # other tests use the real one
    monkeypatch.setattr(user_dirs, "visible_scratch_path", lambda _: scratch)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    return home


def test_it_lists_and_removes_what_is_kept(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["uninstall"]) == 3
    listed = capsys.readouterr().out
    assert all(f"{home}/{name}: " in listed for name in NAMES)
    assert all(re.search(rf"{re.escape(name)}: .*, 11\d\.\d kB$", listed, re.M) for name in NAMES)
    assert all((home / name).is_dir() for name in NAMES)
    assert main(["uninstall", "--yes"]) in (0, None)
    assert not any((home / name).exists() for name in NAMES)
    assert sorted(each.name for each in home.iterdir()) == [".cache", ".config", ".local"]
    assert re.search(r"^removed \d directories$", capsys.readouterr().out, re.M)
    assert main(["uninstall"]) in (0, None)
    assert "nothing of sandwright" in capsys.readouterr().out


@pytest.mark.usefixtures("mount_lab")
@pytest.mark.parametrize("words", [("uninstall", "--yes"), ("cleanup", "--caches")], ids=" ".join)
def test_what_is_mounted_stays(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    """A killed build may leave the host's /dev mounted."""
    (tmp_path / "host").mkdir()
    (tmp_path / "host/file").touch()
    place = home / NAMES[1] / "caches/p/dev"
    place.mkdir(parents=True)
    labworker.run("mount", "--bind", tmp_path / "host", place)
    try:
        assert main(list(words)) == 13
        assert (tmp_path / "host/file").exists()
        assert f"something is mounted on {place}; unmount it" in capsys.readouterr().err
        assert all((home / name).is_dir() for name in NAMES)
    finally:
        labworker.run("umount", place)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_other_users_directories_stay(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Any user can create the name in /var/tmp. The control: our own directory is removed."""
    for owner, stays in ((65534, True), (0, False)):
        (tmp_path / "scratch").mkdir(exist_ok=True)
        os.chown(tmp_path / "scratch", owner, owner)
        assert main(["uninstall", "--yes"]) in (0, None)
        assert (tmp_path / "scratch").exists() is stays


def test_a_link_is_not_followed(home: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    (home / ".local/share/sandwright").rename(target)
    (home / ".local/share/sandwright").symlink_to(target)
    assert main(["uninstall", "--yes"]) in (0, None)
    assert (target / "closed/file").exists()


def test_a_path_that_is_longer_than_the_kernel_takes(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A program inside can make one in a cache or a private home."""
    before = Path.cwd()
    os.chdir(home / NAMES[1])
    try:
        for _ in range(1500):
            os.mkdir("deeper")  # noqa: PTH102 - relative to a path that is too long
            os.chdir("deeper")
    finally:
        os.chdir(before)
    assert main(["uninstall"]) == 3
    assert re.search(rf"{re.escape(NAMES[1])}: .*, \d.* .B$", capsys.readouterr().out, re.M)
    assert main(["uninstall", "--yes"]) in (0, None)
    assert not (home / NAMES[1]).exists()
