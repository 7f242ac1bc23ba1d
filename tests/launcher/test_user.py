"""The launcher of an account: the data that root's half accepts from its caller, and leftovers after a kill.

Tests of launcher/source/user.c.
Tests of launcher/source/user_first.c.
Tests of launcher/source/user_root.c.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from sandwright import process
from sandwright.launcher import LAUNCH
from sandwright.launcher.plan import parse_plan, plan_bytes
from sandwright.launcher.run_document import RunDocument
from sandwright.methods.user.render import DedicatedAccount, account_for
from sandwright.methods.user.setup import SharedTrees, plan_account, plan_removal
from sandwright.session.events import DeniedCall, RunDenied, read_events
from support.launchers import launcher_of
from support.locks import accounts_change
from support.ownedprojects import POLICY, WAIT, Project, digests, planted
from support.processtrees import naming
from support.rundocuments import launching
from support.thorough import THOROUGH
from support.waiting import until
from support.weakening import LATE, edited

pytestmark = [pytest.mark.needs("useradd", "cc"), pytest.mark.exclusive("accounts")]

UID = 64321
"""The number of a user that does not exist here."""
POINTS = 1000 if THOROUGH else 8


@dataclass(frozen=True)
class Person:
    """The project of a user other than root, with a stand-in for `sudo`."""

    project: Project
    bin: Path
    launcher: Path

    @property
    def account(self) -> DedicatedAccount:
        return account_for(str(self.project.root), UID)

    def environ(self, **more: str) -> dict[str, str]:
        return {**self.project.environ, "PATH": f"{self.bin}:/usr/bin:/bin", **more}

    def start(self, *words: str, **more: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [self.launcher, *words],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.project.root,
            env=self.environ(**more), user=UID, group=UID, extra_groups=[],
        )  # fmt: skip

    def run(self, *words: str, **more: str) -> tuple[int, bytes, bytes]:
        with self.start(*words, **more) as started:
            out, said = started.communicate(timeout=WAIT)
        return started.returncode, out, said

    def hook(self, script: str) -> contextlib.AbstractContextManager[None]:
        """The commands that root runs between the launcher's two halves."""
        return _hook(self.bin / "hook", script)


@contextlib.contextmanager
def _hook(path: Path, script: str) -> Iterator[None]:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    try:
        yield
    finally:
        path.unlink()


@pytest.fixture(scope="module")
def person() -> Iterator[Person]:
    if os.geteuid() != 0:
        pytest.skip("only root makes accounts")
    base = Path(tempfile.mkdtemp(prefix="sandwright-test-", dir="/var/tmp"))
    base.chmod(0o755)
    project = planted(base)
    (base / "bin").mkdir()
    source = Path(__file__).with_name("sudo.c")
    process.run("cc", "-Wall", "-Wextra", "-Werror", "-o", str(base / "bin/sudo"), str(source), timeout=WAIT)
    (base / "bin/sudo").chmod(0o4755)
    for path in (project.root, project.home, *project.root.rglob("*"), *project.home.rglob("*")):
        os.chown(path, UID, UID)
    launcher = launcher_of(
        POLICY, "user", base / "out", project=project.root, environ=project.environ,
        uid=UID, gid=UID, user="somebody",
    )  # fmt: skip
    found = Person(project, base / "bin", launcher)
    with accounts_change():
        plan_account(found.account, SharedTrees(project.root, (), UID)).execute()
    try:
        yield found
    finally:
        with accounts_change():
            plan_removal(found.account).execute()
        shutil.rmtree(base)


def test_somebody_becomes_the_account_by_sudo(person: Person) -> None:
    """The environment is not passed in arguments, and the status is the command's."""
    script = 'id -un; echo "$TERM"; tr "\\0" " " </proc/1/cmdline; exit 7'
    status, out, said = person.run("sh", "-c", script, TERM="only-here", LOST="lost")
    assert (status, out.decode().split()[:2], said) == (7, [person.account.name, "only-here"], b"")
    assert out.decode().count("only-here") == 1


