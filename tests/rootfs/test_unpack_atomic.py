"""A root appears whole or not at all: wrong bytes, killed processes, two at once.

Tests of rootfs/digest.py: size and digest of a layer.
Tests of rootfs/unpacking/unpack.py: diff_id.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import gzip
import hashlib
import io
import os
import random
import signal
import socket
import stat
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import BinaryIO

import pytest

from sandwright import locking, process
from sandwright.errors import ArchiveRefused, HostError, IntegrityError, SandwrightError
from sandwright.rootfs.unpacking import staging, store
from sandwright.rootfs.unpacking.unpack import ImageLayer, unpack
from support.tars import archive, described, file, folder, layer, symlink, tree

GZIP = "application/vnd.oci.image.layer.v1.tar+gzip"
RAW = archive(
    folder(b"d"), *(file(b"d/f%02d" % number, random.Random(number).randbytes(300)) for number in range(30))
)
GOOD = layer(RAW)
OTHER = "sha256:" + "0" * 64


@pytest.fixture(scope="module", autouse=True)
def _only_own_garbage() -> None:
    """Exclude the objects of earlier modules from garbage collections, which they would slow down."""
    gc.collect()
    gc.freeze()


def descriptors() -> int:
    """The number of open files, except those that an earlier test left to the garbage collector."""
    gc.collect()
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def replaced(**fields: object) -> ImageLayer:
    return dataclasses.replace(GOOD, **fields)  # type: ignore[arg-type]


def blob() -> bytes:
    return GOOD.open().read()


def holding(raw: bytes) -> ImageLayer:
    """The good layer's descriptor with other bytes."""
    return replaced(open=lambda: io.BytesIO(raw))


WRONG: dict[str, tuple[ImageLayer, type[SandwrightError], str]] = {
    "another digest": (
        replaced(digest=OTHER),
        IntegrityError,
        f"layer {OTHER}: its digest is {GOOD.digest} where {OTHER} was promised",
    ),
    "another diff_id": (
        replaced(diff_id=OTHER),
        IntegrityError,
        f"layer {GOOD.digest}, decompressed: its digest is {GOOD.diff_id} where {OTHER} was promised",
    ),
    "shorter than promised": (
        replaced(size=GOOD.size + 1),
        IntegrityError,
        f"layer {GOOD.digest}: has {GOOD.size} bytes where {GOOD.size + 1} were promised",
    ),
    "longer than promised": (
        replaced(size=GOOD.size - 1),
        IntegrityError,
        f"layer {GOOD.digest}: is longer than the {GOOD.size - 1} bytes promised",
    ),
    "a size below zero": (
        replaced(size=-1),
        IntegrityError,
        f"layer {GOOD.digest}: its size is given as -1",
    ),
    "something after it": (
        replaced(open=lambda: io.BytesIO(blob() + b"more"), size=GOOD.size + 4),
        IntegrityError,
        f"layer {GOOD.digest}: its gzip data is damaged: something else follows its end",
    ),
    "no bytes": (
        holding(b""),
        IntegrityError,
        f"layer {GOOD.digest}: has 0 bytes where {GOOD.size} were promised",
    ),
    "a digest that is a path": (
        replaced(digest="sha256:../../etc/passwd"),
        ArchiveRefused,
        "layer: 'sha256:../../etc/passwd' is not a digest",
    ),
    "a diff_id that is none": (
        replaced(diff_id="md5:" + "0" * 32),
        ArchiveRefused,
        f"layer {GOOD.digest}: diff_id: 'md5:",
    ),
    "a media type that is no layer": (
        replaced(media_type="application/vnd.oci.image.layer.v1.tar+gzip+encrypted"),
        ArchiveRefused,
        f"layer {GOOD.digest}: is 'application/vnd.oci.image.layer.v1.tar+gzip+encrypted', "
        "which is no layer that we know",
    ),
}


