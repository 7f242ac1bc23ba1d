"""Reproducible: one lock gives the same bytes on every machine, at any time, even after a killed build.

Tests of image/assemble.py.
Tests of image/documents.py.
Tests of image/overlay.py.
Tests of rootfs/tar/writer.py.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from sandwright import process
from sandwright.errors import FetchError, HostError, LockError
from sandwright.image.build import build_images
from sandwright.image.cache import Cache, default_cache
from sandwright.image.definition import load_catalogue
from sandwright.image.existing import read_layout
from sandwright.image.fetcher import Fetcher
from sandwright.image.mirrors import find_mirrors
from support import labworker
from support.smallworld import World, small_world

TESTS = Path(__file__).resolve().parent.parent
CHILD = """\
import os, signal, sys
from pathlib import Path
from support.smallworld import World

world = World(Path(sys.argv[1]))
world.output = Path(sys.argv[2])
options = dict(word.split("=") for word in sys.argv[3:])
world.catalogue
from sandwright.image import download
from sandwright.image.plan import builder_checksum
builder_checksum()
os.umask(int(options.get("umask", "022"), 8))
if "uid" in options:
    os.setgroups([])
    os.setresgid(*[int(options["uid"])] * 3)
    os.setresuid(*[int(options["uid"])] * 3)
jobs = int(options["jobs"]) if "jobs" in options else None
last = int(options.get("kill", 1 << 30))
steps = 0
def step(event, words):
    # counts what is done to names below the output, and is killed before it has been done so often
    global steps
    named = [os.fspath(word) for word in words if isinstance(word, (str, os.PathLike))]
    if (event == "open" or event.startswith("os.")) and any(sys.argv[2] in name for name in named):
        steps += 1
        if steps >= last:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(step)
print("begins", flush=True)
built = world.build(jobs=jobs)
print(*(f"{name}={each.digest}" for name, each in built.items()))
if "count" in options:
    print(steps)
if "memory" in options:
    # not ru_maxrss: that of the process we were started from counts there, too
    print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM:")))
