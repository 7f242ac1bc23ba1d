"""Starting programs that hang, flood, leave children behind, or are cancelled.

Tests of watchdog.py.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from sandwright.errors import ToolMissing
from sandwright.watchdog import MOST_OUTPUT, Ended, run_bounded, runtime_environment
from support.processtrees import naming
from support.waiting import eventually

NEVER = threading.Event()


def test_what_it_wrote_and_how_it_ended() -> None:
    ended = run_bounded(["sh", "-c", "echo out; echo err >&2; exit 7"], limit=20, stop=NEVER)
    assert (ended.how, ended.status, ended.stdout, ended.stderr) == ("exited", 7, b"out\n", "err\n")
    assert ended.describe() == "exit status 7: err"


def test_a_signal_is_a_negative_status() -> None:
    assert run_bounded(["sh", "-c", "kill -9 $$"], limit=20, stop=NEVER).status == -9


def test_a_hanging_program_ends_at_its_limit() -> None:
    started = time.monotonic()
    ended = run_bounded(["sleep", "600"], limit=0.3, stop=NEVER)
    assert (ended.how, ended.status) == ("timeout", None)
    assert 0.3 <= time.monotonic() - started < 30
    assert ended.describe().startswith("did not end within")


def test_a_child_that_keeps_the_output_open_is_not_waited_for(tmp_path: Path) -> None:
    """A container whose runtime was killed does this: it is in another session and holds the output."""
    note = tmp_path / "pid"
    script = f"setsid sh -c 'echo $$ > {note}; exec sleep 600' & sleep 0.3; exit 3"
    started = time.monotonic()
    ended = run_bounded(["sh", "-c", script], limit=60, stop=NEVER)
    os.kill(int(note.read_text()), 9)
    assert (ended.how, ended.status) == ("exited", 3)
    assert time.monotonic() - started < 30


def test_its_group_dies_with_it(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    run_bounded(["sh", "-c", f"sleep 600 & echo $! > {note}; wait"], limit=0.5, stop=NEVER)
    child = Path(f"/proc/{int(note.read_text())}/stat")
    eventually(lambda: not child.exists() or child.read_text().split()[2] == "Z", within=30)
    assert not child.exists() or child.read_text().split()[2] == "Z"


def test_its_children_in_other_sessions_die_with_it(tmp_path: Path) -> None:
    """bubblewrap's child is one, and ends with its parent only after its set-up (`--die-with-parent`).

    The program starts them all the time, also between the look for its children and its end.
    """
    mark = f"sleeps-{tmp_path.name}-{os.getpid()}"
    starts = f"while :; do setsid sh -c 'sleep 600; :' {mark} & sleep 0.01; done"
    ended = run_bounded(["sh", "-c", f"{starts}"], limit=0.4, stop=NEVER, kill_descendants=True)
    assert ended.how == "timeout"
    assert not naming(mark)


def test_called_off() -> None:
    stop = threading.Event()
    threading.Timer(0.2, stop.set).start()
    started = time.monotonic()
    ended = run_bounded(["sleep", "600"], limit=600, stop=stop)
    assert (ended.how, ended.describe()) == ("stopped", "called off")
    assert time.monotonic() - started < 30


def test_a_flood_is_ended() -> None:
    ended = run_bounded(["sh", "-c", "exec cat /dev/zero"], limit=60, stop=NEVER)
    assert ended.how == "flooded"
    assert len(ended.stdout) == MOST_OUTPUT


def test_a_program_that_is_not_there() -> None:
    with pytest.raises(ToolMissing, match="no-such-program is not installed"):
        run_bounded(["no-such-program"], limit=5, stop=NEVER)


def test_the_environment_is_what_it_is_given() -> None:
    ended = run_bounded(["env"], limit=20, stop=NEVER, env={"ONLY": "this", "PATH": os.environ["PATH"]})
    assert sorted(line.partition("=")[0] for line in ended.stdout.decode().split()) == ["ONLY", "PATH"]


def test_base_environment_leaves_out_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", "secret")
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("PATH", "/usr/bin")
    kept = runtime_environment()
    assert kept["HOME"] == "/home/me"
    assert kept["PATH"] == "/usr/bin:/usr/local/sbin:/usr/sbin:/sbin"
    assert "SOME_TOKEN" not in kept


@pytest.mark.parametrize(
    ("ended", "text"),
    [
        (Ended("exited", 1, b"", "", 0.1), "exit status 1"),
        (Ended("exited", 1, b"", "first\n\n  last  \n", 0.1), "exit status 1: last"),
        (Ended("timeout", None, b"", "", 60.2), "did not end within 60 s"),
        (Ended("flooded", None, b"", "", 1.0), "wrote more than 4 MiB"),
    ],
    ids=["silent", "last-line", "timeout", "flooded"],
)
def test_describe(ended: Ended, text: str) -> None:
    assert ended.describe() == text


def test_it_reads_nothing_and_gets_no_device_of_the_host() -> None:
    """runsc makes the container's user the owner of its streams: /dev/null would change on the host."""
    ended = run_bounded(["sh", "-c", "readlink /proc/self/fd/0; cat"], limit=20, stop=NEVER)
    assert ended.stdout.startswith(b"pipe:")
    assert ended.status == 0
