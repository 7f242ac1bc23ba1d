"""Set-up: the plan for each machine, the announcement before it; a complete machine stays unchanged.

Tests of setup/requirements.py.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from sandwright import process
from sandwright.errors import CommandFailed, HostError, UsageError
from sandwright.host import PROGRAMS, Binfmt, MachineFacts, collect_host
from sandwright.setup.plan import InstallPackages, RegisterEmulator, SetupPlan, plan_setup
from sandwright.setup.requirements import EMULATORS, GROUPS, REQUIREMENTS, how_to_get

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
QEMU = (
    Binfmt("qemu-aarch64", True, "/usr/bin/qemu-aarch64-static", True),
    Binfmt("qemu-x86_64", True, "/usr/bin/qemu-x86_64-static", True),
)


@pytest.fixture(autouse=True)
def keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    """The only file among the requirements exists, whatever this machine is."""
    exists = Path.exists
    monkeypatch.setattr(Path, "exists", lambda path: str(path) == KEYRING or exists(path))


def _facts(**changes: Any) -> MachineFacts:
    plain: dict[str, Any] = {
        "os": "linux",
        "machine": "x86_64",
        "uid": 0,
        "package_manager": "apt",
        "systemd": False,
        "binfmt": QEMU,
        "programs": {name: f"/usr/bin/{name}" for name in PROGRAMS},
    }
    return dataclasses.replace(collect_host(), **{**plain, **changes})


def _without(*names: str) -> dict[str, str]:
    return {name: f"/usr/bin/{name}" for name in PROGRAMS if name not in names}


def test_nothing_to_do() -> None:
    plan = plan_setup(["smoke", "build"], _facts())
    assert plan.describe() == ["everything is there for build, smoke"]
    assert (plan.steps, plan.execute()) == ((), [])


def test_nothing_to_do_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object, **__: object) -> None:
        pytest.fail("a program was started")

    monkeypatch.setattr("subprocess.Popen", forbidden)
    plan_setup(GROUPS, _facts()).execute()


def test_what_is_missing_is_named_with_its_services() -> None:
    plan = plan_setup(["build", "smoke"], _facts(programs=_without("mmdebstrap", "bwrap", "dockerd")))
    assert plan.describe() == [
        "install with apt-get, as root: mmdebstrap bubblewrap docker.io",
        "these bring services, not started, as systemd doesn't run here: docker",
    ]


def test_with_systemd_services_start() -> None:
    plan = plan_setup(["smoke"], _facts(programs=_without("squid"), systemd=True))
    assert plan.describe() == [
        "install with apt-get, as root: squid",
        "these bring services, which systemd will start: squid (port 3128)",
    ]


def test_users_go_through_sudo() -> None:
    plan = plan_setup(["smoke"], _facts(programs=_without("crun"), uid=1000))
    assert plan.describe() == ["install with apt-get, through sudo: crun"]


def test_only_the_groups_that_are_wanted() -> None:
    facts = _facts(programs=_without("mmdebstrap", "bwrap", "skopeo"))
    packages = {group: plan_setup([group], facts).steps for group in GROUPS}
    assert {group: steps[0].packages for group, steps in packages.items()} == {  # type: ignore[attr-defined]
        "build": ("mmdebstrap",),
        "smoke": ("bubblewrap",),
        "test": ("skopeo",),
    }


def test_what_sandboxes_need_beside_their_runtimes_comes_with_these() -> None:
    """The programs are an agent's proxy, and those for Podman's networks without root."""
    plan = plan_setup(["smoke"], _facts(programs=_without("squid", "slirp4netns", "pasta")))
    assert plan.describe()[0] == "install with apt-get, as root: slirp4netns passt squid"


@pytest.mark.parametrize(
    ("machine", "programs", "binfmt", "packages", "registers"),
    [
        pytest.param("x86_64", ["qemu-aarch64-static"], (), True, ["aarch64"], id="nothing"),
        pytest.param("x86_64", [], (), False, ["aarch64"], id="installed-and-not-registered"),
        pytest.param("x86_64", [], QEMU[:1], False, [], id="registered"),
        pytest.param("aarch64", [], QEMU[:1], False, ["x86_64"], id="the-other-way-round"),
        pytest.param(
            "x86_64",
            [],
            (dataclasses.replace(QEMU[0], fix_binary=False),),
            False,
            ["aarch64"],
            id="registered-without-the-flag",
        ),
    ],
)
def test_emulators(
    machine: str, programs: list[str], binfmt: tuple[Binfmt, ...], packages: bool, registers: list[str]
) -> None:
    facts = _facts(machine=machine, binfmt=binfmt, programs=_without(*programs))
    steps = plan_setup(["build"], facts).steps
    assert [s.emulator.machine for s in steps if isinstance(s, RegisterEmulator)] == registers
    installed = [s.packages for s in steps if isinstance(s, InstallPackages)]
    assert installed == ([("qemu-user-static", "binfmt-support")] if packages else [])
    for step in steps:
        if isinstance(step, RegisterEmulator):
            assert "mount binfmt_misc on /proc/sys/fs/binfmt_misc" in step.describe()[0]


def test_smoke_alone_registers_nothing() -> None:
    assert plan_setup(["smoke"], _facts(binfmt=())).steps == ()


@pytest.mark.parametrize(
    ("manager", "lines"),
    [
        pytest.param(
            "apk",
            [
                "please run: apk add bubblewrap podman",
                "apk has no package we know for: mmdebstrap (runs maintainer scripts), "
                "qemu-aarch64 for linux/arm64",
            ],
            id="apk",
        ),
        pytest.param(
            "dnf", ["please run: dnf install mmdebstrap bubblewrap podman qemu-user-static"], id="dnf"
        ),
        pytest.param(
            None,
            [
                "no package manager that we know; "
                "please install: mmdebstrap, bwrap, podman, qemu-aarch64"
            ],
            id="none",
        ),
    ],
)  # fmt: skip
def test_other_package_managers_are_told_and_not_driven(manager: Any, lines: list[str]) -> None:
    facts = _facts(package_manager=manager, programs=_without("mmdebstrap", "bwrap", "podman"), binfmt=())
    plan = plan_setup(["build", "smoke"], facts)
    assert plan.describe() == lines
    assert (plan.steps, plan.execute()) == ((), [])


def test_macos() -> None:
    facts = _facts(
        os="darwin", machine="arm64", package_manager="brew", programs=_without("podman"), binfmt=()
    )
    assert plan_setup(["smoke"], facts).describe() == ["please run: brew install podman"]


def test_a_group_that_there_is_not() -> None:
    with pytest.raises(UsageError, match=r"^no group tests, all; there are build, smoke, test$"):
        plan_setup(["build", "tests", "all"], _facts())


def test_how_to_get() -> None:
    assert how_to_get("crun", "apt") == "apt-get install crun"
    assert how_to_get("dockerd", "dnf") == "dnf install moby-engine"
    assert how_to_get("runsc", "brew") == ""
    assert how_to_get("runsc", None) == ""
    assert how_to_get("no-such", "apt") == ""


def test_the_facts_know_every_program_of_the_table() -> None:
    wanted = {r.wants for r in REQUIREMENTS if not r.wants.startswith("/")}
    emulators = {program for emulator in EMULATORS for program in emulator.programs}
    assert wanted | emulators <= set(PROGRAMS)
    assert all("apt" in requirement.packages for requirement in REQUIREMENTS)


FAKE_APT = """#!/bin/sh
# A fake apt-get or apt-cache: writes down what it was asked, offers every package but those named no-*.
echo "$(basename "$0") $* [$DEBIAN_FRONTEND]" >> "{log}"
case "$(basename "$0") $*" in
  *" update"*) echo "E: mirror" >&2; exit {update};;
  "apt-cache policy"*) shift
    for package in "$@"; do
      case "$package" in no-*) continue;; esac
      printf '%s:\\n  Installed: (none)\\n  Candidate: 1.0\\n  Version table:\\n' "$package"
    done;;
  *" install"*) exit {install};;
