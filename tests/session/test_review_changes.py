"""`sandwright-changes`: programs of a run in review list its changes, and get nothing else of the host.

Tests of cli/running_changes.py.
Tests of bridge/on_demand.py.
Tests of bridge/changes.py.
Tests of methods/shared/shims.py: the runs with this shim.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from session.conftest import Project
from session.test_run_containers import busybox_root
from support.waiting import until

METHODS = [
    pytest.param("bwrap", marks=pytest.mark.needs("bwrap")),
    pytest.param("oci", marks=pytest.mark.needs("runc", "busybox")),
    pytest.param("gvisor", marks=pytest.mark.needs("runsc", "busybox")),
]
POLICY = """schema: 1
method: {}
image: small
workspace: review
filesystem: {{read: [$PROJECT], write: [$PROJECT], deny: [$PROJECT/secrets]}}
"""
WORK = "echo two >>notes; rm old; mkdir -p pkg/sub; echo x >pkg/sub/a; echo y >.envrc; ln -s /etc out; "


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("root")
    busybox_root(made)
    return made


def _reviewed(project: Project, method: str) -> Project:
    project.policy.write_text(POLICY.format(method))
    (project.root / "notes").write_text("one\n")
    (project.root / "old").write_text("old\n")
    return project


def _bridges(project: Project) -> list[int]:
    """The bridges of the project's runs, by their working directory."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if b"sandwright.bridge" in words and str(project.home) in str((entry / "cwd").readlink()):
                found.append(int(entry.name))
    return found


@pytest.fixture(params=METHODS)
def place(request: pytest.FixtureRequest, project: Project, root: Path) -> Project:
    project.environment["SANDWRIGHT_ROOTFS"] = str(root)
    return _reviewed(project, request.param)


@pytest.fixture
def reviewed(project: Project) -> Iterator[Project]:
    """With bwrap."""
    yield _reviewed(project, "bwrap")
    bridges = project.home / ".cache/sandwright/sessions/bridge"
    assert [each for each in bridges.glob("*") if each.is_dir()] == []
    assert _bridges(project) == []


def _inside(project: Project, script: str, *options: str) -> str:
    ended = project.run("sh", "-c", script, options=options)
    assert ended.returncode == 0, ended.stderr.decode()
    return ended.stdout.decode()


def _outside(project: Project, *words: str) -> str:
    ended = project.sandwright("changes", *words)
    assert ended.returncode == 0, ended.stderr.decode()
    return ended.stdout.decode()


def test_it_prints_what_the_command_prints_outside(place: Project) -> None:
    """This holds for each form, in a directory that only the copy has, and after the same run has gone on."""
    said = _inside(
        place, WORK + "cd pkg/sub; for form in '' --json --diff; do sandwright-changes $form; done"
    )
    outside = [_outside(place), _outside(place, "--json"), _outside(place, "--diff")]
    assert said == "".join(outside)
    assert "held back by `apply`" in outside[0]
    assert "A pkg/sub/a" in outside[0]
    assert (place.root / "notes").read_text() == "one\n"


@pytest.mark.needs("bwrap")
def test_a_file_that_modes_close_is_listed_and_not_read(reviewed: Project) -> None:
    """Also another user's, for root: root inside has no right to open it, as root on the host has."""
    if os.geteuid() == 0:
        (reviewed.root / "closed").write_text("SECRET\n")
        os.chown(reviewed.root / "closed", 65534, 65534)
        (reviewed.root / "closed").chmod(0o600)
        close = "mv closed moved"
    else:
        close = "echo SECRET >moved; chmod 0 moved"
    script = f"{close}; cat moved; mkdir shut; echo x >shut/a; chmod 0 shut; "
    said = _inside(reviewed, script + "sandwright-changes; sandwright-changes --diff; chmod 700 shut")
    assert "SECRET" not in said
    assert "A moved" in said
    assert "shut/a" not in said


@pytest.mark.needs("bwrap")
def test_a_cached_run_has_it(reviewed: Project) -> None:
    for _ in range(2):
        assert "M notes" in _inside(reviewed, "echo two >>notes; sandwright-changes")


@pytest.mark.needs("bwrap")
def test_no_changes_yet(reviewed: Project) -> None:
    assert _inside(reviewed, "sandwright-changes").endswith(": 0 changes\n")


