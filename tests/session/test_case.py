"""A file system that ignores case: a mount covers one spelling of a name, so the policy is refused.

Tests of policy/policy_warnings.py, where a hard link in another case is a warning, and of
launcher/source/watch_host.c and watch.c.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandwright import mountinfo, process
from sandwright.api import Policy
from sandwright.errors import UsageError
from sandwright.inputs import LiveHost, Status
from sandwright.policy import policy_warnings
from sandwright.policy.policy_warnings import collect_warnings, other_spellings
from session.conftest import Project

BASE = "schema: 1\nmethod: bwrap\nfilesystem:\n  write: [$PROJECT]\n  deny: [$PROJECT/.env]\n"


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    """NTFS through FUSE, as a user's directory: the kernel distinguishes names that lead to one file."""
    if os.geteuid() != 0 or not (shutil.which("mkntfs") and shutil.which("lowntfs-3g")):
        pytest.skip("needs root, mkntfs and lowntfs-3g")
    image, point = tmp_path / "image", tmp_path / "volume"
    point.mkdir()
    with image.open("wb") as file:
        file.truncate(64 << 20)
    process.run("mkntfs", "--force", "--quick", image)
    if not process.run("lowntfs-3g", image, point, "-o", "ignore_case,permissions,silent", check=False):
        pytest.skip("nothing can be mounted here")
    yield point
    process.run("umount", "--lazy", point, check=False)


@pytest.mark.needs("bwrap")
def test_a_denied_file_is_not_read_by_its_name_in_another_case(project: Project, volume: Path) -> None:
    root = volume / "project"
    root.mkdir()
    (root / ".env").write_text("content")
    (root / "sandbox.yaml").write_text(BASE)
    ended = project.sandwright("-C", str(root), "run", "--", "cat", ".ENV")
    assert ended.returncode == 125
    assert ended.stdout == b""
    assert f"{root}/.env is also {root}/.ENV on its file system (fuse".encode() in ended.stderr


@pytest.mark.needs("bwrap")
def test_a_protected_name_that_does_not_exist_is_not_made_in_another_case(
    project: Project, volume: Path
) -> None:
    root = volume / "project"
    root.mkdir()
    words = ("-C", str(root), "run", "--method", "bwrap", "--", "mkdir", ".VSCODE")
    ended = project.sandwright(*words)
    assert ended.returncode == 125
    assert b"which ignores case itself" in ended.stderr
    assert list(root.iterdir()) == []


