"""The merge of layers: the truth table of absent, empty and filled for each field, and the order.

Tests of policy/layers.py.
Tests of policy/merged.py: the order of layers.
Tests of policy/model.py.
"""

# A row of a table is a line, however long.
# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any

import pytest

from sandwright.api import Policy
from sandwright.documents.model import keys, options
from sandwright.errors import DocumentError
from sandwright.policy import load
from sandwright.policy.facts import HostFacts
from sandwright.policy.layers import FIELDS, merged
from sandwright.policy.model import PolicyFile
from sandwright.policy.resolved import ResolvedPolicy

FACTS = HostFacts(os="linux", home="/home/u", project="/home/u/p")


def test_the_items_of_a_layer_get_their_places_once() -> None:
    """A run merges the same presets for the policy and for the policy that it is compared with."""
    layers = [load.built_in(), *load.presets(("default",))]
    first, second = merged(layers), merged([*layers, load.layer("filesystem:\n  deny: [/x]\n")])
    for name, items in first.lists.items():
        assert all(a is b for a, b in zip(items, second.lists[name], strict=False))
    assert [
        each.value for each in second.items("filesystem.deny")[len(first.items("filesystem.deny")) :]
    ] == ["/x"]


def _resolved(**texts: str) -> ResolvedPolicy:
    """A policy whose layers contain these texts, on top of the built-in layer only."""
    texts["user"] = "extends: []\n" + texts.get("user", "")
    layers = [load.layer(text, kind=kind, file=f"{kind}.yaml") for kind, text in texts.items()]  # type: ignore[arg-type]
    return Policy.from_layers(layers).resolve(FACTS)


def _paths(policy: ResolvedPolicy, kind: str) -> list[str]:
    return [rule.path for rule in policy.filesystem.rules if rule.kind == kind and rule.origin == "listed"]


def _view(policy: ResolvedPolicy) -> Mapping[str, Any]:
    """The settings of a resolved policy, field by field, in plain values."""
    protected = [name.value for each in policy.filesystem.protections for name in each.names]
    return {
        "method": list(policy.methods),
        "methods": list(policy.methods),
        "filesystem.read": _paths(policy, "read"),
        "filesystem.write": _paths(policy, "write"),
        "filesystem.readonly": _paths(policy, "readonly"),
        "filesystem.deny": _paths(policy, "deny"),
        "filesystem.protect": [name for name in protected if name not in ("sandbox.yaml", ".sandbox")],
        "filesystem.unprotect": [each.path for each in policy.filesystem.unprotected],
        "filesystem.git": [item.value for item in policy.settings.items("filesystem.git")],
        "filesystem.placeholders": policy.filesystem.placeholders,
        "filesystem.home": policy.filesystem.home,
        "filesystem.tmp": policy.filesystem.tmp,
        "network.mode": policy.network.mode,
        "network.allow": [str(pattern) for pattern in policy.network.allow],
        "network.unix_sockets": list(policy.network.unix_sockets),
        "network.own_sockets": policy.network.own_sockets,
        "network.localhost": list(policy.network.localhost),
        "network.expose": list(policy.network.expose),
        "network.ca": policy.network.ca,
        "process.sandbox_root": policy.process.sandbox_root,
        "process.seccomp": policy.process.seccomp,
        "cache": [item.value for item in policy.settings.items("cache")],
        "mcp.tools": list(policy.mcp_tools or ()),
        "macos": list(policy.macos),
        "environment.pass": list(policy.environment.passed),
        "environment.set": dict(policy.environment.set),
        "credentials.cloud": policy.credentials.cloud,
        "credentials.shims": sorted(policy.credentials.shims),
        "credentials.signing": list(policy.credentials.signing),
        "workspace": policy.workspace,
        "user.mapping": policy.mapping,
        "resources.memory": policy.resources.memory,
        "resources.cpus": policy.resources.cpus,
        "resources.pids": policy.resources.pids,
        "resources.files": policy.resources.files,
        "resources.time": policy.resources.time,
        "image": policy.image,
        "gvisor.engine": policy.gvisor_engine,
        "accept_gaps": [each.feature for each in policy.accept_gaps],
    }


