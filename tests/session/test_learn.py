"""`learn`: a record shows every request, whatever runs inside; no proposal exceeds the policy.

Tests of launcher/source/record.c.
Tests of launcher/source/recorded.c.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from sandwright.session.access_log import Access, AccessLog, access_log_lines, read_access_log
from session.conftest import Project
from support import interpreters

INSIDE = Path(__file__).with_name("inside_learn.py")
pytestmark = pytest.mark.needs("bwrap")


@pytest.fixture
def learnt() -> Iterator[Project]:
    """A project with files to request, inside and outside; not below /tmp, which the sandbox replaces."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield _made(Path(folder))


def _made(folder: Path) -> Project:
    project = Project(folder / "home" / "p", folder / "home", folder / "run")
    project.runtime.mkdir(mode=0o700)
    (project.root / ".git").mkdir(parents=True)
    project.policy.write_text("schema: 1\nmethod: bwrap\n")
    (project.root / "recorded.py").write_bytes(INSIDE.read_bytes())
    for name in ("read.txt", "looked", "moved", "listed/below", "target/inner"):
        (project.root / name).parent.mkdir(exist_ok=True)
        (project.root / name).write_text("x")
    (project.root / "link").symlink_to("target")
    (project.home / ".ssh").mkdir()
    (project.home / ".ssh" / "key").write_text("secret")
    return project


def _learn(project: Project, *words: str, options: tuple[str, ...] = ()) -> tuple[AccessLog, str, str]:
    """The record, the change of the policy, and the output."""
    file = project.home / "record"
    recorded = ("--record", str(file), "--", interpreters.INSIDE, "-P", *words)
    ended = project.sandwright("learn", *options, *recorded)
    assert ended.returncode == 0, ended.stderr.decode()
    return read_access_log(file), ended.stdout.decode(), ended.stderr.decode()


def _by_path(record: AccessLog) -> dict[str, Access]:
    return {each.path: each for each in record.accesses}


def test_each_kind_of_access_is_seen(learnt: Project) -> None:
    record, _, said = _learn(learnt, "recorded.py", "kinds", options=("--no-confirm",))
    found, root = _by_path(record), str(learnt.root)
    seen = {name: (found[f"{root}/{name}"].found, set(found[f"{root}/{name}"].kinds) - {"look"}) for name in (
        "read.txt", "new.txt", "made/deep", "made/deep/file", "listed", "moved", "made/moved", "listed/below",
    )}  # fmt: skip
    assert seen == {
        "read.txt": ("file", {"read"}),
        "new.txt": ("absent", {"create", "write"}),
        "made/deep": ("absent", {"create"}),
        "made/deep/file": ("absent", {"create", "write"}),
        "listed": ("directory", {"list"}),
        "moved": ("file", {"remove"}),
        "made/moved": ("absent", {"create"}),
        "listed/below": ("file", {"read"}),
    }
    assert found[f"{root}/looked"].kinds == {"look"}
    assert found[f"{root}/link/inner"].real == f"{root}/target/inner"
    assert "exec" in found["/bin/true"].kinds
    contacts = {(each.action, each.type, each.address, each.port) for each in record.contacts}
    assert {("connect", "tcp", "192.0.2.7", 443), ("send", "udp", "192.0.2.8", 53)} <= contacts
    assert record.whole
    assert record.dropped == record.unresolved == 0
    assert f"  read {learnt.home}/.ssh/key: denied" in said
    assert f"  write {learnt.home}/outside: not writable" in said
    assert "address tcp 192.0.2.7 port 443: no way but the proxy" in said


def test_only_addresses_of_ip_are_written_as_such(learnt: Project) -> None:
    record, _, said = _learn(learnt, "recorded.py", "families", options=("--no-confirm",))
    sent = {(each.type, each.address) for each in record.contacts if each.action == "send"}
    assert sent == {("udp", "::ffff:192.0.2.9"), ("udp", "")}
    assert "address udp ::ffff:192.0.2.9 port 53: no way but the proxy" in said


def test_the_proposal_is_the_least_and_holds(learnt: Project) -> None:
    _, change, said = _learn(learnt, "recorded.py", "kinds", options=("--write",))
    assert "under the proposal: passes" in said
    assert "system calls: strict suffices" in said
    policy = yaml.safe_load(learnt.policy.read_text())
    assert policy["process"] == {"seccomp": "strict"}
    assert policy["filesystem"]["write"] == ["$PROJECT"]
    assert not any("ssh" in each or each in ("/", "~", "$HOME") for each in policy["filesystem"]["read"])
    assert change.startswith("--- sandbox.yaml\n+++ sandbox.yaml\n")
    hidden = learnt.home / "hidden"
    hidden.write_text("x")
    ended = learnt.run("cat", str(hidden))
    assert b"No such file" in ended.stderr


