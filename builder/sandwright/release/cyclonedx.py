"""An inventory as CycloneDX 1.6, JSON: https://cyclonedx.org/docs/1.6/json/."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import sandwright
from sandwright.release.licences import Licence
from sandwright.release.packages import Package
from sandwright.release.sbom import Inventory, contact_of, kind_of, package_url, source_of, text
from sandwright.rootfs.descriptor import canonical

MEDIA_TYPE = "application/vnd.cyclonedx+json"
_OURS = "dev.sandwright:"


def write_cyclonedx(inventory: Inventory) -> bytes:
    """The document. The same inventory gives the same bytes."""
    packages = [_component(inventory, each) for each in inventory.packages]
    loose = [_file_component(inventory, path) for path in inventory.unowned]
    root = inventory.purl
    return canonical(
        {
            "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "serialNumber": inventory.serial.urn,
            "version": 1,
            "metadata": {
                "timestamp": inventory.created,
                "tools": {"components": [_tool()]},
                **_creator(inventory),
                "component": {
                    "type": "container",
                    "bom-ref": root,
                    "name": inventory.name,
                    "version": inventory.digest,
                    "purl": root,
                    **({"supplier": {"name": inventory.vendor}} if inventory.vendor else {}),
                    "hashes": [{"alg": "SHA-256", "content": inventory.digest.partition(":")[2]}],
                    "properties": [_property("platform", inventory.platform)],
                },
            },
            "components": [*_system_components(inventory), *packages, *loose],
            "dependencies": [
                {"ref": root, "dependsOn": sorted(each["bom-ref"] for each in packages)},
                *_dependency_graph(inventory),
            ],
            "compositions": [
                {"aggregate": "complete" if inventory.files else "incomplete", "assemblies": [root]},
                *_dependency_completeness(inventory),
            ],
        }
    )


def _tool() -> dict[str, str]:
    return {"type": "application", "name": "sandwright", "version": sandwright.__version__}


def _system_components(inventory: Inventory) -> list[dict[str, Any]]:
    """The distribution, by which scanners choose the advisories."""
    name, version = inventory.system
    if not name:
        return []
    of_version = {"version": version} if version else {}
    supplier = {"supplier": {"name": name}}
    ref = f"os:{name}@{version}"
    return [{"type": "operating-system", "bom-ref": ref, "name": name, **of_version, **supplier}]


def _dependency_graph(inventory: Inventory) -> Iterator[dict[str, Any]]:
    refs = {(each.kind, each.name): package_url(each, inventory.system) for each in inventory.packages}
    for package in inventory.packages:
        needs = sorted(refs[package.kind, each] for each in package.needs)
        yield {"ref": package_url(package, inventory.system), "dependsOn": needs}


def _dependency_completeness(inventory: Inventory) -> Iterator[dict[str, Any]]:
    """The packages whose dependencies are all listed: a package that the image lacks is in no graph."""
    for aggregate, complete in (("complete", True), ("incomplete", False)):
        urls = (
            package_url(each, inventory.system) for each in inventory.packages if each.complete is complete
        )
        if refs := sorted(urls):
            yield {"aggregate": aggregate, "dependencies": refs}


def _creator(inventory: Inventory) -> dict[str, Any]:
    """The document's creator: the image's vendor and authors, by its labels."""
    made: dict[str, Any] = {"manufacturer": {"name": inventory.vendor}} if inventory.vendor else {}
    name, address = contact_of(inventory.authors)
    if name or address:
        author = {"name": name, "email": address}
        made["authors"] = [{key: value for key, value in author.items() if value}]
    return made


def _supplier_contact(package: Package) -> dict[str, Any]:
    name, address = contact_of(package.maintainer)
    contact = {"contact": [{"email": address}]} if address else {}
    return {"supplier": {"name": name or address, **contact}} if name or address else {}


def _component(inventory: Inventory, package: Package) -> dict[str, Any]:
    url = package_url(package, inventory.system)
    files = [_file_component(inventory, path) for path in package.files]
    return {
        "type": "library",
        "bom-ref": url,
        "name": package.name,
        "version": package.version,
        "purl": url,
        **_supplier_contact(package),
        **({"hashes": [{"alg": "SHA-256", "content": package.sha256}]} if package.sha256 else {}),
        **_component_licences(package.licence),
        **_source_properties(package),
        **({"components": files} if files else {}),
    }


def _source_properties(package: Package) -> dict[str, Any]:
    if not package.source:
        return {}
    return {"properties": [_property("source", source_of(package)), *_trivy_properties(package)]}


def _trivy_properties(package: Package) -> list[Mapping[str, str]]:
    """The source package for trivy, which reads it neither from the URL nor from names of others."""
    version, release, epoch = package.source_version, "", ""
    if package.kind == "deb":
        before, colon, after = version.partition(":")
        epoch, version = (before, after) if colon else ("", version)
        upstream, dash, revision = version.rpartition("-")
        version, release = (upstream, revision) if dash else (version, "")
    stated = {"Name": package.source, "Version": version, "Release": release, "Epoch": epoch}
    return [
        {"name": f"aquasecurity:trivy:Src{name}", "value": value} for name, value in stated.items() if value
    ]


def _component_licences(licence: Licence) -> dict[str, Any]:
    return {"licenses": [{"expression": licence.expression}]} if licence.expression else {}


def _file_component(inventory: Inventory, path: bytes) -> dict[str, Any]:
    file, name = inventory.files[path], text(path)
    properties = [_property("layer", str(file.layer))]
    if kind := kind_of(file):
        properties.append(_property("kind", kind))
    return {
        "type": "file",
        "bom-ref": f"file:{name}",
        "name": name,
        "hashes": [{"alg": "SHA-256", "content": file.digests["sha256"]}],
        "properties": properties,
    }


def _property(name: str, value: str) -> Mapping[str, str]:
    return {"name": _OURS + name, "value": value}
