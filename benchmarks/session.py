"""Starting a command in a sandbox: ours, its launcher alone, and what others take for the same.

`bwrap`, `docker` and `podman` alone get the very arguments that our launchers pass on, in a project of their
own, where what launchers cover for the time of a run is there already. All is pinned to one processor, so
that nothing that a launcher has done beside it comes for free. sandbox-runtime is Anthropic's npm package,
fetched by npm; it is left out where npm, its registry, or what it needs (socat, ripgrep) is not there.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness import RESULTS, Contestant, Result, compare, record, table, write

SANDWRIGHT = (sys.executable, "-P", "-c", "from sandwright.cli import main; main()")
POLICY = "schema: 1\nmethod: bwrap\nfilesystem: {write: [$PROJECT]}\n"
SRT = "@anthropic-ai/sandbox-runtime"
ROUNDS = 15


ENGINES = ("docker", "podman")
DIRECTORIES = ("bin", "dev", "etc", "proc", "run", "sys", "tmp", "usr", "var")


def main() -> None:
    """Run it; prints tables and writes `session.json`."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else every start compiles what has changed
    with tempfile.TemporaryDirectory(prefix="sandwright-bench-") as folder:
        home = Path(folder) / "home"
        os.environ |= {"HOME": str(home), "XDG_RUNTIME_DIR": folder, "TMPDIR": folder}
        ours, bare = (_project(home / name, POLICY) for name in ("ours", "bare"))
        os.chdir(ours)
        subprocess.run([*SANDWRIGHT, "run", "--", "true"], check=True, timeout=120)
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
        results = compare(list(_contestants(ours, bare, Path(folder))), rounds=ROUNDS)
        os.chdir("/")
        print(table("a command in a sandbox", results, reference="bwrap, same arguments"))
        figures = {"session": record(results)}
        for engine in ENGINES:
            if fault := _fault(engine):
                print(f"{engine} is not measured: {fault}")
                continue
            figures[engine] = record(_engine(engine, home))
    write(RESULTS / "session.json", figures)


def _fault(engine: str) -> str:
    """Why an engine can't be measured, in one line; empty when it can."""
    if shutil.which(engine) is None:
        return "it is not installed"
    if shutil.which("busybox") is None:
        return "busybox, of which its image is made, is not installed"
    try:  # what asks the daemon, unlike `info`, which ends with 0 where there is none
        asked = subprocess.run(
            [engine, "images", "--quiet"], capture_output=True, text=True, timeout=60, check=False
        )
    except subprocess.TimeoutExpired:
        return "it did not answer within 60 s"
    said = asked.stderr.strip().splitlines() or [f"it ended with {asked.returncode}"]
    return said[-1] if asked.returncode else ""


def _project(project: Path, policy: str) -> Path:
    """A project whose artifacts are rendered beside it."""
    project.mkdir(parents=True)
    (project / "sandbox.yaml").write_text(policy)
    words = ("render", "--out", f"{project}-out")
    subprocess.run([*SANDWRIGHT, *words], check=True, stdout=subprocess.DEVNULL, timeout=120, cwd=project)
    return project


def _contestants(ours: Path, bare: Path, folder: Path) -> Iterator[Contestant]:
    yield Contestant("sandwright run", (*SANDWRIGHT, "run", "--", "true"))
    yield Contestant("its launcher", (f"{ours}-out/bwrap/launch", "true"))
    out = f"{bare}-out/bwrap"
    script = (
        f"exec 3<{out}/args 5<{out}/seccomp.bpf 9</; exec env -i {shutil.which('bwrap')} --args 3 -- true"
    )
    yield Contestant("bwrap, same arguments", ("sh", "-c", script))
    srt = _srt(folder)
    if srt:
        yield Contestant("srt", (srt, "true"))


def _engine(engine: str, home: Path) -> list[Result]:
    """The launcher of an engine, and its client with the same arguments."""
    with _image(engine) as image:
        policy = f"schema: 1\nmethod: {engine}\nimage: '{image}'\nfilesystem: {{write: [$PROJECT]}}\n"
        ours, bare = (_project(home / f"{engine}-{name}", policy) for name in ("ours", "bare"))
        out = f"{bare}-out/{engine}"
        for source in re.findall(r"src=([^,']+)", Path(f"{out}/arguments").read_text()):
            if not os.path.lexists(source):
                Path(source).mkdir(parents=True)
        script = (
            f"set -- --security-opt=seccomp={out}/seccomp.json {image} true; sw_nothing=; "
            f'option=$1; shift; . {out}/arguments; exec {engine} run "$option" "$@"'
        )
        contestants = [
            Contestant(f"launcher of {engine}", (f"{ours}-out/{engine}/launch", "true")),
            Contestant(f"{engine} run, same arguments", ("sh", "-c", script)),
        ]
        results = compare(contestants, rounds=ROUNDS)
    print(table(f"a command in a container of {engine}", results, reference=contestants[1].name))
    return results


@contextlib.contextmanager
def _image(engine: str) -> Iterator[str]:
    """An image of busybox, for the length of a `with`."""
    name = f"sandwright-bench-{uuid.uuid4().hex[:12]}:latest"
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as tar:
        for directory in DIRECTORIES:
            entry = tarfile.TarInfo(directory)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        for program in ("busybox", "true"):
            tar.add(str(shutil.which("busybox")), f"bin/{program}")
    subprocess.run(
        [engine, "import", "-", name], input=sink.getvalue(), check=True, capture_output=True, timeout=60
    )
    try:
        yield name
    finally:
        subprocess.run([engine, "rmi", "--force", name], check=False, capture_output=True, timeout=60)


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