@pytest.mark.parametrize("lower", [0, 1], ids=["alone", "above another"])
@pytest.mark.parametrize(("wrong", "kind", "message"), WRONG.values(), ids=WRONG.keys())
def test_what_is_not_as_promised(
    wrong: ImageLayer, kind: type[SandwrightError], message: str, lower: int, tmp_path: Path
) -> None:
    before, threads = descriptors(), threading.active_count()
    with pytest.raises(kind) as error:
        unpack([*[GOOD] * lower, wrong], tmp_path / "rootfs")
    assert str(error.value).startswith(message)
    assert list(tmp_path.iterdir()) == []
    assert (descriptors(), threading.active_count()) == (before, threads)


def test_nothing_is_left_open_after_success(tmp_path: Path) -> None:
    before, threads = descriptors(), threading.active_count()
    unpack([GOOD, GOOD], tmp_path / "rootfs")
    assert (descriptors(), threading.active_count()) == (before, threads)


@pytest.mark.parametrize("codec", ["gzip", "zstd", "plain"])
def test_every_cut_and_flip_is_found(codec: str, tmp_path: Path) -> None:
    good = layer(RAW, codec)
    raw = good.open().read()
    source = random.Random(codec)
    spots = [*range(20), *range(len(raw) - 20, len(raw)), *(source.randrange(len(raw)) for _ in range(60))]
    for at in spots:
        flipped = bytearray(raw)
        flipped[at] ^= 1 << source.randrange(8)
        for damaged in (raw[:at], bytes(flipped)):
            bad = dataclasses.replace(good, open=partial(io.BytesIO, damaged))
            with pytest.raises((IntegrityError, ArchiveRefused)):
                unpack([bad], tmp_path / "rootfs")
            assert list(tmp_path.iterdir()) == []
    unpack([good], tmp_path / "rootfs")


def test_damage_that_the_codec_can_not_see(tmp_path: Path) -> None:
    """Valid gzip, valid tar, other content of the right size: only the digest reveals it."""
    evil = archive(file(b"d/f", b"evil"))
    raw = gzip.compress(evil, mtime=0)
    lying = ImageLayer(GOOD.digest, len(raw), GZIP, GOOD.diff_id, lambda: io.BytesIO(raw))
    with pytest.raises(IntegrityError, match="where sha256:"):
        unpack([lying], tmp_path / "rootfs")
    assert list(tmp_path.iterdir()) == []


def test_a_blob_that_changes_between_two_readings(tmp_path: Path) -> None:
    """An upper layer is read first for its whiteouts: changed bytes then can't remove another file."""
    upper = layer(archive(file(b"new", b"x" * 5000)))
    evil = gzip.compress(archive(file(b".wh.d")), mtime=0)
    evil += bytes(upper.size - len(evil))
    blobs = iter([evil, evil, upper.open().read()])
    changing = dataclasses.replace(upper, open=lambda: io.BytesIO(next(blobs)))
    with pytest.raises(IntegrityError):
        unpack([GOOD, changing], tmp_path / "rootfs")
    assert list(tmp_path.iterdir()) == []


class Failing(io.BytesIO):
    """A blob whose disk fails in the middle."""

    def read(self, size: int | None = -1, /) -> bytes:
        if self.tell() > 1000:
            raise OSError(5, "Input/output error")
        return super().read(min(size or 500, 500))


def test_a_blob_that_can_not_be_read(tmp_path: Path) -> None:
    before, threads = descriptors(), threading.active_count()
    with pytest.raises(HostError, match="Input/output error"):
        unpack([replaced(open=lambda: Failing(blob()))], tmp_path / "rootfs")
    assert list(tmp_path.iterdir()) == []
    assert (descriptors(), threading.active_count()) == (before, threads)


def test_a_blob_that_is_not_there(tmp_path: Path) -> None:
    def missing() -> BinaryIO:
        return (tmp_path / "none").open("rb")

    with pytest.raises(HostError, match="No such file"):
        unpack([replaced(open=missing)], tmp_path / "rootfs")
    assert list(tmp_path.iterdir()) == []


OCCUPANTS: dict[str, Callable[[Path], object]] = {
    "a directory": lambda path: path.mkdir(),
    "a file": lambda path: path.write_text("mine"),
    "a dangling link": lambda path: path.symlink_to("/nowhere"),
}


