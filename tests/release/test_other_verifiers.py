"""Other verifiers on images that a key signed: cosign as Debian 13 has it, skopeo with a policy.json."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sandwright import process
from sandwright.errors import HostError
from sandwright.registry.push import push
from sandwright.registry.reference import parse_reference
from sandwright.registry.repository import open_repository
from sandwright.registry.settings import RegistrySettings
from sandwright.release import bundle, signing
from sandwright.release import cosign as tags
from sandwright.release import publish as publishing
from sandwright.release.check import check_image
from sandwright.release.publish import Published, make_plan, publish
from sandwright.release.signing import load_key, load_verifier
from sandwright.release.statement import SIGNATURE
from sandwright.release.subject import Release
from support import debian13, gotools
from support.registryserver import Server, registry_server
from support.releases import released, write_key
from support.smallworld import small_world
from support.thorough import THOROUGH

pytestmark = [pytest.mark.needs("docker-registry"), pytest.mark.timeout(300)]

KINDS = ("p256", "ed25519")
PROVENANCE = "https://slsa.dev/provenance/v1"
ATTEMPT = 60.0
REPOSITORY = {"type": "matchRepository"}


Program = tuple[Path, ...]
"""A program, with the words that precede its arguments."""


def debian(name: str) -> Program:
    """A program of Debian 13; skips if it is unavailable."""
    try:
        root = debian13.unpacked(name, f"usr/bin/{name}")
    except HostError as error:
        if {"all", name} & set(os.environ.get("SANDWRIGHT_REQUIRE", "").split(",")):
            pytest.fail(str(error))
        pytest.skip(str(error))
    libraries = root / "usr/lib/x86_64-linux-gnu"
    loader = (libraries / "ld-linux-x86-64.so.2", Path("--library-path"), libraries)
    return *loader, root / "usr/bin" / name


@pytest.fixture(scope="module", params=[2, 3])
def cosign(request: pytest.FixtureRequest) -> Program:
    """Each version of cosign: cosign 2 searches tags, cosign 3 searches referrers."""
    if request.param == 3:
        return (gotools.require("cosign"),)
    found = process.find("cosign")
    return debian("cosign") if found is None or gotools.major(Path(found)) == 3 else (Path(found),)


@pytest.fixture(scope="module")
def skopeo(signed: Signed, tmp_path_factory: pytest.TempPathFactory) -> Program:
    """The installed skopeo, if it supports such signatures: Debian 12 builds it without them."""
    found = process.find("skopeo")
    if found is not None:
        place, own = tmp_path_factory.mktemp("skopeo") / "tried", (Path(found),)
        tried = _copied(own, f"{signed.name('p256')}:1", signed.public("p256"), place, signed.server.host)
        if "sigstore disabled" not in tried.stderr and "sigstoreSigned" not in tried.stderr:
            return own
    return debian("skopeo")


@dataclass(frozen=True)
class Signed:
    """An image in a registry, and the keys that signed it or did not."""

    server: Server
    release: Release
    keys: Path

    def name(self, kind: str) -> str:
        return f"{self.server.host}/{kind}/app"

    def public(self, kind: str) -> Path:
        return self.keys / f"{kind}.pub"


def bring(name: str, release: Release, private: Path) -> Published:
    key = load_key(str(private), environ={})
    with open_repository(parse_reference(name), RegistrySettings(), push=True) as repository:
        return publish(repository, make_plan(repository, release, key.verifier, ("1",)), key)


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Signed]:
    world, keys = small_world(tmp_path_factory.mktemp("world")), tmp_path_factory.mktemp("keys")
    release = released(world, world.build(platforms=["linux/amd64"]))
    with registry_server(tmp_path_factory.mktemp("registry")) as server:
        here = Signed(server, release, keys)
        for kind in KINDS:
            bring(here.name(kind), release, write_key(keys, kind, kind=kind)[0])
        write_key(keys, "other", kind="p256")
        yield here


def _cosign(program: Program, *words: object, home: Path) -> process.Result:
    common = ("--insecure-ignore-tlog=true", "--allow-http-registry")
    settings = {**os.environ, "HOME": str(home)}
    return process.run(*program, *map(str, words), *common, env=settings, timeout=ATTEMPT, check=False)


@pytest.mark.parametrize("kind", KINDS)
def test_cosign_verifies_a_signature(kind: str, cosign: Program, signed: Signed, tmp_path: Path) -> None:
    image = f"{signed.name(kind)}:1"
    found = _cosign(cosign, "verify", "--key", signed.public(kind), image, home=tmp_path)
    assert found, found.stderr
    documents = [each["critical"] for each in json.loads(found.text)]
    assert {each["image"]["docker-manifest-digest"] for each in documents} == {signed.release.root.digest}
    assert {each["type"] for each in documents} & {SIGNATURE, "cosign container image signature"}
    assert {each["identity"]["docker-reference"] for each in documents} <= {signed.name(kind), image}
    for manifest in signed.release.manifests.values():
        own = f"{signed.name(kind)}@{manifest.digest}"
        assert _cosign(cosign, "verify", "--key", signed.public(kind), own, home=tmp_path)
    refused = _cosign(cosign, "verify", "--key", signed.public("other"), image, home=tmp_path)
    assert not refused
    assert "invalid signature" in refused.stderr or "do not match threshold" in refused.stderr


def _with_keyid(payload: bytes, signature: bytes, hint: str) -> bytes:
    document = json.loads(bundle.write_bundle(payload, signature, hint))
    document["dsseEnvelope"]["signatures"][0]["keyid"] = hint
    return json.dumps(document).encode()


def test_what_was_signed_with_a_keyid(
    signed: Signed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """sandwright once wrote it: we verify it, cosign 3 doesn't, and the next publication repairs that."""
    name = f"{signed.server.host}/former/app"
    private, public = write_key(tmp_path, "former", kind="p256")
    with monkeypatch.context() as former:
        former.setattr(signing, "write_bundle", _with_keyid)
        for module in (publishing, tags):
            former.setattr(module, "has_keyid", lambda _: False)
        bring(name, signed.release, private)
    with open_repository(parse_reference(name), RegistrySettings()) as repository:
        place = tmp_path / "scratch"
        place.mkdir()
        found = list(check_image(repository, "1", load_verifier(str(public)), place))
    assert [str(each.verdict) for each in found if each.check == "signature"] == ["pass"], found
    program = (gotools.require("cosign"),)
    verifying = ("verify", "--key", public, f"{name}:1")
    assert "do not match threshold" in _cosign(program, *verifying, home=tmp_path).stderr
    assert bring(name, signed.release, private).sent
    assert _cosign(program, *verifying, home=tmp_path)
    assert bring(name, signed.release, private).sent == ()


