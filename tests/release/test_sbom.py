"""SBOMs: valid by the formats' own schemas, the same bytes each time, and every difference found.

Tests of release/cyclonedx.py.
Tests of release/inventories.py.
Tests of release/spdx.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from license_expression import get_spdx_licensing
from packageurl import PackageURL
from spdx_tools.spdx.parser.jsonlikedict.json_like_dict_parser import JsonLikeDictParser
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

from sandwright.errors import IntegrityError
from sandwright.image.existing import read_layout
from sandwright.image.lock import load_lock
from sandwright.release import cyclonedx, spdx
from sandwright.release.inventories import check_sbom, make_sboms
from sandwright.release.listed import compare_listing, read_sbom
from sandwright.release.sbom import FORMATS, Inventory, take_inventory
from sandwright.rootfs.images.source import open_image
from support.layouts import simple
from support.releases import COPYRIGHT, supply
from support.smallworld import World
from support.tars import archive, file, symlink

pytestmark = pytest.mark.usefixtures("built")

WRITERS = {"cyclonedx": cyclonedx.write_cyclonedx, "spdx": spdx.write_spdx}
STATUS = b"Package: thing\nStatus: install ok installed\nVersion: 2:1.0+b1~rc-1\nArchitecture: all\n"


@pytest.fixture(scope="module")
def sboms(world: World) -> Mapping[Any, bytes]:
    existing = read_layout(world.output / "images/app")
    made = make_sboms(existing, load_lock(world.images / "base"), world.output / "release", supply(world))
    return made.documents["linux/amd64"]


@pytest.fixture
def odd(tmp_path: Path) -> Inventory:
    """An image with difficult content: names that are not text, odd licences, empty packages."""
    layer = archive(
        file(b"var/lib/dpkg/status", STATUS + b"\nPackage: empty+x\nVersion: 1\nArchitecture: all\n"),
        file(b"var/lib/dpkg/info/thing.list", b"/usr/bin/thing\n"),
        file(b"usr/bin/thing", b"1"),
        file(b"usr/share/doc/thing/copyright", COPYRIGHT.encode()),
        file(b"etc/no \xff text\n", b""),
        file("etc/ünïcode".encode(), b"x"),
        symlink(b"etc/link", b"\xfe"),
    )
    return take_inventory("odd", open_image(simple(tmp_path / "layout", layer)))


def valid_cyclonedx(raw: bytes) -> None:
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(raw.decode()) is None


def valid_spdx(raw: bytes) -> None:
    document = JsonLikeDictParser().parse(json.loads(raw))  # type: ignore[no-untyped-call]
    assert [each.validation_message for each in validate_full_spdx_document(document)] == []


def test_schemas(sboms: Mapping[Any, bytes], odd: Inventory) -> None:
    for raw in (sboms["cyclonedx"], cyclonedx.write_cyclonedx(odd)):
        valid_cyclonedx(raw)
    for raw in (sboms["spdx"], spdx.write_spdx(odd)):
        valid_spdx(raw)


def test_the_validators_would_notice(sboms: Mapping[Any, bytes]) -> None:
    broken = json.loads(sboms["cyclonedx"])
    broken["components"][0]["type"] = "thing"
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(broken)) is not None
    document = json.loads(sboms["spdx"])
    document["files"][0]["checksums"][0]["checksumValue"] = "0"
    with pytest.raises(AssertionError):
        valid_spdx(json.dumps(document).encode())


def test_what_cyclonedx_says(world: World, sboms: Mapping[Any, bytes]) -> None:
    said = json.loads(sboms["cyclonedx"])
    digest = read_layout(world.output / "images/app").images["linux/amd64"].manifest.digest
    about = said["metadata"]["component"]
    assert (about["name"], about["version"], about["type"]) == ("app", digest, "container")
    assert about["hashes"] == [{"alg": "SHA-256", "content": digest.removeprefix("sha256:")}]
    (thing,) = (each for each in said["components"] if each["name"] == "libthing1")
    (locked,) = (
        each for each in load_lock(world.images / "base").packages("linux/amd64") if each.name == "libthing1"
    )
    assert (thing["version"], thing["type"]) == ("1.0", "library")
    assert thing["hashes"] == [{"alg": "SHA-256", "content": locked.sha256}]
    assert {"name": "dev.sandwright:source", "value": "libthing1 1.0"} in thing["properties"]
    assert PackageURL.from_string(thing["purl"]) == PackageURL(
        "deb", "debian", "libthing1", "1.0", {"arch": "amd64"}
    )
    assert "/usr/bin/thing" in [each["name"] for each in thing["components"]]
    assert "/etc/app.conf" in [each["name"] for each in said["components"] if each["type"] == "file"]


def test_what_spdx_says(world: World, sboms: Mapping[Any, bytes]) -> None:
    said = json.loads(sboms["spdx"])
    digest = read_layout(world.output / "images/app").images["linux/amd64"].manifest.digest
    packages = {each["name"]: each for each in said["packages"]}
    assert packages.keys() == {"app", "debian", "base-files", "libthing1"}
    assert packages["app"]["versionInfo"] == digest
    names = {each["SPDXID"]: each["fileName"] for each in said["files"]}
    held: dict[str, set[str]] = {}
    for each in said["relationships"]:
        if each["relationshipType"] == "CONTAINS" and each["relatedSpdxElement"] in names:
            held.setdefault(each["spdxElementId"], set()).add(names[each["relatedSpdxElement"]])
    assert "./usr/bin/thing" in held[packages["libthing1"]["SPDXID"]]
    assert "./etc/app.conf" in held["SPDXRef-Image"]
    assert sum(len(each) for each in held.values()) == len(names), "each file belongs to one"


def test_licences_and_odd_names(odd: Inventory) -> None:
    said = json.loads(cyclonedx.write_cyclonedx(odd))
    (thing,) = (each for each in said["components"] if each["name"] == "thing")
    (licence,) = thing["licenses"]
    assert licence == {"expression": "LicenseRef-thing-s-own AND (MIT OR GPL-2.0-or-later)"}
    get_spdx_licensing().parse(licence["expression"])
    assert PackageURL.from_string(thing["purl"]).version == "2:1.0+b1~rc-1"
    names = [each["name"] for each in said["components"] if each["type"] == "file"]
    assert "/etc/no \\xff text\n" in names
    assert "/etc/ünïcode" in names
    extracted = json.loads(spdx.write_spdx(odd))["hasExtractedLicensingInfos"]
    assert [(each["licenseId"], each["name"]) for each in extracted] == [
        ("LicenseRef-thing-s-own", "thing's own")
    ]


@pytest.mark.parametrize("kind", FORMATS)
def test_the_same_image_gives_the_same_bytes(odd: Inventory, tmp_path: Path, kind: str) -> None:
    assert WRITERS[kind](odd) == WRITERS[kind](replace(odd, packages=tuple(odd.packages)))
    other = replace(odd, digest=f"sha256:{'0' * 64}")
    assert WRITERS[kind](other) != WRITERS[kind](odd)
    assert str(odd.serial) in WRITERS[kind](odd).decode()


@pytest.mark.parametrize("kind", FORMATS)
def test_read_back_it_fits(odd: Inventory, kind: Any) -> None:
    listed = read_sbom(WRITERS[kind](odd), kind, "x")
    assert compare_listing(listed, odd.files, odd.digest) == []
    assert {(name, version) for name, version, _ in listed.packages} == {
        ("thing", "2:1.0+b1~rc-1"),
        ("empty+x", "1"),
    }


@pytest.mark.parametrize("kind", FORMATS)
def test_each_file_and_package_counts(odd: Inventory, kind: Any) -> None:
    """A missing or additional file, other content, or a missing package is always reported."""
    listed = read_sbom(WRITERS[kind](odd), kind, "x")
    for path, held in odd.files.items():
        fewer = {key: value for key, value in odd.files.items() if key != path}
        (line,) = compare_listing(listed, fewer, odd.digest)
        assert line.endswith(": in the SBOM, and not in the image")
        changed = {**odd.files, path: replace(held, digests={"sha256": "0" * 64})}
        (line,) = compare_listing(listed, changed, odd.digest)
        assert f": sha256: {held.digests['sha256']} in the SBOM, {'0' * 64} in the image" in line
    more = {**odd.files, b"etc/more": next(iter(odd.files.values()))}
    assert compare_listing(listed, more, odd.digest) == ["/etc/more: in the image, and not in the SBOM"]


def test_made_once(world: World) -> None:
    existing, lock = read_layout(world.output / "images/base"), load_lock(world.images / "base")
    directory = world.output / "once"
    first = make_sboms(existing, lock, directory, supply(world))
    second = make_sboms(existing, lock, directory, supply(world))
    assert (first.fresh, second.fresh, second.documents) == (True, False, first.documents)
    (directory / "amd64.cdx.json").write_bytes(b"{}")
    third = make_sboms(existing, lock, directory, supply(world))
    assert (third.fresh, third.documents) == (True, first.documents), "what was changed is made again"


@pytest.mark.parametrize("kind", FORMATS)
def test_check(world: World, sboms: Mapping[Any, bytes], kind: Any) -> None:
    existing, lock = read_layout(world.output / "images/app"), load_lock(world.images / "base")
    options: dict[str, Any] = {"kind": kind, "lock": lock, "where": "file"}
    assert check_sbom(existing, "linux/amd64", raw=sboms[kind], **options) == 26
    with pytest.raises(
        IntegrityError, match="file: it differs from the image:\n  subject: the SBOM is of sha256:"
    ):
        check_sbom(existing, "linux/arm64", raw=sboms[kind], **options)
