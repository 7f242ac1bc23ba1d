"""Kills a run's processes at points spread over its life, and examines the leftovers after the next run.

python -m launcher.killpoints METHOD [POINTS [SECONDS]]      in tests/, as root

The launcher and its children are traced (`tracing`), so that a point is before or after a system call. The
victim is one process, or all at once: the launcher, the monitor, the starter (`sandwright run`, before and
after it has become the launcher), the child (bwrap, a runtime, an engine's client). Half of the runs have a
command that would run for long, so that a survivor is found.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from launcher import tracing
from sandwright import process
from session.conftest import SANDWRIGHT, Project
from support.dockerhost import docker_daemon
from support.enginehosts import EngineHost, close_engine_hosts, engine_host

METHODS = {"bwrap": "bwrap", "oci": "runc", "gvisor": "runsc", "docker": "docker", "podman": "podman"}
"""With the program that each method needs."""
ROLES = ("launcher", "monitor", "child", "all", "starter")
LONG = ("sh", "-c", "echo up; exec sleep 300")
SHORT = ("sh", "-c", "echo up; exec sleep 0.01")
DIRECTORIES = ("bin", "dev", "etc", "proc", "root", "run", "sys", "tmp", "usr", "var")
GRACE = 20.0
"""Seconds until everything must be gone after the end of the next run."""


@dataclass
class Bench:
    """A project, its launcher, and the state of the machine before any run."""

    method: str
    project: Project
    launch: str
    engine: EngineHost | None
    before: set[str] = field(default_factory=set)
    mounts: set[str] = field(default_factory=set)

    @property
    def programs(self) -> set[str]:
        """The traced programs: our own."""
        return {"launch", "dash", Path(os.path.realpath(sys.executable)).name}

    def left(self) -> list[str]:
        """The leftovers that did not exist before any run."""
        found = [tracing.state(each) for each in _descendants(os.getpid()) if self._ours(each)]
        found += [f"file {each}" for each in sorted(self.project.tree() - self.before)]
        found += [f"missing {each}" for each in sorted(self.before - self.project.tree())]
        found += [f"mount {each}" for each in sorted(self._mounts() - self.mounts)]
        own = self.project.runtime / "sandwright"
        found += [f"run {each}" for kind in ("runs", "placeholders") for each in (own / kind).glob("*")]
        found += [f"record {each}" for each in self.project.records()]
        if self.engine is not None:
            form = ("ps", "--all", "--filter", f"ancestor={self.engine.image}", "--format", "{{.Names}}")
            found += [f"container {each}" for each in self.engine.run(*form, check=False).text.splitlines()]
        if not self._lockable():
            found.append("lock of the project")
        return found

    def _ours(self, pid: int) -> bool:
        """Whether it is not the tests' daemon."""
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
            return not any(each in words for each in (b"dockerd", b"containerd"))
        return False

    def _mounts(self) -> set[str]:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
        return {line.split()[4] for line in lines if str(self.project.home.parent) in line.split()[4]}

    def _lockable(self) -> bool:
        descriptor = os.open(self.project.root, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(descriptor)
        return True


def _descendants(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            for child in map(int, (task / "children").read_text().split()):
                with contextlib.suppress(ChildProcessError):
                    if pid == os.getpid() and os.waitpid(child, os.WNOHANG)[0]:
                        continue
                yield child
                yield from _descendants(child)


@contextlib.contextmanager
def bench(method: str, directory: Path) -> Iterator[Bench]:
    """A separate project below `directory`, rendered; this process becomes a subreaper."""
    tracing.become_subreaper()
    project = Project(directory / "home" / "p", directory / "home", directory / "run", forked=())
    for path in (".git/hooks/x", ".git/config", ".git/HEAD", "secrets/key"):
        (project.root / path).parent.mkdir(parents=True, exist_ok=True)
        (project.root / path).write_text("content")
    project.runtime.mkdir(mode=0o700)
    with contextlib.ExitStack() as stack:
        engine, image = None, ""
        if method in ("docker", "podman"):
            if method == "docker":
                stack.enter_context(docker_daemon())
            stack.callback(close_engine_hosts)
            engine = stack.enter_context(engine_host(method))
            project.environment |= {k: v for k, v in engine.environment.items() if k != "HOME"}
            image = f"image: '{engine.image}'\n"
        elif method != "bwrap":
            _busybox_root(directory / "root")
            project.environment["SANDWRIGHT_ROOTFS"] = str(directory / "root")
            image = "image: small\n"
        rules = "filesystem: {write: [$PROJECT], deny: [$PROJECT/secrets]}\n"
        search = "environment: {set: {PATH: /bin:/usr/bin}}\n"
        project.policy.write_text(f"schema: 1\nmethod: {method}\n{image}{search}{rules}")
        project.environment["SANDWRIGHT_TRUST"] = "1"
        rendered = project.sandwright("render", "--out", str(directory / "out"))
        assert rendered.returncode == 0, rendered.stderr
        made = Bench(method, project, str(directory / "out" / method / "launch"), engine)
        for words in ((made.launch, "true"), (*SANDWRIGHT, "run", "--", "true")):
            _again(made, words)
        made.before, made.mounts = project.tree(), made._mounts()
        yield made


def _busybox_root(root: Path) -> None:
    for name in DIRECTORIES:
        (root / name).mkdir(parents=True)
    shutil.copy(process.which("busybox"), root / "bin" / "busybox")
    for applet in ("sh", "sleep", "true", "echo"):
        (root / "bin" / applet).symlink_to("busybox")


@dataclass
class Tally:
    """The results of the points."""

    points: int = 0
    seconds: float = 0.0
    killed: Counter[str] = field(default_factory=Counter)
    statuses: dict[str, Counter[int]] = field(default_factory=dict)
    needed_cleanup: int = 0
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Point:
    """A kill: the victim, the run, and the time, at a share of the stops that such a run has."""

    role: str
    words: tuple[str, ...]
    share: float

    def argv(self, bench: Bench, words: tuple[str, ...] = ()) -> tuple[str, ...]:
        return (
            *((*SANDWRIGHT, "run", "--") if self.role == "starter" else (bench.launch,)),
            *(words or self.words),
        )

    def next(self, bench: Bench) -> tuple[str, ...]:
        """The run after the kill."""
        return self.argv(bench, ("true",))

    def kind(self) -> tuple[bool, tuple[str, ...]]:
        return self.role == "starter", self.words


def points(count: int) -> Iterator[Point]:
    """Points spread over roles and runs; for each pair the shares are spread evenly."""
    kinds = [(role, words) for words in (LONG, SHORT) for role in ROLES]
    each = max(1, -(-count // len(kinds)))
    for number in range(count):
        role, words = kinds[number % len(kinds)]
        yield Point(role, words, ((number // len(kinds)) * 0.6180339887 + 0.5 / each) % 1.0)


def work(bench: Bench, count: int, *, limit: float = 1e9) -> Tally:
    """Try this number of points, for at most `limit` seconds."""
    tally = Tally()
    began = time.monotonic()
    lengths = {
        point.kind(): _length(bench, point)
        for point in (Point(role, words, 0) for role in ("launcher", "starter") for words in (LONG, SHORT))
    }
    for number, point in enumerate(points(count)):
        if time.monotonic() - began > limit:
            break
        at, known = 1 + int(point.share * lengths[point.kind()]), len(tally.faults)
        try:
            _try(bench, point, at, number, tally)
        except (TimeoutError, subprocess.TimeoutExpired) as fault:
            tally.faults.append(f"point {number} {point} at {at}: {fault}")
            _end_all(bench)
        tally.points += 1
        tally.seconds = time.monotonic() - began
        for told in tally.faults[known:]:
            print(f"  {told}", flush=True)  # noqa: T201
        if tally.points % 50 == 0:
            print(f"{bench.method}: {shown(tally)}", flush=True)  # noqa: T201
    return tally


def _length(bench: Bench, point: Point) -> int:
    """The number of stops of an undisturbed run; a long run is counted until it does nothing."""
    found = _run(bench, point, 1 << 30, lambda run: _kill([run.main]))
    _again(bench, point.next(bench))
    eventually_nothing(bench)
    return found.stops


def _try(bench: Bench, point: Point, at: int, number: int, tally: Tally) -> None:
    run = _run(bench, point, at, lambda run: _kill(_victims(run, point.role)))
    who = point.role if run.acted else "nobody"
    tally.killed[who] += 1
    tally.statuses.setdefault(who, Counter())[run.status if run.status is not None else 999] += 1
    told = f"point {number}: {point.role} of {point.words[-1]!r} at stop {run.acted} of {at}, {run.status}"
    if point.words == LONG and run.status == 0:
        tally.faults.append(f"{told}: it says that all went well")
    if point.role == "all" or number % 20 == 19:
        bench.project.sandwright("cleanup")
    try:
        _again(bench, point.next(bench))
    except AssertionError as fault:
        tally.faults.append(f"{told}: the next run: {fault}")
    if left := eventually_nothing(bench, GRACE if number % 20 == 19 else 3.0):
        tally.needed_cleanup += 1
        bench.project.sandwright("cleanup")
        if eventually_nothing(bench):  # a launcher may still be about to write, for some seconds
            bench.project.sandwright("cleanup")
        if left := eventually_nothing(bench):
            tally.faults.append(f"{told}: left: {left}")
            _end_all(bench)


def _run(bench: Bench, point: Point, at: int, act: object) -> tracing.Traced:
    output = bench.project.home / "output"
    output.unlink(missing_ok=True)
    return tracing.run(
        point.argv(bench),
        bench.project.environ,
        bench.project.root,
        output,
        programs=bench.programs,
        at=at,
        act=act,  # type: ignore[arg-type]
        steady=lambda: point.words == LONG and output.exists() and b"up" in output.read_bytes(),
    )


def _victims(run: tracing.Traced, role: str) -> list[int]:
    """The processes to kill, none if they don't exist yet; one that would wait forever for them is ended."""
    match role:
        case "monitor":
            found = [each for each in run.processes if each != run.main and _leads(each)]
        case "child":
            found = [each for each in run.left if Path(f"/proc/{each}/exe").exists()][-1:]
        case "all":
            found = list(run.processes)
        case _:
            found = [run.main]
    return found or ([run.main] if run.waits else [])


def _leads(process: int) -> bool:
    """Whether it has its own process group: of a launcher's processes only the monitor has one."""
    with contextlib.suppress(OSError):
        return os.getpgid(process) == process
    return False


def _kill(victims: list[int]) -> bool:
    for victim in victims:
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
    return bool(victims)


def _again(bench: Bench, words: tuple[str, ...]) -> None:
    ended = subprocess.run(
        words,
        cwd=bench.project.root,
        env=bench.project.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, (words, ended.returncode, ended.stderr[-600:])


def eventually_nothing(bench: Bench, within: float = GRACE) -> list[str]:
    """The leftovers after enough time for all of them to go."""
    deadline = time.monotonic() + within
    while (left := bench.left()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


def _end_all(bench: Bench) -> None:
    """End all processes, so that one fault is not counted several times."""
    for pid in list(_descendants(os.getpid())):
        if bench._ours(pid):
            _kill([pid])
    time.sleep(0.5)
    bench.project.sandwright("cleanup")
    for name in sorted(bench.project.tree() - bench.before, reverse=True):
        with contextlib.suppress(OSError):
            (bench.project.root / name).rmdir() if (bench.project.root / name).is_dir() else (
                bench.project.root / name
            ).unlink()


def shown(tally: Tally) -> str:
    killed = ", ".join(f"{who} {count}" for who, count in sorted(tally.killed.items()))
    return (
        f"{tally.points} points in {tally.seconds:.0f} s ({killed}); "
        f"{tally.needed_cleanup} after another `cleanup`; {len(tally.faults)} faults"
    )


def main() -> None:
    """Run the program that the module describes."""
    import tempfile  # noqa: PLC0415

    os.environ.setdefault("SANDWRIGHT_TEST_RUN", f"killpoints-{os.getpid()}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    method, count, seconds = (*sys.argv[1:], *("bwrap", "1000", "1e9")[len(sys.argv) - 1 :])
    with (
        tempfile.TemporaryDirectory(prefix="sandwright-kill-", dir="/dev/shm") as directory,
        bench(method, Path(directory)) as made,
    ):
        tally = work(made, int(count), limit=float(seconds))
    print(f"{method}: {shown(tally)}")  # noqa: T201
    for who, statuses in sorted(tally.statuses.items()):
        print(f"  {who}: " + ", ".join(f"{s} ×{n}" for s, n in sorted(statuses.items())))  # noqa: T201
    sys.exit(bool(tally.faults))


if __name__ == "__main__":
    main()
