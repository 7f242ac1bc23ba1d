"""The standard input, output and errors of a command: pipes, and no access to the files behind them.

Tests of streams.py.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from session.conftest import SANDWRIGHT, WAIT, Project
from session.terminals import terminal
from support.processtrees import who_has_open
from support.thorough import covering, representative
from support.waiting import until

pytestmark = [pytest.mark.needs("bwrap"), pytest.mark.real_start]

RUN = shlex.join([*SANDWRIGHT, "run", "--"])
LAUNCH = ".sandbox/bwrap/launch"


WAYS = ["run", "launch"]
LAUNCHED = pytest.mark.parametrize("start", representative(WAYS, "launch"), indirect=True)
"""`run` becomes the same launcher, which most tests here use."""


@pytest.fixture(params=representative(WAYS, "run"))
def start(request: pytest.FixtureRequest, project: Project) -> str:
    """The beginning of a shell line that runs a command in the sandbox: both end in the same launcher."""
    if request.param == "run":
        return RUN
    rendered = project.sandwright("render")
    assert rendered.returncode == 0, rendered.stderr
    return LAUNCH


def _shell(project: Project, script: str, *, errors: bool = False) -> subprocess.CompletedProcess[bytes]:
    """A shell's script in the project; without `errors` it may print none."""
    ended = subprocess.run(
        ["bash", "-c", script],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=WAIT,
        check=False,
        cwd=project.root,
        env=project.environ,
    )
    assert errors or ended.stderr == b""
    return ended


