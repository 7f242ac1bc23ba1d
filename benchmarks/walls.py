"""Sandboxes with and without a kernel of their own side by side: start, memory, files, processes, streams.

Our launchers of bwrap, landlock and vm (User-Mode Linux), `runsc do` with ptrace, and plain `docker run`, all
on the host's programs and in turns in one run. Medians by the clock. `SANDWRIGHT_BENCH_ROUNDS` says how many
turns, `SANDWRIGHT_BENCH_METHODS` which contestants.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.harness import MIB, RESULTS, write
from benchmarks.launcher import _daemon, _missing
from benchmarks.session import _image

from sandwright.api import Policy
from sandwright.methods import registry
from sandwright.methods.shared.artifacts import write_artifacts
from sandwright.policy.collect import collect_facts
from sandwright.policy.load import layer

ROUNDS = int(os.environ.get("SANDWRIGHT_BENCH_ROUNDS", "8"))
NAMES = os.environ.get("SANDWRIGHT_BENCH_METHODS", "none bwrap landlock vm runsc docker").split()
LIMIT, SENT = 300, 128 * MIB
ACCEPTED = ("filesystem.protect", "filesystem.attributes", "process.kernel")
_FILES = (
    "[p for d, _, f in os.walk(os.path.dirname(os.__file__)) for n in f "
    "if not os.path.islink(p := os.path.join(d, n))]"
)
_TIMED = (
    f"import os, time; all = {_FILES}; began = time.perf_counter(); "
    "{}; print((time.perf_counter() - began) * 1000)"
)
_PYTHON = ("/usr/bin/python3", "-IS", "-c")
WORK: dict[str, tuple[str, ...]] = {
    "start of `true`, ms": ("true",),
    "stat of Python's library, ms": (*_PYTHON, _TIMED.format("[os.stat(n) for n in all]")),
    "reading it, ms": (*_PYTHON, _TIMED.format("[open(n, 'rb').read() for n in all]")),
    "20,000 getppid, ms": (*_PYTHON, _TIMED.format("[os.getppid() for _ in range(20000)]")),
    "start and 100 processes, ms": (
        "sh",
        "-c",
        "i=0; while [ $i -lt 100 ]; do /bin/true; i=$((i+1)); done",
    ),
}
"""Commands; what one prints is its time, otherwise that of the whole run is."""
INPUT, OUTPUT = "input, MB/s", "output, MB/s"


def main() -> None:
    """Run it; prints a table and writes `walls.json`."""
    with contextlib.ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sandwright-bench-", dir="/tmp")))
        os.environ |= {"HOME": str(base), "XDG_RUNTIME_DIR": str(base)}
        (base / "sent").write_bytes(os.urandom(SENT))
        _daemon(stack, base)
        started = {name: argv for name in NAMES if (argv := _started(stack, base, name)) is not None}
        found: dict[str, dict[str, list[float]]] = {name: {} for name in started}
        for turn in range(ROUNDS):
            for name in sorted(started, reverse=turn % 2 == 1):
                for what, taken in _turn(started[name], base):
                    found[name].setdefault(what, []).append(taken)
        memory = {name: _memory(argv) / MIB for name, argv in started.items()}
    figures = {
        name: {what: statistics.median(all_) for what, all_ in taken.items()}
        | {"memory while `sleep` runs, MiB": memory[name]}
        for name, taken in found.items()
    }
    _tell(figures)
    load = os.getloadavg()[1]
    write(RESULTS / "walls.json", {"at": f"{datetime.now(UTC):%Y-%m-%d %H:%M}", "load": load, **figures})


def _started(stack: contextlib.ExitStack, base: Path, name: str) -> tuple[str, ...] | None:
    """The words before a command; None, and why, for what isn't there."""
    words: tuple[str, ...] = ("env",)
    fault = ""
    match name:
        case "none":
            pass
        case "runsc":
            words = ("runsc", "--platform=ptrace", "--ignore-cgroups", "--network=none", "do")
            fault = "" if shutil.which("runsc") else "runsc is not installed"
        case "docker":
            fault = _missing("docker")
            mounts = [f"--volume={each}:{each}:ro" for each in ("/usr", "/lib", "/lib64")]
            run = ("docker", "run", "--rm", "--interactive", "--network=none", *mounts)
            words = (*run, stack.enter_context(_image("docker"))) if not fault else ()
        case _:
            words = (_launcher(base, name),)
    if fault:
        print(f"{name} is not measured: {fault}")
        return None
    return words


