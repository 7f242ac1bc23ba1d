"""The launcher of engines for macOS, in shell, started for real with engines of this machine.

Tests of oci/launchers/engine.sh.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from render.test_engines_run import DOCKER, ENGINES, PODMAN, Sandbox, host, sandbox
from sandwright import process
from support.thorough import covering
from support.waiting import until

__all__ = ["host", "sandbox"]

pytestmark = pytest.mark.needs("shasum", "iconv")


MACHINE = """#!/bin/sh
[ "$1" != run ] || { shift; set -- run --ulimit=nofile=4096:4096 --ulimit=nproc=4096:4096 "$@"; }
exec %s "$@"
"""
"""Podman's machine on macOS may set the limits itself; this one may not."""


@pytest.fixture(autouse=True)
def machine(sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if sandbox.host.name == "podman":
        (tmp_path / "machine").mkdir()
        program = tmp_path / "machine" / "podman"
        program.write_text(MACHINE % sandbox.host.program)
        program.chmod(0o755)
        monkeypatch.setitem(dict_of(sandbox), "PATH", f"{program.parent}:{sandbox.host.environment['PATH']}")


def dict_of(sandbox: Sandbox) -> dict[str, str]:
    assert isinstance(sandbox.host.environment, dict)
    return sandbox.host.environment


def _argv(sandbox: Sandbox, policy: str = "", *, image: str = "") -> list[str]:
    return sandbox.argv(policy, image=image, os="darwin")


def _run(sandbox: Sandbox, script: str, policy: str = "", **environment: str) -> process.Result:
    env = sandbox.environment(**environment)
    argv = _argv(sandbox, policy)
    return process.run(*argv, "sh", "-c", script, timeout=60, check=False, env=env, stdin=b"in\n")


def _names(project: Path) -> set[str]:
    return {  # not rglob, which fails when a directory disappears
        str((Path(where) / name).relative_to(project))
        for where, directories, files in os.walk(project)
        for name in (*directories, *files)
    }


def _nothing_left(sandbox: Sandbox, before: set[str]) -> bool:
    return (sandbox.left(), _names(sandbox.project)) == ([], before)


@pytest.fixture
def running(sandbox: Sandbox) -> Iterator[tuple[subprocess.Popen[bytes], set[str]]]:
    """A run whose command has started."""
    before = _names(sandbox.project)
    argv = (*_argv(sandbox), "sh", "-c", "trap 'exit 9' TERM; echo begun; while :; do sleep 0.1; done")
    with process.start(*argv, env=sandbox.environment()) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"begun\n"
        yield started, before


def test_what_a_command_sees(sandbox: Sandbox) -> None:
    before = _names(sandbox.project)
    script = """
        read -r line; echo "$line $CI ${PLANTED-unset}"; printf '%s|' "$ODD"; cat LICENSE; echo said >&2
        echo new >file; (echo x >LICENSE); cat secrets/key token; echo x >.git/hooks/x; mkdir .git/commondir/x
        id -u; exit 7
    """
    odd = 'it\'s\n"$(id)" \\'
    result = _run(sandbox, f"cd {sandbox.project}; {script}", ODD=odd, PLANTED="1")
    assert result.status == 7, result.stderr
    assert result.text == f"in it's 1 unset\n{odd}|content0"
    for said in ("said", "LICENSE: Read-only file system", "secrets/key", ".git/hooks/x: Read-only"):
        assert said in result.stderr
    assert _nothing_left(sandbox, before | {"file"})


@PODMAN
def test_an_image_does_not_steer_the_runtime(sandbox: Sandbox) -> None:
    engine, image = sandbox.host, sandbox.host.image
    build = ("build", "--quiet", "--isolation=chroot", "--annotation=run.oci.handler=x", "--tag", image, "-")
    original, before = (
        engine.run("image", "inspect", "--format", "{{.Id}}", image).text,
        _names(sandbox.project),
    )
    process.run(engine.program, *build, stdin=f"FROM {image}".encode(), env=engine.environment, timeout=60)
    try:
        result = _run(sandbox, "echo up")
    finally:
        engine.run("tag", original, image)
    assert (result.status, result.text) == (125, "")
    assert "annotation run.oci.handler, which Podman passes on" in result.stderr
    assert _nothing_left(sandbox, before)


@PODMAN
def test_arguments_and_statuses(sandbox: Sandbox) -> None:
    argv = _argv(sandbox)
    words = ("printf", "%s|", "it's", "", "two\nlines", '"a,b"', "-x", "*")
    result = process.run(*argv, *words, env=sandbox.environment(), timeout=60)
    assert result.text == "".join(f"{word}|" for word in words[2:])
    for command, status in ((("sh", "-c", "exit 3"), 3), (("/none",), 127)):
        ended = process.run(*argv, *command, env=sandbox.environment(), timeout=60, check=False)
        assert ended.status == status, ended.stderr


@DOCKER
def test_the_time_is_up(sandbox: Sandbox) -> None:
    before = _names(sandbox.project)
    result = _run(sandbox, "sleep 60", "resources: {time: 2s}\n")
    assert (result.status, result.stderr.splitlines()[-1]) == (
        124,
        "sandbox: the time limit (resources.time) was reached",
    )
    assert _nothing_left(sandbox, before)


@DOCKER
def test_a_signal(sandbox: Sandbox, running: tuple[subprocess.Popen[bytes], set[str]]) -> None:
    started, before = running
    started.send_signal(signal.SIGTERM)
    assert started.wait(60) == 9
    assert _nothing_left(sandbox, before)


@PODMAN
def test_a_launcher_that_is_killed(
    sandbox: Sandbox, running: tuple[subprocess.Popen[bytes], set[str]]
) -> None:
    started, before = running
    assert _names(sandbox.project) != before
    started.kill()
    until(lambda: _nothing_left(sandbox, before))


@PODMAN
def test_two_at_once(sandbox: Sandbox, running: tuple[subprocess.Popen[bytes], set[str]]) -> None:
    """The placeholders stay until the last one has ended."""
    started, before = running
    assert _run(sandbox, "true").status == 0
    assert _names(sandbox.project) != before
    started.send_signal(signal.SIGTERM)
    assert started.wait(60) == 9
    assert _nothing_left(sandbox, before)


@pytest.mark.parametrize(
    ("host", "name"), covering(ENGINES, ["seccomp.json", "passwd", "variables.sh"]), indirect=["host"]
)
def test_what_was_changed_is_not_run(sandbox: Sandbox, name: str) -> None:
    argv = _argv(sandbox)
    with (sandbox.folder / name).open("a") as file:
        file.write(" ")
    result = process.run(*argv, "true", env=sandbox.environment(), timeout=60, check=False)
    assert result.status == 125
    assert "was changed" in result.stderr


@PODMAN
@pytest.mark.parametrize("appeared", ["commondir"])
def test_what_appeared_is_refused(sandbox: Sandbox, appeared: str) -> None:
    argv = _argv(sandbox)
    place = sandbox.project / ".git" / appeared
    place.symlink_to("/etc")
    result = process.run(*argv, "true", env=sandbox.environment(), timeout=60, check=False)
    assert (result.status, "appeared after this was rendered" in result.stderr) == (125, True), result.stderr
    assert place.is_symlink()
    until(lambda: sandbox.left() == [])


@DOCKER
def test_what_can_not_be_run(sandbox: Sandbox) -> None:
    argv = _argv(sandbox, image="sandwright.invalid/none:1")
    result = process.run(*argv, "true", env=sandbox.environment(), timeout=60, check=False)
    assert result.status == 125
    assert "sandbox: the image sandwright.invalid/none:1 is not here" in result.stderr
    argv = _argv(sandbox)
    for words, said in (
        ((b"\xff",), "an argument of the command is not valid UTF-8"),
        ((), "give a command"),
    ):
        ended = subprocess.run([*argv, *words], check=False, env=sandbox.environment(), capture_output=True)
        assert (ended.returncode, said in ended.stderr.decode()) == (125, True), ended.stderr
    environment = sandbox.environment(PATH=f"{sandbox.project}:{os.environ['PATH']}")
    (sandbox.project / sandbox.host.name).write_text("#!/bin/sh\necho planted\n")
    (sandbox.project / sandbox.host.name).chmod(0o755)
    assert "planted" not in process.run(*argv, "true", env=environment, timeout=60, check=False).text