def _read_later(project: Project, volume: Path, made: str) -> tuple[int, bytes, bytes]:
    """Run a sandbox in which `key` is denied, make a file on the host, and read it inside 3 s later."""
    project.policy.write_text(
        f"schema: 1\nmethod: bwrap\nfilesystem: {{read: [/, {volume}], deny: [{volume}/key]}}\n"
    )
    files = " ".join(f"{volume}/{each}" for each in ("key", "KEY", "keys"))
    with project.start(
        "sh", "-c", f"echo started; sleep 3; cat {files}", options=("--trust-policy",)
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"started\n"
        (volume / made).write_text("content")
        stdout, stderr = child.communicate(timeout=60)
    return child.returncode, stdout, stderr


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("made", ["key", "KEY", "Key"])
def test_a_denied_file_that_the_host_makes_ends_the_run(project: Project, volume: Path, made: str) -> None:
    """A mount over `key` would not hide `KEY`, nor `key` itself if the host spelled the file otherwise."""
    status, stdout, stderr = _read_later(project, volume, made)
    assert stdout == b""
    assert f"{volume}/key is denied and was created on the host".encode() in stderr
    assert status == 137


@pytest.mark.needs("bwrap")
def test_another_file_that_the_host_makes_is_read(project: Project, volume: Path) -> None:
    _, stdout, stderr = _read_later(project, volume, "keys")
    assert stdout == b"content", stderr


class _IgnoresCase(LiveHost):
    """Stands in for a 9p or CIFS volume, which can't be mounted here: .ENV is the file .env."""

    def status(self, path: str) -> Status:
        return super().status(path.replace(".ENV", ".env"))

    def ask(self, kind: str, subject: str = "", *more: str) -> tuple[str, ...]:
        return super().ask(kind, subject.replace(".ENV", ".env"), *more)


class _NumbersSpellings(_IgnoresCase):
    """FUSE without use_ino, and CIFS with noserverino: each spelling has a separate inode number."""

    def ask(self, kind: str, subject: str = "", *more: str) -> tuple[str, ...]:
        found = super().ask(kind, subject, *more)
        return tuple(f"{each},0" for each in found) if ".ENV" in subject and kind == "artifact" else found


class _ListsTheOther(LiveHost):
    """The directory lists .ENV, and the policy has .env."""

    def status(self, path: str) -> Status:
        return super().status(path.replace(".env", ".ENV"))


@pytest.mark.parametrize("host", [_NumbersSpellings, _ListsTheOther])
def test_inode_numbers_and_the_listed_spelling_do_not_matter(
    project: Project, monkeypatch: pytest.MonkeyPatch, host: type[LiveHost]
) -> None:
    (project.root / ".env").write_text("content")
    project.policy.write_text(BASE)
    resolved = Policy.load(project.policy).resolve()
    if host is _ListsTheOther:
        (project.root / ".env").rename(project.root / ".ENV")
    monkeypatch.setattr(policy_warnings, "file_system_type", lambda _: "fuse")
    with pytest.raises(UsageError, match="cannot enforce "):
        collect_warnings(resolved, host(), mounts=True)


@pytest.mark.parametrize(("kind", "refused"), [("9p", True), ("cifs", True), ("", True), ("ext4", False)])
def test_only_names_that_the_kernel_folds_are_accepted(
    project: Project, monkeypatch: pytest.MonkeyPatch, kind: str, *, refused: bool
) -> None:
    (project.root / ".env").write_text("content")
    project.policy.write_text(BASE)
    resolved = Policy.load(project.policy).resolve()
    monkeypatch.setattr(policy_warnings, "file_system_type", lambda _: kind)
    if refused:
        with pytest.raises(UsageError, match="cannot enforce "):
            collect_warnings(resolved, _IgnoresCase(), mounts=True)
    else:
        collect_warnings(resolved, _IgnoresCase(), mounts=True)
    collect_warnings(resolved, LiveHost(), mounts=True)
    collect_warnings(resolved, _IgnoresCase(), mounts=False)


@pytest.mark.parametrize(
    ("path", "others"),
    [
        ("/a/.env", ["/a/.ENV"]),
        ("/a/Key/1", ["/a/kEY/1"]),
        ("/a/cl\u00e9", ["/a/CL\u00c9", "/a/cle\u0301"]),
        ("/1/2", []),
        ("/", []),
    ],
)
def test_other_spellings(path: str, others: list[str]) -> None:
    assert [
        path.replace(f"{folder}/{name}", f"{folder}/{other}") for folder, name, other in other_spellings(path)
    ] == others


@pytest.mark.parametrize("names", [1, 2], ids=["one name", "a DOS name besides"])
def test_a_hard_link_in_another_case_is_only_reported(
    project: Project, monkeypatch: pytest.MonkeyPatch, names: int
) -> None:
    """A hard link is an entry of its directory. A second spelling on NTFS is none, and hides nothing."""
    (project.root / ".env").write_text("content")
    (project.root / (".ENV" if names == 1 else "ENV~1")).hardlink_to(project.root / ".env")
    project.policy.write_text(BASE)
    resolved = Policy.load(project.policy).resolve()
    monkeypatch.setattr(policy_warnings, "file_system_type", lambda _: "fuseblk")
    if names == 1:
        assert any(
            "has 2 names (hard links)" in each for each in collect_warnings(resolved, LiveHost(), mounts=True)
        )
    else:
        with pytest.raises(UsageError, match="cannot enforce "):
            collect_warnings(resolved, _IgnoresCase(), mounts=True)


def test_the_type_of_a_file_system() -> None:
    assert mountinfo.file_system_type(Path("/proc").stat().st_dev) == "proc"
    assert mountinfo.file_system_type(0xFFFFF) == ""
