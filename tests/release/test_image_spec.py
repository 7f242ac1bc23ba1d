"""The image-spec's own schemas find no fault in layouts and their documents, including attachments."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from sandwright import process
from sandwright.image.cache import Cache
from sandwright.image.remote import pull_layout
from sandwright.registry.reference import parse_reference
from sandwright.registry.repository import open_repository
from sandwright.registry.settings import RegistrySettings
from sandwright.release.publish import make_plan, publish
from sandwright.rootfs.descriptor import canonical
from support import gotools
from support.layouts import CONFIG, INDEX, MANIFEST
from support.registryserver import Server
from support.releases import new_key, released
from support.smallworld import World
from support.thorough import THOROUGH

pytestmark = [
    pytest.mark.skipif(not THOROUGH, reason="only `invoke test --thorough` has time to build the tools"),
    pytest.mark.timeout(3000),
    pytest.mark.needs("docker-registry"),
]


def _validated(layout: Path) -> tuple[dict[str, int], str]:
    """The number of documents of each type, and the faults that were found."""
    said = process.run(gotools.require("imageschema"), layout, timeout=60, check=False)
    counted = dict(line.split() for line in said.text.splitlines())
    return {kind: int(number) for kind, number in counted.items()}, said.stderr


@pytest.fixture(scope="module")
def pulled(world: World, server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A published image for two platforms, pulled with all its attachments."""
    place = tmp_path_factory.mktemp("pulled")
    world.build()
    release = released(world, world.build(), attestations=True, store=True)
    key, reference = new_key(place / "key"), parse_reference(f"{server.host}/schema/app:1")
    with open_repository(reference, RegistrySettings(), push=True) as repository:
        publish(repository, make_plan(repository, release, key.verifier, ["1"]), key)
    pull_layout(reference, place / "layout", settings=RegistrySettings(), cache=Cache(place / "cache"))
    return place / "layout"


@pytest.mark.parametrize("name", ["base", "app"])
def test_built_images(world: World, name: str) -> None:
    world.build()
    found, faults = _validated(world.output / "images" / name)
    assert not faults
    assert (found[INDEX], found[MANIFEST], found[CONFIG]) == (2, 2, 2)


def test_published_images(pulled: Path) -> None:
    found, faults = _validated(pulled)
    assert not faults
    assert found[MANIFEST] > 2 + 2 + 10, "platforms, attestation manifests, and what is attached to them"


@pytest.mark.parametrize("depth", range(4), ids=["layout", "index", "manifest", "config"])
def test_faults_are_found(pulled: Path, tmp_path: Path, depth: int) -> None:
    layout = shutil.copytree(pulled, tmp_path / "layout")
    path = layout / "index.json"
    for _ in range(depth):
        document = json.loads(path.read_bytes())
        row = document["manifests"][0] if "manifests" in document else document["config"]
        path = layout / "blobs" / row["digest"].replace(":", "/")
    document = json.loads(path.read_bytes()) | {"schemaVersion": 3}
    document.pop("architecture", "")
    path.unlink()  # the cache has the same file
    path.write_bytes(canonical(document))
    (fault,) = _validated(layout)[1].splitlines()[:1]
    assert fault.startswith(f"{path}: validation failed")