def test_a_signal_and_an_end_reach_the_command(person: Person) -> None:
    script = "trap 'echo got; exit 3' USR1; echo begun; while :; do sleep 0.05; done"
    with person.start("sh", "-c", script) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"begun\n"
        started.send_signal(signal.SIGUSR1)
        out, _ = started.communicate(timeout=WAIT)
    assert (started.returncode, out) == (3, b"got\n")


def test_sudo_that_starts_nothing_is_no_status_of_the_command(person: Person) -> None:
    asked = person.bin / "asked"
    with person.hook(f"[ -e {asked} ] && exit 1; touch {asked}"):
        assert person.run("true")[0] == 125
    asked.unlink()


def test_nobody_but_root_is_its_half(person: Person) -> None:
    status, _, said = person.run("--as-root", "3", "true")
    assert (status, b"root runs this part of the launcher" in said) == (125, True)


def test_root_s_half_takes_nothing_from_another_program(person: Person) -> None:
    """A caller that isn't this program has no descriptor to give, and no environment variable counts."""
    ran = person.bin / "ran"
    for number in ("0", "3", "-1", "x", "99999999999"):
        ended = subprocess.run(
            [person.bin / "sudo", "-n", "--", person.launcher, "--as-root", number, "cat"],
            env=person.environ(), user=UID, group=UID, extra_groups=[],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=WAIT, check=False,
        )  # fmt: skip
        assert (ended.returncode, ended.stdout) == (125, b"")
        assert b"the launcher has exited" in ended.stderr
        assert not ran.exists()


@pytest.mark.parametrize("name", ["plan", "seccomp.bpf", "mounts"])
def test_root_s_half_looks_at_the_artifacts_itself(person: Person, name: str) -> None:
    path = person.launcher.with_name(name)
    before, asked = path.read_bytes(), person.bin / "asked"
    with person.hook(f"[ ! -e {asked} ] || echo >>{path}; touch {asked}"):
        status, out, said = person.run("echo", "ran")
    asked.unlink()
    path.write_bytes(before)
    assert (status, out) == (125, b"")
    assert f"{path} was changed after it was rendered".encode() in said


def test_no_link_of_the_account_s_is_followed(person: Person) -> None:
    """A file is replaced by a link between the launcher's checks and root's mounts."""
    git, asked, other = person.project.root / ".git", person.bin / "asked", person.bin / "other"
    (other / "hooks").mkdir(parents=True)
    change = f"mv {git} {git}.before && ln -s {other} {git}"
    with person.hook(f"if [ -e {asked} ]; then {change}; fi; touch {asked}"):
        status, out, said = person.run("echo", "ran")
    asked.unlink()
    git.unlink()
    Path(f"{git}.before").rename(git)
    shutil.rmtree(other)
    assert (status, out) == (125, b"")
    assert b"/.git" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([b"unknown", b"/x"], b"the plan has an unknown step 'unknown'"),
        ([b"bind", b"/"], b"the plan ends too early"),
        ([b"bind", b"/no/such", b"/"], b"cannot show /no/such inside: No such file or directory"),
        ([b"tmpfs", b"/../../etc", b"0755"], b"/../../etc: Cross-device link"),
        ([b"symlink", b"x", b"/../../tmp/x"], b"cannot create "),
    ],
    ids=["no-step", "too-short", "no-source", "above", "link-above"],
)
def test_a_plan_that_can_not_be_followed_is_refused(person: Person, words: list[bytes], said: bytes) -> None:
    plan = person.launcher.with_name("plan")
    before, own = plan.read_bytes(), person.launcher.with_name("launch.plan").read_bytes()
    plan.write_bytes(b"".join(word + b"\0" for word in words))
    digests(person.launcher)
    status, out, error = person.run("echo", "ran")
    plan.write_bytes(before)
    person.launcher.with_name("launch.plan").write_bytes(own)
    assert (status, out) == (125, b"")
    assert said in error


