"""The launcher of OCI runtimes: a runtime's input, the status of its end, and leftovers after a kill.

Tests of launcher/source/bundle.c: the bundle of a run.
Tests of launcher/source/runtime.c.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import pytest

from sandwright import process
from sandwright.errors import HostError
from sandwright.launcher.plan import NAME, parse_plan, plan_bytes
from sandwright.methods.registry import backend
from support.cgroups import needs_groups
from support.launchers import launcher_of
from support.processtrees import children, naming, program
from support.thorough import THOROUGH, covering
from support.waiting import until

WAIT = 60
GATE = "/.sandwright-gate"
FAKE = """\
#!/bin/sh
printf '%s\\n' "$@" >>{made}/words
env >{made}/environment
ls -l /proc/self/fd >{made}/descriptors
while [ $# -gt 0 ]; do
    case $1 in
    --bundle) ls -l "$2" >{made}/modes; cp -a "$2" {made}/bundle ;;
    --log) log=$2 ;;
    --root) state=$2 ;;
    delete) exit 0 ;;
    esac
    shift
done
{script}
"""
RUNTIMES = [
    pytest.param("oci", marks=pytest.mark.needs("runc", "busybox")),
    pytest.param("gvisor", marks=pytest.mark.needs("runsc", "busybox")),
]
PROGRAMS = {"oci": "runc", "gvisor": "runsc"}


@dataclass
class Launcher:
    """A rendered launcher, and a stand-in runtime that records its input."""

    method: str
    scratch: Path
    environment: dict[str, str] = field(default_factory=dict)
    mark: str = field(default_factory=lambda: str(random.randrange(10**8, 10**9)))
    """The number of seconds for which the command sleeps: it is unique among tests."""

    @property
    def folder(self) -> Path:
        return self.scratch / "out"

    @property
    def made(self) -> Path:
        return self.scratch / "made"

    def fake(self, script: str = "exit 0") -> None:
        (self.scratch / "bin").mkdir()
        for name in ("runc", "runsc"):
            program = self.scratch / "bin" / name
            program.write_text(FAKE.format(made=self.made, script=script))
            program.chmod(0o755)
        self.environment["PATH"] = f"{self.scratch}/bin:{os.environ['PATH']}"

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.folder / "launch", *words],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WAIT,
            check=False,
        )

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start it in a separate process group, and wait for the command's first line."""
        running = subprocess.Popen(
            [self.folder / "launch", *words],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            process_group=0,
        )
        assert running.stdout is not None
        assert running.stdout.readline() == b"up\n"
        return running

    def template(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "config.json").read_bytes())
        return found

    def config(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.made / "bundle" / "config.json").read_bytes())
        return found

    def change_plan(self, section: Literal["image", "runtime"], **changes: Any) -> None:
        file = self.folder / NAME
        whole = parse_plan(file.read_bytes())
        changed = replace(getattr(whole, section), **changes)
        file.write_bytes(plan_bytes(replace(whole, **{section: changed})))

    def runs(self) -> list[Path]:
        return list((self.scratch / "state" / "sandwright" / "runs").glob("*"))


Make = Callable[..., Launcher]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    for name in (*("bin", "dev", "etc", "proc", "run", "sys", "tmp", "usr", "var"), 'opt/q"\n\\'):
        (tmp_path / "image" / name).mkdir(parents=True)
    for name in ("state", "made", "home/p/.git"):
        (tmp_path / name).mkdir(parents=True)

    def made(method: str, policy: str = "") -> Launcher:
        text, project = f"schema: 1\nmethod: {method}\n{policy}", tmp_path / "home" / "p"
        launcher_of(text, method, tmp_path / "out", project=project)
        return Launcher(
            method,
            tmp_path,
            {
                "PATH": os.environ["PATH"],
                "SANDWRIGHT_ROOTFS": str(tmp_path / "image"),
                "XDG_RUNTIME_DIR": str(tmp_path / "state"),
            },
        )

    return made


def _busybox(image: Path) -> None:
    shutil.copy(process.which("busybox"), image / "bin" / "busybox")
    for name in ("sh", "sleep", "echo", "true"):
        (image / "bin" / name).symlink_to("busybox")


ODD = ["", '"', "\\", "\n", "\x01\x1f\x7f", "é", '    "args": [', '"}],"mounts":[{', "\t"]