LANDLOCKS_GAPS = (
    "filesystem.protect", "filesystem.attributes", "filesystem.tmp-private", "filesystem.absent",
    "process.kernel",
)  # fmt: skip


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("option", ["--set=workspace=live", "--method=landlock"])
def test_it_is_only_where_a_bridge_is(reviewed: Project, option: str) -> None:
    """A live run needs none; Landlock's launcher mounts no shims."""
    reviewed.policy.write_text(
        "schema: 1\nmethod: bwrap\nworkspace: review\naccept_gaps:\n"
        + "".join(
            f"  - {{feature: {each}, method: landlock, reason: a test}}\n"
            for each in LANDLOCKS_GAPS
        )
    )  # fmt: skip
    ended = reviewed.run("sh", "-c", "command -v sandwright-changes", options=(option,))
    assert (ended.returncode, ended.stdout) == (127, b""), ended.stderr.decode()


@pytest.mark.needs("bwrap")
def test_the_hosts_network_leaves_no_way(reviewed: Project) -> None:
    ended = reviewed.run("sh", "-c", "command -v sandwright-changes", options=("--set=network.mode=host",))
    assert (ended.returncode, ended.stdout) == (127, b""), ended.stderr.decode()


HOSTILE = [
    "/etc", "--workspace other", "--workspace=other", "--html /tmp/x", "--policy /etc/passwd",
    "--json --json", "--json --diff", "--diff notes", "--", "''", "--help", "-c x", "../..", "--jso",
    "$(printf '\\377')",
]  # fmt: skip


@pytest.mark.needs("bwrap")
def test_other_arguments_are_refused(reviewed: Project) -> None:
    calls = "".join(f"sandwright-changes {each} 2>&1; echo $?; " for each in HOSTILE)
    said = _inside(reviewed, calls).splitlines()
    assert said[1::2] == ["126"] * len(HOSTILE)
    assert {each.split(":")[1] for each in said[::2]} <= {
        " usage",
        " arguments that are no UTF-8 are not passed on",
    }
    assert not Path("/tmp/x").exists()


@pytest.mark.needs("bwrap")
def test_a_wrong_argument_is_no_denial(reviewed: Project) -> None:
    """No policy would allow it."""
    denials, said = reviewed.denials("sh", "-c", "sandwright-changes --help; true")
    assert denials == []
    assert "credentials" not in said


@pytest.mark.needs("bwrap")
def test_changes_of_another_workspace_are_not_shown(reviewed: Project) -> None:
    _inside(reviewed, "echo x >first", "--workspace", "first")
    said = _inside(reviewed, "echo x >second; sandwright-changes", "--workspace", "second")
    assert "A second" in said
    assert "workspace second of" in said
    assert "first" not in said


@pytest.mark.needs("bwrap")
def test_escapes_reach_no_terminal(reviewed: Project) -> None:
    said = _inside(
        reviewed,
        "printf x >\"$(printf 'a\\033]0;t\\007\\nb')\"; sandwright-changes; sandwright-changes --diff",
    )
    assert "\x1b" not in said
    assert "\x07" not in said
    assert "\\x1b" in said


@pytest.mark.needs("bwrap")
def test_nothing_is_read_that_the_run_can_not_read(reviewed: Project) -> None:
    """Neither the target of a link, nor a denied path, nor the host's current edit is read."""
    (reviewed.root / "secrets/key").write_text("A-SECRET\n")
    outside = reviewed.home / "outside"
    outside.write_text("A-SECRET\n")
    links = f"ln -sf {outside} notes; ln -s {reviewed.root}/secrets l; "
    script = links + "ls -A; sandwright-changes --diff; sandwright-changes"
    said = _inside(reviewed, script)
    assert "A-SECRET" not in said
    assert "secrets/key" not in said


@pytest.mark.needs("bwrap")
def test_long_names_and_many_files_are_bounded(reviewed: Project) -> None:
    script = """
        name=$(printf %0250d 0); mkdir many; cd many
        i=0; while [ $i -lt 3000 ]; do : >$i; i=$((i + 1)); done
        i=0; while [ $i -lt 100 ]; do mkdir $name && cd $name || break; i=$((i + 1)); done
        sandwright-changes >/tmp/said; echo $? $(wc -c </tmp/said); tail -n 1 /tmp/said | cut -c -40
    """
    status, size, *last = _inside(reviewed, script).split()
    assert status == "0"
    assert int(size) < 8 << 20
    assert " ".join(last).startswith("and 2")


