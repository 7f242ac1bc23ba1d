"""The launcher of Docker and Podman: no container stays, whichever process is killed, and when.

Tests of launcher/source/engine.c.
"""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandwright import process
from sandwright.signalling import children_of
from support.enginehosts import EngineHost, engine_host
from support.launchers import launcher_of
from support.processtrees import naming
from support.thorough import THOROUGH, covering
from support.waiting import until

ENGINES = [
    pytest.param("docker", marks=pytest.mark.needs("docker", "busybox")),
    pytest.param("podman", marks=pytest.mark.needs("podman", "runc", "busybox")),
]


@pytest.fixture(scope="module", params=ENGINES)
def host(request: pytest.FixtureRequest) -> Iterator[EngineHost]:
    with engine_host(request.param) as found:
        yield found


@pytest.fixture
def launch(host: EngineHost, tmp_path: Path) -> str:
    project = tmp_path / "home" / "p"
    (project / ".git").mkdir(parents=True)
    (tmp_path / "run").mkdir(mode=0o700)
    return _rendered(host, tmp_path, host.image)


def _rendered(host: EngineHost, tmp_path: Path, image: str) -> str:
    """A launcher for an image."""
    project = tmp_path / "home" / "p"
    text = f"schema: 1\nmethod: {host.name}\nimage: {image}\nfilesystem: {{write: [$PROJECT]}}\n"
    return str(launcher_of(text, host.name, tmp_path / "out", project=project))


def _environment(host: EngineHost, tmp_path: Path) -> dict[str, str]:
    return {**host.environment, "HOME": f"{tmp_path}/home", "XDG_RUNTIME_DIR": f"{tmp_path}/run"}


def _named(launcher: int, role: str) -> list[int]:
    """The launcher, its monitor, or the engine's client, a child of the monitor with another program."""
    if role == "launcher":
        return [launcher]
    monitors = children_of(launcher)
    if role == "monitor":
        return monitors
    own = Path(f"/proc/{launcher}/exe").readlink()
    children = [child for monitor in monitors for child in children_of(monitor)]
    return [child for child in children if Path(f"/proc/{child}/exe").readlink() != own]


@pytest.mark.parametrize(
    ("host", "role", "delay"),
    covering(
        covering(ENGINES, ["launcher", "monitor", "client"], thorough=True),
        [None, 0.01, 0.05, 0.1, 0.2, 0.4] if THOROUGH else [None, 0.05, 0.2],
    ),
    indirect=["host"],
)
def test_whoever_is_killed(
    host: EngineHost, launch: str, tmp_path: Path, role: str, delay: float | None
) -> None:
    """This includes the creation of the container; and the next run succeeds."""
    environment = _environment(host, tmp_path)
    before = sorted(path.name for path in (tmp_path / "home" / "p").rglob("*"))
    with process.start(launch, "sh", "-c", "echo up; exec sleep 250", env=environment) as running:
        assert running.stdout is not None
        if delay is None:
            assert running.stdout.readline() == b"up\n"
        else:
            time.sleep(delay)
        until(lambda: running.poll() is not None or bool(_named(running.pid, role)), f"no {role}")
        for each in _named(running.pid, role):
            os.kill(each, signal.SIGKILL)
        running.wait(timeout=60)
    until(lambda: not naming(launch), "somebody goes on")
    assert host.containers() == []
    assert list((tmp_path / "run").glob("sandwright/runs/*")) == []
    assert sorted(path.name for path in (tmp_path / "home" / "p").rglob("*")) == before
    again = process.run(launch, "sh", "-c", "echo again; exit 3", env=environment, timeout=60, check=False)
    assert (again.status, again.text) == (3, "again"), again.stderr


def test_a_container_of_a_killed_run_creates_nothing_later(
    host: EngineHost, launch: str, tmp_path: Path
) -> None:
    """The next run in the project keeps the files that prevent this while the container runs.

    Podman's container without root ends with them.
    """
    environment, project = _environment(host, tmp_path), tmp_path / "home" / "p"
    loop = "echo up; while :; do echo x > .envrc; mkdir .husky; sleep 0.1; done 2>/dev/null"
    with process.start(launch, "sh", "-c", f"cd {project}; {loop}", env=environment) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"up\n"
        # The launcher is killed last: at its death the kernel would continue a stopped monitor (setpgid(2)).
        both = [*_named(running.pid, "monitor"), running.pid]
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for each in both:
                os.kill(each, number)
        running.wait(timeout=60)
    if host.name == "podman" and os.geteuid() != 0:
        until(lambda: host.containers() == [], "the container goes on")
        assert process.run(launch, "echo", "again", env=environment, timeout=60).text == "again"
        assert [path.name for path in project.iterdir()] == [".git"]
        return
    (left,) = host.containers()
    try:
        again = process.run(launch, "echo", "again", env=environment, timeout=60)
        assert again.text == "again"
        time.sleep(0.5)
        assert host.containers() == [left], "it goes on"
        assert (project / ".envrc").is_dir(), "what stands there is still ours"
        assert not any((project / ".envrc").iterdir())
    finally:
        host.run("rm", "--force", left)
    process.run(launch, "echo", "again", env=environment, timeout=60)
    assert [path.name for path in project.iterdir()] == [".git"]


