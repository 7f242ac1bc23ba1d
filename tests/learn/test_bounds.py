"""`learn`: whatever a record contains, its proposal permits nothing beyond the policy and `default`.

Tests of learn/generalise.py.
Tests of learn/tables.py.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from sandwright.learn import profile
from sandwright.learn.attempt import RecordedCommand
from sandwright.learn.generalise import read_grants
from sandwright.learn.learn import Learner, resolve_with
from sandwright.learn.needs import READS
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.session.access_log import CHANGES, Access, AccessLog, Contact, RequestedHost
from support.thorough import covering

TREE = (
    *(
        "p/a/f",
        "p/b/f",
        "p/.git/config",
        "p/.git/hooks/x",
        "p/.env",
        "tool/bin/x",
        "tool/lib/y",
        "tool/secret/key",
    ),
    *(
        ".ssh/key",
        ".aws/credentials",
        "data/1",
        "data/2",
        "data/3",
        "data/4",
        "data/5",
        "mixed/.git/x",
        "mixed/1",
    ),
    *(".cargo/registry/x", ".cargo/credentials.toml", "venv/pyvenv.cfg", "venv/lib/x", "closed/x"),
    *(".m2/1", ".m2/2", ".m2/3", ".m2/4", ".m2/settings.xml", ".docker/bin/x", ".gradle/gradle.properties"),
)
"""Below a home; `p` is the project."""

POLICIES = {
    "default": "",
    "exception": "filesystem: {unprotect: [{path: ~/.ssh, reason: a test}]}\n",
    "without presets": "extends: []\nfilesystem: {read: [$HOME], write: [$PROJECT]}\n",
    "narrow": "filesystem: {read: [~/data/1, ~/tool/bin], write: [$PROJECT/a]}\n",
    "denied within": "filesystem: {deny: [~/tool/secret, ~/data/5]}\n",
}
FLOORS = {
    "none": "",
    "floor": "schema: 1\nfilesystem: {read: [~/tool, $PROJECT, ~/data], deny: [~/data/3]}\n",
}


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home outside /tmp, because the sandbox has a separate /tmp."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        for name in TREE:
            place = Path(folder, name)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text("x")
        Path(folder, "p/out").symlink_to("../.ssh")
        Path(folder, "p/up").symlink_to("../data")
        for name, target in (("home", "."), ("root", "/"), ("both", "tool"), ("few", "mixed")):
            Path(folder, f"to-{name}").symlink_to(target)
        Path(folder, "run").mkdir(mode=0o700)
        monkeypatch.setenv("HOME", folder)
        monkeypatch.setenv("XDG_RUNTIME_DIR", f"{folder}/run")
        monkeypatch.chdir(f"{folder}/p")
        yield Path(folder)


_FOUND = ("file", "directory", "absent")


def _hostile(home: Path) -> list[AccessLog]:
    """Every kind of record, also by links and misleading names."""
    names = [f"{home}/{name}" for name in TREE]
    names += [each.rpartition("/")[0] for each in names] + [
        str(home),
        "/",
        "/etc",
        "/etc/shadow",
        "/root/.ssh",
    ]
    names += [
        f"{home}/p/out/key",
        f"{home}/p/up/1",
        f"{home}/p/../.ssh/key",
        f"{home}/to-home/data/1",
        f"{home}/to-root/etc/hostname",
        f"{home}/to-both/secret/key",
        f"{home}/to-few/1",
        f"{home}/p/a\n- /",
        "/proc/1/mem",
    ]
    accesses = [
        tuple(
            Access(name, name, found, frozenset({kind})) for name, kind, found in product(names, each, _FOUND)
        )
        for each in (READS | {"look"}, CHANGES)
    ]
    contacts = (
        Contact("connect", "tcp", "127.0.0.1", 2375),
        Contact("connect", "unix", "/run/docker.sock", 0),
    )
    hosts = frozenset(
        {RequestedHost("evil.example", 443, ""), RequestedHost("a b", 1, ""), RequestedHost("", 0, "")}
    )
    return [AccessLog(each, contacts, frozenset({1, 99999}), hosts, whole=True) for each in accesses]


def _paths(home: Path) -> list[str]:
    found = [
        str(home),
        *(f"{base}/{each}" for base, folders, files in os.walk(home) for each in folders + files),
    ]
    return [*found, "/", "/etc/shadow", "/etc/hostname", "/root/.ssh/id", f"{home}/new", "/srv", "/var/lib"]


def _allowed(policy: ResolvedPolicy, paths: list[str]) -> set[tuple[str, str]]:
    tree = policy.filesystem.tree
    return {(way, each) for way in ("read", "write") for each in paths if tree.allows(way, each)}


@pytest.mark.parametrize(("text", "floor"), covering(list(POLICIES), list(FLOORS)))
def test_nothing_is_widened(text: str, floor: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "p/sandbox.yaml").write_text(f"schema: 1\nmethod: bwrap\n{POLICIES[text]}")
    if FLOORS[floor]:
        (home / "floor.yaml").write_text(FLOORS[floor])
        monkeypatch.setattr("sandwright.policy.load.FLOOR", home / "floor.yaml")
    command = RecordedCommand(("true",), f"{home}/p/sandbox.yaml", True, (), (), True)
    if floor == "floor" and text in ("default", "exception", "without presets", "denied within"):
        command = RecordedCommand(
            ("true",), f"{home}/p/sandbox.yaml", True, (), ("filesystem.read=[~/tool, ~/data]",), True
        )
    learner = Learner(command, lambda _: None, _hostile(home))
    for way in [(None, False), (None, True)]:
        proposal = learner.proposed(way).proposal
        now = resolve_with(command, proposal.settings())
        paths = [each for each in _paths(home) if not learner.bounds.is_private(each)]
        allowed = _allowed(now, paths)
        assert allowed <= _allowed(learner.current, paths)
        reads = {each for each in allowed if each[0] == "read" and not _startup(now, each[1])}
        assert reads <= _allowed(learner.bounds.default, paths)
        assert not _wide(now, home)
        own = [path for _, path in reads if path.startswith(str(home))]  # `default` knows no other home
        assert not any(".ssh" in path or ".aws" in path or "credentials" in path for path in own)
        assert reads
        assert not now.network.allow
        assert now.network.mode == learner.current.network.mode


def _wide(policy: ResolvedPolicy, home: Path) -> set[str]:
    """Directories with many entries that are open as a whole, by any name."""
    rules = {each.path for each in policy.filesystem.rules if each.kind == "read" and each.origin == "listed"}
    return rules & {"/", "/etc", str(home), str(home.parent)}


@pytest.mark.parametrize("name", ["/var/tmp", "/var/log", "/run", "~", "~/Documents", "/home/somebody"])
def test_a_directory_of_many_things_that_was_listed_is_not_granted(
    name: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not granted either if many of its entries were read."""
    monkeypatch.setattr("os.path.isdir", lambda _: True)
    place = name.replace("~", str(home))
    (home / "p/sandbox.yaml").write_text("schema: 1\nmethod: bwrap\n")
    command = RecordedCommand(("true",), f"{home}/p/sandbox.yaml", True, (), (), True)
    bounds = Learner(command, lambda _: None, []).bounds
    reads = {place: {"list"}, **{f"{place}/{each}": {"read"} for each in "abcd"}}
    assert place not in {each.path for each in read_grants(reads, bounds, lambda _: False)}


