"""The denied accesses of a run are reported at its end: all of them, and no others.

Tests of launcher/source/notify.c.
Tests of launcher/source/refusals.c: counted, at most 256 kinds.
Tests of session/denials.py: the lines and their edits.
Tests of session/events.py.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandwright import policy
from session.conftest import Project
from support import interpreters

INSIDE = Path(__file__).with_name("refused.py")
PRESETS = Path(policy.__file__).with_name("presets") / "built-in.yaml"


def _source(field: str) -> str:
    """The position of a field in the built-in policy."""
    lines = PRESETS.read_text().splitlines()
    line = next(number for number, each in enumerate(lines) if each.strip().startswith(f"{field}: "))
    return f"built-in presets/built-in.yaml:{line + 1}:{lines[line].index(': ') + 3}"


CALLS = f"default ({_source('seccomp')})"
CALLS_OF_BUILD = "4 more calls: chroot, openat2, process_vm_readv, process_vm_writev"
MODES = "chmod, creat, fchmod, fchmodat, mknod, mknodat, open, openat"
pytestmark = pytest.mark.needs("bwrap")


@pytest.fixture
def host(project: Project) -> Iterator[str]:
    """A socket of the host in the project with a name that was unknown at rendering."""
    project.policy.write_text("schema: 1\nmethod: bwrap\n")
    (project.root / "refused.py").write_bytes(INSIDE.read_bytes())
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{project.home}/unknown")
        Path(f"{project.home}/unknown").rename(project.root / "later")
        listener.listen()
        yield f"{project.root}/later"


def _run(project: Project, *words: str, options: tuple[str, ...] = ()) -> tuple[list[dict[str, Any]], str]:
    """The lines of JSON, and standard error."""
    return project.denials(interpreters.INSIDE, "-P", "refused.py", *words, options=options)


def _call(name: str, count: int, **more: object) -> dict[str, object]:
    said = {"kind": "syscall", "what": name, "error": "EPERM", "count": count}
    return {**said, "field": "process.seccomp", "source": CALLS, "edit": None, "opens": "", **more}


def test_planted_refusals_are_told_and_what_is_allowed_is_not(project: Project, host: str) -> None:
    found, said = _run(project, "refused", host)
    assert found == [
        _call(
            "ptrace",
            3,
            edit="process: {seccomp: build}",
            opens=f"{CALLS_OF_BUILD}; and whatever their arguments are: {MODES}",
        ),
        _call("bpf", 2),
        _call("keyctl", 1),
        _call("unshare", 1),
        _call("socket", 1, kind="datagram", field="network.own_sockets", source="built-in"),
        {
            "kind": "connect",
            "what": host,
            "error": "EACCES",
            "count": 2,
            "field": "network.unix_sockets",
            "source": _source("unix_sockets"),
            "edit": f"network: {{unix_sockets: ['{host}']}}",
            "opens": "everything that the program listening there does for its clients",
        },
    ]
    block = [line for line in said.splitlines() if line.startswith("sandwright: ")]
    assert block[:2] == [
        f"sandwright: refused: the system call ptrace (EPERM), 3 times: process.seccomp, {CALLS}",
        "sandwright:   allow it with: `process: {seccomp: build}` "
        f"(opens {CALLS_OF_BUILD}; and whatever their arguments are: {MODES})",
    ]
    assert len(block) == 2 * len(found)


def test_the_edits_allow_what_they_say(project: Project, host: str) -> None:
    """The same run under a policy with both edits: neither access is refused any more."""
    before, _ = _run(project, "edits", host)
    assert [each["kind"] for each in before] == ["syscall", "connect"]
    assert before[0]["edit"] == "process: {seccomp: build}"
    edits = f"process: {{seccomp: build}}\nnetwork: {{unix_sockets: ['{host}']}}\n"
    # Sockets of other tests come and go there, and each visible one is covered.
    others = "filesystem: {deny: [/var/tmp]}\n"
    project.policy.write_text(f"schema: 1\nmethod: bwrap\n{others}{edits}")
    assert before[1]["edit"] in edits
    found, said = _run(project, "edits", host, "granted", options=("--trust-policy",))
    assert found == []
    assert "refused:" not in said


def test_nothing_is_said_where_nothing_was_refused(project: Project, host: str) -> None:
    assert Path(host).exists()
    assert _run(project, "allowed") == ([], "")


def test_quiet(project: Project, host: str) -> None:
    found, said = _run(project, "refused", host, options=("--quiet",))
    assert (len(found), said) == (6, "")


def test_names_from_inside_make_no_lines_and_find_an_end(project: Project, host: str) -> None:
    found, said = _run(project, "many", host)
    assert len(found) == 257
    assert found[-1] == {"kind": "omitted", "count": 46}
    assert found[0]["what"] == "\\x1b[31m\nsandwright: refused: forged".replace("\n", "\\n")
    assert {each.get("edit") for each in found} == {None}, "none is a whole path"
    assert "\x1b" not in said
    assert not any(line.startswith("sandwright: refused: forged") for line in said.splitlines())
    assert len(said.splitlines()) == 42


def test_the_line_of_telemetry_is_written_through_no_link_of_the_sandboxs(project: Project) -> None:
    mine = project.home / "mine"
    mine.write_text("mine\n")
    swap = ("sh", "-c", "rm -f events; ln -s ../mine events")
    by_option = project.run(*swap, options=("--telemetry", "events"))
    project.environment["SANDWRIGHT_TELEMETRY"] = str(project.root / "events")
    for ended in (by_option, project.run(*swap)):
        assert ended.returncode == 125
        assert b"which the sandbox may write" in ended.stderr
    assert mine.read_text() == "mine\n"


def test_its_file_is_out_of_the_sandboxs_reach(project: Project, host: str) -> None:
    assert Path(host).exists()
    log = project.home / "audit"
    ended = project.run("true", options=("--denials", "denials", "--audit", str(log)))
    assert ended.returncode == 125
    assert not log.exists(), "nothing was started"
    assert b"which the sandbox may write" in ended.stderr
    assert not (project.root / "denials").exists()


CONNECTS = """
import contextlib, socket
for address in (("192.0.2.1", 443), ("192.0.2.1", 443), ("2001:db8::1", 80)):
    with contextlib.suppress(OSError):
        socket.create_connection(address)
with contextlib.suppress(OSError):
    socket.getaddrinfo("absent.example", 443)
with socket.socket(type=socket.SOCK_DGRAM) as sorting, contextlib.suppress(OSError):
    sorting.connect(("192.0.2.1", 443))
with contextlib.suppress(ConnectionRefusedError):
    socket.create_connection(("127.0.0.1", 9))
"""


def test_connections_without_a_network(project: Project) -> None:
    """Each address is reported, and name servers; not the loopback, nor glibc's datagrams for sorting."""
    project.policy.write_text("schema: 1\nmethod: bwrap\n")
    found, said = project.denials(interpreters.INSIDE, "-P", "-c", CONNECTS)
    servers = {each["what"] for each in found if "name server" in each["what"]}
    assert len(servers) == 1
    assert {(each["kind"], each["what"]) for each in found} == {
        ("network", "192.0.2.1:443"),
        ("network", "[2001:db8::1]:80"),
        ("network", servers.pop()),
    }
    assert next(each["count"] for each in found if each["what"] == "192.0.2.1:443") == 2
    assert {each["field"] for each in found} == {"network.mode"}
    assert "refused: to connect to 192.0.2.1:443 (ENETUNREACH), 2 times: network.mode, none\n" in said
    assert "allow hosts with `network: {mode: proxy, allow: [HOST]}`" in said
