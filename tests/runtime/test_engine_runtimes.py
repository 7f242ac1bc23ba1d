"""Features of engines alone: loaded images, a private configuration, a separate daemon.

Tests of engines/connect.py.
Tests of engines/contract.py.
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
import re
import tarfile
import threading
import tomllib
from pathlib import Path
from typing import BinaryIO

import pytest

from sandwright import process
from sandwright.engines.archive import write_docker_archive
from sandwright.engines.contract import streaming
from sandwright.engines.daemon import _options
from sandwright.engines.docker import connect_docker
from sandwright.engines.podman import containers_conf
from sandwright.errors import BuildError, HostError
from sandwright.host import MachineFacts
from sandwright.runtime.contract import Start, StartableImage
from sandwright.runtime.docker import DOCKER
from sandwright.runtime.engine import EngineSession, container_spec
from sandwright.runtime.podman import PODMAN
from sandwright.runtime.preflight import ReadyRuntime, check_runtime
from sandwright.runtime.scratch import scratch_directory
from sandwright.watchdog import runtime_environment
from support.dockerhost import docker_daemon, refused_forwarding
from support.small_image import PYTHON, SmallImage


def _daemon_or_skip() -> None:
    try:
        with connect_docker():
            pass
    except HostError as error:
        (pytest.fail if os.environ.get("SANDWRIGHT_REQUIRE") else pytest.skip)(str(error))


def _subject(tmp_path: Path, write: object) -> StartableImage:
    assert callable(write)
    return StartableImage("name", "linux/amd64", tmp_path, write)


def test_the_archive_is_streamed() -> None:
    """The archive is far larger than a pipe, and is written while it is read."""
    size = 8 << 20

    def write(sink: BinaryIO) -> None:
        sink.write(b"name:tag" + bytes(size))

    with streaming(write) as stream:
        content = stream.read()
    assert content[:8] == b"name:tag"
    assert len(content) == size + 8


@pytest.mark.parametrize("fails", [False, True], ids=["the reader ends", "the reader fails"])
def test_an_error_of_the_writer_is_raised(*, fails: bool) -> None:
    """This holds even if the reader fails because it got half of the archive."""

    def write(sink: BinaryIO) -> None:
        sink.write(b"half")
        raise HostError("the disk is gone")

    def read() -> None:
        with streaming(write) as stream:
            assert stream.read() == b"half"
            if fails:
                raise BuildError("unexpected EOF")

    with pytest.raises(HostError, match="the disk is gone"):
        read()


def test_a_reader_that_stops_early_stops_the_writer() -> None:
    written: list[int] = []

    def write(sink: BinaryIO) -> None:
        for _ in range(10_000):
            written.append(sink.write(bytes(1 << 16)))

    with streaming(write) as stream:
        stream.read(10)
    assert len(written) < 1000
    assert threading.active_count() < 50


class Loads:
    """An engine that records the loaded archives."""

    def __init__(self) -> None:
        self.loads: list[str] = []

    def load(self, _: object, reference: str) -> str:
        self.loads.append(reference)
        return f"loaded-{reference}"


def test_an_image_is_loaded_once(tmp_path: Path) -> None:
    engine = Loads()
    session = EngineSession(engine, "run", threading.Event(), {("name", "linux/riscv64"): "here"})  # type: ignore[arg-type]
    first = _subject(tmp_path, print)
    other, there = (dataclasses.replace(first, platform=f"linux/{each}") for each in ("arm64", "riscv64"))
    found = [session.reference(s) for s in (first, first, other, there)]
    assert found == [*(f"loaded-{engine.loads[each]}" for each in (0, 0, 1)), "here"]
    assert [each.rpartition(":")[2] for each in engine.loads] == ["amd64", "arm64"]
    assert list(session.loaded.values()) == found[1:3]


def test_settings_come_from_the_bundle(tmp_path: Path) -> None:
    mounts = [
        {"destination": "/proc", "type": "proc"},
        {"destination": "/dev", "type": "tmpfs", "options": ["mode=755"]},
        {"destination": "/dev/shm", "type": "tmpfs"},
        {"destination": "/tmp", "type": "tmpfs", "options": ["nosuid", "mode=1777"]},
    ]
    config = {"process": {}, "root": {"path": "rootfs", "readonly": True}, "mounts": mounts}
    (tmp_path / "config.json").write_text(json.dumps(config))
    spec = container_spec(Start(_subject(tmp_path, print), ("a", "b"), 1, {}), "image", "run")
    assert (spec.read_only, spec.tmpfs, spec.confined) == (True, {"/tmp": "nosuid,mode=1777"}, True)
    assert (spec.entrypoint, spec.command) == (("a",), ("b",))


@pytest.mark.parametrize(
    ("nofile", "nproc", "limits"),
    [
        pytest.param(1024, 512, ["nofile=1024:1024", "nproc=512:512"], id="lower"),
        pytest.param(1 << 20, 96365, ["nofile=4096:4096", "nproc=4096:4096"], id="higher"),
        pytest.param(-1, -1, ["nofile=4096:4096", "nproc=4096:4096"], id="none"),
    ],
)
def test_podman_asks_for_no_more_than_we_have(
    host: MachineFacts, nofile: int, nproc: int, limits: list[str]
) -> None:
    facts = dataclasses.replace(host, limits={"nofile": (10, nofile), "nproc": (10, nproc)})
    configuration = tomllib.loads(containers_conf(facts))
    assert configuration["containers"] == {"default_ulimits": limits}
    assert configuration["engine"]["cgroup_manager"] == "cgroupfs"


def test_podman_prefers_runc_where_crun_refuses(host: MachineFacts) -> None:
    programs = {"podman": "/usr/bin/podman", "runc": "/usr/bin/runc", "crun": "/usr/bin/crun"}
    hybrid = dataclasses.replace(host, cgroups="hybrid", programs=programs)
    unified = dataclasses.replace(host, cgroups="v2", programs=programs)
    assert [variant.note for variant in PODMAN.variants(hybrid)] == [
        "with runc and overlay",
        "with crun and overlay",
        "with runc and vfs",
        "with crun and vfs",
    ]
    assert PODMAN.variants(unified)[0].options == ("--runtime", "crun", "--storage-driver", "overlay")


def test_podman_without_a_runtime(host: MachineFacts) -> None:
    facts = dataclasses.replace(host, os="linux", programs={"podman": "/usr/bin/podman"})
    assert PODMAN.obstacle(facts, facts.platform) == "Podman needs runc or crun"


@pytest.mark.needs("podman")
def test_podman_where_paths_are_long(
    host: MachineFacts, small_image: SmallImage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its state may have a path of at most 50 bytes."""
    deep = tmp_path / ("deep-" * 20)
    deep.mkdir(parents=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(deep))
    subject = small_image.subject(tmp_path / "bundle")
    ready = check_runtime(PODMAN, host.platform, host, threading.Event())
    assert isinstance(ready, ReadyRuntime), ready
    with PODMAN.session(ready.variant, host, deep, threading.Event()) as session:
        start = Start(subject, (PYTHON, "-c", "print('here')"), 60, runtime_environment())
        assert session.run(start).stdout == b"here\n"