@pytest.mark.parametrize("occupy", OCCUPANTS.values(), ids=OCCUPANTS.keys())
def test_what_is_there_already_stays(occupy: Callable[[Path], object], tmp_path: Path) -> None:
    occupy(tmp_path / "rootfs")
    before = tree(tmp_path)
    with pytest.raises(HostError) as error:
        unpack([GOOD], tmp_path / "rootfs")
    assert str(error.value) == f"{tmp_path}/rootfs is there already"
    assert tree(tmp_path) == before


def test_what_comes_to_be_there_meanwhile_stays(tmp_path: Path) -> None:
    def late() -> BinaryIO:
        (tmp_path / "rootfs").mkdir(exist_ok=True)
        (tmp_path / "rootfs" / "mine").touch()
        return io.BytesIO(blob())

    with pytest.raises(HostError, match="is there already"):
        unpack([replaced(open=late)], tmp_path / "rootfs")
    assert [path.name for path in tmp_path.rglob("*")] == ["rootfs", "mine"]


@pytest.mark.parametrize("mask", [0, 0o022], ids=oct)
def test_directories_above_are_made_for_the_owner_alone(mask: int, tmp_path: Path) -> None:
    """CVE-2021-41103: a user who can reach a root file system can run its setuid programs."""
    before = os.umask(mask)
    try:
        unpack([GOOD], tmp_path / "a" / "b" / "rootfs")
    finally:
        os.umask(before)
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a", "a/b", "a/b/rootfs")] == [
        0o700,
        0o700,
        0o755,
    ]


def test_until_it_is_complete_it_is_hidden_and_for_the_owner_alone(tmp_path: Path) -> None:
    """CVE-2025-47290: no other user can put a link into a tree that is being unpacked."""
    seen = []

    def looking() -> BinaryIO:
        [only] = tmp_path.iterdir()
        seen.append((only.name.startswith(staging.PREFIX), stat.S_IMODE(only.stat().st_mode)))
        return io.BytesIO(blob())

    unpack([layer(archive(folder(b".", 0o777))), replaced(open=looking)], tmp_path / "rootfs")
    assert set(seen) == {(True, 0o700)}


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path: Path) -> None:
    left = tmp_path / f"{staging.PREFIX}0123456789abcdef"
    (left / "d").mkdir(parents=True)
    (left / "d" / "f").touch()
    (left / "out").symlink_to(tmp_path)
    (tmp_path / "mine").touch()
    unpack([GOOD], tmp_path / "rootfs")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "rootfs"]


def test_what_another_process_is_working_on_stays(tmp_path: Path) -> None:
    live = tmp_path / f"{staging.PREFIX}0123456789abcdef"
    live.mkdir()
    with locking.exclusive(live, within=0) as held:
        unpack([GOOD], tmp_path / "rootfs")
        assert held
        assert live.is_dir()


def test_what_only_looks_like_ours_stays(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "f").touch()
    (tmp_path / f"{staging.PREFIX}link").symlink_to("elsewhere")
    (tmp_path / f"{staging.PREFIX}file").touch()
    unpack([GOOD], tmp_path / "rootfs")
    assert (tmp_path / "elsewhere" / "f").exists()
    assert (tmp_path / f"{staging.PREFIX}link").is_symlink()


def test_a_directory_above_that_somebody_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "_PATIENCE", 0.1)
    with (
        locking.exclusive(tmp_path, within=0),
        pytest.raises(HostError, match="is locked by another process"),
    ):
        unpack([GOOD], tmp_path / "rootfs")


