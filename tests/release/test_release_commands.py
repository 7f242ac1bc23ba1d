"""The commands, against a registry with TLS and a login: build, publish, and verify-image by another user.

Tests of cli/images.py: the options of `build-images` reach the build.
Tests of cli/release.py.
Tests of release/prove.py.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandwright import process
from sandwright.cli.program import main
from sandwright.image.build import BuiltImage
from sandwright.image.remote import open_layout
from sandwright.registry.referrer import fallback_tag
from sandwright.verify.smoke.report import write_report
from sandwright.verify.verdict import ProbeFinding, Verdict
from support.registryserver import LOGIN, Server, Tls, make_certificates, registry_server
from support.releases import report_of, with_row, write_key
from support.sigstoreserver import ISSUER, sigstore, token
from support.standby import COMMAND as PROGRAM

pytestmark = [pytest.mark.needs("docker-registry", "openssl"), pytest.mark.timeout(300)]

CHECKS = ["signature", "image", "provenance", "documents", "sources", "SBOM", "evidence", "rebuild"]
IMAGES = ("--images", "images")


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, tls: Tls) -> Iterator[Server]:
    with registry_server(tmp_path_factory.mktemp("registry"), login=True, tls=tls) as running:
        yield running


@pytest.fixture
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("elsewhere")


@pytest.fixture
def access(place: Path, server: Server, tls: Tls) -> list[str]:
    """The options with which the registry accepts us."""
    entry = {"username": LOGIN[0], "password": LOGIN[1]}
    (place / "logins.json").write_text(json.dumps({"auths": {server.host: entry}}))
    return ["--ca-file", str(tls.authority), "--authfile", str(place / "logins.json")]


class Command:
    """The command line, in this process: a new Python for each would take most of the time."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: str, status: int = 0) -> str:
        """The output of a command, or its standard error when it fails with `status`."""
        self._capsys.readouterr()
        code = main(words)
        printed = self._capsys.readouterr()
        assert code == status, printed.err
        assert "Traceback" not in printed.err
        return (printed.err if status else printed.out).strip()


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)


