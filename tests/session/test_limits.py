"""Resource limits of all processes together, held by the launcher: by a cgroup, or by watching (OOM).

Tests of launcher/source/cgroup.c: memory, cpus and pids by a cgroup.
Tests of launcher/source/memory.c: memory without a cgroup; a killed process is reported (OOM).
"""

from __future__ import annotations

import fcntl
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from session.conftest import Project
from support.cgroups import has_groups
from support.waiting import until

pytestmark = pytest.mark.needs("bwrap")

LIMIT = 160
"""In MiB. Python needs 10."""
POLICY = """schema: 1
method: bwrap
network: {{mode: none}}
filesystem: {{write: [$PROJECT]}}
resources: {{{}}}
"""
HIDDEN = 'mount -t tmpfs none /sys/fs/cgroup && exec "$@"'
"""A host without cgroups; another user can't create any here."""
FILL = "import sys; used = [bytearray(1 << 20) for _ in range(int(sys.argv[1]))]; print('used')"
CHILDREN = """
import os, time
for _ in range(20):
    if os.fork() == 0:
        used = bytearray(20 << 20)
        time.sleep(3)
        os._exit(0)
print(sum(os.wait()[1] == 9 for _ in range(20)))
"""
SHARED = """
import mmap, os, time
memory = mmap.mmap(-1, 100 << 20)
memory.write(bytes(100 << 20))
for _ in range(4):
    if os.fork() == 0:
        for at in range(0, 100 << 20, 4096):
            memory[at]
        time.sleep(1)
        os._exit(0)
print(sum(os.wait()[1] for _ in range(4)))
"""
TABLES = """
import mmap, sys, time
apart = 2 << 20  # one page table each, all of whose pages are the same page of zeros
size = int(sys.argv[1]) * 256 * apart
memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANON | 0x4000, prot=mmap.PROT_READ)
memory.madvise(mmap.MADV_NOHUGEPAGE)
for at in range(0, size, apart):
    memory[at]
time.sleep(3)
print('used')
"""
FORK = """
import os, time
made = 0
try:
    while made < 100:
        if os.fork() == 0:
            time.sleep(3)
            os._exit(0)
        made += 1
except BlockingIOError:
    print(made)
"""
SPIN = """
import time
until, began = time.time() + 2, time.process_time()
while time.time() < until:
    pass
print(time.process_time() - began)
"""


def groups(*, held: bool = False) -> list[str]:
    """The groups of no launcher, or of one: runs of other tests go on meanwhile."""
    found = [base for base, _, _ in os.walk("/sys/fs/cgroup") if base.endswith(".sandwright")]
    return [each for each in found if is_held(each) == held]