def _launcher(base: Path, method: str) -> str:
    """Ours, for the preset's policy, rendered for a new project."""
    project, out = base / f"project-{method}", base / f"out-{method}"
    project.mkdir()
    accepted = ", ".join(f"{{feature: {each}, method: landlock, reason: a figure}}" for each in ACCEPTED)
    text = f"schema: 1\nmethod: {method}\nresources: {{time: 5m}}\n"
    text += f"accept_gaps: [{accepted}]\n" if method == "landlock" else ""
    policy = Policy.from_layers([layer(text, file="a benchmark", methods=(method,))])
    resolved = policy.resolve(collect_facts(policy, project=project))
    write_artifacts(out, registry.artifacts(resolved, method))
    return f"{out}/launch"


def _turn(words: Sequence[str], base: Path) -> Iterator[tuple[str, float]]:
    """Each figure once."""
    for what, command in WORK.items():
        began = time.perf_counter()
        said = _run([*words, *command])
        yield what, float(said) if said else (time.perf_counter() - began) * 1000
    start = _seconds([*words, "sh", "-c", "head -c 1 >/dev/null"], base)
    for what, script in ((INPUT, "cat >/dev/null"), (OUTPUT, f"head -c {SENT} /dev/zero")):
        taken = _seconds([*words, "sh", "-c", script], base)
        yield what, SENT / 1e6 / max(taken - start, 1e-3)


def _run(argv: Sequence[str]) -> str:
    """What it says. Its input is empty and not /dev/null, which runsc would give to the command's user."""
    ended = subprocess.run(argv, input="", capture_output=True, text=True, check=True, timeout=LIMIT, cwd="/")
    return ended.stdout


def _seconds(argv: Sequence[str], base: Path) -> float:
    began = time.perf_counter()
    with (base / "sent").open("rb") as sent:
        subprocess.run(argv, stdin=sent, capture_output=True, check=True, timeout=LIMIT, cwd="/")
    return time.perf_counter() - began


def _memory(words: Sequence[str]) -> float:
    """Bytes that the processes of a run hold, shared ones divided (PSS), without an engine's daemon."""
    mark = f"3{uuid.uuid4().int % 10**12}"
    running = subprocess.Popen(
        [*words, "sleep", mark], stdin=subprocess.PIPE, cwd="/", start_new_session=True
    )
    try:
        time.sleep(5)
        return sum(map(_proportional, _of_run(running.pid, mark.encode())))
    finally:
        for pid in _of_run(running.pid, mark.encode()) & _asleep(mark.encode()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)  # process 1 of a container ignores SIGTERM
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.wait(5)
        running.terminate()
        running.wait(60)


def _parents() -> dict[int, int]:
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            found[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    return found


def _asleep(mark: bytes) -> set[int]:
    """Those that have the mark as an argument."""
    found = set()
    for words in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if mark in words.read_bytes().split(b"\0"):
                found.add(int(words.parent.name))
    return found


def _of_run(first: int, mark: bytes) -> set[int]:
    """What was started by the first, and what sleeps with the mark, with the shim of an engine over that."""
    parents = _parents()
    found = {first} | (_asleep(mark) & parents.keys())
    found |= {
        parents[pid] for pid in found if pid != first and _name(parents[pid]).startswith("containerd-shim")
    }
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def _name(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def _proportional(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def _tell(figures: dict[str, dict[str, Any]]) -> None:
    print(f"| {ROUNDS} turns, load {os.getloadavg()[1]:.0f} | {' | '.join(figures)} |")
    print(f"|{' --- |' * (len(figures) + 1)}")
    for what in next(iter(figures.values())):
        print(f"| {what} | {' | '.join(_number(each[what]) for each in figures.values())} |")


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


if __name__ == "__main__":
    main()
