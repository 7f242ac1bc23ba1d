"""Attacks of a command on its launcher: by stops, by its terminal, and by the launcher's part inside."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import pytest

from session.jobs import NOBODY, Place, place
from session.keys import shell
from session.terminals import Terminal, terminal
from session.test_keys import CELLS
from support.processtrees import naming
from support.thorough import THOROUGH, covering
from support.waiting import until

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="becomes other users"),
    pytest.mark.needs("bash", "busybox", "setpriv"),
]
SOME = CELLS if THOROUGH else [each for each in CELLS if each.id in ("bwrap-root", "oci-root")]
LATE = "resources: {time: 5s}\n"

STOPS = '(while :; do kill -CONT $$; done) & echo u""p; while :; do kill -STOP $$; done'
"""It stops and is continued, again and again."""
READS_STOP = 'echo u""p; while :; do read -r x </.sandwright-stop; done'
"""It reports a stop again and again, without one."""
FILLS = 'echo u""p; while :; do echo more; done'
"""Its terminal accepts no more output once it has no reader."""
HOLDS = "import os,termios; os.write(1,b'up\\n'); termios.tcflow(0,termios.TCOOFF); os.read(0,1)"
"""Its terminal shows no further output."""
WITH_FILE = ("oci", "gvisor", "docker", "podman")
"""The methods whose command reports its stop through a file inside; elsewhere it can open none."""
SCRIPTS = [
    pytest.param(*each.values, script, marks=each.marks, id=f"{each.id}-{name}")
    for each in SOME
    for name, script in (("stops", STOPS), ("reads", READS_STOP))
    if name == "stops" or each.values[0] in WITH_FILE
]


@pytest.mark.parametrize(("method", "uid", "script"), SCRIPTS)
def test_what_stops_ever_again_can_be_ended(method: str, uid: int, script: str) -> None:
    """`kill %1` sends TERM and CONT: the launcher isn't stopped again before it has handled the first."""
    with place(method, uid) as at, shell([at.launcher], at.root, at.environ, at.before) as bash:
        bash.type(f"$L sh -c '{script}'\n")
        bash.until("Stopped")
        bash.prompt()
        bash.line('kill %1; wait %1; while test -n "$(jobs -p)"; do fg >/dev/null; done')


def _started(at: Place, *command: str) -> list[str]:
    return [*at.before, str(at.launcher), *command]


def _launcher(shown: Terminal, at: Place) -> int:
    """`setpriv` becomes the launcher."""
    until(lambda: Path(f"/proc/{shown.pid}/comm").read_text() == "launch\n", "it is not started")
    return shown.pid


@pytest.mark.parametrize(
    ("method", "uid", "script"),
    covering(SOME, [pytest.param(STOPS, id="stops"), pytest.param(FILLS, id="fills")]),
)
def test_the_time_is_up_for_a_launcher_that_is_stopped(method: str, uid: int, script: str) -> None:
    with (
        place(method, uid, LATE) as at,
        terminal(_started(at, "sh", "-c", script), at.root, at.environ) as shown,
    ):
        shown.read_until(b"up")
        os.kill(_launcher(shown, at), signal.SIGSTOP)
        assert shown.end() == 124


@pytest.mark.needs("bwrap", "python3")
def test_the_time_is_up_for_a_terminal_that_is_held() -> None:
    with (
        place("bwrap", 0, LATE) as at,
        terminal(_started(at, "/usr/bin/python3", "-c", HOLDS), at.root, at.environ) as shown,
    ):
        shown.read_until(b"up")
        assert shown.end() == 124


def _children(process: int) -> set[int]:
    return {
        int(child)
        for task in Path(f"/proc/{process}/task").glob("*/children")
        for child in task.read_text().split()
    }


def _below(process: int) -> set[int]:
    """All descendants."""
    children = _children(process)
    return children.union(*map(_below, children))


