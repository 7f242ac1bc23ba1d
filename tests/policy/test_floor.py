"""The managed policy (floor): each field's order of strictness; no other layer can loosen the floor.

Tests of policy/floor.py.
Tests of policy/path_limits.py.
"""

# A row of a table is a line, however long.
# ruff: noqa: E501

from __future__ import annotations

import posixpath

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sandwright.api import Policy
from sandwright.errors import DocumentError
from sandwright.policy import load
from sandwright.policy.facts import HostEntry, HostFacts
from sandwright.policy.resolved import ResolvedPolicy

FACTS = HostFacts(
    os="linux",
    home="/home/u",
    project="/home/u/p",
    entries={"/home/u/p/link": HostEntry("symlink", "/srv/secret"), "/alias": HostEntry("symlink", "srv")},
)


def _resolve(floor: str, project: str, *, user: str = "") -> ResolvedPolicy:
    layers = [
        load.layer(floor, kind="floor", file="floor.yaml"),
        load.layer(user, kind="user", file="user.yaml"),
        load.layer(project, kind="project", file="project.yaml"),
    ]
    return Policy.from_layers(layers).resolve(FACTS)


ALLOWED = [
    ("method: bwrap", "method: bwrap"),
    ("methods: [gvisor, docker]", "method: docker"),
    ("methods: [gvisor, docker]", "methods: [docker, gvisor]"),
    ("method: bwrap", ""),
    ("method: noop\nreason: a machine for this", "method: noop\nreason: as the floor says"),
    ("filesystem: {tmp: shared}", "filesystem: {tmp: private}"),
    ("network: {mode: host}", "network: {mode: none}"),
    ("network: {mode: proxy, allow: ['*.example.org']}", "network: {allow: [a.example.org:443]}"),
    ("network: {mode: proxy, allow: [example.org]}", "network: {allow: []}"),
    ("network: {unix_sockets: [/srv/a.sock]}", "network: {unix_sockets: [/alias/a.sock]}"),
    ("network: {localhost: [80, 443]}", "network: {localhost: [443]}"),
    ("network: {expose: [80, 443]}", "network: {expose: [443]}"),
    ("network: {ca: image}", "network: {ca: image}"),
    (
        "network: {mode: proxy, allow: [{host: '*.corp.example', private: true}]}",
        "network: {allow: [{host: a.corp.example, private: true}, b.corp.example]}",
    ),
    ("process: {sandbox_root: true}", "process: {sandbox_root: false}"),
    ("process: {seccomp: build}", "process: {seccomp: strict}"),
    ("process: {seccomp: /etc/s.json}", "process: {seccomp: /etc/s.json}"),
    ("macos: [pty, dns]", "macos: [dns]"),
    ("environment: {pass: [LC_*]}", "environment: {pass: [LC_ALL, LC_M*]}"),
    ("environment: {set: {A: x}}", "environment: {set: {A: x, B: y}}"),
    ("credentials: {cloud: readonly}", "credentials: {cloud: none}"),
    ("credentials: {shims: {gh: {allow: ['pr *']}}}", "credentials: {shims: {gh: {allow: [pr list]}}}"),
    ("credentials: {shims: {gh: {allow: []}}}", "credentials: {shims: {gh: null}}"),
    ("workspace: live", "workspace: review"),
    ("user: {mapping: auto}", "user: {mapping: required}"),
    ("resources: {memory: 2GiB, time: 1h, pids: 9}", "resources: {memory: 1024MiB, time: 60m, pids: 9}"),
    ("resources: {memory: unlimited}", "resources: {memory: 2GiB}"),
    ("image: debian", "image: debian"),
    (
        "accept_gaps: [{feature: image, method: bwrap, reason: x}]",
        "accept_gaps: [{feature: image, method: bwrap, reason: y}]",
    ),
    ("filesystem: {write: [$PROJECT]}", "filesystem: {write: [$PROJECT/src]}"),
    ("filesystem: {read: [/srv], write: [$PROJECT]}", "filesystem: {read: [/srv/data]}"),
    ("filesystem: {deny: [/srv]}", "filesystem: {read: [/]}"),
    ("filesystem: {write: []}", "filesystem: {write: []}"),
    ("extends: [strict]", "network: {mode: none}"),
]


@pytest.mark.parametrize(("floor", "project"), ALLOWED)
def test_what_is_as_strict_is_let_be(floor: str, project: str) -> None:
    _resolve(floor, project)


