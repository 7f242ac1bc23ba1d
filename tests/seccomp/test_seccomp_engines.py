"""Containers start under the shipped profiles, ordinary programs work, and denied calls are denied."""

from __future__ import annotations

import json
import os
import platform
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from sandwright import process
from sandwright.render.artifact import json_text
from sandwright.seccomp import CatalogueProfile, compile_profile, gvisor_json, oci_json, profile
from support.seccomp_engines import (
    PYTHON,
    empty_root,
    image,
    name,
    run_bundle,
    run_in_engine,
    runtime_command,
)

pytestmark = [
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the probe calls by the numbers of amd64"),
    pytest.mark.skipif(os.geteuid() != 0, reason="starts containers as root"),
    pytest.mark.skipif(not Path(PYTHON).exists(), reason=f"{PYTHON} is what runs in the containers"),
]

PROBE = r"""
import ctypes, errno, json, socket, subprocess, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

def call(number, *arguments):
    ctypes.set_errno(0)
    answer = libc.syscall(ctypes.c_long(number), *map(ctypes.c_ulong, arguments))
    return "ok" if answer >= 0 else errno.errorcode.get(ctypes.get_errno(), ctypes.get_errno())

def family(*kind):
    try:
        socket.socket(*kind).close()
    except OSError as error:
        return errno.errorcode[error.errno]
    return "ok"

found = {}
thread = threading.Thread(target=lambda: found.update(thread="ok"))
thread.start()
thread.join()
piped = subprocess.run(["/bin/sh", "-c", "echo from | cat"], capture_output=True, text=True)
found["child"] = piped.stdout.strip()
found["unix"], found["inet"], found["route"] = family(1, 1), family(2, 2), family(16, 3, 0)
found["vsock"], found["packet"], found["audit"] = family(40, 1), family(17, 3), family(16, 3, 9)
found["clone3"], found["unshare"] = call(435, 0, 0), call(272, 0x10000000)
found["mount"] = call(165, 0, 0, 0, 0, 0)
found["ptrace"], found["keyctl"] = call(101, 99999, 0, 0, 0), call(250, 0, 2**64 - 3, 0)
found["io_uring"] = call(425, 0, 0)
found["userfaultfd"], found["unknown"] = call(323, 0), call(600)
found["TIOCSTI"], found["TIOCSTI with an upper bit"] = call(16, 0, 0x5412, 0), call(16, 0, 0x100005412, 0)
found["other request"] = call(16, 0, 0x5401, 0)
found["personality"], found["no randomization"] = call(135, 0xFFFFFFFF), call(135, 0x40000)
found["shared memory"] = call(29, 0, 4096, 0o1600)
print(json.dumps(found))
"""

WORKS = {"thread": "ok", "child": "from", "unix": "ok", "inet": "ok", "route": "ok", "personality": "ok"}
REFUSED = {
    **dict.fromkeys(("vsock", "packet", "unshare", "mount", "keyctl", "io_uring", "userfaultfd"), "EPERM"),
    **dict.fromkeys(("TIOCSTI", "TIOCSTI with an upper bit"), "EPERM"),
    "audit": "EPROTONOSUPPORT",
    "clone3": "ENOSYS",
    "unknown": "ENOSYS",
    "other request": "ENOTTY",
}
EXPECTED: Mapping[str, Mapping[str, str]] = {
    "default": {**WORKS, **REFUSED, "ptrace": "EPERM", "no randomization": "EPERM", "shared memory": "ok"},
    "strict": {**WORKS, **REFUSED, "ptrace": "EPERM", "no randomization": "EPERM", "shared memory": "EPERM"},
    "build": {**WORKS, **REFUSED, "ptrace": "ESRCH", "no randomization": "ok", "shared memory": "ok"},
}
NAMES = tuple(EXPECTED)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The directory that containers have as /w."""
    folder = tmp_path / "files"
    folder.mkdir(mode=0o755)
    (folder / "probe.py").write_text(PROBE, encoding="utf-8")
    return folder


def found(result: process.Result) -> dict[str, Any]:
    assert result, result.stderr
    answers = json.loads(result.text.splitlines()[-1])
    assert isinstance(answers, dict)
    return answers


PODMAN = ("podman", "--cgroup-manager", "cgroupfs", "--runtime", "runc")
LIMITS = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096")
"""Podman sets these to the host's values, which takes a right that not every machine gives."""


