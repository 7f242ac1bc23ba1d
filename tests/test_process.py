"""Programs are started without a shell, within a time limit (timeout), and leave no children.

Tests of process.py.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from sandwright import process
from sandwright.errors import CommandFailed, ToolMissing

HOSTILE_WORDS = ["$(id)", "; true", "a b", "'", '"', "\\", "*", "-n", "\n", "é"]


def _gone(pid: int) -> bool:
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


def test_arguments_reach_the_program_as_they_are() -> None:
    result = process.run("printf", "%s\\0", *HOSTILE_WORDS)
    assert result.stdout.decode().split("\0")[:-1] == HOSTILE_WORDS


def test_status_and_stderr_of_a_failure_are_told() -> None:
    with pytest.raises(CommandFailed) as caught:
        process.run("sh", "-c", "echo why >&2; exit 7")
    assert (caught.value.status, caught.value.stderr) == (7, "why\n")
    assert str(caught.value) == "sh -c echo why >&2; exit 7: exit status 7\nwhy"


def test_failure_is_a_falsy_result_when_not_checked() -> None:
    result = process.run("false", check=False)
    assert not result
    assert result.status == 1
    assert process.run("true")


def test_death_by_signal_is_told() -> None:
    with pytest.raises(CommandFailed, match="ended by signal 15"):
        process.run("sh", "-c", "kill -TERM $$")


def test_time_limit_kills_the_whole_group(tmp_path: Path) -> None:
    pidfile = tmp_path / "pid"
    started = time.monotonic()
    with pytest.raises(CommandFailed, match=r"did not end within 0\.5 s"):
        process.run("sh", "-c", f"sleep 60 & echo $! >{pidfile}; wait", timeout=0.5)
    assert time.monotonic() - started < 10
    assert _gone(int(pidfile.read_text()))


def test_a_program_is_killed_when_it_is_to_stop() -> None:
    started = time.monotonic()
    with pytest.raises(CommandFailed):
        process.run("sleep", "60", stop=lambda: time.monotonic() > started + 0.5)
    assert time.monotonic() - started < 10
    assert process.run("sh", "-c", "printf 1; sleep 0.5; printf 2", stop=lambda: False).stdout == b"12"


def test_leaving_the_block_kills_what_still_runs() -> None:
    with process.start("sleep", "60") as child:
        pass
    assert child.returncode == -signal.SIGKILL


def test_missing_program_is_named_with_its_hint() -> None:
    with pytest.raises(ToolMissing) as caught:
        process.which("sandwright-no-such-program", hint="apt-get install it")
    assert str(caught.value) == "sandwright-no-such-program is not installed; apt-get install it"
    with pytest.raises(ToolMissing):
        process.run("sandwright-no-such-program")
    with pytest.raises(ToolMissing):
        process.run("/nowhere/sandwright-no-such-program")


def test_input_output_environment_and_directory(tmp_path: Path) -> None:
    assert process.run("cat", stdin=b"\x00\xff").stdout == b"\x00\xff"
    assert process.run("cat").stdout == b""
    assert process.run("/usr/bin/env", env={"ONLY": "this"}).text == "ONLY=this"
    assert process.run("pwd", cwd=tmp_path).text == str(tmp_path)
    with (tmp_path / "out").open("wb") as out:
        assert process.run("echo", "hello", stdout=out).stdout == b""
    assert (tmp_path / "out").read_bytes() == b"hello\n"


def test_descriptors_are_passed_only_when_named() -> None:
    reader, writer = os.pipe()
    try:
        os.set_inheritable(writer, True)
        write = [sys.executable, "-c", "import os, sys; os.write(int(sys.argv[1]), b'seen')", str(writer)]
        assert not process.run(*write, check=False)
        assert process.run(*write, pass_fds=[writer])
        assert os.read(reader, 100) == b"seen"
    finally:
        os.close(reader)
        os.close(writer)


def test_directories_to_avoid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No program comes from a directory that a sandbox can write, nor through a link that it can replace."""
    writable, other, linked = tmp_path / "p", tmp_path / "other", tmp_path / "linked"
    for folder in (writable, other, linked):
        folder.mkdir()
    for folder in (writable, other):
        (folder / "tool").write_text("#!/bin/sh\necho ${0%/*}\n")
        (folder / "tool").chmod(0o755)
    (linked / "tool").symlink_to(writable / "tool")
    (writable / "out").symlink_to(other)
    (tmp_path / "in").symlink_to(writable)
    places = (writable, tmp_path / "in", writable / "out", linked, ".", "", other)
    monkeypatch.setenv("PATH", ":".join(map(str, places)))
    monkeypatch.chdir(writable)
    monkeypatch.setattr(process, "_avoided", [process._never])
    assert process.find("tool") == f"{writable}/tool"
    process.avoid_writable(lambda path: f"{path}/".startswith(f"{writable}/"))
    assert process.find("tool") == f"{other}/tool"
    assert process.search_path() == f"{linked}:{other}"
    assert process.run("tool").text == str(other)
    shown = process.run("/bin/sh", "-c", 'echo "$PATH"').text
    assert shown == process.search_path()
    (other / "tool").unlink()
    assert process.find("tool") is None


@pytest.mark.parametrize("way", ["directory", "link", "linked directory", "link out"])
def test_programs_below_any_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """A sandbox of another project may have put them there: neither this process nor a child uses one."""
    bins, good, linked = tmp_path / "other/.venv/bin", tmp_path / "good", tmp_path / "linked"
    for folder in (bins, good, linked):
        folder.mkdir(parents=True)
    for folder in (bins, good):
        (folder / "tool").write_text(f"#!/bin/sh\necho {folder}\n")
        (folder / "tool").chmod(0o755)
    (linked / "tool").symlink_to(bins / "tool")
    (tmp_path / "to").symlink_to(bins)
    (tmp_path / "other" / "out").symlink_to(shutil.copytree(bins, tmp_path / "elsewhere"))
    first = {"directory": bins, "link": linked, "linked directory": tmp_path / "to"}.get(
        way, bins / "../../out"
    )
    monkeypatch.setenv("PATH", f"{first}:{good}:/usr/bin")
    monkeypatch.setattr(process, "_avoided", [process._never])
    assert process.run("tool").text == str(bins), "without a policy it is any directory"
    (tmp_path / "other" / "sandbox.yaml").symlink_to("nowhere")
    assert process.run("tool").text == str(good)
    shown = process.run("/bin/sh", "-c", 'echo "$PATH"').text
    assert shown == f"{linked}:{good}:/usr/bin".removeprefix("" if way == "link" else f"{linked}:")
    (good / "tool").unlink()
    assert process.find("tool") is None


def test_a_program_that_is_being_written_is_started_when_it_is_done(tmp_path: Path) -> None:
    """Another thread's child may hold a descriptor of it until it executes its own program."""
    program = tmp_path / "program"
    shutil.copy(process.which("true"), program)
    with program.open("r+b") as file, pytest.raises(OSError, match="Text file busy"):
        process.run(str(program))
    file = program.open("r+b")
    threading.Timer(0.2, file.close).start()
    assert process.run(str(program)).status == 0
    assert file.closed


def test_how_long_is_waited_for_a_program() -> None:
    with process.start("sleep", "0.2") as running:
        assert not process.ended_within(running.poll, 0.01)
        assert process.ended_within(running.poll, 20)
        assert process.ended_within(running.poll, 0), "it has ended before"
