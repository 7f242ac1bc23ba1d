"""The support of methods for policies: the table is complete, and the error for an unsupported feature names
it.

Tests of methods/<name>/support.py: each feature of each method.
Tests of policy/names.py: features.
Tests of policy/uses.py: a feature that a method can't enforce is refused (check_expressible).
"""

# A row of a table is a line, however long.
# ruff: noqa: E501

from __future__ import annotations

from dataclasses import replace

import pytest

from sandwright.api import Policy
from sandwright.errors import RenderError, UsageError
from sandwright.methods import METHODS, registry
from sandwright.policy.declaration import Declaration, Support
from sandwright.policy.facts import HostEntry, HostFacts
from sandwright.policy.names import FEATURES
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.uses import check_expressible, uses

DECLARATIONS = {name: registry.declaration(name).support for name in METHODS}

DIRECTORY = HostEntry("directory")
FACTS = HostFacts(
    os="linux",
    home="/home/u",
    project="/home/u/p",
    entries={
        **dict.fromkeys(("/", "/home", "/home/u", "/home/u/p", "/home/u/p/there", "/srv"), DIRECTORY),
        "/home/u/p/link": HostEntry("symlink", "/srv/gone"),
    },
)


def _resolve(text: str) -> ResolvedPolicy:
    return Policy.from_text(text).resolve(FACTS)


def test_every_method_declares_every_feature() -> None:
    assert set(DECLARATIONS) == set(METHODS)
    for method, features in DECLARATIONS.items():
        assert set(features) == set(FEATURES), method


@pytest.mark.parametrize("method", METHODS)
def test_whatever_is_not_exact_has_a_reason(method: str) -> None:
    for feature, support in DECLARATIONS[method].items():
        assert support.level == "exact" or support.reason, feature


@pytest.mark.parametrize(
    ("feature", "method", "level"),
    [
        ("filesystem.read-all", "bwrap", "exact"),
        ("filesystem.read-all", "docker", "stricter"),
        ("filesystem.absent", "bwrap", "exact"),
        ("filesystem.absent-elsewhere", "bwrap", "cannot"),
        ("filesystem.protect-elsewhere", "docker", "partly"),
        ("filesystem.absent", "seatbelt", "exact"),
        ("network.localhost", "seatbelt", "exact"),
        ("network.later-sockets", "docker", "partly"),
        ("network.later-sockets", "bwrap", "exact"),
        ("network.other-later-sockets", "bwrap", "exact"),
        ("network.abstract-sockets", "bwrap", "exact"),
        ("network.abstract-sockets", "oci", "cannot"),
        ("network.abstract-sockets", "docker", "cannot"),
        ("network.abstract-sockets", "podman", "cannot"),
        ("network.abstract-sockets", "user", "cannot"),
        ("network.abstract-sockets", "gvisor", "exact"),
        ("process.seccomp", "seatbelt", "unused"),
        ("filesystem.tmp-shared", "seatbelt", "stricter"),
        ("filesystem.tmp-shared", "bwrap", "exact"),
        ("resources.time", "seatbelt", "cannot"),
        ("resources.time", "bwrap", "exact"),
        ("process.sandbox-root", "kubernetes", "stricter"),
        ("resources.memory", "bwrap", "partly"),
        ("resources.memory", "podman", "exact"),
        ("macos", "docker", "unused"),
        ("network.none", "noop", "cannot"),
        ("filesystem.deny", "landlock", "exact"),
        ("filesystem.deny-inside", "landlock", "cannot"),
        ("filesystem.deny-inside", "bwrap", "exact"),
        ("filesystem.attributes", "landlock", "cannot"),
        ("filesystem.attributes", "bwrap", "exact"),
    ],
)
def test_some_cells(feature: str, method: str, level: str) -> None:
    assert DECLARATIONS[method][feature].level == level


