"""The command never starts without its sandbox, with 125 instead: the launcher's checks before a start.

Tests of launcher/source/check.c.
Tests of launcher/source/environment.c: the values of variables (choose_environment).
Tests of launcher/source/log.c.
Tests of launcher/source/rundir.c: the directory of a run.
Tests of launcher/source/sha256.c.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
import subprocess
from pathlib import Path

import pytest

from launcher.conftest import WAIT, Drive
from sandwright.signalling import boot, machine, pid_namespace

pytestmark = pytest.mark.needs("cc")


@pytest.mark.parametrize("length", [0, 1, 55, 56, 63, 64, 65, 119, 120, 128, 1000, 300_000])
def test_digests(tmp_path: Path, drive: Drive, length: int) -> None:
    content = bytes(index * 7 % 251 for index in range(length))
    (tmp_path / "a").write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    words = (f"directory={tmp_path}", "artifacts=a", f"artifacts={digest}")
    drive(*words, "artifacts")
    (tmp_path / "a").write_bytes(content + b"x")
    said = f"sandbox: {tmp_path}/a was changed after it was rendered: render it again\n"
    assert drive(*words, "artifacts", status=125).stderr == said
    (tmp_path / "a").unlink()
    assert drive(*words, "artifacts", status=125).stderr == f"sandbox: cannot read {tmp_path}/a\n"


@pytest.mark.parametrize("fields", [(), ("shims.loopback=yes",)])
def test_all_that_is_open_besides_is_closed(
    tmp_path: Path, driver: Path, environ: dict[str, str], fields: tuple[str, ...]
) -> None:
    """So is the bridge's channel, although it stays open until the command is executed."""
    script = 'exec 5<.. 9<.. 200<..; exec "$@"'
    ours, other = socket.socketpair()
    channel = (f"channel={ours.fileno()}",)
    words = (f"directory={tmp_path}", *channel, *fields, "descriptors", "run", "--", "ls", "/proc/self/fd")
    with ours, other:
        ended = subprocess.run(
            ["bash", "-c", script, "bash", driver, *words],
            capture_output=True,
            text=True,
            timeout=WAIT,
            check=False,
            env=environ,
            pass_fds=[ours.fileno()],
        )
    assert ended.stderr == ""
    assert ended.stdout.split() == ["0", "1", "2", "3"], "and what ls itself opens"


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_directory_as_a_standard_descriptor(driver: Path, environ: dict[str, str], number: int) -> None:
    script = f'exec 9>&2; exec {number}<..; [ "$1" = {number} ] || "$2" descriptors; echo $? >&9'
    ended = subprocess.run(
        ["bash", "-c", script, "bash", "", driver],
        capture_output=True,
        text=True,
        timeout=WAIT,
        env=environ,
        check=False,
    )
    assert ended.stderr.endswith("125\n")


@pytest.mark.parametrize(("limit", "status"), [(32, 125), (127, 125), (128, 0)])
def test_a_limit_of_open_files_that_is_too_low(
    driver: Path, environ: dict[str, str], limit: int, status: int
) -> None:
    """Descriptors have fixed numbers: for one beyond the limit, the kernel would say "Invalid argument"."""
    ended = subprocess.run(
        ["bash", "-c", f'ulimit -n {limit}; exec "$0" descriptors', driver],
        capture_output=True,
        text=True,
        timeout=WAIT,
        env=environ,
        check=False,
    )
    assert ended.returncode == status
    said = f"the limit of open files is {limit}, and a sandbox needs 128: raise it (ulimit -n 128)"
    assert ended.stderr == (f"sandbox: {said}\n" if status else "")


