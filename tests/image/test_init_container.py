"""The first process in real containers of runc: its new user, the files it changes, and its refusals.

Tests of image/init/source/init.c.
"""

from __future__ import annotations

import os
import select
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandwright import crossbuild, process
from sandwright.host import collect_host
from support.initcontainers import GROUP, PASSWD, Container, container, own, owner
from support.thorough import covering
from support.waiting import until

pytestmark = [
    pytest.mark.needs("runc", "busybox"),
    pytest.mark.skipif(os.getuid() != 0, reason="makes files of several users"),
]

LOOK = (
    "id; echo $HOME $USER $LOGNAME; grep -E '^(Cap|NoNew|Groups)' /proc/1/status /proc/self/status;"
    "echo asked=$SANDWRIGHT_USER"
)


EFFECTIVE = """\
#include <stdio.h>
#include <unistd.h>
int main(void) { return printf("%u\\n", geteuid()) < 0; }
"""


@pytest.fixture
def box(tmp_path: Path) -> Container:
    return container(tmp_path)


def look(box: Container) -> str:
    result = box.run("sh", "-c", LOOK)
    assert result.status == 0, result.stderr
    return result.text


def refused(box: Container, message: str, *, bare: bool = False) -> None:
    """No command was started, and no file was changed."""
    before = _all(box.root)
    result = (box.run_bare if bare else box.run)("touch", "/work/ran")
    assert (result.status, result.stderr) == (125, f"sandwright-init: {message}\n")
    assert not (box.root / "work/ran").exists()
    assert _all(box.root) == before


def _all(root: Path) -> dict[str, object]:
    return {
        str(path): (owner(path), path.lstat().st_mode, path.is_file() and path.stat().st_size)
        for path in sorted(root.rglob("*"))
    }


