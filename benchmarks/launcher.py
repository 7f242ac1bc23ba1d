"""What a launcher costs beside the program that it starts, with the very same arguments.

A stand-in on the PATH (`runner/record.py`) writes down how a launcher starts bwrap, runc, runsc, docker or
podman; that is the bare contestant. Launched and bare take turns in one run, on tmpfs, on one processor, so
that nothing that a launcher has done beside it comes for free. Figures are medians of the quietest quarter
of the rounds: those in which all contestants together took least. A program is charged with all that it left
running, too: this process is its subreaper, and waits for it.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.harness import MIB, RESULTS, BenchmarkError, write
from benchmarks.session import SANDWRIGHT, _fault, _image

from sandwright.engines.daemon import own_daemon
from sandwright.engines.docker import ADDRESS, answers
from sandwright.engines.podman import containers_conf
from sandwright.host import collect_host

ROUNDS = int(os.environ.get("SANDWRIGHT_BENCH_ROUNDS", "200"))
METHODS = os.environ.get("SANDWRIGHT_BENCH_METHODS", "bwrap oci gvisor docker podman").split()
IDLE = float(os.environ.get("SANDWRIGHT_BENCH_IDLE", "60"))
"""Seconds for which the processor time of a run that does nothing is watched."""
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER, linux/prctl.h
PROGRAMS = {"bwrap": "bwrap", "oci": "runc", "gvisor": "runsc", "docker": "docker", "podman": "podman"}
PROCESSOR_TIME = ("docker", "podman")
"""Most of the time on the clock is the daemon's, or is waited for it."""
RECORDER = Path(__file__).with_name("runner") / "record.py"
COVERED = "filesystem: {write: [$PROJECT]}"
UNCOVERED = "extends: []\nfilesystem: {read: [/, $PROJECT]}"


@dataclass
class Contestant:
    """A command with its environment and working directory. `files` are opened as the descriptors named."""

    name: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    cwd: str
    files: Mapping[int, str] = field(default_factory=dict)
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def run(self) -> None:
        """Once; raise BenchmarkError when it does not end with 0."""
        actions = [(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0)]
        actions += [(os.POSIX_SPAWN_OPEN, at, path, os.O_RDONLY, 0) for at, path in self.files.items()]
        os.chdir(self.cwd)
        others = _children()
        before, began = _charged(), time.perf_counter()
        child = os.posix_spawn(self.argv[0], self.argv, self.environment, file_actions=actions, setpgroup=0)
        _, status = os.waitpid(child, 0)
        self.wall.append(time.perf_counter() - began)
        while left := _children() - others:
            os.waitpid(left.pop(), 0)
        self.cpu.append(_charged() - before)
        if status:
            raise BenchmarkError(f"{self.name}: {self.argv}: {os.waitstatus_to_exitcode(status)}")


def _charged() -> float:
    """Seconds of processors of all that we waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _children() -> set[int]:
    return set(map(int, Path("/proc/thread-self/children").read_text().split()))


def main() -> None:
    """Run it; prints a table and writes `launcher.json`."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else every start compiles what has changed
    with contextlib.ExitStack() as stack:
        base = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="sandwright-bench-", dir="/dev/shm"))
        )
        home = base / "home"
        home.mkdir()
        _daemon(stack, base)
        os.environ |= {"HOME": str(home), "XDG_RUNTIME_DIR": str(base), "SANDWRIGHT_TRUST": "1"}
        conf = containers_conf(collect_host()) + 'runtime = "runc"\n'  # crun refuses hybrid control groups
        (base / "containers.conf").write_text(conf)
        os.environ["CONTAINERS_CONF"] = f"{base}/containers.conf"
        shelf = Shelf(base, stack)
        figures: dict[str, Any] = {}
        for method in METHODS:
            if fault := _missing(method):
                print(f"{method} is not measured: {fault}")
                continue
            # The processes of a daemon of ours would be charged to who waits for them.
            ctypes.CDLL(None).prctl(SUBREAPER, int(method != "docker"), 0, 0, 0)
            figures[method] = _method(shelf, method)
            print(_table(method, figures[method]), flush=True)
        os.chdir("/")
    write(RESULTS / "launcher.json", figures)