@pytest.fixture(scope="module")
def podman() -> Iterator[str]:
    with image(*PODMAN) as label:
        yield label


def engine_profile(folder: Path, which: str, *, caps: Sequence[str] = ()) -> str:
    path = folder / f"{which}.json"
    path.write_text(json_text(oci_json(profile(which).expand(caps=caps), comments=True)), encoding="utf-8")
    return f"seccomp={path}"


@pytest.mark.needs("docker")
@pytest.mark.parametrize("which", NAMES)
def test_docker(docker: str, files: Path, which: str) -> None:
    security = ("--security-opt", "no-new-privileges", "--security-opt", engine_profile(files, which))
    result = run_in_engine(["docker"], docker, [PYTHON, "/w/probe.py"], *security, files=files)
    assert found(result) == EXPECTED[which]


@pytest.mark.needs("podman", "runc")
@pytest.mark.parametrize("which", NAMES)
def test_podman(podman: str, files: Path, which: str) -> None:
    security = ("--security-opt", "no-new-privileges", "--security-opt", engine_profile(files, which))
    result = run_in_engine(PODMAN, podman, [PYTHON, "/w/probe.py"], *security, *LIMITS, files=files)
    assert found(result) == EXPECTED[which]


@pytest.mark.parametrize("which", NAMES)
@pytest.mark.parametrize(
    "runtime", [pytest.param(one, marks=pytest.mark.needs(one)) for one in ("runc", "crun")]
)
def test_runtimes(tmp_path: Path, files: Path, runtime: str, which: str) -> None:
    command = runtime_command(runtime, tmp_path / "state")
    result = run_bundle(
        command, tmp_path, [PYTHON, "/w/probe.py"], oci_json(profile(which).expand()), files=files
    )
    assert found(result) == EXPECTED[which]


@pytest.mark.needs("runc")
def test_without_a_profile_the_same_calls_are_made(tmp_path: Path, files: Path) -> None:
    """The profile refuses the calls above, not the container."""
    command = runtime_command("runc", tmp_path / "state")
    answers = found(run_bundle(command, tmp_path, [PYTHON, "/w/probe.py"], None, files=files))
    differing = {key for key, answer in answers.items() if answer != EXPECTED["default"][key]}
    assert differing >= {"clone3", "ptrace", "io_uring", "TIOCSTI", "no randomization", "mount"}
    assert {key: answers[key] for key in WORKS} == WORKS


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("which", NAMES)
def test_bwrap(tmp_path: Path, files: Path, which: str) -> None:
    path = tmp_path / "filter.bpf"
    path.write_bytes(compile_profile(profile(which).expand(), arch="amd64"))
    root = ("--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib")
    more = ("--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp")
    with path.open("rb") as filter_:
        number = filter_.fileno()
        result = process.run(
            *(
                "bwrap",
                *root,
                *more,
                "--ro-bind",
                files,
                "/w",
                "--unshare-all",
                "--unshare-user",
                "--new-session",
            ),
            *("--die-with-parent", "--seccomp", str(number), PYTHON, "/w/probe.py"),
            pass_fds=[number],
            check=False,
        )
    assert found(result) == EXPECTED[which]


