"""in-toto statements (attestations), version 1: a predicate about things named by their digests. Pure.

Format: in-toto attestation framework, spec/v1/statement.md. Ours are canonical JSON, so that the same claim
is the same bytes, and a second publication can skip it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sandwright.documents.fields import STATEMENT
from sandwright.documents.strictjson import parse_json
from sandwright.errors import ArchiveRefused
from sandwright.rootfs.descriptor import canonical, mapping, sequence, strings

PAYLOAD_TYPE = "application/vnd.in-toto+json"
SIGNATURE = "https://sigstore.dev/cosign/sign/v1"
"""The predicate type of an image signature in cosign (since 3); the predicate is empty."""

PROVENANCE = "https://slsa.dev/provenance/v1"
TEST_RESULT = "https://in-toto.io/attestation/test-result/v0.1"
_STATEMENT = "https://in-toto.io/Statement/v1"


@dataclass(frozen=True)
class InTotoStatement:
    """A statement of in-toto. `subjects` maps digests (`sha256:…`) to names."""

    predicate_type: str
    subjects: Mapping[str, str]
    predicate: Mapping[str, Any]


def encode_statement(statement: InTotoStatement) -> bytes:
    """The statement's bytes."""
    return canonical(
        {
            "_type": _STATEMENT,
            "subject": [
                {"name": name, "digest": _digest_map(digest)} for digest, name in statement.subjects.items()
            ],
            "predicateType": statement.predicate_type,
            "predicate": statement.predicate,
        }
    )


def decode_statement(raw: bytes, where: str) -> InTotoStatement:
    """Read a statement. Raise ArchiveRefused, which begins with `where`, if it is malformed."""
    document = parse_json(raw, where, STATEMENT)
    if document.get("_type") != _STATEMENT:
        raise ArchiveRefused(f"{where}: not an in-toto statement of version 1")
    kind = document.get("predicateType")
    if not isinstance(kind, str):
        raise ArchiveRefused(f"{where}: predicateType is required")
    subjects = {}
    for number, each in enumerate(sequence(document.get("subject"), f"{where}: subject")):
        at = f"{where}: subject[{number}]"
        digests = strings(mapping(each, at).get("digest"), f"{at}.digest")
        subjects.update({f"{name}:{value}": str(each.get("name", "")) for name, value in digests.items()})
    return InTotoStatement(kind, subjects, mapping(document.get("predicate"), f"{where}: predicate"))


def resource(name: str, digest: str, **more: object) -> dict[str, Any]:
    """A resource descriptor of in-toto's: spec/v1/resource_descriptor.md."""
    return {"name": name, "digest": _digest_map(digest), **more}


def resource_digest(value: object, where: str) -> str:
    """The SHA-256 of a resource descriptor, as `sha256:…`. Raise ArchiveRefused where it has none."""
    found = strings(mapping(value, where).get("digest"), f"{where}.digest").get("sha256")
    if found is None:
        raise ArchiveRefused(f"{where}: it has no sha256")
    return f"sha256:{found}"


def resources(value: object, where: str) -> Sequence[Mapping[str, Any]]:
    """A list of resource descriptors."""
    listed = enumerate(sequence(value, where))
    return [mapping(each, f"{where}[{number}]") for number, each in listed]


def _digest_map(digest: str) -> dict[str, str]:
    algorithm, _, encoded = digest.partition(":")
    return {algorithm: encoded}
