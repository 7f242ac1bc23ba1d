"""A session of gVisor in its outer container: ours beside `runsc run` by hand, of the same bundle.

Both are started by the engine's `exec` in one container that runs already, and timed on the host up to the
first byte of output. The bundle is timed inside, over many, with the start of the program that writes it.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness import RESULTS, write

from sandwright.api import Policy
from sandwright.methods.gvisor.outer.container import OuterContainer, outer_container
from sandwright.policy.collect import collect_facts

ROUNDS = 20
BUNDLES = 50
HAND = "/run/sandwright/hand"
RUNSC = (
    "env -i PATH=/usr/bin:/bin HOME=/nonexistent /usr/bin/runsc --root /run/sandwright/state --ignore-cgroups"
)


def main() -> None:
    """Run it with a root that has a shell: `python -m benchmarks.outer ROOTFS [docker|podman]`."""
    rootfs, engine = Path(sys.argv[1]).resolve(), (*sys.argv[2:], "docker")[0]
    with tempfile.TemporaryDirectory(prefix="sandwright-bench-") as folder:
        project = Path(folder) / "home" / "p"
        project.mkdir(parents=True)
        policy = Policy.from_text(
            f"schema: 1\nmethod: gvisor\ngvisor: {{engine: {engine}}}\nfilesystem: {{write: [$PROJECT]}}\n"
        )
        facts = collect_facts(policy, project=project, environ={"HOME": str(project.parent)})
        with outer_container(policy.resolve(facts), rootfs) as container:
            found = {"first_output": _first_output(container), "bundle": _bundle(container)}
    print(json.dumps(found, indent=1))
    write(RESULTS / "outer.json", {"outer": found})


def _first_output(container: OuterContainer) -> dict[str, float]:
    """Medians in seconds, and their ratio. The two take turns."""
    _inside(
        container,
        f"/sandwright/session bundle hand /bin/sh -c 'echo; exit' && mv /run/sandwright/bundles/hand {HAND}",
    )
    ours = ("/sandwright/session", "run", "/bin/sh", "-c", "echo; exit")
    times: dict[str, list[float]] = {"ours": [], "by_hand": []}
    for number in range(ROUNDS):
        hand = f"exec {RUNSC} --oci-seccomp --network=none run --bundle {HAND} hand-{number}"
        for name, argv in (("ours", ours), ("by_hand", ("/bin/busybox", "sh", "-c", hand))):
            times[name].append(_until_output(container, argv))
    medians = {name: statistics.median(each) for name, each in times.items()}
    return {**medians, "ratio": medians["ours"] / medians["by_hand"]}


def _until_output(container: OuterContainer, argv: Sequence[str]) -> float:
    began = time.perf_counter()
    words = container.engine.argv("exec", container.name, *argv)
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=container.engine.environment) as running:
        assert running.stdout is not None
        if not running.stdout.read(1):
            raise SystemExit(f"{' '.join(argv)} wrote nothing")
        seconds = time.perf_counter() - began
        running.stdout.read()
        running.wait(timeout=60)
    return seconds


def _bundle(container: OuterContainer) -> dict[str, float]:
    """Milliseconds for each bundle, by the clock and of processor time, and for such a shell alone."""
    loop = f"i=0; while [ $i -lt {BUNDLES} ]; do %s; i=$((i + 1)); done"
    whole = _timed(container, loop % "/sandwright/session bundle b$i /bin/sh -c 'echo hello'")
    shell = _timed(container, loop % "/sandwright/session list >/dev/null")
    return {**whole, **{f"shell_alone_{name}": each for name, each in shell.items()}}


def _timed(container: OuterContainer, script: str) -> dict[str, float]:
    said = _inside(container, f"time sh -c {_quoted(script)} 2>&1")
    seconds = {}
    for line in said.splitlines():
        words = line.split()
        if words and words[0] in ("real", "user", "sys"):
            seconds[words[0]] = int(words[1].rstrip("m")) * 60 + float(words[2].rstrip("s"))
    each = 1000 / BUNDLES
    return {"real_ms": seconds["real"] * each, "processor_ms": (seconds["user"] + seconds["sys"]) * each}


def _quoted(script: str) -> str:
    return "'" + script.replace("'", "'\\''") + "'"


def _inside(container: OuterContainer, script: str) -> str:
    words = container.engine.argv("exec", container.name, "/bin/busybox", "sh", "-c", script)
    done = subprocess.run(
        words, capture_output=True, env=container.engine.environment, check=True, timeout=120
    )
    return (done.stdout + done.stderr).decode()


if __name__ == "__main__":
    main()