@pytest.mark.parametrize("method", ["oci", "gvisor"])
def test_the_configuration_is_as_rendered_but_for_what_a_run_brings(method: str, make: Make) -> None:
    launcher = make(method, "environment: {pass: [LC_*], set: {CI: yes}}\n")
    launcher.fake()
    launcher.environment |= {"LC_ODD": "".join(ODD), "LC_EMPTY": "", "TOKEN": "PLANTED"}
    assert launcher.run("echo", *ODD).returncode == 0
    before, after = launcher.template(), launcher.config()
    run = (launcher.made / "words").read_text().splitlines()[-1]
    assert re.fullmatch("sandwright-[A-Za-z0-9]{10}", run)
    args = after["process"].pop("args")
    walled = ["--backstop", "3", "w/tmp", "r/sys", "--"] if method == "oci" and "--backstop" in args else []
    assert args == ["/.sandwright-init", *walled, "--gate", GATE, "--init", "-", "echo", *ODD]
    assert before["process"].pop("args") == ["/bin/sh"]
    passed = sorted([f"LC_ODD={''.join(ODD)}", "LC_EMPTY="])
    own = before["process"].pop("env")
    found = after["process"].pop("env")
    assert (sorted(found[:2]), found[2:]) == (passed, own)
    if method == "oci":
        asking = json.loads((launcher.folder / "asking.json").read_bytes())
        place = after["linux"]["seccomp"].pop("listenerPath")
        assert re.fullmatch(rf"/proc/[0-9]+/fd/[0-9]+/listener|{launcher.scratch}/.*/{run}/listener", place)
        assert after["linux"].pop("seccomp") == asking
        assert before["linux"].pop("seccomp") != asking
    for config in (before, after):
        group = config["linux"].pop("cgroupsPath", None)
        assert group in (None, "/sandwright-run", f"/{run}")
    count = len(after["mounts"]) - len(before["mounts"])
    added, kept = after["mounts"][:count], after["mounts"][count:]
    assert kept == before["mounts"]
    assert {**before, "mounts": 0} == {**after, "mounts": 0}
    image = launcher.scratch / "image"
    sources = {each["destination"]: each["source"] for each in added}
    assert sources.pop(GATE).endswith(f"/runs/{run}/gate")
    assert sources == {
        "/.sandwright-init": f"{launcher.folder}/launch-init",
        **{f"/{name}": f"{image}/{name}" for name in ("bin", "etc", "opt", "run", "usr", "var")},
    }
    options = ["rbind", "rprivate", "nosuid", "nodev", "ro"]
    special = {GATE: [*options[:-1], "noexec", "ro"]}
    assert all(each["options"] == special.get(each["destination"], options) for each in added)
    assert launcher.runs() == []


@pytest.mark.parametrize(
    ("method", "name", "raw"),
    covering(
        [pytest.param("oci", "runc"), pytest.param("gvisor", "gVisor")],
        [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"a\x80"],
    ),
)
def test_what_a_runtime_would_change_is_refused(method: str, name: str, raw: bytes, make: Make) -> None:
    """The configuration is JSON: any other byte would become a replacement character, and another name."""
    launcher = make(method, "environment: {pass: [ODD]}\n")
    launcher.fake()
    text = os.fsdecode(raw)
    refused = launcher.run("rm", text)
    said = f"sandbox: an argument of the command is not valid UTF-8, which {name} requires\n"
    assert (refused.returncode, refused.stderr) == (125, said)
    launcher.environment["ODD"] = text
    refused = launcher.run("true")
    said = f"sandbox: the variable ODD is not valid UTF-8, which {name} requires\n"
    assert (refused.returncode, refused.stderr) == (125, said)
    assert not (launcher.made / "words").exists()


@pytest.mark.parametrize(
    ("limits", "variables"),
    covering(["", pytest.param("resources: {memory: 1GiB}\n", marks=needs_groups)], ["{}", "{A: b}"]),
)
def test_every_form_of_a_configuration_stays_json(limits: str, variables: str, make: Make) -> None:
    """The forms have a cgroup or none, variables of the policy, and variables that are passed through."""
    launcher = make("oci", f"{limits}environment: {{pass: [LC_A, PATH], set: {variables}}}\n")
    launcher.fake()
    own = launcher.template()["process"]["env"]
    for given in ({}, {"LC_A": "1"}):
        shutil.rmtree(launcher.made / "bundle", ignore_errors=True)
        launcher.environment |= given
        assert launcher.run("true").returncode == 0
        passed = [
            f"PATH={launcher.environment['PATH']}",
            *(f"{name}={value}" for name, value in given.items()),
        ]
        found = launcher.config()["process"]["env"]
        assert (sorted(found[: len(passed)]), found[len(passed) :]) == (sorted(passed), own)


