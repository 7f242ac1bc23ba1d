"""The native scan after a run: Ctrl-C ends it, and keys that were typed while the command ran do not."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandwright.session import cache_key
from sandwright.session.entry import CacheEntry, entry_bytes
from support.deadfuse import dead_fuse
from support.fronts import installed

STATUS = 7
LONG = 3.0
"""Seconds after which the scan is given up (scan.c, PATIENCE)."""

pytestmark = pytest.mark.skipif(
    os.getuid() != 0 or not Path("/dev/fuse").exists(), reason="root mounts a file system that doesn't answer"
)


@pytest.fixture
def silent(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "shown").mkdir()
    (tmp_path / "project/mounted").mkdir(parents=True)
    with dead_fuse(tmp_path / "shown", tmp_path / "project/mounted") as mounted:
        mounted.silence()
        yield tmp_path / "project/mounted"


def _looking(
    root: Path,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    policy: str = '"policy": "a"}',
    before: Callable[[], object] = lambda: None,
) -> tuple[subprocess.Popen[str], Path]:
    """The command at the end of a run; a report would print `reported`. `policy` is the entry's."""
    home = folder / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    known = folder / "known"
    known.write_text(f'{{"full": "{int(time.time())}"}}')
    path, record = folder / f"{'0' * 64}.entry", folder / "1.json"
    clock = f"[{time.time_ns()}, {time.monotonic_ns()}]"
    record.write_text(f'{{"session": "1", "clock": {clock}, "policy": "a"}}')
    key = cache_key.make()
    assert key is not None
    entry = CacheEntry(questions=(), record=policy, roots=(str(root),), known=str(known))
    body = entry_bytes(entry)
    path.write_bytes(cache_key.mac(key, str(path), body) + b"\n" + body)
    path.chmod(0o600)
    words = [str(installed(folder / "bin")), "--after", str(path)]
    ended = subprocess.Popen(
        [*words, "/bin/echo", "reported", str(record), str(STATUS)],
        stdout=subprocess.PIPE,
        text=True,
        env={"HOME": str(home)},
        preexec_fn=lambda: _as_the_launcher(before),  # noqa: PLW1509 - little happens there
    )
    return ended, record


def _as_the_launcher(before: Callable[[], object]) -> None:
    """Block signals, and send one that was meant for the command."""
    before()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    os.kill(os.getpid(), signal.SIGINT)


def _after(process: subprocess.Popen[str]) -> tuple[str, float]:
    began = time.monotonic()
    output, _ = process.communicate(timeout=60)
    return output, time.monotonic() - began


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it(
    silent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    looking, record = _looking(silent, tmp_path, monkeypatch)
    time.sleep(0.5)
    assert looking.poll() is None
    looking.send_signal(number)
    output, seconds = _after(looking)
    assert (looking.returncode, output, record.exists()) == (STATUS, "", False)
    assert seconds < LONG / 2


def test_without_one_python_reports(silent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looking, record = _looking(silent, tmp_path, monkeypatch)
    output, seconds = _after(looking)
    assert (looking.returncode, output) == (0, f"reported {record} {STATUS}\n")
    assert seconds > LONG - 0.2


def test_nothing_to_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "project").mkdir()
    looking, record = _looking(tmp_path / "project", tmp_path, monkeypatch)
    output, _ = _after(looking)
    assert (looking.returncode, output, record.exists()) == (STATUS, "", False)


@pytest.mark.parametrize("policy", ['"policy": "b"}', '"much": "more than the record", "policy": "a"}', ""])
def test_an_entry_of_another_policy_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    """A run that began later, with fewer writable paths, may have replaced the entry."""
    (tmp_path / "project").mkdir()
    looking, record = _looking(tmp_path / "project", tmp_path, monkeypatch, policy)
    output, _ = _after(looking)
    assert (looking.returncode, output) == (0, f"reported {record} {STATUS}\n")
    assert record.exists()


def test_its_caller_ignores_the_end_of_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the kernel does not report how a child ended."""
    (tmp_path / "project").mkdir()

    def ignore() -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    looking, record = _looking(tmp_path / "project", tmp_path, monkeypatch, before=ignore)
    output, _ = _after(looking)
    assert (looking.returncode, output, record.exists()) == (STATUS, "", False)


def test_a_child_of_the_launcher_ends_meanwhile(
    silent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child that the launcher left running does not affect the scan."""

    def leave_child() -> None:
        if os.fork() == 0:
            for descriptor in range(3):
                os.close(descriptor)
            time.sleep(0.5)
            os._exit(0)

    looking, record = _looking(silent, tmp_path, monkeypatch, before=leave_child)
    output, seconds = _after(looking)
    assert (looking.returncode, output) == (0, f"reported {record} {STATUS}\n")
    assert seconds > LONG - 0.2
