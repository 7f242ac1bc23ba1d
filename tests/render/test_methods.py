"""The table of methods: what can't be said is refused first, and what is declared as supported is live."""

from __future__ import annotations

import functools
from collections.abc import Iterator

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
from sandwright.render.artifact import Artifact
from sandwright.render.rendered import render_with

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
    },
    git_directories=(f"{PROJECT}/.git",),
    sockets=("/run/user/1000/agent",),
)
BASE = "filesystem: {read: [/srv], write: [$PROJECT]}\n"

FLIPS: dict[str, tuple[str, str]] = {
    "filesystem.read": (BASE, "filesystem: {read: [/srv, /tmp], write: [$PROJECT], tmp: shared}"),
    "filesystem.write": (BASE, "filesystem: {read: [/srv], write: [$PROJECT, /srv/data]}"),
    "filesystem.readonly": (BASE, "filesystem: {read: [/srv], write: [$PROJECT], readonly: [$PROJECT/c]}"),
    "filesystem.deny": (BASE, "filesystem: {read: [/srv], write: [$PROJECT], deny: [$PROJECT/b, /srv/data]}"),
    "filesystem.deny-inside": (BASE, "filesystem: {read: [/srv], write: [$PROJECT], deny: [$PROJECT/b]}"),
    "filesystem.protect": (BASE, "filesystem: {read: [/srv], write: [$PROJECT], protect: [c]}"),
    "filesystem.home": (BASE, "filesystem: {read: [/srv], write: [$PROJECT], home: throwaway}"),
    "filesystem.tmp-shared": (BASE, "filesystem: {read: [/srv], write: [$PROJECT], tmp: shared}"),
    "network.host": (BASE, f"{BASE}network: {{mode: host}}"),
    "network.unix-sockets": (BASE, f'{BASE}network: {{unix_sockets: ["${{SOCK}}"]}}'),
    "process.sandbox-root": (BASE, f"{BASE}process: {{sandbox_root: true}}"),
    "process.seccomp": (BASE, f"{BASE}process: {{seccomp: strict}}"),
    "environment.pass": (BASE, f"{BASE}environment: {{pass: [EDITOR]}}"),
    "environment.set": (BASE, f"{BASE}environment: {{set: {{A: b}}}}"),
    "credentials.cloud": (BASE, f"{BASE}credentials: {{cloud: readonly}}"),
    "user.mapping": (BASE, f"{BASE}user: {{mapping: required}}"),
    "resources.memory": (BASE, f"{BASE}resources: {{memory: 3GiB}}"),
    "resources.cpus": (BASE, f"{BASE}resources: {{cpus: 2}}"),
    "resources.pids": (BASE, f"{BASE}resources: {{pids: 100}}"),
    "resources.files": (BASE, f"{BASE}resources: {{files: 100}}"),
    "resources.time": (BASE, f"{BASE}resources: {{time: 30m}}"),
    "image": (BASE, f"{BASE}image: other"),
    "macos": (BASE, f"{BASE}macos: [keychain]"),
}
"""By feature: two policies that differ in one field, the second of which uses it.

Written by hand: a feature without a row here may be declared by a method that renders nothing of it.
"""


@functools.cache  # one policy, and what methods make of it, is the first half of most flips
def _resolve(text: str) -> ResolvedPolicy:
    return Policy.from_text(f"schema: 1\nmethod: bwrap\n{text}").resolve(FACTS)


ALWAYS = {("alcless", each) for each in ("filesystem.tmp-shared", "network.host", "user.mapping")}
"""What a method gives every policy, as it has nothing else: nothing of it is rendered."""


def _flips() -> Iterator[tuple[str, str]]:
    for method in METHODS:
        for feature in FLIPS:
            exact = DECLARATIONS[method][feature].level == "exact" and (method, feature) not in ALWAYS
            if exact and method != "noop":
                yield method, feature


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
    return _contents(_resolve(text), method)


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
    with pytest.raises(RenderError, match=r"bwrap can't enforce filesystem\.absent-elsewhere \("):
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
        with pytest.raises(RenderError, match="a name that it can't have"):
            made(*names)
