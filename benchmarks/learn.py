"""Learns policies of real work, and says what they grant, whether they hold, and what recording costs.

    python -m benchmarks.learn [--work DIR] [--sources DIR] [--only flask-test,lua-make] [--rounds 3]

For each command of `work/learn.yaml`: `sandwright learn --write`, then other inputs of the same kind under
the policy that came of it. Counted beside the preset `default`: files that can be read, hosts, system calls
that are allowed whatever their arguments are. `open` are sensitive paths that the policy lets be read and no
run touched. Processor time of the command bare, under `sandwright run`, the same recorded, and bare under
`strace -f --seccomp-bpf`, interleaved in one run; medians. Work directories must not be below /tmp.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from benchmarks.harness import RESULTS, machine

from sandwright.learn.attempt import RecordedCommand
from sandwright.learn.learn import resolve_with
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.seccomp import profile
from sandwright.session import access_log

COMMANDS = Path(__file__).with_name("work") / "learn.yaml"
SENSITIVE = (
    *(
        "~/.ssh",
        "~/.aws",
        "~/.gnupg",
        "~/.netrc",
        "~/.docker",
        "~/.kube",
        "~/.npmrc",
        "~/.pypirc",
        "~/.config/gh",
    ),
    *(
        "~/.bash_history",
        "~/.bashrc",
        "~/.profile",
        "~/.config",
        "~/.local/share",
        "~/.mozilla",
        "~/.cargo/credentials",
    ),
    *("~/Documents", "~/Downloads", "~/.gitconfig", "/etc/shadow", "/etc/sudoers", "/etc/ssh", "/etc/fstab"),
    *(
        "/etc/crontab",
        "/var/log",
        "/var/mail",
        "/var/lib",
        "/var/spool",
        "/root",
        "/home",
        "/srv",
        "/opt",
        "/mnt",
        "/boot",
    ),
)
"""Places that a command which doesn't use them has no business in; those that are not there count as well."""

LIMIT = 1800.0
SANDWRIGHT = (sys.executable, "-P", "-c", "from sandwright.cli import main; main()")
_OWN = Path(__file__).parents[1]


def main() -> None:
    """Run it: print a row for each command, and write all as JSON. Exit with 1 when one doesn't hold."""
    words = arguments(__doc__, RESULTS / "learn.json")
    found: dict[str, Any] = json.loads(words.output.read_text()) if words.output.exists() else {}
    for name, each in yaml.safe_load(COMMANDS.read_text()).items():
        missing = [tool for tool in each["needs"] if shutil.which(tool) is None]
        if missing or (words.only and name not in words.only.split(",")):
            continue
        with tempfile.TemporaryDirectory(prefix="sandwright-learn-", dir=words.work) as folder:
            try:
                found[name] = _measured(each, Path(folder) / "p", words)
            except (subprocess.SubprocessError, OSError) as fault:
                found[name] = {"fault": str(fault)[-2000:]}
        print(name, json.dumps(found[name]), flush=True)
        words.output.parent.mkdir(parents=True, exist_ok=True)
        words.output.write_text(json.dumps({**found, "machine": machine()}, indent=1, sort_keys=True))
    print("\n".join(_table(found)))
    held = all(each.get("learned") == 0 and not any(each["others"]) for each in _rows(found).values())
    sys.exit(0 if held else 1)


