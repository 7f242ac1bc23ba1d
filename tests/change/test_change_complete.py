"""Every widening that an exhaustive comparison of generated edits finds is listed.

Tests of change/questions.py.
Tests of change/settings.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import example, given, reject, settings

from sandwright.api import Policy
from sandwright.change.compare import POLICY, PolicyDifference, compare_policies
from sandwright.change.questions import Case, paths
from sandwright.errors import DocumentError
from sandwright.evaluate.explain.enclosure import NOT_STARTED
from sandwright.methods.compare import questions
from sandwright.policy.facts import HostEntry, HostFacts
from sandwright.policy.paths import is_inside
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.seccomp.abi import known_names
from support.policyedits import NAMES, OUTSIDE, changes
from support.thorough import THOROUGH

FACTS = HostFacts(
    os="linux",
    home="/home/u",
    project="/home/u/p",
    entries={
        path: HostEntry("directory")
        for path in ("/", "/home", "/home/u", "/home/u/p", "/home/u/.ssh", "/home/u/a", "/etc", "/srv")
    },
)
METHODS = ("bwrap", "oci")
HOME, PROJECT = FACTS.home, FACTS.project


def _paths() -> Iterator[str]:
    """A tree with every name that edits use, and others around them, three deep below each."""
    names = (*NAMES, "a/b/c/d", "other", "other/x", "a/other", ".ssh/key", ".git/config", ".git/other")
    for root in (HOME, PROJECT, f"{PROJECT}/deep/er"):
        yield root
        yield from (f"{root}/{name}" for name in names)
    for root in (*OUTSIDE, "/", "/home", "/usr", "/tmp", "/var/lib"):
        yield from (root, f"{root}/x".replace("//", "/"), f"{root}/x/y".replace("//", "/"))


NAMED = ("a.example", "x.a.example", "y.x.a.example", "b.example", "x.b.example", "nota.example")
HOSTS = [
    f"{host}:{port}"
    for host in (*NAMED, "192.0.2.7", "192.0.2.8", "else.example")
    for port in (22, 80, 443, 8000, 8443, 5000)
]
VARIABLES = ("FOO", "FOOD", "FOO_", "FOO_X", "BAR", "BAR_Y", "LC_ALL", "CI", "PATH", "LD_PRELOAD", "ELSE")


def _everything() -> Iterator[Case]:
    for path in dict.fromkeys(_paths()):
        yield from (Case("read", path), Case("write", path))
    yield from (Case("connect", host) for host in HOSTS)
    yield from (Case("env", name) for name in VARIABLES)
    yield from (Case("syscall", name) for name in known_names())
    yield from (Case("syscall", "socket", (family, 1)) for family in (1, 2, 10, 16, 17, 38))


def _widened(old: ResolvedPolicy, new: ResolvedPolicy) -> Iterator[tuple[Case, str]]:
    """Every case that the new policy allows and the old one does not, with the deciding policy or method."""
    before, after = (questions(each, METHODS) for each in (old, new))
    for case in _everything():
        one, other = (
            each.ask(case.question, case.subject, arguments=case.arguments) for each in (before, after)
        )
        if other.allowed and not one.allowed:
            yield case, POLICY
        for was, now in zip(one.rows, other.rows, strict=True):
            started = not any(row.because.endswith(NOT_STARTED) for row in (was, now))  # which is no answer
            answered = started and "refused" not in (was.status, now.status)
            if answered and (was.decision, now.decision) == ("deny", "allow"):
                yield case, was.method


def _is_listed(case: Case, label: str, found: PolicyDifference, new: ResolvedPolicy) -> bool:
    return any(
        each.widened and label in each.methods and each.case.question == case.question
        and _stands_for(each.case, case, new)
        for each in found.cases
    )  # fmt: skip


def _stands_for(listed: Case, case: Case, new: ResolvedPolicy) -> bool:
    """Whether a listed case is this one, or the boundary of the area that contains it."""
    match case.question:
        case "read" | "write":
            return is_inside(case.subject, listed.subject)
        case "connect":
            host, _, port = case.subject.rpartition(":")
            own, _, at = listed.subject.rpartition(":")
            for pattern in new.network.allow:
                if pattern.matches(host, int(port)) and pattern.matches(own, int(at)):
                    return True
            return new.network.mode == "host"
        case "env":
            covering = (each for each in new.environment.passed if each.endswith("*"))
            shared = any(
                name.startswith(each[:-1]) and listed.subject.startswith(each[:-1])
                for each in covering
                for name in [case.subject]
            )
            return listed.subject == case.subject or shared
        case _:
            return _known(listed) == _known(case)


def _known(case: Case) -> tuple[str, tuple[int, ...]]:
    """A call with the arguments that filters look at: here a socket's family."""
    arguments = case.arguments or ()
    return case.subject, (arguments[:1] or (0,)) if case.subject == "socket" else (*arguments, 0)[:1]