def test_publish_and_verify_elsewhere(  # noqa: PLR0917 - fixtures
    place: Path,
    server: Server,
    access: list[str],
    elsewhere: Path,
    run: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = ("publish", "base", "app", f"{server.host}/team", "--key", "key.pem", *IMAGES, *access)
    planned = run(*words, "--dry-run")
    assert "team/app@sha256:" in planned
    assert planned.count("tag latest, which is new") == 2
    run("verify-image", f"{server.host}/team/app", "--key", "key.pub", *access, status=7)
    told = run(*words).splitlines()
    names = [f"{server.host}/team/{name}" for name in ("base", "app")]
    assert [line.partition("@")[0] for line in told[:2]] == names
    assert all("read back, tagged latest" in line for line in told[:2])
    again = run(*words).splitlines()
    assert all(line.endswith(": nothing has changed; it was read back") for line in again[:2])

    shutil.copy(place / "key.pub", elsewhere)
    monkeypatch.chdir(elsewhere)
    verify = ("verify-image", f"{server.host}/team/app", "--key", "key.pub", "--rebuild", *access)
    lines = process.run(*PROGRAM, *verify, timeout=120).text.splitlines()
    assert [line.split(": ")[:2] for line in lines] == [["pass", check] for check in CHECKS]
    digest = told[1].partition("@")[2].partition(": ")[0]
    assert lines[-1] == f"pass: rebuild: made again, it is {digest}"
    assert {path.name for path in elsewhere.iterdir()} == {"key.pub"}, "nothing is left"


def test_a_rebuild_without_the_mirror(
    place: Path, server: Server, access: list[str], run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"{server.host}/packages/app"
    words = ("publish", "app", f"{server.host}/packages", "--key", "key.pem", *IMAGES, *access)
    run(*words, "--packages")
    (place / "empty").mkdir()
    nowhere = ("--mirror", f"file://{place}/empty")
    for number, command in enumerate(
        [
            ("verify-image", name, "--key", "key.pub", "--rebuild"),
            ("build-images", "app", *IMAGES, "--frozen", "--no-smoke", "--packages", name),
        ]
    ):
        monkeypatch.setenv("SANDWRIGHT_CACHE", str(place / f"cache-{number}"))
        shutil.rmtree(place / "build", ignore_errors=True)
        run(*command, *nowhere, *access)
    digest = open_layout(place / "build/images/app").graph.root.descriptor.digest
    assert run("verify-image", f"{name}@{digest}", "--key", "key.pub", *access)
    monkeypatch.setenv("SANDWRIGHT_CACHE", str(place / "cache-without"))
    shutil.rmtree(place / "build")
    told = run("build-images", "app", *IMAGES, "--frozen", "--no-smoke", *nowhere, status=10)
    assert "no longer on" in told
    run("build-images", "--engine", "docker", "--packages", name, status=64)


def test_the_evidence_crosses_an_air_gap(
    place: Path, server: Server, access: list[str], run: Command
) -> None:
    run("publish", "app", f"{server.host}/one", "--key", "key.pem", *IMAGES, *access)
    run("pull-image", f"{server.host}/one/app", "--to", "carried", *access)
    checks = [["pass", check] for check in CHECKS if check != "rebuild"]
    verify = ("--key", "key.pub", "--name", "app")
    lines = run("verify-image", "carried", *verify).splitlines()
    assert [line.split(": ")[:2] for line in lines] == checks
    rebuilt = run("verify-image", "carried", *verify, "--rebuild").splitlines()
    assert rebuilt[-1].startswith("pass: rebuild: made again, it is sha256:")

    told = run("push-image", "carried", f"{server.host}/two/app:1", *access)
    assert "parts of its evidence" in told
    lines = run("verify-image", f"{server.host}/two/app:1", "--key", "key.pub", *access).splitlines()
    assert [line.split(": ")[:2] for line in lines] == checks
    assert run("push-image", "carried", f"{server.host}/two/app:1", *access).endswith("nothing has changed")
    repository = server.storage / "docker/registry/v2/repositories/two/app/_manifests/tags"
    assert {path.name.rpartition(".")[2] for path in repository.iterdir()} >= {"1", "sig", "att"}


def test_a_layout_is_verified_to_the_last_byte(
    place: Path, server: Server, access: list[str], run: Command
) -> None:
    run("publish", "app", f"{server.host}/flip", "--key", "key.pem", *IMAGES, *access)
    run("pull-image", f"{server.host}/flip/app", "--to", "carried", *access)
    verify = ("verify-image", "carried", "--key", "key.pub")
    assert "give the name of the image with --name" in run(*verify, status=64)
    run(*verify, "--name", "base", status=12)
    run("pull-image", f"{server.host}/flip/app", "--to", "bare", "--no-evidence", *access)
    assert "is not what" in run("verify-image", "bare", "--key", "key.pub", "--name", "app", status=12)
    source = open_layout(place / "carried")
    listed = source.attachments[fallback_tag(source.graph.root.descriptor.digest)]
    for graph in (source.graph, listed):
        for descriptor in (*(node.descriptor for node in graph.nodes), *graph.blobs):
            blob = place / "carried" / descriptor.path
            content = blob.read_bytes()
            blob.unlink()  # the cache has the same file
            blob.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
            assert main((*verify, "--name", "app")) != 0, descriptor
            blob.write_bytes(content)
    run(*verify, "--name", "app")


def test_without_a_key(place: Path, server: Server, access: list[str], run: Command) -> None:
    """An identity signs instead; a stand-in for Sigstore makes its certificate and its log entry."""
    with sigstore() as services:
        (place / "trust.json").write_text(json.dumps(services.trust()))
        (place / "token").write_text(token("https://forge.example/release"))
        signing = ("--keyless", "--token", "token", "--trust", "trust.json", *IMAGES, *access)
        words = ("publish", "base", f"{server.host}/keyless", *signing)
        assert "read back, tagged latest" in run(*words)
        assert "nothing has changed; it was read back" in run(*words)
    who = ("--issuer", ISSUER, "--trust", "trust.json", *access)
    image = f"{server.host}/keyless/base"
    told = run("verify-image", image, "--identity", "https://forge.example/release", *who)
    assert f" is signed by https://forge.example/release ({ISSUER})" in told
    other = run("verify-image", image, "--identity", "https://forge.example/other", *who, status=12)
    assert "is not what https://forge.example/other" in other


def test_what_fails_is_told_and_the_command_fails(
    place: Path, server: Server, access: list[str], run: Command
) -> None:
    run("publish", "base", f"{server.host}/bad", "--key", "key.pem", *IMAGES, *access)
    write_key(place, "other")
    told = run("verify-image", f"{server.host}/bad/base", "--key", "other.pub", *access, status=12)
    assert f"{server.host}/bad/base is not what other.pub (" in told


def test_an_image_that_is_not_proved(
    place: Path, built: dict[str, BuiltImage], server: Server, access: list[str], run: Command
) -> None:
    """No byte is sent, not even of the proved image beside it."""
    findings = (ProbeFinding("read-only", Verdict.FAIL, "it was written"),)
    write_report(with_row(report_of(built), "app", findings=findings), place / "build")
    words = ("publish", "base", "app", f"{server.host}/red", "--key", "key.pem", *IMAGES, *access)
    told = run(*words, status=12)
    assert "app is not published:" in told
    assert "linux/amd64: smoke run under runc: fail: read-only: it was written" in told
    assert not (server.storage / "docker/registry/v2/repositories/red").exists()


def test_an_image_that_is_not_what_its_definition_makes(
    place: Path, server: Server, access: list[str], run: Command
) -> None:
    definition = place / "images/app/image.yaml"
    definition.write_text(definition.read_text().replace("A small image", "Another image"))
    told = run("publish", "app", f"{server.host}/old", "--key", "key.pem", *IMAGES, *access, status=11)
    assert "not the image that images/app makes now: it was made from something else" in told


def test_sbom(place: Path, run: Command) -> None:
    path = "build/release/app/amd64.cdx.json"
    assert run("sbom", "app", *IMAGES, "--platform", "linux/amd64").startswith(f"{path}: ")
    document = json.loads(run("sbom", "app", *IMAGES, "--format", "spdx", "--to", "-"))
    assert document["spdxVersion"] == "SPDX-2.3"
    words = ("sbom", "app", *IMAGES, "--platform", "linux/amd64", "--check")
    assert run(*words) == f"{path}: fits app linux/amd64: 26 files"
    document = json.loads((place / path).read_bytes())
    document["components"].pop()
    (place / path).write_text(json.dumps(document))
    told = run(*words, status=8)
    assert f"{path}: it differs from the image:" in told
    assert ": in the image, and not in the SBOM" in told


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["publish", "app", "{host}/x"], 64, "--key is needed"),
        (["publish", "--key", "key.pem"], 64, "name the images and the destination"),
        (["publish", "{host}/x", "--key", "key.pem"], 64, "name the images and the destination"),
        (["publish", "app", "base", "--key", "key.pem"], 64, "'base' does not name a registry"),
        (
            ["publish", "none", "{host}/x", "--key", "key.pem"],
            64,
            "there is no image 'none'; there is base, app",
        ),
        (
            ["publish", "app", "{host}/x", "--key", "none.pem"],
            13,
            "none.pem: cannot read the key: No such file",
        ),
        (["publish", "app", "{host}/x", "--key", "key.pub"], 64, "key.pub: not a private key in PEM"),
        (["publish", "app", "{host}/x", "--key", "key.pem", "--tag", "a b"], 64, "'a b' cannot be a tag"),
        (
            ["publish", "app", "{host}/x", "--key", "key.pem", "--require", "runsc"],
            12,
            "under runsc, which is required",
        ),
        (
            ["publish", "app", "{host}/x", "--key", "key.pem", "--matrix", "gvisor"],
            12,
            "matrix of gvisor, which is required: nothing was proved",
        ),
        (
            ["publish", "app", "{host}/x", "--key", "key.pem", "--output", "none"],
            64,
            "image 'app' is not built: no none/images/app",
        ),
        (["publish", "app", "{host}/x", "--key", "key.pem", "--authfile", "none"], 7, "it wants a login"),
        (["sbom", "app", "--format", "other"], 64, "no format 'other'; there is cyclonedx, spdx"),
        (["sbom", "app", "--platform", "linux/arm"], 64, "is not built for linux/arm, only for linux/amd64"),
        (["sbom", "none"], 64, "there is no image 'none'"),
        (
            ["sbom", "base", "--check"],
            13,
            ": No such file or directory; write it with 'sandwright sbom base'",
        ),
        (["publish", "app", "{host}/x", "--key", "key.pem", "--keyless"], 64, "either --key or --keyless"),
        (
            ["publish", "app", "{host}/x", "--key", "key.pem", "--token", "x"],
            64,
            "--token belongs to --keyless",
        ),
        (["verify-image", "{host}/x"], 64, "--key is needed"),
        (["verify-image", "{host}/x", "--identity", "a@b"], 64, "--identity with --issuer"),
        (
            ["verify-image", "{host}/x", "--key", "key.pub", "--issuer", "x"],
            64,
            "either --key, or --identity",
        ),
        (["verify-image", "{host}/x", "--key", "key.pem"], 64, "this is a private key"),
        (["verify-image", "{host}/X", "--key", "key.pub"], 64, "'X' cannot name a repository"),
        (["attest-image", "app", "--method", "bwrap"], 64, "'bwrap' does not run on the image's own root"),
    ],
)
def test_what_is_refused(  # noqa: PLR0917 - fixtures and a table
    place: Path,
    server: Server,
    access: list[str],
    run: Command,
    words: list[str],
    status: int,
    message: str,
) -> None:
    given = [word.format(host=server.host) for word in words]
    if given[0] in ("publish", "sbom"):
        given += IMAGES
    if given[0] in ("publish", "verify-image"):
        given += access[:2] if "--authfile" in given else access
    assert message in run(*given, status=status)
    assert not (server.storage / "docker/registry/v2/repositories/x").exists()