def _daemon(stack: contextlib.ExitStack, base: Path) -> None:
    """A Docker daemon for the length of the benchmark where none answers, if we may."""
    if "docker" in METHODS and shutil.which("dockerd") and os.geteuid() == 0 and not answers(None):
        (base / "dockerd").mkdir()
        os.environ[ADDRESS] = stack.enter_context(own_daemon(base / "dockerd"))


def _missing(method: str) -> str:
    if method in PROCESSOR_TIME:
        return _fault(method)
    return "" if shutil.which(PROGRAMS[method]) else f"{PROGRAMS[method]} is not installed"


@dataclass
class Shelf:
    """Where projects, images and what was rendered for them lie."""

    base: Path
    stack: contextlib.ExitStack

    def launcher(self, method: str, name: str, rules: str) -> tuple[str, str]:
        """The launcher of a new project's policy, and the project."""
        project = self.base / "home" / f"{method}-{name}"
        for path in (".git/HEAD", ".git/config", ".git/hooks/x"):
            (project / path).parent.mkdir(parents=True, exist_ok=True)
            (project / path).write_text("")
        image = ""
        if method in PROCESSOR_TIME:
            image = f"image: '{self.image(method)}'\n"
        elif method != "bwrap":
            os.environ["SANDWRIGHT_ROOTFS"] = str(self.rootfs())
            image = "image: small\n"
        head = f"schema: 1\nmethod: {method}\n{image}"
        (project / "sandbox.yaml").write_text(
            f"{head}environment: {{set: {{PATH: /bin:/usr/bin}}}}\n{rules}\n"
        )
        out = f"{project}-out"
        words = (*SANDWRIGHT, "render", "--out", out)
        subprocess.run(
            words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=project, timeout=120
        )
        return f"{out}/{method}/launch", str(project)

    def rootfs(self) -> Path:
        """A root of busybox."""
        root = self.base / "rootfs"
        if not root.exists():
            for name in ("bin", "dev", "etc", "proc", "run", "sys", "tmp", "usr", "var"):
                (root / name).mkdir(parents=True)
            for name in ("busybox", "true", "sleep"):
                shutil.copy(str(shutil.which("busybox")), root / "bin" / name)
        return root

    def image(self, engine: str) -> str:
        """The same in an engine, until the end."""
        known = self.__dict__.setdefault("images", {})
        if engine not in known:
            known[engine] = self.stack.enter_context(_image(engine))
        return str(known[engine])


def _method(shelf: Shelf, method: str) -> dict[str, Any]:
    contestants: list[Contestant] = []
    for name, rules in (("nothing to cover", UNCOVERED), ("covered", COVERED)):
        key = name.replace(" ", "-")
        contestants.append(_bare(shelf, method, name, *shelf.launcher(method, f"bare-{key}", rules)))
        launch, project = shelf.launcher(method, key, rules)
        contestants.append(Contestant(f"launched, {name}", (launch, "true"), dict(os.environ), project))
    covered = contestants[-1]
    placeholders = _tree_while(covered)
    if method == "bwrap":
        words = (*SANDWRIGHT, "run", "--", "true")
        contestants.append(Contestant("sandwright run", words, dict(os.environ), covered.cwd))
    _compare(contestants)
    return {
        "rounds": ROUNDS,
        "placeholders": placeholders["placeholders"],
        "beside": placeholders,
        "contestants": [_result(one, contestants) for one in contestants],
    }