def test_names_are_themselves_in_the_record_and_in_what_is_shown(learnt: Project) -> None:
    record, change, said = _learn(learnt, "recorded.py", "names", options=("--no-confirm",))
    made = {each.path for each in record.accesses if "create" in each.kinds}
    names = ("a\n- b", 'b": ["read"]}\n{"path": "x', "c\udcff\x1b[31m", "# d", "e\\u0041")
    assert {f"{learnt.root}/{name}" for name in names} <= made
    assert all(each == "\n" or each.isprintable() for each in change + said)


def test_a_flood_is_counted_and_told(learnt: Project) -> None:
    record, _, said = _learn(learnt, "recorded.py", "flood", "17500", options=("--no-confirm",))
    assert record.dropped > 0
    assert f"dropped: {record.dropped} calls, so the proposal may lack something" in said


def test_a_link_is_never_granted_for_what_it_leads_to(learnt: Project) -> None:
    record, change, said = _learn(learnt, "recorded.py", "relink")
    assert any(each.path == f"{learnt.root}/turned" for each in record.accesses)
    assert "ssh" not in change
    assert "turned" not in change
    assert f"  read {learnt.home}/.ssh/key: denied" in said


def test_a_link_to_a_directory_opens_no_more_of_it_than_was_read(learnt: Project) -> None:
    """A policy's path counts by its target: the link alone would open the whole home."""
    learnt.policy.write_text("schema: 1\nmethod: bwrap\nfilesystem: {write: [$PROJECT, ~/w]}\n")
    for name in ("w", "data"):
        (learnt.home / name).mkdir()
    for name in ("read", "other"):
        (learnt.home / "data" / name).write_text(name)
    (learnt.home / "w" / "home").symlink_to(learnt.home)
    words = ("--write", "--trust-policy", "--", "cat", str(learnt.home / "w/home/data/read"))
    ended = learnt.sandwright("learn", *words)
    assert ended.returncode == 0, ended.stderr
    assert learnt.run("cat", words[-1]).stdout == b"read"
    ended = learnt.run("cat", str(learnt.home / "data/other"))
    assert b"No such file" in ended.stderr


def test_an_address_that_is_too_long_says_nothing_of_the_launchers_memory(learnt: Project) -> None:
    record, _, _ = _learn(learnt, "recorded.py", "long_address", options=("--no-confirm",))
    assert {each.address for each in record.contacts if each.action == "listen"} == {"a" * 108}


def test_no_record_is_written_through_a_link_of_the_project(learnt: Project) -> None:
    """The command could give it another target by the end."""
    (learnt.home / "records").mkdir()
    (learnt.root / "out").symlink_to("../records")
    ended = learnt.sandwright("learn", "--no-confirm", "--record", "out/record", "--", "true")
    assert ended.returncode == 13, ended.stderr
    assert b"out is a symbolic link to ../records: name its target" in ended.stderr
    ended = learnt.sandwright("learn", "--no-confirm", "--record", "../records/record", "--", "true")
    assert ended.returncode == 0, ended.stderr
    assert read_access_log(learnt.home / "records" / "record").whole


def test_nothing_inside_reaches_the_recorder(learnt: Project) -> None:
    code = "import os; print(sorted(os.environ)); print(os.listdir('/proc/self/fd'))"
    ended = learnt.sandwright("learn", "--no-confirm", "--", interpreters.INSIDE, "-P", "-c", code)
    assert ended.returncode == 0
    assert b"['0', '1', '2', '3']" in ended.stderr


def test_exceptions_of_the_current_policy_are_not_granted(learnt: Project) -> None:
    """A path that the current policy opens and `default` denies is not granted either."""
    learnt.policy.write_text(json.dumps({
        "schema": 1, "method": "bwrap",
        "filesystem": {"read": ["/"], "unprotect": [{"path": "~/.ssh", "reason": "a test"}]},
    }))  # fmt: skip
    before = learnt.policy.read_text()
    ended = learnt.sandwright("learn", "--write", "--", "cat", str(learnt.home / ".ssh" / "key"))
    assert ended.returncode == 12
    assert learnt.policy.read_text() == before, "nothing is written where the command does not pass"
    said = ended.stderr.decode()
    assert f"  read {learnt.home}/.ssh/key: denied" in said
    added = [line for line in ended.stdout.decode().splitlines() if "learned: " in line]
    assert added
    assert not any("ssh" in line for line in added)


