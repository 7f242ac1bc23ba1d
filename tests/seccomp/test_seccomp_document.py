"""Profiles of others: the accepted ones, and the refusals with their positions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sandwright.documents.document import MAX_BYTES
from sandwright.documents.jsontext import parse_json
from sandwright.errors import DocumentError
from sandwright.seccomp import SeccompCall, decide, load_profile_json, resolve
from sandwright.seccomp.abi import NATIVE, Abi, Architecture, numbers
from sandwright.seccomp.action import Action, ActionKind
from sandwright.seccomp.document import kernel_version

HEAD = '{"defaultAction": "SCMP_ACT_ERRNO", '


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "p:1:1: expected a value, found the end of the text"),
        ("{", 'p:1:2: expected a key in quotes or "}"'),
        ('{"a": 1,}', "p:1:9: expected a key in quotes"),
        ('{"a" 1}', 'p:1:6: expected ":", found "1"'),
        ('{"a": 1 "b": 2}', 'p:1:9: expected "," or "}", found "\\""'),
        ("[1 2]", 'p:1:4: expected "," or "]", found "2"'),
        ('{"a": 1, "a": 2}', "p:1:10: a: is given twice; first in line 1"),
        ('{"a": tru}', 'p:1:7: expected a value, found "t"'),
        ('{"a": NaN}', 'p:1:7: expected a value, found "N"'),
        (
            '{"a": "x\ny"}',
            "p:1:7: is not a string of JSON: unfinished, a control character, or an unknown escape",
        ),
        ('{"a": "\\ud800"}', "p:1:7: holds half of a surrogate pair"),
        ('{"a": 1} x', "p:1:10: something follows the end of the document"),
        ("[" * 100, "p:1:42: is nested more than 40 deep"),
        ('{"a": ' + "9" * 50 + "}", "p:1:7: is a number with too many digits"),
        (b'{"a": "\xff"}', "p: byte 0xff at offset 7 is not valid UTF-8"),
        (" " * (MAX_BYTES + 1), "p: is larger than 1 MiB"),
        ("{}\n# no", "p:2:1: something follows the end of the document"),
    ],
    ids=[
        *(
            "empty",
            "open",
            "comma",
            "colon",
            "no-comma",
            "list",
            "twice",
            "word",
            "nan",
            "line-end",
            "surrogate",
        ),
        *("more", "deep", "digits", "utf-8", "large", "comment"),
    ],
)
def test_broken_json_has_a_position(text: str | bytes, message: str) -> None:
    with pytest.raises(DocumentError) as caught:
        parse_json(text, file="p")
    assert str(caught.value) == message


def test_json_is_read_as_the_standard_library_reads_it() -> None:
    text = '\ufeff{"a": [1, -2, 3.5, 1e3, true, false, null, "\\u00e9\\n\\ud83d\\ude00"], "b": {}, "c": []}'
    document = parse_json(text.encode(), file="p")
    assert document.data == json.loads(text.removeprefix("\ufeff"))
    assert document.position(("a", 1)) == (1, 11)


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("[]", ["p:1:1: must be an object", "p:1:1: defaultAction: defaultAction is required"]),
        ('{"syscalls": 1, "defaultAction": "SCMP_ACT_ALLOW"}', ["p:1:14: syscalls: must be a list"]),
        (
            '{"defaultAction": "SCMP_ACT_NOPE"}',
            [
                "p:1:19: defaultAction: must be one of SCMP_ACT_ALLOW, SCMP_ACT_ERRNO, SCMP_ACT_KILL, "
                "SCMP_ACT_KILL_PROCESS, SCMP_ACT_KILL_THREAD, SCMP_ACT_LOG, SCMP_ACT_NOTIFY, SCMP_ACT_TRACE, "
                "SCMP_ACT_TRAP"
            ],
        ),
        (
            HEAD + '"syscalls": [{"names": ["read"], "action": "SCMP_ACT_ALLOW",'
            ' "args": [{"index": 6, "op": "x"}]}]}',
            [
                "p:1:117: syscalls[0].args[0].index: must be a whole number from 0 to 5",
                "p:1:126: syscalls[0].args[0].op: must be one of SCMP_CMP_EQ, SCMP_CMP_GE, SCMP_CMP_GT, "
                "SCMP_CMP_LE, SCMP_CMP_LT, SCMP_CMP_MASKED_EQ, SCMP_CMP_NE",
            ],
        ),
        (
            HEAD
            + '"syscalls": [{"names": [1], "action": "SCMP_ACT_ALLOW", "args": [{"index": 0, "value": -1,'
            ' "op": "SCMP_CMP_EQ"}]}]}',
            [
                "p:1:61: syscalls[0].names[0]: must be text",
                "p:1:124: syscalls[0].args[0].value: must be a whole number from 0 to 18446744073709551615",
            ],
        ),
        (
            HEAD + '"syscalls": [{"name": "a", "names": ["b"], "action": "SCMP_ACT_ALLOW"}]}',
            ["p:1:59: syscalls[0].name: cannot be given together with names"],
        ),
        (
            HEAD
            + '"architectures": ["SCMP_ARCH_X86_64"], "archMap": [{"architecture": "SCMP_ARCH_X86_64"}]}',
            ["p:1:87: archMap: cannot be given together with architectures"],
        ),
        (
            HEAD + '"architectures": ["SCMP_ARCH_AMD64"]}',
            ["p:1:54: architectures: SCMP_ARCH_AMD64 is not an architecture of the OCI specification"],
        ),
        (
            HEAD
            + '"syscalls": [{"names": ["a"], "action": "SCMP_ACT_ERRNO", "errno": "ENOPE", "errnoRet": 70000,'
            ' "includes": {"minKernel": "four"}}]}',
            [
                "p:1:104: syscalls[0].errno: ENOPE is not the name of an error",
                "p:1:125: syscalls[0].errnoRet: must be a whole number from 0 to 65535",
                'p:1:158: syscalls[0].includes.minKernel: must be a version such as "4.8"',
            ],
        ),
        (
            '{"linux": {"seccomp": 5}}',
            [
                "p:1:23: linux.seccomp: must be an object",
                "p:1:23: linux.seccomp.defaultAction: defaultAction is required",
            ],
        ),
    ],
    ids=[
        *(
            "list",
            "no-list",
            "action",
            "argument",
            "value",
            "both-names",
            "both-architectures",
            "architecture",
        ),
        *("errno", "no-profile"),
    ],
)
def test_a_profile_that_is_none_says_all_that_is_wrong(text: str, messages: list[str]) -> None:
    with pytest.raises(DocumentError) as caught:
        load_profile_json(text, "p")
    assert str(caught.value).split("\n") == messages


def answer(
    data: dict[str, Any], name: str, arch: Architecture = "amd64", caps: tuple[str, ...] = (), **more: Any
) -> Action:
    filter_ = resolve(load_profile_json(json.dumps(data), "p"), arch=arch, caps=caps, **more)
    return decide(filter_, SeccompCall(NATIVE[arch], numbers(NATIVE[arch])[name])).action


ALLOW = Action(ActionKind.ALLOW)
EPERM = Action(ActionKind.ERRNO, 1)


def profile_of(*rules: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"defaultAction": "SCMP_ACT_ERRNO", "syscalls": list(rules), **more}


def allow(*names: str, **more: Any) -> dict[str, Any]:
    return {"names": list(names), "action": "SCMP_ACT_ALLOW", **more}


@pytest.mark.parametrize(
    ("rule", "arch", "caps", "kernel", "expected"),
    [
        (allow("mount", includes={"caps": ["CAP_SYS_ADMIN"]}), "amd64", (), None, EPERM),
        (allow("mount", includes={"caps": ["CAP_SYS_ADMIN"]}), "amd64", ("CAP_SYS_ADMIN",), None, ALLOW),
        (allow("mount", includes={"caps": ["CAP_A", "CAP_B"]}), "amd64", ("CAP_A",), None, EPERM),
        (allow("mount", includes={"caps": ["CAP_A", "CAP_B"]}), "amd64", ("CAP_A", "CAP_B"), None, ALLOW),
        (allow("mount", excludes={"caps": ["CAP_A", "CAP_B"]}), "amd64", ("CAP_A",), None, EPERM),
        (allow("mount", excludes={"caps": ["CAP_A"]}), "amd64", (), None, ALLOW),
        (allow("mount", includes={"arches": ["amd64", "x32"]}), "amd64", (), None, ALLOW),
        (allow("mount", includes={"arches": ["amd64", "x32"]}), "arm64", (), None, EPERM),
        (allow("mount", excludes={"arches": ["arm64"]}), "arm64", (), None, EPERM),
        (allow("mount", includes={"minKernel": "4.8"}), "amd64", (), None, ALLOW),
        (allow("mount", includes={"minKernel": "4.8"}), "amd64", (), (4, 7), EPERM),
        (allow("mount", includes={"minKernel": "4.8"}), "amd64", (), (4, 10), ALLOW),
        (allow("mount", includes={"minKernel": "4.8.1"}), "amd64", (), (4, 8), ALLOW),
        (allow("mount", excludes={"minKernel": "4.8"}), "amd64", (), (6, 1), EPERM),
        (allow("mount", includes=None, excludes={}, args=None), "amd64", (), None, ALLOW),
        ({"name": "mount", "action": "SCMP_ACT_ALLOW"}, "amd64", (), None, ALLOW),
        (
            {"names": ["mount"], "action": "SCMP_ACT_ERRNO", "errno": "ENOSYS", "errnoRet": 1},
            "amd64",
            (),
            None,
            Action(ActionKind.ERRNO, 38),
        ),
        ({"names": ["mount"], "action": "SCMP_ACT_KILL"}, "amd64", (), None, Action(ActionKind.KILL_THREAD)),
        (
            {"names": ["mount"], "action": "SCMP_ACT_TRACE", "errnoRet": 7},
            "amd64",
            (),
            None,
            Action(ActionKind.TRACE, 7),
        ),
    ],
)
def test_conditions_of_docker_and_podman(
    rule: dict[str, Any],
    arch: Architecture,
    caps: tuple[str, ...],
    kernel: tuple[int, ...] | None,
    expected: Action,
) -> None:
    assert answer(profile_of(rule), "mount", arch, caps, kernel=kernel) == expected


def masked(index: int, value: int, mask: int = 0xFFFFFFFF) -> dict[str, Any]:
    return {"index": index, "op": "SCMP_CMP_MASKED_EQ", "value": mask, "valueTwo": value}


REFUSE = {"action": "SCMP_ACT_ERRNO", "errnoRet": 13}
EACCES = Action(ActionKind.ERRNO, 13)


@pytest.mark.parametrize(
    ("rules", "arguments", "expected"),
    [
        # The first of several rules without arguments counts.
        ([allow("socket"), {"names": ["socket"], **REFUSE}], (1,), ALLOW),
        ([{"names": ["socket"], **REFUSE}, allow("socket")], (1,), EACCES),
        # A rule without arguments also cancels earlier ones with arguments.
        ([allow("socket", args=[masked(0, 1)]), {"names": ["socket"], **REFUSE}], (1,), EACCES),
        ([{"names": ["socket"], **REFUSE}, allow("socket", args=[masked(0, 1)])], (1,), EACCES),
        # A rule with the default action is omitted, so that it cancels nothing.
        ([{"names": ["socket"], "action": "SCMP_ACT_ERRNO"}, allow("socket")], (1,), ALLOW),
        # Both comparisons must hold; if an argument is named twice, one is enough.
        ([allow("socket", args=[masked(0, 1), masked(1, 2)])], (1, 3), EPERM),
        ([allow("socket", args=[masked(0, 1), masked(1, 2)])], (1, 2), ALLOW),
        ([allow("socket", args=[masked(0, 1), masked(0, 2)])], (1,), ALLOW),
        ([allow("socket", args=[masked(0, 1, 1), masked(0, 2, 2), masked(1, 5)])], (0, 5), ALLOW),
        # An empty mask compares nothing.
        ([allow("socket", args=[masked(0, 1, 0)])], (7,), ALLOW),
        # The comparison covers 64 bits, or those of the mask.
        ([allow("socket", args=[{"index": 0, "op": "SCMP_CMP_EQ", "value": 1}])], (1 | 1 << 32,), EPERM),
        ([allow("socket", args=[masked(0, 1)])], (1 | 1 << 32,), ALLOW),
        ([allow("socket", args=[{"index": 0, "op": "SCMP_CMP_GT", "value": 40}])], (40 | 1 << 32,), ALLOW),
        ([allow("socket", args=[{"index": 0, "op": "SCMP_CMP_NE", "value": 40}])], (40 | 1 << 32,), ALLOW),
        ([allow("socket", args=[{"index": 0, "op": "SCMP_CMP_LE", "value": 40}])], (40,), ALLOW),
        ([allow("socket", args=[{"index": 0, "op": "SCMP_CMP_LT", "value": 40}])], (40,), EPERM),
        ([allow("socket", args=[{"index": 0, "op": "SCMP_CMP_GE", "value": 1 << 63}])], (1 << 63,), ALLOW),
        # Unknown names are left out.
        ([allow("socket", "no_such_call")], (1,), ALLOW),
    ],
)
def test_what_engines_make_of_rules(
    rules: list[dict[str, Any]], arguments: tuple[int, ...], expected: Action
) -> None:
    filter_ = resolve(load_profile_json(json.dumps(profile_of(*rules)), "p"), arch="amd64")
    first, second, third, fourth, fifth, sixth = (*arguments, 0, 0, 0, 0, 0, 0)[:6]
    assert (
        decide(filter_, SeccompCall(Abi.AMD64, 41, (first, second, third, fourth, fifth, sixth))).action
        == expected
    )


@pytest.mark.parametrize(
    ("more", "abi", "number", "expected"),
    [
        ({}, Abi.I386, 3, Action(ActionKind.KILL_THREAD)),
        ({"architectures": ["SCMP_ARCH_X86"]}, Abi.I386, 3, ALLOW),
        ({"architectures": ["SCMP_ARCH_X86"]}, Abi.AMD64, 0, ALLOW),
        ({"architectures": ["SCMP_ARCH_X32"]}, Abi.X32, 0, ALLOW),
        ({"architectures": ["SCMP_ARCH_X86_64"]}, Abi.X32, 0, Action(ActionKind.KILL_THREAD)),
        ({"architectures": ["SCMP_ARCH_AARCH64", "SCMP_ARCH_S390"]}, Abi.AMD64, 0, ALLOW),
        (
            {"archMap": [{"architecture": "SCMP_ARCH_X86_64", "subArchitectures": ["SCMP_ARCH_X86"]}]},
            Abi.I386,
            3,
            ALLOW,
        ),
        (
            {"archMap": [{"architecture": "SCMP_ARCH_AARCH64", "subArchitectures": ["SCMP_ARCH_X86"]}]},
            Abi.I386,
            3,
            Action(ActionKind.KILL_THREAD),
        ),
    ],
)
def test_architectures(more: dict[str, Any], abi: Abi, number: int, expected: Action) -> None:
    filter_ = resolve(load_profile_json(json.dumps(profile_of(allow("read"), **more)), "p"), arch="amd64")
    assert decide(filter_, SeccompCall(abi, number)).action == expected


def test_socketcall_hides_the_arguments_of_socket() -> None:
    rule = allow("socket", args=[masked(0, 1)])
    data = profile_of(rule, architectures=["SCMP_ARCH_X86"])
    filter_ = resolve(load_profile_json(json.dumps(data), "p"), arch="amd64")
    assert decide(filter_, SeccompCall(Abi.I386, 359, (40, 0, 0, 0, 0, 0))).action == EPERM
    assert decide(filter_, SeccompCall(Abi.I386, 102, (1, 0, 0, 0, 0, 0))).action == ALLOW
    assert decide(filter_, SeccompCall(Abi.I386, 102, (2, 0, 0, 0, 0, 0))).action == EPERM


def test_two_rules_that_unsay_each_other_are_noted() -> None:
    rules = [allow("socket", args=[masked(0, 1)]), {"names": ["socket"], "args": [masked(0, 1)], **REFUSE}]
    filter_ = resolve(load_profile_json(json.dumps(profile_of(*rules)), "p"), arch="amd64")
    assert [(one.path, other.path) for one, other in filter_.clashes] == [(("syscalls", 0), ("syscalls", 1))]


def test_the_configuration_of_a_bundle_is_taken() -> None:
    data = {"ociVersion": "1.0.2", "linux": {"seccomp": profile_of(allow("mount"))}}
    assert answer(data, "mount") == ALLOW


def test_rules_know_where_they_stand() -> None:
    rule = '{"names": ["read"], "action": "SCMP_ACT_ALLOW"}'
    text = f'{{"defaultAction": "SCMP_ACT_ERRNO",\n "syscalls": [\n  {rule}]}}'
    assert load_profile_json(text, "p").rules[0].position == (3, 3)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("4.8", (4, 8)), ("6.18.44-cloud", (6, 18)), ("4", None), ("x", None), ("4.", None), ("٤.8", None)],
)
def test_versions_of_kernels(text: str, expected: tuple[int, int] | None) -> None:
    assert kernel_version(text) == expected