def test_another_stage_that_ends_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name is listed, and is gone when it is examined."""
    listed = os.listdir
    gone = f"{staging.PREFIX}0123456789abcdef"
    monkeypatch.setattr(os, "listdir", lambda place: [gone, *listed(place)])
    with staging.staged(tmp_path / "rootfs") as stage:
        assert stage.fd >= 0


def test_another_stage_that_ends_before_it_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / f"{staging.PREFIX}0123456789abcdef"
    other.mkdir()
    is_ours = staging._is_ours

    def ends(name: str, parent: int) -> bool:
        found = is_ours(name, parent)
        other.rmdir()
        return found

    monkeypatch.setattr(staging, "_is_ours", ends)
    with staging.staged(tmp_path / "rootfs") as stage:
        assert stage.fd >= 0


def test_many_at_once_on_one_destination(tmp_path: Path) -> None:
    """One process wins, the others get an error, and the destination is complete."""
    results: list[str] = []

    def attempt() -> None:
        try:
            unpack([GOOD, GOOD], tmp_path / "rootfs")
            results.append("won")
        except HostError as error:
            results.append(str(error))

    threads = [threading.Thread(target=attempt) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert sorted(results) == sorted(["won"] + [f"{tmp_path}/rootfs is there already"] * 5)
    assert [path.name for path in tmp_path.iterdir()] == ["rootfs"]
    assert len(list((tmp_path / "rootfs" / "d").iterdir())) == 30


KILLED = """\
import sys
from pathlib import Path
sys.path[:0] = {paths!r}
from sandwright.rootfs.unpacking.unpack import ImageLayer, unpack
layers = [ImageLayer(*fields, lambda path=path: open(path, "rb")) for *fields, path in {layers!r}]
print("ready", flush=True)
unpack(layers, Path({destination!r}))
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    """A program that unpacks two layers of 1,500 files into `store/rootfs`, and reports its start."""
    rows = []
    for number in range(2):
        raw = archive(*(file(b"d%d/%d/f%d" % (number, n % 40, n), b"x" * 700) for n in range(1500)))
        one = layer(raw)
        path = tmp_path / f"blob{number}"
        path.write_bytes(one.open().read())
        rows.append((one.digest, one.size, one.media_type, one.diff_id, str(path)))
    (tmp_path / "store").mkdir()
    return KILLED.format(paths=sys.path, layers=rows, destination=str(tmp_path / "store" / "rootfs"))


def complete(root: Path) -> bool:
    return sum(1 for path in root.rglob("f*")) == 3000


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["kill", "Ctrl-C"])
def test_killed_at_any_moment(number: signal.Signals, script: str, tmp_path: Path) -> None:
    """The result is complete or missing; the next run succeeds and cleans up."""
    store = tmp_path / "store"
    source = random.Random(number)
    outcomes = []
    for _ in range(6):
        with process.start(sys.executable, "-c", script) as running:
            assert running.stdout is not None
            assert running.stdout.readline() == b"ready\n"
            time.sleep(source.uniform(0, 0.35))
            running.send_signal(number)
            running.wait(timeout=30)
        there = (store / "rootfs").exists()
        outcomes.append(there)
        if there:
            assert complete(store / "rootfs")
            process.run("rm", "-r", store / "rootfs")
        elif number == signal.SIGINT:
            assert list(store.iterdir()) == []
    assert False in outcomes, "no run was stopped in the middle"
    process.run(sys.executable, "-c", script, timeout=60)
    assert complete(store / "rootfs")
    assert [path.name for path in store.iterdir()] == ["rootfs"]


def test_cleaning_up_follows_no_link(tmp_path: Path) -> None:
    """CVE-2024-23652: the clean-up after a failure deleted host files through a link."""
    outside = tmp_path / "outside"
    (outside / "d").mkdir(parents=True)
    (outside / "d" / "f").write_text("kept")
    before = tree(outside)
    target = os.fsencode(outside)
    members = [folder(b"d"), *(file(b"d/%d" % number) for number in range(10))]
    bad = layer(archive(*members, symlink(b"d/out", target), symlink(b"out", target), file(b"../x")))
    with pytest.raises(ArchiveRefused):
        unpack([bad], tmp_path / "store" / "rootfs")
    assert list((tmp_path / "store").iterdir()) == []
    assert tree(outside) == before