def test_a_docker_archive(tmp_path: Path) -> None:
    sink = io.BytesIO()
    write_docker_archive(sink, "name:tag", "linux/arm64", b"layer", {"User": "1"})
    sink.seek(0)
    with tarfile.open(fileobj=sink) as tar:
        files = {m.name: tar.extractfile(m).read() for m in tar}  # type: ignore[union-attr]
    manifest = json.loads(files["manifest.json"])[0]
    config = json.loads(files[manifest["Config"]])
    assert manifest["RepoTags"] == ["name:tag"]
    assert (config["os"], config["architecture"], config["config"]) == ("linux", "arm64", {"User": "1"})
    assert files["layer.tar"] == b"layer"


@pytest.mark.needs("docker", "dockerd")
@pytest.mark.exclusive("docker")
def test_what_docker_says_to_a_layer_that_it_cannot_read() -> None:
    """Docker 20.10 answers like this to a layer of zstd: with an event, and then the client succeeds."""

    def write(sink: BinaryIO, reference: str) -> None:
        write_docker_archive(sink, reference, "linux/amd64", b"no layer" * 1000, {})

    with (
        docker_daemon() as address,
        connect_docker(address or None) as engine,
        pytest.raises(BuildError, match=r"docker: cannot load localhost/unreadable:1: .+"),
    ):
        engine.load(write, "localhost/unreadable:1")


@pytest.mark.parametrize("name", ["sandwright-smoke-_8aeegf2", "sandwright-smoke-8aeegf2_", "a__b", "ä", "-"])
def test_any_directory_gives_a_daemon_a_namespace(name: str, tmp_path: Path) -> None:
    """containerd refuses two signs in a row, and one at an end; the error appears when a lease is deleted."""
    words = _options(tmp_path / name, tmp_path, "unix:///nowhere")
    given = [words[words.index(f"--containerd-{which}") + 1] for which in ("namespace", "plugins-namespace")]
    for each in given:
        assert re.fullmatch("[A-Za-z0-9]+(?:[._-](?:[A-Za-z0-9]+))*", each)
    assert len(set(given)) == 2


