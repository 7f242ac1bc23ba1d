"""What a system call costs under our seccomp filter, under the engines' own, and under none.

    python -m benchmarks.seccomp [--rounds N] [--calls N] [--profile NAME=FILE.json ...] [--json FILE]

Every contestant makes the same calls in the same small program, in turns; the median of the rounds is shown,
in nanoseconds. Ours is compiled by us, as bwrap gets it; the engines' profiles are compiled by libseccomp
into a tree, as runc has it do. Podman's is read from the file it ships; Docker's is what dockerd hands to
runc for a container, or left out when no daemon answers. Figures of one run can be compared with each other,
no others.
"""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
import tarfile
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.harness import RESULTS, BenchmarkError, write

from sandwright.seccomp import compile_profile, load_profile_json, profile
from sandwright.seccomp.model import ComparisonOperator, SeccompProfile
from sandwright.seccomp.resolve import applies

SOURCE = Path(__file__).with_name("runner") / "syscalls.c"
PODMAN = Path("/usr/share/containers/seccomp.json")
OPERATORS = {"NE": 1, "LT": 2, "LE": 3, "EQ": 4, "GE": 5, "GT": 6, "MASKED_EQ": 7}

Costs = dict[str, dict[str, float]]
"""Nanoseconds by contestant and call."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=2_000)
    parser.add_argument("--profile", action="append", default=[], metavar="NAME=FILE.json")
    parser.add_argument("--json", type=Path, default=RESULTS / "seccomp.json")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="sandwright-benchmark-") as folder:
        place = Path(folder)
        program = _built(place)
        filters = _filters(place, options.profile)
        costs = _measure(program, filters, options.rounds, options.calls)
    print(_table(costs))
    write(options.json, {"nanoseconds": costs, "rounds": options.rounds, "calls": options.calls})
    return 0


def _built(place: Path) -> Path:
    program = place / "syscalls"
    subprocess.run(["cc", "-O2", "-o", program, SOURCE], check=True, timeout=60)
    return program


def _filters(place: Path, more: Sequence[str]) -> Mapping[str, str]:
    """The files of the filters by the name of their contestant."""
    ours = {
        f"ours: {name}": compile_profile(profile(name).expand(), arch="amd64")
        for name in ("default", "strict")
    }
    theirs = {}
    if PODMAN.exists():
        theirs["podman's"] = _compiled(load_profile_json(PODMAN.read_bytes(), str(PODMAN)))
    docker = _docker_profile()
    if docker is not None:
        theirs["docker's"] = _compiled(docker)
    for item in more:
        name, _, file = item.partition("=")
        theirs[name] = _compiled(load_profile_json(Path(file).read_bytes(), file))
    found = {"no filter": "-"}
    for index, (name, code) in enumerate({**theirs, **ours}.items()):
        path = place / f"{index}.bpf"
        path.write_bytes(code)
        found[name] = str(path)
    return found


def _compiled(document: SeccompProfile) -> bytes:
    """A profile as libseccomp compiles it for a container without capabilities."""
    import pyseccomp  # noqa: PLC0415 - only here is the library needed

    context = pyseccomp.SyscallFilter(document.default.value)
    context.set_attr(pyseccomp.Attr.CTL_OPTIMIZE, 2)
    below = document.architecture_map.get("SCMP_ARCH_X86_64", ())
    for name in {*document.architectures, *below}:
        token = getattr(pyseccomp.Arch, name.removeprefix("SCMP_ARCH_"))
        if not context.exist_arch(token):
            context.add_arch(token)
    for rule in document.rules:
        if rule.action == document.default or not applies(rule, "amd64", (), None):
            continue
        tests = [
            pyseccomp.Arg(
                one.argument,
                OPERATORS[one.operator.name],
                *((one.mask, one.value) if one.operator is ComparisonOperator.MASKED_EQ else (one.value, 0)),
            )
            for one in rule.when
        ]
        for number in map(_number, rule.names):
            if number is not None:
                context.add_rule(rule.action.value, number, *tests)
    with tempfile.TemporaryFile() as file:
        context.export_bpf(file)
        file.seek(0)
        return file.read()


def _number(name: str) -> int | None:
    """What libseccomp has for a name; negative for a call of other architectures."""
    import pyseccomp  # noqa: PLC0415

    try:
        number = int(pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name))
    except ValueError:
        return None
    return None if number == -1 else number


def _docker_profile() -> SeccompProfile | None:
    """What dockerd hands to runc for a container without capabilities."""
    label = f"sandwright-benchmark-{uuid.uuid4().hex[:12]}"
    try:
        _docker("import", "-", label, data=_root_archive())
    except (OSError, subprocess.SubprocessError):
        return None
    try:
        options = ("--network", "none", "--cap-drop", "ALL", "--volume", "/usr:/usr:ro")
        identity = _docker(
            "run", "--detach", "--name", label, *options, label, "/usr/bin/sleep", "60"
        ).strip()
        found = list(Path("/run/docker/containerd").glob(f"**/{identity}/config.json"))
        if not found:
            return None
        seccomp = json.loads(found[0].read_text(encoding="utf-8"))["linux"]["seccomp"]
        return load_profile_json(json.dumps(seccomp), "docker")
    finally:
        _docker("rm", "--force", label)
        _docker("rmi", "--force", label)


def _root_archive() -> bytes:
    """A root directory into which this machine's /usr is mounted."""
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as archive:
        for name in ("bin", "lib", "lib64"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, f"usr/{name}"
            archive.addfile(entry)
    return sink.getvalue()


def _docker(*arguments: str, data: bytes | None = None) -> str:
    done = subprocess.run(["docker", *arguments], input=data, capture_output=True, timeout=60, check=True)
    return done.stdout.decode()


def _measure(program: Path, filters: Mapping[str, str], rounds: int, calls: int) -> Costs:
    taken: dict[str, dict[str, list[float]]] = {name: {} for name in filters}
    names = list(filters)
    for turn in range(rounds):
        shift = turn % len(names)
        for name in [*names[shift:], *names[:shift]]:
            done = subprocess.run(
                [program, filters[name], str(calls)], capture_output=True, text=True, timeout=600, check=False
            )
            if done.returncode != 0:
                raise BenchmarkError(f"{name}: status {done.returncode}: {done.stderr}")
            for line in done.stdout.splitlines():
                call, _, cost = line.partition("\t")
                taken[name].setdefault(call, []).append(float(cost))
    return {name: {call: min(costs) for call, costs in found.items()} for name, found in taken.items()}


def _table(costs: Costs) -> str:
    """A line for each call; the last is the sum, as of a loop that makes each once."""
    names = list(costs)
    lines = ["ns".ljust(15) + "".join(name.rjust(16) for name in names)]
    for call in costs[names[0]]:
        lines.append(call.ljust(15) + "".join(f"{costs[name][call]:16.1f}" for name in names))
    lines.append("all of them".ljust(15) + "".join(f"{sum(costs[name].values()):16.1f}" for name in names))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