def _bare(shelf: Shelf, method: str, name: str, launch: str, project: str) -> Contestant:
    """What the launcher starts, by the same words, in a project of its own that was run in before."""
    program = str(shutil.which(PROGRAMS[method]))
    to = shelf.base / f"recorded-{method}-{name.replace(' ', '-')}"
    stand = to / "bin" / PROGRAMS[method]
    stand.parent.mkdir(parents=True)
    stand.write_text(f"#!{sys.executable} -IS\n{RECORDER.read_text()}")
    stand.chmod(0o755)
    (to / "bin" / "recorded.json").write_text(
        json.dumps({"to": str(to), "program": program, "project": project})
    )
    environment = {**os.environ, "PATH": f"{to}/bin:{os.environ['PATH']}"}
    subprocess.run(
        (launch, "true"), env=environment, cwd=project, capture_output=True, timeout=120, check=False
    )
    told = json.loads((to / "started.json").read_text())
    _keep(to / "project", Path(project))
    words, files = [str(word) for word in told["words"]], {}
    if method == "bwrap":
        given = {int(number) for word, number in pairwise(words) if word == "--file"}
        files = {5: f"{to}/seccomp.bpf"} | {number: f"{to}/file-{number}" for number in given}
        words = ["--seccomp", "5", *words]
        environment = {}
    elif method in PROCESSOR_TIME:
        words = _unnamed(words, to)
        environment = told["environment"] | {"PATH": os.environ["PATH"]}
    else:
        words = _bundled(words, to)
        environment = told["environment"] | {"PATH": os.environ["PATH"]}
    return Contestant(f"bare, {name}", (program, *words), environment, project, files)


def _keep(during: Path, project: Path) -> None:
    """Leave in a project what a launcher puts there for a run."""
    for path in sorted(during.rglob("*")):
        there = project / path.relative_to(during)
        if not os.path.lexists(there):
            if path.is_dir():
                there.mkdir()
            else:
                there.write_bytes(path.read_bytes())
            there.chmod(path.stat().st_mode & 0o7777)


def _unnamed(words: Sequence[str], to: Path) -> list[str]:
    """Without the run's own name and file, which can't be used twice, and with a directory of its own."""
    _stand_ins(to / "run")
    words = [re.sub(r"[^=,']*/runs/[^/,']+/", f"{to}/run/", word) for word in words]
    kept: list[str] = []
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        if word in {"--name", "--cidfile"}:
            waiting.pop(0)
        elif not word.startswith(("--name=", "--cidfile=")):
            kept.append(word)
    return kept


def _bundled(words: Sequence[str], to: Path) -> list[str]:
    """With the copy of the bundle, and a network namespace of the runtime's own where a launcher made it."""
    bundle = words[words.index("--bundle") + 1]
    config = (to / "bundle" / "config.json").read_text().replace(bundle, str(to / "bundle"))
    loaded = json.loads(config)
    for namespace in loaded["linux"]["namespaces"]:
        if namespace["type"] == "network":
            namespace.pop("path", None)
    seccomp = loaded["linux"].get("seccomp", {})
    seccomp.pop("listenerPath", None)  # nobody would listen there
    for each in seccomp.get("syscalls", ()):
        each["action"] = each["action"].replace("SCMP_ACT_NOTIFY", "SCMP_ACT_ERRNO")
    started = loaded["process"]["args"]
    if "--backstop" in started:  # the second wall's rules are in a descriptor
        loaded["process"]["args"] = [started[0], *started[started.index("--") + 1 :]]
    (to / "bundle" / "config.json").write_text(json.dumps(loaded))
    _stand_ins(to / "bundle")
    if "--preserve-fds" in words:
        at = words.index("--preserve-fds")
        words = [*words[:at], *words[at + 2 :]]
    return [word.replace(bundle, str(to / "bundle")) for word in words]


def _stand_ins(folder: Path) -> None:
    """What a run has to mount over files that are denied, and over names that are to stay absent."""
    (folder / "ignored").mkdir(parents=True, exist_ok=True)
    (folder / "ignored" / ".gitignore").write_text("*\n")
    (folder / "nothing").write_bytes(b"")


def _compare(contestants: Sequence[Contestant]) -> None:
    """Let them take turns, on one processor. Who begins changes."""
    processors = os.sched_getaffinity(0)
    try:
        for one in contestants:
            one.run()
            one.wall.clear()
            one.cpu.clear()
        os.sched_setaffinity(0, {max(processors)})
        for turn in range(ROUNDS):
            shift = turn % len(contestants)
            for one in [*contestants[shift:], *contestants[:shift]]:
                one.run()
    finally:
        os.sched_setaffinity(0, processors)


