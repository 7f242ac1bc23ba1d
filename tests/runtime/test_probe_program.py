"""The probe program: its protocol, and the answers of its attempts outside of any sandbox.

Tests of runtime/probe/protocol.py.
Tests of runtime/probe/source/files.c.
Tests of runtime/probe/source/main.c.
Tests of runtime/probe/source/network.c.
Tests of runtime/probe/source/processes.c.
"""

from __future__ import annotations

import os
import shutil
import socket
import threading
from pathlib import Path

import pytest

from sandwright import process
from sandwright.errors import HostError
from sandwright.host import collect_host
from sandwright.runtime.probe import PROBE, own_probe
from sandwright.runtime.probe.protocol import (
    NO_ANSWER,
    Attempt,
    ProbeAnswer,
    attempt,
    parse_answers,
    request_line,
    requests,
)
from sandwright.verify.listeners import canary_listeners
from support import labworker


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The probe program, where it can be executed."""
    copied = Path(shutil.copy(own_probe(), tmp_path / "probe"))
    copied.chmod(0o755)
    return copied


def _made(program: Path, *attempts: Attempt, cwd: Path | None = None) -> list[ProbeAnswer]:
    result = process.run(program, stdin=requests(attempts, word="word"), cwd=cwd, timeout=60)
    return parse_answers(result.stdout, len(attempts), word="word")


def _names(program: Path, *attempts: Attempt, cwd: Path | None = None) -> list[str]:
    return [answer.name for answer in _made(program, *attempts, cwd=cwd)]


def test_every_attempt_is_answered_with_the_system_s_own_word(program: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content")
    assert _names(
        program,
        attempt("read", "file"),
        attempt("read", "missing"),
        attempt("list", "file"),
        attempt("create", "file"),
        attempt("rmdir", "."),
        attempt("readlink", "file"),
        attempt("fault", 8),
        attempt("no-such-thing"),
        attempt("syscall", 100_000),
        cwd=tmp_path,
    ) == ["ok", "ENOENT", "ENOTDIR", "EEXIST", "EINVAL", "EINVAL", "SIGSEGV", "unknown", "ENOSYS"]


def test_a_socket_of_its_own_leaves_no_file(program: Path, tmp_path: Path) -> None:
    """/tmp may be the machine's, where no other process would remove it."""
    (tmp_path / "taken").touch()
    own = (attempt("own-unix", tmp_path / "socket"), attempt("own-unix", tmp_path / "taken"))
    assert _names(program, *own) == ["ok", "EADDRINUSE"]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["probe", "taken"]


def test_bytes_arrive_and_come_back_as_they_are(program: Path, tmp_path: Path) -> None:
    name, content = os.fsencode(tmp_path) + b"/\xff line\nbreak '\"$(x)", bytes(range(1, 256))
    (made, read, length) = _made(
        program, attempt("create", name, content), attempt("read", name), attempt("length", name)
    )
    assert (made.name, read.value, length.value) == ("ok", content, b"255")
    assert Path(os.fsdecode(name)).read_bytes() == content


def test_no_attempt_changes_the_next_one(program: Path) -> None:
    own = f"{os.getuid()} {os.geteuid()} {os.getgid()} {os.getegid()}".encode()
    first, *_, last = _made(
        program,
        attempt("identity"),
        attempt("setuid", 12345),
        attempt("lift", 7),
        attempt("files", 100_000),
        attempt("exit", 3),
        attempt("identity"),
    )
    assert first.value == last.value == own


