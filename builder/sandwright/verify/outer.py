"""Proves gVisor's outer container from the host, because the probes inside see only the sandbox.

While a sandbox runs, its container's first process and its mounts are read from /proc, and programs are
started beside it in the container. The expected values are constants here, never taken from the artifacts.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sandwright import process
from sandwright.engines.client import EngineClient
from sandwright.environment import SESSION
from sandwright.verify.outcome import ProbeOutcome
from sandwright.verify.probe import Family
from sandwright.verify.runs import START, Runs
from sandwright.verify.verdict import Verdict

ROOTFUL = 1 << 6 | 1 << 7 | 1 << 18 | 1 << 21
"""CAP_SETGID, CAP_SETUID, CAP_SYS_CHROOT, CAP_SYS_ADMIN: the only capabilities of a container of root."""

ROOTLESS = 0
"""Containers of other users have none."""

_NAMESPACES = ("mnt", "pid", "ipc", "uts")
_ASKING = 30.0


@dataclass(frozen=True)
class _Seen:
    """A running container: its engine, its name, and its first process on the host."""

    engine: EngineClient
    name: str
    pid: int

    def status(self) -> dict[str, str]:
        return _process_status(Path(f"/proc/{self.pid}/status"))

    def mounts(self) -> list[tuple[str, bool]]:
        """Mount points in the container, and whether they can be written."""
        lines = Path(f"/proc/{self.pid}/mountinfo").read_text(errors="surrogateescape").splitlines()
        found = []
        for line in lines:
            fields = line.split()
            found.append((fields[4].encode().decode("unicode_escape"), "rw" in fields[5].split(",")))
        return found

    def exec_in_container(self, *words: str) -> process.Result:
        """Start a program of the container beside the sandbox, with the same filter and privileges."""
        return self.engine.exec(self.name, "/bin/busybox", *words, timeout=_ASKING)


def outer_outcomes(runs: Runs) -> Iterator[ProbeOutcome]:
    """The verdicts on the container, while a sandbox runs in it."""
    sandbox = runs.sandbox
    argv = sandbox.argv(("sleep", "600"))
    with process.start(*argv, stdin=b"", env=sandbox.environment, pass_fds=sandbox.inherited()) as started:
        try:
            seen = _find_container(runs)
            if seen is None:
                yield _outcome(
                    runs, "starts", "the container is there", expected="a container", decided=False
                )
                return
            yield from _verdicts(runs, seen)
        finally:
            with contextlib.suppress(ProcessLookupError):
                started.terminate()
            process.ended_within(started.poll, START)


def _find_container(runs: Runs) -> _Seen | None:
    """The container of this session, once runsc has started more processes in it."""
    environment = runs.sandbox.environment
    engine = EngineClient(runs.subject.policy.gvisor_engine, environment)
    until = time.monotonic() + START
    while time.monotonic() < until:
        label = f"sandwright.session={environment[SESSION.name]}"
        for name in engine.containers(label, running=True, timeout=_ASKING):
            pid = engine.first_process(name)
            if pid and _is_gvisor_inside(pid):
                return _Seen(engine, name, pid)
        time.sleep(0.1)
    return None


def _is_gvisor_inside(pid: int) -> bool:
    """Whether gVisor's kernel runs in the container of a process."""
    cgroup_file = Path(f"/proc/{pid}/cgroup")
    with contextlib.suppress(OSError):
        group = cgroup_file.read_bytes()
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (
                    b"runsc-sandbox" in (entry / "cmdline").read_bytes()
                    and (entry / "cgroup").read_bytes() == group
                ):
                    return True
    return False


def _verdicts(runs: Runs, seen: _Seen) -> Iterator[ProbeOutcome]:
    yield from _rights_outcomes(runs, seen)
    yield _namespace_outcome(runs, seen)
    yield _mount_outcome(runs, seen)
    yield _filter_outcome(runs, seen)


