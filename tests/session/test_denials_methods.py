"""Denied calls are reported under every method whose filter the launcher loads, each with its cause.

Tests of launcher/source/confine.c: the filter and its listener.
"""

from __future__ import annotations

import ctypes
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from session.conftest import WAIT, Project
from support import interpreters, plantedcalls

INSIDE = Path(__file__).with_name("refused.py")
ACCEPTED = ("filesystem.protect", "filesystem.attributes", "process.kernel")
ACCEPT_GAPS = ", ".join(f"{{feature: {each}, method: landlock, reason: a test}}" for each in ACCEPTED)
LANDLOCK = f"schema: 1\nmethod: landlock\naccept_gaps: [{ACCEPT_GAPS}]\n"
LANDLOCK_ALONE = f"{LANDLOCK}network: {{own_sockets: false}}\n"
NO_SOCKETS = "schema: 1\nmethod: bwrap\nnetwork: {own_sockets: false}\n"
LISTENER = 1 << 3
"""SECCOMP_FILTER_FLAG_NEW_LISTENER (linux/seccomp.h)."""

PLANTED = {
    ("syscall", "ptrace", 3),
    ("syscall", "bpf", 2),
    ("syscall", "keyctl", 1),
    ("syscall", "unshare", 1),
}


def _run(project: Project, policy: str, *words: str) -> tuple[list[dict[str, Any]], str]:
    project.policy.write_text(policy)
    (project.root / "refused.py").write_bytes(INSIDE.read_bytes())
    return project.denials(interpreters.INSIDE, "-P", "refused.py", *words, options=("--trust-policy",))


def _named(found: list[dict[str, Any]]) -> set[tuple[str, str, int]]:
    return {(each["kind"], each["what"], each["count"]) for each in found}


def _by_field(found: list[dict[str, Any]]) -> Mapping[str, set[str]]:
    return {
        field: {each["what"] for each in found if each["field"] == field}
        for field in {each["field"] for each in found}
    }


def test_under_landlock(project: Project) -> None:
    found, said = _run(project, LANDLOCK, "calls", "xattr")
    assert _named(found) == PLANTED | {
        ("syscall", "setxattr", 1),
        ("datagram", "socket", 1),
    }
    assert _by_field(found) == {
        "process.seccomp": {"ptrace", "bpf", "keyctl", "unshare"},
        "method": {"setxattr"},
        "network.own_sockets": {"socket"},
    }
    assert {each["source"] for each in found if each["field"] == "method"} == {
        f"landlock (project {project.policy}:2:9)"
    }
    edits = {each["what"]: each["opens"] for each in found if each["edit"]}
    assert edits == {
        "ptrace": "1 more call: openat2; and whatever their arguments are: creat, mknod, "
        "mknodat, open, openat"
    }, "the method refuses the other three itself"
    assert "refused: the system call setxattr (ENOTSUP), once: method, landlock (" in said


def test_under_landlock_nothing_is_said_where_nothing_was_refused(project: Project) -> None:
    found, said = _run(project, LANDLOCK, "allowed-calls")
    assert (found, "refused:" in said) == ([], False)


def test_without_own_sockets(project: Project) -> None:
    found, _ = _run(project, NO_SOCKETS, "calls")
    assert _named(found) == PLANTED | {("unix", "socket", 1), ("datagram", "socket", 1)}
    own = next(each for each in found if each["kind"] == "unix")
    assert (own["field"], own["source"]) == ("network.own_sockets", f"project {project.policy}:3:24")
    assert own["edit"] == "network: {own_sockets: true}"
    assert next(each for each in found if each["kind"] == "datagram")["edit"] is None
    again, _ = _run(project, f"schema: 1\nmethod: bwrap\n{own['edit']}\n", "calls")
    assert _named(again) == PLANTED | {("datagram", "socket", 1)}, "the edit allows what it says"


@pytest.mark.parametrize(
    "policy", [NO_SOCKETS, LANDLOCK, LANDLOCK_ALONE], ids=["bwrap", "landlock", "without sockets"]
)
def test_nobody_inside_has_a_listener(project: Project, policy: str) -> None:
    found, _ = _run(project, policy, "listener")
    assert found == []


@pytest.mark.parametrize("policy", [NO_SOCKETS, LANDLOCK_ALONE], ids=["bwrap", "landlock"])
def test_without_a_listener_calls_are_refused_as_before_and_that_is_said(
    project: Project, policy: str
) -> None:
    """Examples are a container whose filter permits no listener, and another sandbox of ours."""
    project.policy.write_text(policy)
    (project.root / "refused.py").write_bytes(INSIDE.read_bytes())
    rendered = project.sandwright("render", "--out", str(project.home / "out"))
    assert rendered.returncode == 0, rendered.stderr
    (launcher,) = project.home.glob("out/**/launch")
    ended = subprocess.run(
        [launcher, interpreters.INSIDE, "-P", "refused.py", "calls"],
        preexec_fn=_no_listeners, capture_output=True, timeout=WAIT, check=False,
        cwd=project.root, env=project.environ,
    )  # fmt: skip
    if policy == NO_SOCKETS:  # the supervisor must make the links of a project with a repository
        assert (ended.returncode, b"links in Git directories" in ended.stderr) == (125, True), ended.stderr
        return
    assert ended.returncode == 0, ended.stderr
    said = b"sandbox: cannot report denials: Operation not permitted (seccomp(2))\n"
    assert ended.stderr == said


def _no_listeners() -> None:
    """A filter for the started program: seccomp(2) with that flag fails with EPERM."""
    (number,) = map(int, plantedcalls.numbers(["seccomp"]))
    code = (
        (0x20, 0, 0, 0),  # the call's number
        (0x15, 0, 3, number),
        (0x20, 0, 0, 16 + 8),  # its second argument
        (0x45, 0, 1, LISTENER),
        (0x06, 0, 0, 0x00050001),
        (0x06, 0, 0, 0x7FFF0000),
    )
    program = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *each) for each in code))
    head = struct.pack("@HP", len(code), ctypes.addressof(program))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.prctl(22, 2, ctypes.create_string_buffer(head), 0, 0) == 0
