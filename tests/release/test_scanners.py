"""The fields of an SBOM for scanners and auditors: distribution, source package, supplier, dependencies."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sandwright.release.cyclonedx import write_cyclonedx
from sandwright.release.listed import read_sbom
from sandwright.release.packagefiles import package_files
from sandwright.release.packages import Package, foreign_archive
from sandwright.release.relations import (
    apk_relations,
    debian_relations,
    resolve_dependencies,
    unmet_dependencies,
)
from sandwright.release.sbom import Inventory, package_url, take_inventory
from sandwright.release.spdx import write_spdx
from sandwright.rootfs.images.source import open_image
from support.debs import control, deb, folder
from support.layouts import simple
from support.smallworld import World
from support.tars import archive, file

OPENSSL = control(
    "libssl3",
    "3.0.17-1~deb12u2",
    Status="install ok installed",
    Source="openssl",
    Maintainer="Debian OpenSSL Team <openssl@example.invalid>",
    Depends="libc6 (>= 2.34), debconf (>= 0.5) | debconf-2.0, absent | tzdata",
)
LIBC = control(
    "libc6",
    "2.36-9+deb12u13",
    Status="install ok installed",
    Source="glibc (2.36-9)",
    Maintainer="Jane Doe",
    Provides="libc6-2.36",
)
CDEBCONF = control("cdebconf", "0.270", Status="install ok installed", Provides="debconf-2.0 (= 1)")
TZDATA = control("tzdata", "2025b-0", Status="install ok installed")
DEBIAN = ("debian", "12")


@pytest.fixture
def debian(tmp_path: Path) -> Inventory:
    layer = archive(
        file(b"var/lib/dpkg/status", "\n".join((OPENSSL, LIBC, CDEBCONF, TZDATA)).encode()),
        file(b"etc/os-release", b'ID=debian\nVERSION_ID="12"\n'),
    )
    return take_inventory("image", open_image(simple(tmp_path / "layout", layer)))


def components(inventory: Inventory) -> Mapping[str, Any]:
    return {each["name"]: each for each in json.loads(write_cyclonedx(inventory))["components"]}


def elements(inventory: Inventory) -> Mapping[str, Any]:
    return {each["name"]: each for each in json.loads(write_spdx(inventory))["packages"]}


def test_the_distribution_is_a_component(debian: Inventory) -> None:
    system = components(debian)["debian"]
    assert (system["type"], system["version"]) == ("operating-system", "12")
    element = elements(debian)["debian"]
    assert (element["primaryPackagePurpose"], element["versionInfo"]) == ("OPERATING-SYSTEM", "12")
    for kind, raw in (("cyclonedx", write_cyclonedx(debian)), ("spdx", write_spdx(debian))):
        names = {name for name, _, _ in read_sbom(raw, kind, "x").packages}  # type: ignore[arg-type]
        assert names == {"libssl3", "libc6", "cdebconf", "tzdata"}, "the distribution is no package"


def test_the_source_package_is_in_the_url(debian: Inventory) -> None:
    assert components(debian)["libssl3"]["purl"] == (
        "pkg:deb/debian/libssl3@3.0.17-1~deb12u2?arch=amd64&distro=debian-12&upstream=openssl"
    )
    assert "&upstream=glibc%402.36-9" in components(debian)["libc6"]["purl"]
    assert "upstream" not in components(debian)["tzdata"]["purl"]


def test_the_source_package_for_trivy(debian: Inventory) -> None:
    """In CycloneDX, trivy reads its own properties, in SPDX the sentence that it writes itself."""
    properties = {each["name"]: each["value"] for each in components(debian)["libssl3"]["properties"]}
    assert properties == {
        "dev.sandwright:source": "openssl 3.0.17-1~deb12u2",
        "aquasecurity:trivy:SrcName": "openssl",
        "aquasecurity:trivy:SrcVersion": "3.0.17",
        "aquasecurity:trivy:SrcRelease": "1~deb12u2",
    }
    assert elements(debian)["libssl3"]["sourceInfo"] == "built package from: openssl 3.0.17-1~deb12u2"


def test_the_supplier_is_the_maintainer(debian: Inventory) -> None:
    assert components(debian)["libssl3"]["supplier"] == {
        "name": "Debian OpenSSL Team",
        "contact": [{"email": "openssl@example.invalid"}],
    }
    suppliers = {name: each["supplier"] for name, each in elements(debian).items()}
    assert suppliers == {
        "image": "NOASSERTION",
        "debian": "Organization: debian",
        "libssl3": "Organization: Debian OpenSSL Team (openssl@example.invalid)",
        "libc6": "Person: Jane Doe",
        "cdebconf": "NOASSERTION",
        "tzdata": "NOASSERTION",
    }


def test_the_vendor_of_an_image_is_its_supplier(tmp_path: Path) -> None:
    """NTIA's minimum elements ask for the supplier of each component, also of the image."""
    labels = {"Labels": {"org.opencontainers.image.vendor": "Example Ltd"}}
    layout = simple(tmp_path / "layout", archive(file(b"init", b"")), config=labels)
    labelled = take_inventory("image", open_image(layout))
    assert elements(labelled)["image"]["supplier"] == "Organization: Example Ltd"
    assert json.loads(write_cyclonedx(labelled))["metadata"]["component"]["supplier"] == {
        "name": "Example Ltd"
    }


