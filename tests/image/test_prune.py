"""Removing root file systems: only those that are not needed.

Tests of cli/prune.py.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandwright import process
from sandwright.cli.program import main
from sandwright.errors import IntegrityError
from sandwright.image.prune import stale_rootfs
from sandwright.rootfs.bundles.bundle import write_bundle
from sandwright.rootfs.images.source import open_image
from support.smallworld import World, small_world
from support.waiting import until

PLATFORM = "linux/amd64"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return small_world(tmp_path)


def unpack(world: World, name: str, *, bundle: str = "") -> Path:
    image = open_image(world.output / "images" / name, platform=PLATFORM, ref="amd64")
    folder = world.output / "bundles" / bundle if bundle else world.root / "elsewhere" / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    return write_bundle(image, folder, store=world.output / "rootfs").rootfs.path


def rebuilt(world: World) -> None:
    """Replace the unpacked images by others."""
    for name in ("base", "app"):
        path = world.images / name / "image.yaml"
        path.write_text(path.read_text().replace("A small", "Another small"))
    world.build()


def stale(world: World) -> set[str]:
    return {each.path.name for each in stale_rootfs(world.output)}


def test_roots_of_built_images_stay(world: World) -> None:
    world.build()
    roots = {unpack(world, name) for name in ("base", "app")}
    assert stale(world) == set()
    rebuilt(world)
    assert stale(world) == {root.name for root in roots}


def test_roots_of_bundles_stay(world: World) -> None:
    world.build()
    kept, gone = unpack(world, "base", bundle="mine"), unpack(world, "app")
    rebuilt(world)
    assert stale(world) == {gone.name}
    assert kept.is_dir()


@pytest.mark.needs("bwrap", "sleep")
@pytest.mark.skipif(os.geteuid() != 0, reason="others look into namespaces of their own only")
def test_roots_that_are_mounted_stay(world: World) -> None:
    world.build()
    mounted, gone = unpack(world, "base"), unpack(world, "app")
    rebuilt(world)
    words = (
        "bwrap",
        "--die-with-parent",
        "--dev-bind",
        "/",
        "/",
        "--ro-bind",
        mounted,
        "/mnt",
        "sh",
        "-c",
        "echo; exec sleep 60",
    )
    with process.start(*words) as running:
        assert running.stdout is not None
        running.stdout.readline()
        assert stale(world) == {gone.name}
        running.kill()
    until(lambda: stale(world) == {mounted.name, gone.name}, within=10)


def test_an_image_that_can_not_be_read_ends_it(world: World) -> None:
    world.build()
    unpack(world, "base")
    rebuilt(world)
    (world.output / "images/app/index.json").write_text("{}")
    with pytest.raises(IntegrityError, match="not a whole image layout"):
        stale_rootfs(world.output)


def test_the_command(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.build()
    root = unpack(world, "base")
    rebuilt(world)
    new = unpack(world, "base", bundle="new")
    words = ("prune-images", "--output", str(world.output))
    assert not main((*words, "--dry-run"))
    assert root.is_dir()
    assert not main(words)
    assert {path.name for path in root.parent.iterdir()} == {new.name, f"{new.name}.json"}
    assert f"{root}: " in capsys.readouterr().out
    assert not main(words)
    assert capsys.readouterr().out == "there is nothing to remove\n"