def test_what_lies_at_the_root(make: Make) -> None:
    """Links stay links, directories and files are mounted, and other entries are missing."""
    launcher = make("oci")
    image = launcher.scratch / "image"
    (image / "file").write_text("kept in the image")
    (image / ".hidden").mkdir()
    (image / "..odd").mkdir()
    (image / "lib").symlink_to("usr/lib")
    (image / 'link"').symlink_to("/nowhere\n")
    os.mkfifo(image / "pipe")
    (image / "etc" / "passwd").write_text("")
    (image / "etc" / "group").symlink_to("passwd")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(image / "socket"))
        launcher.fake()
        assert launcher.run("true").returncode == 0
    root = launcher.made / "bundle" / "rootfs"
    names = {
        "bin",
        "etc",
        "opt",
        "run",
        "usr",
        "var",
        "file",
        ".hidden",
        "..odd",
        ".sandwright-init",
        GATE[1:],
    }
    assert {each.name for each in root.iterdir()} == names | {"lib", 'link"'}
    links = [str((root / name).readlink()) for name in ("lib", 'link"')]
    assert links == ["usr/lib", "/nowhere\n"]
    assert [each for each in root.rglob("*") if each.parent != root] == []
    assert (root / "file").read_bytes() == b""
    mounted = {each["destination"]: each["source"] for each in launcher.config()["mounts"]}
    assert mounted["/..odd"] == f"{image}/..odd"
    assert mounted["/etc/passwd"] == f"{launcher.folder}/passwd"
    assert "/etc/group" not in mounted


def test_what_a_runtime_is_started_with(make: Make) -> None:
    launcher = make("gvisor")
    launcher.fake()
    launcher.environment |= {"RUNC_TRICK": "1", "LD_LIBRARY_PATH": "/nowhere"}
    assert launcher.run("true").returncode == 0
    given = dict(line.split("=", 1) for line in (launcher.made / "environment").read_text().splitlines())
    assert set(given) - {"PWD", "_", "SHLVL", "OLDPWD"} == {"PATH", "HOME"}, "the others are a shell's own"
    assert given["HOME"] == "/nonexistent"
    open_files = {line.split()[8] for line in (launcher.made / "descriptors").read_text().splitlines()[1:]}
    assert open_files <= {"0", "1", "2", "3"}, "3 is of ls"
    listing = (launcher.made / "modes").read_text().splitlines()[1:]
    modes = {line.split()[-1]: line.split()[0] for line in listing}
    assert modes["nothing"] == "----------"
    words = (launcher.made / "words").read_text().splitlines()
    assert words[words.index("--root") + 2 :][:2] == ["--oci-seccomp", "--network=none"]


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("run failed: starting: exec: x: permission denied", 126),
        ("run failed: starting: exec: x: is a directory", 126),
        ("running container: x: failed to load /x: no such file or directory", 127),
        ('run failed: exec: "x": executable file not found in $PATH', 127),
        ("run failed: exec: permission: no such file or directory", 127),
        ("run failed: anything else", 125),
        ("permission denied exec: but nothing failed", 3),
        ("permission denied, and run failed: exec: other", 125),
    ],
)
def test_what_could_not_be_run(line: str, status: int, make: Make) -> None:
    launcher = make("oci")
    launcher.fake(f"echo before >\"$log\"; printf '%s' '{line}' >>\"$log\"; exit 3")
    assert launcher.run("true").returncode == status
    assert launcher.runs() == []


def test_what_a_runtime_still_knows_is_deleted(make: Make) -> None:
    launcher = make("oci")
    launcher.fake(
        'mkdir -p "$state/${state%/state}"; mkdir -p "$state/$(basename "${state%/state}")"; kill -9 $$'
    )
    assert launcher.run("true").returncode == 137
    words = (launcher.made / "words").read_text().splitlines()
    assert words[-3:-1] == ["delete", "--force"]
    assert words[-1].startswith("sandwright-")
    assert launcher.runs() == []