def _rights_outcomes(runs: Runs, seen: _Seen) -> Iterator[ProbeOutcome]:
    allowed = ROOTLESS if runs.subject.policy.facts.uid else ROOTFUL
    status, ours = seen.status(), _process_status(Path("/proc/self/status"))
    held = {name: int(status[name], 16) for name in ("CapBnd", "CapPrm", "CapEff", "CapInh", "CapAmb")}
    more = {name: value & ~allowed for name, value in held.items() if value & ~allowed}
    yield _outcome(
        runs,
        "capabilities",
        "the container holds and can gain no capability but those that gVisor was measured to need",
        expected=f"at most {allowed:016x}",
        observed=f"{held['CapBnd']:016x}",
        wrong="; ".join(f"{name} holds {value:016x} too" for name, value in more.items()),
        evidence=f"{held}; ours: CapBnd {ours['CapBnd']}",
    )
    expected = {"NoNewPrivs": "1", "Seccomp": "2"}
    actual = {name: status.get(name, "") for name in expected}
    yield _outcome(
        runs,
        "privileges",
        "no program of the container gains rights, and a filter of system calls is in force",
        expected=str(expected),
        observed=str(actual),
        wrong="" if actual == expected else "they are not as they must be",
    )


def _namespace_outcome(runs: Runs, seen: _Seen) -> ProbeOutcome:
    kinds = [*_NAMESPACES, *([] if runs.subject.policy.network.mode == "host" else ["net"])]
    links = {kind: (_namespace_link_of(seen.pid, kind), _namespace_link_of("self", kind)) for kind in kinds}
    same = [kind for kind, (theirs, ours) in links.items() if theirs == ours]
    return _outcome(
        runs,
        "namespaces",
        f"the container's namespaces ({', '.join(kinds)}) are not the host's",
        expected="all differ",
        observed=f"{', '.join(same)} are the host's" if same else "all differ",
        wrong="it shares them" if same else "",
        evidence=str(links),
    )


def _mount_outcome(runs: Runs, seen: _Seen) -> ProbeOutcome:
    """The verdict on writable paths: in the container, only those of the policy can be written."""
    tree = runs.subject.policy.filesystem.tree
    mounts = seen.mounts()
    loose = [
        point
        for point, writable in mounts
        if writable and point.startswith("/host/") and not tree.changes_host(point.removeprefix("/host"))
    ]
    root = [writable for point, writable in mounts if point == "/"]
    wrong = [f"{point} can be written" for point in loose]
    wrong += ["its root can be written"] if any(root) or not root else []
    return _outcome(
        runs,
        "places",
        "the container's root is read-only, and all of the host in it but what the policy lets be written",
        expected="nothing else can be written",
        observed=", ".join(wrong) or "nothing else can be written",
        wrong="; ".join(wrong),
        evidence=f"{len(mounts)} mounts, {sum(at.startswith('/host/') for at, _ in mounts)} of the host",
    )


def _filter_outcome(runs: Runs, seen: _Seen) -> ProbeOutcome:
    """The verdict on the filter: only the filter can refuse a user namespace, which everybody may make."""
    control = seen.exec_in_container("true")
    tried = seen.exec_in_container("unshare", "-U", "true")
    refused = tried.status != 0 and "Operation not permitted" in tried.stderr
    return _outcome(
        runs,
        "filter",
        "the container's filter refuses what gVisor does not need",
        expected="EPERM",
        observed="EPERM" if refused else f"ended with {tried.status}",
        wrong="" if refused else "unshare is let through, or failed for another reason",
        evidence=f"unshare -U → {tried.stderr.strip() or tried.status}\ncontrol: true → {control.status}",
        decided=control.status == 0,
    )


def _namespace_link_of(process_id: int | str, kind: str) -> str:
    return str(Path(f"/proc/{process_id}/ns/{kind}").readlink())


def _process_status(path: Path) -> dict[str, str]:
    fields = (line.partition(":") for line in path.read_text(errors="replace").splitlines())
    return {name: value.strip() for name, _, value in fields}


def _outcome(
    runs: Runs,
    name: str,
    about: str,
    *,
    expected: str,
    observed: str = "",
    wrong: str = "",
    evidence: str = "",
    decided: bool = True,
) -> ProbeOutcome:
    verdict = Verdict.FAIL if wrong else Verdict.PASS
    return ProbeOutcome(
        probe=f"outer/{name}",
        method=runs.subject.method,
        family=Family.PROCESSES,
        verdict=verdict if decided else Verdict.INCONCLUSIVE,
        expected=expected,
        observed=observed,
        evidence="\n".join(part for part in ("seen from the host:", evidence, wrong) if part),
        about=about,
    )
