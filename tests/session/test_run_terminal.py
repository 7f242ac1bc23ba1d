"""`sandwright run` on a pseudo-terminal: keys, signals, the window's size (SIGWINCH), and its state
afterwards.

Tests of launcher/source/terminal.c: the person's terminal is not the sandbox's (TIOCSTI).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from session.conftest import SANDWRIGHT, Project
from session.terminals import terminal

pytestmark = [pytest.mark.needs("bwrap"), pytest.mark.real_start]


def _run(*words: str) -> list[str]:
    return [*SANDWRIGHT, "run", "--", *words]


def test_it_is_a_terminal_of_its_size(project: Project) -> None:
    with terminal(
        _run("sh", "-c", "tty -s <&2 && stty size; exit 5"), project.root, project.environ
    ) as shown:
        assert shown.read_until(b"31 117")
        assert shown.end() == 5
        assert shown.settings == shown.before


def test_the_size_follows(project: Project) -> None:
    script = "trap 'stty size; exit 6' WINCH; echo up; while :; do sleep 0.05; done"
    with terminal(_run("sh", "-c", script), project.root, project.environ) as shown:
        shown.read_until(b"up")
        shown.resize(40, 90)
        assert shown.read_until(b"40 90")
        assert shown.end() == 6


@pytest.mark.parametrize(
    ("key", "name"), [(b"\x03", "INT"), (b"\x1c", "QUIT")], ids=["ctrl-c", "ctrl-backslash"]
)
def test_keys_send_signals_to_the_command(project: Project, key: bytes, name: str) -> None:
    script = f"trap 'echo got; exit 7' {name}; echo up; while :; do sleep 0.05; done"
    with terminal(_run("sh", "-c", script), project.root, project.environ) as shown:
        shown.read_until(b"up")
        shown.type(key)
        shown.read_until(b"got")
        assert shown.end() == 7
        assert shown.settings == shown.before


def test_ctrl_c_ends_a_command_that_does_not_care(project: Project) -> None:
    with terminal(_run("sh", "-c", "echo up; exec sleep 50"), project.root, project.environ) as shown:
        shown.read_until(b"up")
        shown.type(b"\x03")
        assert shown.end() == 130
        assert shown.settings == shown.before
    assert project.records() == []


def test_lines_and_the_end_of_input(project: Project) -> None:
    with terminal(_run("cat"), project.root, project.environ) as shown:
        shown.type(b"one line\n")
        assert shown.read_until(b"one line\r\none line\r\n")
        shown.type(b"\x04")
        assert shown.end() == 0


def test_an_interactive_shell(project: Project) -> None:
    """The command controls its terminal: a shell in it has job control, and prints no complaint."""
    with terminal(_run("bash", "--norc", "-i"), project.root, project.environ) as shown:
        assert b"no job control" not in shown.read_until(b"# " if os.getuid() == 0 else b"$ ")
        shown.type(b"sleep 50 & echo a''b; jobs; kill %1; exit 8\n")
        assert b"Running" in shown.read_until(b"exit\r\n")
        assert shown.end() == 8


def test_the_person_s_terminal_is_not_the_sandbox_s(project: Project) -> None:
    """The controlling terminal inside is the sandbox's own, never the one outside."""
    with terminal(
        _run("sh", "-c", "ls -l /proc/self/fd/0; echo x >/dev/tty"), project.root, project.environ
    ) as shown:
        outside = Path(f"/proc/{os.getpid()}/fd").as_posix()
        said = shown.read_until(b"x\r\n")
        assert outside.encode() not in said
        assert shown.end() == 0


def test_much_output_and_a_command_that_does_not_read(project: Project) -> None:
    with terminal(
        _run("sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end"),
        project.root,
        project.environ,
    ) as shown:
        shown.type(b"nobody reads this\n" * 200)
        assert shown.read_until(b"end\r\n").count(b"x") >= 3000000
        assert shown.end() == 0


@pytest.mark.needs("runc", "busybox")
@pytest.mark.parametrize("method", ["oci", pytest.param("gvisor", marks=pytest.mark.needs("runsc"))])
def test_containers_have_a_terminal(project: Project, tmp_path: Path, method: str) -> None:
    from session.test_run_containers import busybox_root  # noqa: PLC0415 - not a test of that module

    (tmp_path / "root").mkdir()
    busybox_root(tmp_path / "root")
    project.environment["SANDWRIGHT_ROOTFS"] = str(tmp_path / "root")
    rules = "filesystem: {read: [$PROJECT], write: [$PROJECT]}\nenvironment: {set: {PATH: /bin}}\n"
    project.policy.write_text(f"schema: 1\nmethod: {method}\nimage: small\n{rules}")
    script = "stty size; trap 'echo got; exit 7' INT; echo up; while :; do sleep 0.05; done"
    with terminal(_run("sh", "-c", script), project.root, project.environ) as shown:
        assert b"31 117" in shown.read_until(b"up")
        shown.type(b"\x03")
        shown.read_until(b"got")
        assert shown.end() == 7
        assert shown.settings == shown.before
