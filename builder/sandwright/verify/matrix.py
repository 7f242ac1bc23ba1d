"""The matrix: each method asked for, proved one beside the other, and all that came of it as one report."""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from sandwright import process
from sandwright.errors import RenderError, UsageError
from sandwright.progress import SILENT, Progress
from sandwright.smoke.verdict import Verdict
from sandwright.verify.outcome import Outcome
from sandwright.verify.probe import Family
from sandwright.verify.prove import Proof, Resolve, prove
from sandwright.verify.report import Report

PROGRAMS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "bwrap": (("bwrap",),),
    "oci": (("runc", "crun"),),
    "gvisor": (("runsc",),),
    "docker": (("docker",),),
    "podman": (("podman",),),
    "seatbelt": (),
}
"""The methods that can be verified, each with the programs it needs: of each group one."""

AT_ONCE = 2
"""Methods under way at the same time: most of a proof is waiting for an engine."""


def methods(asked: str) -> tuple[str, ...]:
    """The methods that somebody asked for: names between commas, or `all`. Raise UsageError for another."""
    if asked == "all":
        return tuple(PROGRAMS)
    names = tuple(dict.fromkeys(name.strip() for name in asked.split(",") if name.strip()))
    for name in names:
        if name not in PROGRAMS:
            raise UsageError(f"{name!r} can't be verified; there is {', '.join(PROGRAMS)}, and all")
    if not names:
        raise UsageError("name a method to verify, or all")
    return names


def verify(
    resolve: Resolve,
    asked: Sequence[str],
    *,
    policy: str,
    program: Path,
    build: Path = Path("build"),
    progress: Progress = SILENT,
) -> Report:
    """Prove every method of `asked`, and report. `policy` is its name for the reader, `build` as in `prove`.

    What a method can't enforce of the policy, or lacks on this machine, is a skip with its reason.
    """
    started, began = datetime.now(UTC), time.monotonic()

    def proof(method: str) -> Proof:
        with progress.step(f"verifying {method}", unit="probes"):
            return _proof(resolve, method, program, build)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        proofs = list(pool.map(proof, asked))
    return Report(
        policy=policy,
        methods=tuple(asked),
        outcomes=tuple(outcome for each in proofs for outcome in each.outcomes),
        notes=tuple(dict.fromkeys(note for each in proofs for note in each.notes)),
        started=started.isoformat(timespec="seconds"),
        seconds=time.monotonic() - began,
        host=f"{platform.node()}: {platform.system()} {platform.release()} {platform.machine()}",
    )


def _proof(resolve: Resolve, method: str, program: Path, build: Path) -> Proof:
    missing = _missing(method)
    if missing:
        return _untried(method, missing)
    try:
        return prove(resolve, method, program=program, build=build)
    except RenderError as error:
        return _untried(method, f"it can't enforce this policy: {error}")


def _missing(method: str) -> str:
    groups = [group for group in PROGRAMS[method] if not any(process.find(name) for name in group)]
    return "; ".join(f"{' or '.join(group)} is not installed" for group in groups)


def _untried(method: str, reason: str) -> Proof:
    outcome = Outcome(
        probe="lifecycle/starts",
        method=method,
        family=Family.LIFECYCLE,
        verdict=Verdict.SKIPPED,
        expected="every attempt is answered",
        observed="",
        evidence=reason,
        about="the sandbox starts, and the probe program runs in it to its end",
    )
    return Proof(method, (outcome,), ())
