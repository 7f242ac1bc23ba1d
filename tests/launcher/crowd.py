"""Many sessions at once in one project, started and ended at random; checks placeholders and leftovers.

python -m launcher.crowd METHOD [SECONDS [SESSIONS]]      in tests/
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from launcher.killpoints import Bench, bench, eventually_nothing
from session.conftest import SANDWRIGHT

SESSIONS = 50
STATUSES = {
    "exit": {7},
    "long": {128 + signal.SIGTERM, -signal.SIGTERM, 128 + signal.SIGINT, -signal.SIGINT},
    "kill": {-signal.SIGKILL},
}
"""The ends of a session, with the statuses that each may give."""


@dataclass
class Crowd:
    """The result of the run."""

    ended: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    most: int = 0


def crowd(made: Bench, seconds: float, *, sessions: int = SESSIONS, seed: int = 0) -> Crowd:
    """Keep this number of sessions running, half of them with a second policy, and examine them meanwhile."""
    found, lock = Crowd(), threading.Lock()
    deadline = time.monotonic() + seconds
    other = _other_policy(made)
    running: set[int] = set()

    def session(number: int) -> None:
        chance = random.Random(seed * 1000 + number)
        while time.monotonic() < deadline:
            launch = chance.choice((made.launch, other))
            words = (*SANDWRIGHT, "run", "--") if chance.random() < 0.1 else (launch,)
            way = chance.choice(("exit", "exit", "long", "kill"))
            said = _one(made, words, way, chance, running)
            with lock:
                found.ended[way] += 1
                found.most = max(found.most, len(running))
                found.faults += [said] if said else []

    threads = [threading.Thread(target=session, args=(number,)) for number in range(sessions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _end(made, found)
    return found


def _other_policy(made: Bench) -> str:
    """A policy for the same project, rendered into another directory."""
    text = made.project.policy.read_text()
    out = made.project.home.parent / "other"
    made.project.policy.write_text(text.replace("PATH: ", "OTHER: x, PATH: "))
    rendered = made.project.sandwright("render", "--out", str(out))
    made.project.policy.write_text(text)
    assert rendered.returncode == 0, rendered.stderr
    return str(out / made.method / "launch")


def _one(made: Bench, words: tuple[str, ...], way: str, chance: random.Random, running: set[int]) -> str:
    """Run one session, and return its faults. Inside, the placeholders exist at its start and at its end."""
    look = "for i in .bashrc .vscode .git/commondir; do [ -e $i ] || { echo gone $i; exit 9; }; done"
    pause = chance.random()
    inside = f"{look}; echo up; {f'sleep {pause:.2f}; {look}; exit 7' if way == 'exit' else 'exec sleep 300'}"
    started = subprocess.Popen(
        (*words, "sh", "-c", inside),
        cwd=made.project.root,
        env=made.project.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    running.add(started.pid)
    assert started.stdout is not None
    first = started.stdout.readline()
    if first == b"up\n" and way != "exit":
        time.sleep(pause)
        if not (made.project.root / ".bashrc").exists():
            first = b"the placeholder is gone outside\n"
        started.send_signal(
            signal.SIGKILL if way == "kill" else chance.choice((signal.SIGTERM, signal.SIGINT))
        )
    try:
        rest, errors = started.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        started.kill()
        started.communicate()
        return f"{way}: did not end within 60 s"
    finally:
        running.discard(started.pid)
    if first != b"up\n" or started.returncode not in STATUSES[way]:
        return f"{way} of {words[0]}: {started.returncode} {first + rest!r} {errors[-400:]!r}"
    return ""


def _end(made: Bench, found: Crowd) -> None:
    """Everything is gone after one more run, or after `cleanup`."""
    last = made.project.run("true")
    if last.returncode:
        found.faults.append(f"the last run: {last.returncode} {last.stderr[-400:]!r}")
    if left := eventually_nothing(made):
        made.project.sandwright("cleanup")
        found.faults += [f"left after a run: {each}" for each in left]
        found.faults += [f"left after cleanup: {each}" for each in eventually_nothing(made)]


def main() -> None:
    """Run the program that the module describes."""
    os.environ.setdefault("SANDWRIGHT_TEST_RUN", f"crowd-{os.getpid()}")
    method, seconds, sessions = (*sys.argv[1:], *("bwrap", "300", "50")[len(sys.argv) - 1 :])
    with (
        tempfile.TemporaryDirectory(prefix="sandwright-crowd-", dir="/dev/shm") as directory,
        bench(method, Path(directory)) as made,
    ):
        found = crowd(made, float(seconds), sessions=int(sessions))
    print(f"{method}: {sum(found.ended.values())} sessions, {found.most} at once: {dict(found.ended)}")  # noqa: T201
    print(f"{len(found.faults)} faults", *Counter(found.faults).most_common(20), sep="\n  ")  # noqa: T201
    sys.exit(bool(found.faults))


if __name__ == "__main__":
    main()