def test_what_writes_nothing_changes_nothing(program: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("content")
    os.utime(file, (1, 1))
    assert _names(program, attempt("write", file), attempt("length", file)) == ["ok", "ok"]
    assert (file.read_text(), file.stat().st_mtime) == ("content", 1)


@pytest.mark.needs("unshare")
def test_an_ordinary_empty_file_is_no_mask(program: Path, tmp_path: Path) -> None:
    """A mask is a mount or the null device; a file with content is no mask."""
    for name in ("empty", "nothing", "masked", "device", "filled"):
        (tmp_path / name).write_text("content" if name == "filled" else "")
    binds = {"nothing": "masked", "/dev/null": "device", "filled": "filled"}
    script = " && ".join([*(f"mount --bind {what} {where}" for what, where in binds.items()), "./probe"])
    names = ("empty", "masked", "device", "filled", "missing")
    asked = requests([attempt("content", name) for name in names], word="word")
    enter, _ = labworker.mount_namespace()
    result = process.run(*enter, "sh", "-c", script, stdin=asked, cwd=tmp_path, timeout=60)
    found = parse_answers(result.stdout, len(names), word="word")
    assert [str(each) for each in found] == ["ok '0'", "ENODATA", "ENODATA", "ok '7'", "ENOENT"]


def test_one_that_hangs_is_late(program: Path) -> None:
    assert _names(program, attempt("sleep", 60), attempt("echo", "on")) == ["late", "ok"]


def test_canaries_hear_what_gets_out(program: Path, tmp_path: Path) -> None:
    with canary_listeners(tmp_path, tmp_path, "name") as listeners:
        told = {
            "tcp": attempt("tcp", "127.0.0.1", listeners.loopback, "by tcp"),
            "udp": attempt("udp", "127.0.0.1", listeners.datagrams, "by udp"),
            "unix": attempt("unix", listeners.path, "by unix"),
            "abstract": attempt("abstract", listeners.abstract, "by abstract"),
        }
        assert _names(program, *told.values()) == ["ok"] * 4
        for name in told:
            assert _heard(listeners, f"by {name}")
        assert not listeners.heard("never said")


def _heard(listeners: object, word: str) -> bool:
    ready = threading.Event()
    for _ in range(200):
        if listeners.heard(word):  # type: ignore[attr-defined]
            return True
        ready.wait(0.01)
    return False


def test_where_nobody_listens_the_connection_is_refused(program: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert _names(
        program,
        attempt("tcp", "127.0.0.1", port),
        attempt("unix", tmp_path / "missing"),
        attempt("tcp", "no.name.is.looked.up", port),
        attempt("loopback", "127.0.0.1"),
    ) == ["ECONNREFUSED", "ENOENT", "EINVAL", "ok"]


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        pytest.param(b"w 0 ok 6869\n", ProbeAnswer("ok", value=b"hi"), id="a value"),
        pytest.param(b"w 0 ok -\n", ProbeAnswer("ok"), id="no value"),
        pytest.param(b"w 0 errno EROFS\n", ProbeAnswer("errno", "EROFS"), id="an error"),
        pytest.param(b"other 0 ok -\n", NO_ANSWER, id="another program's line"),
        pytest.param(b"w 0 ok zz\n", NO_ANSWER, id="no hex"),
        pytest.param(b"w 0 errno EROFS\nw 0 ok -\n", ProbeAnswer("errno", "EROFS"), id="the first counts"),
        pytest.param(b"w 1 ok -\n", NO_ANSWER, id="another attempt's"),
        pytest.param(b"w 0 granted -\n", NO_ANSWER, id="no such answer"),
        pytest.param(b"\xff\xfe", NO_ANSWER, id="no text"),
    ],
)
def test_answers_are_read_with_care(output: bytes, expected: ProbeAnswer) -> None:
    assert parse_answers(output, 1, word="w") == [expected]


@pytest.mark.parametrize(
    ("detail", "name"),
    [("9", "SIGKILL"), ("0", "ended"), ("²", "signal ²"), ("9" * 5000, "signal " + "9" * 5000)],
    ids=["a signal", "none", "no digit", "too long"],
)
def test_signals_have_names(detail: str, name: str) -> None:
    """This includes the signals that a third-party sandbox invents."""
    assert parse_answers(f"w 0 signal {detail}\n".encode(), 1, word="w")[0].name == name


def test_lines_may_be_arguments(program: Path, tmp_path: Path) -> None:
    lines = [
        request_line(each, 0, word="w")
        for each in (attempt("echo", "on"), attempt("read", tmp_path / "none"))
    ]
    result = process.run(program, "--lines", "42", *lines, check=False)
    assert (result.text.splitlines(), result.status) == (["w 0 ok 6f6e", "w 0 errno ENOENT"], 42)


@pytest.mark.parametrize("platform", [each for each in PROBE.platforms if each.startswith("linux/")])
def test_it_runs_on_every_processor(platform: str, tmp_path: Path) -> None:
    host = collect_host()
    if platform != host.platform and host.emulator(platform) is None:
        pytest.skip(f"{platform} does not run here: no interpreter registered")
    built = Path(shutil.copy(PROBE.path(platform), tmp_path))
    built.chmod(0o755)
    assert _names(built, attempt("echo", "x"), attempt("create", "/proc/none")) == ["ok", "ENOENT"]


@pytest.mark.parametrize("platform", PROBE.platforms)
def test_it_is_small_and_static(platform: str) -> None:
    content = PROBE.path(platform).read_bytes()
    assert content[:4] == (b"\x7fELF" if platform.startswith("linux/") else bytes.fromhex("cffaedfe"))
    assert len(content) < 100_000
    if platform.startswith("linux/"):
        assert b"/ld-" not in content, "no interpreter"


def test_a_processor_that_it_is_not_built_for(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("Linux", "host", "6.18", "#1", "riscv64")
    monkeypatch.setattr("os.uname", lambda: os.uname_result(words))
    with pytest.raises(HostError, match="there is no probe program for linux/riscv64"):
        own_probe()