esac
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def _fake_apt(
    directory: Path, log: Path, monkeypatch: pytest.MonkeyPatch, *, update: int = 0, install: int = 0
) -> None:
    monkeypatch.delenv("DEBIAN_FRONTEND", raising=False)
    for name in ("apt-get", "apt-cache"):
        (directory / name).write_text(FAKE_APT.format(log=log, update=update, install=install))
        (directory / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(directory), prepend=os.pathsep)


def _install(*packages: str, needed: tuple[str, ...] = (), as_root: tuple[str, ...] = ()) -> SetupPlan:
    return SetupPlan(("build",), (InstallPackages(packages, frozenset(needed), as_root),))


def test_installing(tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fake_apt(tmp_path, log, monkeypatch)
    assert _install("one", "two", needed=("one",)).execute() == []
    assert log.read_text().splitlines() == [
        "apt-get -q -o DPkg::Lock::Timeout=300 update [noninteractive]",
        "apt-cache policy one two []",
        "apt-get -q -o DPkg::Lock::Timeout=300 "
        "install --yes --no-install-recommends one two [noninteractive]",
    ]


def test_a_package_that_is_not_offered_is_told(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fake_apt(tmp_path, log, monkeypatch)
    notes = _install("one", "no-two", needed=("one",)).execute()
    assert notes == ["apt offers no package no-two here; going on without"]
    assert log.read_text().splitlines()[-1].endswith("--no-install-recommends one [noninteractive]")


def test_a_needed_package_that_is_not_offered_is_an_error(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fake_apt(tmp_path, log, monkeypatch)
    with pytest.raises(HostError, match=r"^apt offers no package no-one, which is needed"):
        _install("no-one", "two", needed=("no-one",)).execute()
    assert "install" not in log.read_text(), "nothing was installed by halves"


def test_lists_that_can_not_be_refreshed_are_told(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fake_apt(tmp_path, log, monkeypatch, update=100)
    assert _install("one").execute() == ["apt-get update failed: E: mirror"]


def test_an_installation_that_fails(tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fake_apt(tmp_path, log, monkeypatch, install=100)
    with pytest.raises(CommandFailed, match="exit status 100"):
        _install("one").execute()


SUDO = ("sudo", "-n")


def test_without_sudo(tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fake_apt(tmp_path, log, monkeypatch)
    find = process.find
    monkeypatch.setattr("sandwright.process.find", lambda name: None if name == "sudo" else find(name))
    with pytest.raises(
        HostError, match=r"^this needs root, and there is no sudo; run it as root: env DEBIAN"
    ):
        _install("one", as_root=SUDO).execute()
    assert not log.exists()


@pytest.mark.parametrize(
    ("script", "message"),
    [
        pytest.param(
            "exit 1", "this needs root, and sudo asks for a password; run it as root: env", id="password"
        ),
        pytest.param('shift; exec "$@"', "", id="allowed"),
    ],
)
def test_with_sudo(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch, script: str, message: str
) -> None:
    """A fake sudo: one that asks for a password, and one that doesn't."""
    _fake_apt(tmp_path, log, monkeypatch)
    (tmp_path / "sudo").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "sudo").chmod(0o755)
    plan = _install("one", as_root=SUDO)
    if message:
        with pytest.raises(HostError, match=f"^{message}"):
            plan.execute()
        assert not log.exists()
    else:
        assert plan.execute() == []
        assert "install" in log.read_text()


REGISTER = """
import json, sys
from sandwright.host import collect_host
from sandwright.setup.plan import RegisterEmulator
from sandwright.setup.requirements import EMULATORS
emulator = next(e for e in EMULATORS if e.platform == sys.argv[1])
before = collect_host().emulator(sys.argv[1])
notes = RegisterEmulator(emulator, ()).execute(None)
after = collect_host().emulator(sys.argv[1])
print(json.dumps([before is None, notes, after is not None]))
"""


def _register(platform: str, before: str) -> list[Any]:
    """Register in a user namespace with a separate binfmt_misc (Linux 6.7); `before` is shell."""
    script = f'mount --make-rprivate / && {before} && exec "$0" -c "$1" "$2"'
    own = ("unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = process.run(*own, "sh", "-c", script, sys.executable, REGISTER, platform, env=environment)
    said: list[Any] = json.loads(result.stdout)
    return said


def _own_binfmt() -> bool:
    own = ("unshare", "--user", "--map-root-user", "--mount", "mount", "-t", "binfmt_misc", "b")
    try:
        return bool(process.run(*own, "/proc/sys/fs/binfmt_misc", check=False))
    except CommandFailed:
        return False


@pytest.mark.needs("update-binfmts", "unshare")
@pytest.mark.parametrize(
    "before",
    [
        pytest.param("true", id="mounted-nothing"),
        pytest.param("mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc", id="mounted"),
    ],
)
def test_registering(before: str) -> None:
    if not _own_binfmt():
        pytest.skip("this kernel gives user namespaces no binfmt_misc of their own (Linux 6.7)")
    foreign = next(e for e in EMULATORS if e.platform != collect_host().platform)
    if process.find(foreign.programs[0]) is None:
        pytest.skip(f"{foreign.programs[0]} is not installed")
    assert _register(foreign.platform, before) == [True, [], True]


@pytest.mark.needs("unshare")
def test_registering_what_is_not_installed_is_told() -> None:
    if not _own_binfmt():
        pytest.skip("this kernel gives user namespaces no binfmt_misc of their own (Linux 6.7)")
    foreign = next(e for e in EMULATORS if e.platform != collect_host().platform)
    hidden = "mount -t tmpfs none /usr/share/binfmts && mount -t tmpfs none /var/lib/binfmts"
    missing, notes, there = _register(foreign.platform, hidden)
    assert (missing, there) == (True, False)
    assert notes[0].startswith(f"programs of {foreign.platform} won't run here: ")