class TestWhomItBecomes:
    def test_the_caller(self, box: Container) -> None:
        box.caller = "501:20"
        said = look(box)
        assert said.startswith("uid=501(agent) gid=20(dialout)\n/home/agent agent agent\n")
        assert said.endswith("asked=")
        assert (box.root / "etc/passwd").read_text() == (
            "agent:x:501:20::/home/agent:/bin/sh\nroot:x:0:0:root:/root:/bin/sh\nwww:x:33:33::/var/www:/bin/false\n"
        )
        assert (box.root / "etc/group").read_text() == GROUP
        assert {path.name for path in (box.root / "etc").iterdir()} == {"passwd", "group"}

    def test_nothing_is_left_of_rights(self, box: Container) -> None:
        box.caller = "501:20"
        lines = [line for line in look(box).splitlines() if "/status:Cap" in line]
        assert {line.split(":")[1] for line in lines} == {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"}
        assert all(int(line.split()[1], 16) == 0 for line in lines)
        assert len(lines) == 10, "the first process and the command"

    def test_the_control(self, box: Container) -> None:
        """Without our first process, root runs with its capabilities."""
        result = box.run("-c", LOOK, through=["/bin/sh"])
        assert result.text.startswith("uid=0(root)")
        assert any("CapEff" in line and int(line.split()[1], 16) for line in result.text.splitlines())

    def test_a_set_id_program_gives_nothing_back(self, box: Container) -> None:
        source = box.place / "effective.c"
        source.write_text(EFFECTIVE)
        crossbuild.build([source], target=collect_host().platform, output=box.root / "bin/effective")
        (box.root / "bin/effective").chmod(0o4755)
        box.user = (1000, 1000)
        assert box.run("effective", through=[]).text == "0", "the control"
        assert box.run("effective").text == "1000"
        box.user, box.caller = (0, 0), "501:20"
        assert box.run("effective").text == "501"

    def test_without_setpcap_the_rest_holds(self, box: Container) -> None:
        box.caller, box.capabilities = (
            "501:20",
            ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_SETGID", "CAP_SETUID"),
        )
        said = look(box)
        assert said.startswith("uid=501(agent) gid=20(dialout)\n")
        assert all(int(line.split()[1], 16) == 0 for line in said.splitlines() if "CapEff" in line)

    def test_groups_that_the_container_was_given_stay(self, box: Container) -> None:
        """The image gives root the group `disk`; group 0 is root's."""
        box.caller, box.groups = "501:20", (0, 6, 77)
        assert look(box).startswith("uid=501(agent) gid=20(dialout) groups=77\n")

    @pytest.mark.parametrize(
        ("caller", "uid", "name", "home"),
        [
            (None, "uid=1000(agent) gid=1000(agent)", "agent", "/home/agent"),
            ("", "uid=1000(agent) gid=1000(agent)", "agent", "/home/agent"),
            ("501", "uid=501(agent) gid=501(agent)", "agent", "/home/agent"),
            ("501:", "uid=501(agent) gid=501(agent)", "agent", "/home/agent"),
            ("33:33", "uid=33(agent) gid=33(agent)", "agent", "/home/agent"),
            ("100000:100000", "uid=100000(agent) gid=100000(agent)", "agent", "/home/agent"),
            ("1000:0", "uid=1000(agent) gid=0(root)", "agent", "/home/agent"),
            ("4294967294:4294967294", "uid=4294967294(agent) gid=4294967294(agent)", "agent", "/home/agent"),
            ("0:0", "uid=0(root) gid=0(root)", "root", "/root"),
        ],
    )
    def test_numbers(self, box: Container, caller: str | None, uid: str, name: str, home: str) -> None:
        box.caller = caller
        said = look(box)
        assert said.startswith(f"{uid}\n{home} {name} {name}\n")
        assert all(int(line.split()[1], 16) == 0 for line in said.splitlines() if "/status:Cap" in line)

    @pytest.mark.parametrize(
        ("variables", "uid"),
        [
            ({"PUID": "501", "PGID": "600"}, "uid=501(agent) gid=600(agent)"),
            ({"PUID": "501"}, "uid=501(agent) gid=501(agent)"),
            ({"PUID": "501", "SANDWRIGHT_USER": "33:33"}, "uid=33(agent) gid=33(agent)"),
            ({"PUID": "501", "SANDWRIGHT_USER": ""}, "uid=501(agent) gid=501(agent)"),
            ({"PUID": "", "PGID": ""}, "uid=1000(agent) gid=1000(agent)"),
        ],
    )
    def test_puid_and_pgid(self, box: Container, variables: dict[str, str], uid: str) -> None:
        box.environment = variables
        assert look(box).startswith(f"{uid}\n")

    @pytest.mark.parametrize(
        ("variables", "message"),
        [
            ({"PGID": "600"}, "PGID needs PUID"),
            ({"PUID": "me"}, "PUID and PGID must be numbers such as 1000, not 'me' and ''"),
            ({"PUID": "1", "PGID": "-1"}, "PUID and PGID must be numbers such as 1000, not '1' and '-1'"),
        ],
    )
    def test_others_are_refused(self, box: Container, variables: dict[str, str], message: str) -> None:
        box.environment = variables
        refused(box, message)

    def test_a_second_start_finds_it_done(self, box: Container) -> None:
        box.caller = "501:600"
        look(box)
        before = {path: path.stat().st_ino for path in (box.root / "etc").iterdir()}
        look(box)
        assert {path: path.stat().st_ino for path in (box.root / "etc").iterdir()} == before

    def test_it_can_change_back(self, box: Container) -> None:
        for caller in ("501:600", "1000:1000"):
            box.caller = caller
            look(box)
        assert owner(box.root / "home/agent/file") == (1000, 1000)


class TestNotRoot:
    def test_an_account(self, box: Container) -> None:
        box.user = (1000, 1000)
        assert look(box).startswith("uid=1000(agent) gid=1000(agent)\n/home/agent agent agent\n")

    def test_a_number(self, box: Container) -> None:
        box.user = (1234, 5)
        assert look(box).startswith("uid=1234 gid=5\n/\n")

    @pytest.mark.parametrize("caller", ["0:0", "1234:6", "1000:1000"])
    def test_it_becomes_nobody_else(self, box: Container, caller: str) -> None:
        box.user, box.caller = (1234, 5), caller
        refused(
            box,
            f"started as 1234:5, which cannot change to {caller}: start as root, or as that user",
        )

    def test_set_id_it_refuses(self, box: Container) -> None:
        """The program has the set-id bit, as fixuid is installed."""
        (box.root / "init").chmod(0o4755)
        box.user, box.caller = (1234, 5), "0:0"
        refused(box, "this program must not be set-user-ID or set-group-ID")


class TestHome:
    def test_only_what_is_its_own(self, box: Container) -> None:
        home = box.root / "home/agent"
        (home / "out").symlink_to("/etc")
        own(home / "out", uid=1000, gid=1000)
        (home / "mixed").touch()
        own(home / "mixed", uid=1000, gid=33)
        box.caller = "501:20"
        look(box)
        owners = {path.name: owner(path) for path in (home, *home.iterdir())}
        assert owners == {
            "agent": (501, 20),
            "file": (501, 20),
            "folder": (501, 20),
            "out": (501, 20),
            "mixed": (501, 33),
            "of-root": (0, 0),
            "of-www": (33, 33),
        }
        assert owner(box.root / "etc") == owner(box.root / "etc/passwd") == (0, 0)

    def test_never_what_is_mounted(self, box: Container, tmp_path: Path) -> None:
        """The mounts are on one file system, so the device is equal; a directory, a file, and odd names."""
        home = box.root / "home/agent"
        outside = tmp_path / "outside"
        odd = "a b\\040\ttab"
        for name in ("folder", odd):
            (outside / name).mkdir(parents=True)
            (outside / name / "inside").touch()
            (home / name).mkdir(exist_ok=True)
            box.mounts.append((outside / name, f"/home/agent/{name}"))
        (outside / "file").touch()
        box.mounts.append((outside / "file", "/home/agent/file"))
        everything = [outside, *outside.rglob("*")]
        own(*everything, uid=1000, gid=1000)
        box.caller = "501:20"
        look(box)
        assert {owner(path) for path in everything} == {(1000, 1000)}
        assert owner(home) == (501, 20), "the control"

    @pytest.mark.parametrize("target", ["/home/agent", "/home"])
    def test_nor_a_home_that_is_mounted(self, box: Container, tmp_path: Path, target: str) -> None:
        outside = tmp_path / "outside"
        (outside / "agent").mkdir(parents=True)
        own(outside, outside / "agent", uid=1000, gid=1000)
        box.mounts, box.caller = [(outside, target)], "501:20"
        assert look(box).startswith("uid=501(agent)")
        assert owner(outside) == owner(outside / "agent") == (1000, 1000)

    @pytest.mark.parametrize(
        "home", ["/", "/link", "/link/agent", "/etc", "/missing", "/home/agent/../../srv"]
    )
    def test_nor_what_is_no_home_of_its_own(self, box: Container, home: str) -> None:
        (box.root / "link").symlink_to("srv")
        (box.root / "srv/agent").mkdir(parents=True)
        own(box.root / "srv", box.root / "srv/agent", uid=1000, gid=1000)
        (box.root / "etc/passwd").write_text(f"agent:x:1000:1000::{home}:/bin/sh\n")
        box.caller = "501:20"
        assert look(box).startswith("uid=501(agent)")
        assert owner(box.root / "srv") == owner(box.root / "srv/agent") == (1000, 1000)
        assert owner(box.root / "etc") == owner(box.root) == (0, 0)

    def test_without_the_right_to_it_says_which(self, box: Container) -> None:
        box.caller, box.capabilities = "501:20", ("CAP_SETGID", "CAP_SETUID")
        result = box.run("true")
        assert result.status == 125
        assert "needs the capabilities CHOWN and DAC_OVERRIDE" in result.stderr
        assert (box.root / "etc/passwd").read_text() == PASSWD


class TestFilesThatCantBeWritten:
    def test_the_account_as_it_is(self, box: Container) -> None:
        box.read_only = True
        assert look(box).startswith("uid=1000(agent) gid=1000(agent)\n/home/agent agent agent\n")

    def test_numbers_that_nobody_knows(self, box: Container) -> None:
        box.read_only, box.caller = True, "501:20"
        refused(box, "/etc/passwd has no entry for 501 and cannot be changed: mount a file that has one")
        box.caller = "1000:501"
        refused(box, "/etc/group has no entry for 501 and cannot be changed: mount a file that has one")

    def test_somebody_who_is_known(self, box: Container) -> None:
        box.read_only, box.caller = True, "33:20"
        assert look(box).startswith("uid=33(www) gid=20(dialout)\n/var/www www www\n")

    @pytest.mark.parametrize("read_only", [True, False])
    def test_files_that_are_mounted(self, box: Container, tmp_path: Path, *, read_only: bool) -> None:
        for name, text in (("passwd", "ada:x:501:20::/tmp:/bin/sh\n"), ("group", GROUP)):
            (tmp_path / name).write_text(text)
            box.mounts.append((tmp_path / name, f"/etc/{name}"))
        box.read_only, box.caller = read_only, "501:20"
        assert look(box).startswith("uid=501(ada) gid=20(dialout)\n/tmp ada ada\n")
        assert (tmp_path / "passwd").read_text() == "ada:x:501:20::/tmp:/bin/sh\n"
        assert owner(box.root / "home/agent/file") == (1000, 1000)

    def test_the_host_s_etc_is_never_written(self, box: Container, tmp_path: Path) -> None:
        etc = tmp_path / "etc"
        etc.mkdir()
        (etc / "passwd").write_text(PASSWD)
        (etc / "group").write_text(GROUP)
        box.mounts, box.caller = [(etc, "/etc")], "501:20"
        result = box.run("true")
        assert "has no entry for 501" in result.stderr
        assert {path.name: path.read_text() for path in etc.iterdir()} == {"passwd": PASSWD, "group": GROUP}


def _link(root: Path) -> None:
    (root / "etc/passwd").rename(root / "etc/real")
    (root / "etc/passwd").symlink_to("real")


def _fifo(root: Path) -> None:
    (root / "etc/passwd").unlink()
    os.mkfifo(root / "etc/passwd")


def _folder(root: Path) -> None:
    (root / "etc/group").unlink()
    (root / "etc/group").mkdir()


def _long(root: Path) -> None:
    os.truncate(root / "etc/passwd", 1 << 40)


def _nul(root: Path) -> None:
    (root / "etc/group").write_bytes(GROUP.encode() + b"\0")


def _etc(root: Path) -> None:
    (root / "etc").rename(root / "real")
    (root / "etc").symlink_to("real")


def _none(root: Path) -> None:
    (root / "etc/passwd").unlink()


def _root(root: Path) -> None:
    (root / "etc/passwd").write_text("agent:x:0:0::/root:/bin/sh\n" + PASSWD)


def _home(root: Path) -> None:
    (root / "etc/passwd").write_text("agent:x:1000:1000::home:/bin/sh\n")


HOSTILE: dict[str, tuple[Callable[[Path], None], str | None, str]] = {
    "a link": (_link, "501:20", "cannot read passwd: it is a symbolic link"),
    "a pipe": (_fifo, "501:20", "passwd is not a regular file"),
    "a directory": (_folder, "501:20", "group is not a regular file"),
    "a tebibyte": (_long, "501:20", "passwd is longer than 1048576 bytes"),
    "a NUL": (_nul, "501:20", "/etc/group contains a NUL byte"),
    "a link for /etc": (_etc, "501:20", "cannot open /etc: Not a directory"),
    "no file": (_none, None, "/etc/passwd has no account agent"),
    "no file, and a caller": (
        _none,
        "501:20",
        "/etc/passwd has no entry for 501 and cannot be changed: mount a file that has one",
    ),
    "an account that is root": (
        _root,
        None,
        "agent has the UID 0 in /etc/passwd: set SANDWRIGHT_USER=0:0 to run as root",
    ),
    "a home that is none": (
        _home,
        None,
        "the account 'agent' in /etc/passwd has an invalid name, or a home directory that is not absolute",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_account_files_that_are_refused(box: Container, name: str) -> None:
    change, caller, message = HOSTILE[name]
    control = box.run_bare("true")
    assert control.status == 0, control.stderr
    change(box.root)
    box.caller = caller
    refused(box, message, bare=True)


def test_an_account_that_is_root_for_a_caller_is_not(box: Container) -> None:
    _root(box.root)
    box.caller = "501:20"
    assert look(box).startswith("uid=501(agent) gid=20(dialout)\n/root agent agent\n")
    assert owner(box.root / "root") == (0, 0)


@pytest.mark.parametrize(
    "caller",
    [
        ":",
        ":1000",
        "1000::",
        "1000:1000:",
        "1000:1000:1",
        "-1:-1",
        "+1:1",
        "0x1:1",
        "a:b",
        " 1:1",
        "4294967295:1",
        "1:4294967296",
        "99999999999999999999:1",
    ],
)
def test_callers_that_are_none(box: Container, caller: str) -> None:
    box.caller = caller
    refused(box, f"SANDWRIGHT_USER must be UID:GID in digits, such as 1000:1000, not '{caller}'")


@pytest.mark.parametrize("account", ["", "-x", "a:b"])
def test_accounts_that_are_none(box: Container, account: str) -> None:
    box.account = account
    refused(box, "usage: sandwright-init ACCOUNT COMMAND [ARGUMENT...]")


class TestUserNamespaces:
    """User namespaces as runtimes without root create them: root inside is another user outside."""

    @pytest.fixture
    def box(self) -> Iterator[Container]:
        """A container in a directory that other users can enter."""
        with tempfile.TemporaryDirectory(prefix="sandwright-") as name:
            yield container(Path(name))

    def maps(self, outside: int, size: int) -> dict[str, object]:
        row = [{"containerID": 0, "hostID": outside, "size": size}]
        return {"uidMappings": row, "gidMappings": row}

    def test_root_that_is_the_caller_stays(self, box: Container) -> None:
        box.maps, box.caller, box.account = self.maps(4242, 1), "4242:4242", "agent"
        result = box.run("sh", "-c", f"{LOOK}; touch /work/new")
        assert result.text.startswith("uid=0(root) gid=0(root)"), result.stderr
        assert owner(box.root / "work/new") == (4242, 4242)
        held = [line for line in result.text.splitlines() if "/status:Cap" in line]
        assert len(held) == 10
        assert all(int(line.split()[1], 16) == 0 for line in held)

    def test_numbers_without_a_place(self, box: Container) -> None:
        box.maps, box.caller = self.maps(100000, 65536), "70000:70000"
        refused(
            box,
            "70000:70000 is not mapped in this user namespace (see /proc/self/uid_map)",
        )


class TestTheFirstProcess:
    @pytest.mark.parametrize(
        ("user", "command", "status"),
        covering(
            [(0, 0), (1000, 1000)],
            [
                pytest.param(["true"], 0),
                pytest.param(["sh", "-c", "exit 42"], 42),
                pytest.param(["sh", "-c", "exit 255"], 255),
                pytest.param(["sh", "-c", "kill -9 $$"], 137),
                pytest.param(["sh", "-c", "kill -TERM $$"], 143),
                pytest.param(["missing"], 127),
                pytest.param(["/missing/command"], 127),
                pytest.param(["/etc/passwd"], 126),
                pytest.param(["/work"], 126),
            ],
        ),
        ids=str,
    )
    def test_how_it_ends(
        self, box: Container, user: tuple[int, int], command: list[str], status: int
    ) -> None:
        box.user = user
        assert box.run(*command).status == status

    def test_orphans_are_reaped_and_end_with_it(self, box: Container) -> None:
        script = """
            sh -c '(sleep 0.1; touch /work/one) & (sleep 0.1; touch /work/two) & sleep 600 &'
            until [ -e /work/one ] && [ -e /work/two ]; do sleep 0.05; done
            sleep 0.5
            tries=0
            while grep -qs "^State:.Z" /proc/[0-9]*/status && [ $tries -lt 100 ]; do
                sleep 0.1
                tries=$((tries + 1))
            done
            grep -hs "^State:.Z" /proc/[0-9]*/status || echo reaped
        """
        assert box.run("sh", "-c", script).text == "reaped"

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGRTMIN + 3])
    def test_signals_are_passed_on(self, box: Container, number: int) -> None:
        script = f"trap 'echo got; exit 7' {int(number)}; touch /work/ready; while :; do sleep 0.05; done"
        box.caller = "501:20"
        with box.started("sh", "-c", script) as (running, kill):
            _await(box.root / "work/ready")
            process.run(*map(str, kill), str(int(number)), timeout=30)
            out, err = running.communicate(timeout=30)
        assert (running.returncode, out) == (7, b"got\n"), err

    def test_a_signal_ends_who_has_no_answer(self, box: Container) -> None:
        box.caller = "501:20"
        with box.started("sh", "-c", "touch /work/ready; exec sleep 600") as (running, kill):
            _await(box.root / "work/ready")
            process.run(*map(str, kill), "TERM", timeout=30)
            assert running.wait(timeout=30) == 143

    def test_outputs_can_be_opened_again(self, box: Container) -> None:
        box.caller = "501:20"
        result = box.run("sh", "-c", "echo out >/proc/self/fd/1; echo err >/proc/self/fd/2")
        assert (result.stdout, result.stderr) == (b"out\n", "err\n")

    def test_below_another_first_process_it_is_the_command(self, box: Container) -> None:
        box.caller = "501:20"
        result = box.run("-c", "/init agent sh -c 'id -u; echo $PPID'; :", through=["/bin/sh"])
        assert result.text.split() == ["501", "1"]


def _await(path: Path) -> None:
    until(path.exists, f"there is no {path}")


def test_the_keys_of_a_terminal_are_the_command_s(box: Container) -> None:
    """The command is the terminal's foreground group: Ctrl-C reaches it, and the shell has job control."""
    box.caller, box.terminal = "501:20", True
    script = "trap 'echo got; exit 7' INT; tty; echo ready; while :; do sleep 0.05; done"
    with box.at_a_terminal("sh", "-c", script) as (running, terminal):
        seen = _until(terminal, b"ready")
        os.write(terminal, b"\x03")
        seen += _until(terminal, b"got")
        assert running.wait(timeout=60) == 7
    assert b"/dev/pts/0" in seen


def _until(terminal: int, word: bytes) -> bytes:
    """The output of the terminal up to a word."""
    seen = b""
    until = time.monotonic() + 60
    while word not in seen:
        assert time.monotonic() < until, seen
        if select.select([terminal], [], [], 1)[0]:
            seen += os.read(terminal, 4096)
    return seen