REFUSED = [
    ("method: bwrap", "method: docker", "project.yaml:1:9: method: docker is not among the floor's methods, bwrap (floor floor.yaml:1:9)"),
    ("methods: [gvisor, docker]", "methods: [docker, podman]", "project.yaml:1:10: methods: podman is not among the floor's methods, gvisor, docker (floor floor.yaml:1:10)"),
    ("image: debian", "method: noop\nreason: x", "project.yaml:1:9: method: noop enforces nothing, and there is a floor to enforce"),
    ("filesystem: {home: private}", "filesystem: {home: host}", "project.yaml:1:20: filesystem.home: host is looser than the floor's private (floor floor.yaml:1:20)"),
    ("filesystem: {tmp: private}", "filesystem: {tmp: shared}", "project.yaml:1:19: filesystem.tmp: shared is looser than the floor's private (floor floor.yaml:1:19)"),
    ("network: {mode: proxy}", "network: {mode: host}", "project.yaml:1:17: network.mode: host is looser than the floor's proxy (floor floor.yaml:1:17)"),
    ("network: {mode: proxy, allow: ['*.example.org']}", "network: {allow: [example.org]}", "project.yaml:1:19: network.allow[0]: example.org is not in the floor's network.allow (floor floor.yaml:1:31)"),
    ("network: {mode: proxy, allow: [example.org]}", "network: {allow: ['...', evil.example]}", "project.yaml:1:26: network.allow[1]: evil.example is not in the floor's network.allow (floor floor.yaml:1:31)"),
    ("network: {mode: proxy, allow: [example.org]}", "network: {allow: ['example.org:22']}", "project.yaml:1:19: network.allow[0]: example.org:22 is not in the floor's network.allow (floor floor.yaml:1:31)"),
    ("network: {unix_sockets: []}", "network: {unix_sockets: [/srv/a.sock]}", "project.yaml:1:26: network.unix_sockets[0]: /srv/a.sock is not in the floor's network.unix_sockets (floor floor.yaml:1:25)"),
    ("network: {expose: [443]}", "network: {expose: [80]}", "project.yaml:1:20: network.expose[0]: 80 is not in the floor's network.expose (floor floor.yaml:1:19)"),
    ("network: {localhost: [443]}", "network: {localhost: [80]}", "project.yaml:1:23: network.localhost[0]: 80 is not in the floor's network.localhost (floor floor.yaml:1:22)"),
    ("network: {mode: proxy, allow: ['*']}", "network: {allow: [{host: a.example, private: true}]}", "project.yaml:1:19: network.allow[0]: a.example, private is not in the floor's network.allow (floor floor.yaml:1:31)"),
    ("network: {ca: image}", "network: {ca: host}", "project.yaml:1:15: network.ca: host is looser than the floor's image (floor floor.yaml:1:15)"),
    ("network: {ca: host}", "network: {ca: image}", "project.yaml:1:15: network.ca: image is looser than the floor's host (floor floor.yaml:1:15)"),
    ("network: {own_sockets: false}", "network: {own_sockets: true}", "project.yaml:1:24: network.own_sockets: true is looser than the floor's false (floor floor.yaml:1:24)"),
    ("process: {sandbox_root: false}", "process: {sandbox_root: true}", "project.yaml:1:25: process.sandbox_root: true is looser than the floor's false (floor floor.yaml:1:25)"),
    ("process: {seccomp: default}", "process: {seccomp: build}", "project.yaml:1:20: process.seccomp: build is looser than the floor's default (floor floor.yaml:1:20)"),
    ("process: {seccomp: build}", "process: {seccomp: /etc/s.json}", "project.yaml:1:20: process.seccomp: /etc/s.json is not the floor's build (floor floor.yaml:1:20): a profile in a file is not compared with other profiles"),
    ("macos: [pty]", "macos: [dns]", "project.yaml:1:9: macos[0]: dns is not in the floor's macos (floor floor.yaml:1:8)"),
    ("environment: {pass: [LC_ALL]}", "environment: {pass: [LC_*]}", "project.yaml:1:22: environment.pass[0]: LC_* is not in the floor's environment.pass (floor floor.yaml:1:21)"),
    ("environment: {pass: [LC_*]}", "filesystem: {deny: ['$PROJECT/${CODE}', '/${LC_ALL}']}", "project.yaml:1:21: filesystem.deny[0]: $PROJECT/${CODE} would show the value of CODE inside: the floor's environment.pass lacks it"),
    ("environment: {set: {CODE: null}}", "network: {unix_sockets: ['/${CODE}']}", "project.yaml:1:26: network.unix_sockets[0]: /${CODE} would show the value of CODE inside: the floor removes it"),
    ("environment: {set: {A: x}}", "environment: {set: {A: y}}", "project.yaml:1:24: environment.set.A: A keeps the value that the floor sets (floor floor.yaml:1:24)"),
    ("environment: {set: {A: x}}", "environment: {set: {A: null}}", "project.yaml:1:24: environment.set.A: A keeps the value that the floor sets (floor floor.yaml:1:24)"),
    ("environment: {set: {A: null}}", "environment: {pass: [A]}", "project.yaml:1:22: environment.pass[0]: A is removed by the floor (floor floor.yaml:1:24)"),
    ("credentials: {cloud: none}", "credentials: {cloud: readonly}", "project.yaml:1:22: credentials.cloud: readonly is looser than the floor's none (floor floor.yaml:1:22)"),
    ("credentials: {shims: {}}", "credentials: {shims: {gh: {allow: []}}}", "project.yaml:1:27: credentials.shims.gh: gh is not among the floor's shims"),
    ("credentials: {shims: {gh: {allow: [pr list]}}}", "credentials: {shims: {gh: {allow: ['pr *']}}}", "project.yaml:1:27: credentials.shims.gh: gh has more secrets or commands than the floor gives it (floor floor.yaml:1:27)"),
    ("credentials: {signing: []}", "credentials: {signing: [~/.ssh/id.pub]}", "project.yaml:1:25: credentials.signing[0]: ~/.ssh/id.pub is not in the floor's credentials.signing (floor floor.yaml:1:24)"),
    ("credentials: {signing: [~/.ssh/id.pub]}", "credentials: {signing: [~/.ssh/id.pub, ~/.ssh/b.pub]}", "project.yaml:1:40: credentials.signing[1]: ~/.ssh/b.pub is not in the floor's credentials.signing (floor floor.yaml:1:24)"),
    ("workspace: review", "workspace: live", "project.yaml:1:12: workspace: live is looser than the floor's review (floor floor.yaml:1:12)"),
    ("credentials: {shims: {gh: {allow: ['pr *']}}}", "credentials: {shims: {gh: {allow: [pr list --repo a/b]}}}", "project.yaml:1:27: credentials.shims.gh: gh has more secrets or commands than the floor gives it (floor floor.yaml:1:27)"),
    ("user: {mapping: required}", "user: {mapping: auto}", "project.yaml:1:17: user.mapping: auto is looser than the floor's required (floor floor.yaml:1:17)"),
    ("resources: {memory: 2GiB}", "resources: {memory: 2049MiB}", "project.yaml:1:21: resources.memory: 2049MiB is looser than the floor's 2GiB (floor floor.yaml:1:21)"),
    ("resources: {time: 1h}", "resources: {time: unlimited}", "project.yaml:1:19: resources.time: unlimited is looser than the floor's 1h (floor floor.yaml:1:19)"),
    ("resources: {cpus: 2}", "resources: {cpus: 2.5}", "project.yaml:1:19: resources.cpus: 2.5 is looser than the floor's 2.0 (floor floor.yaml:1:19)"),
    ("gvisor: {engine: docker}", "gvisor: {engine: none}", "project.yaml:1:18: gvisor.engine: none is looser than the floor's docker (floor floor.yaml:1:18)"),
    ("image: debian", "image: alpine", "project.yaml:1:8: image: alpine is looser than the floor's debian (floor floor.yaml:1:8)"),
    ("accept_gaps: []", "accept_gaps: [{feature: image, method: bwrap, reason: y}]", "project.yaml:1:15: accept_gaps[0]: image for bwrap is not in the floor's accept_gaps (floor floor.yaml:1:14)"),
    ("filesystem: {write: [$PROJECT]}", "filesystem: {write: [/srv]}", "project.yaml:1:22: filesystem.write[0]: /srv lets /srv be written, which the floor does not (floor floor.yaml:1:21 filesystem.write)"),
    ("filesystem: {write: []}", "filesystem: {tmp: shared}", "project.yaml:1:19: filesystem.tmp: $TMP lets /tmp be written, which the floor does not (floor floor.yaml:1:21 filesystem.write)"),
    ("filesystem: {deny: [/srv/secret]}", "filesystem: {read: [/srv/secret/less]}", "project.yaml:1:21: filesystem.read[0]: /srv/secret/less lets /srv/secret/less be read, which the floor does not (floor floor.yaml:1:21 filesystem.deny[0])"),
    ("filesystem: {deny: [/srv/secret]}", "filesystem: {readonly: [$PROJECT/link/x]}", "project.yaml:1:25: filesystem.readonly[0]: $PROJECT/link/x lets /srv/secret/x be read, which the floor does not (floor floor.yaml:1:21 filesystem.deny[0])"),
    ("filesystem: {readonly: [/srv]}", "filesystem: {write: [/alias/data]}", "project.yaml:1:22: filesystem.write[0]: /alias/data lets /srv/data be written, which the floor does not (floor floor.yaml:1:25 filesystem.readonly[0])"),
    ("filesystem: {read: [/usr], write: [$PROJECT]}", "filesystem: {read: [/]}", "project.yaml:1:21: filesystem.read[0]: / lets / be read, which the floor does not (floor floor.yaml:1:20 filesystem.read)"),
    ("filesystem: {protect: [Makefile]}", "filesystem: {write: [$PROJECT, $PROJECT/Makefile/x]}", "project.yaml:1:32: filesystem.write[1]: $PROJECT/Makefile/x lets /home/u/p/Makefile/x be written, which the floor does not (floor floor.yaml:1:24 filesystem.protect[0])"),
    ("filesystem: {protect: [Makefile]}", "filesystem: {unprotect: [{path: $PROJECT/Makefile, reason: x}]}", "project.yaml:1:26: filesystem.unprotect[0]: /home/u/p/Makefile is protected by the floor (floor floor.yaml:1:24)"),
    ("filesystem: {deny: [/srv]}", "filesystem: {unprotect: [{path: /srv, reason: x}]}", "project.yaml:1:26: filesystem.unprotect[0]: /srv is denied by the floor (floor floor.yaml:1:21)"),
    ("extends: [strict]", "process: {seccomp: default}", "project.yaml:1:20: process.seccomp: default is looser than the floor's strict (floor presets/strict.yaml:14:12)"),
    ("extends: [strict]", "filesystem: {read: [/]}", "project.yaml:1:21: filesystem.read[0]: / lets / be read, which the floor does not (floor presets/strict.yaml:5:9 filesystem.read)"),
]  # fmt: skip


