"""An old release is made again when the mirror has dropped its packages, from the store published with it.

Tests of release/packagestore.py.
"""

from __future__ import annotations

import functools
import hashlib
import http.server
import json
import shutil
import uuid
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from sandwright.image.cache import Cache
from sandwright.image.fetcher import Fetcher
from sandwright.image.layoutrepository import LayoutRepository
from sandwright.image.lock import Lock, LockedPackage, load_lock
from sandwright.image.mirrors import Mirrors
from sandwright.image.packagestore import PackageStore
from sandwright.image.remote import open_layout, pull_layout
from sandwright.progress import SILENT
from sandwright.registry.reference import parse_reference
from sandwright.registry.referrer import referrers
from sandwright.registry.repository import Repository, open_repository
from sandwright.registry.settings import RegistrySettings
from sandwright.release.check import RebuildOptions, check_image
from sandwright.release.packagestore import STORE_TYPE, package_store
from sandwright.release.publish import make_plan, publish
from sandwright.release.signing import SigningKey
from sandwright.release.subject import Release
from sandwright.rootfs.descriptor import Descriptor
from sandwright.verify.verdict import ProbeFinding, Verdict
from support.apks import Apk
from support.localhttp import listening
from support.registryserver import Server
from support.releases import new_key, released
from support.smallworld import World, libthing, small_world

pytestmark = [pytest.mark.needs("docker-registry"), pytest.mark.timeout(300)]


class Mirror(http.server.SimpleHTTPRequestHandler):
    """A mirror on loopback."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Write no log."""


class Shop:
    """A small world with a mirror on HTTP and a published release."""

    def __init__(self, world: World, server: Server, key: SigningKey, port: int, scratch: Path) -> None:
        self.world = world
        self.server = server
        self.key = key
        self.name = f"{server.host}/store-{uuid.uuid4().hex[:12]}/app"
        self.mirrors = Mirrors({"debian": (f"http://127.0.0.1:{port}/debian",)})
        self.scratch = scratch

    @property
    def packages(self) -> tuple[LockedPackage, ...]:
        return load_lock(self.world.images / "base").packages("linux/amd64")

    def release(self, *, store: bool) -> Release:
        built = self.world.build(platforms=["linux/amd64"])
        return released(self.world, built, store=store)

    def bring(self, release: Release) -> tuple[str, ...]:
        with open_repository(parse_reference(self.name), RegistrySettings(), push=True) as repository:
            plan = make_plan(repository, release, self.key.verifier, ["1"])
            return publish(repository, plan, self.key).sent

    def drop(self) -> None:
        """Replace a version on the mirror, as archives do for security updates."""
        (gone,) = (each for each in self.packages if each.name == "libthing1")
        (self.world.mirror / "debian" / gone.path).unlink()
        self.world.offer(
            libthing("amd64", version="2.0"), name="libthing1", version="2.0", architecture="amd64"
        )

    def supply(self, store: PackageStore | None = None) -> Fetcher:
        """The package source of another user, whose cache is empty."""
        return Fetcher(Cache(self.scratch / uuid.uuid4().hex), self.mirrors, store=store)

    def check(
        self, repository: Repository | None = None, supply: Fetcher | None = None
    ) -> list[ProbeFinding]:
        scratch = self.scratch / uuid.uuid4().hex
        scratch.mkdir(parents=True)
        again = RebuildOptions(supply or self.supply())
        if repository is not None:
            what = open_layout(Path(str(repository))).graph.root.descriptor.digest
            return list(check_image(repository, what, self.key.verifier, scratch, name="app", again=again))
        with open_repository(parse_reference(self.name), RegistrySettings()) as there:
            return list(check_image(there, "1", self.key.verifier, scratch, again=again))


@pytest.fixture
def shop(server: Server, tmp_path: Path) -> Iterator[Shop]:
    world = small_world(tmp_path / "world")
    handler = functools.partial(Mirror, directory=str(world.mirror))
    with listening(handler) as port:
        yield Shop(world, server, new_key(tmp_path / "key"), port, tmp_path / "scratch")


def _failed(findings: list[ProbeFinding]) -> tuple[str, str]:
    (found,) = (each for each in findings if each.verdict is Verdict.FAIL)
    return found.check, found.detail


def test_an_old_release_is_made_again(shop: Shop) -> None:
    release = shop.release(store=True)
    assert shop.bring(release)
    assert not shop.bring(release), "all of it is there"
    shop.drop()
    findings = shop.check()
    assert {each.verdict for each in findings} == {Verdict.PASS}, findings
    assert findings[-1].detail == f"made again, it is {release.root.digest}"
    assert findings[4].detail.endswith("; 2 packages in a store")


def test_without_a_store_it_is_not(shop: Shop) -> None:
    shop.bring(shop.release(store=False))
    shop.drop()
    check, detail = _failed(shop.check())
    assert check == "rebuild"
    assert "no longer on http://127.0.0.1" in detail
    assert "libthing1 1.0 (amd64)" in detail