@pytest.mark.parametrize(
    "holes",
    [(("args", "10 5"),), (("args", "0 999999999"),), (("args", "9 9"), ("env", "3 3")), (("odd", "1 1"),)],
)
def test_holes_that_are_none(holes: tuple[tuple[str, str], ...], make: Make) -> None:
    launcher = make("oci")
    launcher.fake()
    launcher.change_plan("runtime", config_holes=holes)
    ended = launcher.run("true")
    assert (ended.returncode, ended.stdout) == (125, "")
    assert "config.json" in ended.stderr
    assert not (launcher.made / "words").exists()
    assert launcher.runs() == []


@pytest.mark.parametrize("kind", ["nothing", "link", "link above", "there", "there by a link"])
def test_mount_points_are_the_image_s(kind: str, make: Make) -> None:
    launcher = make("oci")
    launcher.fake()
    launcher.change_plan("image", points=("/usr/data/point",))
    image = launcher.scratch / "image"
    (image / "elsewhere" / "point").mkdir(parents=True)
    (launcher.scratch / "outside" / "point").mkdir(parents=True)
    match kind:
        case "link":
            (image / "usr" / "data").mkdir()
            (image / "usr" / "data" / "point").symlink_to("../../elsewhere/point")
        case "link above":
            (image / "usr" / "data").symlink_to(launcher.scratch / "outside")
        case "there":
            (image / "usr" / "data" / "point").mkdir(parents=True)
        case "there by a link":
            (image / "usr" / "data").symlink_to("/elsewhere")
    ended = launcher.run("true")
    if kind.startswith("there"):
        assert (ended.returncode, ended.stderr) == (0, "")
    else:
        said = "sandbox: the image has no /usr/data/point to mount on, or a symbolic link there, and nothing "
        assert (ended.returncode, ended.stderr[: len(said)]) == (125, said)
        assert not (launcher.made / "words").exists()


def test_it_is_for_who_it_was_rendered_for(make: Make) -> None:
    launcher = make("oci")
    launcher.fake()
    rootless = os.getuid() != 0
    launcher.change_plan("runtime", rootless=not rootless)
    who = "root" if rootless else "another user than root"
    ended = launcher.run("true")
    assert (ended.returncode, ended.stderr) == (
        125,
        f"sandbox: this was rendered for {who}: render it again\n",
    )


def test_there_is_no_image(make: Make) -> None:
    launcher = make("oci")
    launcher.fake()
    for given in ("", str(launcher.scratch / "nowhere")):
        launcher.environment["SANDWRIGHT_ROOTFS"] = given
        ended = launcher.run("true")
        assert ended.returncode == 125
        assert f"{given or launcher.folder / 'rootfs'} does not exist: set SANDWRIGHT_ROOTFS" in ended.stderr


# ---- with the real runtimes


def _with_var(launcher: Launcher) -> Path:
    """An image with a file in /var, and a rendered path in /var/lib that it lacks."""
    image = launcher.scratch / "image"
    (image / "var" / "lib" / "dpkg").mkdir(parents=True)
    (image / "var" / "log").mkdir()
    (image / "var" / "run").symlink_to("/run")
    (image / "var" / "lib" / "file").write_text("the image's")
    launcher.change_plan("image", points=("/var/lib/ci/job", "/var/lib/ci/other"))
    return image


def test_a_place_in_var_is_made_in_the_run_s_own_root(make: Make) -> None:
    launcher = make("oci")
    launcher.fake()
    image = _with_var(launcher)
    ended = launcher.run("true")
    assert (ended.returncode, ended.stderr) == (0, "")
    var = launcher.made / "bundle" / "rootfs" / "var"
    assert {each.name for each in var.iterdir()} == {"lib", "log", "run"}
    assert {each.name for each in (var / "lib").iterdir()} == {"dpkg", "file"}
    assert (str((var / "run").readlink()), (var / "lib" / "file").read_bytes()) == ("/run", b"")
    mounted = {each["destination"]: each["source"] for each in launcher.config()["mounts"]}
    shown = {path: source for path, source in mounted.items() if path.startswith("/var")}
    assert shown == {f"/var/{name}": f"{image}/var/{name}" for name in ("log", "lib/dpkg", "lib/file")}
    assert not (image / "var" / "lib" / "ci").exists()