def arguments(description: str | None, output: Path) -> argparse.Namespace:
    """The words of the command line."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="commands, comma-separated (default: all)")
    parser.add_argument("--rounds", type=int, default=3, help="of each contestant; 0: nothing is timed")
    parser.add_argument(
        "--sources", type=Path, default=RESULTS / "sources", help="where `projects` keeps them"
    )
    parser.add_argument("--work", type=Path, default=Path("/var/tmp"), help="where copies are made")
    parser.add_argument("--output", type=Path, default=output)
    return parser.parse_args()


def prepare(each: Mapping[str, Any], folder: Path, sources: Path) -> None:
    """Make the directory that the command runs in, with the policy that it is recorded under."""
    os.environ["SANDWRIGHT"], os.environ["SANDWRIGHT_TRUST"] = str(_OWN), "1"
    if "source" in each:
        shutil.copytree(sources / each["source"], folder, symlinks=True)
    folder.mkdir(exist_ok=True)
    _sh(each.get("prepare", "true"), folder)
    policy = {"schema": 1, "method": "bwrap", **each.get("policy", {})}
    if each.get("registries"):
        policy["network"] = {"mode": "proxy", "allow": _registries()}
    (folder / "sandbox.yaml").write_text(yaml.safe_dump(policy, sort_keys=False))
    _sh(each.get("reset", "true"), folder)


def _measured(each: dict[str, Any], folder: Path, words: argparse.Namespace) -> dict[str, Any]:
    prepare(each, folder, words.sources)
    record = folder.parent / "record"
    options = ["--write", "--record", str(record)]
    learned = started(["learn", *options, "--", "sh", "-ec", each["learn"]], folder)
    said = learned.stderr.decode(errors="replace")
    row: dict[str, Any] = {
        "learned": learned.returncode,
        "said": said[-1500:],
        "policy": learned.stdout.decode(),
    }
    others = [started(["run", "--", "sh", "-ec", other], folder) for other in each["others"]]
    row["others"] = [other.returncode for other in others]
    row["why"] = [other.stderr.decode(errors="replace")[-600:] for other in others if other.returncode]
    row |= _granted(folder, record)
    if words.rounds:
        row["cpu"] = _cost(each, folder, words.rounds)
    return row


def _registries() -> list[dict[str, Any]]:
    """Those of the preset `build`; on some machines they are mirrors with private addresses."""
    allow = yaml.safe_load((_OWN / "builder/sandwright/policy/presets/build.yaml").read_text())["network"][
        "allow"
    ]
    return [{"host": each, "private": True} for each in allow]


def _sh(command: str, folder: Path) -> None:
    subprocess.run(["sh", "-ec", command], cwd=folder, check=True, capture_output=True, timeout=LIMIT)


def started(words: list[str], folder: Path) -> subprocess.CompletedProcess[bytes]:
    """A command of sandwright, run to its end."""
    return subprocess.run(
        [*SANDWRIGHT, *words],
        cwd=folder,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=LIMIT,
        check=False,
    )


def _granted(folder: Path, record: Path) -> dict[str, Any]:
    """What the policy grants beside the preset `default`."""
    now = resolved_in(folder, ())
    before = resolved_in(folder, ("filesystem.read=[/]", "network.mode=none", "process.seccomp=default"))
    seen = access_log.read_access_log(record) if record.exists() else access_log.AccessLog()
    touched = {path for access in seen.accesses for path in (access.path, access.real)}
    return {
        "files": [files(now), files(before)],
        "calls": [len(profile(each.process.seccomp).outright()) for each in (now, before)],
        "hosts": [str(each) for each in now.network.allow],
        "grants": listed(now),
        "text": (folder / "sandbox.yaml").read_text(),
        "open": [each for each in SENSITIVE if _is_open(now, each, touched)],
    }


def resolved_in(folder: Path, settings: tuple[str, ...]) -> ResolvedPolicy:
    """The policy of a directory."""
    own = Path.cwd()
    os.chdir(folder)
    try:
        command = RecordedCommand(("true",), str(folder / "sandbox.yaml"), True, (), settings, True)
        return resolve_with(command, ())
    finally:
        os.chdir(own)


def _is_open(policy: ResolvedPolicy, path: str, touched: set[str]) -> bool:
    place = policy.canonical(path)
    used = any(each == place or each.startswith(f"{place}/") for each in touched)
    return policy.is_path_readable(place) and not used


def listed(policy: ResolvedPolicy) -> int:
    """How many paths a policy grants by name."""
    return sum(rule.origin == "listed" for rule in policy.filesystem.rules if rule.kind in ("read", "write"))


_COUNTED: dict[str, int] = {}


def files(policy: ResolvedPolicy) -> int:
    """Regular files of the host that can be read, as far as no other file system is entered."""
    rules = (
        policy.filesystem.rules
        if policy.filesystem.reads_all
        else (*policy.filesystem.rules, *policy.filesystem.startup)
    )
    roots = sorted({rule.path for rule in rules if rule.kind != "deny" and not rule.private})
    top = [
        each
        for each in roots
        if not any(each != other and f"{each}/".startswith(f"{other.rstrip('/')}/") for other in roots)
    ]
    denied = [rule.path for rule in policy.filesystem.rules if rule.kind == "deny"]
    inside = [each for each in denied if any(f"{each}/".startswith(f"{root.rstrip('/')}/") for root in top)]
    shown = [root for root in top if not root.startswith(("/proc", "/sys", "/dev"))]
    return sum(map(below, shown)) - sum(map(below, inside))


def below(root: str) -> int:
    """Regular files at and below a path, on one file system."""
    if root not in _COUNTED:
        words = ["find", root, "-xdev", "-type", "f", "-print0"]
        _COUNTED[root] = subprocess.run(words, capture_output=True, check=False).stdout.count(b"\0")
    return _COUNTED[root]


_RECORDED = """
import sys
from sandwright.session.recording import Recording
from sandwright.session.request import RunRequest
from sandwright.session.run import run
sys.exit(run(RunRequest(sys.argv[2:], quiet=True, recording=Recording(sys.argv[1]))))
"""


def _cost(each: dict[str, Any], folder: Path, rounds: int) -> dict[str, float]:
    """Seconds of processors, by contestant; `calls` with paths were recorded in one run."""
    command = ["sh", "-ec", each["learn"]]
    run = [*SANDWRIGHT, "run", "--quiet", "--", *command]
    record = folder.parent / "record.timed"
    contestants: dict[str, tuple[list[str], dict[str, str]]] = {
        "bare": (command, {}),
        "run": (run, {}),
        "recorded": ([sys.executable, "-c", _RECORDED, str(record), *command], {}),
        "strace": (
            [
                "strace",
                "-f",
                "--seccomp-bpf",
                "-qq",
                "-e",
                "trace=%file,%network",
                "-o",
                "/dev/null",
                *command,
            ],
            {},
        ),
    }
    took: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(rounds):
        order = list(contestants.items())
        for name, (words, more) in [*order[turn % len(order) :], *order[: turn % len(order)]]:
            _sh(each.get("reset", "true"), folder)
            if name == "recorded":
                record.unlink(missing_ok=True)
            took[name].append(_timed(words, folder, more))
    seen = access_log.read_access_log(record).seen
    return {"calls": seen, **{name: round(statistics.median(each), 3) for name, each in took.items()}}


def _timed(words: list[str], folder: Path, more: dict[str, str]) -> float:
    before = os.times()
    subprocess.run(
        words, cwd=folder, env={**os.environ, **more}, capture_output=True, timeout=LIMIT, check=True
    )
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def _rows(found: dict[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in found.items() if isinstance(each, dict) and "learned" in each}


def _table(found: dict[str, Any]) -> Iterator[str]:
    yield "| command | passes | others | grants | files | hosts | calls | open | run | recorded | strace |"
    yield "|---|---|---|---|---|---|---|---|---|---|---|"
    for name, each in sorted(_rows(found).items()):
        cpu = each.get("cpu")
        ratios = [
            f"{cpu[other] / cpu['bare']:.2f}" if cpu and cpu["bare"] else "–"
            for other in ("run", "recorded", "strace")
        ]
        others = f"{each['others'].count(0)}/{len(each['others'])}"
        files = f"{each['files'][0]:,} of {each['files'][1]:,}"
        calls = f"{each['calls'][0]} of {each['calls'][1]}"
        cells = [
            name,
            "yes" if each["learned"] == 0 else "no",
            others,
            each["grants"],
            files,
            len(each["hosts"]),
            calls,
        ]
        yield f"| {' | '.join(map(str, [*cells, len(each['open']), *ratios]))} |"


if __name__ == "__main__":
    main()
