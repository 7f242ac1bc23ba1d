"""The commands: push-image, pull-image, and the output of lock-images and build-images about a base in a
registry.

Tests of cli/registries.py.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from sandwright import process
from sandwright.errors import CommandFailed
from sandwright.host import collect_host
from sandwright.process import Result
from support import alpinelike
from support.layouts import HELLO, INDEX, Layout
from support.registryserver import LOGIN, Server, Tls, make_certificates, registry_server
from support.standby import COMMAND as SANDWRIGHT
from support.tars import archive, file, folder

pytestmark = [pytest.mark.needs("docker-registry"), pytest.mark.timeout(120)]

IMAGE = """\
schema: 1
description: On a base from a registry.
base: {{registry: "{reference}"}}
platforms: [{platform}]
files: [{{path: /etc/more, content: x}}]
smoke: {{programs: [[sh]]}}
"""


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory with a separate cache and without logins."""
    monkeypatch.delenv("SANDWRIGHT_BUILD", raising=False)
    monkeypatch.setenv("SANDWRIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def layout(path: Path, *more: bytes) -> Path:
    made = Layout(path)
    accounts = archive(folder(b"etc"), file(b"etc/passwd", alpinelike.PASSWD))
    architecture = collect_host().platform.partition("/")[2]
    image = made.image(HELLO, accounts, *more, arch=architecture)
    (path / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [image]}))
    return path


def run(*words: str) -> Result:
    return process.run(*SANDWRIGHT, *words, timeout=60)


def refused(*words: str) -> tuple[int | None, str]:
    with pytest.raises(CommandFailed) as caught:
        run(*words)
    return caught.value.status, caught.value.stderr.strip()


def test_there_and_back(server: Server, world: Path) -> None:
    layout(world / "layout")
    target = f"{server.host}/by/command:1"
    told = run("push-image", "layout", target, "--tag", "stable").text
    name, _, rest = told.partition(": ")
    assert name.startswith(f"{server.host}/by/command@sha256:")
    assert rest == "sent 4 of 4 parts, tagged 1, stable"
    assert run("push-image", "layout", target).text == f"{name}: nothing has changed"
    assert run("pull-image", f"{server.host}/by/command:stable").text == f"build/pulled/by-command: {name}"
    names = {path.name for path in (world / "build/pulled/by-command/blobs/sha256").iterdir()}
    assert names == {path.name for path in (world / "layout/blobs/sha256").iterdir()}
    assert run("pull-image", name, "--to", "again").text == f"again: {name}"


def test_a_platform_that_a_lone_image_is_not_for(server: Server, world: Path) -> None:
    layout(world / "layout")
    target = f"{server.host}/by/lone:1"
    run("push-image", "layout", target)
    own = collect_host().platform
    other = "linux/arm64" if own == "linux/amd64" else "linux/amd64"
    run("pull-image", target, "--to", "own", "--platform", own)
    status, told = refused("pull-image", target, "--to", "other", "--platform", other)
    assert status == 64
    assert f"is not made for {other}, only for {own}" in told
    assert not (world / "other").exists()


def test_an_index_without_images(server: Server, world: Path) -> None:
    made = Layout(world / "layout")
    made.index(made.document({"schemaVersion": 2, "mediaType": INDEX, "manifests": []}, INDEX))
    target = f"{server.host}/by/none:1"
    run("push-image", "layout", target)
    status, told = refused("pull-image", target)
    assert (status, "is an index without images" in told) == (64, True)
    assert not (world / "build").exists()