WORK = r"""
set -e
cd /tmp
printf 'int main(void) { return 0; }\n' > main.c
cc -o main main.c && ./main
git init -q repository && cd repository
git config user.name A && git config user.email a@example.org
git commit -q --allow-empty -m first && git log --oneline | grep -q first
mkfifo pipe && rm pipe
tar cf ../all.tar . && mkdir ../copy && tar xf ../all.tar -C ../copy
cp -a ../copy ../again && chmod 700 ../again && touch -d 2001-01-01 ../again/x && mv ../again/x ../again/y
find .. -name y | sed s/y/z/ | sort > /dev/null
python3 - <<END
import concurrent.futures, os, selectors, socket, sqlite3, ssl, subprocess
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    assert sum(pool.map(abs, range(-99, 0))) == 4950
database = sqlite3.connect("/tmp/database")
database.execute("create table t (a)")
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
one, other = socket.socketpair()
selector = selectors.DefaultSelector()
selector.register(one, selectors.EVENT_READ)
other.send(b"x")
assert selector.select(5)
socket.getaddrinfo("localhost", 80)
subprocess.run(["true"], check=True, preexec_fn=os.setsid)
ssl.create_default_context()
END
echo done
"""


@pytest.mark.needs("bwrap", "git", "cc")
@pytest.mark.parametrize("which", NAMES)
def test_the_work_of_a_developer_is_possible(tmp_path: Path, which: str) -> None:
    path = tmp_path / "filter.bpf"
    path.write_bytes(compile_profile(profile(which).expand(), arch="amd64"))
    root = ("--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib")
    more = ("--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp")
    etc = ("--ro-bind", "/etc/alternatives", "/etc/alternatives", "--ro-bind", "/etc/hosts", "/etc/hosts")
    with path.open("rb") as filter_:
        number = filter_.fileno()
        result = process.run(
            *("bwrap", *root, *more, *etc, "--unshare-all", "--unshare-user", "--die-with-parent"),
            *("--setenv", "HOME", "/tmp", "--setenv", "PATH", "/usr/bin:/bin", "--seccomp", str(number)),
            *("sh", "-c", WORK),
            pass_fds=[number],
            check=False,
            timeout=120,
        )
    assert result.text == "done", result.stderr


@pytest.mark.needs("docker")
def test_strict_needs_no_new_privileges(docker: str, files: Path) -> None:
    """Without it runc loads the filter before it changes to the container's user, which strict denies."""
    options = ("--security-opt", engine_profile(files, "strict"))
    result = run_in_engine(["docker"], docker, [PYTHON, "/w/probe.py"], *options, files=files)
    assert not result
    assert "setgroups" in result.stderr or "operation not permitted" in result.stderr


# gVisor


@pytest.mark.needs("runsc")
@pytest.mark.parametrize("which", NAMES)
def test_gvisor(tmp_path: Path, files: Path, which: str) -> None:
    """runsc gives the profile's answers, including ENOSYS."""
    command = runtime_command("runsc", tmp_path / "state")
    answers = found(
        run_bundle(
            command, tmp_path, [PYTHON, "/w/probe.py"], gvisor_json(profile(which).expand()), files=files
        )
    )
    own = {"personality", "no randomization", "audit"}
    assert {k: v for k, v in answers.items() if k not in own} == {
        k: v for k, v in EXPECTED[which].items() if k not in own
    }


@pytest.mark.needs("runsc")
def test_gvisor_needs_a_rendering_of_its_own(tmp_path: Path, files: Path) -> None:
    """With the engines' profile no thread can be created, because ENOSYS becomes EPERM."""
    command = runtime_command("runsc", tmp_path / "state")
    result = run_bundle(
        command, tmp_path, [PYTHON, "/w/probe.py"], oci_json(profile("default").expand()), files=files
    )
    assert not result
    assert "can't start new thread" in result.stderr + result.text


# Sandboxes within containers

INNER_BWRAP = (
    *("bwrap", "--unshare-all", "--unshare-user", "--new-session", "--hostname", "inner", "--disable-userns"),
    *(
        "--die-with-parent",
        "--ro-bind",
        "/usr",
        "/usr",
        "--symlink",
        "usr/bin",
        "/bin",
        "--symlink",
        "usr/lib",
        "/lib",
    ),
    *("--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"),
    *(
        "sh",
        "-c",
        "echo inside as $(id -u) on $(hostname); unshare --user true 2>/dev/null || echo no more namespaces",
    ),
)
INSIDE = "inside as 1000 on inner\nno more namespaces"


