"""The bounds of a run's report on denials, for any record: limited numbers, and no edit that opens more.

Tests of session/denial_sources.py: the line of the policy in the message.
Tests of session/denials.py.
Tests of session/explained.py.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sandwright.api import Policy
from sandwright.methods import registry
from sandwright.policy.load import layer
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.session import candidate_denials as candidates
from sandwright.session import denials, explained, supervise
from sandwright.session.access_log import KINDS, Access, AccessLog, access_log_lines
from sandwright.session.candidate_denials import candidate_denials
from sandwright.session.command_session import CommandSession
from sandwright.session.denial_context import DenialContext, PathContext
from sandwright.session.denial_sources import denial_context
from sandwright.session.events import (
    BridgedCall,
    DeniedConnection,
    DeniedHost,
    DeniedRequest,
    RunDenied,
    RunEvent,
)
from sandwright.session.prepare import resolved_with
from sandwright.session.recording import Recording
from sandwright.session.request import RunRequest

FOUND = ("absent", "file", "directory", "link", "other")


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home whose directory `closed` the policy denies. It is not below the sandbox's private /tmp."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        home = Path(os.path.realpath(folder))
        for name in ("p/file", "closed/key", "closed/it's", "seen/file", *(f"seen/{n}" for n in range(5))):
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text("x")
        (home / "run").mkdir(mode=0o700)
        policy = f"schema: 1\nmethod: bwrap\nfilesystem: {{write: [$PROJECT], deny: [{home}/closed]}}\n"
        (home / "p/sandbox.yaml").write_text(policy)
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.setenv("XDG_RUNTIME_DIR", f"{home}/run")
        monkeypatch.chdir(home / "p")
        yield home


def _request(recording: Recording | None = None) -> RunRequest:
    return RunRequest(["true"], policy="sandbox.yaml", named=True, trusted=True, recording=recording)


def _told(*accesses: tuple[Path, str, str]) -> list[Any]:
    """The denials that are reported for paths, with the kind of file and of access for each."""
    asked = (Access(str(path), str(path), found, frozenset({kind})) for path, found, kind in accesses)
    request = _request()
    return list(explained.path_denials(asked, lambda settings: resolved_with(request, settings)))


def test_what_the_host_has_not_got_is_not_told(home: Path) -> None:
    closed = home / "closed"
    told = _told((closed / "key", "absent", "read"), (closed / "absent", "absent", "read"))
    assert [each.what for each in told] == [f"{closed}/key"]


def test_what_this_user_can_not_do_outside_is_not_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ((home / "closed/key", "absent", "read"), (home / "seen/file", "file", "write"))
    assert [each.how for each in _told(*asked)] == ["hidden", "read-only"]
    access = os.access

    def denied(path: str, mode: int, **options: bool) -> bool:
        return not str(path).startswith((f"{home}/closed", f"{home}/seen")) and access(path, mode, **options)

    monkeypatch.setattr(os, "access", denied)
    assert _told(*asked) == []


def test_what_the_sandbox_has_for_itself_is_not_told(home: Path) -> None:
    """No rule of the policy applies there; `/dev` and `/proc` are read-only except for some names."""
    own = (Path("/dev/made"), Path("/proc/version"), Path("/sys/kernel/mm"), Path("/tmp/made"))
    assert home.exists()
    assert _told(*((path, "absent", kind) for path in own for kind in ("create", "write", "read"))) == []


def test_paths_for_which_there_is_no_room_are_counted(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explained, "MOST", 2)
    told = _told(*((home / f"seen/{number}", "file", "write") for number in range(5)))
    assert [each.what for each in told[:2]] == [f"{home}/seen/0", f"{home}/seen/1"]
    assert told[2:] == [denials.OmittedDenials(3)]


def test_a_path_that_yaml_would_read_otherwise_has_no_edit(home: Path) -> None:
    told = _told(*((home / "closed" / name, "absent", "read") for name in ("key", "it's")))
    edits = {each.what: each.edit for each in told}
    assert edits == {
        f"{home}/closed/key": f"filesystem: {{read: ['{home}/closed/key']}}",
        f"{home}/closed/it's": None,
    }


def test_what_the_record_lacks_is_said(home: Path) -> None:
    recording = Recording(str(home / "record"), looks=False)
    (home / "record").write_text(
        "".join(f"{line}\n" for line in access_log_lines(AccessLog(dropped=3, unresolved=1)))
    )
    assert _explained(recording) == ([], ["4 calls with unknown paths: more may have been refused"])
    assert not (home / "record").exists()


def _explained(recording: Recording, digest: str = "") -> tuple[list[Any], list[str]]:
    """The explanations of a record, and the messages."""
    after = SimpleNamespace(context=_context())
    prepared = SimpleNamespace(record=SimpleNamespace(after=after))
    record = SimpleNamespace(policy=digest)
    session = SimpleNamespace(request=_request(recording), prepared=prepared, record=record)
    said: list[str] = []
    return list(supervise._explain_denials(cast("CommandSession", session), said.append)), said


def test_no_rule_of_another_policy_is_blamed(home: Path) -> None:
    """The policy of the run counts, not the content of its file after the run."""
    refused = Access(f"{home}/closed/key", f"{home}/closed/key", "absent", frozenset({"read"}))
    recording = Recording(str(home / "record"), looks=False)
    told: list[object] = []
    for digest in ("", "sha256:of-another"):
        (home / "record").write_text("".join(f"{line}\n" for line in access_log_lines(AccessLog((refused,)))))
        told.append(_explained(recording, digest))
    (found, said), (nothing, why) = cast("Any", told)
    assert ([each.what for each in found], said) == ([refused.path], [])
    assert nothing == []
    assert len(why) == 1
    assert "was changed meanwhile" in why[0]


def test_no_edit_of_another_policy_is_offered(home: Path) -> None:
    """It changed between the reading of the rules and the test of the edits."""
    refused = Access(f"{home}/closed/key", f"{home}/closed/key", "absent", frozenset({"read"}))

    def resolve(settings: list[str]) -> ResolvedPolicy:
        return resolved_with(_request(), settings, digest="sha256:of-another" if settings else "")

    (told,) = cast("Any", explained.path_denials([refused], resolve))
    assert told.edit is None
    told = _told((home / "closed/key", "absent", "read"))[0]
    assert told.edit == f"filesystem: {{read: ['{home}/closed/key']}}"


def test_all_that_is_refused_is_suspected(home: Path) -> None:
    """A path that is omitted without a look at the policy was refused by none of its rules."""
    for name in (".bashrc", "new", "it\udce9", ".git/hooks/pre-commit"):
        (home / "p" / name).parent.mkdir(parents=True, exist_ok=True)
        (home / "p" / name).touch()
    policy = resolved_with(_request())
    places = denial_context(policy, registry.declaration("bwrap")).paths
    paths = {rule.path for rule in policy.filesystem.rules}
    paths |= {
        f"{each.rstrip('/')}/{name}"
        for each in paths
        for name in ("", "key", "file", ".git/hooks/x", "\udcff")
    }
    paths |= {str(each) for each in home.rglob("*")} | {"/", "/etc/passwd", "/usr/bin/env", "/nowhere"}
    paths = {path.rstrip("/") or "/" for path in paths}
    refused, suspects = 0, set()
    for found, kind in itertools.product(FOUND, KINDS):
        record = AccessLog(tuple(Access(path, path, found, frozenset({kind})) for path in sorted(paths)))
        (home / "record").write_text("".join(f"{line}\n" for line in access_log_lines(record)))
        suspected = {each.path for each in candidate_denials(home / "record", places)[0]}
        told = {each.path for each in explained.refused_paths(record.accesses, policy)}
        assert told <= suspected, (found, kind, sorted(told - suspected))
        refused += len(told)
        suspects |= {(path, kind) for path in suspected}
    assert refused > 500
    assert not suspects & {("/usr/bin/env", "read"), (f"{home}/p/new", "write"), (f"{home}/p", "create")}


def _context() -> DenialContext:
    return denial_context(resolved_with(_request()), registry.declaration("bwrap"))


def _connections(*paths: str) -> list[RunEvent]:
    """A record as the launcher writes it: a character is a byte."""
    names = (each.encode().decode("latin-1") for each in paths)
    return [RunDenied(what=DeniedConnection(path=each, error=13)) for each in names]


def _hosts(*hosts: str, listed: Collection[str] = ()) -> list[RunEvent]:
    return [RunDenied(what=DeniedHost(host=each, listed=each in listed)) for each in hosts]


def test_a_socket_that_no_policy_can_list_has_no_edit(home: Path) -> None:
    paths = ("/srv/one", "/srv/it's", "/run/docker.sock", f"{home}/../one", "relative")
    found = cast("Any", denials.collect_denials(_connections(*paths), _context()))
    edits = {each.what: each.edit for each in found}
    assert edits == {**dict.fromkeys(paths), "/srv/one": "network: {unix_sockets: ['/srv/one']}"}


def test_a_host_that_yaml_would_read_otherwise_has_no_edit(home: Path) -> None:
    hosts = _hosts("one.example:80", "a'}, x: {'.example:80", "led.example:80", listed=["led.example:80"])
    told = cast("Any", denials.collect_denials(hosts, _context()))
    assert {each.what: each.edit for each in told} == {
        "one.example:80": "network: {allow: ['one.example:80']}",
        "a'}, x: {'.example:80": None,
        "led.example:80": "network: {allow: [{host: 'led.example', private: true}]}",
    }


REQUESTS: dict[str, str | None] = {
    "GET /repos/x": "{host: 'a.example', methods: [GET], paths: ['/repos/x']}",
    "GET /a/b/info/refs?service=git-upload-pack": "{host: 'a.example', git: read, repos: ['a/b']}",
    "POST /a/b.git/git-receive-pack": "{host: 'a.example', git: write, repos: ['a/b']}",
    "PUT /a/git-receive-pack": "{host: 'a.example', methods: [PUT], paths: ['/a/git-receive-pack']}",
    "POST /a/b/info/refs?service=git-receive-pack": None,
    "GET /info/refs?service=git-upload-pack": None,
    "POST /b%2fc/git-upload-pack": "{host: 'a.example', methods: [POST], paths: ['/b%2fc/git-upload-pack']}",
    "GET /**": None,
    "GET /a','/**": None,
    "TRACE /a": None,
}
"""The requests of a sandbox, each with the proposed rule: only for this method, service and path."""


@pytest.mark.parametrize(("request_", "rule"), REQUESTS.items())
def test_an_edit_for_a_request_opens_no_other_kind(home: Path, request_: str, rule: str | None) -> None:
    method, path = request_.split(" ")
    refused = DeniedRequest(host="a.example:443", method=method, path=path, reason="rule")
    (told,) = cast("Any", denials.collect_denials([RunDenied(what=refused)], _context()))
    assert told.edit == (rule and f"network: {{http: [..., {rule}]}}")
    if told.edit:
        layer(told.edit, kind="project", file="p")


def test_a_call_of_the_bridge_makes_one_line(home: Path) -> None:
    called = RunDenied(what=BridgedCall(program="gh a\nsandwright: forged", why="no\x1b[31m"))
    (told,) = cast("Any", denials.collect_denials([called], _context()))
    assert (told.what, told.why) == ("gh a\\nsandwright: forged", "no\\x1b[31m")


def test_more_paths_than_are_looked_at_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program inside chooses how many paths it tries."""
    monkeypatch.setattr(candidates, "_MOST", 3)
    lines = [f'{{"path": "/none/{number}", "found": "absent", "kinds": ["read"]}}' for number in range(10)]
    (tmp_path / "record").write_text("\n".join([*lines, '{"end": true, "calls": 10, "dropped": 2}', ""]))
    context = PathContext(names=(), rules={}, startup={})
    kept, unknown = candidate_denials(tmp_path / "record", context)
    assert [each.path for each in kept] == ["/none/0", "/none/1", "/none/2"]
    assert unknown == 7 + 2


