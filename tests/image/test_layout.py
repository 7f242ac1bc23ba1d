"""Image layouts on disk: complete or absent at every moment, and no other file is touched.

Tests of image/layout.py.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandwright import locking
from sandwright.errors import BuildError, HostError
from sandwright.image import layout
from sandwright.image.layout import Blob, StagingArea, staging
from sandwright.mountinfo import mounted_below
from sandwright.rootfs.descriptor import canonical
from support import labworker
from support.waiting import eventually


@pytest.fixture
def images(tmp_path: Path) -> Path:
    return tmp_path / "images"


def index_of(*blobs: Blob) -> dict[str, object]:
    return {"schemaVersion": 2, "manifests": [blob.descriptor("text/plain") for blob in blobs]}


def publish(images: Path, *contents: bytes, name: str = "one") -> Path:
    with staging(images) as area:
        blobs = [area.add(content) for content in contents]
        area.publish(index_of(*blobs), blobs, images / name)
    return images / name


def blobs_of(path: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in (path / "blobs/sha256").iterdir()}


def named(*contents: bytes) -> dict[str, bytes]:
    return {hashlib.sha256(content).hexdigest(): content for content in contents}


def test_a_blob_is_hashed_while_it_is_written(images: Path) -> None:
    with staging(images) as area, area.writing() as writer:
        for piece in (b"one ", b"", b"two"):
            writer.write(piece)
    digest = "sha256:" + hashlib.sha256(b"one two").hexdigest()
    assert writer.blob == Blob(digest, 7)
    assert writer.blob.descriptor("text/plain", platform={}) == {
        "mediaType": "text/plain",
        "digest": digest,
        "size": 7,
        "platform": {},
    }


def test_a_new_layout(images: Path) -> None:
    path = publish(images, b"a", b"b")
    assert sorted(each.name for each in path.iterdir()) == ["blobs", "index.json", "oci-layout"]
    assert json.loads((path / "oci-layout").read_bytes()) == {"imageLayoutVersion": "1.0.0"}
    assert blobs_of(path) == named(b"a", b"b")
    assert [each.name for each in images.iterdir()] == ["one"]


def test_an_update_adds_what_is_new_and_removes_what_is_not_named(images: Path) -> None:
    path = publish(images, b"a", b"b")
    publish(images, b"b", b"c")
    assert blobs_of(path) == named(b"b", b"c")
    digests = {each["digest"] for each in json.loads((path / "index.json").read_bytes())["manifests"]}
    assert digests == {f"sha256:{name}" for name in named(b"b", b"c")}
    assert sorted(each.name for each in path.iterdir()) == ["blobs", "index.json", "oci-layout"]


def test_a_damaged_blob_of_that_name_is_replaced(images: Path) -> None:
    path = publish(images, b"a")
    file = path / "blobs/sha256" / next(iter(named(b"a")))
    file.write_bytes(b"")
    publish(images, b"a")
    assert file.read_bytes() == b"a"


def test_an_empty_directory_is_taken(images: Path) -> None:
    (images / "one").mkdir(parents=True)
    assert blobs_of(publish(images, b"a")) == named(b"a")


def in_the_way_file(path: Path) -> None:
    path.write_text("mine")


def in_the_way_directory(path: Path) -> None:
    path.mkdir()
    (path / "thesis.txt").write_text("mine")


def in_the_way_link(path: Path) -> None:
    elsewhere = path.parent.parent / "elsewhere"
    publish(elsewhere.parent, b"x", name="elsewhere")
    path.symlink_to(elsewhere)


def in_the_way_inner_link(path: Path) -> None:
    publish(path.parent, b"x", name=path.name)
    outside = path.parent.parent / "outside"
    (path / "blobs/sha256").rename(outside)
    (path / "blobs/sha256").symlink_to(outside)


@pytest.mark.parametrize(
    "put",
    [in_the_way_file, in_the_way_directory, in_the_way_link, in_the_way_inner_link],
    ids=lambda put: put.__name__,
)
def test_nothing_of_somebody_else_is_touched(
    tmp_path: Path, images: Path, put: Callable[[Path], None]
) -> None:
    images.mkdir()
    put(images / "one")
    before = {str(path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(BuildError, match="is in the way"):
        publish(images, b"a")
    assert {str(path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_two_layouts_share_a_blob(images: Path) -> None:
    first = publish(images, b"shared", name="first")
    (name,) = named(b"shared")
    with staging(images) as area:
        blob = Blob(f"sha256:{name}", 6)
        area.adopt(blob, first / "blobs/sha256" / name)
        area.adopt(blob, first / "blobs/sha256" / name)
        area.publish(index_of(blob), [blob], images / "second")
    assert (first / "blobs/sha256" / name).samefile(images / "second/blobs/sha256" / name)


def test_a_blob_that_can_not_be_linked_is_copied_and_checked(
    images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = images.parent / "good", images.parent / "bad"
    good.write_bytes(b"shared")
    bad.write_bytes(b"damaged")
    (name,) = named(b"shared")
    blob = Blob(f"sha256:{name}", 6)

    def refuse(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    with staging(images) as area:
        monkeypatch.setattr(os, "link", refuse)
        with pytest.raises(BuildError, match="bad: its content does not match its digest"):
            area.adopt(blob, bad)
        area.adopt(blob, good)
        assert (area.path / name).read_bytes() == b"shared"


def write_until_it_fails(images: Path, fail: Callable[[], object]) -> None:
    with staging(images) as area, area.writing() as writer:
        for _ in range(100):
            writer.write(os.urandom(1 << 17))
        fail()


def test_an_error_leaves_nothing(images: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        write_until_it_fails(images, lambda: 1 // 0)
    assert list(images.iterdir()) == []


def test_what_a_killed_build_left_is_removed(images: Path) -> None:
    stale = images / ".building-0123"
    (stale / "deep").mkdir(parents=True)
    (stale / "deep" / "part").write_bytes(b"x")
    keep = images / "mine"
    keep.mkdir()
    publish(images, b"a")
    assert sorted(each.name for each in images.iterdir()) == ["mine", "one"]


@pytest.fixture(params=["another file system", "a directory of this one"])
def mounted(mount_lab: None, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """A directory of a killed build, and a foreign file that a mount has placed below it."""
    stale = tmp_path / "images" / ".building-0123" / "a b"
    outside = tmp_path / "outside"
    for each in (stale, outside):
        each.mkdir(parents=True)
    kind = (
        ["-t", "tmpfs", "sandwright-small"] if request.param == "another file system" else ["--bind", outside]
    )
    labworker.run("mount", *kind, stale)
    try:
        (stale / "precious").write_text("mine")
        yield stale.parent, stale / "precious"
    finally:
        labworker.run("umount", stale)


def test_nothing_is_removed_through_a_mount(images: Path, mounted: tuple[Path, Path]) -> None:
    """CVE-2024-23652: a clean-up deleted files of the machine. Here, mmdebstrap mounts the machine's /dev."""
    stale, precious = mounted
    (stale / "other").write_text("x")
    with pytest.raises(
        HostError, match=rf"cannot remove {stale}: something is mounted on {stale}/a b; unmount it"
    ):
        publish(images, b"a")
    assert precious.read_text() == "mine"
    assert (stale / "other").exists()