def is_held(group: str) -> bool:
    try:
        opened = os.open(group, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(opened)


def children(process: int) -> set[int]:
    return {int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text().split()}


def members(group: str) -> set[int]:
    return {int(each) for each in Path(group, "cgroup.procs").read_text().split()}


def none_is_left() -> None:
    until(lambda: groups() == [], "a cgroup is left")


def limited(project: Project, limits: str) -> Project:
    project.policy.write_text(POLICY.format(limits))
    return project


@pytest.fixture(params=["group", "watched"])
def memory(request: pytest.FixtureRequest, project: Project) -> Iterator[Project]:
    """A project with a limit for memory, on a host with and without cgroups."""
    limited(project, f"memory: {LIMIT}MiB")
    if request.param == "group" and not has_groups():
        pytest.skip("this user can't create cgroups")
    if request.param == "watched" and os.geteuid() == 0:
        project.command = ("unshare", "-m", "sh", "-c", HIDDEN, "sh", *project.command)
        project.forked = ()
        project.shares_preflights = False
    yield project
    none_is_left()


def peak(said: bytes) -> int:
    """The MiB in the message at the end."""
    found = re.search(rb"out of memory: .* resources\.memory is 160 MiB, the peak was ([0-9]+) MiB", said)
    assert found, said.decode()
    return int(found[1])


def test_memory_of_a_process(memory: Project) -> None:
    ended = memory.run("python3", "-c", FILL, str(LIMIT // 2))
    assert (ended.returncode, ended.stdout) == (0, b"used\n"), ended.stderr.decode()
    assert b"out of memory" not in ended.stderr
    ended = memory.run("python3", "-c", FILL, str(LIMIT * 4))
    assert (ended.returncode, ended.stdout) == (137, b"")
    assert LIMIT - 1 <= peak(ended.stderr) < LIMIT * 4


def test_a_shell_goes_on_when_its_child_was_killed(memory: Project) -> None:
    ended = memory.run("sh", "-c", f'python3 -c "$1" {LIMIT * 4}; echo $?', "sh", FILL)
    assert (ended.returncode, ended.stdout) == (0, b"137\n"), ended.stderr.decode()
    peak(ended.stderr)


def test_memory_of_many_processes(memory: Project) -> None:
    ended = memory.run("python3", "-c", CHILDREN)
    assert ended.returncode in (0, 137), ended.stderr.decode()
    if ended.returncode == 0:
        assert 1 <= int(ended.stdout) < 20
    peak(ended.stderr)


def test_page_tables_count(memory: Project) -> None:
    ended = memory.run("python3", "-c", TABLES, str(LIMIT * 2))
    assert (ended.returncode, ended.stdout) == (137, b""), ended.stderr.decode()
    peak(ended.stderr)


def test_shared_memory_counts_once(memory: Project) -> None:
    ended = memory.run("python3", "-c", SHARED)
    assert (ended.returncode, ended.stdout) == (0, b"0\n"), ended.stderr.decode()
    assert b"out of memory" not in ended.stderr


@pytest.mark.parametrize("directory", ["/tmp", "/dev/shm"])
def test_temporary_files_count(memory: Project, directory: str) -> None:
    script = f"head -c {LIMIT * 4}M /dev/zero >{directory}/x"
    ended = memory.run("sh", "-c", script)
    assert peak(ended.stderr) < LIMIT * 4, ended.stdout.decode()


def test_of_landlock(memory: Project) -> None:
    """Its limit for processes needs a cgroup; the policy accepts its absence."""
    gaps = (
        *("filesystem.attributes", "filesystem.protect", "filesystem.absent", "process.kernel"),
        "resources.pids",
    )
    accepted = "".join(f"  - {{feature: {each}, method: landlock, reason: test}}\n" for each in gaps)
    text = (
        limited(memory, f"memory: {LIMIT}MiB, pids: 900").policy.read_text().replace("bwrap", "landlock", 1)
    )
    memory.policy.write_text(f"{text}accept_gaps:\n{accepted}")
    script = f'setsid python3 -c "$1" {LIMIT * 4}; exit $?'
    ended = memory.run("sh", "-c", script, "sh", FILL, options=("--trust-policy",))
    assert (ended.returncode, ended.stdout) == (137, b""), ended.stderr.decode()
    peak(ended.stderr)


def test_processes(project: Project) -> None:
    if os.geteuid() == 0 and not has_groups():
        pytest.skip("this user can't create cgroups")
    ended = limited(project, "pids: 20").run("python3", "-c", FORK)
    assert ended.returncode == 0, ended.stderr.decode()
    assert 10 <= int(ended.stdout) < 20
    none_is_left()


def test_processors(project: Project) -> None:
    limited(project, "cpus: 0.2")
    if has_groups():
        ended = project.run("python3", "-c", SPIN)
        assert ended.returncode == 0, ended.stderr.decode()
        assert float(ended.stdout) < 1
        none_is_left()
    else:
        ended = project.run("true")
        assert (ended.returncode, b"resources.cpus needs a cgroup" in ended.stderr) == (125, True)


@pytest.mark.skipif(not has_groups(), reason="this user can't create cgroups")
def test_a_killed_launcher_s_group_is_removed_by_the_next(project: Project) -> None:
    limited(project, f"memory: {LIMIT}MiB, pids: 30")
    running = project.start("sh", "-c", "echo started; exec sleep 100")
    assert running.stdout is not None
    assert running.stdout.readline() == b"started\n"
    (monitor,) = children(running.pid)
    made = [each for each in groups(held=True) if children(monitor) & members(each)]
    assert len(made) == 2
    os.kill(running.pid, signal.SIGSTOP)
    for process in (monitor, running.pid):
        os.kill(process, signal.SIGKILL)
    running.communicate()
    until(lambda: not any(map(members, made)), "it still runs")
    assert project.run("true").returncode == 0
    none_is_left()


@pytest.mark.skipif(not has_groups(), reason="this user can't create cgroups")
def test_runs_remove_no_group_of_others(project: Project) -> None:
    limited(project, f"memory: {LIMIT}MiB, pids: 30")
    assert project.run("true").returncode == 0
    until = time.monotonic() + 3
    while time.monotonic() < until:
        runs = [project.start("true") for _ in range(6)]
        for each in runs:
            _, said = each.communicate(timeout=60)
            assert each.returncode == 0, said.decode()
    none_is_left()