@pytest.mark.parametrize(("floor", "project", "message"), REFUSED)
def test_attempts_to_loosen_name_both_places(floor: str, project: str, message: str) -> None:
    with pytest.raises(DocumentError) as refused:
        _resolve(floor, project)
    assert str(refused.value) == message


def test_all_attempts_of_a_file_at_once() -> None:
    with pytest.raises(DocumentError) as refused:
        _resolve(
            "network: {mode: none}\nprocess: {sandbox_root: false}\n",
            "network: {mode: host}\nprocess: {sandbox_root: true}\n",
        )
    assert [problem.line for problem in refused.value.problems] == [1, 2]


def test_a_preset_that_loosens_is_named() -> None:
    with pytest.raises(DocumentError) as refused:
        _resolve("filesystem: {read: [/usr]}", "")
    assert str(refused.value) == (
        "presets/default.yaml:14:11: filesystem.write[0]: $PROJECT lets /home/u/p be read, "
        "which the floor does not (floor floor.yaml:1:20 filesystem.read)"
    )


def test_a_denial_of_the_user_is_no_floor() -> None:
    policy = _resolve(
        "", "filesystem: {read: [/, /srv/secret/less]}", user="filesystem: {deny: [/srv/secret]}"
    )
    assert policy.is_path_readable("/srv/secret/less")
    assert not policy.is_path_readable("/srv/secret/more")