def test_a_mount_beside_it_is_in_nobodys_way(images: Path, small_disk: Path) -> None:
    (images / ".building-0123").mkdir(parents=True)
    assert mounted_below(small_disk) == [small_disk]
    assert mounted_below(images) == []
    publish(images, b"a")
    assert [path.name for path in images.iterdir()] == ["one"]


def test_the_second_build_waits_for_the_first(images: Path) -> None:
    order: list[str] = []
    started = threading.Event()

    class Watch:
        def note(self, text: str) -> None:
            order.append(text)

    def second() -> None:
        started.set()
        with staging(images, progress=Watch()):  # type: ignore[arg-type]
            order.append("second")

    thread = threading.Thread(target=second)
    with staging(images) as area:
        thread.start()
        assert started.wait(30)
        eventually(lambda: order, within=30)
        assert area.path.is_dir()
        order.append("first is done")
    thread.join(30)
    assert order == [f"waiting for another build that writes to {images}", "first is done", "second"]


def test_waiting_ends(images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "_LOCK_WAIT", 0.2)
    images.mkdir()
    with (
        locking.exclusive(images, within=0),
        pytest.raises(HostError, match=r"another build has held .*images for 0\.2 s"),
        staging(images),
    ):
        pass


def test_a_layout_is_whole_at_every_step(images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Examine the layout after every file system change of its publication."""
    seen: list[bool] = []

    def watched(name: str, real: Callable[..., object]) -> Callable[..., object]:
        def step(*args: object, **kwargs: object) -> object:
            result = real(*args, **kwargs)
            if (images / "one").exists():
                index = json.loads((images / "one/index.json").read_bytes())
                there = blobs_of(images / "one")
                seen.append(
                    all(each["digest"].removeprefix("sha256:") in there for each in index["manifests"])
                )
            return result

        return step

    for owner, name in (
        (os, "rename"),
        (os, "replace"),
        (os, "link"),
        (os, "unlink"),
        (os, "mkdir"),
        (os, "open"),
    ):
        monkeypatch.setattr(owner, name, watched(name, getattr(owner, name)))
    publish(images, b"a", b"b")
    publish(images, b"c", b"d")
    assert len(seen) > 10
    assert all(seen)


@pytest.fixture
def small_disk(mount_lab: None, tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    place = tmp_path / "small"
    place.mkdir()
    labworker.run("mount", "-t", "tmpfs", "-o", "size=1m", "sandwright-small", place)
    try:
        yield place
    finally:
        labworker.run("umount", place)


def test_a_full_disk(small_disk: Path) -> None:
    path = publish(small_disk / "images", b"a")
    with pytest.raises(HostError) as caught:
        write_until_it_fails(small_disk / "images", list)
    assert f"cannot write {small_disk}/images/.building-" in str(caught.value)
    assert "No space left on device; 0 bytes are free there" in str(caught.value)
    assert blobs_of(path) == named(b"a")
    publish(small_disk / "images", b"b")
    assert blobs_of(path) == named(b"b")


def test_a_read_only_place(images: Path) -> None:
    with (
        pytest.raises(HostError, match=r"cannot write /proc/sys/images: "),
        staging(Path("/proc/sys/images")),
    ):
        pass


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_modes_follow_the_umask(images: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        path = publish(images, b"a")
    finally:
        os.umask(before)
    modes = {each.stat().st_mode & 0o777 for each in path.rglob("*") if each.is_file()}
    assert modes == {0o644 & ~umask}


def test_json_is_canonical() -> None:
    assert (
        canonical({"b": [1, {"z": None, "a": "ü"}], "a": True})
        == '{"a":true,"b":[1,{"a":"ü","z":null}]}'.encode()
    )
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical({"a": float("nan")})


def test_staging_lies_on_the_same_file_system(images: Path) -> None:
    with staging(images) as area:
        assert isinstance(area, StagingArea)
        assert area.path.parent == images
        assert area.path.stat().st_mode & 0o777 == 0o700