VALUES = [
    # field, without any, one text and its meaning, another text and its meaning
    ("method", [], "method: bwrap", ["bwrap"], "method: docker", ["docker"]),
    ("methods", [], "methods: [bwrap]", ["bwrap"], "methods: [gvisor, docker]", ["gvisor", "docker"]),
    ("filesystem.placeholders", True, "filesystem: {placeholders: false}", False, "filesystem: {placeholders: true}", True),
    ("filesystem.home", "host", "filesystem: {home: private}", "private", "filesystem: {home: throwaway}", "throwaway"),
    ("filesystem.tmp", "private", "filesystem: {tmp: shared}", "shared", "filesystem: {tmp: private}", "private"),
    ("network.mode", "none", "network: {mode: host}", "host", "network: {mode: proxy}", "proxy"),
    ("network.ca", "host", "network: {ca: image}", "image", "network: {ca: host}", "host"),
    ("network.own_sockets", True, "network: {own_sockets: false}", False, "network: {own_sockets: true}", True),
    ("process.sandbox_root", False, "process: {sandbox_root: true}", True, "process: {sandbox_root: false}", False),
    ("process.seccomp", "default", "process: {seccomp: build}", "build", "process: {seccomp: $HOME/p.json}", "/home/u/p.json"),
    ("credentials.cloud", "none", "credentials: {cloud: readonly}", "readonly", "credentials: {cloud: none}", "none"),
    ("workspace", "live", "workspace: review", "review", "workspace: live", "live"),
    ("user.mapping", "auto", "user: {mapping: required}", "required", "user: {mapping: off}", "off"),
    ("resources.memory", None, "resources: {memory: 1KiB}", 1024, "resources: {memory: unlimited}", None),
    ("resources.cpus", None, "resources: {cpus: 1.5}", 1.5, "resources: {cpus: 4}", 4),
    ("resources.pids", None, "resources: {pids: 10}", 10, "resources: {pids: unlimited}", None),
    ("resources.files", None, "resources: {files: 10}", 10, "resources: {files: 20}", 20),
    ("resources.time", None, "resources: {time: 1m}", 60, "resources: {time: 2m}", 120),
    ("image", "debian", "image: alpine", "alpine", "image: distroless", "distroless"),
    ("gvisor.engine", "none", "gvisor: {engine: docker}", "docker", "gvisor: {engine: podman}", "podman"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "none", "low", "low_value", "high", "high_value"), VALUES, ids=[v[0] for v in VALUES]
)
def test_values(
    *, name: str, none: object, low: str, low_value: object, high: str, high_value: object
) -> None:
    assert _view(_resolved())[name] == none
    assert _view(_resolved(user=low))[name] == low_value
    assert _view(_resolved(user=low, project=""))[name] == low_value, "absent: as below"
    assert _view(_resolved(user=low, project=high))[name] == high_value, "later wins"
    assert _view(_resolved(project=high, run=low))[name] == low_value, "a run is later than the project"


GRANTS = [
    ("filesystem.read", "filesystem: {read: %s}", "/a", "/b", "/a", "/b"),
    ("filesystem.write", "filesystem: {write: %s}", "/a", "/b", "/a", "/b"),
    ("network.allow", "network: {allow: %s}", "a.example", "b.example", "a.example", "b.example"),
    ("network.unix_sockets", "network: {unix_sockets: %s}", "/a.sock", "/b.sock", "/a.sock", "/b.sock"),
    ("network.localhost", "network: {localhost: %s}", "80", "81", 80, 81),
    ("network.expose", "network: {expose: %s}", "80", "81", 80, 81),
    ("filesystem.git", "filesystem: {git: %s}", "worktree", "config", "worktree", "config"),
    ("cache", "cache: %s", "pip", "npm", "pip", "npm"),
    ("mcp.tools", "mcp: {tools: %s}", "a", "b", "a", "b"),
    ("macos", "macos: %s", "pty", "dns", "pty", "dns"),
    ("environment.pass", "environment: {pass: %s}", "A", "B", "A", "B"),
    ("credentials.signing", "credentials: {signing: %s}", "/a.pub", "/b.pub", "/a.pub", "/b.pub"),
]