def test_programs_come_from_where_nobody_inside_can_write(tmp_path: Path, drive: Drive) -> None:
    for name in ("p/bin", "good", "a:b", "p-beside"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "linked").symlink_to("p/bin")
    (tmp_path / "also").symlink_to("good")
    (tmp_path / "file").touch()
    names = ("p/bin", "p", "linked", "good", "file", "none", "also", "p-beside", "p/../good")
    given = ":".join(["", ".", "bin", *(f"{tmp_path}/{name}" for name in names), ""])
    said = drive(f"writable={tmp_path}/p", "path", PATH=given).stdout
    wanted = ":".join(f"{tmp_path}/{name}" for name in ("good", "good", "p-beside", "good"))
    assert said == f"{wanted}\n{given}\n"
    for none in (f"{tmp_path}/p/bin", "bin", f"{tmp_path}/a:b"):
        ended = drive(f"writable={tmp_path}/p", "path", PATH=none, status=125)
        said = "every directory of PATH can be written by the sandbox, or is below a sandbox.yaml"
        assert ended.stderr == f"sandbox: {said}\n"
    assert drive("path", PATH="").stdout.startswith("/usr/")


def test_no_program_comes_from_below_a_project(tmp_path: Path, drive: Drive) -> None:
    """A sandbox of that project may have written it; the same holds for the target of a link."""
    for name in ("other/.venv/bin", "good", "linked"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "other" / "sandbox.yaml").symlink_to("nowhere")
    for name in ("other/.venv/bin/x", "good/y"):
        (tmp_path / name).touch(0o755)
    (tmp_path / "linked" / "x").symlink_to(tmp_path / "other/.venv/bin/x")
    (tmp_path / "also").symlink_to("other")
    (tmp_path / "other" / "out").symlink_to("../good")
    (tmp_path / "to").symlink_to("other/out")
    (tmp_path / "linked" / "y").symlink_to(tmp_path / "other/out/y")
    names = ("other/.venv/bin", "other/out", "also/out", "to", "also", "linked", "good")
    path = ":".join(f"{tmp_path}/{name}" for name in names)
    wanted = [f"{tmp_path}/linked:{tmp_path}/good", path, "none", f"{tmp_path}/good/y", ""]
    assert drive("path", "find=x", "find=y", PATH=path).stdout.split("\n") == wanted


@pytest.mark.parametrize(
    "script", ["oci/launchers/engine.sh", "oci/account/alcless.sh", "seatbelt/launch.sh"]
)
def test_no_script_takes_a_program_from_below_a_project(tmp_path: Path, script: str) -> None:
    for name in ("other/bin", "good", "linked"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "other" / "sandbox.yaml").symlink_to("nowhere")
    (tmp_path / "also").symlink_to("other/bin")
    (tmp_path / "other" / "out").symlink_to("../good")
    text = (Path(__file__).parents[2] / script).read_text()
    part = text[text.index("below() {") : text.index("PATH=${sw_programs%:}")]
    given = ":".join(f"{tmp_path}/{name}" for name in ("other", "other/bin", "other/out", "also", "good"))
    shown = 'inside() { "$@" /none; }\nrefuse() { echo "$1"; }\n' + part + 'echo "$sw_programs"\n'
    for path, wanted in (
        (given, f"{tmp_path}/good:"),
        (
            f"{tmp_path}/also",
            "every directory of PATH can be written by the sandbox, or is below a sandbox.yaml",
        ),
    ):
        ended = subprocess.run(
            ["/bin/sh", "-euc", shown], env={"PATH": path}, capture_output=True, check=True
        )
        assert ended.stdout.decode().splitlines()[0] == wanted, ended


def test_a_program_is_found(tmp_path: Path, drive: Drive) -> None:
    for name, mode in (("one/x", 0o644), ("two/x", 0o755)):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch(mode)
    (tmp_path / "zero" / "x").mkdir(parents=True)
    path = ":".join(f"{tmp_path}/{name}" for name in ("zero", "one", "two"))
    assert drive("path", "find=x", "find=y", PATH=path).stdout.split("\n")[2:] == [
        f"{tmp_path}/two/x",
        "none",
        "",
    ]


def test_the_user_that_it_was_rendered_for(drive: Drive) -> None:
    drive(f"uid={os.geteuid()}", "paths")
    assert drive("uid=77", "paths", status=125).stderr == (
        "sandbox: user.mapping is required, and this was rendered for user 77: render it again\n"
    )