@pytest.mark.slow
@pytest.mark.parametrize("host", ENGINES[:1], indirect=True)
def test_a_container_that_is_not_removed_creates_nothing_later(
    host: EngineHost, launch: str, tmp_path: Path
) -> None:
    """The files that prevent this stay at the end of its own run and in the next run in the project.

    Podman's container is below the monitor, which kills it.
    """
    environment, project = _environment(host, tmp_path), tmp_path / "home" / "p"
    client = tmp_path / "bin" / host.name
    client.parent.mkdir()
    client.write_text(f'#!/bin/sh\ncase $1 in rm | kill) exit 1 ;; esac\nexec {host.program} "$@"\n')
    client.chmod(0o755)
    loop = "echo up; while :; do echo x > .envrc; mkdir .husky; sleep 0.1; done 2>/dev/null"
    refusing = {**environment, "PATH": f"{client.parent}:{environment['PATH']}"}
    with process.start(launch, "sh", "-c", f"cd {project}; {loop}", env=refusing) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"up\n"
        for each in _named(running.pid, "client"):
            os.kill(each, signal.SIGKILL)
        running.wait(timeout=200)
    left = list(host.containers())
    try:
        again = process.run(launch, "echo", "again", env=environment, timeout=60)
        assert again.text == "again"
        time.sleep(0.5)
        assert (project / ".envrc").is_dir(), "what stands there is still ours"
        assert not any((project / ".envrc").iterdir())
    finally:
        for name in left:
            host.run("rm", "--force", name)


@pytest.mark.parametrize(
    ("annotation", "starts"),
    [
        ("org.opencontainers.image.title=x", True),
        ("run.oci.seccomp_bpf_data=BgAAAAAA/38=", False),
        ("org.systemd.property.MemoryMax=uint64 99999999999", False),
    ],
)
@pytest.mark.parametrize("host", ENGINES[1:], indirect=True)
def test_an_image_does_not_steer_the_runtime(
    host: EngineHost, launch: str, tmp_path: Path, annotation: str, starts: bool
) -> None:
    """Podman passes an image's annotations to crun, which takes a filter of system calls from them."""
    build = ("build", "--quiet", "--isolation=chroot", "--annotation", annotation, "--tag", host.image, "-")
    original, text = (
        host.run("image", "inspect", "--format", "{{.Id}}", host.image).text,
        f"FROM {host.image}",
    )
    process.run(host.program, *build, stdin=text.encode(), env=host.environment, timeout=60)
    try:
        environment = _environment(host, tmp_path)
        ended = process.run(launch, "sh", "-c", "echo up", env=environment, timeout=60, check=False)
    finally:
        host.run("tag", original, host.image)
    assert (ended.status, ended.text) == ((0, "up") if starts else (125, "")), ended.stderr
    assert starts or f"annotation {annotation.partition('=')[0]}" in ended.stderr
    assert list((tmp_path / "run").glob("sandwright/runs/*")) == []


@pytest.mark.usefixtures("launch")
@pytest.mark.parametrize("host", ENGINES[1:], indirect=True)
def test_no_name_makes_an_image_ours(host: EngineHost, tmp_path: Path) -> None:
    """A repository of Docker Hub could also be called `sandwright/…`."""
    image = f"sandwright/x{uuid.uuid4().hex[:12]}:latest"
    build = ("build", "--quiet", "--isolation=chroot", "--annotation=run.oci.handler=x", "--tag", image, "-")
    text = f"FROM {host.image}".encode()
    process.run(host.program, *build, stdin=text, env=host.environment, timeout=60)
    try:
        launch = _rendered(host, tmp_path, image)
        environment = _environment(host, tmp_path)
        ended = process.run(launch, "sh", "-c", "echo up", env=environment, timeout=60, check=False)
    finally:
        host.run("untag", image)
    assert (ended.status, ended.text) == (125, ""), ended.stderr
    assert "annotation run.oci.handler" in ended.stderr


def test_only_the_run_is_asked_for(host: EngineHost, launch: str, tmp_path: Path) -> None:
    """Without an error, the engine's client is started once; Podman's twice, to read the annotations."""
    programs, said = tmp_path / "bin", tmp_path / "said"
    programs.mkdir()
    client = programs / host.name
    client.write_text(f'#!/bin/sh\necho "$1" >>{said}\nexec {host.program} "$@"\n')
    client.chmod(0o755)
    environment = _environment(host, tmp_path)
    path = f"{programs}:{environment['PATH']}"
    ended = process.run(
        launch, "sh", "-c", "exit 7", env={**environment, "PATH": path}, timeout=60, check=False
    )
    asked = ["image"] * (host.name == "podman")
    assert (ended.status, said.read_text().split()) == (7, [*asked, "run"]), ended.stderr


def test_the_hosts_authorities_lie_over_the_images(host: EngineHost, tmp_path: Path) -> None:
    """They cover each path that an image may have, read-only, without the key from the same file."""
    project, own = tmp_path / "home" / "p", tmp_path / "own.pem"
    project.mkdir(parents=True)
    (tmp_path / "run").mkdir(mode=0o700)
    certificate = "-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n"
    own.write_text(f"{certificate}-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n")
    text = f"schema: 1\nmethod: {host.name}\nimage: {host.image}\nnetwork: {{mode: host}}\n"
    launcher_of(text, host.name, tmp_path / "out", project=project)
    script = (
        'for each in "$SSL_CERT_FILE" "$NODE_EXTRA_CA_CERTS" "$REQUESTS_CA_BUNDLE" '
        '/etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem; do cat "$each" || exit 3; done; '
        "cmp /etc/ssl/certs/java/cacerts /etc/pki/java/cacerts || exit 5; "
        "head -c4 /etc/pki/java/cacerts | od -An -tx1; "
        'echo >>"$SSL_CERT_FILE" && exit 4; echo >>/etc/ssl/certs/java/cacerts && exit 4; exit 0'
    )
    environment = {**_environment(host, tmp_path), "SSL_CERT_FILE": str(own)}
    ended = process.run(
        tmp_path / "out" / "launch", "sh", "-c", script, env=environment, timeout=120, check=False
    )
    assert (ended.status, ended.text) == (0, f"{5 * certificate} fe ed fe ed"), ended.stderr
