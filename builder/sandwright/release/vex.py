"""Statements about vulnerabilities of an image: `vex.yaml` beside its definition, published as OpenVEX 0.2.0.

Format: https://github.com/openvex/spec, OPENVEX-SPEC.md. A document is about one platform's manifest. Its
products are that image; the packages are subcomponents, with the package URLs that the SBOM has.
"""

import datetime
import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from sandwright.documents.checks import DISTINCT, NONEMPTY_LIST, in_range, matching
from sandwright.documents.decode import decode
from sandwright.documents.document import MAX_BYTES
from sandwright.documents.model import ValueCheck
from sandwright.documents.yaml import parse_yaml
from sandwright.errors import HostError, IntegrityError
from sandwright.image.fields import Line
from sandwright.reading import quoting_no_link, read_start
from sandwright.release.packageurl import parse_package_url
from sandwright.rootfs.descriptor import canonical, mapping, sequence

FILE = "vex.yaml"
PREDICATE = "https://openvex.dev/ns"
"""The predicate type: `cosign verify-attestation --type openvex`."""
_CONTEXT = "https://openvex.dev/ns/v0.2.0"

Status = Literal["not_affected", "affected", "fixed", "under_investigation"]
Justification = Literal[
    "component_not_present",
    "vulnerable_code_not_present",
    "vulnerable_code_not_in_execute_path",
    "vulnerable_code_cannot_be_controlled_by_adversary",
    "inline_mitigations_already_exist",
]


def _check_date(text: object) -> datetime.date:
    if isinstance(text, datetime.date) and not isinstance(text, datetime.datetime):
        return text
    try:
        return datetime.date.fromisoformat(str(text))
    except ValueError:
        raise ValueError(f"must be a date, like 2027-01-31, not {text!r}") from None


Date = Annotated[datetime.date, ValueCheck(_check_date, {"type": "string", "format": "date"}, raw=True)]
VulnerabilityId = Annotated[
    str, matching(r"[A-Z][A-Za-z0-9]*(?:-[A-Za-z0-9]+)+", "a name like CVE-2026-1234")
]
ProductUrl = Annotated[
    str, matching(r"pkg:[a-z]+/[A-Za-z0-9.+_~%@/:?=&-]+", "a package URL, like pkg:deb/debian/curl")
]


@dataclass(frozen=True, kw_only=True)
class VexStatement:
    """A statement about the effect of a vulnerability on packages of an image."""

    vulnerability: VulnerabilityId
    aliases: Annotated[tuple[VulnerabilityId, ...], DISTINCT] = ()
    products: Annotated[tuple[ProductUrl, ...], NONEMPTY_LIST, DISTINCT]
    """Packages or source packages by URL. Without a version, every version; qualifiers narrow it down."""
    status: Status
    justification: Justification | None = None
    """The reason why it is not affected."""
    impact: Line | None = None
    """The same in words."""
    action: Line | None = None
    """The action to take where the product is affected."""
    expires: Date
    """The first day on which the statement is an error, so that it is looked at again."""

    def faults(self) -> Iterator[str]:
        """Violations of requirements that the schema does not check."""
        if self.status == "not_affected" and self.justification is None and self.impact is None:
            yield "status 'not_affected' needs a 'justification' or an 'impact'"
        if self.status != "not_affected" and self.justification is not None:
            yield f"a 'justification' is for status 'not_affected', not '{self.status}'"
        if self.status == "affected" and self.action is None:
            yield "status 'affected' needs an 'action'"


@dataclass(frozen=True, kw_only=True)
class Vex:
    """A `vex.yaml`."""

    schema_version: Literal[1] = field(metadata={"key": "schema"})
    author: Line
    """The author of the statements."""
    updated: Date
    """The date of the file's last change: the document's time."""
    version: Annotated[int, in_range(1, 2**31)] = 1
    """To be raised with each change."""
    statements: Annotated[tuple[VexStatement, ...], NONEMPTY_LIST]


def load_vex(path: Path) -> Vex:
    """Read a `vex.yaml`. Raise DocumentError with all its faults, HostError when it can't be read."""
    try:
        raw = read_start(path, size=MAX_BYTES + 1)
    except OSError as error:
        raise HostError(f"cannot read {path}: {error.strerror}") from None
    with quoting_no_link(path, str(path)):
        source = parse_yaml(raw, file=str(path))
        vex = decode(Vex, source)
        statements = enumerate(vex.statements)
        source.refuse([(("statements", index), each) for index, one in statements for each in one.faults()])
        return vex