@pytest.mark.needs("bwrap")
def test_it_is_read_only(reviewed: Project) -> None:
    """No mode, time or content changes in the copy; the shims can't be changed inside."""
    script = (
        WORK
        + """
        chmod 500 pkg; chmod 400 notes
        list() { find . -exec stat -c '%n %a %Y %Z' {} +; }
        list >/tmp/before; sandwright-changes >/dev/null; list >/tmp/after; cmp /tmp/before /tmp/after
        echo x 2>/dev/null >/dev/.sandwright/bin/sandwright-changes; ls -A /dev/.sandwright
    """
    )
    assert _inside(reviewed, script).split() == [
        "bin",
        "listen",
        "port",
        "sandwright-enter",
        "shim",
        "socket",
    ]


@pytest.mark.needs("bwrap")
def test_no_process_starts_without_a_call(reviewed: Project) -> None:
    """The bridge starts with the first call; the audit log has each call."""
    log = reviewed.home / "audit"
    tree = reviewed.home / ".local/state/sandwright/workspaces"
    counts = []
    for script in ("true", "sandwright-changes >/dev/null"):
        started = reviewed.start(
            "sh", "-c", f"{script}; touch ready; read x <&3 || sleep 20", options=(f"--audit={log}",)
        )
        try:
            until(lambda: [*tree.glob("*/*/tree/ready")] != [], "the run did not begin")
            counts.append(len(_bridges(reviewed)))
            for each in tree.glob("*/*/tree/ready"):
                each.unlink()
        finally:
            started.send_signal(signal.SIGTERM)
            started.communicate(timeout=60)
    assert counts == [0, 1]
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert [each["program"] for each in events if each["event"] == "call"] == ["sandwright-changes"]


@pytest.mark.needs("bwrap")
def test_errors_of_the_host_are_not_told(reviewed: Project) -> None:
    """A message about the host's policy would quote it."""
    trees = reviewed.home / ".local/state/sandwright/workspaces"
    script = (
        "echo x >new; touch ready; until test -e go; do sleep 0.1; done; sandwright-changes 2>&1; echo $?"
    )
    started = reviewed.start("sh", "-c", script)
    until(lambda: [*trees.glob("*/*/tree/ready")] != [], "the run did not begin")
    reviewed.policy.write_text("schema: 1\nA-SECRET\n")
    (next(trees.glob("*/*/tree")) / "go").touch()
    said = started.communicate(timeout=120)[0].decode()
    assert said == (
        "sandwright-changes: cannot list the changes; on the host, `sandwright changes` says why\n125\n"
    )


@pytest.mark.needs("bwrap")
def test_a_killed_session_leaves_nothing(reviewed: Project) -> None:
    script = "sandwright-changes >/dev/null; touch ready; sleep 60"
    started = reviewed.start("sh", "-c", script)
    tree = reviewed.home / ".local/state/sandwright/workspaces"
    until(lambda: [*tree.glob("*/*/tree/ready")] != [], "the run did not begin")
    os.kill(started.pid, signal.SIGKILL)
    started.communicate(timeout=60)
    until(lambda: _bridges(reviewed) == [], "the bridge goes on")
    assert "A ready" in _outside(reviewed)


@pytest.mark.needs("bwrap")
def test_a_hostile_peer_ends_nothing(reviewed: Project) -> None:
    """The peer sends an invalid call, and many calls at once: the next one is answered."""
    script = """
        port=$(cat /dev/.sandwright/port)
        python3 -c "
import socket, sys
for data in (b'', b'x' * 100000, bytes([0, 0, 0, 1, 1, 1]), bytes([255] * 9)):
    with socket.create_connection(('127.0.0.1', int(sys.argv[1]))) as client:
        client.sendall(data)
" $port
        for i in 1 2 3 4 5 6; do sandwright-changes >/dev/null & done; wait
        sandwright-changes
    """
    assert _inside(reviewed, script).endswith(": 0 changes\n")