def _has_open(process: int, file: os.stat_result) -> bool:
    for each in Path(f"/proc/{process}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            opened = each.stat()
            if (opened.st_dev, opened.st_ino) == (file.st_dev, file.st_ino):
                return True
    return False


@pytest.mark.parametrize(("method", "uid"), SOME)
def test_the_person_s_terminal_is_nowhere_else(method: str, uid: int) -> None:
    """Only bubblewrap's outer process is in its session and could open it (/dev/tty); no process did."""
    with (
        place(method, uid) as at,
        terminal(_started(at, "sh", "-c", "echo up; exec sleep 54321"), at.root, at.environ) as shown,
    ):
        shown.read_until(b"up")
        person = os.fstat(shown.slave)
        launcher = _launcher(shown, at)
        found = {launcher, *_below(launcher), *(each for each in naming(b"54321"))}
        own = at.launcher.read_bytes()
        started = {each for each in found if Path(f"/proc/{each}/exe").read_bytes() != own}
        assert started
        assert _has_open(launcher, person)
        assert not {each for each in started if _has_open(each, person)}
        in_its_session = {each for each in started if os.getsid(each) == os.getsid(launcher)}
        outside = {child for monitor in _children(launcher) for child in _children(monitor)}
        assert in_its_session <= (outside if method == "bwrap" else set())
        shown.type(b"\x03")
        assert shown.end() == 130


CHANGES = """
import glob, os
print(*sorted(os.listdir("/proc/self/fd")))
for name in sorted(glob.glob("/proc/[0-9]*/exe") + glob.glob("/proc/[0-9]*/fd/*")):
    try:
        file = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        continue
    for change in (lambda: os.fchmod(file, os.fstat(file).st_mode & 0o777),
                   lambda: os.open(f"/proc/self/fd/{file}", os.O_WRONLY)):
        try:
            change()
        except OSError:
            continue
        if os.path.isfile(os.readlink(name)):
            print("changed", name, os.readlink(name))
print("e" + "nd")
"""


@pytest.mark.needs("bwrap", "python3")
@pytest.mark.parametrize("uid", [0, NOBODY])
def test_nothing_inside_leads_to_the_launcher_on_the_host(uid: int) -> None:
    """Access by a process or descriptor would permit a change that then runs outside (CVE-2019-5736)."""
    with (
        place("bwrap", uid) as at,
        terminal(_started(at, "/usr/bin/python3", "-c", CHANGES), at.root, at.environ) as shown,
    ):
        assert shown.read_until(b"end\r\n") == b"0 1 2 3\r\nend\r\n"
        assert shown.end() == 0


@pytest.mark.parametrize(("method", "uid"), [each for each in SOME if each.values[0] != "landlock"])
def test_the_first_process_leads_to_no_program_of_the_host(method: str, uid: int) -> None:
    script = "chmod 700 /proc/1/exe; true >>/proc/1/exe; echo e''nd"
    with (
        place(method, uid) as at,
        terminal(_started(at, "sh", "-c", script), at.root, at.environ) as shown,
    ):
        programs = (at.launcher, Path("/usr/bin/bwrap"))
        before = [each.stat() for each in programs]
        shown.read_until(b"end\r\n")
        assert shown.end() == 0
        after = [each.stat() for each in programs]
        assert [(each.st_mode, each.st_ctime_ns) for each in after] == [
            (each.st_mode, each.st_ctime_ns) for each in before
        ]


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("uid", [0, NOBODY])
def test_the_command_can_open_nothing_of_the_init(uid: int) -> None:
    """One of init's descriptors reports that the command has stopped."""
    script = "for each in 0 1 2 3 4 5 6 7 8 9; do readlink /proc/1/fd/$each && echo op''en; done; echo e''nd"
    with (
        place("bwrap", uid) as at,
        terminal(_started(at, "sh", "-c", script), at.root, at.environ) as shown,
    ):
        assert shown.read_until(b"end\r\n") == b"end\r\n"
        assert shown.end() == 0
