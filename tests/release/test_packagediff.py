"""The differences that `sbom --diff` finds between SBOMs and images."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sandwright.cli.program import main
from sandwright.errors import ArchiveRefused
from sandwright.release.packagediff import package_changes, sbom_packages, to_json, to_markdown
from support.smallworld import small_world

OLD = ["pkg:deb/debian/curl@7.88.1-10?arch=amd64&distro=debian-12", "pkg:deb/debian/bash@5.2?arch=amd64"]
NEW = [
    "pkg:deb/debian/curl@7.88.1-11?arch=amd64&distro=debian-12.1",
    "pkg:deb/debian/git@1%3A2.39?arch=amd64",
    "pkg:pypi/idna@3.7",
]
TABLE = """\
| | package | before | after |
|---|---|---|---|
| removed | `bash (amd64)` | `5.2` |  |
| changed | `curl (amd64)` | `7.88.1-10` | `7.88.1-11` |
| added | `git (amd64)` |  | `1:2.39` |
| added | `idna` |  | `3.7` |
"""


def cyclonedx(urls: list[str]) -> bytes:
    components = [{"type": "library", "name": "x", "purl": each} for each in urls]
    return json.dumps({"bomFormat": "CycloneDX", "components": components}).encode()


def spdx(urls: list[str]) -> bytes:
    packages = [{"externalRefs": [{"referenceType": "purl", "referenceLocator": each}]} for each in urls]
    image = {"externalRefs": [{"referenceType": "purl", "referenceLocator": "pkg:oci/x@sha256%3A1"}]}
    return json.dumps({"spdxVersion": "SPDX-2.3", "packages": [image, *packages, {}]}).encode()


def test_formats_can_be_compared() -> None:
    for before, after in ((cyclonedx(OLD), spdx(NEW)), (spdx(OLD), cyclonedx(NEW))):
        changes = package_changes(sbom_packages(before, "old"), sbom_packages(after, "new"))
        assert to_markdown(changes) == TABLE
    found = json.loads(to_json(changes))
    assert {kind: [each["package"] for each in entries] for kind, entries in found.items()} == {
        "added": ["deb/debian/git", "pypi/idna"],
        "changed": ["deb/debian/curl"],
        "removed": ["deb/debian/bash"],
    }
    assert found["changed"][0]["before"] == ["7.88.1-10"]


def test_the_same() -> None:
    same = sbom_packages(cyclonedx(OLD), "old")
    assert to_markdown(package_changes(same, sbom_packages(spdx(OLD), "new"))) == "No package has changed.\n"


@pytest.mark.parametrize(
    "url",
    [
        "pkg:deb/debian/a%0A::error::name@1",
        "pkg:deb/debian/a@1%0D%0A::error::version",
        "pkg:deb/debian/a@1?arch=x%0A::error::qualifier",
        "pkg:deb/debian/a\n::error::raw@1",
    ],
    ids=["name", "version", "qualifier", "raw"],
)
def test_breaks_in_a_hostile_sbom_begin_no_line(url: str) -> None:
    """GitHub's runner interprets a line that begins with `::` as a command."""
    table = to_markdown(package_changes({}, sbom_packages(cyclonedx([url]), "new")))
    assert [line[:1] for line in table.splitlines()] == ["|"] * 3


def test_names_that_would_end_a_cell() -> None:
    hostile = sbom_packages(cyclonedx(["pkg:deb/debian/a%7Cb%60c@1"]), "x")
    assert "| added | `abc` |  | `1` |" in to_markdown(package_changes({}, hostile))


@pytest.mark.parametrize("raw", [b"{}", b"[]", b"no JSON", b'{"bomFormat": "CycloneDX", "components": 7}'])
def test_what_is_no_sbom(raw: bytes) -> None:
    with pytest.raises(ArchiveRefused, match=r"^file\.json: "):
        sbom_packages(raw, "file.json")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = small_world(tmp_path)
    world.build()
    (tmp_path / "old.json").write_bytes(cyclonedx(OLD))
    (tmp_path / "new.json").write_bytes(spdx(NEW))
    words = ["--platform", "linux/amd64", "--output", str(world.output)]
    assert main(["sbom", "--diff", f"{tmp_path}/old.json", f"{tmp_path}/new.json"]) == 0
    assert capsys.readouterr().out == TABLE
    assert main(["sbom", "--diff", "base", "app", *words]) == 0
    assert capsys.readouterr().out == "No package has changed.\n"
    assert main(["sbom", "--diff", f"{tmp_path}/old.json", "base", "--json", *words]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {each["package"] for each in found["removed"]} == {"deb/debian/bash", "deb/debian/curl"}
    assert {each["package"].rpartition("/")[2] for each in found["added"]} == {"base-files", "libthing1"}
    assert main(["sbom", "--json", "base"]) == 64


def test_documents_without_package_urls_are_not_equal() -> None:
    for raw in (cyclonedx([]), spdx([])):
        with pytest.raises(ArchiveRefused, match="no package could be compared"):
            sbom_packages(raw, "file.json")