"""


def environment(**more: str) -> dict[str, str]:
    path = os.pathsep.join([str(TESTS.parent / "builder"), str(TESTS)])
    return {"PATH": os.environ["PATH"], "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **more}


def command(world: World, output: Path, *options: str) -> list[str]:
    return [sys.executable, "-c", CHILD, str(world.root), str(output), *options]


def build_in_child(
    world: World, output: Path, *options: str, cwd: Path | None = None, **variables: str
) -> list[str]:
    done = process.run(*command(world, output, *options), env=environment(**variables), cwd=cwd, timeout=120)
    return done.text.splitlines()[1:]


def everything(path: Path) -> dict[str, str]:
    """Digests by path: a difference of the files themselves would be too long to report."""
    return {
        str(each.relative_to(path)): hashlib.sha256(each.read_bytes()).hexdigest()
        for each in path.rglob("*")
        if each.is_file()
    }


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return small_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def expected(world: World) -> dict[str, str]:
    world.build()
    return everything(world.output)


PERTURBED: Mapping[str, tuple[Sequence[str], Mapping[str, str]]] = {
    "as it is": ([], {}),
    "time zone": ([], {"TZ": "Pacific/Chatham"}),
    "locale": ([], {"LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8"}),
    "hash seed": ([], {"PYTHONHASHSEED": "4711"}),
    "open umask": (["umask=000"], {}),
    "closed umask": (["umask=077"], {}),
    "one at a time": (["jobs=1"], {}),
    "eight at a time": (["jobs=8"], {}),
    "home and user": ([], {"HOME": "/nonexistent", "USER": "somebody", "LOGNAME": "somebody"}),
}


@pytest.mark.parametrize(("options", "variables"), PERTURBED.values(), ids=list(PERTURBED))
def test_the_same_bytes(
    world: World, expected: dict[str, str], tmp_path: Path, options: list[str], variables: dict[str, str]
) -> None:
    build_in_child(world, tmp_path / "out", *options, cwd=tmp_path, **variables)
    assert everything(tmp_path / "out") == expected


def test_the_same_bytes_from_another_directory(expected: dict[str, str], tmp_path: Path) -> None:
    other = small_world(tmp_path / "a much longer name than before" / "ü")
    build_in_child(other, other.output)
    assert everything(other.output) == expected


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")
def test_the_same_bytes_by_another_user(expected: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory(prefix="sandwright-test-") as place:
        Path(place).chmod(0o755)
        theirs = small_world(Path(place) / "world")
        for each in [theirs.root, *theirs.root.rglob("*")]:
            os.chown(each, 65534, 65534)
        build_in_child(theirs, theirs.output, "uid=65534")
        assert everything(theirs.output) == expected
        assert {path.stat().st_uid for path in theirs.output.rglob("*")} == {65534}


def test_another_time_gives_other_bytes(world: World, expected: dict[str, str], tmp_path: Path) -> None:
    """The control: a decisive input changes the bytes."""
    world.build(output=tmp_path / "out", epoch=1_500_000_000)
    assert everything(tmp_path / "out") != expected


def incompressible(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def whole_or_absent(output: Path) -> list[str]:
    """The images there; each has to be complete."""
    images = output / "images"
    found = sorted(path.name for path in images.iterdir()) if images.exists() else []
    visible = [name for name in found if not name.startswith(".building-")]
    for name in visible:
        read_layout(images / name, verify=True)
    return visible


def steps_of(world: World, output: Path) -> int:
    """The number of names below the output that a whole build opens, links, renames, creates or removes."""
    return int(build_in_child(world, output, "count=1")[-1])


def kill_before(world: World, output: Path, step: int) -> None:
    """Kill a build right before its `step`th such operation, if it gets that far."""
    done = process.run(*command(world, output, f"kill={step}"), env=environment(), timeout=120, check=False)
    assert done.status in (0, -signal.SIGKILL), done.stderr


def test_killed_at_any_moment(tmp_path: Path) -> None:
    world = small_world(tmp_path / "world", payload=incompressible(1 << 20))
    steps = steps_of(world, tmp_path / "whole")
    output = tmp_path / "out"
    seen = []
    for step in (1, steps // 3, steps * 2 // 3, steps // 6):
        kill_before(world, output, step)
        seen.append(whole_or_absent(output))
    assert seen == [[], [], ["base"], ["base"]]
    build_in_child(world, output)
    assert whole_or_absent(output) == ["app", "base"]
    assert everything(output) == everything(tmp_path / "whole")


def test_nothing_to_do_clears_up_after_a_killed_build(world: World) -> None:
    built = world.build()
    before = everything(world.output)
    left = world.output / "images" / ".building-0123456789abcdef0123456789abcdef"
    left.mkdir()
    (left / "layer.part").write_bytes(b"half a layer")
    again = world.build()
    assert {name: each.digest for name, each in again.items()} == {
        name: each.digest for name, each in built.items()
    }
    assert not left.exists()
    assert everything(world.output) == before


def test_killed_while_it_builds_again(tmp_path: Path) -> None:
    """The result is the old image or the new one, never a mixture."""
    world = small_world(tmp_path / "world", payload=incompressible(1 << 20))
    (old,) = build_in_child(world, world.output)
    world.lock(world.catalogue["base"], world.packages(version="2.0", payload=incompressible(1 << 20)))
    new, steps = build_in_child(world, tmp_path / "new", "count=1")
    allowed = {digest for each in (old, new) for digest in each.split()}
    for step in range(int(steps) // 5, int(steps), int(steps) // 5):
        kill_before(world, world.output, step)
        for name in whole_or_absent(world.output):
            assert f"{name}={read_layout(world.output / 'images' / name).whole.digest}" in allowed
    assert build_in_child(world, world.output) == [new]


def test_interrupted(tmp_path: Path) -> None:
    world = small_world(tmp_path / "world", payload=incompressible(32 << 20))
    images = world.output / "images"
    with process.start(*command(world, world.output), env=environment()) as child:
        wait_for(lambda: any(images.glob(".building-*/*.part")))
        child.send_signal(signal.SIGINT)
        begin = time.monotonic()
        assert child.wait(60) != 0
        assert time.monotonic() - begin < 30
    assert list(images.iterdir()) == []
    build_in_child(world, world.output)


def wait_for(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.mark.usefixtures("mount_lab")
def test_a_full_disk_names_the_place(tmp_path: Path) -> None:
    world = small_world(tmp_path / "world", payload=incompressible(3 << 20))
    small = tmp_path / "small"
    small.mkdir()
    labworker.run("mount", "-t", "tmpfs", "-o", "size=2m", "sandwright-small", small)
    try:
        with pytest.raises(
            HostError, match=rf"^cannot write {small}/images/\.building-.*No space left on device"
        ):
            world.build(output=small)
        assert list((small / "images").iterdir()) == []
        labworker.run("mount", "-o", "remount,size=64m", small)
        assert set(world.build(output=small)) == {"base", "app"}
    finally:
        labworker.run("umount", small)


def test_memory_does_not_grow_with_packages(tmp_path: Path) -> None:
    peaks = []
    for megabytes in (8, 64):
        world = small_world(tmp_path / str(megabytes), payload=incompressible(megabytes << 20))
        peaks.append(int(build_in_child(world, world.output, "jobs=2", "memory=1")[1]) / 1024)
    assert peaks[1] < peaks[0] + 32, f"peaks in MiB: {peaks}"


@pytest.fixture(scope="session")
def real_supply() -> Fetcher:
    """The packages in the locks of our own images: from the cache, or from a mirror."""
    return Fetcher(Cache(default_cache(os.environ)), lambda: find_mirrors(None, os.environ))


@pytest.mark.slow
def test_distroless_is_reproducible(
    tmp_path: Path, real_supply: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue = load_catalogue(TESTS.parent / "images")
    try:
        build_images(catalogue, ["distroless"], output=tmp_path / "a", supply=real_supply, frozen=True)
    except (FetchError, HostError, LockError) as error:
        pytest.skip(f"the packages of distroless can't be had: {error}")
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    time.tzset()
    before = os.umask(0o077)
    try:
        build_images(
            catalogue, ["distroless"], output=tmp_path / "b", supply=real_supply, frozen=True, jobs=1
        )
    finally:
        os.umask(before)
        monkeypatch.undo()
        time.tzset()
    assert everything(tmp_path / "a") == everything(tmp_path / "b")
