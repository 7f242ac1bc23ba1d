"""Denials are reported during a run: `run --denials FILE`, and `logs --denials` of a detached run.

Tests of session/follower.py.
Tests of session/live_denials.py.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sandwright.egress.supervisor import MAX_LOGS
from sandwright.errors import HostError
from sandwright.launcher.run_document import RunDocument, open_run_document, with_document
from sandwright.session.denials import explain_denial
from sandwright.session.events import DeniedCall, RunDenied, decode_events, encode_event
from sandwright.session.follower import follow_run
from sandwright.session.live_denials import DenialReader, DenialWriter
from session.conftest import WAIT, Project
from session.hostsockets import Host
from session.jobs import NOBODY, place
from session.test_denials_methods import INSIDE, LANDLOCK
from session.test_keys import METHODS
from session.test_run_containers import busybox_root
from support import interpreters
from support.processtrees import below, held_up, is_there, program
from support.sessionrecords import CONTEXT
from support.waiting import until

SOON = 1.0
"""Seconds."""
CELLS = [
    pytest.param(method, uid, marks=METHODS[method], id=f"{method}-{'user' if uid else 'root'}")
    for method, uid in (
        *((method, uid) for method in ("bwrap", "oci", "landlock") for uid in (0, NOBODY)),
        ("user", 0),
    )
]
CALL = "import ctypes; ctypes.CDLL(None).ptrace(0, 0, 0, 0)"
WAITS = f"{interpreters.INSIDE} -P -c '{CALL}'; touch at; while [ ! -e go ]; do sleep 0.05; done"
PROXIED = [pytest.param(each, marks=METHODS[each]) for each in ("bwrap", "landlock", "oci", "gvisor", "vm")]
POLICIES = {
    "bwrap": "schema: 1\nmethod: bwrap\nfilesystem: {write: [$PROJECT]}\n",
    "landlock": f"{LANDLOCK}filesystem: {{write: [$PROJECT]}}\n",
}


@pytest.fixture(autouse=True)
def _over(project: Project) -> Iterator[None]:
    """No command waits after a test."""
    yield
    (project.root / "go").touch()


MANY = """
import ctypes, socket
libc = ctypes.CDLL(None)
for number in range(100_000):
    libc.ptrace(0, 0, 0, 0)
for number in range(1000):
    with socket.socket() as one:
        one.connect_ex(("192.0.2.1", 1 + number))