@pytest.mark.parametrize("kind", KINDS)
def test_cosign_verifies_the_provenance(kind: str, cosign: Program, signed: Signed, tmp_path: Path) -> None:
    image = f"{signed.name(kind)}:1"
    words = ("verify-attestation", "--type", "slsaprovenance1")
    found = _cosign(cosign, *words, "--key", signed.public(kind), image, home=tmp_path)
    assert found, found.stderr
    statement = json.loads(base64.b64decode(json.loads(found.text)["payload"]))
    assert statement["predicateType"] == PROVENANCE
    assert signed.release.root.digest.endswith(statement["subject"][0]["digest"]["sha256"])
    assert not _cosign(cosign, *words, "--key", signed.public("other"), image, home=tmp_path)
    none = ("verify-attestation", "--type", "vuln", "--key", signed.public(kind), image)
    assert not _cosign(cosign, *none, home=tmp_path)


def _copied(
    program: Program, name: str, key: Path, directory: Path, host: str, **more: Any
) -> process.Result:
    """The result of skopeo, with Podman's library, on an image for which a policy requires a signature."""
    directory.mkdir()
    (directory / "registries.d").mkdir()
    attachments = f"docker:\n  {host}:\n    use-sigstore-attachments: true\n"
    (directory / "registries.d/own.yaml").write_text(attachments)
    rule = {"type": "sigstoreSigned", "keyPath": str(key), **more}
    policy = {"default": [{"type": "reject"}], "transports": {"docker": {host: [rule]}}}
    (directory / "policy.json").write_text(json.dumps(policy))
    options = ("--policy", directory / "policy.json", "--registries.d", directory / "registries.d")
    words = ("copy", "--src-tls-verify=false", "--override-arch=amd64", f"docker://{name}")
    # Without a directory of the user's own, skopeo looks for logins in /run/containers, which is root's.
    environ = {**os.environ, "XDG_RUNTIME_DIR": str(directory)}
    return process.run(
        *program, *options, *words, f"dir:{directory}/image", timeout=ATTEMPT, check=False, env=environ
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_policy_of_podman_s_lets_it_through(
    kind: str, skopeo: Program, signed: Signed, tmp_path: Path
) -> None:
    """The policy asks for the repository: like cosign's own, the signature names no tag."""
    host, name, key = signed.server.host, signed.name(kind), signed.public(kind)
    for number, image in enumerate((f"{name}:1", f"{name}@{signed.release.root.digest}")):
        place = tmp_path / str(number)
        found = _copied(skopeo, image, key, place, host, signedIdentity=REPOSITORY)
        assert found, found.stderr
    other = signed.public("other")
    refused = _copied(skopeo, f"{name}:1", other, tmp_path / "other", host, signedIdentity=REPOSITORY)
    assert not refused
    assert "signature" in refused.stderr


def test_a_policy_refuses_it_in_another_s_place(skopeo: Program, signed: Signed, tmp_path: Path) -> None:
    """The signature names the repository for which it was made."""
    signed.server.copy("p256/app", "moved/app")
    name, host, key = f"{signed.server.host}/moved/app:1", signed.server.host, signed.public("p256")
    moved = _copied(skopeo, name, key, tmp_path / "moved", host, signedIdentity=REPOSITORY)
    assert not moved
    assert "is not accepted" in moved.stderr


def test_signatures_of_others_stay_beside_ours(signed: Signed, tmp_path: Path) -> None:
    name = f"{signed.server.host}/several/app"
    first, second = (write_key(tmp_path, each, kind="p256")[0] for each in ("first", "second"))
    bring(name, signed.release, first)
    sent = bring(name, signed.release, second).sent
    assert sum("for cosign 2" in each for each in sent) == 6, "two signatures and four attestations"
    tag = f"{signed.release.root.digest.replace(':', '-')}.sig"
    with open_repository(parse_reference(name), RegistrySettings()) as repository:
        layers = json.loads(repository.manifest(tag).content)["layers"]
    assert len({each["annotations"]["dev.cosignproject.cosign/signature"] for each in layers}) == 2
    for each in (first, second):
        assert bring(name, signed.release, each).sent == ()


RATIFY_TYPE = "application/vnd.dev.cosign.artifact.sig.v1+json"


def _ratified(image: str, key: Path, home: Path) -> dict[str, Any]:
    """The report of Ratify on an image, with its verifier of cosign's signatures and a key."""
    home.mkdir()
    store = {"name": "oras", "cosignEnabled": True, "useHttp": True}
    policy = {"name": "configPolicy", "artifactVerificationPolicies": {"default": "any"}}
    verifier = {"name": "cosign", "artifactTypes": RATIFY_TYPE, "key": str(key), "rekorURL": ""}
    settings = {
        "store": {"version": "1.0.0", "plugins": [store]},
        "policy": {"version": "1.0.0", "plugin": policy},
        "verifier": {"version": "1.0.0", "plugins": [verifier]},
    }
    (home / "config.json").write_text(json.dumps(settings))
    words = ("verify", "-c", home / "config.json", "-s", image)
    environ = {**os.environ, "HOME": str(home), "RATIFY_CONFIG": str(home)}
    said = process.run(gotools.require("ratify"), *words, env=environ, timeout=ATTEMPT)
    return dict(json.loads(said.text))


@pytest.mark.skipif(not THOROUGH, reason="only `invoke test --thorough` has time to build Ratify")
@pytest.mark.timeout(3000)
def test_ratify(signed: Signed, tmp_path: Path) -> None:
    """Ratify searches the tags of cosign 2."""
    digest = signed.release.root.digest
    image = f"{signed.name('p256')}@{digest}"
    found = _ratified(image, signed.public("p256"), tmp_path / "own")
    assert found["isSuccess"], found
    assert [each["artifactType"] for each in found["verifierReports"]] == [RATIFY_TYPE]
    refused = _ratified(image, signed.public("other"), tmp_path / "other")
    assert not refused.get("isSuccess")
    assert "no valid signatures found" in json.dumps(refused)
    with open_repository(
        parse_reference(f"{signed.server.host}/bare/app"), RegistrySettings(), push=True
    ) as there:
        push(there, signed.release.image.graph, signed.release.image.open_blob, tags=["1"])
    bare = _ratified(f"{signed.server.host}/bare/app@{digest}", signed.public("p256"), tmp_path / "bare")
    assert not bare.get("isSuccess")
    assert "No verification results" in json.dumps(bare)