@pytest.mark.parametrize(("name", "text", "a", "b", "a_value", "b_value"), GRANTS, ids=[g[0] for g in GRANTS])
def test_grants(*, name: str, text: str, a: str, b: str, a_value: object, b_value: object) -> None:
    low = text % f"[{a}]"
    assert _view(_resolved())[name] == []
    assert _view(_resolved(user=low, project=""))[name] == [a_value], "absent: as below"
    assert _view(_resolved(user=low, project=text % "[]"))[name] == [], "empty: nothing"
    assert _view(_resolved(user=low, project=text % f"[{b}]"))[name] == [b_value], "filled: these alone"
    assert _view(_resolved(user=low, project=text % f"[{b}, ...]"))[name] in (
        [b_value, a_value],
        [a_value, b_value],
    ), "...: those below too"
    assert _view(_resolved(user=low, project=text % f"[{a}, {a}]"))[name] in ([a_value], [a_value] * 2)


RESTRICTIONS = [
    ("filesystem.readonly", "filesystem: {readonly: %s}", "/a", "/b"),
    ("filesystem.deny", "filesystem: {deny: %s}", "/a", "/b"),
    ("filesystem.protect", "filesystem: {protect: %s}", "a", "b"),
    ("filesystem.unprotect", "filesystem: {unprotect: %s}", "/a", "/b"),
]


@pytest.mark.parametrize(("name", "text", "a", "b"), RESTRICTIONS, ids=[r[0] for r in RESTRICTIONS])
def test_restrictions(name: str, text: str, a: str, b: str) -> None:
    item = "{path: %s, reason: because}" if name.endswith("unprotect") else "%s"
    low = text % f"[{item % a}]"
    assert _view(_resolved())[name] == []
    assert _view(_resolved(user=low, project=""))[name] == [a], "absent: as below"
    assert _view(_resolved(user=low, project=text % "[]"))[name] == [a], "empty: as below"
    assert sorted(_view(_resolved(user=low, project=text % f"[{item % b}]"))[name]) == [a, b], (
        "filled: these too"
    )


def test_degrade_is_a_grant() -> None:
    text = "accept_gaps: [{feature: %s, method: bwrap, reason: because}]"
    low = text % "filesystem.absent"
    assert _view(_resolved(user=low))["accept_gaps"] == ["filesystem.absent"]
    assert _view(_resolved(user=low, project="accept_gaps: []"))["accept_gaps"] == []
    assert _view(_resolved(user=low, project=text % "resources.cpus"))["accept_gaps"] == ["resources.cpus"]


def test_variables_come_together_by_name() -> None:
    low = "environment: {set: {A: '1', B: '2', C: '3'}}"
    assert _view(_resolved(user=low, project="environment: {set: {}}"))["environment.set"] == {
        "A": "1",
        "B": "2",
        "C": "3",
        "SANDWRIGHT_INSIDE": "1",
    }
    high = "environment: {set: {B: $PROJECT/x, C: null, D: '4'}}"
    assert _view(_resolved(user=low, project=high))["environment.set"] == {
        "A": "1",
        "B": "/home/u/p/x",
        "D": "4",
        "SANDWRIGHT_INSIDE": "1",
    }


def test_shims_come_together_by_name() -> None:
    low = "credentials: {shims: {gh: {allow: [a]}, glab: {allow: []}}}"
    assert _view(_resolved(user=low, project="credentials: {shims: {}}"))["credentials.shims"] == [
        "gh",
        "glab",
    ]
    high = "credentials: {shims: {gh: {allow: [b]}, glab: null, hub: {allow: []}}}"
    policy = _resolved(user=low, project=high)
    assert sorted(policy.credentials.shims) == ["gh", "hub"]
    assert [command.words for command in policy.credentials.shims["gh"].allow] == [("b",)]


OF_HTTP = {"network.http", "credentials.http"}
"""Grants of mappings: tests/policy/test_http_policy.py."""


def test_the_table_above_has_every_field() -> None:
    tested = {row[0] for table in (VALUES, GRANTS, RESTRICTIONS) for row in table}
    assert tested | {"accept_gaps", "environment.set", "credentials.shims", "reason", *OF_HTTP} == set(FIELDS)


def test_fields_are_those_of_the_model() -> None:
    found = set()
    for key in keys(PolicyFile):
        inner = [
            each
            for option in options(key.form)
            if isinstance(option, type) and is_dataclass(option)
            for each in keys(option)
        ]
        found |= {f"{key.name}.{each.name}" for each in inner} or {key.name}
    assert found - {"schema", "extends"} == set(FIELDS)