# A random floor and a random policy over a small tree; the test computes the floor's permissions itself.

NAMES = ["a", "b", "c"]
PATHS = ["/t" + "".join(f"/{name}" for name in names) for names in [(), ("a",), ("b",), ("a", "b"), ("a", "c"), ("b", "a"), ("a", "b", "c"), ("b", "a", "b")]]  # fmt: skip
LISTS = st.lists(st.sampled_from(PATHS), max_size=3, unique=True)
OPTIONAL = st.none() | LISTS


@st.composite
def _files(draw: st.DrawFn) -> dict[str, list[str]]:
    given_ = {key: draw(OPTIONAL) for key in ("read", "write", "readonly", "deny")}
    return {key: paths for key, paths in given_.items() if paths is not None}


def _text(files: dict[str, list[str]]) -> str:
    lists = ", ".join(f"{key}: [{', '.join(paths)}]" for key, paths in files.items())
    return f"extends: []\nfilesystem: {{{lists}}}\n"


def _most_specific(files: dict[str, list[str]], kinds: tuple[str, ...], path: str) -> str | None:
    while True:
        for kind in ("deny", "readonly", "write", "read"):
            if kind in kinds and path in files.get(kind, ()):
                return kind
        if path == "/":
            return None
        path = posixpath.dirname(path)


