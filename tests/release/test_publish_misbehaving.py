"""Registries that refuse, lose, lie and have no referrers, in the middle of a publication.

Each fault is reported clearly, no tag is moved, and once the registry works a second run completes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandwright.errors import SandwrightError
from sandwright.registry.failure import Denied, NotFound, RegistryError, Unavailable, WrongContent
from sandwright.registry.reference import parse_reference
from sandwright.registry.referrer import fallback_tag
from sandwright.registry.repository import open_repository
from sandwright.registry.retries import RetryPolicy
from sandwright.registry.settings import RegistrySettings
from sandwright.release.check import check_image
from sandwright.release.publish import Published, make_plan, publish
from sandwright.release.signing import SigningKey
from sandwright.release.subject import Release
from sandwright.verify.verdict import ProbeFinding, Verdict
from support.releases import released
from support.smallworld import small_world
from support.standin import Fault, Handler, StandIn, answer, cut, error, honest, listing, stand_in

pytestmark = pytest.mark.timeout(120)

QUICK = RegistrySettings(patience=RetryPolicy(reach=10.0, attempts=2, pause=0.01, longest=0.05))
INDEX = "application/vnd.oci.image.index.v1+json"


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    world = small_world(tmp_path_factory.mktemp("world"))
    return released(world, world.build(platforms=["linux/amd64"]))


@pytest.fixture
def registry() -> Iterator[StandIn]:
    with stand_in() as server:
        yield server


def bring(registry: StandIn, release: Release, key: SigningKey) -> Published:
    reference = parse_reference(f"{registry.host}/a/b:1")
    with open_repository(reference, QUICK, push=True) as repository:
        return publish(repository, make_plan(repository, release, key.verifier, ["1"]), key)


def checked(registry: StandIn, key: SigningKey, scratch: Path) -> list[ProbeFinding]:
    with open_repository(parse_reference(f"{registry.host}/a/b:1"), QUICK) as repository:
        return list(check_image(repository, "1", key.verifier, scratch, name="app"))


def test_with_the_referrers_api(registry: StandIn, release: Release, key: SigningKey, tmp_path: Path) -> None:
    registry.fault("/referrers/", listing)
    assert bring(registry, release, key).tagged == ("1",)
    others = (".sig", ".att")  # tags of cosign 2
    stand_ins = [tag for tag in registry.content.tags if not tag.endswith(others)]
    assert stand_ins == ["1"], "no tag stands in for the API"
    assert bring(registry, release, key) == Published(release.root.digest, (), ())
    assert {each.verdict for each in checked(registry, key, tmp_path)} == {Verdict.PASS}


def test_without(registry: StandIn, release: Release, key: SigningKey, tmp_path: Path) -> None:
    registry.fault("/referrers/", error(405, "UNSUPPORTED"))
    bring(registry, release, key)
    manifest = release.manifests["linux/amd64"].digest
    ours = {tag for tag in registry.content.tags if not tag.endswith((".sig", ".att"))}
    assert ours == {"1", fallback_tag(release.root.digest), fallback_tag(manifest)}
    assert {each.verdict for each in checked(registry, key, tmp_path)} == {Verdict.PASS}


def swallow(handler: Handler) -> bool:
    """Accept an upload, report success, and lose it."""
    if handler.command != "PUT":
        return False
    digest = handler.path.partition("digest=")[2].replace("%3A", ":")
    handler.reply(201, Docker_Content_Digest=digest)
    return True


def swallow_manifest(handler: Handler) -> bool:
    """Accept a manifest, report success, and lose it."""
    if handler.command != "PUT":
        return False
    handler.reply(201)
    return True


OTHER = f"sha256:{'0' * 64}"
FAULTS: dict[str, tuple[str, Fault, type[SandwrightError], str]] = {
    "401 to uploads": ("POST .*/uploads/", error(401, "UNAUTHORIZED"), Denied, "push blob sha256:.*401"),
    "403 to uploads": (
        "POST .*/uploads/",
        error(403, "DENIED", "read only"),
        Denied,
        "403 Forbidden.*read only",
    ),
    "404 to uploads": (
        "POST .*/uploads/",
        error(404, "NAME_UNKNOWN"),
        NotFound,
        "push blob .*404.*NAME_UNKNOWN",
    ),
    "405 to manifests": ("PUT .*/manifests/", error(405, "UNSUPPORTED"), RegistryError, "put manifest .*405"),
    "429 to everything": ("HEAD .*", error(429, "TOOMANYREQUESTS"), Unavailable, "429"),
    "500 to manifests": (
        "PUT .*/manifests/",
        error(500, "UNKNOWN"),
        Unavailable,
        "put manifest sha256:.*500",
    ),
    "503 to blobs": ("HEAD .*/blobs/", error(503, "UNAVAILABLE"), Unavailable, "blob sha256:.*503"),
    "403 to referrers": ("GET .*/referrers/", error(403, "DENIED"), Denied, "referrers of sha256:.*403"),
    "403 to the list": (
        "PUT .*/manifests/sha256-",
        error(403, "DENIED"),
        Denied,
        "put manifest sha256-.*403",
    ),
    "403 to the tag": ("PUT .*/manifests/1$", error(403, "DENIED"), Denied, "put manifest 1: 403"),
    "the tag is cut off": ("PUT .*/manifests/1$", cut, Unavailable, "put manifest 1: no whole answer"),
    "uploads are lost": ("PUT .*/blobs/uploads/", swallow, NotFound, "it was pushed, and is not there"),
    "manifests are lost": (
        "PUT .*/manifests/sha256:",
        swallow_manifest,
        NotFound,
        "manifest sha256:.*404",
    ),
    "another digest is stored": (
        "PUT .*/manifests/",
        answer(201, Docker_Content_Digest=OTHER),
        WrongContent,
        f"it stored {OTHER} in place of sha256:",
    ),
    "the tag names another": (
        "PUT .*/manifests/1$",
        answer(201),
        NotFound,
        "manifest 1: 404",
    ),
    "no referrer is ever listed": (
        "GET .*/referrers/",
        answer(200, b'{"schemaVersion": 2, "manifests": []}', Content_Type=INDEX),
        WrongContent,
        "was attached, and is not listed",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_it_fails_clearly_and_is_completed(
    registry: StandIn, release: Release, key: SigningKey, name: str
) -> None:
    pattern, fault, kind, message = FAULTS[name]
    registry.fault(pattern, fault)
    with pytest.raises(kind, match=f"(?s){registry.host}.*{message}"):
        bring(registry, release, key)
    assert "1" not in registry.content.tags
    registry.rules.clear()
    assert bring(registry, release, key).tagged == ("1",)


@pytest.mark.parametrize("status", [429, 503])
def test_what_passes_is_waited_for(
    registry: StandIn, release: Release, key: SigningKey, tmp_path: Path, status: int
) -> None:
    registry.fault("PUT .*/manifests/", error(status, "BUSY"), honest)
    registry.fault("GET .*/manifests/", error(status, "BUSY"), honest)
    assert bring(registry, release, key).tagged == ("1",)
    assert {each.verdict for each in checked(registry, key, tmp_path)} == {Verdict.PASS}


def other_bytes(handler: Handler) -> bool:
    """Answer with unexpected bytes."""
    if handler.command != "GET":
        return False
    body = handler.server.content.blobs.get(handler.path.rpartition("/")[2], b"")
    return answer(200, bytes(len(body)), Content_Type="application/octet-stream")(handler)


@pytest.mark.parametrize(
    ("pattern", "fault", "check", "said"),
    [
        ("GET .*/blobs/", other_bytes, "signature", "the received content has the digest sha256:"),
        ("GET .*/referrers/", answer(200, b"{}", Content_Type=INDEX), "signature", "referrers of sha256:"),
        ("GET .*/manifests/sha256-", error(404, "MANIFEST_UNKNOWN"), "signature", "there is no signature by"),
    ],
)
def test_checking_what_a_registry_makes_up(  # noqa: PLR0917 - fixtures and a table
    registry: StandIn,
    release: Release,
    key: SigningKey,
    tmp_path: Path,
    pattern: str,
    fault: Fault,
    check: str,
    said: str,
) -> None:
    bring(registry, release, key)
    registry.fault(pattern, fault)
    found = checked(registry, key, tmp_path)
    (failed,) = (each for each in found if each.verdict is Verdict.FAIL)
    assert (failed.check, said in failed.detail) == (check, True), failed.detail


@pytest.mark.parametrize(("status", "kind"), [(401, Denied), (403, Denied), (500, Unavailable)])
def test_a_registry_that_refuses_is_no_verdict(  # noqa: PLR0917 - fixtures and a table
    registry: StandIn,
    release: Release,
    key: SigningKey,
    tmp_path: Path,
    status: int,
    kind: type[SandwrightError],
) -> None:
    """An image that cannot be fetched gets no verdict: that is a separate error."""
    bring(registry, release, key)
    registry.fault("GET .*/blobs/", error(status, "NO"))
    with pytest.raises(kind, match=f"blob sha256:.*{status}"):
        checked(registry, key, tmp_path)