HOSTS = (
    "web.example:443", "127.0.0.1:80", "localhost:5432", "[::1]:80", "169.254.169.254:80", "0.0.0.0:80",
    "10.0.0.1:80", "a_b.example:80", "com:443", "*.com:443", "*:443", "x.localhost:80", "web.example:0",
    "web.example:99999", "1.2.3:80", "[fe80::1]:443", "http://x:80", "-a.example:80", "a..b:80",
    "a" * 64 + ".example:443", "", ":443", "web.example", "[2001:db8::1]:443", "me@web.example:443",
)  # fmt: skip
SOCKETS = ("/tmp/s", "/tmp/a?b", "/tmp/a b", "/tmp/" + "n" * 200, "/", "/proc/self/x", "/tmp/#s: x", "/~/s")


def test_edits_that_the_policy_refuses_are_not_offered(home: Path) -> None:
    """`sandbox.yaml` accepts each offered edit."""
    events = [*_connections(*SOCKETS), *_hosts(*HOSTS), *_hosts(*HOSTS, listed=HOSTS)]
    found = cast("Any", denials.collect_denials(events, _context()))
    edits = {str(each.edit) for each in found if each.edit}
    for edit in edits:
        Policy.from_text(f"schema: 1\nmethod: bwrap\n{edit}\n")
    assert "network: {allow: ['web.example:443']}" in edits
    assert "network: {allow: [{host: 'web.example', private: true}]}" in edits
    assert "network: {unix_sockets: ['/tmp/s']}" in edits
    assert not [each for each in edits if "127.0.0.1" in each or "localhost" in each or "169.254" in each]
