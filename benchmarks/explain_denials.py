"""What `run --explain-denials` costs: CPU of work on many paths, beside the same run without, in turn.

    python benchmarks/explain_denials.py [ROUNDS]

Each line is one kind of work: the median of the ratios of paired runs, and both medians in seconds of CPU of
all processes. The policy is resolved again at the end of a run that explains; an empty run shows that part.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SANDWRIGHT = (sys.executable, "-P", "-c", "from sandwright.cli import main; main()")
WORK = {
    "nothing": "true",
    "find and stat": "for n in 1 2 3 4 5 6; do find tree -type f -size +0 >/dev/null; done",
    "read small files": "for n in 1 2 3; do find tree -type f -exec cat {} + >/dev/null; done",
    "copy and remove": "for n in 1 2; do cp -r tree copy; rm -r copy; done",
    "git": "git init -q r; cp -r tree r/; cd r; git add .; git -c user.name=n -c user.email=e commit -qm m; "
    "git status; git clone -q . ../c; cd ..; rm -rf r c; true",
    "python": f"{sys.executable} -m compileall -q -f modules; for n in 1 2 3 4 5; do "
    f"{sys.executable} -c 'import asyncio, json, email, http.client, unittest, xml.dom.minidom'; done",
}


def main() -> None:
    """Measure, and print a table."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory(dir=Path.home()) as name:
        project = Path(name)
        plant(project)
        print("| work | ratio | plain s | explained s |\n| --- | --- | --- | --- |")
        for work, script in WORK.items():
            pairs = [paired(project, script) for _ in range(rounds + 1)][1:]
            ratio = statistics.median(explained / plain for plain, explained in pairs)
            plain, explained = (statistics.median(each) for each in zip(*pairs, strict=True))
            print(f"| {work} | {ratio:.2f} | {plain:.2f} | {explained:.2f} |", flush=True)


def plant(project: Path) -> None:
    """A tree of 3,000 files, and modules to compile."""
    (project / "sandbox.yaml").write_text("schema: 1\nmethod: bwrap\nfilesystem: {write: [$PROJECT]}\n")
    for number in range(3000):
        path = project / "tree" / str(number % 50) / f"{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{number}\n" * 20)
    (project / "modules").mkdir()
    for number in range(200):
        (project / "modules" / f"m{number}.py").write_text(f"def f(a):\n    return [a, {number}]\n" * 30)


def paired(project: Path, script: str) -> tuple[float, float]:
    """Seconds of CPU without and with."""
    return cpu(project, script), cpu(project, script, "--explain-denials")


def cpu(project: Path, script: str, *options: str) -> float:
    """Of all processes of one run."""
    before = os.times()
    words = [*SANDWRIGHT, "run", "--quiet", *options, "--", "sh", "-c", script]
    subprocess.run(words, cwd=project, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


if __name__ == "__main__":
    main()