"""


def _detach(project: Project, script: str, *options: str) -> None:
    words = ("run", "--detach", "--name", "web", "--trust-policy", *options, "--", "sh", "-c", script)
    ended = project.sandwright(*words)
    assert ended.returncode == 0, ended.stderr


def _lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def _total(found: list[dict[str, Any]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for each in found:
        total[each.get("what", each["kind"])] += each["count"]
    return total


def _delay(project: Project, denials: Path) -> float:
    """Seconds from the denial, as noted by the program inside, to the line in a file."""
    file = project.root / "at"
    until(file.exists, "the command does not start")
    return denials.stat().st_mtime - file.stat().st_mtime


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("method", POLICIES)
def test_a_follower_sees_a_denial_while_the_run_goes_on(project: Project, method: str) -> None:
    project.policy.write_text(POLICIES[method])
    _detach(project, WAITS)
    words = [*project.forked, "logs", "--denials", "--follow", "web"]
    with subprocess.Popen(words, cwd=project.root, env=project.environ, stdout=subprocess.PIPE) as follows:
        assert follows.stdout is not None
        assert follows.stdout.readline().startswith(b"refused: the system call ptrace (EPERM), once: ")
        assert b"allow it with: `process: {seccomp: build}`" in follows.stdout.readline()
        (project.root / "go").touch()
        assert follows.communicate(timeout=WAIT)[0] == b""
    said = project.sandwright("logs", "--denials", "web").stdout.decode()
    assert said.startswith("refused: the system call ptrace (EPERM), once: ")
    assert len(said.splitlines()) == 2


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("method", POLICIES)
def test_the_file_has_a_denial_while_the_run_goes_on(project: Project, method: str) -> None:
    project.policy.write_text(POLICIES[method])
    file = project.home / "denials"
    started = project.start("sh", "-c", WAITS, options=("--trust-policy", "--denials", str(file)))
    until(lambda: file.exists() and bool(_lines(file)), "it is written at the end only", within=30)
    assert _delay(project, file) < SOON
    (one,) = _lines(file)
    assert (one["kind"], one["what"], one["count"]) == ("syscall", "ptrace", 1)
    (project.root / "go").touch()
    assert b"refused: the system call ptrace (EPERM), once" in started.communicate(timeout=WAIT)[1]
    assert _lines(file) == [one], "it did not happen again"


@pytest.mark.skipif(os.getuid() != 0, reason="becomes other users")
@pytest.mark.parametrize(("method", "uid"), CELLS)
def test_the_launcher_reports_a_call_while_the_run_goes_on(method: str, uid: int) -> None:
    """It writes to a journal, which its caller reads."""
    script = "unshare -m true 2>/dev/null; touch at; while [ ! -e go ]; do sleep 0.05; done"
    with place(method, uid) as at:
        journal = Path(at.environ["HOME"], "journal")
        journal.touch()
        os.chown(journal, uid, uid)
        document = open_run_document(RunDocument(journal=str(journal)))
        words = [*at.before, *with_document([str(at.launcher), "sh", "-c", script], document)]
        with subprocess.Popen(words, cwd=at.root, env=dict(at.environ), pass_fds=(document,)) as started:
            os.close(document)
            try:
                until(lambda: "refused" in journal.read_text(), "it is reported at the end", within=30)
                assert not (at.root / "go").exists()
                delay = journal.stat().st_mtime - (at.root / "at").stat().st_mtime
            finally:
                (at.root / "go").touch()
            assert started.wait(WAIT) == 0
        (event,) = decode_events(journal.read_bytes())
        assert isinstance(event, RunDenied)
        assert isinstance(event.what, DeniedCall)
        assert delay < SOON


@pytest.mark.needs("bwrap")
def test_what_happens_again_is_counted(project: Project) -> None:
    """A program with very many denials fills neither the file nor the memory."""
    project.policy.write_text(POLICIES["bwrap"])
    file = project.home / "denials"
    options = ("--denials", str(file), "--detach", "--name", "web")
    assert project.run(interpreters.INSIDE, "-P", "-c", MANY, options=options).returncode == 0
    followed = project.sandwright("logs", "--denials", "--follow", "web").stdout.decode().splitlines()
    found = _lines(file)
    assert len(found) <= 2 * 257
    total = _total(found)
    assert total["ptrace"] == 100_000
    assert total["omitted"] == 1000 - 255
    assert sum(total.values()) == 101_000
    assert [line for line in followed if "ptrace" in line][-1].startswith(
        "refused: the system call ptrace (EPERM), 100000 times: "
    )
    assert followed[-1] == "refused: 745 times more, of other kinds, for which there was no room"
    listed = project.sandwright("logs", "--denials", "web").stdout.decode().splitlines()
    assert listed[0].startswith("refused: the system call ptrace (EPERM), 100000 times: ")
    assert len(listed) == 2 * 256 + 1


@pytest.mark.needs("bwrap")
def test_programs_inside_reach_neither_file_nor_journal(project: Project) -> None:
    project.policy.write_text("schema: 1\nmethod: bwrap\nfilesystem: {read: [/, $HOME], write: [$PROJECT]}\n")
    file = project.home / "denials"
    logs = project.home / ".cache/sandwright/sessions/logs"
    script = (
        f"{interpreters.INSIDE} -P -c '{CALL}'; sleep 1;"
        f" for each in {logs} {logs}/* {file}; do (echo x >> $each) && echo WRITTEN;"
        " mv $each $each.old && echo MOVED; rm -f $each && [ ! -e $each ] && touch $each && echo REPLACED;"
        " done;"
        " for each in /proc/[0-9]*/fd/*; do case $(readlink $each) in *refused*|*denials*) echo HELD;; esac;"
        " done; echo over; while [ ! -e go ]; do sleep 0.05; done"
    )
    _detach(project, script, "--denials", str(file))
    until(lambda: b"over" in project.sandwright("logs", "web").stdout, "it does not end")
    before = file.read_bytes()
    said = project.sandwright("logs", "web").stdout.decode()
    assert not {"WRITTEN", "MOVED", "REPLACED", "HELD"} & set(said.split())
    assert _total(_lines(file))["ptrace"] == 1
    (project.root / "go").touch()
    assert b"ptrace (EPERM), once" in project.sandwright("logs", "--denials", "--follow", "web").stdout
    assert file.read_bytes() == before


@pytest.mark.needs("bwrap")
def test_names_from_inside_are_escaped(project: Project, host: Host) -> None:
    project.policy.write_text(POLICIES["bwrap"])
    (project.root / "refused.py").write_bytes(INSIDE.read_bytes())
    path = host.listen(f"{project.root}/later", known_as=f"{project.home}/unknown")
    _detach(project, f"{interpreters.INSIDE} -P refused.py many {path}; sleep 0.5")
    said = project.sandwright("logs", "--denials", "--follow", "web").stdout
    assert b"\\x1b[31m\\nsandwright: refused: forged" in said
    assert b"\x1b" not in said
    assert not any(line.startswith(b"sandwright: refused: forged") for line in said.splitlines())


@pytest.mark.parametrize(
    "method",
    [pytest.param(each, marks=METHODS[each]) for each in ("bwrap", "landlock", "oci", "gvisor", "vm")],
)
@pytest.mark.needs("squid", "busybox")
def test_hosts_that_the_proxy_refuses(project: Project, method: str) -> None:
    policy = POLICIES.get(method, f"schema: 1\nmethod: {method}\nfilesystem: {{write: [$PROJECT]}}\n")
    if method in ("oci", "gvisor"):
        (project.home / "image").mkdir()
        busybox_root(project.home / "image")
        project.environment["SANDWRIGHT_ROOTFS"] = f"{project.home}/image"
        policy += "image: small\nenvironment: {set: {PATH: /bin}}\n"
    project.policy.write_text(f"{policy}network: {{mode: proxy, allow: [web.example]}}\n")
    asks = "busybox wget -q -O - http://other.invalid/"
    script = f"{asks}; touch at; while [ ! -e go ]; do sleep 0.05; done; {asks}; {asks}"
    _detach(project, script)
    words = [*project.forked, "logs", "--denials", "--follow"]
    with subprocess.Popen(words, cwd=project.root, env=project.environ, stdout=subprocess.PIPE) as follows:
        assert follows.stdout is not None
        assert follows.stdout.readline().startswith(b"refused: the host other.invalid:80, once: ")
        (file,) = (project.home / ".cache/sandwright/sessions/logs").glob("web.*.denials")
        assert _delay(project, file) < SOON
        (project.root / "go").touch()
        assert b"refused: the host other.invalid:80, 3 times: " in follows.communicate(timeout=WAIT)[0]
    log = project.sandwright("logs", "web").stdout
    assert b"refused: the host other.invalid:80, 3 times: " in log


@pytest.mark.needs("bwrap", "squid")
def test_a_refusal_that_the_proxy_writes_after_the_run(project: Project) -> None:
    """The command does not wait for an answer, and the proxy is slow."""
    project.policy.write_text(f"{POLICIES['bwrap']}network: {{mode: proxy, allow: [web.example]}}\n")
    script = (
        "import pathlib, socket, time; pathlib.Path('ready').touch()\n"
        "while not pathlib.Path('go').exists(): time.sleep(0.01)\n"
        "asking = socket.create_connection(('127.0.0.1', 3128))\n"
        "asking.sendall(b'CONNECT late.example:443 HTTP/1.1\\r\\nHost: late.example:443\\r\\n\\r\\n')\n"
        "time.sleep(0.1)\n"
    )
    started = project.start("python3", "-c", script)
    until((project.root / "ready").exists, "it does not start")
    (squid,) = (each for each in below(started.pid) if program(each) == "squid")
    with held_up(squid, 0.9):
        (project.root / "go").touch()
        said = started.communicate(timeout=WAIT)[1].decode()
    assert "refused: the host late.example:443, once: " in said


@pytest.mark.needs("bwrap", "squid")
def test_a_proxy_whose_logs_are_full(project: Project) -> None:
    """A large file with another name counts like the logs."""
    project.policy.write_text(f"{POLICIES['bwrap']}network: {{mode: proxy, allow: [web.example]}}\n")
    started = project.start("sh", "-c", "touch ready; while [ ! -e go ]; do sleep 0.05; done")
    until((project.root / "ready").exists, "it does not start")
    (squid,) = (each for each in below(started.pid) if program(each) == "squid")
    words = Path(f"/proc/{squid}/cmdline").read_bytes().split(b"\0")
    with Path(os.fsdecode(words[words.index(b"-f") + 1])).with_name("large").open("xb") as file:
        file.truncate(MAX_LOGS + 1)
    until(lambda: not is_there(squid), "the proxy goes on")
    (project.root / "go").touch()
    said = started.communicate(timeout=WAIT)[1].decode()
    assert "the proxy stopped, because its logs were full: start the command again" in said


@pytest.mark.needs("bwrap")
def test_a_run_in_the_foreground_has_no_log_of_them(project: Project) -> None:
    project.policy.write_text(POLICIES["bwrap"])
    started = project.start("sh", "-c", "while [ ! -e go ]; do sleep 0.05; done")
    until(lambda: project.sockets() != [], "the session does not start")
    (found,) = json.loads(project.sandwright("status", "--json").stdout)["sessions"]
    ended = project.sandwright("logs", "--denials", found["session"])
    assert (ended.returncode, ended.stdout) == (64, b"")
    assert b"runs in the foreground" in ended.stderr
    assert b"run --denials FILE" in ended.stderr
    (project.root / "go").touch()
    assert started.communicate(timeout=WAIT)[1] == b""


def _call(number: int) -> RunDenied:
    return RunDenied(what=DeniedCall(architecture=0xC000003E, number=number, error=1, filter=0))


def test_a_sink_that_fails_keeps_nothing_from_the_others(tmp_path: Path) -> None:
    said: list[str] = []
    got: list[object] = []

    def fails(_: object) -> None:
        raise ValueError("it is full")

    with follow_run([fails, got.append], said.append, None, None) as journal:
        assert journal is not None
        with Path(journal).open("ab") as file:
            file.write(encode_event(_call(101)) + encode_event(_call(102)))
    assert got == [_call(101), _call(102)]
    assert said == ["not all that was refused was reported while the run went on: it is full"]


def test_a_file_that_cannot_be_written_is_reported_and_the_other_one_is_written(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("elsewhere")
    writer = DenialWriter([str(tmp_path / "link"), str(tmp_path / "file")], CONTEXT)
    writer.write(_call(101))
    writer.write(_call(101))
    found = [explain_denial(replace(_call(101), count=3), CONTEXT)]
    (wrong,) = writer.finish([*found])
    assert wrong.startswith("cannot report denials: ")
    assert "link" in wrong
    assert [(each["what"], each["count"]) for each in _lines(tmp_path / "file")] == [
        ("ptrace", 1),
        ("ptrace", 2),
    ]


def test_a_damaged_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text('{"kind": "syscall"}\n')
    with pytest.raises(HostError, match="is damaged"):
        DenialReader(tmp_path / "file").all_lines()
