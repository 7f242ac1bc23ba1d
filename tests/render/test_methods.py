"""A feature that a method can't enforce is refused first; a feature that it declares changes its artifacts.

`test_supported_features_are_live` fails when a renderer ignores a key of the policy, such as a new one.

Tests of methods/<name>/render.py: a renderer that ignores a feature.
Tests of policy/uses.py.
Tests of render/rendered.py.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sandwright.api import Policy
from sandwright.errors import RenderError, UsageError
from sandwright.methods import METHODS, registry
from sandwright.methods.registry import artifacts, render
from sandwright.policy.declaration import Declaration, Support
from sandwright.policy.facts import HostEntry, HostFacts
from sandwright.policy.names import FEATURES
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.uses import uses
from sandwright.reference.methods import probe_names
from sandwright.render.artifact import Artifact
from sandwright.render.rendered import render_with

TESTS = Path(__file__).resolve().parent.parent
DECLARATIONS = {name: registry.declaration(name).support for name in METHODS}

DIRECTORY, FILE, SOCKET = HostEntry("directory"), HostEntry("file"), HostEntry("socket")
HOME, PROJECT = "/home/u", "/home/u/p"
FACTS = HostFacts(
    os="linux",
    home=HOME,
    project=PROJECT,
    cwd=PROJECT,
    environment={"SOCK": "/run/user/1000/agent"},
    entries={
        **dict.fromkeys(("/", "/home", HOME, PROJECT, f"{PROJECT}/a", f"{PROJECT}/.git", "/srv"), DIRECTORY),
        **dict.fromkeys(("/srv/data", f"{HOME}/.aws", "/tmp", "/run", "/run/user"), DIRECTORY),
        **dict.fromkeys((f"{PROJECT}/b", f"{PROJECT}/.envrc", f"{PROJECT}/c"), FILE),
        "/run/user/1000": DIRECTORY,
        "/run/user/1000/agent": SOCKET,
        f"{PROJECT}/link": HostEntry("symlink", "/srv/data"),
    },
    git_directories=(f"{PROJECT}/.git",),
    sockets=("/run/user/1000/agent",),
)
BASE = "filesystem: {read: [/srv], write: [$PROJECT]}\n"
ELSEWHERE = "filesystem: {read: [/srv], write: [$PROJECT, /srv/data]}\n"


def _network(text: str) -> str:
    return f"{BASE}network: {{{text}}}"


FLIPS: dict[str, tuple[str, str]] = {
    "filesystem.read-all": (BASE, "filesystem: {read: [/], write: [$PROJECT]}"),
    "filesystem.read": (BASE, "filesystem: {read: [/srv, /tmp], write: [$PROJECT], tmp: shared}"),
    "filesystem.write": (BASE, ELSEWHERE),
    "filesystem.readonly": (BASE, "filesystem: {read: [/srv], write: [$PROJECT], readonly: [$PROJECT/c]}"),
    "filesystem.deny": (BASE, "filesystem: {read: [/srv], write: [$PROJECT], deny: [$PROJECT/b, /srv/data]}"),
    "filesystem.deny-inside": (BASE, "filesystem: {read: [/srv], write: [$PROJECT], deny: [$PROJECT/b]}"),
    "filesystem.absent": (BASE, "filesystem: {read: [/srv], write: [$PROJECT], readonly: [$PROJECT/later]}"),
    "filesystem.absent-elsewhere": (ELSEWHERE, ELSEWHERE.replace("}", ", deny: [/srv/data/later]}")),
    "filesystem.protect": (BASE, "filesystem: {read: [/srv], write: [$PROJECT], protect: [c]}"),
    "filesystem.protect-elsewhere": (ELSEWHERE, ELSEWHERE.replace("}", ", protect: [later]}")),
    "filesystem.links": (BASE, "filesystem: {read: [/srv], write: [$PROJECT], deny: [$PROJECT/link]}"),
    "filesystem.home": (BASE, "filesystem: {read: [/srv], write: [$PROJECT], home: throwaway}"),
    "filesystem.tmp-private": ("filesystem: {read: [/srv], write: [$PROJECT], tmp: shared}", BASE),
    "filesystem.tmp-shared": (BASE, "filesystem: {read: [/srv], write: [$PROJECT], tmp: shared}"),
    "network.none": (_network("mode: host"), BASE),
    "network.proxy": (BASE, _network("mode: proxy, allow: [example.com]")),
    "network.host": (BASE, _network("mode: host")),
    "network.unix-sockets": (BASE, _network('unix_sockets: ["${SOCK}"]')),
    "network.no-sockets": (_network('unix_sockets: ["${SOCK}"]'), BASE),
    "network.own-sockets": (_network("own_sockets: false"), _network("own_sockets: true")),
    "network.no-own-sockets": (_network("own_sockets: true"), _network("own_sockets: false")),
    "network.localhost": (BASE, _network("localhost: [5432]")),
    "network.expose": (BASE, _network("expose: [8080]")),
    "network.ca": (_network("mode: host, ca: image"), _network("mode: host, ca: host")),
    "process.unprivileged": (f"{BASE}process: {{sandbox_root: true}}", BASE),
    "process.sandbox-root": (BASE, f"{BASE}process: {{sandbox_root: true}}"),
    "process.seccomp": (BASE, f"{BASE}process: {{seccomp: strict}}"),
    "mcp.tools": (BASE, f"{BASE}mcp: {{tools: [a]}}"),
    "environment.pass": (BASE, f"{BASE}environment: {{pass: [EDITOR]}}"),
    "environment.set": (BASE, f"{BASE}environment: {{set: {{A: b}}}}"),
    "credentials.cloud": (BASE, f"{BASE}credentials: {{cloud: readonly}}"),
    "credentials.shims": (BASE, f"{BASE}credentials: {{shims: {{git: {{allow: [status]}}}}}}"),
    "workspace": (BASE, f"{BASE}workspace: review"),
    "user.mapping": (BASE, f"{BASE}user: {{mapping: required}}"),
    "resources.memory": (BASE, f"{BASE}resources: {{memory: 3GiB}}"),
    "resources.cpus": (BASE, f"{BASE}resources: {{cpus: 2}}"),
    "resources.pids": (BASE, f"{BASE}resources: {{pids: 100}}"),
    "resources.files": (BASE, f"{BASE}resources: {{files: 100}}"),
    "resources.time": (BASE, f"{BASE}resources: {{time: 30m}}"),
    "image": (BASE, f"{BASE}image: other"),
    "gvisor.engine": (BASE, f"{BASE}gvisor: {{engine: docker}}"),
    "macos": (BASE, f"{BASE}macos: [keychain]"),
}
"""By feature: two policies that differ in one field, the second of which uses it. Written by hand.