NETWORK = """schema: 1
method: bwrap
network: {mode: proxy, allow: [good.example, other.example], localhost: [8080], unix_sockets: [/srv/good]}
"""


def test_of_the_network_only_what_is_listed_is_proposed(home: Path) -> None:
    (home / "p/sandbox.yaml").write_text(NETWORK)
    record = AccessLog(
        contacts=(
            *(Contact("connect", "tcp", "127.0.0.1", port) for port in (8080, 2375)),
            *(Contact("connect", "unix", path, 0) for path in ("/srv/good", "/run/docker.sock")),
        ),
        hosts=frozenset(
            {
                RequestedHost("good.example", 443, ""),
                RequestedHost("evil.example", 443, ""),
                RequestedHost("good.example", 8443, ""),
            }
        ),
        whole=True,
    )
    command = RecordedCommand(("true",), f"{home}/p/sandbox.yaml", True, (), (), True)
    proposal = Learner(command, lambda _: None, [record]).proposed((None, False)).proposal
    assert {each.split("=")[0]: each.partition("=")[2] for each in proposal.settings()[2:]} == {
        "network.mode": "proxy",
        "network.allow": "[good.example]",
        "network.localhost": "[8080]",
        "network.unix_sockets": "[/srv/good]",
    }


HOSTS = {
    "good.example:443": ("good.example", 443, '["good.example:443"]'),
    "one.example": ("one.example", 443, "[one.example]"),
    '"*.below.example"': ("*.below.example", 443, "[]"),
    '"*"': ("*", 443, "[]"),
    "other.example:*": ("other.example", 80, "[other.example]"),
    "{host: near.example, private: true}": ("near.example", 80, "[{host: near.example, private: true}]"),
}