def _resolved(text: str) -> ResolvedPolicy:
    return Policy.from_text(text).resolve(FACTS)


FOUND = (
    "schema: 1\nmethod: bwrap\nfilesystem: {write: [$PROJECT], deny: [$PROJECT/a/b/c]}\n",
    "schema: 1\nmethod: bwrap\nfilesystem: {write: [$PROJECT], deny: []}\n",
)
"""If `a` is missing, something lies there under the first policy, and everything around the rule is open."""


@settings(max_examples=100 if THOROUGH else 3, deadline=None)
@example(change=FOUND)
@given(change=changes())
def test_every_widening_of_an_exhaustive_comparison_is_listed(change: tuple[str, str]) -> None:
    try:
        old, new = map(_resolved, change)
    except DocumentError:
        reject()
    found = compare_policies(old, new, METHODS)
    missing = [(case, label) for case, label in _widened(old, new) if not _is_listed(case, label, found, new)]
    assert missing == []


@settings(max_examples=100 if THOROUGH else 3, deadline=None)
@given(change=changes())
def test_the_other_way_round_is_the_opposite(change: tuple[str, str]) -> None:
    try:
        old, new = map(_resolved, change)
    except DocumentError:
        reject()
    there, back = compare_policies(old, new, ("bwrap",)), compare_policies(new, old, ("bwrap",))
    assert {(each.case, not each.widened, each.methods) for each in there.cases} == {
        (each.case, each.widened, each.methods) for each in back.cases
    }


def test_nothing_differs_from_itself() -> None:
    policy = _resolved("schema: 1\nmethod: bwrap\n")
    found = compare_policies(policy, policy, METHODS)
    assert (found.cases, found.settings, found.widened, found.narrowed) == ((), (), 0, 0)
    assert found.asked > 1000


@pytest.mark.parametrize(
    ("old", "new", "wider", "narrower"),
    [
        pytest.param("", "resources: {memory: 64GiB}", "raises the limit of memory", "", id="a limit"),
        pytest.param("method: bwrap", "{method: noop, reason: x}", "enforces nothing", "", id="noop"),
        pytest.param("", "process: {sandbox_root: true}", "lets programs gain rights", "", id="rights"),
        pytest.param("filesystem: {tmp: shared}", "", "", "no longer: writes /tmp", id="temporary files"),
        pytest.param(
            "credentials: {shims: {gh: {allow: ['pr list']}}}",
            "credentials: {shims: {gh: {allow: ['pr *']}}}",
            "runs gh on the host (pr *)",
            "",
            id="a shim",
        ),
    ],
)
def test_what_no_question_is_about(old: str, new: str, wider: str, narrower: str) -> None:
    policies = [_resolved(_policy(each)) for each in (old, new)]
    found = compare_policies(policies[0], policies[1], ("bwrap",))
    texts = {True: "", False: "", None: ""}
    for each in found.settings:
        texts[each.widened] += f"{each}\n"
    assert wider in texts[True]
    assert narrower in texts[False]
    assert (found.widened > 0) is bool(wider)


def _policy(more: str) -> str:
    if more.startswith("{"):
        return f"{{schema: 1, {more[1:]}"
    return f"schema: 1\n{'' if more.startswith('method') else 'method: bwrap'}\n{more}\n"


def test_a_method_with_an_image_in_place_of_one_with_the_host() -> None:
    """The policies are equal, but the readable files are not."""
    old, new = _resolved("schema: 1\nmethod: oci\n"), _resolved("schema: 1\nmethod: bwrap\n")
    found = compare_policies(old, new, ("oci", "bwrap"))
    opened = {str(each.case) for each in found.cases if each.widened and each.methods == ("oci → bwrap",)}
    assert f"read {HOME}" in opened
    assert compare_policies(new, old, ("oci", "bwrap")).narrowed > 0


def test_every_path_has_its_surroundings() -> None:
    policy = _resolved("schema: 1\nmethod: bwrap\nfilesystem: {deny: [/srv/data]}\n")
    asked = paths([policy])
    assert {"/srv/data", "/srv", "/srv/data/sandwright-child", "/srv/data-sandwright-neighbour"} <= {*asked}


def test_a_changed_value_is_told_and_not_shown() -> None:
    old, new = (
        _resolved(f"schema: 1\nmethod: bwrap\nenvironment: {{set: {{A_TOKEN: {value}}}}}\n")
        for value in ("hunter2one", "hunter2two")
    )
    found = compare_policies(old, new, ("bwrap",))
    assert [str(each) for each in found.settings] == ["environment.set: A_TOKEN has another value"]
    added = compare_policies(replace(_resolved("schema: 1\nmethod: bwrap\n")), new, ("bwrap",))
    assert "env A_TOKEN" in {str(each.case) for each in added.cases}
    assert "hunter2" not in repr([(each.case, each.before, each.after) for each in added.cases])
