"""The matrix: proves each requested method, and makes one report of the results."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from sandwright.errors import RenderError, ToolMissing, UsageError
from sandwright.host import MachineFacts, collect_host
from sandwright.methods import registry
from sandwright.methods.contract import NoAccount
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.progress import SILENT, Progress
from sandwright.verify import simulate
from sandwright.verify.outcome import ProbeOutcome
from sandwright.verify.probe import Family
from sandwright.verify.prove import MethodProof, Resolve, prove
from sandwright.verify.report import PolicyReport
from sandwright.verify.verdict import Verdict
from sandwright.verify.work.prove import NOTE, ResolveAt, prove_work

METHODS = registry.verifiable()
"""Our methods and forms that can be verified, without those that others install. A method that has forms runs
on the host, or in the engine of the policy's `gvisor.engine`.
"""

ProveWork = Callable[[str, Sequence[str]], Iterator[ProbeOutcome]]
"""Does usual work in projects with a method, under some additional settings."""

AT_ONCE = 2
"""The number of methods that are proved at a time: a proof mostly waits for an engine."""


def methods(request: str) -> tuple[str, ...]:
    """The requested methods: names between commas, or `all`. Raise UsageError for an unknown one."""
    if request == "all":
        return tuple(METHODS)
    names = tuple(dict.fromkeys(name.strip() for name in request.split(",") if name.strip()))
    for name in names:
        if not is_verifiable(name):
            raise UsageError(f"cannot verify {name!r}; choose {', '.join(METHODS)} or all")
    if not names:
        raise UsageError("name a method to verify, or all")
    return names


def is_verifiable(name: str) -> bool:
    """Whether a method or form can be verified. Raise UsageError for one that can't be loaded."""
    installed = name in registry.registered()
    return name in METHODS or (installed and registry.properties(name).verifiable)


def verify(
    resolve: Resolve,
    requested: Sequence[str],
    *,
    policy: str,
    progress: Progress = SILENT,
    work: ResolveAt | None = None,
) -> PolicyReport:
    """Prove every method of `requested`, and report. `policy` is its name for the reader.

    With `work`, also prove usual work, each in a project for which that function resolves the policy. A
    feature that a method can't enforce, or lacks on this machine, is a skip with its reason.
    """
    started, began = datetime.now(UTC), time.monotonic()

    def worked(method: str, more: Sequence[str]) -> Iterator[ProbeOutcome]:
        def at(project: Path, settings: Sequence[str]) -> ResolvedPolicy:
            assert work is not None
            return work(project, [*settings, *more])

        yield from prove_work(at, method, progress=progress) if work else ()

    def proof(method: str) -> MethodProof:
        with progress.step(f"verifying {method}", unit="probes"):
            return _proof(resolve, method, host, worked if work else None)

    host = collect_host()
    # In a shared temporary directory they would see each other's planted files.
    at_once = AT_ONCE if resolve(()).filesystem.tmp == "private" else 1
    if len(requested) == 1:  # here, where Ctrl-C ends it: threads would be waited for
        proofs = [proof(requested[0])]
    else:
        with ThreadPoolExecutor(at_once) as pool:
            proofs = list(pool.map(proof, requested))
    return PolicyReport(
        policy=policy,
        methods=tuple(requested),
        outcomes=tuple(outcome for each in proofs for outcome in each.outcomes),
        notes=tuple(dict.fromkeys(note for each in proofs for note in each.notes)),
        started=started.isoformat(timespec="seconds"),
        seconds=time.monotonic() - began,
        weaker=tuple(dict.fromkeys(each for proof in proofs for each in proof.weaker)),
        host=f"{platform.node()}: {platform.system()} {platform.release()} {platform.machine()}",
    )


def _proof(resolve: Resolve, method: str, host: MachineFacts, work: ProveWork | None = None) -> MethodProof:
    variant, module, _ = registry.find(method)
    properties = module.properties
    if properties.simulated_by and host.os != properties.system:
        return _rendered(method, lambda: simulate.simulate(resolve, method))
    row = registry.variant_name(method, resolve(())) if variant == method else method
    found = registry.backend(row).preflight(host)
    if not found.ready:
        return _not_attempted(
            method, found.describe(), Verdict.FAIL if found.code in _BROKEN else Verdict.SKIPPED
        )
    if properties.copies_project and (reason := _not_travelling(resolve, properties.copies_project)):
        return _not_attempted(method, reason, Verdict.SKIPPED)
    engine = registry.find(row)[2].engine
    if engine != "none":
        return _rendered(method, lambda: _in_container(resolve, method, variant, engine, work))
    return _rendered(method, lambda: _with_work(prove(resolve, method), work))


def _not_travelling(resolve: Resolve, variable: str) -> str:
    """The reason why nothing is proved on another machine; empty if it is."""
    if not os.environ.get(variable):
        return f"no project is copied there: {variable} names no repository"
    if resolve(()).network.mode != "none":
        return "its network is not this machine's, so it is proved only without a network"
    return ""


def _with_work(proof: MethodProof, work: ProveWork | None, more: Sequence[str] = ()) -> MethodProof:
    """A proof with the probes of work, which are left out if nothing starts."""
    if work is None or proof.outcomes[0].verdict is not Verdict.PASS:
        return proof
    outcomes = (*proof.outcomes, *work(proof.method, more))
    return replace(proof, outcomes=outcomes, notes=(*proof.notes, NOTE.format(proof.method)))


def _in_container(
    resolve: Resolve, method: str, variant: str, engine: str, work: ProveWork | None
) -> MethodProof:
    """The proof of a method in a container of an engine, under the requested name."""
    proof = _with_work(prove(in_engine(resolve, engine), variant), work, [f"gvisor.engine={engine}"])
    outcomes = tuple(replace(each, method=method) for each in proof.outcomes)
    notes = (f"{method}: gVisor in a container of {engine}", *proof.notes)
    return MethodProof(method, outcomes, notes, proof.weaker)


def in_engine(resolve: Resolve, engine: str) -> Resolve:
    """The same function for a container of an engine."""

    def resolved(settings: Sequence[str], *other: Callable[[MachineFacts], MachineFacts]) -> ResolvedPolicy:
        return resolve([*settings, f"gvisor.engine={engine}"], *other)

    return resolved


def _rendered(method: str, proof: Callable[[], MethodProof]) -> MethodProof:
    """A proof, or why there is none."""
    try:
        return proof()
    except ToolMissing as missing:
        return _not_attempted(method, str(missing), Verdict.SKIPPED)
    except NoAccount as error:
        return _not_attempted(method, str(error), Verdict.SKIPPED)
    except RenderError as error:
        return _not_attempted(method, f"it cannot enforce this policy: {error}", Verdict.SKIPPED)


_BROKEN = ("hangs", "not-started", "not-denied")
"""The outcomes of a preflight for an installed method that does not work correctly."""


def _not_attempted(method: str, reason: str, verdict: Verdict) -> MethodProof:
    outcome = ProbeOutcome(
        probe="lifecycle/starts",
        method=method,
        family=Family.LIFECYCLE,
        verdict=verdict,
        expected="every attempt is answered",
        observed="",
        evidence=reason,
        about="the sandbox starts, and the probe program runs in it to its end",
    )
    return MethodProof(method, (outcome,), ())