def test_the_store_of_another_place(shop: Shop) -> None:
    """The release has no store; a layout from another source has the packages."""
    shop.bring(shop.release(store=True))
    layout = shop.scratch / "carried"
    reference = parse_reference(f"{shop.name}:1")
    cache = Cache(shop.scratch / "pulls")
    pull_layout(reference, layout, settings=RegistrySettings(), cache=cache)
    shop.name = shop.name.replace("/app", "/again/app")
    shop.bring(shop.release(store=False))
    shop.drop()
    store = PackageStore("carried", lambda: nullcontext(LayoutRepository(layout)))
    findings = shop.check(supply=shop.supply(store))
    assert {each.verdict for each in findings} == {Verdict.PASS}, findings


def test_behind_an_air_gap(shop: Shop) -> None:
    """The layout that `pull-image` writes has the store, and no mirror is contacted."""
    shop.bring(shop.release(store=True))
    layout = shop.scratch / "carried"
    reference = parse_reference(f"{shop.name}:1")
    pull_layout(reference, layout, settings=RegistrySettings(), cache=Cache(shop.scratch / "pulls"))
    shutil.rmtree(shop.world.mirror)
    findings = shop.check(LayoutRepository(layout), replace(shop.supply(), mirrors=Mirrors({})))
    assert {each.verdict for each in findings} == {Verdict.PASS}, findings


def test_what_the_artifact_says(shop: Shop) -> None:
    """The manifest is readable for other tools: a subject, a file name for each package, their digests."""
    release = shop.release(store=True)
    shop.bring(release)
    with open_repository(parse_reference(shop.name), RegistrySettings()) as repository:
        (found,) = referrers(repository, release.root.digest, artifact_type=STORE_TYPE)
        document = json.loads(repository.manifest(found.descriptor.digest).content)
    assert document["subject"]["digest"] == release.root.digest
    layers = {each["annotations"]["org.opencontainers.image.title"]: each for each in document["layers"]}
    assert list(layers) == ["base-files_12_amd64.deb", "libthing1_1.0_amd64.deb"]
    assert [each["digest"] for each in layers.values()] == [f"sha256:{each.sha256}" for each in shop.packages]
    assert {each["mediaType"] for each in layers.values()} == {"application/vnd.debian.binary-package"}
    (provenance,) = (json.loads(each.payload) for each in release.claims if each.name == "provenance")
    dependencies = provenance["predicate"]["buildDefinition"]["resolvedDependencies"]
    (named,) = (each for each in dependencies if each["name"] == "packages")
    assert f"sha256:{named['digest']['sha256']}" == found.descriptor.digest


@pytest.mark.parametrize("how", ["changed", "removed"])
def test_a_store_that_was_tampered_with(shop: Shop, how: str) -> None:
    shop.bring(shop.release(store=True))
    shop.drop()
    (package,) = (each for each in shop.packages if each.name == "libthing1")
    blob = shop.server.blob(f"sha256:{package.sha256}")
    if how == "changed":
        raw = blob.read_bytes()
        blob.write_bytes(bytes([raw[0] ^ 1]) + raw[1:])
    else:
        shutil.rmtree(blob.parent)
    check, detail = _failed(shop.check())
    expected = {"changed": ("rebuild", package.sha256), "removed": ("sources", "libthing1 1.0 (amd64)")}
    assert (check, expected[how][1] in detail) == (expected[how][0], True), detail


def test_an_interrupted_publication_is_finished(shop: Shop) -> None:
    release = shop.release(store=True)
    shop.bring(release)
    shutil.rmtree(shop.server.blob(f"sha256:{shop.packages[0].sha256}").parent)
    sent = shop.bring(release)
    assert sent == (f"sha256:{shop.packages[0].sha256}",)


def test_packages_of_alpine(tmp_path: Path) -> None:
    """Their names lack the architecture; nevertheless each has a separate file."""
    cache, platforms = Cache(tmp_path), {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}
    locked = {}
    for platform, architecture in platforms.items():
        content = Apk("musl", architecture=architecture).build()
        digest = hashlib.sha256(content).hexdigest()
        with cache.adding(digest) as file:
            file.write(content)
        path = f"v3.23/main/{architecture}/musl-1.apk"
        locked[platform] = (
            LockedPackage("musl", "1", architecture, len(content), digest, "alpine", path, "musl", "1", 1),
        )
    subject = Descriptor("application/vnd.oci.image.index.v1+json", f"sha256:{'0' * 64}", 2)
    lock = Lock("sha256:0", "v3.23", 0, locked)
    store = package_store(subject, lock, list(platforms), Fetcher(cache, Mirrors({})), SILENT)
    layers = store.graph.root.document["layers"]
    assert {each["annotations"]["org.opencontainers.image.title"]: each["digest"] for each in layers} == {
        f"{package.architecture}/musl-1.apk": f"sha256:{package.sha256}"
        for listed in locked.values()
        for package in listed
    }
    for blob in store.graph.blobs:
        with store.open_blob(blob) as file:
            assert f"sha256:{hashlib.sha256(file.read()).hexdigest()}" == blob.digest