def test_paths_are_as_they_were(tmp_path: Path, drive: Drive) -> None:
    for name in ("d", "f", "link"):
        (tmp_path / "d").mkdir(exist_ok=True)
        (tmp_path / "f").touch()
        if name == "link":
            (tmp_path / "link").symlink_to("nowhere")
    here = str(tmp_path)
    drive(
        f"there_directories={here}/d",
        f"there_files={here}/f",
        f"absent={here}/none",
        f"absent={here}/f/x",
        "paths",
    )
    for field, name, said in (
        ("there_directories", "f", "changed its type after this was rendered: render it again"),
        ("there_files", "d", "changed its type after this was rendered: render it again"),
        ("there_directories", "link", "became a symbolic link after this was rendered"),
        ("there_files", "link", "became a symbolic link after this was rendered"),
        ("there_directories", "none", "was removed after this was rendered: render it again"),
        ("absent", "d", "appeared after this was rendered: render it again"),
        ("absent", "link", "appeared after this was rendered: render it again"),
    ):
        assert (
            drive(f"{field}={here}/{name}", "paths", status=125).stderr == f"sandbox: {here}/{name} {said}\n"
        )


def test_a_name_is_shown_in_a_terminal_as_text(tmp_path: Path, drive: Drive) -> None:
    (tmp_path / "a\x1b[2J\n\u00e9").touch()
    said = drive(f"absent={tmp_path}/a\x1b[2J\n\u00e9", "paths", status=125).stderr
    assert said == f"sandbox: {tmp_path}/a?[2J??? appeared after this was rendered: render it again\n"


def test_the_environment_is_what_is_listed(drive: Drive) -> None:
    odd = "one\nLC_FAKE=two\n'\"$(id) \\"
    fields = (
        "passed=LC_*",
        "passed=A",
        "passed=PATH",
        "passed=sw_x",
        "never=LC_ALL",
        "never=S_*",
        "passed=S_X",
    )
    given = {
        "LC_ODD": odd,
        "LC_ALL": "C",
        "A": "",
        "AB": "no",
        "sw_x": "1",
        "S_X": "no",
        "LC_A-B": "no",
        "LC_": "y",
    }
    said = drive(*fields, "path", "environment", **given).stdout
    found = said.split("\n", 2)[2].split("\0")
    assert sorted(found) == sorted(
        ["", f"LC_ODD={odd}", "A=", "sw_x=1", "LC_=y", f"PATH={os.environ['PATH']}"]
    )


def test_of_a_variable_that_is_there_twice_the_last_counts(driver: Path, tmp_path: Path) -> None:
    (tmp_path / "twice.c").write_text(
        "#include <unistd.h>\nint main(void)\n{\n"
        '    char *words[] = {"driver", "passed=A", "environment", 0};\n'
        '    char *env[] = {"A=1", "ASAN_OPTIONS=detect_leaks=0", "B", "=x", "A=2", 0};\n'
        f'    return execve("{driver}", words, env);\n}}\n'
    )
    subprocess.run(["cc", "-o", tmp_path / "twice", tmp_path / "twice.c"], check=True, timeout=WAIT)
    said = subprocess.run([tmp_path / "twice"], capture_output=True, timeout=WAIT, check=True).stdout
    assert said == b"A=2\0"


def test_a_run_has_a_directory_of_this_user(tmp_path: Path, drive: Drive) -> None:
    made = Path(drive("place", "directory").stdout.strip())
    assert re.fullmatch(r"sandwright-[0-9A-Za-z]{10}", made.name)
    assert made.parent == tmp_path / "state/sandwright/runs"
    for path in (made, made.parent, made.parents[1]):
        assert path.stat().st_mode & 0o7777 == 0o700
    method, launcher, monitor, where, project = (made / "owner").read_text().splitlines()
    own = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    assert (method, launcher) == ("bwrap", f"{os.getpid()} {own}")
    assert re.fullmatch(r"\d+ \d+", monitor)
    assert where == f"{boot()} {pid_namespace()} {machine()}"
    assert re.fullmatch(r"[0-9a-f]{16}|-", project)


