"""Decisions: those that macOS was observed to make, its known order of decision, and the deciding rule.

Tests of evaluate/sbpl/decide.py.
Tests of evaluate/sbpl/filters.py.
Tests of evaluate/sbpl/table.py.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from sandwright.errors import UsageError
from sandwright.evaluate.sbpl import index
from sandwright.evaluate.sbpl.decide import Evaluator
from sandwright.evaluate.sbpl.errors import ProfileError
from sandwright.evaluate.sbpl.profile import compile_profile
from sandwright.evaluate.sbpl.request import parse_request
from support.thorough import examples

CASES: list[dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parent / "sbpl-data" / "decisions.yaml").read_text(encoding="utf-8")
)["cases"]


def test_there_are_83_decisions() -> None:
    assert len({case["id"] for case in CASES}) == 83


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_decides_as_macos_did(case: dict[str, Any]) -> None:
    try:
        profile = compile_profile(case["profile"], params=case.get("params"))
        decided = (
            Evaluator(profile, symlinks=case.get("symlinks")).decide(case["op"], case["resource"]).decision
        )
    except ProfileError:
        decided = "compile-error"  # type: ignore[assignment]
    assert decided == case["expect"]


class Case(NamedTuple):
    """Rules (after `(version 1)`), a question, and the answer: decision, stage, line of the rule."""

    rules: str
    operation: str
    resource: dict[str, Any]
    decision: str
    stage: str
    line: int | None


FILTERED, UNFILTERED, BUILT_IN = "filtered rule", "unfiltered rule", "built-in"
P = {"path": "/Users/u/x"}

DECIDES = {
    # the order of decision
    "nothing is said": Case("", "file-read-data", P, "deny", BUILT_IN, None),
    "default denies": Case("(deny default)", "file-read-data", P, "deny", UNFILTERED, 2),
    "default allows": Case("(allow default)", "file-read-data", P, "allow", UNFILTERED, 2),
    "the newer of two filtered rules": Case(
        '(deny default)\n(allow file-read* (subpath "/Users"))\n(deny file-read* (literal "/Users/u/x"))',
        "file-read-data",
        P,
        "deny",
        FILTERED,
        4,
    ),
    "the newer of two filtered rules, the other way": Case(
        '(deny default)\n(deny file-read* (literal "/Users/u/x"))\n(allow file-read* (subpath "/Users"))',
        "file-read-data",
        P,
        "allow",
        FILTERED,
        4,
    ),
    "an unfiltered rule is the fall-through wherever it stands": Case(
        '(allow file-read* (subpath "/Users"))\n(deny file-read*)\n(allow default)',
        "file-read-data",
        P,
        "allow",
        FILTERED,
        2,
    ),
    "and decides what the filtered ones leave": Case(
        '(allow file-read* (subpath "/Users"))\n(deny file-read*)\n(allow default)',
        "file-read-data",
        {"path": "/opt/x"},
        "deny",
        UNFILTERED,
        3,
    ),
    "the newer of two unfiltered rules": Case(
        "(allow signal)\n(deny signal)", "signal", {}, "deny", UNFILTERED, 3
    ),
    "a rule on the operation beats a later one on its parent": Case(
        '(deny default)\n(deny file-write-unlink (literal "/Users/u/x"))\n(allow file-write*)',
        "file-write-unlink",
        P,
        "deny",
        FILTERED,
        3,
    ),
    "the parent decides the others": Case(
        '(deny default)\n(deny file-write-unlink (literal "/Users/u/x"))\n(allow file-write*)',
        "file-write-data",
        P,
        "allow",
        UNFILTERED,
        4,
    ),
    "an unfiltered rule on the operation beats a filtered one on its parent": Case(
        '(allow file-read-metadata)\n(deny file-read* (subpath "/Users"))',
        "file-read-metadata",
        P,
        "allow",
        UNFILTERED,
        2,
    ),
    "the search goes up two steps": Case(
        '(deny default)\n(allow file* (subpath "/Users"))', "file-read-data", P, "allow", FILTERED, 3
    ),
    "a filter on default": Case(
        '(allow default (subpath "/Users"))', "file-read-data", P, "allow", FILTERED, 2
    ),
    "bind falls back to inbound": Case(
        "(allow network-inbound (local ip))", "network-bind", {"local": "0.0.0.0:80"}, "allow", FILTERED, 2
    ),
    "inbound does not fall back to bind": Case(
        "(allow network-bind (local ip))", "network-inbound", {"local": "0.0.0.0:80"}, "deny", BUILT_IN, None
    ),
    # operations with their own decision
    "dynamic code is allowed after deny default": Case(
        "(deny default)", "dynamic-code-generation", {}, "allow", BUILT_IN, None
    ),
    "until it is denied by name": Case(
        "(deny default)\n(deny dynamic-code-generation)", "dynamic-code-generation", {}, "deny", UNFILTERED, 3
    ),
    "process-info is allowed after deny default": Case(
        "(deny default)", "process-info-pidinfo", {"target": "others"}, "allow", BUILT_IN, None
    ),
    "its wildcard denies all of it": Case(
        "(deny default)\n(deny process-info*)",
        "process-info-pidinfo",
        {"target": "others"},
        "deny",
        UNFILTERED,
        3,
    ),
    "nvram": Case("(deny default)", "nvram-get", {"nvram-variable": "x"}, "allow", BUILT_IN, None),
    "mapping is no file operation to the tree": Case(
        "(deny default)\n(deny file*)", "file-map-executable", P, "allow", BUILT_IN, None
    ),
    "set-id bits are not part of file-write*": Case(
        "(deny default)\n(allow file-write*)", "file-write-setugid", P, "deny", BUILT_IN, None
    ),
    "nor of default": Case("(allow default)", "file-write-setugid", P, "deny", BUILT_IN, None),
    "but can be allowed": Case("(allow file-write-setugid)", "file-write-setugid", P, "allow", UNFILTERED, 2),
    "nor are launchd jobs": Case("(allow default)", "job-creation", {}, "deny", BUILT_IN, None),
    "a process may signal itself": Case(
        "(deny default)", "signal", {"target": "self"}, "allow", BUILT_IN, None
    ),
    "whatever an unfiltered rule says": Case(
        "(deny signal)", "signal", {"target": "self"}, "allow", BUILT_IN, None
    ),
    "unless a filtered one says otherwise": Case(
        "(deny signal (target self))", "signal", {"target": "self"}, "deny", FILTERED, 2
    ),
    "others it may not signal": Case("(deny default)", "signal", {"target": "others"}, "deny", UNFILTERED, 2),
    # filters
    "several filters are OR": Case(
        '(allow file-read-metadata (literal "/System/Volumes") (vnode-type DIRECTORY))',
        "file-read-metadata",
        {"path": "/Users/u", "vnode-type": "DIRECTORY"},
        "allow",
        FILTERED,
        2,
    ),
    "require-all is AND": Case(
        '(allow file-read-metadata (require-all (literal "/System/Volumes") (vnode-type DIRECTORY)))',
        "file-read-metadata",
        {"path": "/Users/u", "vnode-type": "DIRECTORY"},
        "deny",
        BUILT_IN,
        None,
    ),
    "require-not": Case(
        '(allow file-write* (require-all (subpath "/a") (require-not (subpath "/a/b"))))',
        "file-write-data",
        {"path": "/a/b/c"},
        "deny",
        BUILT_IN,
        None,
    ),
    "require-not leaves the rest": Case(
        '(allow file-write* (require-all (subpath "/a") (require-not (subpath "/a/b"))))',
        "file-write-data",
        {"path": "/a/bc"},
        "allow",
        FILTERED,
        2,
    ),
    "a subpath is itself": Case(
        '(allow file-read* (subpath "/a"))', "file-read-data", {"path": "/a"}, "allow", FILTERED, 2
    ),
    "a subpath ends at a /": Case(
        '(allow file-read* (subpath "/a"))', "file-read-data", {"path": "/ab"}, "deny", BUILT_IN, None
    ),
    "the subpath / is everything": Case(
        '(allow file-read* (subpath "/"))', "file-read-data", P, "allow", FILTERED, 2
    ),
    "a subpath with a / at its end is nothing": Case(
        '(allow file-read* (subpath "/Users/"))', "file-read-data", P, "deny", BUILT_IN, None
    ),
    "an empty subpath is nothing": Case(
        '(allow file-read* (subpath ""))', "file-read-data", P, "deny", BUILT_IN, None
    ),
    "a prefix ends anywhere": Case(
        '(allow file-read* (prefix "/Users/u/"))', "file-read-data", P, "allow", FILTERED, 2
    ),
    "a literal is just itself": Case(
        '(allow file-read* (literal "/Users/u"))', "file-read-data", P, "deny", BUILT_IN, None
    ),
    "case counts": Case('(allow file-read* (subpath "/users"))', "file-read-data", P, "deny", BUILT_IN, None),
    "an extension that is held": Case(
        '(allow file-read* (extension "com.apple.app-sandbox.read"))',
        "file-read-data",
        {**P, "extension": "com.apple.app-sandbox.read"},
        "allow",
        FILTERED,
        2,
    ),
    "an extension that is not": Case(
        '(allow file-read* (extension "com.apple.app-sandbox.read"))',
        "file-read-data",
        P,
        "deny",
        BUILT_IN,
        None,
    ),
    "a global name": Case(
        '(allow mach-lookup (global-name "a.b"))', "mach-lookup", {"global-name": "a.b"}, "allow", FILTERED, 2
    ),
    "a local name is no global name": Case(
        '(allow mach-lookup (global-name "a.b"))',
        "mach-lookup",
        {"local-name": "a.b"},
        "deny",
        BUILT_IN,
        None,
    ),
    "a prefix of a name": Case(
        '(allow sysctl-read (sysctl-name-prefix "hw."))',
        "sysctl-read",
        {"sysctl-name": "hw.ncpu"},
        "allow",
        FILTERED,
        2,
    ),
    "a regex of a name": Case(
        '(allow mach-lookup (global-name-regex #"^a\\."))',
        "mach-lookup",
        {"global-name": "ab"},
        "deny",
        BUILT_IN,
        None,
    ),
    "same sandbox is no other": Case(
        "(allow signal (target same-sandbox))", "signal", {"target": "others"}, "deny", BUILT_IN, None
    ),
    "a child is in the same sandbox": Case(
        "(allow signal (target same-sandbox))", "signal", {"target": "children"}, "allow", FILTERED, 2
    ),
    "a constant by number": Case(
        "(allow system-socket (socket-domain 32))",
        "system-socket",
        {"socket-domain": "AF_SYSTEM"},
        "allow",
        FILTERED,
        2,
    ),
    "a constant by name": Case(
        "(allow system-socket (socket-domain AF_SYSTEM))",
        "system-socket",
        {"socket-domain": "32"},
        "allow",
        FILTERED,
        2,
    ),
    "another constant": Case(
        "(allow system-socket (socket-domain AF_SYSTEM))",
        "system-socket",
        {"socket-domain": "AF_ROUTE"},
        "deny",
        BUILT_IN,
        None,
    ),
    "bits of a mode": Case(
        "(deny process-exec (file-mode #o4000))\n(allow process-exec)",
        "process-exec",
        {**P, "file-mode": "04755"},
        "deny",
        FILTERED,
        2,
    ),
    "bits of a mode as chmod has it": Case(
        "(deny process-exec (file-mode #o4000))\n(allow process-exec)",
        "process-exec",
        {**P, "file-mode": "4755"},
        "deny",
        FILTERED,
        2,
    ),
    "bits that are not set": Case(
        "(deny process-exec (file-mode #o4000))\n(allow process-exec)",
        "process-exec",
        {**P, "file-mode": "0755"},
        "allow",
        UNFILTERED,
        3,
    ),
    "a device": Case(
        '(allow file-write-data (require-all (path "/dev/null") (vnode-type CHARACTER-DEVICE)))',
        "file-write-data",
        {"path": "/dev/null"},
        "allow",
        FILTERED,
        2,
    ),
    "a file": Case(
        "(deny file-read* (vnode-type DIRECTORY))\n(allow file-read*)",
        "file-read-data",
        P,
        "allow",
        UNFILTERED,
        3,
    ),
    "keys may be spelled with _": Case(
        "(allow file-ioctl (vnode-type TTY))",
        "file-ioctl",
        {"path": "/dev/ttys003", "vnode_type": "TTY"},
        "allow",
        FILTERED,
        2,
    ),
    "entitlements are never there": Case(
        '(allow signal (require-entitlement "e"))', "signal", {"target": "others"}, "deny", BUILT_IN, None
    ),
    "aliases ask the same": Case(
        '(allow process-exec (literal "/Users/u/x"))', "process-exec*", P, "allow", FILTERED, 2
    ),
    "iokit-open covers its children": Case(
        '(allow iokit-open (iokit-user-client-class "C"))',
        "iokit-open-user-client",
        {"iokit-registry-entry-class": "C"},
        "allow",
        FILTERED,
        2,
    ),
    # paths
    "filters see the resolved path": Case(
        '(allow file-read* (subpath "/private/tmp") (literal "/tmp"))',
        "file-read-data",
        {"path": "/tmp/x"},
        "allow",
        FILTERED,
        2,
    ),
    "a rule spelled by the link is dead": Case(
        '(allow file-read* (subpath "/tmp"))',
        "file-read-data",
        {"path": "/private/tmp/x"},
        "deny",
        BUILT_IN,
        None,
    ),
    "walking through a link needs its metadata": Case(
        '(allow file-read* (subpath "/private/tmp"))',
        "file-read-data",
        {"path": "/tmp/x"},
        "deny",
        BUILT_IN,
        None,
    ),
    "the rule that refuses the link is named": Case(
        '(allow file-read* (subpath "/private/tmp"))\n(deny file-read-metadata (literal "/tmp"))',
        "file-read-data",
        {"path": "/tmp/x"},
        "deny",
        FILTERED,
        3,
    ),
    "lstat of a link asks about the link": Case(
        '(allow file-read-metadata (literal "/tmp"))',
        "file-read-metadata",
        {"path": "/tmp"},
        "allow",
        FILTERED,
        2,
    ),
    "stat follows it": Case(
        '(allow file-read-metadata (literal "/tmp"))',
        "file-read-metadata",
        {"path": "/tmp", "follow": "true"},
        "deny",
        BUILT_IN,
        None,
    ),
    "a link is a symbolic link": Case(
        "(allow file-read-metadata (vnode-type SYMLINK))",
        "file-read-metadata",
        {"path": "/var"},
        "allow",
        FILTERED,
        2,
    ),
    "data volume spelling": Case(
        '(allow file-read* (subpath "/Users"))',
        "file-read-data",
        {"path": "/System/Volumes/Data/Users/u"},
        "allow",
        FILTERED,
        2,
    ),
    "a rule in data volume spelling is dead": Case(
        '(allow file-read* (subpath "/System/Volumes/Data/Users"))',
        "file-read-data",
        P,
        "deny",
        BUILT_IN,
        None,
    ),
    "dots lead out": Case(
        '(allow file-write* (subpath "/Users/u/w"))',
        "file-write-create",
        {"path": "/Users/u/w/../x"},
        "deny",
        BUILT_IN,
        None,
    ),
    "dots lead in": Case(
        '(allow file-write* (subpath "/Users/u/w"))',
        "file-write-create",
        {"path": "/Users/u/x/../w/y"},
        "allow",
        FILTERED,
        2,
    ),
    "bytes of a name": Case(
        '(allow file-read* (regex #"^/a/..$"))', "file-read-data", {"path": "/a/é"}, "allow", FILTERED, 2
    ),
    # network
    "any host": Case(
        "(allow network-outbound (remote ip))",
        "network-outbound",
        {"remote": "1.1.1.1:443"},
        "allow",
        FILTERED,
        2,
    ),
    "localhost": Case(
        '(allow network-outbound (remote ip "localhost:*"))',
        "network-outbound",
        {"remote": "127.0.0.1:80"},
        "allow",
        FILTERED,
        2,
    ),
    "localhost is also ::1": Case(
        '(allow network-outbound (remote ip "localhost:80"))',
        "network-outbound",
        {"remote": "[::1]:80"},
        "allow",
        FILTERED,
        2,
    ),
    "localhost is no other host": Case(
        '(allow network-outbound (remote ip "localhost:*"))',
        "network-outbound",
        {"remote": "192.168.1.1:80"},
        "deny",
        BUILT_IN,
        None,
    ),
    "a port": Case(
        '(allow network-outbound (remote tcp "*:443"))',
        "network-outbound",
        {"remote": "example.com:443"},
        "allow",
        FILTERED,
        2,
    ),
    "another port": Case(
        '(allow network-outbound (remote tcp "*:443"))',
        "network-outbound",
        {"remote": "example.com:80"},
        "deny",
        BUILT_IN,
        None,
    ),
    "udp is not tcp": Case(
        "(allow network-outbound (remote tcp))",
        "network-outbound",
        {"remote": "8.8.8.8:53", "proto": "udp"},
        "deny",
        BUILT_IN,
        None,
    ),
    "udp is ip": Case(
        "(allow network-outbound (remote ip))",
        "network-outbound",
        {"remote": "8.8.8.8:53", "proto": "udp"},
        "allow",
        FILTERED,
        2,
    ),
    "version 4": Case(
        "(allow network-outbound (remote ip4))",
        "network-outbound",
        {"remote": "[2001:db8::1]:80"},
        "deny",
        BUILT_IN,
        None,
    ),
    "version 6": Case(
        "(allow network-outbound (remote ip6))",
        "network-outbound",
        {"remote": "[2001:db8::1]:80"},
        "allow",
        FILTERED,
        2,
    ),
    "ip is no unix socket": Case(
        "(allow network-outbound (remote ip))",
        "network-outbound",
        {"path": "/private/var/run/docker.sock", "unix": True},
        "deny",
        BUILT_IN,
        None,
    ),
    "a unix socket by path": Case(
        '(allow network-outbound (literal "/private/var/run/s"))',
        "network-outbound",
        {"unix": "/private/var/run/s"},
        "allow",
        FILTERED,
        2,
    ),
    "a unix socket the old way": Case(
        '(allow network-outbound (remote unix-socket (path-literal "/private/var/run/s")))',
        "network-outbound",
        {"path": "/private/var/run/s", "unix": "true"},
        "allow",
        FILTERED,
        2,
    ),
    "another unix socket": Case(
        '(allow network-outbound (remote unix-socket (path-literal "/private/var/run/s")))',
        "network-outbound",
        {"path": "/private/var/run/t", "unix": "true"},
        "deny",
        BUILT_IN,
        None,
    ),
    "a path does not match hosts": Case(
        '(allow network-outbound (subpath "/"))',
        "network-outbound",
        {"remote": "1.1.1.1:443"},
        "deny",
        BUILT_IN,
        None,
    ),
    "not reading a socket does not stop connecting": Case(
        '(deny file-read* (literal "/s"))\n(allow network-outbound)',
        "network-outbound",
        {"path": "/s", "unix": True},
        "allow",
        UNFILTERED,
        3,
    ),
    "where it listens": Case(
        '(allow network-bind (local tcp "*:8080"))', "network-bind", {"local": "*:8080"}, "allow", FILTERED, 2
    ),
    # set-id programs
    "ps": Case(
        "(allow default)", "process-exec", {"path": "/bin/ps", "setugid": True}, "deny", BUILT_IN, None
    ),
    "ps by name": Case(
        '(allow process-exec (literal "/bin/ps"))',
        "process-exec",
        {"path": "/bin/ps", "setugid": "true"},
        "deny",
        BUILT_IN,
        None,
    ),
    "ps outside the sandbox": Case(
        '(allow process-exec (literal "/bin/ps") (with no-sandbox))',
        "process-exec",
        {"path": "/bin/ps", "setugid": "true"},
        "allow",
        FILTERED,
        2,
    ),
    "a program without set-id bits": Case(
        "(allow default)", "process-exec", {"path": "/bin/ls", "setugid": "false"}, "allow", UNFILTERED, 2
    ),
    "a set-id program that is denied anyway": Case(
        '(allow default)\n(deny process-exec (literal "/bin/ps"))',
        "process-exec",
        {"path": "/bin/ps", "setugid": True},
        "deny",
        FILTERED,
        3,
    ),
    "only exec asks for set-id": Case(
        "(allow default)", "file-read-data", {"path": "/bin/ps", "setugid": True}, "allow", UNFILTERED, 2
    ),
}


@pytest.mark.parametrize("case", DECIDES.values(), ids=DECIDES)
def test_decides_and_says_who(case: Case) -> None:
    profile = compile_profile(f"(version 1)\n{case.rules}")
    found = Evaluator(profile).decide(case.operation, case.resource)
    line = None if found.rule is None else found.rule.position.line
    assert (found.decision, found.stage, line) == (case.decision, case.stage, case.line)
    assert found.allowed is (case.decision == "allow")
    assert (found.rule is None) == bool(found.note)


def test_a_refused_link_is_named() -> None:
    profile = compile_profile('(version 1)(deny default)(allow file-read* (literal "/private/etc/hosts"))')
    found = Evaluator(profile).decide("file-read-data", {"path": "/etc/hosts"})
    assert (found.link, found.operation, found.level) == ("/etc", "file-read-metadata", "default")


def test_shadowed_rules_come_in_the_order_they_would_have_decided() -> None:
    text = (
        "(version 1)\n(deny default)\n"
        '(allow file-read* (subpath "/a"))\n'
        '(deny file-read-data (literal "/other"))\n'
        '(deny file-read-data (literal "/a/b"))\n'
        '(allow file-read-data (subpath "/a"))\n'
        "(deny file*)\n"
    )
    evaluator = Evaluator(compile_profile(text))
    request = parse_request({"path": "/a/b"})
    found = evaluator.decide_request("file-read-data", request)
    assert found.rule is not None
    assert found.rule.position.line == 6
    shadowed = evaluator.shadowed(found, request)
    assert [(item.rule.position.line, item.level) for item in shadowed] == [
        (5, "file-read-data"),
        (3, "file-read*"),
        (7, "file*"),
        (2, "default"),
    ]


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "unknown operation": (
        "file-raed-data",
        {},
        "there is no operation 'file-raed-data'; did you mean 'file-read-data'?",
    ),
    "unknown key": (
        "mach-lookup",
        {"global-nme": "x"},
        "no operation has the resource key 'global-nme'; did you mean 'global-name'?",
    ),
    "relative path": ("file-read-data", {"path": "x"}, "a resource's path must begin with /, not 'x'"),
    "NUL in a path": ("file-read-data", {"path": "/a\0b"}, "a resource's path cannot hold a NUL byte"),
    "no truth": (
        "process-exec",
        {"path": "/x", "setugid": "maybe"},
        "the resource key 'setugid' is true or false, not 'maybe'",
    ),
    "no address": (
        "network-outbound",
        {"remote": "a b:80"},
        "the resource key 'remote': 'a b:80' is no network address",
    ),
    "no port": (
        "network-outbound",
        {"remote": "1.1.1.1:99999"},
        "the resource key 'remote': port 99999 is none",
    ),
    "no text": ("file-read-data", {"path": {"a": 1}}, "the resource key 'path' needs text, not dict"),
}


@pytest.mark.parametrize(("operation", "resource", "message"), REFUSED.values(), ids=REFUSED)
def test_refuses_questions_without_sense(operation: str, resource: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        Evaluator(compile_profile("(version 1)(deny default)")).decide(operation, resource)
    assert str(caught.value) == message


# The same rules, decided by the definition, without the tables, automata and classes of the code under test.

PARENTS = {
    "file-read-data": "file-read*",
    "file-read-metadata": "file-read*",
    "file-write-unlink": "file-write*",
    "file-read*": "file*",
    "file-write*": "file*",
    "file*": "default",
    "default": None,
}
NAMES = ("a", "b", "ab", "Users")


def sample_paths() -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(NAMES), max_size=4).map(lambda parts: "/" + "/".join(parts))


def filters() -> st.SearchStrategy[tuple[Any, ...]]:
    leaf = st.one_of(
        st.tuples(st.sampled_from(["literal", "subpath", "prefix"]), sample_paths()),
        st.tuples(
            st.just("regex"), st.sampled_from(["^/a", "b$", "^/a/[^/]*$", "(a|b)+/Users", "^/(.*/)?ab(/|$)"])
        ),
        st.tuples(st.just("extension"), st.sampled_from(["x", "y"])),
    )
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.tuples(
                st.sampled_from(["require-all", "require-any"]), st.lists(inner, min_size=1, max_size=3)
            ),
            st.tuples(st.just("require-not"), inner),
        ),
        max_leaves=4,
    )


def spelled(tested: tuple[Any, ...]) -> str:
    kind, value = tested
    if kind in ("require-all", "require-any"):
        return f"({kind} {' '.join(map(spelled, value))})"
    return f"(require-not {spelled(value)})" if kind == "require-not" else f'({kind} "{value}")'


def holds(tested: tuple[Any, ...], path: str, extension: str | None) -> bool:
    kind, value = tested
    match kind:
        case "require-all":
            return all(holds(part, path, extension) for part in value)
        case "require-any":
            return any(holds(part, path, extension) for part in value)
        case "require-not":
            return not holds(value, path, extension)
        case "literal":
            return bool(path == value)
        case "subpath":
            return path == value or path.startswith(value.rstrip("/") + "/")
        case "prefix":
            return path.startswith(value)
        case "regex":
            return re.search(value.replace("$", r"\Z"), path) is not None
        case _:
            return bool(extension == value)


Rules = list[tuple[str, list[str], list[tuple[Any, ...]]]]


def by_definition(rules: Rules, operation: str, path: str, extension: str | None) -> tuple[str, int | None]:
    step: str | None = operation
    while step is not None:
        named = [(number, rule) for number, rule in enumerate(rules) if step in rule[1]]
        for number, (action, _, tested) in reversed(named):
            if tested and any(holds(part, path, extension) for part in tested):
                return action, number
        for number, (action, _, tested) in reversed(named):
            if not tested:
                return action, number
        step = PARENTS[step]
    return "deny", None


some_rules: st.SearchStrategy[Rules] = st.lists(
    st.tuples(
        st.sampled_from(["allow", "deny"]),
        st.lists(st.sampled_from(list(PARENTS)), min_size=1, max_size=2, unique=True),
        st.lists(filters(), max_size=3),
    ),
    max_size=12,
)


@settings(max_examples=examples(150), deadline=None)
@given(
    some_rules, st.lists(st.tuples(sample_paths(), st.sampled_from([None, "x", "y"])), min_size=1, max_size=5)
)
def test_tables_agree_with_the_definition(rules: Rules, questions: list[tuple[str, str | None]]) -> None:
    text = "(version 1)\n" + "\n".join(
        f"({action} {' '.join(operations)} {' '.join(map(spelled, tested))})"
        for action, operations, tested in rules
    )
    evaluator = Evaluator(compile_profile(text))
    for path, extension in questions:
        for operation in ("file-read-data", "file-read-metadata", "file-write-unlink", "file*"):
            resource = {"path": path} | ({"extension": extension} if extension else {})
            found = evaluator.decide(operation, resource)
            number = None if found.rule is None else found.rule.ordinal
            assert (found.decision, number) == by_definition(rules, operation, path, extension)


def test_forgetting_what_was_walked_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = [f'(allow file-read* (subpath "/a/{n}") (regex #"^/b/{n}/.*x$"))' for n in range(20)]
    profile = compile_profile("(version 1)\n" + "\n".join(rules))
    monkeypatch.setattr(index, "MAX_STEPS", 7)
    evaluator = Evaluator(profile)
    for _ in range(3):
        for n in range(30):
            below = evaluator.decide("file-read-data", {"path": f"/a/{n}/c/d"})
            matched = evaluator.decide("file-read-data", {"path": f"/b/{n}/c/x"})
            beside = evaluator.decide("file-read-data", {"path": f"/b/{n}/c/y"})
            assert [below.allowed, matched.allowed, beside.allowed] == [n < 20, n < 20, False]
