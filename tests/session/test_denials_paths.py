"""`run --explain-denials`: each planted path is reported with its access and its rule, and no other path.

Tests of launcher/source/record.c.
Tests of session/explained.py.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from session.conftest import Project
from support import interpreters
from support.thorough import THOROUGH

COUNT = 20 if THOROUGH else 4
"""The number for each kind of denial. There are twice as many permitted accesses."""

TRIES = """
import contextlib, os, sys
home, count = sys.argv[1], int(sys.argv[2])
def write(path):
    with contextlib.suppress(OSError):
        open(path, "a").close()
def read(path):
    with contextlib.suppress(OSError):
        open(path).read()
for number in range(count):
    read(f"{home}/closed/{number}/key")      # hidden, with its directory
    read(f"secret-{number}")                 # masked
    write(f"kept-{number}")                  # read-only, by readonly
    write(f"{home}/seen/{number}")           # read-only, as nothing lets it be written
    with contextlib.suppress(OSError):
        os.mkdir(f"{home}/seen/new-{number}")
    with contextlib.suppress(OSError):
        os.unlink(f"{home}/seen/gone-{number}")
    write(f"package-{number}/.bashrc")       # no protected name there
    # allowed, or refused by nobody
    read(f"{home}/seen/{number}")
    read(f"kept-{number}")
    write(f"mine-{number}")
    os.rename(f"mine-{number}", f"moved-{number}")
    os.unlink(f"moved-{number}")
    read(f"{home}/absent-{number}")
    read(f"/absent-{number}/in")
    os.stat(f"secret-{number}")
    write(f"/tmp/{number}")
    read(f"/tmp/{number}")
    write("/dev/null")
    read("/proc/self/status")
    with contextlib.suppress(OSError):
        os.mkdir(f"{home}/seen")
write(".bashrc")                             # a placeholder stands in for it
write(".git/config")
"""

pytestmark = pytest.mark.needs("bwrap")


def _run(project: Project, script: str, *words: str, policy: str) -> tuple[list[dict[str, Any]], str]:
    project.policy.write_text(policy)
    options = ("--trust-policy", "--explain-denials")
    return project.denials(interpreters.INSIDE, "-P", "-c", script, *words, options=options)


@pytest.fixture
def policy(project: Project) -> str:
    """A policy with paths of each kind."""
    home, root = project.home, project.root
    for number in range(COUNT):
        (home / "closed" / str(number)).mkdir(parents=True)
        (home / "closed" / str(number) / "key").write_text("key")
        (root / f"package-{number}").mkdir()
        (home / "seen").mkdir(exist_ok=True)
        for path in (root / f"secret-{number}", root / f"kept-{number}", home / "seen" / str(number)):
            path.write_text("content")
        (home / "seen" / f"gone-{number}").write_text("content")
    denied = [f"{home}/closed/{number}" for number in range(COUNT)]
    masked = [f"{root}/secret-{number}" for number in range(COUNT)]
    kept = [f"{root}/kept-{number}" for number in range(COUNT)]
    return (
        "schema: 1\nmethod: bwrap\nfilesystem:\n  write: [$PROJECT]\n"
        f"  read: [/, '{home}/seen']\n"
        f"  deny:\n{''.join(f'    - {each}{chr(10)}' for each in (*denied, *masked))}"
        f"  readonly:\n{''.join(f'    - {each}{chr(10)}' for each in kept)}"
    )


def test_planted_paths(project: Project, policy: str) -> None:
    home, root, file = project.home, project.root, project.policy
    told, said = _run(project, TRIES, str(home), str(COUNT), policy=policy)
    found = {(each["what"], each["access"], each["how"], each["field"], each["source"]) for each in told}
    expected = set()
    for number in range(COUNT):
        line = 7 + number
        closed = f"project {file}:{line}:7"
        masked = f"project {file}:{line + COUNT}:7"
        kept = f"project {file}:{line + 2 * COUNT + 1}:7"
        seen = f"project {file}:5:13"
        expected |= {
            (f"{home}/closed/{number}/key", "read", "hidden", "filesystem.deny", closed),
            (f"{root}/secret-{number}", "read", "masked", "filesystem.deny", masked),
            (f"{root}/kept-{number}", "write", "read-only", "filesystem.readonly", kept),
            *(
                (f"{home}/seen/{name}", "write", "read-only", "filesystem.read", seen)
                for name in (f"{number}", f"new-{number}", f"gone-{number}")
            ),
        }
    protected = {each for each in found if each[3] == "filesystem.protect"}
    assert {each[:3] for each in protected} == {
        (f"{root}/.bashrc", "write", "placeholder"),
        (f"{root}/.git/config", "write", "read-only"),
    }
    assert all(each[4].startswith("preset default presets/default.yaml:") for each in protected)
    assert found - protected == expected
    assert said.count("sandwright: refused: to ") == 20
    assert project.records() == [], "nothing of the record is left"
    assert f"{len(told) - 20} more kinds" in said


def test_its_edits_allow_what_they_say(project: Project, policy: str) -> None:
    told, _ = _run(project, TRIES, str(project.home), str(COUNT), policy=policy)
    edits = {each["what"]: each for each in told if each["edit"]}
    each = edits[f"{project.home}/closed/0/key"]
    assert each["edit"] == f"filesystem: {{read: ['{each['what']}']}}"
    assert each["opens"] == "nothing but this file, to be read"
    new = edits[f"{project.home}/seen/new-0"]
    assert new["edit"] == f"filesystem: {{write: ['{project.home}/seen']}}"
    assert new["opens"] == f"all that is in {project.home}/seen, now and later, to be read and changed"
    again, _ = _run(
        project, TRIES, str(project.home), str(COUNT),
        policy=policy.replace(f", '{project.home}/seen']", f", '{each['what']}']").replace(
            "write: [$PROJECT]", f"write: [$PROJECT, '{project.home}/seen']"
        ),
    )  # fmt: skip
    left = {one["what"] for one in again}
    assert each["what"] not in left
    assert not {name for name in left if name.startswith(f"{project.home}/seen")}
    assert f"{project.home}/closed/1/key" in left


def test_what_the_host_refuses_too_is_not_told(project: Project) -> None:
    """Files of a directory that is read-only outside as well: no rule would change that."""
    script = "import contextlib\nwith contextlib.suppress(OSError): open('/sys/kernel/made', 'w')\n"
    found, said = _run(project, script, policy="schema: 1\nmethod: bwrap\n")
    assert (found, "refused:" in said) == ([], False)


def test_where_paths_can_not_be_told_nothing_is_run(project: Project) -> None:
    project.policy.write_text("schema: 1\nmethod: noop\nreason: a test\n")
    ended = project.run("touch", "made", options=("--explain-denials", "--trust-policy"))
    assert ended.returncode == 125
    assert b"--explain-denials: noop cannot report paths: noop refuses nothing" in ended.stderr
    assert not Path(project.root / "made").exists()


@contextlib.contextmanager
def _stalled(place: Path) -> Iterator[None]:
    """A file system that never answers: its server is not running."""
    place.mkdir(parents=True)
    device = os.open("/dev/fuse", os.O_RDWR)
    try:
        options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
        library = ctypes.CDLL(None, use_errno=True)
        if library.mount(b"stalled", os.fsencode(place), b"fuse", 0, options) != 0:
            pytest.skip(f"mount(2) of a file system of ours: {os.strerror(ctypes.get_errno())}")
        yield
    finally:
        os.close(device)
        subprocess.run(["umount", "-l", str(place)], check=False, timeout=30)


STALLED = """
import os, sys, threading, time
def waits():
    try:
        open(sys.argv[1])
    except OSError as fault:
        print("ended", fault.errno, flush=True)
