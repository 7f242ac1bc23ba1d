"""An inventory as SPDX 2.3, JSON: https://spdx.github.io/spdx-spec/v2.3/."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import sandwright
from sandwright.release.contents import LayeredFile
from sandwright.release.packages import Package
from sandwright.release.sbom import Inventory, contact_of, kind_of, package_url, source_of, text
from sandwright.rootfs.descriptor import canonical

MEDIA_TYPE = "application/spdx+json"
NOTHING = "NOASSERTION"
_TEAM = re.compile(r"Team|Group|Maintainers|Developers|Packag|Project|Debian", re.IGNORECASE)
_DOCUMENT, IMAGE, SYSTEM = "SPDXRef-DOCUMENT", "SPDXRef-Image", "SPDXRef-OperatingSystem"


def write_spdx(inventory: Inventory) -> bytes:
    """The document. The same inventory gives the same bytes."""
    ids = {path: f"SPDXRef-File-{number}" for number, path in enumerate(inventory.files, 1)}
    package_ids = [f"SPDXRef-Package-{number}" for number, _ in enumerate(inventory.packages, 1)]
    packages = [
        _package_element(inventory, each, ref)
        for each, ref in zip(inventory.packages, package_ids, strict=True)
    ]
    system = _system_element_list(inventory)
    contains = [(IMAGE, each["SPDXID"]) for each in system] + [(IMAGE, ref) for ref in package_ids]
    contains += [(IMAGE, ids[path]) for path in inventory.unowned]
    for package, ref in zip(inventory.packages, package_ids, strict=True):
        contains += [(ref, ids[path]) for path in package.files]
    named = {
        ref: _extracted_license(ref, name, each.licence.text)
        for each in inventory.packages
        for ref, name in each.licence.names.items()
    }
    return canonical(
        {
            "spdxVersion": "SPDX-2.3",
            "dataLicense": "CC0-1.0",
            "SPDXID": _DOCUMENT,
            "name": f"{inventory.name} {inventory.platform}",
            "documentNamespace": inventory.serial.urn,
            "creationInfo": {
                "created": inventory.created,
                "creators": _creators(inventory),
            },
            "packages": [_image_element(inventory), *system, *packages],
            "files": [_file_element(file, path, ids[path]) for path, file in inventory.files.items()],
            "relationships": [
                _relation(_DOCUMENT, "DESCRIBES", IMAGE),
                *(_relation(one, "CONTAINS", other) for one, other in contains),
                *_depends_on(inventory, package_ids),
            ],
            **({"hasExtractedLicensingInfos": [named[ref] for ref in sorted(named)]} if named else {}),
        }
    )


def _image_element(inventory: Inventory) -> dict[str, Any]:
    return {
        "SPDXID": IMAGE,
        "name": inventory.name,
        "versionInfo": inventory.digest,
        "primaryPackagePurpose": "CONTAINER",
        "supplier": f"Organization: {inventory.vendor}" if inventory.vendor else NOTHING,
        "downloadLocation": NOTHING,
        "checksums": [{"algorithm": "SHA256", "checksumValue": inventory.digest.partition(":")[2]}],
        "externalRefs": [_purl(inventory.purl)],
        "comment": f"platform {inventory.platform}",
        "licenseConcluded": NOTHING,
        "licenseDeclared": NOTHING,
        "copyrightText": NOTHING,
        **_analysed(inventory, inventory.unowned),
    }


def _system_element_list(inventory: Inventory) -> list[dict[str, Any]]:
    """The distribution, by which scanners choose the advisories."""
    name, version = inventory.system
    if not name:
        return []
    return [
        {
            "SPDXID": SYSTEM,
            "name": name,
            "versionInfo": version or NOTHING,
            "primaryPackagePurpose": "OPERATING-SYSTEM",
            "supplier": f"Organization: {name}",
            "downloadLocation": NOTHING,
            "filesAnalyzed": False,
            "licenseConcluded": NOTHING,
            "licenseDeclared": NOTHING,
            "copyrightText": NOTHING,
        }
    ]


def _depends_on(inventory: Inventory, package_ids: Sequence[str]) -> Iterator[Mapping[str, str]]:
    refs = {(each.kind, each.name): ref for each, ref in zip(inventory.packages, package_ids, strict=True)}
    for package, ref in zip(inventory.packages, package_ids, strict=True):
        for need in package.needs:
            yield _relation(ref, "DEPENDS_ON", refs[package.kind, need])
        if not package.complete:
            yield _relation(ref, "DEPENDS_ON", NOTHING)
        elif not package.needs:
            yield _relation(ref, "DEPENDS_ON", "NONE")


def _creators(inventory: Inventory) -> list[str]:
    """The document's creators: the image's vendor and authors, by its labels, and this program."""
    vendor = [f"Organization: {inventory.vendor}"] if inventory.vendor else []
    authors = _contact_field(inventory.authors)
    return [*vendor, *([authors] if authors != NOTHING else []), f"Tool: sandwright-{sandwright.__version__}"]


def _contact_field(contact: str) -> str:
    """A maintainer, as the specification writes it (7.5)."""
    # Debian does not tell people from teams: names of teams are recognised by their words
    name, address = contact_of(contact)
    if not name:
        return NOTHING
    kind = "Organization" if _TEAM.search(name) else "Person"
    return f"{kind}: {name}" + (f" ({address})" if address else "")


def _package_element(inventory: Inventory, package: Package, ref: str) -> dict[str, Any]:
    checksums = {"checksums": [{"algorithm": "SHA256", "checksumValue": package.sha256}]}
    return {
        "SPDXID": ref,
        "name": package.name,
        "versionInfo": package.version,
        "supplier": _contact_field(package.maintainer),
        "downloadLocation": NOTHING,
        **(checksums if package.sha256 else {}),
        **({"sourceInfo": f"built package from: {source_of(package)}"} if package.source else {}),
        "externalRefs": [_purl(package_url(package, inventory.system))],
        "licenseConcluded": NOTHING,
        "licenseDeclared": package.licence.expression or NOTHING,
        "copyrightText": NOTHING,
        **_analysed(inventory, package.files),
    }


def _analysed(inventory: Inventory, paths: Iterable[bytes]) -> dict[str, Any]:
    """Whether files are listed; if so, the checksum over theirs (specification, 7.9)."""
    sums = sorted(inventory.files[path].digests["sha1"] for path in paths)
    if not sums:
        return {"filesAnalyzed": False}
    code = hashlib.sha1("".join(sums).encode(), usedforsecurity=False).hexdigest()
    return {
        "filesAnalyzed": True,
        "packageVerificationCode": {"packageVerificationCodeValue": code},
    }


def _file_element(file: LayeredFile, path: bytes, ref: str) -> dict[str, Any]:
    kind = kind_of(file)
    return {
        "SPDXID": ref,
        "fileName": f".{text(path)}",
        "checksums": [
            {"algorithm": "SHA1", "checksumValue": file.digests["sha1"]},
            {"algorithm": "SHA256", "checksumValue": file.digests["sha256"]},
        ],
        **({"fileTypes": ["OTHER"], "comment": kind} if kind else {}),
        "licenseConcluded": NOTHING,
        "copyrightText": NOTHING,
    }


def _relation(one: str, kind: str, other: str) -> Mapping[str, str]:
    return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}


def _purl(url: str) -> Mapping[str, str]:
    return {
        "referenceCategory": "PACKAGE-MANAGER",
        "referenceType": "purl",
        "referenceLocator": url,
    }


def _extracted_license(reference: str, name: str, content: str) -> Mapping[str, str]:
    return {
        "licenseId": reference,
        "name": name,
        "extractedText": content or f"The text that the package's copyright file has for {name!r}.",
    }