def test_records_of_several_runs_come_together(learnt: Project) -> None:
    one, other = learnt.home / "one", learnt.home / "other"
    data = learnt.home / "data"
    for name in ("a", "b"):
        (data / name).mkdir(parents=True)
        (data / name / "file").write_text("x")
    for file, name in ((one, "a"), (other, "b")):
        words = ("learn", "--no-confirm", "--record", str(file), "--", "cat", str(data / name / "file"))
        assert learnt.sandwright(*words).returncode == 0
    ended = learnt.sandwright("learn", "--merge", str(one), "--merge", str(other))
    assert ended.returncode == 0, ended.stderr
    assert b"~/data/a/file" in ended.stdout
    assert b"~/data/b/file" in ended.stdout


def test_a_superfluous_grant_is_taken_out(learnt: Project) -> None:
    needed, other = learnt.home / "needed", learnt.home / "other"
    needed.write_text("x")
    other.write_text("x")
    words = ("sh", "-c", 'cat "$0" 2>&- || true; cat "$1"', str(other), str(needed))
    ended = learnt.sandwright("learn", "--minimal", "--", *words)
    assert ended.returncode == 0, ended.stderr
    assert b"without ~/needed: the command fails" in ended.stderr
    assert b"without ~/other: it passes, so this grant was removed" in ended.stderr
    assert b"other" not in ended.stdout


def test_a_variable_that_is_not_needed_is_taken_out(learnt: Project) -> None:
    """The program's reads of variables are invisible; the effect of a variable's absence is not."""
    passed = '["...", NEEDED, "OTHER_*"]'
    learnt.policy.write_text(f"schema: 1\nmethod: bwrap\nenvironment: {{pass: {passed}}}\n")
    learnt.environment |= {"NEEDED": "1", "OTHER_ONE": "1"}
    words = ("--trust-policy", "--minimal", "--write", "--", "sh", "-c", 'test "$NEEDED" = 1')
    ended = learnt.sandwright("learn", *words)
    assert ended.returncode == 0, ended.stderr
    assert b"without NEEDED: the command fails" in ended.stderr
    assert b"without OTHER_*: it passes, so this grant was removed" in ended.stderr
    after = yaml.safe_load(learnt.policy.read_text())["environment"]["pass"]
    assert "NEEDED" in after
    assert {"TERM", "PATH"} <= set(after)
    assert "OTHER_*" not in after


def test_nothing_is_written_through_a_link_or_where_the_sandbox_may_write(learnt: Project) -> None:
    ended = learnt.sandwright("learn", "--no-confirm", "--record", "record", "--", "true")
    assert b"--record record is where the sandbox may write" in ended.stderr
    assert not (learnt.root / "record").exists()
    elsewhere = learnt.home / "elsewhere.yaml"
    learnt.policy.rename(elsewhere)
    before = elsewhere.read_text()
    learnt.policy.symlink_to(elsewhere)
    (learnt.home / "record").write_text(
        "".join(f"{line}\n" for line in access_log_lines(AccessLog(calls=frozenset({0}), whole=True)))
    )
    ended = learnt.sandwright("learn", "--merge", str(learnt.home / "record"), "--write")
    assert b"is a symbolic link: nothing is written through one" in ended.stderr
    assert elsewhere.read_text() == before


def test_what_was_asked_for_is_one_line(learnt: Project) -> None:
    path = f"{learnt.home}/.ssh/a\nsandwright: forged\x1b[31m"
    record = AccessLog((Access(path, path, "absent", frozenset({"read"})),), whole=True)
    (learnt.home / "record").write_text("".join(f"{line}\n" for line in access_log_lines(record)))
    ended = learnt.sandwright("learn", "--merge", str(learnt.home / "record"))
    assert ended.returncode == 0, ended.stderr
    assert f"  read {learnt.home}/.ssh/a\\nsandwright: forged\\x1b[31m: denied\n".encode() in ended.stderr


def test_a_record_without_a_call_is_none(learnt: Project) -> None:
    for content in ("", "".join(f"{line}\n" for line in access_log_lines(AccessLog(whole=True)))):
        (learnt.home / "record").write_text(content)
        ended = learnt.sandwright("learn", "--merge", str(learnt.home / "record"))
        assert ended.returncode == 64, ended.stderr
        assert b"record is no record of a run: no call is in it" in ended.stderr
