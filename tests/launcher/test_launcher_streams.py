"""The process that copies between the command's pipes and the launcher's own streams.

Tests of launcher/source/streams.c.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from launcher.conftest import WAIT
from support.processtrees import who_has_open
from support.waiting import until

pytestmark = pytest.mark.needs("cc")


Shell = Callable[..., str]


@pytest.fixture
def shell(driver: Path, environ: dict[str, str], tmp_path: Path) -> Shell:
    """A script in which `L` runs a command through the launcher's pipes; its output."""

    def run(script: str, *, errors: bool = False) -> str:
        ended = subprocess.run(
            ["bash", "-c", f'L() {{ {driver} keys relay run -- "$@"; }}; {script}'],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WAIT,
            check=False,
            env=environ,
            cwd=tmp_path,
        )
        assert errors or ended.stderr == ""
        return ended.stdout + (ended.stderr if errors else "")

    return run


def test_kinds(shell: Shell, tmp_path: Path) -> None:
    """Files are pipes inside; pipes, sockets and /dev/null stay, but root's /dev/null does not."""
    nothing = "pipe" if os.geteuid() == 0 else "/dev/null"
    (tmp_path / "in").write_text("x")
    look = "L sh -c 'for i in 0 1 2; do a=$(readlink /proc/$$/fd/$i); echo $a >&9; done' 9>kinds"
    shell(f"{look} <in >out 2>err")
    assert [kind.partition(":")[0] for kind in (tmp_path / "kinds").read_text().split()] == ["pipe"] * 3
    shell(f"cat /dev/null | {look} 2>/dev/null | cat")
    assert (tmp_path / "kinds").read_text().split()[2].partition(":")[0] == nothing
    shell(f"{look} </dev/zero >/dev/null 2>&1")
    kinds = [kind.partition(":")[0] for kind in (tmp_path / "kinds").read_text().split()]
    assert kinds == ["pipe", nothing, nothing]


def test_only_a_connected_unix_socket_is_passed(driver: Path, environ: dict[str, str]) -> None:
    """Other sockets reach the network of their origin: each datagram has its own address."""
    unix, other = socket.socketpair()
    listening = socket.create_server(("127.0.0.1", 0))
    tcp = socket.create_connection(listening.getsockname())
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    alone = socket.socket(socket.AF_UNIX)
    with unix, other, listening, tcp, udp, datagrams, far, alone:
        kinds = [(unix, "socket"), *((each, "pipe") for each in (tcp, udp, datagrams, alone))]
        for given, kind in kinds:
            ended = subprocess.run(
                [driver, "relay", "run", "--", "readlink", "/proc/self/fd/0"], stdin=given.fileno(),
                capture_output=True, text=True, timeout=WAIT, check=True, env=environ,
            )  # fmt: skip
            assert ended.stdout.partition(":")[0] == kind, given


def test_bytes_come_through_whole(shell: Shell, tmp_path: Path) -> None:
    given = bytes(range(256)) * 40000
    (tmp_path / "in").write_bytes(given)
    shell("L cat <in >out")
    assert (tmp_path / "out").read_bytes() == given


def test_statuses_and_order(shell: Shell, tmp_path: Path) -> None:
    assert (
        shell("L sh -c 'for i in 1 2 3; do echo o$i; echo e$i >&2; done; exit 7' >out 2>&1; echo $?") == "7\n"
    )
    assert (tmp_path / "out").read_text() == "o1\ne1\no2\ne2\no3\ne3\n"
    shell("echo before >out; L echo after >>out; L echo more >>out")
    assert (tmp_path / "out").read_text() == "before\nafter\nmore\n"


def test_what_can_not_be_written(shell: Shell) -> None:
    said = shell("L echo x >/dev/full; echo $?", errors=True)
    assert said == "1\nsandbox: cannot write standard output: No space left on device\n"
    assert shell("L sh -c 'echo x; exit 4' >/dev/full; echo $?", errors=True).startswith("4\n")
    assert (
        shell("L sh -c 'trap \"\" PIPE; while echo x; do :; done; exit 5' >/dev/full 2>&1; echo $?") == "5\n"
    )


@pytest.mark.parametrize(
    "inside", ["true", "head -n 1 >/dev/null", "head -c 20000 /dev/zero >/proc/self/fd/0"]
)
def test_the_rest_of_a_file_is_for_who_reads_next(shell: Shell, tmp_path: Path, inside: str) -> None:
    lines = 100 if ">/proc/self/fd/0" in inside else 50_000
    (tmp_path / "in").write_text("".join(f"{number}\n" for number in range(lines)))
    said = shell(f"for i in 1 2 3; do read -r line; echo $line; L sh -c '{inside}'; done <in").split()
    assert said[0] == "0"
    assert [int(each) for each in said] == sorted({int(each) for each in said if each})
    if inside == "true":
        assert said == ["0", "1", "2"]


def test_a_command_that_does_not_read_to_the_end(shell: Shell, tmp_path: Path) -> None:
    with (tmp_path / "in").open("wb") as file:
        file.truncate(1 << 30)
    assert shell("L sh -c 'exec <&-; exit 6' <in; echo $?; L head -c 3 </dev/zero | wc -c") == "6\n3\n"


def test_a_process_that_goes_on_writing_holds_nobody_up(shell: Shell, tmp_path: Path) -> None:
    started = time.monotonic()
    (tmp_path / "on").write_text("while echo x; do sleep 0.01; done")
    assert shell("L sh -c 'setsid sh ./on & exit 3' >out 2>err; echo $?") == "3\n"
    assert time.monotonic() - started < WAIT / 2


def test_the_copier_ends_with_its_launcher(
    shell: Shell, tmp_path: Path, driver: Path, environ: dict[str, str]
) -> None:
    """The launcher is killed; the file has the command's output."""
    script = (
        f"exec {driver} keys relay run -- sh -c 'echo up; sleep 0.3; echo last; exec sleep 1' </dev/zero >out"
    )
    with subprocess.Popen(["bash", "-c", script], cwd=tmp_path, env=environ) as running:
        while not (tmp_path / "out").exists() or (tmp_path / "out").read_text() != "up\n":
            time.sleep(0.01)
        running.kill()
    until(lambda: not who_has_open(tmp_path / "out"), within=WAIT)
    assert (tmp_path / "out").read_text() == "up\nlast\n"


def test_the_copier_has_nothing_else_open(tmp_path: Path, driver: Path, environ: dict[str, str]) -> None:
    """The copier holds no lock, and no inherited descriptor."""
    words = [
        str(driver),
        f"directory={tmp_path}",
        "placeholder_directories=x",
        f"project={tmp_path}",
        "lock",
        "relay",
    ]
    words += [
        "run",
        "--",
        "sh",
        "-c",
        "cat /proc/$PPID/task/*/children >children; ls -l /proc/$(cat children | cut -d' ' -f1)/fd >fds",
    ]
    with (tmp_path / "out").open("w") as out:
        subprocess.run(
            words,
            stdout=out,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
            timeout=WAIT,
            env=environ,
            cwd=tmp_path,
        )
    found = (line.split(" -> ") for line in (tmp_path / "fds").read_text().splitlines()[1:])
    kinds = {int(number.split()[-1]): kind.partition(":")[0] for number, kind in found}
    pipes = ["pipe"] * (2 if os.geteuid() == 0 else 1)  # in place of root's /dev/null
    assert sorted(kind for number, kind in kinds.items() if number > 2) == [*pipes, "socket"], kinds