@pytest.mark.needs("openssl")
def test_a_registry_with_tls_and_a_login(world: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    tls: Tls = make_certificates(tmp_path_factory.mktemp("certificates"))
    layout(world / "layout")
    with registry_server(tmp_path_factory.mktemp("guarded"), login=True, tls=tls) as guarded:
        words = ("push-image", "layout", f"{guarded.host}/a:1", "--ca-file", str(tls.authority))
        status, told = refused(*words)
        assert status == 7
        assert "401 Unauthorized: it wants a login, and there is none for" in told
        entry = {"username": LOGIN[0], "password": LOGIN[1]}
        (world / "logins.json").write_text(json.dumps({"auths": {guarded.host: entry}}))
        assert "sent 4 of 4 parts" in run(*words, "--authfile", "logins.json").text
        status, told = refused(*words[:3], "--authfile", "logins.json")
        assert (status, "its certificate is not good" in told) == (7, True)


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["push-image", "nothing", "h.example/a:1"], 64, "there is no image 'nothing'"),
        (["push-image", "layout", "h.example/A:1"], 64, "'A' cannot name a repository"),
        (
            ["push-image", "layout", "h.example/a@sha256:" + "0" * 64],
            64,
            "push to a tag, not to a digest: the image determines its digest",
        ),
        (["push-image", "layout", "127.0.0.1:1/a:1"], 7, "cannot reach registry"),
        (["push-image", "layout", "127.0.0.1:1/a:1", "--tag", "a b"], 64, "'a b' cannot be a tag"),
        (["push-image", "layout", "127.0.0.1:1/a:1", "--ref", "other"], 64, "no image 'other'"),
        (["pull-image", "127.0.0.1:1/a:1"], 7, "cannot reach registry 127.0.0.1:1"),
        (["pull-image", "h.example/a:1", "--insecure", "a/b"], 64, "'a/b' cannot be the host of a registry"),
        (["pull-image", "h.example/a:1", "--authfile", "none.json"], 64, "no such credentials file"),
        (
            ["pull-image", "127.0.0.1:1/a:1", "--ca-file", "none.pem"],
            64,
            "there is no such file of certificates",
        ),
    ],
)
def test_what_is_refused(world: Path, words: list[str], status: int, message: str) -> None:
    layout(world / "layout")
    code, told = refused(*words)
    assert code == status
    assert message in told
    assert "Traceback" not in told


def define(world: Path, reference: str) -> None:
    (world / "images/app").mkdir(parents=True, exist_ok=True)
    text = IMAGE.format(reference=reference, platform=collect_host().platform)
    (world / "images/app/image.yaml").write_text(text)


def test_lock_and_build(server: Server, world: Path) -> None:
    layout(world / "layout")
    run("push-image", "layout", f"{server.host}/base:1")
    define(world, f"{server.host}/base:1")
    assert "app: + " in run("lock-images", "--images", "images").stderr
    assert run("lock-images", "--images", "images", "--check").text == "app: the lock fits"
    told = run("build-images", "--images", "images", "--no-smoke", "--frozen").text
    assert "built app in build/images" in told


def test_newer_versions(server: Server, world: Path) -> None:
    run("push-image", str(layout(world / "layout")), f"{server.host}/moving:1")
    define(world, f"{server.host}/moving:1")
    outdated = ("lock-images", "--images", "images", "--outdated")
    status, told = refused(*outdated)
    assert (status, "no lock was checked" in told) == (12, True)
    run("lock-images", "--images", "images")
    lock = (world / "images/app/lock.json").read_bytes()
    assert run(*outdated).text == "there are no newer versions"
    newer = layout(world / "newer", archive(file(b"etc/newer", b"")))
    run("push-image", str(newer), f"{server.host}/moving:1")
    found = process.run(*SANDWRIGHT, *outdated, timeout=60, check=False)
    assert found.status == 12
    assert found.text.startswith(f"## app\n\n- `{server.host}/moving:1 sha256:")
    assert "newer versions exist for app" in found.stderr
    assert (world / "images/app/lock.json").read_bytes() == lock


def test_a_registry_that_is_not_there(world: Path) -> None:
    define(world, "127.0.0.1:1/base:1")
    line = "registry unreachable: cannot reach registry 127.0.0.1:1: "
    assert run("lock-images", "--images", "images").text.startswith(f"app: not locked: {line}")
    told = run("build-images", "--images", "images", "--no-smoke").text
    assert re.search("app +not built: registry unreachable", told)
    assert f"not built: app: {line}" in told
    frozen = run("build-images", "--images", "images", "--no-smoke", "--frozen").text
    assert "not built: app: not locked: image 'app'" in frozen
    check = ("lock-images", "--images", "images", "--check")
    checked = process.run(*SANDWRIGHT, *check, timeout=60, check=False)
    assert checked.text.startswith("app: not locked: image 'app'")
    assert (checked.status, "no lock was checked" in checked.stderr) == (12, True)
    assert refused("lock-images", "app", "--images", "images", "--check")[0] == 10
    status, told = refused("build-images", "app", "--images", "images", "--no-smoke")
    assert (status, "not built: app" in told) == (12, True)
    for words in (("lock-images",), ("build-images", "--no-smoke")):
        status, told = refused(*words, "--images", "images", "--strict")
        assert (status, "cannot reach registry" in told) == (7, True)
    status, told = refused("lock-images", "--images", "images", "--strict", "--check")
    assert (status, "is not locked" in told) == (10, True)
