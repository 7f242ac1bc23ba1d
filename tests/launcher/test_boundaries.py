"""A launcher with odd parents, with misleading names, and with signals at the wrong moment.

Tests of launcher/source/shims.c: only a socket is the bridge's channel.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import pytest

from launcher.conftest import WAIT, Drive
from support.launchers import launcher_of
from support.processtrees import children
from support.thorough import THOROUGH
from support.waiting import until

pytestmark = pytest.mark.needs("bwrap", "cc")


@pytest.fixture
def launcher(tmp_path: Path, program: Path) -> Path:
    (tmp_path / "home/p/.git").mkdir(parents=True)
    text = "schema: 1\nmethod: bwrap\nfilesystem: {write: [$PROJECT]}\n"
    made = launcher_of(text, "bwrap", tmp_path / "out", project=tmp_path / "home/p")
    made.write_bytes(program.read_bytes())
    return made


def _has_threads(process: int) -> bool:
    """Whether it has threads: only the supervisor of connections has them."""
    return len(list(Path(f"/proc/{process}/task").iterdir())) > 1


def _stopped(process: int) -> bool:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"


@pytest.mark.parametrize("turn", range(5 if THOROUGH else 1))
def test_a_signal_while_the_run_ends_is_no_end_of_its_monitor(
    turn: int, launcher: Path, environ: dict[str, str]
) -> None:
    """Unread data at the monitor's exit would reset the socket that its status is in (unix(7))."""
    with subprocess.Popen(
        [launcher, "sh", "-c", "echo up; read x; exit 7"], env=environ,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as running:  # fmt: skip
        assert running.stdin is not None
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.readline() == b"up\n"
        (monitor,) = (each for each in children(running.pid) if os.getpgid(each) == each)
        own = Path(f"/proc/{running.pid}/comm").read_text()  # even their user cannot read their `exe`
        below = children(monitor)
        ours = [each for each in below if Path(f"/proc/{each}/comm").read_text() == own]
        (watch,) = (each for each in ours if not _has_threads(each))
        os.kill(watch, signal.SIGSTOP)
        until(lambda: _stopped(watch))
        try:
            running.stdin.close()
            until(lambda: {*children(monitor)}.isdisjoint({*below} - {watch}))
            running.send_signal(signal.SIGUSR1)
            until(lambda: _idle(running.pid))
        finally:
            os.kill(watch, signal.SIGCONT)
        said = running.stderr.read()
        assert (running.wait(WAIT), said) == (7, b"")


def _idle(process: int) -> bool:
    """Whether no signal is pending for it, and it sleeps."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    return fields["State"].startswith("S") and int(fields["ShdPnd"], 16) == 0


def test_who_ignores_the_end_of_children_gets_a_status(launcher: Path, environ: dict[str, str]) -> None:
    def ignore() -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    ended = subprocess.run(
        [launcher, "sh", "-c", "sh -c 'exit 3'; echo $?; exit 7"], env=environ, stdin=subprocess.DEVNULL,
        capture_output=True, timeout=WAIT, check=False, preexec_fn=ignore,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout, ended.stderr) == (7, b"3\n", b"")


@pytest.mark.parametrize("early", [True, False])
def test_who_reads_no_errors_gets_the_status_of_a_refusal(
    launcher: Path, environ: dict[str, str], early: bool
) -> None:
    """This includes a refusal before the monitor starts, and one by the process that becomes bubblewrap."""
    if not early:
        bwrap = launcher.parent.parent / "bin/bwrap"
        bwrap.parent.mkdir()
        bwrap.write_bytes(b"\x7fELF no program")
        bwrap.chmod(0o755)
        environ["PATH"] = f"{bwrap.parent}:{environ['PATH']}"
    read, write = os.pipe()
    os.close(read)
    ended = subprocess.run(
        [launcher, *([] if early else ["true"])], env=environ, stdin=subprocess.DEVNULL,
        stderr=write, timeout=WAIT, check=False,
    )  # fmt: skip
    os.close(write)
    assert ended.returncode == 125


def test_artifacts_that_are_replaced_meanwhile_are_not_used(launcher: Path, environ: dict[str, str]) -> None:
    """They are replaced while the launcher waits for the repository, after it has checked them."""
    project = launcher.parent.parent / "home/p/.git"
    args = launcher.with_name("args")
    with subprocess.Popen(
        ["flock", "--exclusive", project, "sh", "-c", "echo up; read x"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as lock:  # fmt: skip
        assert lock.stdout is not None
        assert lock.stdout.readline() == b"up\n"
        with subprocess.Popen(
            [launcher, "sh", "-c", "touch /tmp/x && echo ran"],
            env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as running:  # fmt: skip
            until(lambda: _waits_for_the_lock(running.pid, project))
            other = launcher.with_name("args.new")
            other.write_bytes(b"--no-such-option\0")
            other.rename(args)
            lock.communicate(b"\n", WAIT)
            out, said = running.communicate(timeout=WAIT)
    assert (running.returncode, out, said) == (0, b"ran\n", b"")


def _waits_for_the_lock(process: int, project: Path) -> bool:
    """Whether it has opened the project, the last file that it opens before the lock."""
    found = []
    for each in Path(f"/proc/{process}/fd").iterdir():
        with contextlib.suppress(OSError):
            found.append(str(each.readlink()))
    return str(project) in found


def test_a_program_that_a_link_leads_to_where_somebody_inside_can_write(tmp_path: Path, drive: Drive) -> None:
    for name in ("project", "bin", "good"):
        (tmp_path / name).mkdir()
    for name in ("project/x", "good/x", "good/y"):
        (tmp_path / name).touch(0o755)
    (tmp_path / "bin/x").symlink_to("../project/x")
    (tmp_path / "bin/y").symlink_to("../good/y")
    words = (f"writable={tmp_path}/project", "path", "find=x", "find=y")
    said = drive(*words, PATH=f"{tmp_path}/bin:{tmp_path}/good").stdout.split("\n")[2:]
    assert said == [f"{tmp_path}/good/x", f"{tmp_path}/bin/y", ""]


def test_only_a_socket_is_the_bridge_s_channel(tmp_path: Path, driver: Path, environ: dict[str, str]) -> None:
    """A directory as the channel would give access to the whole host."""
    script = 'exec 77<..; exec "$@"'
    words = (f"directory={tmp_path}", "shims.loopback=yes", "channel=77", "descriptors")
    ended = subprocess.run(
        ["bash", "-c", script, "bash", driver, *words],
        capture_output=True, text=True, timeout=WAIT, check=False, env=environ,
    )  # fmt: skip
    assert ended.returncode == 125
    assert ended.stderr.startswith("sandbox: the bridge has no channel")
