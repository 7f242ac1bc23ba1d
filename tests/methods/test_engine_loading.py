"""An engine runs the image that was built here, and not an older one of the same name.

Tests of methods/shared/engine/loading.py.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandwright.api import Policy
from sandwright.engines.client import EngineClient
from sandwright.errors import HostError
from sandwright.host import collect_host
from sandwright.image.layout import LAYOUT_FILE
from sandwright.inputs import LiveHost
from sandwright.methods.shared.engine import loading
from sandwright.policy.collect import collect_facts
from sandwright.policy.resolved import ResolvedPolicy
from support import alpinelike
from support.enginehosts import EngineHost, engine_host
from support.layouts import INDEX, REF, Layout
from support.tars import archive, file

ENGINES = [
    pytest.param("docker", marks=pytest.mark.needs("docker", "busybox")),
    pytest.param("podman", marks=pytest.mark.needs("podman", "runc", "busybox")),
]
LIMITS = ("--ulimit=nofile=1024:1024", "--ulimit=nproc=1000:1000", "--network=none")


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Iterator[EngineHost]:
    with engine_host(request.param) as found:
        yield found


@pytest.fixture
def name(engine: EngineHost) -> Iterator[str]:
    """A unique name for an image."""
    name = f"loading-{uuid.uuid4().hex[:12]}"
    yield name
    engine.run("rmi", "--force", f"sandwright/{name}:latest", check=False)


def _build(output: Path, name: str, content: bytes) -> None:
    """A layout as `build_images` leaves it."""
    directory = output / "images" / name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    made = Layout(directory)
    os_name, _, arch = collect_host().platform.partition("/")
    layers = [*alpinelike.layers(), archive(file(b"content", content))]
    steps = {"history": [{"created_by": "test"}] * len(layers)}
    image = made.image(*layers, config={"Cmd": ["/bin/sh"]}, arch=arch, change_config=steps)
    image["platform"] = {"os": os_name, "architecture": arch}
    whole = made.document({"schemaVersion": 2, "mediaType": INDEX, "manifests": [image]}, INDEX)
    whole["annotations"] = {REF: "latest"}
    (directory / "oci-layout").write_bytes(LAYOUT_FILE)
    (directory / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [whole]}))


def _policy(engine: EngineHost, name: str, project: Path) -> ResolvedPolicy:
    text = f"schema: 1\nmethod: {engine.name}\nimage: {name}\nfilesystem: {{write: [$PROJECT]}}\n"
    loaded = Policy.from_text(text)
    return loaded.resolve(collect_facts(loaded, project=project, environ={"HOME": str(project.parent)}))


def _says(engine: EngineHost, name: str) -> str:
    words = ("run", "--rm", "--pull=never", *LIMITS, f"sandwright/{name}:latest", "cat", "/content")
    return engine.run(*words).text


def test_it_runs_what_was_built(
    engine: EngineHost, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output, project = tmp_path / "build", tmp_path / "home" / "p"
    project.mkdir(parents=True)
    monkeypatch.setenv("SANDWRIGHT_BUILD", str(output))
    for key, value in engine.environment.items():
        monkeypatch.setenv(key, value)
    policy = _policy(engine, name, project)

    loading.load_built(EngineClient(engine.name), policy, LiveHost())
    assert not engine.run("image", "inspect", f"sandwright/{name}:latest", check=False), "none was built"

    _build(output, name, b"first")
    said: list[str] = []
    loading.load_built(EngineClient(engine.name), policy, LiveHost(), notify=said.append)
    assert _says(engine, name) == "first"
    assert said == [f"{engine.name} gets the image {name} (1 MB) as it was built here, once"]

    _build(output, name, b"second")
    inputs = LiveHost()
    loading.load_built(EngineClient(engine.name), policy, inputs)
    assert _says(engine, name) == "second"
    assert any(str(output) in str(each) for each in inputs.recording()), "another build is another sandbox"

    def again(*_: object) -> None:
        raise AssertionError("it has this very image")

    monkeypatch.setattr(EngineClient, "load_archive", again)
    loading.load_built(EngineClient(engine.name), policy, LiveHost(), notify=said.append)
    assert len(said) == 1


@pytest.mark.parametrize("planted", ["image", "proxy"])
def test_what_came_with_a_project_is_not_loaded(
    planted: str, engine: EngineHost, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger's project brings an image with our name, and a policy that hides it from the sandbox.

    The engine would use it for every other project, and as the proxy with the list of hosts.
    """
    project = tmp_path / "home" / "p"
    monkeypatch.delenv("SANDWRIGHT_BUILD", raising=False)
    monkeypatch.setattr(loading, "PROXY", name)
    _build(project / "build", name, b"planted")
    network = "network: {mode: proxy, allow: [example.org]}\n" if planted == "proxy" else ""
    image = name if planted == "image" else "none-such"
    loaded = Policy.from_text(
        f"schema: 1\nmethod: {engine.name}\nimage: {image}\n{network}"
        "filesystem: {write: [$PROJECT], readonly: [$PROJECT/build]}\n"
    )
    policy = loaded.resolve(collect_facts(loaded, project=project, environ={"HOME": str(project.parent)}))
    with pytest.raises(HostError, match=r"build has an image, and may have come with the project"):
        loading.load_built(EngineClient(engine.name), policy, LiveHost())
    assert not engine.run("image", "inspect", f"sandwright/{name}:latest", check=False)


def test_what_the_sandbox_could_write_is_not_loaded(
    engine: EngineHost, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "home" / "p"
    monkeypatch.setenv("SANDWRIGHT_BUILD", str(project / "build"))
    _build(project / "build", name, b"planted")
    with pytest.raises(HostError, match="can be written by the sandbox"):
        loading.load_built(EngineClient(engine.name), _policy(engine, name, project), LiveHost())
    assert not engine.run("image", "inspect", f"sandwright/{name}:latest", check=False)