def test_few_open_files_are_the_command_s(person: Person) -> None:
    """With fewer than its own, the first process would never see an end (poll(2), EINVAL)."""
    file = person.launcher.with_name("launch.plan")
    before = file.read_bytes()
    file.write_bytes(plan_bytes(dataclasses.replace(parse_plan(before), files=2)))
    try:
        with person.start("true") as started:
            try:
                status = started.wait(10)
            finally:
                started.kill()
    finally:
        file.write_bytes(before)
    assert status in (125, 126, 127), "no filter can have a listener, no program its libraries"


def test_a_script_without_a_first_line_is_a_shell_s(person: Person) -> None:
    script = person.project.root / "plain"
    script.write_text("echo plain\n")
    script.chmod(0o755)
    assert person.run("./plain")[:2] == (0, b"plain\n")


def test_what_root_runs_ends_with_sudo(person: Person) -> None:
    """The launcher, which is not root, cannot signal the root half."""
    word = f"{os.getpid()}271828"
    with person.start("sh", "-c", f"echo begun; sleep {word}") as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"begun\n"
        (sudo,) = [each for each in naming(word) if Path(f"/proc/{each}/exe").readlink().name == "sudo"][:1]
        os.kill(sudo, signal.SIGKILL)
        _, said = started.communicate(timeout=WAIT)
    assert (started.returncode, said) == (137, b"")
    assert naming(word) == {}
    assert not (person.project.root / ".bashrc").exists()


@pytest.mark.timeout(3600 if THOROUGH else 600)
@pytest.mark.parametrize("starter", [False, True], ids=["one", "two"])
def test_whoever_is_killed_nothing_is_left(person: Person, *, starter: bool) -> None:
    """At any moment, in any order, for one process or two at once; the next run succeeds."""
    source = random.Random(f"{starter}")
    placeholders = [person.project.root / name for name in (".bashrc", ".git/commondir")]
    for point in range(POINTS):
        word = f"{os.getpid()}{int(starter)}{point:05}314159"
        with person.start("sh", "-c", f"sleep {word} & echo begun; sleep {word}") as started:
            assert started.stdout is not None
            if point % 2:
                started.stdout.readline()
            time.sleep(source.uniform(0, 0.06))
            chain = sorted(naming(word))  # from the launcher to the command
            for victim in source.sample(chain, k=min(len(chain), 2 if starter else 1)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(victim, signal.SIGKILL)
            if not chain or (started.poll() is None and len(naming(word)) > 4):
                started.terminate()
            started.communicate(timeout=WAIT)
        until(lambda word=word: not naming(word), f"point {point}: something goes on")  # type: ignore[misc]
        assert (again := person.run("echo", "next"))[:2] == (0, b"next\n"), (point, again)
        assert not [path for path in placeholders if path.exists()], point
    mounts = Path("/proc/self/mountinfo").read_text()
    assert str(person.account.place) not in mounts


def test_roots_half_counts_what_it_refuses_in_its_callers_memory(person: Person) -> None:
    file = person.project.home / "run" / "denials"
    launch = launching(person.launcher, RunDocument(denials=str(file)))
    status, _, said = replace(person, launcher=Path(launch)).run("unshare", "--user", "true")
    assert (status, b"Operation not permitted" in said) == (1, True), said
    assert file.stat().st_uid == UID
    event = next(read_events(file))
    assert isinstance(event, RunDenied)
    assert isinstance(event.what, DeniedCall)
    assert (event.what.error, event.count, event.what.filter) == (1, 1, 0)
    file.unlink()


def test_a_supervisor_of_roots_half_that_begins_late(person: Person) -> None:
    before = person.launcher.read_bytes()
    person.launcher.write_bytes(edited(LAUNCH, (LATE,)))
    try:
        assert person.run("sh", "-c", "exit 7") == (7, b"", b"")
    finally:
        person.launcher.write_bytes(before)
