"""Images that another user built: unpacked into the user's own cache, or refused with a remedy.

Tests of methods/shared/images.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandwright.errors import HostError
from sandwright.host import collect_host
from sandwright.inputs import LiveHost
from sandwright.methods.shared.images import rootfs, store_of
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.trusted import BUILD
from sandwright.rootfs.bundles.bundle import unpacked
from sandwright.rootfs.images.source import open_image
from support import layouts
from support.proving import resolver

NOBODY = 65534

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who builds what another user runs")


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """Images that root built, in a directory that every user may enter."""
    for above in (tmp_path, *tmp_path.parents):
        if above.stat().st_uid == 0 and above.name.startswith(("pytest", "popen", "test")):
            above.chmod(above.stat().st_mode | 0o111)
    layout = layouts.Layout(tmp_path / "build/images/small")
    layout.index(layout.image(layouts.HELLO, arch=collect_host().platform.partition("/")[2]))
    return tmp_path / "build"


@pytest.fixture
def policy(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ResolvedPolicy]:
    """A policy of a user other than root; this process runs as that user during a test."""
    home = tmp_path / "home"
    home.mkdir()
    for name, value in (("HOME", str(home)), (BUILD, str(built))):
        monkeypatch.setenv(name, value)
    for name in ("XDG_CACHE_HOME", "SANDWRIGHT_ROOTFS"):
        monkeypatch.delenv(name, raising=False)
    os.chown(home, NOBODY, NOBODY)
    image = open_image(built / "images/small")
    unpacked(image, tmp_path / "first", rootless=True)  # Python may load modules that only root can read
    groups = os.getgroups()
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, 0)
    os.setresuid(NOBODY, NOBODY, 0)
    try:
        text = "schema: 1\nmethod: oci\nimage: small\nfilesystem: {write: [$PROJECT]}\n"
        yield resolver(text, home / "project")(())
    finally:
        os.setresuid(0, 0, 0)
        os.setresgid(0, 0, 0)
        os.setgroups(groups)


def test_it_is_unpacked_into_the_users_cache(policy: ResolvedPolicy, built: Path, tmp_path: Path) -> None:
    said: list[str] = []
    root = rootfs(policy, LiveHost(), notify=said.append)
    assert said == ["the image small (0 MB) is unpacked, once"], "big ones take a minute"
    assert root.parent == tmp_path / "home/.cache/sandwright/rootfs"
    assert (root / "bin/hello").read_bytes() == b"#!/bin/sh\n"
    assert root.stat().st_uid == NOBODY
    assert not (built / "rootfs").exists()
    assert rootfs(policy, LiveHost(), notify=said.append) == root, "the second run takes what is there"
    assert len(said) == 1


def test_it_is_unpacked_beside_where_root_has_unpacked_already(policy: ResolvedPolicy, built: Path) -> None:
    """Root's store is closed to others, which is not a reason to fail."""
    os.seteuid(0)
    (built / "rootfs").mkdir(mode=0o700)
    os.seteuid(NOBODY)
    assert (rootfs(policy, LiveHost()) / "bin/hello").exists()


def test_root_takes_no_store_of_somebody_else(built: Path, tmp_path: Path) -> None:
    assert store_of(built) == built / "rootfs"
    (built / "rootfs").mkdir()
    os.chown(built / "rootfs", NOBODY, NOBODY)
    assert store_of(built).parent.name == "sandwright"


@pytest.mark.parametrize("closed", ["images", "images/small", "images/small/blobs/sha256"])
def test_what_may_not_be_read_names_the_way_out(policy: ResolvedPolicy, built: Path, closed: str) -> None:
    os.seteuid(0)
    (built / closed).chmod(0o700)
    os.seteuid(NOBODY)
    with pytest.raises(
        HostError, match=r"may not read the image in .*: build one of your own with .*SANDWRIGHT_BUILD"
    ):
        rootfs(policy, LiveHost())


def test_a_blob_that_may_not_be_read(policy: ResolvedPolicy, built: Path) -> None:
    os.seteuid(0)
    for blob in (built / "images/small/blobs/sha256").iterdir():
        blob.chmod(0o600)
    os.seteuid(NOBODY)
    with pytest.raises(HostError, match="may not read the image in"):
        rootfs(policy, LiveHost())


def test_a_build_that_came_with_a_project_is_nobodys(
    policy: ResolvedPolicy, built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No layer is unpacked until a user has named the image."""
    project = Path(policy.facts.project)
    (project / "build").symlink_to(built)
    text = "schema: 1\nmethod: oci\nimage: small\nfilesystem: {write: [$PROJECT/out]}\n"
    closed = resolver(text, project)(())
    monkeypatch.delenv(BUILD)
    with pytest.raises(HostError, match=r"may have come with the project; if you built it, say so with"):
        rootfs(closed, LiveHost())
    assert not (tmp_path / "home/.cache/sandwright/rootfs").exists()
    monkeypatch.setenv(BUILD, str(project / "build"))
    assert (rootfs(closed, LiveHost()) / "bin/hello").exists()