@pytest.mark.parametrize(
    ("text", "features"),
    [
        ("extends: []", {"filesystem.read", "filesystem.protect", "filesystem.tmp-private", "network.none", "network.no-sockets", "process.unprivileged", "process.seccomp", "environment.pass", "image"}),
        ("", {"filesystem.read-all", "filesystem.write", "filesystem.deny", "macos"}),
        ("filesystem: {readonly: [/srv]}", {"filesystem.readonly"}),
        ("filesystem: {readonly: [/srv/new]}", {"filesystem.readonly"}),
        ("filesystem: {deny: [$PROJECT/there]}", {"filesystem.deny", "filesystem.deny-inside"}),
        ("filesystem: {deny: [$PROJECT/new]}", {"filesystem.deny", "filesystem.deny-inside", "filesystem.absent"}),
        ("filesystem: {readonly: [$PROJECT/new/er]}", {"filesystem.readonly", "filesystem.absent"}),
        ("filesystem: {write: [/srv], readonly: [/srv/new]}", {"filesystem.readonly", "filesystem.absent-elsewhere", "filesystem.protect-elsewhere"}),
        ("filesystem: {write: [/srv]}", {"filesystem.protect-elsewhere"}),
        ("filesystem: {deny: [$PROJECT/link]}", {"filesystem.deny", "filesystem.links"}),
        ("filesystem: {home: private}", {"filesystem.home"}),
        ("mcp: {tools: []}", {"mcp.tools"}),
        ("filesystem: {home: throwaway}", {"filesystem.home"}),
        ("filesystem: {tmp: shared}", {"filesystem.tmp-shared"}),
        ("network: {mode: proxy}", {"network.proxy", "network.ca"}),
        ("network: {mode: proxy, allow: [{host: a.example, private: true}]}", {"network.proxy", "network.ca", "network.private"}),
        ("network: {mode: none, allow: [{host: a.example, private: true}]}", set()),
        ("network: {mode: host}", {"network.host", "network.ca"}),
        ("network: {mode: host, ca: image}", {"network.host"}),
        ("network: {unix_sockets: [/srv/s]}", {"network.unix-sockets", "network.other-sockets", "network.other-later-sockets"}),
        ("extends: []\nnetwork: {unix_sockets: [/srv/s]}", {"network.unix-sockets", "network.other-later-sockets"}),
        ("extends: []\nnetwork: {mode: proxy, unix_sockets: [/srv/s]}", {"network.proxy", "network.ca", "network.unix-sockets", "network.other-later-sockets"}),
        ("extends: []\nnetwork: {mode: host, unix_sockets: [/srv/s]}", {"network.host", "network.ca", "network.unix-sockets", "network.other-later-sockets", "network.abstract-sockets"}),
        ("network: {own_sockets: false}", {"network.no-own-sockets"}),
        ("network: {localhost: [80]}", {"network.localhost"}),
        ("network: {expose: [80]}", {"network.expose"}),
        ("process: {sandbox_root: true}", {"process.sandbox-root"}),
        ("environment: {set: {A: b}}", {"environment.set"}),
        ("environment: {set: {A: null}}", set()),
        ("credentials: {cloud: readonly}", {"credentials.cloud"}),
        ("credentials: {shims: {gh: {allow: []}}}", {"credentials.shims"}),
        ("credentials: {signing: [~/.ssh/id.pub]}", {"credentials.shims"}),
        ("credentials: {signing: []}", set()),
        ("workspace: review", {"workspace"}),
        ("workspace: live", set()),
        ("user: {mapping: required}", {"user.mapping"}),
        ("user: {mapping: off}", set()),
        ("gvisor: {engine: podman}", {"gvisor.engine"}),
        ("gvisor: {engine: none}", set()),
        ("resources: {memory: 1GiB, cpus: 1, pids: 9, files: 9, time: 1m}", {"resources.memory", "resources.cpus", "resources.pids", "resources.files", "resources.time"}),
        ("resources: {memory: unlimited}", set()),
    ],
)  # fmt: skip
def test_which_features_a_policy_uses(text: str, features: set[str]) -> None:
    found = {use.feature for use in uses(_resolve(text))}
    assert features <= found
    optional = (
        set(FEATURES)
        - {use.feature for use in uses(_resolve("extends: []"))}
        - {use.feature for use in uses(_resolve(""))}
    )
    assert found & optional == features & optional