@pytest.mark.needs("dockerd")
@pytest.mark.exclusive("docker")
def test_docker_images_are_removed(host: MachineFacts, small_image: SmallImage, tmp_path: Path) -> None:
    _daemon_or_skip()
    subject = small_image.subject(tmp_path / "bundle")
    with scratch_directory() as scratch:
        (scratch / "docker").mkdir()
        with DOCKER.session(DOCKER.variants(host)[0], host, scratch / "docker", threading.Event()) as session:
            start = Start(subject, (PYTHON, "--version"), 60, runtime_environment())
            assert session.run(start).status == 0
            (ours,) = session.loaded.values()  # type: ignore[attr-defined]
            with connect_docker() as engine:
                assert engine.inspect_image(ours) is not None
    with connect_docker() as engine:
        assert engine.inspect_image(ours) is None


@pytest.mark.needs("dockerd")
def test_a_daemon_of_our_own(
    host: MachineFacts, small_image: SmallImage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not host.is_root:
        pytest.skip("only root can start a Docker daemon")
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
    subject = small_image.subject(tmp_path / "bundle")
    with docker_daemon() as address, scratch_directory() as scratch:
        assert os.environ["DOCKER_HOST"] == address
        assert process.run("docker", "images", "--all", "--quiet").text == "", "nothing of another daemon's"
        process.run("docker", "network", "create", "ours")
        subnet = "{{(index .IPAM.Config 0).Subnet}}"
        shown = process.run("docker", "network", "inspect", "--format", subnet, "ours").text
        assert shown.startswith("198.19."), "rules that a killed dockerd left are for Docker's own addresses"
        process.run("docker", "network", "rm", "ours")
        with DOCKER.session(DOCKER.variants(host)[0], host, scratch, threading.Event()) as session:
            start = Start(subject, (PYTHON, "-c", "print('here')"), 60, runtime_environment())
            assert session.run(start).stdout == b"here\n"
    directory = Path(address.removeprefix("unix://")).parent
    assert os.environ["DOCKER_HOST"] == "unix:///nonexistent/docker.sock"
    assert not directory.exists()
    assert str(directory) not in Path("/proc/self/mountinfo").read_text()
    running = process.run("ps", "-eo", "args").text
    assert str(directory) not in running


@pytest.mark.needs("dockerd")
def test_a_daemon_that_answers_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    _daemon_or_skip()
    monkeypatch.setattr("sandwright.process.start", None)
    with docker_daemon() as address:
        assert address == os.environ.get("DOCKER_HOST", "")


def test_a_daemon_that_ends_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fake dockerd, which prints an error and ends."""
    if os.geteuid() != 0:
        pytest.skip("only root can start a Docker daemon")
    (tmp_path / "dockerd").write_text("#!/bin/sh\necho 'no overlay here' >&2; exit 1\n")
    (tmp_path / "dockerd").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
    with pytest.raises(HostError, match="ended at once: no overlay here"), docker_daemon():
        pass


def test_a_daemon_that_never_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fake dockerd, which sleeps."""
    if os.geteuid() != 0:
        pytest.skip("only root can start a Docker daemon")
    (tmp_path / "dockerd").write_text("#!/bin/sh\nexec sleep 600\n")
    (tmp_path / "dockerd").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
    with pytest.raises(HostError, match="does not answer within 1 s"), docker_daemon(limit=1):
        pass


@pytest.mark.needs("iptables", "unshare")
@pytest.mark.skipif(os.getuid() != 0, reason="needs a network namespace with rules of its own")
@pytest.mark.parametrize(
    ("commands", "closed"),
    [
        pytest.param("true", False, id="no rules"),
        pytest.param("iptables -P FORWARD DROP", True, id="those that another daemon left"),
        pytest.param(
            "iptables -P FORWARD DROP; iptables -A FORWARD -i br-other ! -o br-other -j ACCEPT",
            True,
            id="those for another network",
        ),
        pytest.param(
            "iptables -P FORWARD DROP; iptables -A FORWARD -i br-ours ! -o br-ours -j ACCEPT",
            False,
            id="those of the daemon that made the network",
        ),
    ],
)
def test_rules_of_another_daemon_are_named(commands: str, *, closed: bool) -> None:
    """The rules are real, in a network namespace that ends with its process."""
    script = f"{commands} && iptables --list-rules"
    made = process.run("unshare", "--net", "--", "sh", "-c", script, timeout=60, check=False)
    if not made:
        pytest.skip(f"no rules can be made here: {made.stderr.strip()}")
    said = refused_forwarding(made.text, "br-ours")
    assert bool(said) == closed
    for word in ("DOCKER_HOST", "iptables -P FORWARD ACCEPT", "unshare --net") if closed else ():
        assert word in said