A method that declares a feature `exact`, but whose renderer ignores the key, has the same artifacts for both.
A feature without a row is in `HELD_OTHERWISE`.
"""

HELD_OTHERWISE = {
    "filesystem.attributes": ("files/read-only", "every policy uses it, and has no key for it"),
    "filesystem.git-links": ("links/git", "a writable Git directory uses it: that changes more than this"),
    "network.private": (
        "tests/egress/test_rules.py:test_one_private_address_among_others_is_enough",
        "it is in squid's configuration, which is an artifact of the engines' methods only",
    ),
    "network.http": (
        "tests/egress/test_inspection.py:test_no_such_request_passes",
        "it is in haproxy's configuration, which a session renders",
    ),
    "credentials.http": (
        "tests/session/test_http.py:test_the_key_arrives_and_is_not_inside",
        "a session gives the proxy its secrets",
    ),
    "network.other-sockets": ("network/unix-socket", "it comes with a listed socket, and has no key"),
    "network.later-sockets": ("network/later-socket", "every policy without a listed socket uses it"),
    "network.other-later-sockets": (
        "tests/evaluate/test_explain_methods.py:test_sockets_that_appear_later",
        "it comes with a listed socket, and has no key",
    ),
    "network.abstract-sockets": (
        "tests/session/test_abstract_sockets.py:test_the_launcher_connects_to_the_listed_one_alone",
        "it comes with a listed socket and the host's network, and has no key",
    ),
    "process.root": ("processes/root", "the caller decides it, not the policy"),
    "process.kernel": ("processes/kernel-hidden", "every policy uses it, and has no key for it"),
}
"""By feature that no pair of policies can show: the probe or test for it, and the reason."""


@functools.cache  # one policy, with its renderings, is the first half of most flips
def _resolve(text: str, system: str = "") -> ResolvedPolicy:
    facts = replace(FACTS, os="darwin") if system == "darwin" else FACTS
    return Policy.from_text(f"schema: 1\nmethod: bwrap\n{text}").resolve(facts)


ALWAYS = {
    ("alcless", "filesystem.absent-elsewhere"),
    ("alcless", "filesystem.tmp-shared"),
    ("alcless", "network.host"),
    ("alcless", "network.own-sockets"),
    ("alcless", "user.mapping"),
    ("kubernetes", "filesystem.absent-elsewhere"),
    ("kubernetes", "filesystem.tmp-private"),
    ("kubernetes", "network.no-sockets"),
    *((each, "network.ca") for each in ("bwrap", "seatbelt", "user", "alcless", "landlock", "vm")),
    *((each, "process.unprivileged") for each in ("seatbelt", "kubernetes", "user", "landlock")),
    ("user", "network.no-own-sockets"),
}
"""The features that a method gives every policy, because it has no alternative: they are not rendered.