def test_every_feature_is_used_by_some_policy() -> None:
    texts = [
        "extends: []",
        "filesystem: {write: [$PROJECT, /srv], readonly: [/srv/new], deny: [$PROJECT/new, $PROJECT/link], tmp: shared}\nnetwork: {mode: proxy, allow: [{host: a.example, private: true}], unix_sockets: [/srv/s], localhost: [80], expose: [81]}\nprocess: {sandbox_root: true}\n"
        "environment: {set: {A: b}}\ncredentials: {cloud: readonly, shims: {gh: {allow: []}}}\nuser: {mapping: required}\nworkspace: review\nresources: {memory: 1GiB, cpus: 1, pids: 9, files: 9, time: 1m}\ngvisor: {engine: docker}",
        "network: {mode: host, unix_sockets: [/srv/s]}",
        "network: {mode: proxy, http: [{host: a.example}]}\n"
        "credentials: {http: [{host: a.example, header: x-api-key, from: 'env:A'}]}",
        "network: {own_sockets: false}",
        "filesystem: {home: private}",
        "mcp: {tools: []}",
    ]  # fmt: skip
    found = {use.feature for text in texts for use in uses(_resolve(text))}
    repository = replace(FACTS, git_directories=(f"{FACTS.project}/.git",))
    found |= {use.feature for use in uses(Policy.from_text("").resolve(repository))}
    assert found == set(FEATURES) - {"process.root"}


def test_a_git_directory_is_used_where_it_may_be_written() -> None:
    project = FACTS.project
    with_git = replace(FACTS, git_directories=(f"{project}/.git",))
    for text, used in (("", True), ("filesystem: {readonly: [$PROJECT/.git]}", False)):
        features = {use.feature for use in uses(Policy.from_text(text).resolve(with_git))}
        assert ("filesystem.git-links" in features) is used


def test_who_runs_it_decides_what_is_said_of_root() -> None:
    policy = Policy.from_text("extends: []").resolve(replace(FACTS, uid=0))
    found = [
        each
        for each in check_expressible(policy, registry.declaration("docker"))
        if each.use.feature == "process.root"
    ]
    assert [each.reason for each in found] == ["the command has UID 0 of the host, without capabilities"]
    assert "process.root" not in {
        each.use.feature for each in check_expressible(policy, registry.declaration("oci"))
    }
    assert "process.root" not in {each.feature for each in uses(_resolve("extends: []"))}


@pytest.mark.parametrize(
    ("text", "method", "refused"),
    [
        (
            "filesystem: {write: [/srv], deny: [/srv/new]}",
            "bwrap",
            "bwrap cannot enforce filesystem.absent-elsewhere (deny /srv/new, project sandbox.yaml:1:36): a mount needs an existing path, and placeholders are created only in the project",
        ),
        (
            "resources: {memory: 1GiB}",
            "seatbelt",
            "seatbelt cannot enforce resources.memory (memory, project sandbox.yaml:1:21): macOS has no limits for groups of processes",
        ),
        (
            "network: {unix_sockets: [/srv/s]}",
            "user",
            "user cannot enforce network.other-sockets (unix_sockets, project sandbox.yaml:1:25): seccomp cannot distinguish sockets by path, and programs can connect to readable sockets",
        ),
    ],
)
def test_what_a_method_cannot_do_is_an_error(text: str, method: str, refused: str) -> None:
    with pytest.raises(RenderError) as error:
        check_expressible(_resolve(text), registry.declaration(method))
    assert str(error.value) == (
        f"{refused}\nchoose another method, leave the feature out, or accept the gap: "
        f"accept_gaps: [{{feature: …, method: {method}, reason: …}}]"
    )