for _ in range(3):
    threading.Thread(target=waits, daemon=True).start()
time.sleep(0.5)
for number in range(20):
    open(f"made-{number}", "w").close()
print("went on", flush=True)
os._exit(0)
"""


@pytest.mark.skipif(not Path("/dev/fuse").exists() or os.geteuid() != 0, reason="needs /dev/fuse, and root")
def test_a_path_that_nobody_answers_for_holds_up_no_other(project: Project) -> None:
    """The supervisor looks up the path of a call, which may take any time on such a file system."""
    shown = project.home.parent / "shown"
    project.policy.write_text(
        f"schema: 1\nmethod: bwrap\nfilesystem: {{write: [$PROJECT], read: [/, {shown}]}}\n"
    )
    words = (interpreters.INSIDE, "-P", "-c", STALLED, f"{shown}/slow/file")
    with _stalled(shown / "slow"):
        ended = project.run(*words, options=("--trust-policy", "--explain-denials"))
    assert (ended.stdout, ended.returncode) == (b"went on\n", 0), ended.stderr.decode()


def test_the_key_that_lifts_a_rule_is_named(project: Project) -> None:
    """Three cases have no edit: a rule of the policy itself, a protected name, a file of the home."""
    (project.root / ".env").write_text("secret")
    script = (
        "import contextlib, sys\n"
        "for path, mode in (('.env', 'r'), ('.pre-commit-config.yaml', 'w'), (sys.argv[1], 'w')):\n"
        "    with contextlib.suppress(OSError):\n"
        "        open(path, mode)\n"
    )
    new = f"{project.home}/new"
    policy = (
        f"schema: 1\nmethod: bwrap\nfilesystem: {{read: [/, '{project.home}'], write: [$PROJECT], "
        "deny: [$PROJECT/.env]}\n"
    )
    found, said = _run(project, script, new, policy=policy)
    assert {each["what"]: (each["edit"], each.get("advice")) for each in found} == {
        f"{project.root}/.env": (None, "to open it, remove it from filesystem.deny"),
        f"{project.root}/.pre-commit-config.yaml": (
            None,
            "to open it, add filesystem.unprotect: "
            f"[{{path: {project.root}/.pre-commit-config.yaml, reason: …}}]",
        ),
        new: (
            None,
            f"create {new} on the host first; then `filesystem: {{write: ['{new}']}}` allows it; "
            "or give the project a home of its own: `run --preset own-home`",
        ),
    }
    assert "no known edit" not in said
    Path(new).touch()
    opened = policy.replace("[$PROJECT]", f"[$PROJECT, '{new}']")
    found, _ = _run(project, script, new, policy=opened)
    assert new not in {each["what"] for each in found}, "the advice helps"


def test_a_cache_of_a_tool_is_proposed_by_its_word(project: Project) -> None:
    """The proposal is not the whole of `~/.cache`, in which the tool could not create its directory."""
    (project.home / ".cache").mkdir(exist_ok=True)
    script = (
        "import contextlib, os, sys\n"
        "with contextlib.suppress(OSError):\n"
        "    os.mkdir(os.environ.get('CCACHE_DIR', sys.argv[1]))\n"
    )
    path = f"{project.home}/.cache/ccache"
    policy = f"schema: 1\nmethod: bwrap\nfilesystem: {{read: [/, '{project.home}'], write: [$PROJECT]}}\n"
    found, _ = _run(project, script, path, policy=policy)
    assert [(each["what"], each["edit"], each["advice"]) for each in found] == [
        (path, None, "to keep a cache of ccache for this project, add `cache: [ccache]`"),
    ]
    found, _ = _run(project, script, path, policy=f"{policy}cache: [ccache]\n")
    assert found == [], "the advice helps"
