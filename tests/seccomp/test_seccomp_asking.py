"""The profile whose refusals ask: like the plain one, except that each refusal is a question."""

from __future__ import annotations

import json
import random

import pytest

from sandwright.evaluate.bpf import SystemCall, read_program, run_program
from sandwright.seccomp import compile_filter, compile_profile, load_profile_json, oci_json, profile
from sandwright.seccomp.action import ALLOW, ENOSYS, NOTIFY, Action, ActionKind
from sandwright.seccomp.adapt import with_notifications, without_unix
from sandwright.seccomp.model import SeccompProfile
from sandwright.seccomp.resolve import resolve

VALUES = (0, 1, 2, 3, 8, 9, 10, 16, 0x10000000, 0x20000, 0x541C, 0xFFFFFFFF, 1 << 40)
SECCOMP, LISTENER = 317, 8


@pytest.mark.parametrize("name", ["default", "strict", "build"])
@pytest.mark.parametrize("sockets", [True, False])
def test_each_refusal_is_a_question_and_nothing_else_changes(name: str, *, sockets: bool) -> None:
    plain = profile(name).expand(arch=("amd64",))
    plain = plain if sockets else without_unix(plain)
    before = read_program(compile_profile(plain, arch="amd64"), file="plain")
    after = read_program(compile_profile(with_notifications(plain), arch="amd64"), file="asking")
    written = read_program(_by_json(with_notifications(plain)), file="written")
    source, found = random.Random(name), set()
    for number in (*range(470), 2000):
        for _ in range(12):
            one, two, three = (source.choice(VALUES) for _ in range(3))
            call = SystemCall(number, 0xC000003E, (one, two, three, 0, 0, 0))
            was, now = run_program(before, call), run_program(after, call)
            assert now == _expected(was, call), call
            assert run_program(written, call) == now, call
            found.add(now)
    assert {NOTIFY, ALLOW, ENOSYS} <= found


def _expected(was: Action, call: SystemCall) -> Action:
    if call.number == SECCOMP and call.arguments[1] & LISTENER and was == ALLOW:
        return Action(ActionKind.ERRNO, 16)
    return NOTIFY if was.kind is ActionKind.ERRNO and was != ENOSYS else was


def _by_json(made: SeccompProfile) -> bytes:
    """The answer as an engine reads it."""
    given = load_profile_json(json.dumps(oci_json(made)), file="asking.json")
    return compile_filter(resolve(given, arch="amd64"), arch="amd64")
