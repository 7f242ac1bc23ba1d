"""`process.seccomp: FILE`: a third-party profile, rendered for every method that filters.

Tests of render/filters.py.
Tests of seccomp/sockets.py: a profile that may let sockets be made.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sandwright import HostFacts, Policy, ResolvedPolicy, process
from sandwright.errors import DocumentError, RenderError
from sandwright.evaluate.bpf import SystemCall, read_program, run_program
from sandwright.evaluate.explain.own import own_answer
from sandwright.evaluate.explain.verdict import Asked
from sandwright.methods.registry import render
from sandwright.policy.facts import HostEntry
from sandwright.seccomp import SeccompCall, decide, load_profile_json, resolve
from sandwright.seccomp.abi import Abi, numbers
from sandwright.seccomp.action import ALLOW, ENOSYS, EPERM, Action, ActionKind
from support.goldens import write_artifacts

FILE = "/home/u/p/calls.json"
ENTRIES = {
    **dict.fromkeys(("/", "/home", "/home/u", "/home/u/p"), HostEntry("directory")),
    FILE: HostEntry("file"),
}
LENIENT = {
    "defaultAction": "SCMP_ACT_ALLOW",
    "archMap": [
        {"architecture": "SCMP_ARCH_X86_64", "subArchitectures": ["SCMP_ARCH_X86", "SCMP_ARCH_X32"]},
        {"architecture": "SCMP_ARCH_AARCH64", "subArchitectures": ["SCMP_ARCH_ARM"]},
    ],
    "syscalls": [
        {"names": ["uname"], "action": "SCMP_ACT_ERRNO", "errnoRet": 13},
        {"names": ["sethostname"], "action": "SCMP_ACT_KILL"},
        {
            "names": ["personality"],
            "action": "SCMP_ACT_ERRNO",
            "args": [{"index": 0, "op": "SCMP_CMP_NE", "value": 0}],
        },
    ],
}


def _resolved(
    profile: object, *, more: str = "", platform: str = "linux/amd64", kernel: str = "6.1.0"
) -> ResolvedPolicy:
    text = profile if isinstance(profile, str) else json.dumps(profile, indent=2)
    facts = HostFacts(
        os="linux",
        home="/home/u",
        project="/home/u/p",
        platform=platform,
        kernel=kernel,
        entries=ENTRIES,
        texts={FILE: text},
    )
    policy = Policy.from_text(f"method: bwrap\nprocess: {{seccomp: $PROJECT/calls.json}}\n{more}")
    return policy.resolve(HostFacts.from_json(facts.to_json()))


def _bpf(profile: object, call: str, *arguments: int, abi: Abi = Abi.AMD64, more: str = "") -> Action:
    arch = "arm64" if abi in (Abi.ARM64, Abi.ARM) else "amd64"
    content = (
        render(_resolved(profile, more=more, platform=f"linux/{arch}"), "bwrap")
        .artifact("seccomp.bpf")
        .content
    )
    padded = (*arguments, *[0] * (6 - len(arguments)))
    number = numbers(abi)[call]
    return run_program(
        read_program(content),
        SystemCall(number, abi.audit, padded),  # type: ignore[arg-type]
    )


def _seccomp(profile: object, method: str = "oci", **more: str) -> dict[str, Any]:
    config = json.loads(render(_resolved(profile, **more), method).artifact("config.json").content)
    found: dict[str, Any] = config["linux"]["seccomp"]
    return found


@pytest.mark.parametrize(
    ("call", "arguments", "answer"),
    [
        pytest.param("uname", (), Action(ActionKind.ERRNO, 13), id="refused with its own error"),
        pytest.param("sethostname", (), Action(ActionKind.KILL_THREAD), id="kills"),
        pytest.param("personality", (8,), EPERM, id="refused by argument"),
        pytest.param("personality", (0,), ALLOW, id="allowed by argument"),
        pytest.param("ptrace", (), ALLOW, id="allowed by default, as the file says"),
    ],
)
@pytest.mark.parametrize("abi", [Abi.AMD64, Abi.ARM64], ids=["amd64", "arm64"])
def test_the_file_decides(call: str, arguments: tuple[int, ...], answer: Action, abi: Abi) -> None:
    assert _bpf(LENIENT, call, *arguments, abi=abi) == answer


@pytest.mark.parametrize(
    ("abi", "call", "arguments", "answer"),
    [
        pytest.param(Abi.AMD64, "socket", (1, 1), EPERM, id="AF_UNIX"),
        pytest.param(Abi.AMD64, "socket", (1 | 1 << 32, 1), EPERM, id="AF_UNIX under a dirty upper half"),
        pytest.param(Abi.AMD64, "socket", (2, 1), ALLOW, id="AF_INET"),
        pytest.param(Abi.AMD64, "socketpair", (1, 1), ALLOW, id="pairs of streams"),
        pytest.param(Abi.AMD64, "socketpair", (1, 5 | 0o2000000), ALLOW, id="pairs of packets, SOCK_CLOEXEC"),
        pytest.param(Abi.AMD64, "socketpair", (1, 2), EPERM, id="pairs of datagrams send anywhere"),
        pytest.param(Abi.AMD64, "socketpair", (1, 3), EPERM, id="raw pairs are datagrams"),
        pytest.param(
            Abi.ARM64, "socketpair", (1 | 1 << 32, 2 | 0o4000), EPERM, id="datagrams, dirty and wide"
        ),
        pytest.param(
            Abi.I386, "socketcall", (8,), EPERM, id="SYS_SOCKETPAIR of i386, whose type no filter sees"
        ),
        pytest.param(Abi.AMD64, "io_uring_setup", (8,), EPERM, id="io_uring makes sockets unseen"),
        pytest.param(Abi.ARM64, "socket", (1, 1), EPERM, id="AF_UNIX on arm64"),
        pytest.param(Abi.I386, "socket", (1, 1), EPERM, id="AF_UNIX of i386"),
        pytest.param(Abi.I386, "socketcall", (1,), EPERM, id="SYS_SOCKET of i386, for any family"),
        pytest.param(Abi.I386, "socketcall", (3,), ALLOW, id="SYS_CONNECT of i386"),
    ],
)
def test_sockets_of_the_host_stay_out_of_reach(
    abi: Abi, call: str, arguments: tuple[int, ...], answer: Action
) -> None:
    assert _bpf(LENIENT, call, *arguments, abi=abi, more="network: {own_sockets: false}\n") == answer


@pytest.mark.parametrize(
    ("abi", "call", "arguments", "answer"),
    [
        pytest.param(Abi.AMD64, "socket", (1, 1), ALLOW, id="streams"),
        pytest.param(Abi.AMD64, "socket", (1, 5 | 0o2000000), ALLOW, id="packets, SOCK_CLOEXEC"),
        pytest.param(Abi.AMD64, "socket", (1, 2), EPERM, id="datagrams send anywhere"),
        pytest.param(Abi.ARM64, "socket", (1 | 1 << 32, 3 | 0o4000), EPERM, id="raw, dirty and wide"),
        pytest.param(Abi.AMD64, "socketpair", (1, 2), EPERM, id="pairs of datagrams"),
        pytest.param(Abi.AMD64, "io_uring_setup", (8,), EPERM, id="io_uring connects unseen"),
        pytest.param(Abi.I386, "socketcall", (1,), EPERM, id="SYS_SOCKET of i386, for any family"),
    ],
)
def test_own_sockets_are_no_datagrams(
    abi: Abi, call: str, arguments: tuple[int, ...], answer: Action
) -> None:
    assert _bpf(LENIENT, call, *arguments, abi=abi) == answer


def test_a_policy_that_lists_sockets_leaves_them_to_the_file() -> None:
    more = "network: {unix_sockets: [/run/x]}\n"
    assert _bpf(LENIENT, "socket", 1, 1, more=more) == ALLOW
    assert _bpf(LENIENT, "uname", more=more) == Action(ActionKind.ERRNO, 13)


def test_the_runtime_gets_the_rules_of_this_machine() -> None:
    profile = {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": 38,
        "flags": ["SECCOMP_FILTER_FLAG_SPEC_ALLOW"],
        "archMap": LENIENT["archMap"],
        "syscalls": [
            {"names": ["read", "write"], "action": "SCMP_ACT_ALLOW", "comment": "files"},
            {"names": ["mount"], "action": "SCMP_ACT_ALLOW", "includes": {"caps": ["CAP_SYS_ADMIN"]}},
            {"names": ["arch_prctl"], "action": "SCMP_ACT_ALLOW", "includes": {"arches": ["amd64"]}},
            {"names": ["ptrace"], "action": "SCMP_ACT_ALLOW", "includes": {"minKernel": "4.8"}},
            {"names": ["getpid"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38},
        ],
    }
    rule = {"action": "SCMP_ACT_ALLOW"}
    assert _seccomp(profile) == {
        "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"],
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": 38,
        "syscalls": [
            {**rule, "names": ["read", "write"]},
            {**rule, "names": ["arch_prctl"]},
            {**rule, "names": ["ptrace"]},
        ],
    }
    older = _seccomp(profile, platform="linux/arm64", kernel="4.4.0-generic")
    assert older["architectures"] == ["SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"]
    assert older["syscalls"] == [{**rule, "names": ["read", "write"]}]


@pytest.mark.parametrize(
    ("method", "call", "arguments", "answer"),
    [
        ("oci", "uname", (), Action(ActionKind.ERRNO, 13)),
        ("oci", "personality", (8,), EPERM),
        ("oci", "personality", (0,), ALLOW),
        ("gvisor", "uname", (), EPERM),
        ("gvisor", "sethostname", (), EPERM),
        ("gvisor", "personality", (8,), EPERM),
        ("gvisor", "personality", (0,), ALLOW),
        ("gvisor", "ptrace", (), ALLOW),
    ],
)
def test_what_is_rendered_answers_like_the_file(
    method: str, call: str, arguments: tuple[int, ...], answer: Action
) -> None:
    text = json.dumps(_seccomp(LENIENT, method))
    filter_ = resolve(load_profile_json(text, "config.json"), arch="amd64")
    padded = (*arguments, *[0] * (6 - len(arguments)))
    found = decide(filter_, SeccompCall(Abi.AMD64, numbers(Abi.AMD64)[call], padded))  # type: ignore[arg-type]
    assert found.action == answer


def test_gvisor_says_enosys_as_trace() -> None:
    profile = {
        "defaultAction": "SCMP_ACT_ERRNO",
        "syscalls": [
            {"names": ["read"], "action": "SCMP_ACT_LOG"},
            {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38},
        ],
    }
    found = _seccomp(profile, "gvisor")
    assert found["syscalls"][0] == {"action": "SCMP_ACT_ALLOW", "names": ["read"]}
    assert found["syscalls"][1]["action"] == "SCMP_ACT_TRACE"
    assert "clone3" in found["syscalls"][1]["names"]
    assert found["architectures"] == ["SCMP_ARCH_X86_64"]


HOST = "network: {mode: host}\n"
SYSCALLS: list[dict[str, Any]] = [
    {
        "names": ["socket"],
        "action": "SCMP_ACT_ERRNO",
        "args": [{"index": 0, "op": "SCMP_CMP_MASKED_EQ", "value": 0xFFFFFFFF, "valueTwo": 1}],
    },
    *(
        {
            "names": ["socketpair"],
            "action": "SCMP_ACT_ERRNO",
            "args": [{"index": 1, "op": "SCMP_CMP_MASKED_EQ", "value": 0xF, "valueTwo": kind}],
        }
        for kind in (2, 3)
    ),
    {"names": ["io_uring_setup"], "action": "SCMP_ACT_ERRNO"},
]
REFUSING = {
    "defaultAction": "SCMP_ACT_ALLOW",
    "architectures": ["SCMP_ARCH_X86_64"],
    "syscalls": SYSCALLS,
}


@pytest.mark.parametrize("method", ["oci", "gvisor"])
def test_in_the_hosts_network_the_file_itself_has_to_refuse_sockets(method: str) -> None:
    others = [each for each in SYSCALLS if each["names"] != ["socketpair"]]
    none = [*others, {"names": ["socketpair"], "action": "SCMP_ACT_ERRNO"}]
    i386 = {
        **REFUSING,
        "architectures": ["SCMP_ARCH_X86"],
        "syscalls": none,
    }  # with socketcall
    for tight in (REFUSING, i386):
        assert render(_resolved(tight, more=HOST), method).artifacts
    wide = json.loads(json.dumps(REFUSING))
    wide["syscalls"][0]["args"] = [{"index": 0, "op": "SCMP_CMP_EQ", "value": 1}]
    ring = {**REFUSING, "syscalls": SYSCALLS[:3]}
    pairs = {**REFUSING, "syscalls": others}
    unreported = {**REFUSING, "architectures": ["SCMP_ARCH_X86"]}
    for leaky in (LENIENT, wide, ring, pairs, unreported):
        with pytest.raises(
            RenderError, match=r"project sandbox\.yaml:2:20: process\.seccomp: .* lets AF_UNIX"
        ):
            render(_resolved(leaky, more=HOST), method)


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        pytest.param(
            '{"defaultAction": "SCMP_ACT_ALLOW",\n "syscalls": [{"names": ["a"], "action": "allow"}]}',
            f"{FILE}:2:42: syscalls[0].action: must be one of ",
            id="no such action",
        ),
        pytest.param("{,}", f"{FILE}:1:2: ", id="no JSON"),
        pytest.param("[]", f"{FILE}:1:1: must be an object", id="no profile"),
        pytest.param('{"a": "\udc80"}', f"{FILE}: byte 0x80 at offset 7 is not valid UTF-8", id="no UTF-8"),
        pytest.param(
            {"defaultAction": "SCMP_ACT_LOG", "syscalls": [{"names": ["read"], "action": "SCMP_ACT_NOTIFY"}]},
            f"{FILE}:4:5: syscalls[0]: SCMP_ACT_NOTIFY asks a supervisor, which a sandbox does not have",
            id="a listener",
        ),
        pytest.param(
            {
                "defaultAction": "SCMP_ACT_ALLOW",
                "syscalls": [
                    {"names": ["read"], "action": action, "args": [{"index": 0, "op": "SCMP_CMP_EQ"}]}
                    for action in ("SCMP_ACT_ERRNO", "SCMP_ACT_KILL")
                ],
            },
            f"{FILE}:4:5: syscalls[0]: answers differently than syscalls[1] for equal calls",
            id="rules that clash",
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("method", ["bwrap", "oci", "gvisor"])
def test_what_is_no_profile_is_refused_with_its_place(method: str, profile: object, message: str) -> None:
    with pytest.raises(DocumentError) as caught:
        render(_resolved(profile), method)
    assert message in str(caught.value)


def test_a_call_that_the_machine_lacks_is_answered_before_rules_that_clash() -> None:
    same = {"names": ["socket"], "args": [{"index": 0, "op": "SCMP_CMP_EQ", "value": 1}]}
    rules = [{**same, "action": f"SCMP_ACT_{action}"} for action in ("ALLOW", "LOG")]
    policy = _resolved({"defaultAction": "SCMP_ACT_ERRNO", "syscalls": rules})
    lacking = own_answer(policy, Asked("syscall", "fcntl64", name="fcntl64"), "amd64")
    assert lacking.ground.text == f"seccomp {FILE}: amd64 has no such call"
    with pytest.raises(DocumentError, match="answers differently"):
        own_answer(policy, Asked("syscall", "socket", name="socket"), "amd64")


def test_a_file_that_is_not_there_is_refused() -> None:
    facts = HostFacts(os="linux", home="/home/u", project="/home/u/p")
    policy = Policy.from_text("method: bwrap\nprocess: {seccomp: /none.json}\n").resolve(facts)
    with pytest.raises(
        RenderError, match=r"^project sandbox\.yaml:2:20: process\.seccomp: /none\.json is not"
    ):
        render(policy, "bwrap")
    assert render(policy, "seatbelt").artifacts, "seccomp is Linux'"


def test_the_sandbox_cannot_write_its_filter() -> None:
    policy = _resolved(LENIENT, more="filesystem: {write: [$PROJECT]}\n")
    assert not policy.is_path_writable(FILE)
    assert policy.is_path_writable("/home/u/p/other.json")


@pytest.mark.needs("bwrap")
def test_bwrap_runs_under_it(tmp_path: Path) -> None:
    project = tmp_path / "p"
    project.mkdir()
    (tmp_path / "real.json").write_text(json.dumps(LENIENT))
    (tmp_path / "calls.json").symlink_to(tmp_path / "real.json")
    (project / "sandbox.yaml").write_text(f"method: bwrap\nprocess: {{seccomp: {tmp_path}/calls.json}}\n")
    policy = Policy.load(project / "sandbox.yaml").resolve()
    assert policy.process.seccomp == str(tmp_path / "real.json")
    launch = write_artifacts(tmp_path / "out", render(policy, "bwrap").artifacts) / "launch"
    refused = process.run(launch, "uname", check=False, timeout=20)
    assert refused.status == 1
    assert "Permission denied" in refused.stderr
    unix = (
        "import socket; socket.socketpair(); socket.socket(socket.AF_UNIX); socket.socket(socket.AF_UNIX, 2)"
    )
    sockets = process.run(launch, "python3", "-c", unix, check=False, timeout=20)
    assert sockets.stderr.splitlines()[-1] == "PermissionError: [Errno 1] Operation not permitted"
    assert process.run(launch, "echo", "ran", timeout=20).text == "ran"


OLDER = {
    "defaultAction": "SCMP_ACT_ERRNO",
    "defaultErrnoRet": 1,
    "syscalls": [{"names": ["read", "statx"], "action": "SCMP_ACT_ALLOW"}],
}


@pytest.mark.parametrize(
    ("call", "answer"), [("statx", ALLOW), ("ptrace", EPERM), ("openat2", ENOSYS), ("clone3", ENOSYS)]
)
def test_a_call_that_is_newer_than_the_file_is_said_not_to_be_there(call: str, answer: Action) -> None:
    assert _bpf(OLDER, call) == answer
    engine = render(_resolved(OLDER), "docker").artifact("seccomp.json").content
    for text in (json.dumps(_seccomp(OLDER)), engine):
        filter_ = resolve(load_profile_json(text, "config.json"), arch="amd64")
        wanted = SeccompCall(Abi.AMD64, numbers(Abi.AMD64)[call], (0, 0, 0, 0, 0, 0))
        assert decide(filter_, wanted).action == answer


@pytest.mark.parametrize("default", ["SCMP_ACT_ALLOW", "SCMP_ACT_LOG"])
def test_where_calls_run_by_default_newer_ones_do(default: str) -> None:
    assert _bpf({"defaultAction": default, "syscalls": OLDER["syscalls"]}, "openat2").lets_run