@pytest.mark.parametrize(
    ("low", "high", "methods"),
    [
        ("method: bwrap", "methods: [gvisor, docker]", ("gvisor", "docker")),
        ("methods: [gvisor, docker]", "method: bwrap", ("bwrap",)),
        ("method: noop\nreason: a machine of its own", "method: bwrap", ("bwrap",)),
        ("method: bwrap", "method: noop\nreason: a machine of its own", ("noop",)),
    ],
)
def test_a_method_displaces_preferences(low: str, high: str, methods: tuple[str, ...]) -> None:
    policy = _resolved(user=low, project=high)
    assert policy.methods == methods
    assert policy.reason == ("a machine of its own" if methods == ("noop",) else "")


@pytest.mark.parametrize(
    ("user", "project", "reads"),
    [
        ("", "", True),
        ("extends: [strict]", "", False),
        ("extends: [strict]", "extends: [default]", True),
        ("extends: [default]", "extends: [strict]", False),
        ("extends: [default]", "extends: []", False),
        ("filesystem: {read: []}", "", False),
        ("filesystem: {read: []}", "extends: [default]", False),
    ],
)
def test_presets_lie_below_every_layer(user: str, project: str, reads: bool) -> None:
    layers = [load.layer(user, kind="user"), load.layer(project, kind="project")]
    assert Policy.from_layers(layers).resolve(FACTS).is_path_readable("/srv/data") is reads


def test_layers_may_be_given_in_any_order() -> None:
    run = load.layer("image: c", kind="run")
    project = load.layer("image: b", kind="project")
    user = load.layer("image: a", kind="user")
    assert Policy.from_layers([run, user, project]).settings.value("image") == "c"


def test_each_value_knows_where_it_is_said() -> None:
    policy = _resolved(
        user="network: {mode: proxy}\nfilesystem:\n  deny: [/a]\n",
        project="network:\n  allow:\n    - a.example\n",
        run="filesystem: {deny: [/b]}",
    )
    assert str(policy.source("network.mode")) == "user user.yaml:2:17"
    assert str(policy.source("network.allow")) == "project project.yaml:3:5"
    assert str(policy.source("process.seccomp")) == "built-in presets/built-in.yaml:20:12"
    denied = {rule.path: rule.source for rule in policy.filesystem.rules if rule.origin == "listed"}
    assert str(denied["/a"]) == "user user.yaml:4:10"
    assert denied["/a"].field == "filesystem.deny[0]"
    assert str(denied["/b"]) == "run run.yaml:1:21"


@pytest.mark.parametrize(
    ("user", "project", "message"),
    [
        (
            "",
            "network: {mode: host, allow: [github.com]}",
            "project.yaml:1:30: network.allow: nothing is filtered with mode: host (project project.yaml:1:17); "
            "use mode: proxy",
        ),
        (
            "network: {mode: host}",
            "network: {allow: [github.com]}",
            "project.yaml:1:18: network.allow: nothing is filtered with mode: host (user user.yaml:2:17); "
            "use mode: proxy",
        ),
        (
            "environment: {pass: [GH_TOKEN]}",
            "credentials: {shims: {gh: {secrets: {GH_TOKEN: '${T}'}, allow: []}}}",
            "user.yaml:2:22: environment.pass[0]: GH_TOKEN is a secret of the shim gh "
            "(project project.yaml:1:27), which the sandbox never sees",
        ),
        (
            "environment: {pass: [T]}",
            "credentials: {shims: {gh: {secrets: {GH_TOKEN: '${T}'}, allow: []}}}",
            "user.yaml:2:22: environment.pass[0]: T is a secret of the shim gh "
            "(project project.yaml:1:27), which the sandbox never sees",
        ),
    ],
)
def test_layers_that_contradict_each_other(user: str, project: str, message: str) -> None:
    with pytest.raises(DocumentError) as refused:
        _resolved(user=user, project=project)
    assert str(refused.value) == message


def test_a_later_host_mode_leaves_an_earlier_list_behind() -> None:
    policy = _resolved(user="network: {mode: proxy, allow: [a.example]}", project="network: {mode: host}")
    assert policy.network.mode == "host"
