"""Packages from a package store: an OCI layout that has them when a mirror no longer does.

Tests of image/packagestore.py.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from sandwright.errors import HostError
from sandwright.image.cache import Cache
from sandwright.image.fetcher import Fetcher
from sandwright.image.lock import LockedPackage, PackageGone
from sandwright.image.mirrors import Mirrors
from sandwright.image.packagestore import named_store
from sandwright.progress import SILENT
from sandwright.registry.failure import WrongContent
from sandwright.registry.settings import RegistrySettings
from support.apks import Apk
from support.smallworld import libthing

CONTENT = {"deb": libthing("amd64"), "apk": Apk("musl").build()}
FORMATS = pytest.mark.parametrize("kind", CONTENT)


def locked(kind: str) -> LockedPackage:
    content = CONTENT[kind]
    archive, architecture = {"deb": ("debian", "amd64"), "apk": ("alpine", "x86_64")}[kind]
    digest = hashlib.sha256(content).hexdigest()
    path = f"pool/{architecture}/thing-1.{kind}"
    return LockedPackage("thing", "1", architecture, len(content), digest, archive, path, "thing", "1", 1)


class Shelf:
    """A layout with blobs, an empty mirror, and a cache."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.layout = root / "layout"
        self.blobs = self.layout / "blobs/sha256"
        self.blobs.mkdir(parents=True)
        (self.layout / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
        mirror = f"file://{root}/mirror"
        self.supply = Fetcher(
            Cache(root / "cache"),
            Mirrors({"debian": (mirror,), "alpine": (mirror,)}),
            store=named_store(str(self.layout), RegistrySettings),
        )

    def put(self, package: LockedPackage, content: bytes) -> None:
        (self.blobs / package.sha256).write_bytes(content)

    def fetch(self, *packages: LockedPackage, supply: Fetcher | None = None) -> dict[str, bytes]:
        found = (supply or self.supply).fetch(packages, SILENT)
        return {digest: path.read_bytes() for digest, path in found.items()}


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


@FORMATS
def test_a_package_that_no_mirror_has(shelf: Shelf, kind: str) -> None:
    package = locked(kind)
    shelf.put(package, CONTENT[kind])
    with pytest.raises(PackageGone, match="no longer on"):
        shelf.fetch(package, supply=replace(shelf.supply, store=None))
    assert shelf.fetch(package) == {package.sha256: CONTENT[kind]}


@FORMATS
def test_other_bytes_are_refused(shelf: Shelf, kind: str) -> None:
    package = locked(kind)
    shelf.put(package, b"\0" + CONTENT[kind][1:])
    with pytest.raises(WrongContent, match="has other bytes"):
        shelf.fetch(package)
    assert not shelf.supply.cache.has(package)
    shelf.put(package, CONTENT[kind] + b"more")
    with pytest.raises(WrongContent, match=f"not {package.size}"):
        shelf.fetch(package)


def test_the_mirror_has_what_the_store_lacks(shelf: Shelf) -> None:
    stored, other = locked("deb"), locked("apk")
    shelf.put(stored, CONTENT["deb"])
    with pytest.raises(PackageGone) as caught:
        shelf.fetch(stored, other)
    assert caught.value.packages == (other,), "the stored one is fetched"
    path = shelf.root / "mirror" / other.path
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT["apk"])
    assert set(shelf.fetch(stored, other)) == {stored.sha256, other.sha256}


def test_no_mirror_is_needed_for_what_the_store_has(shelf: Shelf) -> None:
    def mirrors() -> Mirrors:
        raise HostError("no mirror is known")

    package = locked("deb")
    shelf.put(package, CONTENT["deb"])
    assert shelf.fetch(package, supply=replace(shelf.supply, mirrors=mirrors)) == {
        package.sha256: CONTENT["deb"]
    }
