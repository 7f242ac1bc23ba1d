"""Every command that uses a registry, with registries of several programs."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandwright import process
from sandwright.process import Result
from support.layouts import Layout
from support.otherregistries import registry_of
from support.releases import write_key
from support.standby import COMMAND as SANDWRIGHT
from support.tars import archive, file
from support.thorough import THOROUGH

pytestmark = [
    pytest.mark.skipif(not THOROUGH, reason="only `invoke test --thorough` has time to build the registries"),
    pytest.mark.timeout(3000),
    pytest.mark.needs("docker-registry"),
]

IMAGES = ("--images", "images")
DERIVED = """\
schema: 1
description: On a base from a registry.
base: {{registry: "{reference}"}}
platforms: [linux/amd64]
files: [{{path: /etc/more, content: x}}]
"""


@pytest.fixture(scope="module", params=["distribution2", "distribution3", "referrers", "olareg", "zot"])
def registry(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with registry_of(request.param, tmp_path_factory.mktemp("registry")) as host:
        yield host


@pytest.fixture
def lists_referrers(request: pytest.FixtureRequest) -> None:
    """zot 1.4.3 lists wrong types for referrers; in `test_pipeline.py` `publish` refuses it."""
    if request.node.callspec.params["registry"] == "zot":
        pytest.skip("zot 1.4.3 has a draft of the referrers API")


def run(*words: object, status: int = 0) -> Result:
    ended = process.run(*SANDWRIGHT, *map(str, words), timeout=120, check=False)
    assert ended.status == status, ended.stderr
    assert "Traceback" not in ended.stderr
    return ended


def test_push_and_pull(place: Path, registry: str) -> None:
    target = f"{registry}/by/command"
    told = run("push-image", "build/images/app", f"{target}:1", "--tag", "stable").text
    name = told.partition(": ")[0]
    assert told.endswith("tagged 1, stable")
    assert run("push-image", "build/images/app", f"{target}:1").text == f"{name}: nothing has changed"
    for number, reference in enumerate((f"{target}:stable", name)):
        assert run("pull-image", reference, "--to", f"pulled-{number}").text == f"pulled-{number}: {name}"
        names = {path.name for path in (place / f"pulled-{number}/blobs/sha256").iterdir()}
        assert names == {path.name for path in (place / "build/images/app/blobs/sha256").iterdir()}
    assert run("push-image", "build/images/app", f"{registry}/by/other:1").text.endswith("tagged 1"), (
        "again, elsewhere"
    )
    run("pull-image", f"{target}:absent", "--to", "absent", status=7)
    run("pull-image", f"{registry}/never/pushed:1", "--to", "absent", status=7)
    assert not (place / "absent").exists()


def test_a_base_in_a_registry(place: Path, registry: str) -> None:
    reference = f"{registry}/bases/app:1"
    run("push-image", "build/images/app", reference)
    (place / "own/derived").mkdir(parents=True)
    (place / "own/derived/image.yaml").write_text(DERIVED.format(reference=reference))
    own = ("--images", "own")
    assert "derived: + " in run("lock-images", *own).stderr
    assert run("lock-images", *own, "--check").text == "derived: the lock fits"
    assert run("lock-images", *own, "--outdated").text == "there are no newer versions"
    run("build-images", *own, "--no-smoke", "--frozen")
    run("push-image", "build/images/base", reference)
    assert "newer versions exist for derived" in run("lock-images", *own, "--outdated", status=12).stderr
    run("build-images", *own, "--no-smoke", "--frozen")


def test_an_interrupted_push_goes_on(place: Path, registry: str) -> None:
    made = Layout(place / "large")
    image = made.image(*(archive(file(b"noise", os.urandom(40_000_000))) for _ in range(3)))
    (made.path / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [image]}))
    target = f"{registry}/large/app:1"
    with process.start(*SANDWRIGHT, "push-image", made.path, target) as pushing:
        time.sleep(0.4)
        pushing.send_signal(signal.SIGKILL)
    run("pull-image", target, "--to", "absent", status=7)
    run("push-image", made.path, target)
    run("pull-image", target, "--to", "whole")
    assert run("push-image", made.path, target).text.endswith("nothing has changed")


@pytest.mark.usefixtures("lists_referrers")
def test_publish_and_verify(place: Path, registry: str) -> None:
    key = ("--key", "key.pem", *IMAGES)
    words = ("publish", "base", "app", f"{registry}/team", *key, "--tag", "1", "--tag", "latest")
    assert "tag latest, which is new" in run(*words, "--dry-run").text
    run("verify-image", f"{registry}/team/app", "--key", "key.pub", status=7)
    run(*words)
    assert all(each.endswith("it was read back") for each in run(*words).text.splitlines()[:2])
    verified = run("verify-image", f"{registry}/team/app", "--key", "key.pub", "--rebuild").text
    assert verified.count("pass: ") == len(verified.splitlines()) == 8
    whole = ("--attestations", "--packages")
    run("publish", "app", f"{registry}/whole", *key, *whole)
    again = run("publish", "app", f"{registry}/whole", *key, *whole)
    assert "nothing has changed; it was read back" in again.text
    run("verify-image", f"{registry}/whole/app", "--key", "key.pub", "--rebuild")
    write_key(place, "other")
    run("publish", "app", f"{registry}/whole", "--key", "other.pem", *IMAGES, *whole)
    for each in ("key.pub", "other.pub"):
        run("verify-image", f"{registry}/whole/app", "--key", each)
    run("verify-image", f"{registry}/team/app", "--key", "other.pub", status=12)


@pytest.mark.usefixtures("lists_referrers")
def test_evidence_is_carried(place: Path, registry: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run("publish", "app", f"{registry}/one", "--key", "key.pem", *IMAGES, "--packages")
    run("pull-image", f"{registry}/one/app", "--to", "carried")
    run("verify-image", "carried", "--name", "app", "--key", "key.pub", "--rebuild")
    assert "parts of its evidence" in run("push-image", "carried", f"{registry}/two/app:1").text
    run("verify-image", f"{registry}/two/app:1", "--key", "key.pub", "--rebuild")
    assert run("push-image", "carried", f"{registry}/two/app:1").text.endswith("nothing has changed")
    monkeypatch.setenv("SANDWRIGHT_CACHE", str(place / "empty"))
    nowhere = ("--mirror", f"file://{place}/absent")
    kept = ("--packages", f"{registry}/two/app:1")
    run("build-images", "app", *IMAGES, "--output", "again", "--frozen", "--no-smoke", *kept, *nowhere)