@pytest.mark.parametrize("method", ["oci", "docker", "podman", "user"])
def test_a_listed_socket_in_the_hosts_network_is_refused(method: str) -> None:
    """It would open all abstract sockets of the host, D-Bus and X11 among them."""
    text = "extends: []\nnetwork: {mode: host, unix_sockets: [/srv/s]}\n"
    with pytest.raises(RenderError, match=f"{method} cannot enforce network.abstract-sockets"):
        check_expressible(_resolve(text), registry.declaration(method))
    check_expressible(_resolve(text.replace("host", "none")), registry.declaration(method))
    for able in ("gvisor", "bwrap"):
        check_expressible(_resolve(text), registry.declaration(able))


def test_all_that_a_method_cannot_do_at_once() -> None:
    with pytest.raises(RenderError) as error:
        check_expressible(_resolve("resources: {memory: 1GiB, cpus: 1}"), registry.declaration("seatbelt"))
    assert [line.split(" (")[0] for line in str(error.value).splitlines()[:-1]] == [
        "seatbelt cannot enforce resources.memory",
        "seatbelt cannot enforce resources.cpus",
    ]


def test_it_can_be_accepted_with_a_reason() -> None:
    text = (
        "filesystem: {write: [$PROJECT, /srv], deny: [/srv/secret]}\n"
        "accept_gaps: [{feature: filesystem.absent-elsewhere, method: bwrap, reason: a trial}]\n"
    )
    (finding,) = (
        each
        for each in check_expressible(_resolve(text), registry.declaration("bwrap"))
        if each.kind == "degraded"
    )
    assert (finding.use.feature, finding.accepted) == ("filesystem.absent-elsewhere", "a trial")
    assert str(finding) == (
        "bwrap: filesystem.absent-elsewhere is degraded: a mount needs an existing path, and placeholders "
        "are created only in the project; accepted: a trial"
    )
    with pytest.raises(RenderError, match=r"oci cannot enforce filesystem\.absent-elsewhere"):
        check_expressible(_resolve(text), registry.declaration("oci"))


def test_what_is_stricter_is_told() -> None:
    findings = check_expressible(
        _resolve("resources: {memory: unlimited, pids: unlimited}"), registry.declaration("docker")
    )
    assert [str(finding) for finding in findings] == [
        "docker: filesystem.read-all is stricter: the root is the image's; paths of the host appear only when they are listed",
        "docker: network.later-sockets holds in part: sockets that listen at the start of a run are hidden; programs inside can create Unix sockets",
        "docker: process.kernel holds in part: which of these paths are masked depends on the version of the engine or of the node's runtime",
    ]


def test_of_the_default_bwrap_leaves_out_limits_and_nothing_else() -> None:
    assert [str(finding) for finding in check_expressible(_resolve(""), registry.declaration("bwrap"))] == [
        "bwrap: resources.memory of the preset is left out: this method applies only limits that the policy itself sets",
        "bwrap: resources.pids of the preset is left out: this method applies only limits that the policy itself sets",
    ]


def test_noop_is_accepted_by_its_own_reason_only() -> None:
    named = _resolve("method: noop\nreason: a machine for this")
    findings = check_expressible(named, registry.declaration("noop"))
    assert {finding.kind for finding in findings} == {"degraded"}
    assert {finding.accepted for finding in findings} == {"a machine for this"}
    assert "network.none" in {finding.use.feature for finding in findings}
    with pytest.raises(RenderError, match=r"noop cannot enforce network\.none"):
        check_expressible(_resolve("method: bwrap"), registry.declaration("noop"))


def test_registered_methods_bring_their_declaration() -> None:
    declared = {feature: Support("exact") for feature in FEATURES if feature != "image"}
    with pytest.raises(RenderError, match=r"jail cannot enforce image .*: jail doesn't declare it"):
        check_expressible(_resolve(""), Declaration("jail", declared))
    whole = Declaration("jail", {**declared, "image": Support("unused", "none")})
    assert check_expressible(_resolve(""), whole) == ()


def test_an_unknown_method() -> None:
    with pytest.raises(UsageError, match="there is no method 'jail'"):
        check_expressible(_resolve(""), registry.declaration("jail"))