def check_expiry(vex: Vex, today: datetime.date, where: str) -> None:
    """Raise IntegrityError for statements that have expired."""
    expired = [f"{each.vulnerability} on {each.expires}" for each in vex.statements if each.expires <= today]
    if expired:
        raise IntegrityError(f"{where}: expired: {', '.join(expired)}; look at them again, or remove them")


@dataclass(frozen=True)
class AppliedStatement:
    """A statement with the packages of an image that it is about, by the URLs of its SBOM."""

    statement: VexStatement
    packages: tuple[str, ...]


def apply_vex(vexes: Sequence[Vex], packages: Collection[str]) -> list[AppliedStatement]:
    """The statements about packages of an image, each package's first for a vulnerability.

    `vexes` are those of an image and its bases, the image's first. Of `component_not_present` the products
    stay as they are.
    """
    found = []
    decided: set[tuple[str, str]] = set()
    for statement in (each for vex in vexes for each in vex.statements):
        absent = statement.justification == "component_not_present"
        urls = statement.products if absent else _matching_packages(statement, packages)
        fresh = tuple(url for url in urls if (statement.vulnerability, url) not in decided)
        decided.update((statement.vulnerability, url) for url in fresh)
        if fresh:
            found.append(AppliedStatement(statement, fresh))
    return found


def check_products(vex: Vex, packages: Collection[str], where: str) -> None:
    """Raise IntegrityError for statements about packages that no platform of the image has."""
    for statement in vex.statements:
        if statement.justification != "component_not_present" and not _matching_packages(statement, packages):
            products = ", ".join(statement.products)
            raise IntegrityError(f"{where}: {statement.vulnerability}: the image has no package {products}")


def _matching_packages(statement: VexStatement, packages: Iterable[str]) -> tuple[str, ...]:
    products = [parse_package_url(each) for each in statement.products]
    parsed = ((url, parse_package_url(url)) for url in sorted(packages))
    return tuple(url for url, package in parsed if any(each.matches(package) for each in products))


def openvex(vexes: Sequence[Vex], image: str, packages: Collection[str]) -> dict[str, Any]:
    """The OpenVEX document about the image with the package URL `image`. `vexes` as for `apply_vex`."""
    statements = [_openvex_statement(each, image) for each in apply_vex(vexes, packages)]
    content: dict[str, Any] = {
        "author": vexes[0].author,
        "timestamp": f"{max(each.updated for each in vexes)}T00:00:00Z",
        "version": sum(each.version for each in vexes),
        "statements": statements,
    }
    identifier = hashlib.sha256(canonical(content)).hexdigest()
    return {"@context": _CONTEXT, "@id": f"urn:sandwright:vex:{identifier}", **content}


def summarize_openvex(documents: Sequence[Mapping[str, Any]], where: str) -> str:
    """The statements of the newest document: `CVE-2026-1 not_affected, CVE-2026-2 fixed`.

    Raise ArchiveRefused, which begins with `where`, for a document that is not OpenVEX.
    """
    newest = max(documents, key=lambda each: (str(each.get("timestamp")), str(each.get("version"))))
    found = []
    for number, each in enumerate(sequence(newest.get("statements"), f"{where}: statements")):
        at = f"{where}: statements[{number}]"
        name = mapping(mapping(each, at).get("vulnerability"), f"{at}: vulnerability").get("name")
        found.append(f"{name} {each.get('status')}")
    return ", ".join(found)


def _openvex_statement(applied: AppliedStatement, image: str) -> dict[str, Any]:
    statement = applied.statement
    names = {"name": statement.vulnerability, "aliases": list(statement.aliases)}
    stated = {
        "justification": statement.justification,
        "impact_statement": statement.impact,
        "action_statement": statement.action,
    }
    return {
        "vulnerability": {key: value for key, value in names.items() if value},
        "products": [{"@id": image, "subcomponents": [{"@id": url} for url in applied.packages]}],
        "status": statement.status,
        **{key: value for key, value in stated.items() if value is not None},
    }