def _floor_allows(files: dict[str, list[str]], action: str, path: str) -> bool:
    kinds: tuple[str, ...] = ("deny", "readonly", "write", "read")
    if action == "read":
        kind = _most_specific(files, kinds, path)
        return kind != "deny" if kind else "read" not in files
    if "write" not in files:
        kinds = ("deny", "readonly", "write")
    kind = _most_specific(files, kinds, path)
    return kind == "write" if kind else "write" not in files


PROBES = [f"{path}{rest}" for path in PATHS for rest in ("", "/x", "/a", "/b/x")]


@settings(deadline=None)
@given(_files(), _files(), _files())
def test_no_files_get_past_the_floor(floor: dict[str, list[str]], user: dict[str, list[str]], project: dict[str, list[str]]) -> None:  # fmt: skip
    try:
        policy = _resolve(_text(floor), _text(project), user=_text(user))
    except DocumentError:
        assume(False)
    for path in PROBES:
        assert not policy.is_path_readable(path) or _floor_allows(floor, "read", path), path
        assert not policy.is_path_writable(path) or _floor_allows(floor, "write", path), path


@settings(deadline=None)
@given(
    st.fixed_dictionaries({}, optional={"read": LISTS, "write": LISTS}),
    st.fixed_dictionaries({"read": LISTS, "write": LISTS}, optional={"readonly": LISTS, "deny": LISTS}),
)
def test_only_what_loosens_is_refused(floor: dict[str, list[str]], project: dict[str, list[str]]) -> None:
    """If the floor only grants, and the project grants again, the merged policy is the project's."""
    alone = Policy.from_layers([load.layer(_text(project), kind="project")]).resolve(FACTS)
    loosens = any(
        (alone.is_path_readable(path) and not _floor_allows(floor, "read", path))
        or (alone.is_path_writable(path) and not _floor_allows(floor, "write", path))
        for path in PROBES
    )
    try:
        _resolve(_text(floor), _text(project))
    except DocumentError:
        assert loosens
    else:
        assert not loosens


MODES = st.sampled_from(["none", "proxy", "host"])
HOSTS = st.lists(st.sampled_from(["a.x.org", "*.x.org", "x.org", "a.x.org:22", "*"]), max_size=2, unique=True)
NUMBERS = st.none() | st.sampled_from(["1MiB", "1GiB", "2GiB", "unlimited"])


@st.composite
def _values(draw: st.DrawFn) -> tuple[str, list[str], str | None, bool]:
    return draw(MODES), draw(HOSTS), draw(NUMBERS), draw(st.booleans())


def _values_text(mode: str, hosts: list[str], memory: str | None, sandbox_root: bool) -> str:
    allow = ", ".join(f"'{host}'" for host in hosts)
    limit = f"resources: {{memory: {memory}}}\n" if memory else ""
    return f"network: {{mode: {mode}, allow: [{allow}]}}\nprocess: {{sandbox_root: {str(sandbox_root).lower()}}}\n{limit}"


@settings(deadline=None)
@given(_values(), _values())
def test_no_values_get_past_the_floor(
    floor: tuple[str, list[str], str | None, bool], project: tuple[str, list[str], str | None, bool]
) -> None:
    try:
        policy = _resolve(_values_text(*floor), _values_text(*project))
    except DocumentError:
        return
    floor_mode, floor_hosts, floor_memory, floor_sandbox_root = floor
    ranks = {"none": 0, "proxy": 1, "host": 2}
    assert ranks[policy.network.mode] <= ranks[floor_mode]
    assert floor_sandbox_root or not policy.process.sandbox_root
    sizes = {"1MiB": 1 << 20, "1GiB": 1 << 30, "2GiB": 2 << 30}
    if floor_memory in sizes:
        assert policy.resources.memory is not None
        assert policy.resources.memory <= sizes[floor_memory]
    reached = [("x.org", 443), ("a.x.org", 443), ("a.x.org", 22), ("b.x.org", 443), ("other.org", 80)]
    lets = {"*": {0, 1, 3, 4}, "*.x.org": {1, 3}, "x.org": {0}, "a.x.org": {1}, "a.x.org:22": {2}}
    allowed = set().union(*(lets[host] for host in floor_hosts))
    for index, (name, port) in enumerate(reached):
        if any(pattern.matches(name, port) for pattern in policy.network.allow):
            assert index in allowed
