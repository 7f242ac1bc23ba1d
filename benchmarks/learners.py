"""Compares what learners of policies grant for the same commands: ours, sandlock's and firejail's.

    python -m benchmarks.learners [--work DIR] [--sources DIR] [--only sqlite,git-clone]

Each learns from commands of `work/learn.yaml`; then the command itself, and other inputs, run under what came
of it, by `sandwright run`, `sandlock run` and `firejail --profile`. Counted are regular files of the host
that can be read, and that can be written: of a list of paths, what lies at and below them; of a profile of
firejail, which hides some of the host and leaves the rest, what `find` sees inside. A learner that is not
installed is left out (`cargo install sandlock-cli`, Debian's `firejail`).
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from benchmarks import learn
from benchmarks.harness import RESULTS, machine

CHOSEN = (
    "python-script",
    "perl-script",
    "sqlite",
    "openssl",
    "git-clone",
    "cmake-ninja",
    "redis-compile",
    "flask-test",
)
LIMIT = 600.0
_UNREAD = ("/proc", "/sys", "/dev")


def main() -> None:
    """Run it: print a table, and write all as JSON."""
    words = learn.arguments(__doc__, RESULTS / "learners.json")
    chosen = words.only.split(",") if words.only else CHOSEN
    found: dict[str, Any] = json.loads(words.output.read_text()) if words.output.exists() else {}
    for name, each in yaml.safe_load(learn.COMMANDS.read_text()).items():
        if name not in chosen or any(shutil.which(tool) is None for tool in each["needs"]):
            continue
        for learner, use in LEARNERS.items():
            if shutil.which(learner.split()[0]) is None and learner != "sandwright":
                print(f"{learner} is not installed", file=sys.stderr)
                continue
            with tempfile.TemporaryDirectory(prefix="sandwright-learn-", dir=words.work) as folder:
                place = Path(folder, "p")
                learn.prepare(each, place, words.sources)
                found[f"{name}: {learner}"] = row = use(each, place)
            print(name, learner, json.dumps(row), flush=True)
            words.output.parent.mkdir(parents=True, exist_ok=True)
            words.output.write_text(json.dumps({**found, "machine": machine()}, indent=1, sort_keys=True))
    print("\n".join(_table(found)))


def _run(words: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            words, cwd=folder, capture_output=True, text=True, errors="replace",
            stdin=subprocess.DEVNULL, timeout=LIMIT, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, 124, "", "out of time")


def _tried(each: Mapping[str, Any], folder: Path, prefix: Sequence[str], shell: str = "sh") -> dict[str, Any]:
    """How the command, and other inputs, end under what was learned."""
    ended = [_run([*prefix, shell, "-ec", command], folder) for command in (each["learn"], *each["others"])]
    return {
        "itself": ended[0].returncode,
        "others": [one.returncode for one in ended[1:]],
        "why": next((one.stderr[-300:] for one in ended if one.returncode), ""),
    }


def _sandwright(each: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    ended = learn.started(["learn", "--write", "--", "sh", "-ec", each["learn"]], folder)
    now = learn.resolved_in(folder, ())
    written = [rule.path for rule in now.filesystem.rules if rule.kind == "write" and not rule.private]
    return {
        "learned": ended.returncode,
        "grants": learn.listed(now),
        "read": learn.files(now),
        "write": sum(map(learn.below, written)),
        "hosts": len(now.network.allow),
        **_tried(each, folder, [*learn.SANDWRIGHT, "run", "--quiet", "--"]),
    }


def _sandlock(each: Mapping[str, Any], folder: Path, *options: str) -> dict[str, Any]:
    """It learns in the root directory, so the command goes to its own."""
    profile, go = folder.parent / "profile.toml", f"cd {shlex.quote(str(folder))}\n"
    words = ["sandlock", "learn", *options, "-o", str(profile), "--", "sh", "-ec", go + each["learn"]]
    ended = _run(words, folder)
    if not profile.exists():
        return {"learned": ended.returncode, "why": ended.stderr[-300:]}
    data = tomllib.loads(profile.read_text())
    filesystem = data.get("filesystem", {})
    read, write = (_top(filesystem.get(key, [])) for key in ("read", "write"))
    return {
        "learned": ended.returncode,
        "grants": len(filesystem.get("read", [])) + len(filesystem.get("write", [])),
        "read": sum(map(learn.below, _top([*read, *write]))),
        "write": sum(map(learn.below, write)),
        "hosts": len(data.get("network", {}).get("allow", [])),
        **_tried(
            each, folder, ["sandlock", "run", "--profile-file", str(profile), "--cwd", str(folder), "--"]
        ),
    }


def _top(paths: Sequence[str]) -> list[str]:
    """Those that lie in none of the others, and are files of the host."""
    kept = sorted({each.rstrip("/") or "/" for each in paths if not each.startswith(_UNREAD)})
    return [
        each
        for each in kept
        if not any(o != each and f"{each}/".startswith(f"{o.rstrip('/')}/") for o in kept)
    ]


def _firejail(each: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    preload = Path("/etc/ld.so.preload")  # it leaves an empty one on the host
    there = preload.exists()
    shell = Path(shutil.which("sh") or "sh").resolve().name  # a profile of its has no links: `sh` is missing
    ended = _run(["firejail", "--build", shell, "-ec", each["learn"]], folder)
    if not there and preload.exists() and not preload.read_bytes():
        preload.unlink()
    text = ended.stdout.partition("--- Built profile begins after this line ---")[2]
    if not text:
        return {"learned": ended.returncode, "why": ended.stderr[-300:]}
    profile, counting = folder.parent / "built.profile", folder.parent / "counting.profile"
    profile.write_text(text)
    counting.write_text(re.sub(r"^(private-bin .*?),?$", r"\g<1>,find", text, flags=re.MULTILINE))
    active = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return {
        "learned": ended.returncode,
        "grants": len(active),
        "read": _seen(counting, folder, "-readable"),
        "write": _seen(counting, folder, "-writable"),
        "hosts": 0 if "net none" in active else None,
        **_tried(each, folder, ["firejail", "--quiet", f"--profile={profile}", "--"], shell),
    }


def _seen(profile: Path, folder: Path, how: str) -> int | None:
    """Files that a profile lets be seen."""
    words = ["/", "(", "-path", "/proc", "-o", "-path", "/sys", "-o", "-path", "/dev", ")", "-prune", "-o"]
    ended = _run(
        [
            "firejail",
            "--quiet",
            f"--profile={profile}",
            "--",
            "find",
            *words,
            "-type",
            "f",
            how,
            "-printf",
            ".",
        ],
        folder,
    )
    return len(ended.stdout) or None


LEARNERS: Mapping[str, Callable[[Mapping[str, Any], Path], dict[str, Any]]] = {
    "sandwright": _sandwright,
    "sandlock": _sandlock,
    "sandlock --collapse": lambda each, folder: _sandlock(each, folder, "--collapse"),
    "firejail": _firejail,
}


def _table(found: Mapping[str, Any]) -> Iterator[str]:
    yield "| command | learner | passes | others | lines | files read | files written | network |"
    yield "|---|---|---|---|---|---|---|---|"
    for name, each in found.items():
        if name != "machine":
            others = each.get("others", [])
            cells = [
                *name.split(": "),
                "yes" if each.get("itself") == 0 else "no",
                f"{others.count(0)} of {len(others)}",
                *(each.get(key) for key in ("grants", "read", "write", "hosts")),
            ]
            yield f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    main()