def test_the_tree_below_a_link_in_the_destinations_own_path_is_the_callers(tmp_path: Path) -> None:
    """The caller chose the links in the path that it gives."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    unpack([GOOD], tmp_path / "link" / "rootfs")
    assert (tmp_path / "real" / "rootfs" / "d").is_dir()


def test_sha512_is_a_digest_too(tmp_path: Path) -> None:
    raw = archive(file(b"a"))
    one = described(raw, raw, "application/vnd.oci.image.layer.v1.tar")
    better = dataclasses.replace(one, digest=f"sha512:{hashlib.sha512(raw).hexdigest()}")
    unpack([better], tmp_path / "rootfs")
    assert (tmp_path / "rootfs" / "a").exists()
    with pytest.raises(IntegrityError):
        unpack([dataclasses.replace(one, digest=f"sha512:{'0' * 128}")], tmp_path / "other")


ENTRY = """\
import sys
from pathlib import Path
from sandwright.rootfs.unpacking import store

def make(place: Path) -> dict[str, str]:
    place.mkdir()
    (place / "file").write_text("content")
    return {}

store.stored_rootfs(Path(sys.argv[1]), "sha256-x", make)
"""


@pytest.mark.needs("strace")
def test_what_gets_its_name_is_on_disk(tmp_path: Path) -> None:
    """After a power loss, no name exists without its files: syncfs(2) comes before rename(2)."""
    words = (
        "strace",
        "-f",
        "-qq",
        "-e",
        "trace=syncfs,rename,renameat,renameat2",
        sys.executable,
        "-c",
        ENTRY,
    )
    done = process.run(*words, tmp_path / "store", timeout=120)
    calls = [
        line.split("(")[0].split()[-1]
        for line in done.stderr.splitlines()
        if "syncfs(" in line or 'rootfs"' in line
    ]
    assert calls[0] == "syncfs"
    assert calls[1].startswith("rename")
    assert len(calls) == 2
    assert (tmp_path / "store/sha256-x/file").read_text() == "content"


@pytest.mark.parametrize("kind", ["pipe", "socket", "link", "nothing"])
def test_a_file_takes_the_place_of_what_somebody_put_there(tmp_path: Path, kind: str) -> None:
    """A report may lie in a project, in which a sandbox has made an endless file."""
    target, mine = tmp_path / "report.json", tmp_path / "mine"
    mine.write_bytes(b"mine")
    with socket.socket(socket.AF_UNIX) as listener:
        if kind == "pipe":
            os.mkfifo(target)
        elif kind == "socket":
            listener.bind(str(target))
        elif kind == "link":
            target.symlink_to(mine)
        assert store.write_atomically(target, b"said")
    assert (target.read_bytes(), target.is_symlink(), mine.read_bytes()) == (b"said", False, b"mine")
    assert not store.write_atomically(target, b"said")


@pytest.mark.timeout(30)
def test_a_lock_of_the_store_is_not_waited_for_without_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: the store waits for a process that ends."""
    place, made = tmp_path / "store", []

    def make(directory: Path) -> dict[str, str]:
        directory.mkdir()
        made.append(directory)
        return {}

    place.mkdir(mode=0o700)
    monkeypatch.setattr(store, "WAITING", 0.3, raising=False)
    with contextlib.ExitStack() as holder:
        holder.enter_context(locking.exclusive(place / "sha256-x", within=0))
        before = descriptors()
        with pytest.raises(HostError, match="sha256-x is locked by another process, and stays so"):
            store.stored_rootfs(place, "sha256-x", make)
        assert (made, descriptors()) == ([], before)
        monkeypatch.setattr(store, "WAITING", 20.0, raising=False)
        threading.Timer(0.5, holder.close).start()
        assert store.stored_rootfs(place, "sha256-x", make).fresh
    assert sorted(os.listdir(place)) == ["sha256-x", "sha256-x.json"]  # noqa: PTH208


def test_a_directory_that_somebody_locks_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "PATIENCE", 0.2)
    left = tmp_path / ".report.json.part"
    left.write_bytes(b"another's, which it writes")
    with locking.exclusive(tmp_path, within=0):
        with pytest.raises(HostError, match="is locked by another process"):
            store.write_atomically(tmp_path / "report.json", b"said")
        assert [path.name for path in tmp_path.iterdir()] == [left.name]
    assert store.write_atomically(tmp_path / "report.json", b"said")