def _result(one: Contestant, contestants: Sequence[Contestant]) -> dict[str, Any]:
    totals = [sum(walls) for walls in zip(*(each.wall for each in contestants), strict=True)]
    quiet = sorted(range(len(totals)), key=totals.__getitem__)[: max(1, len(totals) // 4)]
    return {
        "name": one.name,
        "wall": statistics.median(one.wall[at] for at in quiet),
        "cpu": statistics.median(one.cpu[at] for at in quiet),
        "all wall": statistics.median(one.wall),
        "all cpu": statistics.median(one.cpu),
    }


def _tree_while(one: Contestant) -> dict[str, Any]:
    """What is there while a command sleeps: placeholders, and what the launcher's own processes hold."""
    before = _names(one.cwd)
    argv = (one.argv[0], "busybox", "sh", "-c", f"echo; exec busybox sleep {int(IDLE) + 30}")
    running = subprocess.Popen(argv, cwd=one.cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        if running.stdout is None or running.stdout.readline() != b"\n":
            raise BenchmarkError(f"{one.argv[0]}: the command was not run")
        time.sleep(1)
        beside = _beside(running.pid)
        used = sum(map(_ran, beside))
        began = time.monotonic()
        placeholders = len(_names(one.cwd) - before)
        found = {
            "placeholders": placeholders,
            "processes": sorted(b" ".join(_words(pid)[:2]).decode(errors="replace") for pid in beside),
            "resident": sum(_resident(pid, "Rss") for pid in beside),
            "proportional": sum(_resident(pid, "Pss") for pid in beside),
            "private": sum(
                _resident(pid, "Private_Clean") + _resident(pid, "Private_Dirty") for pid in beside
            ),
            "descriptors": {pid: len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in beside},
        }
        time.sleep(IDLE)
        found["idle hour"] = (sum(map(_ran, beside)) - used) / (time.monotonic() - began) * 3600
        return found
    finally:
        running.terminate()
        running.wait(60)


def _names(project: str) -> set[str]:
    return {f"{at}/{name}" for at, folders, files in os.walk(project) for name in (*folders, *files)}


def _below(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError):
            for child in map(int, (task / "children").read_text().split()):
                yield child
                yield from _below(child)


def _beside(launcher: int) -> list[int]:
    """The launcher's processes that are neither in the sandbox nor the program that makes it."""
    own = Path("/proc/self/ns/pid").readlink()
    programs = {*PROGRAMS.values(), "crun", "conmon", "runsc-sandbox", "runsc-gofer", "exe"}
    found = []
    for pid in (launcher, *_below(launcher)):
        with contextlib.suppress(OSError):
            started = Path(f"/proc/{pid}/exe").readlink().name
            if Path(f"/proc/{pid}/ns/pid").readlink() == own and started not in programs:
                found.append(pid)
    return found


def _words(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def _ran(pid: int) -> float:
    """Seconds for which a process had a processor."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    except OSError:
        return 0.0


def _resident(pid: int, kind: str) -> int:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(int(amount) * 1024 for amount in re.findall(rf"^{kind}: +(\d+) kB", text, re.MULTILINE))


def _table(method: str, figures: Mapping[str, Any]) -> str:
    lines = [
        f"{method}: {figures['rounds']} rounds",
        f"  {'':30}{'wall ms':>9}{'more':>8}{'cpu ms':>9}{'more':>8}",
    ]
    bare: dict[str, float] = {"wall": 0.0, "cpu": 0.0}
    for one in figures["contestants"]:
        bare = one if one["name"].startswith("bare") else bare
        numbers = "".join(f"{one[k] * 1e3:9.2f}{(one[k] - bare[k]) * 1e3:8.2f}" for k in ("wall", "cpu"))
        lines.append(f"  {one['name']:30}{numbers}")
    beside = figures["beside"]
    lines.append(
        f"  while a command sleeps: {beside['placeholders']} placeholders, "
        f"{len(beside['processes'])} processes, RSS "
        f"{beside['resident'] / MIB:.2f} MiB, PSS {beside['proportional'] / MIB:.2f}, private "
        f"{beside['private'] / MIB:.2f}, descriptors {sorted(beside['descriptors'].values())}, "
        f"idle hour {beside['idle hour']:.3f} s of a processor"
    )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
