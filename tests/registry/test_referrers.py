"""Documents attached to images: with the API for it, without it, and with a false claim of it.

Tests of registry/referrer.py: the fallback tag.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from sandwright.errors import ArchiveRefused
from sandwright.registry.failure import Denied, RegistryError, WrongContent
from sandwright.registry.graph import sha256_descriptor
from sandwright.registry.reference import parse_reference
from sandwright.registry.referrer import Referrer, fallback_tag, push_referrer, referrers
from sandwright.registry.repository import Repository, open_repository
from sandwright.registry.retries import RetryPolicy
from sandwright.registry.settings import RegistrySettings
from support.standin import Fault, StandIn, answer, error, listing, stand_in

pytestmark = pytest.mark.timeout(60)

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
SUBJECT = b'{"schemaVersion": 2, "mediaType": "%s", "config": {}, "layers": []}' % MANIFEST.encode()
DIGEST = f"sha256:{hashlib.sha256(SUBJECT).hexdigest()}"
KIND = "application/vnd.example.sbom"
QUICK = RetryPolicy(reach=2.0, attempts=3, pause=0.01, longest=0.1)


@pytest.fixture
def registry() -> Iterator[StandIn]:
    with stand_in() as server:
        server.content.manifests[DIGEST] = (MANIFEST, SUBJECT)
        yield server


def use(registry: StandIn, work: Any) -> Any:
    reference = parse_reference(f"{registry.host}/a/b:1")
    with open_repository(reference, RegistrySettings(patience=QUICK), push=True) as repository:
        return work(repository)


def attach(repository: Repository, content: bytes = b"{}") -> Referrer:
    subject = sha256_descriptor(MANIFEST, SUBJECT)
    return push_referrer(repository, subject, KIND, content, media_type="application/json")


def test_by_the_api(registry: StandIn) -> None:
    registry.fault("/referrers/", listing)
    made = use(registry, attach)
    found = use(registry, lambda it: referrers(it, DIGEST))
    assert [(each.descriptor.digest, each.artifact_type) for each in found] == [
        (made.descriptor.digest, KIND)
    ]
    assert registry.content.tags == {}, "no fall-back tag where it isn't needed"
    assert use(registry, lambda it: referrers(it, DIGEST, artifact_type="other")) == []


NO_API: dict[str, Fault] = {
    "404": error(404, "NOT_FOUND"),
    "405, as one large registry answers": error(405, "UNSUPPORTED"),
    "a page for people": answer(200, b"<html>", Content_Type="text/html"),
}


@pytest.mark.parametrize("name", NO_API)
def test_by_the_fall_back_tag(registry: StandIn, name: str) -> None:
    registry.fault("/referrers/", NO_API[name])
    # The registry acknowledges the subject all the same.
    first, second = use(registry, attach), use(registry, lambda it: attach(it, b"[]"))
    assert use(registry, attach) == first
    found = use(registry, lambda it: referrers(it, DIGEST))
    assert [each.descriptor.digest for each in found] == [first.descriptor.digest, second.descriptor.digest]
    assert list(registry.content.tags) == [fallback_tag(DIGEST)] == [DIGEST.replace(":", "-")]
    media_type, raw = registry.content.manifests[registry.content.tags[fallback_tag(DIGEST)]]
    assert media_type == INDEX
    assert [each["artifactType"] for each in json.loads(raw)["manifests"]] == [KIND, KIND]


def test_a_list_of_several_pages(registry: StandIn) -> None:
    def page(number: int, following: str = "") -> Fault:
        digest = f"sha256:{number:064x}"
        entry = {"mediaType": MANIFEST, "digest": digest, "size": 1, "artifactType": KIND}
        body = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry]}).encode()
        headers = {"Link": f'<{following}>; rel="next"'} if following else {}
        return answer(200, body, Content_Type=INDEX, **headers)

    registry.fault("/referrers/.*n=2", page(2))
    registry.fault("/referrers/", page(1, f"/v2/a/b/referrers/{DIGEST}?n=2"))
    found = use(registry, lambda it: referrers(it, DIGEST))
    assert [int(each.descriptor.digest[7:], 16) for each in found] == [1, 2]


def test_a_list_without_an_end(registry: StandIn) -> None:
    body = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": []}).encode()
    link = f'</v2/a/b/referrers/{DIGEST}>; rel="next"'
    registry.fault("/referrers/", answer(200, body, Content_Type=INDEX, Link=link))
    with pytest.raises(RegistryError, match="the list has more than 50 pages"):
        use(registry, lambda it: referrers(it, DIGEST))


def test_the_pages_of_a_list_are_bounded_together(registry: StandIn) -> None:
    """The list under the fallback tag has this limit, too: 50 pages of 4 MiB took a gigabyte of memory."""
    entry = {"mediaType": MANIFEST, "digest": DIGEST, "size": 1, "annotations": {"a": "x" * (3 << 20)}}
    body = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry]}).encode()
    link = f'</v2/a/b/referrers/{DIGEST}?n=2>; rel="next"'
    registry.fault("/referrers/.*n=2", answer(200, body, Content_Type=INDEX))
    registry.fault("/referrers/", answer(200, body, Content_Type=INDEX, Link=link))
    with pytest.raises(RegistryError, match=r"referrers of .*: the list is longer than 4 MiB"):
        use(registry, lambda it: referrers(it, DIGEST))


def test_what_was_attached_is_never_listed(registry: StandIn) -> None:
    body = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": []}).encode()
    registry.fault("/referrers/", answer(200, body, Content_Type=INDEX))
    with pytest.raises(WrongContent, match="was attached, and is not listed"):
        use(registry, attach)


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"{}",
        b'{"schemaVersion": 2, "manifests": [{}]}',
        b'{"schemaVersion": 2, "manifests": [], "layers": []}',
    ],
)
def test_a_list_that_is_none(registry: StandIn, body: bytes) -> None:
    registry.fault("/referrers/", answer(200, body, Content_Type=INDEX))
    with pytest.raises(ArchiveRefused, match=f"registry {registry.host}, repository a/b: referrers of"):
        use(registry, lambda it: referrers(it, DIGEST))


def test_a_refusal_is_not_taken_for_no_api(registry: StandIn) -> None:
    registry.fault("/referrers/", error(403, "DENIED"))
    with pytest.raises(Denied):
        use(registry, lambda it: referrers(it, DIGEST))
    assert registry.content.tags == {}
