"""The model refuses profiles that engines would read differently, with the position in the catalogue."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pytest

from sandwright.documents.yaml import parse_yaml
from sandwright.errors import DocumentError
from sandwright.seccomp.action import ALLOW, EPERM, Action, ActionKind
from sandwright.seccomp.catalogue import profile, profiles, read_groups, read_profiles
from sandwright.seccomp.groups import CatalogueProfile, SyscallGroup, argument_rule, comparison
from sandwright.seccomp.model import ArgumentComparison, SeccompRule

IS_1 = comparison(0, (1,))


def _rule(when: Sequence[ArgumentComparison], action: Action, reason: str) -> SeccompRule:
    return argument_rule(("socket",), when, action, reason)


def _group(*rules: SeccompRule) -> SyscallGroup:
    return SyscallGroup("g", "R.", rules=rules)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: comparison(6, (1,)), "argument 6: a call has arguments 0 to 5"),
        (
            lambda: comparison(0, (1,), mask=0x1FFFFFFFF),
            "mask 0x1ffffffff: only the lower 32 bits can be compared",
        ),
        (lambda: comparison(0, (1 << 32,)), "argument 0 cannot have such a value under mask 0xffffffff"),
        (lambda: comparison(0, (4,), mask=3), "argument 0 cannot have such a value under mask 0x3"),
        (lambda: comparison(0, (1, 2)), "argument 0: give one value, or those it must not have"),
        (lambda: comparison(0, ()), "argument 0: give one value, or those it must not have"),
        (lambda: comparison(0, (0, 0xFFFFFFFF), negated=True), "the values differ in more than 8 bits"),
        (
            lambda: _rule((IS_1, comparison(0, (2,))), ALLOW, "twice"),
            "an argument is compared twice: engines take such a rule apart, and one half is then enough",
        ),
        (lambda: _rule((), ALLOW, "none"), "a case without a comparison would be the whole rule"),
        (
            lambda: _rule((IS_1,), Action(ActionKind.LOG), "log"),
            "SCMP_ACT_LOG is not something our profiles do",
        ),
        (
            lambda: _rule((IS_1,), Action(ActionKind.ERRNO, 0), "0"),
            "errno 0 would tell the caller that the call was made",
        ),
        (
            lambda: _group(_rule((IS_1,), ALLOW, "yes"), _rule((IS_1,), EPERM, "no")),
            "two cases overlap and differ: yes / no",
        ),
        (
            lambda: _group(_rule((IS_1,), ALLOW, "yes"), _rule((comparison(1, (2,)),), EPERM, "no")),
            "two cases overlap and differ: yes / no",
        ),
    ],
    ids=[
        *(
            "argument-6",
            "upper-half",
            "wide-value",
            "outside-mask",
            "two-values",
            "no-value",
            "too-different",
        ),
        *("twice", "no-comparison", "log", "errno-0", "overlap", "overlap-of-two-arguments"),
    ],
)
def test_what_engines_would_read_otherwise_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make()


def test_cases_that_do_not_overlap_are_taken() -> None:
    _group(_rule((IS_1,), ALLOW, "yes"), _rule((comparison(0, (1,), negated=True),), EPERM, "no"))


def test_two_groups_with_rules_for_one_call_are_refused() -> None:
    rule = _rule((IS_1,), ALLOW, "yes")
    groups = {name: SyscallGroup(name, "x", rules=(rule,)) for name in ("a", "b")}
    CatalogueProfile("one", "x", groups, ("a",))
    with pytest.raises(ValueError, match="socket has rules in a and in b"):
        CatalogueProfile("both", "x", groups, ("a", "b"))
    with pytest.raises(ValueError, match="no such group: c"):
        CatalogueProfile("none", "x", groups, ("c",))


def test_a_group_that_grants_a_call_outright_wins_over_rules_for_it() -> None:
    rule = _rule((IS_1,), ALLOW, "yes")
    groups = {
        "rules": SyscallGroup("rules", "x", rules=(rule,)),
        "outright": SyscallGroup("outright", "y", ("socket",)),
    }
    for order in (("rules", "outright"), ("outright", "rules")):
        assert CatalogueProfile("p", "x", groups, order).rules()["socket"][0].group == "outright"


def test_profiles_are_those_that_are_promised() -> None:
    assert list(profiles()) == [
        *("default", "strict", "build"),
        *("bwrap-in-container", "runsc-in-container", "kernel-of-vm"),
    ]
    with pytest.raises(KeyError):
        profile("none")


def test_every_group_and_case_says_why() -> None:
    for group in profile("default").groups.values():
        assert group.reason.endswith("."), group.name
        for rule in group.rules:
            assert rule.comment, group.name


def test_every_group_is_granted_somewhere_or_refused_for_a_reason() -> None:
    granted = {name for one in profiles().values() for name in one.granted_groups(one.with_capability)}
    never = set(profile("default").groups) - granted
    assert never == {
        *("clone3", "keyrings", "process-reaping", "io-uring", "page-faults", "kernel-programs"),
        *(
            "performance-counters",
            "memory-moving",
            "kernel-modules",
            "kernel-replacement",
            "swap-and-accounts",
        ),
        *(
            "hardware",
            "memory-keys",
            "file-handles",
            "file-system-events",
            "page-splicing",
            "asynchronous-io-with-signals",
        ),
        *("secret-memory", "terminals", "cache-questions", "newer-queries", "newer-calls", "obsolete"),
    }


GROUP = "groups:\n  g:\n    reason: R.\n"
RULE = "    rules:\n      - syscalls: ioctl\n        allow:\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("groups: [1]", "f:1:9: groups: must be a mapping"),
        (
            GROUP + "    syscalls: read wriet\n",
            "f:4:15: groups.g.syscalls: wriet is not a system call; did you mean write?",
        ),
        (GROUP + "    syscalls: read read\n", "f:4:15: groups.g.syscalls: names one thing twice"),
        (
            GROUP + "    syscall: read\n",
            "f:4:14: groups.g.syscall: is not one of reason, syscalls, rules, errno",
        ),
        (GROUP + "    errno: ENOPE\n", "f:4:12: groups.g.errno: ENOPE is not the name of an error"),
        (
            GROUP + RULE + "          - when: [{arg: 1}]\n            reason: x\n",
            "f:7:20: groups.g.rules[0].allow[0].when[0]: say one of is and none_of",
        ),
        (
            GROUP + RULE + "          - when: [{arg: 1, mask: 0x1ffffffff, is: 1}]\n            reason: x\n",
            "f:7:20: groups.g.rules[0].allow[0].when[0]: mask 0x1ffffffff: only the lower 32 bits can be"
            " compared",
        ),
        ("groups:\n  g:\n    syscalls: read\n", "f:3:5: groups.g.reason: must be text"),
    ],
    ids=["list", "misspelt", "twice", "key", "errno", "no-value", "upper-half", "no-reason"],
)
def test_faults_of_groups_have_a_position(text: str, message: str) -> None:
    with pytest.raises(DocumentError) as caught:
        read_groups(parse_yaml(text, file="f"))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("reason: R\n    grants: nope", "f:3:5: profiles.p: no such group: nope"),
        (
            "reason: R\n    extends: q\n    grants: g",
            "f:4:14: profiles.p.extends: there is no profile q before this one",
        ),
        ("reason: R\n    without: g\n    grants: g", "f:4:14: profiles.p.without: g is not granted there"),
    ],
    ids=["unknown-group", "unknown-base", "without-base"],
)
def test_faults_of_profiles_have_a_position(text: str, message: str) -> None:
    groups = read_groups(parse_yaml(GROUP + "    syscalls: read\n", file="g"))
    with pytest.raises(DocumentError) as caught:
        read_profiles(parse_yaml(f"profiles:\n  p:\n    {text}\n", file="f"), groups)
    assert str(caught.value) == message