@pytest.mark.parametrize("kind", ["a link above", "a file above", "a link", "too many names"])
def test_places_in_var_that_can_not_be_made(kind: str, make: Make) -> None:
    launcher = make("oci")
    launcher.fake()
    image = _with_var(launcher)
    (launcher.scratch / "outside").mkdir()
    match kind:
        case "a link above":
            (image / "var" / "lib" / "ci").symlink_to(launcher.scratch / "outside")
        case "a file above":
            (image / "var" / "lib" / "ci").touch()
        case "a link":
            (image / "var" / "lib" / "ci").mkdir()
            (image / "var" / "lib" / "ci" / "job").symlink_to("/var/log")
        case "too many names":
            for number in range(300):
                (image / "var" / "lib" / str(number)).touch()
    ended = launcher.run("true")
    said = "more than 256 entries" if kind == "too many names" else "has no /var/lib/ci/job to mount on"
    assert (ended.returncode, said in ended.stderr) == (125, True), ended.stderr
    assert not (launcher.made / "words").exists()
    assert launcher.runs() == []


@pytest.mark.parametrize("method", RUNTIMES)
def test_a_project_in_var(method: str, make: Make) -> None:
    with tempfile.TemporaryDirectory(prefix="sandwright-test-", dir="/var/tmp") as place:
        launcher = make(method, f"filesystem: {{write: [{place}]}}\n")
        image = launcher.scratch / "image"
        _busybox(image)
        (image / "var" / "tmp").mkdir()
        (image / "var" / "log" / "of-the-image").mkdir(parents=True)
        script = (
            f"echo x >{place}/made && cd /var/log/of-the-image && ! echo x >/var/tmp/x && ! echo x >/var/x"
        )
        ended = launcher.run("sh", "-c", script)
        assert ended.returncode == 0, ended.stderr
        assert Path(place, "made").read_text() == "x\n"
        assert {each.name for each in (image / "var").iterdir()} == {"tmp", "log"}
        assert list((image / "var" / "tmp").iterdir()) == []


@pytest.fixture(params=RUNTIMES)
def started(request: pytest.FixtureRequest, make: Make) -> Iterator[Launcher]:
    launcher = make(request.param)
    _busybox(launcher.scratch / "image")
    yield launcher
    until(lambda: launcher.runs() == [], "a directory is left")
    until(lambda: _of(launcher) == [], "a process is left")
    assert [each for each in Path("/sys/fs/cgroup").glob("*/sandwright-*") if _is_run(each, launcher)] == []


def _is_run(group: Path, launcher: Launcher) -> bool:
    return any(str(launcher.scratch) in words for words in _words_in(group))


def _words_in(group: Path) -> list[str]:
    try:
        return [
            Path(f"/proc/{pid}/cmdline").read_text() for pid in (group / "cgroup.procs").read_text().split()
        ]
    except OSError:
        return []


def _of(launcher: Launcher) -> list[int]:
    """The processes with the run's directory, or the command's mark, among their arguments."""
    return [*naming(str(launcher.scratch)), *naming(launcher.mark)]


def _victims(launcher: Launcher, running: subprocess.Popen[bytes], who: str) -> list[int]:
    monitor = next(pid for pid in children(running.pid) if children(pid))
    runtime = [pid for pid in children(monitor) if program(pid) == PROGRAMS[launcher.method]]
    assert runtime
    return {"launcher": [running.pid], "monitor": [monitor], "runtime": runtime}[who]


@pytest.mark.parametrize("who", ["launcher", "monitor", "runtime"])
def test_whoever_is_killed_leaves_nothing(who: str, started: Launcher) -> None:
    running = started.start("sh", "-c", f"echo up; sleep {started.mark} & sleep {started.mark}")
    for pid in _victims(started, running, who):
        os.kill(pid, signal.SIGKILL)
    running.communicate(timeout=WAIT)
    assert running.returncode == (-9 if who == "launcher" else 137)
    until(lambda: started.runs() == [] and _of(started) == [], f"something is left of {who}")
    assert started.run("true").returncode == 0