def test_what_others_could_have_made_is_no_place(tmp_path: Path, drive: Drive) -> None:
    (tmp_path / "state/sandwright").mkdir(mode=0o777)
    (tmp_path / "state/sandwright").chmod(0o777)
    drive("place")
    assert (tmp_path / "state/sandwright").stat().st_mode & 0o7777 == 0o700
    (tmp_path / "state/sandwright/runs").rmdir()
    (tmp_path / "state/sandwright/runs").symlink_to(tmp_path)
    said = f"sandbox: {tmp_path}/state/sandwright/runs is not a directory of this user"
    assert drive("place", status=125).stderr.startswith(said)


@pytest.mark.skipif(os.getuid() != 0, reason="gives directories away")
def test_somebody_else_s_directory_is_no_place(tmp_path: Path, drive: Drive) -> None:
    os.chown(tmp_path / "state", 65534, 65534)
    made = Path(drive("place", "directory").stdout.strip())
    assert made.is_relative_to("/run/sandwright/runs")
    (made / "owner").unlink()
    made.rmdir()
    os.chown(tmp_path / "state", 0, 0)
    (tmp_path / "state/sandwright").mkdir()
    os.chown(tmp_path / "state/sandwright", 65534, 65534)
    assert "is not a directory of this user" in drive("place", status=125).stderr


def test_a_tree_is_removed_and_nothing_that_links_lead_to(tmp_path: Path, drive: Drive) -> None:
    for name in ("tree/a/b/c", "elsewhere/kept", "beside"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "tree/file").touch()
    (tmp_path / "tree/a/link").symlink_to(tmp_path / "elsewhere")
    drive(f"tree={tmp_path}/tree")
    assert not (tmp_path / "tree").exists()
    assert (tmp_path / "elsewhere/kept").is_dir()
    (tmp_path / "tree").symlink_to(tmp_path / "elsewhere")
    drive(f"tree={tmp_path}/tree", f"tree={tmp_path}/none")
    assert (tmp_path / "elsewhere/kept").is_dir()


@pytest.mark.parametrize("where", ["tree/a/b", "tree"])
def test_a_tree_ends_at_a_mount(tmp_path: Path, driver: Path, environ: dict[str, str], where: str) -> None:
    for name in ("tree/a/b", "tree/c", "elsewhere/kept"):
        (tmp_path / name).mkdir(parents=True)
    script = f'mount --bind "{tmp_path}/elsewhere" "{tmp_path}/{where}" && exec "$@"'
    argv = [
        "unshare",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        script,
        "sh",
        str(driver),
        f"tree={tmp_path}/tree",
    ]
    subprocess.run(argv, check=True, timeout=WAIT, env=environ)
    assert (tmp_path / "elsewhere/kept").is_dir()
    assert (tmp_path / "tree/c").exists() is (where == "tree")


def test_a_deep_tree_is_removed(tmp_path: Path, drive: Drive) -> None:
    (tmp_path / "tree").joinpath(*["d"] * 600).mkdir(parents=True)
    drive(f"tree={tmp_path}/tree")
    assert not (tmp_path / "tree").exists()


def test_the_number_of_a_helper_that_has_ended_is_no_helper_s(driver: Path, environ: dict[str, str]) -> None:
    """Programs inside can get this number: the memory of a helper, and of its children, does not count."""
    apart = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
    ended = subprocess.run(
        [*apart, driver, "number"], capture_output=True, text=True, timeout=WAIT, env=environ, check=False
    )
    if "unshare failed" in ended.stderr or ended.returncode == 4:
        pytest.skip("processes can't be given a number here")
    assert (ended.stdout, ended.returncode) == ("same 1 0\n", 0), ended.stderr