@pytest.mark.parametrize("allow", HOSTS)
def test_a_host_opens_no_port_and_no_other_host_that_the_policy_does_not(allow: str, home: Path) -> None:
    """A host without a port has both web ports; a name with a star stands for many hosts."""
    (home / "p/sandbox.yaml").write_text(
        f"schema: 1\nmethod: bwrap\nnetwork: {{mode: proxy, allow: [{allow}]}}\n"
    )
    host, port, expected = HOSTS[allow]
    record = AccessLog(hosts=frozenset({RequestedHost(host, port, "")}), whole=True)
    command = RecordedCommand(("true",), f"{home}/p/sandbox.yaml", True, (), (), True)
    learner = Learner(command, lambda _: None, [record])
    proposal = learner.proposed((None, False)).proposal
    said = {each.split("=")[0]: each.partition("=")[2] for each in proposal.settings()}
    assert said["network.allow"] == expected
    after = resolve_with(command, proposal.settings()).network.allow
    assert all(any(own.covers(each) for own in learner.current.network.allow) for each in after)


@pytest.mark.parametrize(
    ("own", "tried"), [("strict", 1), ("default", 2), ("build", 3), ("/srv/own.json", 0)]
)
def test_no_looser_filter_than_the_policys_is_tried(own: str, tried: int, home: Path) -> None:
    (home / "p/sandbox.yaml").write_text(f"schema: 1\nmethod: bwrap\nprocess: {{seccomp: {own}}}\n")
    command = RecordedCommand(("true",), f"{home}/p/sandbox.yaml", True, (), (), True)
    policy = resolve_with(command, ())
    assert profile.candidates(policy) == ("strict", "default", "build")[:tried]
    assert profile.sufficient_profiles(policy, ["no_such_call"]) == profile.candidates(policy)[-1:]


def test_what_may_not_be_written_is_no_grant_and_is_said(home: Path) -> None:
    (home / "p/sandbox.yaml").write_text("schema: 1\nmethod: bwrap\n")
    paths = [f"{home}/data/1", f"{home}/.ssh/key"]
    record = AccessLog(tuple(Access(each, each, "file", frozenset({"write"})) for each in paths), whole=True)
    command = RecordedCommand(("true",), f"{home}/p/sandbox.yaml", True, (), (), True)
    learned = Learner(command, lambda _: None, [record]).proposed((None, False))
    assert learned.proposal.write == ()
    assert learned.needs.requested == {
        (f"{home}/data/1", "write"): "not writable",
        (f"{home}/.ssh/key", "write"): "denied",
    }


def _startup(policy: ResolvedPolicy, path: str) -> bool:
    return any(rule.path == path or path.startswith(f"{rule.path}/") for rule in policy.filesystem.startup)