@pytest.mark.parametrize(
    ("started", "who", "delay"),
    covering(covering(RUNTIMES, ["launcher", "monitor"], thorough=True), range(0, 6, 1 if THOROUGH else 2)),
    indirect=["started"],
)
def test_who_is_killed_while_it_starts(who: str, delay: int, started: Launcher) -> None:
    running = subprocess.Popen(
        [started.folder / "launch", "sleep", started.mark],
        env=started.environment,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        process_group=0,
    )
    until(lambda: bool(started.runs()), "it does not start")
    time.sleep(delay * 0.03)
    monitor = next((pid for pid in children(running.pid) if children(pid)), running.pid)
    os.kill(running.pid if who == "launcher" else monitor, signal.SIGKILL)
    assert running.wait(WAIT) in (-9, 125, 137)
    until(lambda: started.runs() == [] and _of(started) == [], f"something is left of {who}")
    assert started.run("true").returncode == 0


@pytest.mark.parametrize(
    ("started", "number"),
    covering(RUNTIMES, [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]),
    indirect=["started"],
    ids=str,
)
def test_a_signal_ends_who_does_not_care(number: signal.Signals, started: Launcher) -> None:
    """The launcher gets the signal by its number, or with its group, as from a terminal."""
    for send in (os.kill, os.killpg):
        running = started.start("sh", "-c", f"echo up; exec sleep {started.mark}")
        send(running.pid, number)
        running.communicate(timeout=WAIT)
        assert running.returncode == 128 + number


def test_a_signal_reaches_the_command_once(started: Launcher) -> None:
    script = "trap 'echo got' USR1; trap 'exit 9' TERM; echo up; while :; do sleep 0.05; done"
    running = started.start("sh", "-c", script)
    assert running.stdout is not None
    for _ in range(2):
        running.send_signal(signal.SIGUSR1)
        assert running.stdout.readline() == b"got\n"
    running.send_signal(signal.SIGTERM)
    said, _ = running.communicate(timeout=WAIT)
    assert (running.returncode, said) == (9, b"")


@pytest.mark.parametrize("started", RUNTIMES[:1], indirect=True)
@pytest.mark.parametrize("fault", ["it is not deleted", "it is said to be deleted", "there is no runtime"])
def test_the_directory_of_a_container_that_goes_on_stays(
    fault: str, started: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later runs find the container by it alone: the next one removed the file that protected .envrc.

    gVisor's container ends with its launcher (PR_SET_PDEATHSIG).
    """
    project = started.scratch / "home" / "p"
    loop = "while :; do echo x > .envrc; mkdir .husky; sleep 0.1; done 2>/dev/null"
    running = started.start("sh", "-c", f"cd {project}; sleep {started.mark} & echo up; {loop}")
    # The launcher is killed last: at its death the kernel would continue a stopped monitor (setpgid(2)).
    both = [*_victims(started, running, "monitor"), running.pid]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for each in both:
            os.kill(each, number)
    running.communicate(timeout=WAIT)
    (run,) = started.runs()
    first = int((run / "pid").read_text())
    monkeypatch.setenv("XDG_RUNTIME_DIR", started.environment["XDG_RUNTIME_DIR"])
    (left,) = backend(started.method).leftovers(())
    try:
        with monkeypatch.context() as without:
            _without_runtime(fault, started.scratch / "faulty", without)
            with pytest.raises(HostError, match=f"the directory of {run.name} stays, because"):
                backend(started.method).remove(left)
        assert started.run("echo", "again").stdout == "again\n"
        time.sleep(0.5)
        assert (project / ".envrc").is_dir(), "what stands there is still ours"
        assert not any((project / ".envrc").iterdir())
    finally:
        argv = (PROGRAMS[started.method], "--root", run / "state", "delete", "--force", run.name)
        process.run(*argv, timeout=WAIT, check=False)
        with contextlib.suppress(ProcessLookupError):
            os.kill(first, signal.SIGKILL)
    backend(started.method).remove(left)
    assert started.runs() == []
    started.run("echo", "again")
    assert [path.name for path in project.iterdir()] == [".git"]


def _without_runtime(fault: str, folder: Path, patch: pytest.MonkeyPatch) -> None:
    if fault == "there is no runtime":
        patch.setattr(process, "find", lambda _: None)
        return
    folder.mkdir()
    for name in ("runc", "crun", "runsc"):
        (folder / name).write_text(f"#!/bin/sh\nexit {0 if fault == 'it is said to be deleted' else 1}\n")
        (folder / name).chmod(0o755)
    patch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