`network.ca`: the host's files are the sandbox's. The others: the method can't do the opposite.
"""


def _flips() -> Iterator[tuple[str, str]]:
    for method in METHODS:
        for feature in FLIPS:
            exact = DECLARATIONS[method][feature].level == "exact" and (method, feature) not in ALWAYS
            if exact and method != "noop":
                yield method, feature


def test_each_feature_is_flipped_or_held_otherwise() -> None:
    assert sorted([*FLIPS, *HELD_OTHERWISE]) == sorted(FEATURES)


@pytest.mark.parametrize(("held", "reason"), HELD_OTHERWISE.values(), ids=HELD_OTHERWISE)
def test_what_holds_a_feature_otherwise_exists(held: str, reason: str) -> None:
    path, _, name = held.partition(":")
    exists = f"def {name}(" in (TESTS.parent / path).read_text() if name else held in probe_names("bwrap")
    assert exists
    assert reason


def test_methods_that_always_give_a_feature_declare_it() -> None:
    assert {DECLARATIONS[method][feature].level for method, feature in ALWAYS} == {"exact"}
    assert ALWAYS.isdisjoint((method, feature) for method, feature in _flips())


@pytest.mark.parametrize("feature", FLIPS)
def test_flips_use_their_feature(feature: str) -> None:
    before, after = (_resolve(text) for text in FLIPS[feature])
    assert feature in {use.feature for use in uses(after)}
    assert uses(before) != uses(after) or before != after


@pytest.mark.parametrize(("method", "feature"), list(_flips()))
def test_supported_features_are_live(method: str, feature: str) -> None:
    before, after = (_made(text, method) for text in FLIPS[feature])
    assert before != after


@functools.cache
def _made(text: str, method: str) -> dict[str, bytes]:
    return _contents(_resolve(text, registry.properties(method).system), method)


def _contents(policy: ResolvedPolicy, method: str) -> dict[str, bytes]:
    return {each.name: each.content for each in artifacts(policy, method)}


@pytest.mark.parametrize("method", METHODS)
def test_rendering_is_repeatable(method: str) -> None:
    text = f"{BASE}environment: {{set: {{B: b, A: a}}}}\n"
    again = _resolve.__wrapped__(text)
    assert _contents(_resolve(text), method) == _contents(again, method)


@pytest.mark.parametrize("method", METHODS)
def test_a_launcher_is_executable_and_plain_files_are_not(method: str) -> None:
    for each in artifacts(_resolve(BASE), method):
        assert each.executable is (each.content[:2] == b"#!" or each.content[:4] == b"\x7fELF"), each.name
        assert each.purpose


def test_what_cannot_be_enforced_is_refused_first() -> None:
    text = "filesystem: {write: [$PROJECT, /srv/data], deny: [/srv/data/secret]}\n"
    with pytest.raises(RenderError, match=r"bwrap cannot enforce filesystem\.absent-elsewhere \("):
        render(_resolve(text), "bwrap")
    accepted = "accept_gaps: [{feature: filesystem.absent-elsewhere, method: bwrap, reason: a trial}]\n"
    rendered = render(_resolve(text + accepted), "bwrap")
    (degraded,) = (str(each) for each in rendered.findings if each.kind == "degraded")
    assert degraded.startswith(
        "bwrap: filesystem.absent-elsewhere is degraded: a mount needs an existing path"
    )
    assert degraded.endswith("; accepted: a trial")


def test_an_unknown_method_is_named() -> None:
    with pytest.raises(UsageError, match="there is no method 'nonsense'"):
        render(_resolve(BASE), "nonsense")


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../x", "a/../b", "a//b", "."])
def test_artifacts_stay_in_their_directory(name: str) -> None:
    free = Declaration("mine", dict.fromkeys(FEATURES, Support("exact")))

    def made(*names: str) -> tuple[Artifact, ...]:
        content = tuple(Artifact(each, b"", "a test's") for each in names)
        return render_with(_resolve(BASE), free, lambda _: content).artifacts

    assert [each.name for each in made("a/b", "c")] == ["a/b", "c"]
    for names in ((name,), ("a", "a")):
        with pytest.raises(RenderError, match="a name that it cannot have"):
            made(*names)
