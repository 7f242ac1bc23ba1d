"""A registry and a small world of images for the tests of a module."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandwright.image.build import BuiltImage
from sandwright.release.evidence import write_matrix
from sandwright.release.signing import SigningKey
from sandwright.release.subject import Release
from sandwright.verify.smoke.report import write_report
from support.registryserver import Server, registry_server
from support.releases import matrix_of, new_key, released, report_of, write_key
from support.smallworld import World, small_world


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with registry_server(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return small_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def built(world: World) -> dict[str, BuiltImage]:
    return world.build()


@pytest.fixture(scope="module")
def release(world: World, built: dict[str, BuiltImage]) -> Release:
    return released(world, built)


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> SigningKey:
    return new_key(tmp_path_factory.mktemp("key"))


@pytest.fixture
def place(
    world: World, built: dict[str, BuiltImage], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A working directory: the images and their builds, a key pair, and no logins."""
    write_report(report_of(built), world.output)
    shutil.copytree(world.images, tmp_path / "images")
    shutil.copytree(world.output, tmp_path / "build")
    for name in ("base", "app"):
        write_matrix(matrix_of(built, name), tmp_path / "build/release" / name)
    write_key(tmp_path)
    monkeypatch.delenv("SANDWRIGHT_BUILD", raising=False)
    monkeypatch.setenv("SANDWRIGHT_CACHE", str(world.cache.root))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path