def in_runc(
    tmp_path: Path, files: Path, own: CatalogueProfile, command: Sequence[str], **more: Any
) -> process.Result:
    runtime = runtime_command("runc", tmp_path / "state")
    seccomp = oci_json(own.expand(caps=more.get("caps", ())))
    return run_bundle(runtime, tmp_path, command, seccomp, files=files, **more)


@pytest.mark.needs("runc", "bwrap")
def test_bwrap_in_a_container_without_capabilities(tmp_path: Path, files: Path) -> None:
    inside = in_runc(tmp_path, files, profile("bwrap-in-container"), INNER_BWRAP, uid=1000)
    assert inside.text == INSIDE
    without = in_runc(tmp_path, files, profile("default"), INNER_BWRAP, uid=1000)
    assert not without
    assert "No permissions to create new namespace" in without.stderr


@pytest.mark.needs("runc", "bwrap")
@pytest.mark.parametrize(
    "group",
    [
        "clone-with-user-namespace",
        "unshare-user-namespace",
        "mounts-made",
        "detach-mounts",
        "root-change",
        "own-host-name",
    ],
)
def test_bwrap_needs_each_of_its_groups(tmp_path: Path, files: Path, group: str) -> None:
    full = profile("bwrap-in-container")
    kept = [one for one in full.grants if one != group]
    if group.startswith("clone"):
        kept.append("clone-without-namespaces")
    less = CatalogueProfile("less", full.reason, full.groups, tuple(kept), full.with_capability)
    assert not in_runc(tmp_path, files, less, INNER_BWRAP, uid=1000)


@pytest.mark.needs("docker", "bwrap")
def test_bwrap_in_docker(docker: str, files: Path) -> None:
    security = ("--user", "1000", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")
    unmasked = ("--security-opt", "systempaths=unconfined")
    for which, works in (("bwrap-in-container", True), ("default", False)):
        seccomp = ("--security-opt", engine_profile(files, which))
        result = run_in_engine(["docker"], docker, INNER_BWRAP, *security, *unmasked, *seccomp, files=files)
        assert (result.text == INSIDE) == works, result.stderr


RUNSC_OPTIONS = ("--ignore-cgroups", "--network=none", "--platform=ptrace", "--root", "/tmp/runsc")
RUNSC_COMMAND = ("do", "sh", "-c", "echo inside; dmesg | grep -o 'Starting gVisor'")


@pytest.mark.needs("runc", "runsc")
def test_rootless_runsc_in_a_container_without_capabilities(tmp_path: Path, files: Path) -> None:
    command = ("runsc", "--rootless", *RUNSC_OPTIONS, *RUNSC_COMMAND)
    result = in_runc(tmp_path, files, profile("runsc-in-container"), command, uid=1000)
    assert result.text == "inside\nStarting gVisor", result.stderr
    assert not in_runc(tmp_path, files, profile("default"), command, uid=1000)


@pytest.mark.needs("runc", "runsc")
def test_runsc_as_root_in_a_container_with_four_capabilities(tmp_path: Path, files: Path) -> None:
    caps = ("CAP_SETUID", "CAP_SETGID", "CAP_SYS_CHROOT", "CAP_SYS_ADMIN")
    command = ("runsc", *RUNSC_OPTIONS, *RUNSC_COMMAND)
    result = in_runc(tmp_path, files, profile("runsc-in-container"), command, caps=caps)
    assert result.text == "inside\nStarting gVisor", result.stderr
    assert not in_runc(tmp_path, files, profile("default"), command, caps=caps)


def test_the_root_of_the_containers_is_empty(tmp_path: Path) -> None:
    root = empty_root(tmp_path / name())
    assert sorted(path.name for path in root.rglob("*")) == [
        *("bin", "dev", "etc", "lib", "lib64", "proc", "sbin", "sys", "tmp", "usr", "w")
    ]
    shutil.rmtree(root)
