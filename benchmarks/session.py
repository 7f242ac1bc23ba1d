"""Starting a command in a sandbox: ours, its launcher alone, and what others take for the same.

`bwrap` alone gets the very arguments that our launcher passes on. sandbox-runtime is Anthropic's npm package,
fetched by npm; it is left out where npm, its registry, or what it needs (socat, ripgrep) is not there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness import RESULTS, Contestant, compare, record, table, write

SANDWRIGHT = (sys.executable, "-c", "from sandwright.cli import main; main()")
POLICY = "schema: 1\nmethod: bwrap\nfilesystem: {write: [$PROJECT]}\n"
SRT = "@anthropic-ai/sandbox-runtime"
ROUNDS = 15


def main() -> None:
    """Run it; prints a table and writes `session.json`."""
    with tempfile.TemporaryDirectory(prefix="sandwright-bench-") as folder:
        project = Path(folder) / "home" / "p"
        project.mkdir(parents=True)
        (project / "sandbox.yaml").write_text(POLICY)
        os.environ |= {"HOME": str(project.parent), "XDG_RUNTIME_DIR": folder}
        os.chdir(project)
        subprocess.run(
            [*SANDWRIGHT, "render", "--out", "out"], check=True, stdout=subprocess.DEVNULL, timeout=120
        )
        subprocess.run([*SANDWRIGHT, "run", "--", "true"], check=True, timeout=120)
        shutil.rmtree(project / ".sandbox", ignore_errors=True)
        results = compare(list(_contestants(project, Path(folder))), rounds=ROUNDS)
        os.chdir("/")
    print(table("a command in a sandbox", results, reference="sandwright run"))
    write(RESULTS / "session.json", {"session": record(results)})


def _contestants(project: Path, folder: Path) -> Iterator[Contestant]:
    out = project / "out" / "bwrap"
    yield Contestant("sandwright run", (*SANDWRIGHT, "run", "--", "true"))
    yield Contestant("its launcher", (f"{out}/launch", "true"))
    script = (
        f"exec 3<{out}/args 5<{out}/seccomp.bpf 9</; exec env -i {shutil.which('bwrap')} --args 3 -- true"
    )
    yield Contestant("bwrap, same arguments", ("sh", "-c", script))
    srt = _srt(folder)
    if srt:
        yield Contestant("srt", (srt, "true"))


def _srt(folder: Path) -> str:
    """The peer, installed into a directory of its own; empty where that fails."""
    npm = shutil.which("npm")
    if npm is None:
        return ""
    done = subprocess.run(
        [npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", folder, SRT],
        capture_output=True,
        timeout=300,
        check=False,
    )
    found = folder / "node_modules" / ".bin" / "srt"
    if done.returncode != 0 or not found.exists():
        return ""
    works = subprocess.run([found, "true"], capture_output=True, timeout=60, check=False)
    return str(found) if works.returncode == 0 else ""


if __name__ == "__main__":
    main()