@LAUNCHED
def test_output_to_a_file_goes_where_the_shell_is(project: Project, start: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    ended = _shell(project, f"(echo a; {start} sh -c 'echo b; exit 5'; echo $?; echo c) >{file}")
    assert (file.read_text(), ended.returncode) == ("a\nb\n5\nc\n", 0)
    _shell(project, f"{start} echo d >>{file}")
    assert file.read_text() == "a\nb\n5\nc\nd\n"


def test_output_and_errors_in_one_file_keep_their_order(project: Project, start: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    script = "for i in 1 2 3 4 5 6 7 8 9; do echo out $i; echo err $i >&2; done"
    _shell(project, f"{start} sh -c {shlex.quote(script)} >{file} 2>&1")
    assert file.read_text() == "".join(f"out {i}\nerr {i}\n" for i in range(1, 10))


def test_output_and_errors_in_two_files(project: Project, start: str, tmp_path: Path) -> None:
    _shell(project, f"{start} sh -c 'echo out; echo err >&2' >{tmp_path}/out 2>{tmp_path}/err")
    assert (tmp_path / "out").read_text() == "out\n"
    assert (tmp_path / "err").read_text() == "err\n"


def test_bytes_come_through_whole(project: Project, start: str, tmp_path: Path) -> None:
    given = bytes(range(256)) * 65536
    (tmp_path / "in").write_bytes(given)
    _shell(project, f"{start} cat <{tmp_path}/in >{tmp_path}/out")
    assert (tmp_path / "out").read_bytes() == given


def test_a_file_that_is_standard_input_is_not_written(project: Project, start: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("content\n")
    ended = _shell(project, f"{start} sh -c 'cat; echo changed >/proc/self/fd/0' <{file}", errors=True)
    assert (ended.stdout, file.read_text()) == (b"content\n", "content\n")


@LAUNCHED
def test_a_file_that_is_output_is_not_read(project: Project, start: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("a secret\n")
    reading = "for fd in 1 2; do timeout 1 head -n 1 /proc/self/fd/$fd; done | tr a-z A-Z >&2"
    _shell(project, f"{start} sh -c {shlex.quote(reading)} >>{file} 2>&1")
    assert "A SECRET" not in file.read_text()
    assert file.read_text().startswith("a secret\n")


def test_the_rest_of_a_file_is_for_who_reads_next(project: Project, tmp_path: Path) -> None:
    """The behaviour is that without a sandbox: a loop over lines goes on, whatever its command does."""
    (tmp_path / "file").write_text("".join(f"{number}\n" for number in range(100_000)))
    script = f"while read -r line && [ $line -lt 3 ]; do {RUN} echo got $line; done <{tmp_path}/file"
    assert _shell(project, script).stdout == b"got 0\ngot 1\ngot 2\n"


def test_nothing_inside_moves_a_file_back_beyond_its_start(project: Project, tmp_path: Path) -> None:
    """Bytes that a command writes to its own standard input are unread: a loop would repeat lines."""
    (tmp_path / "file").write_text("".join(f"{number}\n" for number in range(100)))
    write = shlex.quote("head -c 20000 /dev/zero >/proc/self/fd/0")
    script = f"for i in 1 2 3; do read -r line; echo $line; done <{tmp_path}/file"
    script = script.replace("echo $line", f"echo $line; {RUN} sh -c {write}")
    assert _shell(project, script).stdout == b"0\n1\n2\n"


def test_a_command_that_does_not_read_to_the_end(project: Project, start: str, tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        file.truncate(1 << 30)
    assert _shell(project, f"{start} sh -c 'exec <&-; exit 6' <{tmp_path}/file; echo $?").stdout == b"6\n"
    assert _shell(project, f"{start} head -c 3 </dev/zero | wc -c").stdout == b"3\n"


def test_who_reads_the_output_may_end_early(project: Project, start: str) -> None:
    ended = _shell(project, f"set -o pipefail; {start} yes | head -n 1; echo $?", errors=True)
    assert ended.stdout == b"y\n141\n"


def test_what_can_not_be_written_is_no_success(project: Project, start: str) -> None:
    ended = _shell(project, f"{start} echo x >/dev/full; echo $?", errors=True)
    assert ended.stdout != b"0\n"
    assert b"No space left on device" in ended.stderr


def test_standard_descriptors_may_be_closed(project: Project, start: str) -> None:
    ended = _shell(project, f"{start} sh -c 'cat; echo out; echo err >&2; exit 7' <&- >&- 2>&-; echo $?")
    assert ended.stdout == b"7\n"


@pytest.mark.parametrize(
    ("start", "place"),
    covering(["run", "launch"], ["<{f} >{f}2", ">{f}2 2>&1", "</dev/null >{f}2", "| cat"]),
    indirect=["start"],
)
def test_a_terminal_that_is_not_input_and_output_is_not_read(
    project: Project, start: str, tmp_path: Path, place: str
) -> None:
    """The keys belong to the shell that started it, whatever descriptors the terminal has."""
    (tmp_path / "file").write_text("")
    look = "timeout 1 head -n 1 <&$fd >>got; timeout 1 head -n 1 /proc/self/fd/$fd >>got"
    reading = f"for fd in 0 1 2; do {look}; done"
    script = (
        f"{start} sh -c {shlex.quote(f'echo >begun; {reading}; echo >ended')} "
        f'{place.format(f=tmp_path / "file")}; echo status $?; read -r line; echo "the shell read $line"'
    )
    with terminal(["/bin/bash", "-c", script], project.root, project.environ) as shown:
        until((project.root / "begun").exists, "it does not begin")
        shown.type(b"a password\n")
        shown.read_until(b"status 0")
        assert (project.root / "ended").exists()
        shown.read_until(b"the shell read a password")
        assert shown.end() == 0
    assert "password" not in (project.root / "got").read_text()


def test_in_the_background_it_is_not_stopped_and_reads_nothing(project: Project, start: str) -> None:
    """It uses a separate terminal; the keys belong to the shell."""
    script = f"""
        set -m
        {start} sh -c 'head -n 1 >got' &
        until test -e got; do sleep 0.05; done
        echo beg''un; read -r line; echo "the shell read $line"; jobs; kill -9 %1; wait; echo en''ded
    """
    with terminal(["/bin/bash", "-c", script], project.root, project.environ) as shown:
        shown.read_until(b"begun")
        shown.type(b"a password\n")
        shown.read_until(b"the shell read a password")
        assert b"Running" in shown.read_until(b"ended")
        shown.end()
    assert (project.root / "got").read_bytes() == b""


def test_what_is_typed_before_it_starts_arrives(project: Project, start: str) -> None:
    with terminal(["/bin/bash", "-c", f"exec {start} bash --norc"], project.root, project.environ) as shown:
        shown.type(b"echo hi-$((1 + 1)); exit 5\r")
        shown.read_until(b"hi-2")
        assert shown.end() == 5


def test_output_alone_on_a_terminal_is_shown(project: Project, start: str) -> None:
    script = f"{start} sh -c 'echo out; echo err >&2; exit 9' </dev/null"
    with terminal(["/bin/bash", "-c", script], project.root, project.environ) as shown:
        shown.read_until(b"out\r\nerr\r\n")
        assert shown.end() == 9


def test_errors_in_a_file_beside_a_terminal(project: Project, start: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("before\n")
    script = f"{start} sh -c 'tty -s && echo shown; echo err >&2; exit 9' 2>>{file}"
    with terminal(["/bin/bash", "-c", script], project.root, project.environ) as shown:
        shown.read_until(b"shown\r\n")
        assert shown.end() == 9
    assert file.read_text() == "before\nerr\n"


@LAUNCHED
def test_nothing_stays_open(project: Project, start: str, tmp_path: Path) -> None:
    """Only standard input, output and errors are open, and the descriptor of `ls` itself."""
    _shell(project, f"{start} ls /proc/self/fd <{project.policy} >{tmp_path}/out")
    assert (tmp_path / "out").read_text().split() == ["0", "1", "2", "3"]


@pytest.mark.parametrize(("start", "name"), covering(WAYS, ["TERM", "KILL"]), indirect=["start"])
def test_no_relay_outlives_a_launcher(project: Project, start: str, tmp_path: Path, name: str) -> None:
    file = tmp_path / "out"
    words = ["bash", "-c", f"exec {start} sh -c 'echo up; exec sleep 1000' </dev/zero >{file}"]
    with subprocess.Popen(words, cwd=project.root, env=project.environ) as running:
        until(lambda: file.exists() and file.read_text() == "up\n", "it does not start")
        os.kill(running.pid, 15 if name == "TERM" else 9)
        running.wait(WAIT)
    until(lambda: not who_has_open(file), "somebody has the file open")