def test_the_authors_of_an_image_are_the_document_s(tmp_path: Path) -> None:
    """BSI TR-03183-2 asks for the creator of the SBOM, with a way to reach them."""
    prefix = "org.opencontainers.image"
    labels = {f"{prefix}.vendor": "Example Ltd", f"{prefix}.authors": "Jane Doe <jane@example.invalid>"}
    layout = simple(tmp_path / "layout", archive(file(b"init", b"")), config={"Labels": labels})
    labelled = take_inventory("image", open_image(layout))
    metadata = json.loads(write_cyclonedx(labelled))["metadata"]
    assert metadata["manufacturer"] == {"name": "Example Ltd"}
    assert metadata["authors"] == [{"name": "Jane Doe", "email": "jane@example.invalid"}]
    creators = json.loads(write_spdx(labelled))["creationInfo"]["creators"]
    assert creators[:2] == ["Organization: Example Ltd", "Person: Jane Doe (jane@example.invalid)"]


def test_dependencies_that_the_image_lacks(debian: Inventory) -> None:
    """The SBOM states which graph is complete, because `without` and other programs omit packages."""
    packages = tuple(replace(each, complete=each.name != "libc6") for each in debian.packages)
    partial = replace(debian, packages=packages)
    names = {each["bom-ref"]: name for name, each in components(partial).items()}
    compositions = json.loads(write_cyclonedx(partial))["compositions"]
    assert {each["aggregate"]: {names[ref] for ref in each["dependencies"]} for each in compositions[1:]} == {
        "complete": {"libssl3", "cdebconf", "tzdata"},
        "incomplete": {"libc6"},
    }
    refs = {name: each["SPDXID"] for name, each in elements(partial).items()}
    edges = json.loads(write_spdx(partial))["relationships"]
    assert [each["relatedSpdxElement"] for each in edges if each["spdxElementId"] == refs["libc6"]][-1:] == [
        "NOASSERTION"
    ]


def test_dependencies_without_a_provider() -> None:
    relations = {
        "a": debian_relations({"Depends": "b | c, virtual"}),
        "b": debian_relations({"Depends": "gone | also-gone"}),
        "d": debian_relations({"Provides": "virtual"}),
    }
    assert unmet_dependencies(relations) == {"b"}
    assert unmet_dependencies({**relations, "also-gone": debian_relations({})}) == frozenset()


def test_dependencies_are_edges(debian: Inventory) -> None:
    """An edge leads to the installed alternative, or to the provider of a virtual package."""
    names = {each["bom-ref"]: name for name, each in components(debian).items()}
    graph = {
        names.get(each["ref"], "image"): {names[ref] for ref in each["dependsOn"]}
        for each in json.loads(write_cyclonedx(debian))["dependencies"]
    }
    assert graph == {
        "image": {"libssl3", "libc6", "cdebconf", "tzdata"},
        "libssl3": {"libc6", "cdebconf", "tzdata"},
        "libc6": set(),
        "cdebconf": set(),
        "tzdata": set(),
    }
    refs = {each["SPDXID"]: name for name, each in elements(debian).items()}
    refs |= {"NONE": "nothing", "NOASSERTION": "more"}
    edges = {
        (refs[each["spdxElementId"]], refs[each["relatedSpdxElement"]])
        for each in json.loads(write_spdx(debian))["relationships"]
        if each["relationshipType"] == "DEPENDS_ON"
    }
    assert edges == {
        *(("libssl3", "libc6"), ("libssl3", "cdebconf"), ("libssl3", "tzdata")),
        *((name, "nothing") for name in ("libc6", "cdebconf", "tzdata")),
    }


def test_dependencies_of_alpine() -> None:
    relations = {
        "busybox": apk_relations("so:libc.musl-x86_64.so.1 !other", "/bin/sh cmd:busybox=1.37.0"),
        "musl": apk_relations("", "so:libc.musl-x86_64.so.1=1"),
        "apk-tools": apk_relations("busybox>=1.2 /bin/sh so:gone.so.1", ""),
    }
    assert resolve_dependencies(relations) == {
        "busybox": ("musl",),
        "musl": (),
        "apk-tools": ("busybox",),
    }


def test_a_package_does_not_depend_on_itself() -> None:
    fields = {"Depends": "mail-transport-agent | mailer", "Provides": "mail-transport-agent"}
    assert resolve_dependencies({"exim": debian_relations(fields)}) == {"exim": ()}


def test_a_package_of_another_archive_is_not_debian_s(tmp_path: Path) -> None:
    """Debian's advisories do not cover it: a `debian` URL would match them by its name."""
    world = World(tmp_path)
    raw = deb([folder("./")], name="node", version="22.1-1")
    locked = replace(
        world.offer(raw, name="node", version="22.1-1", architecture="amd64"),
        archive="https://packages.example/debian",
    )
    (brought,) = package_files(
        [locked], {locked.sha256: tmp_path / "mirror/debian" / locked.path}, world.cache
    ).values()
    assert brought.control["Maintainer"] == "Nobody <nobody@example.invalid>"
    package = Package("deb", "node", "22.1-1", "amd64", archive=foreign_archive(locked))
    assert package_url(package, DEBIAN) == (
        "pkg:deb/packages.example/node@22.1-1?arch=amd64"
        "&repository_url=https%3A%2F%2Fpackages.example%2Fdebian"
    )
    ours = foreign_archive(replace(locked, archive="debian-security"))
    assert "pkg:deb/debian/" in package_url(replace(package, archive=ours), DEBIAN)
