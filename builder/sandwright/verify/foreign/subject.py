"""The subject for a foreign command: its properties come from its promises."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sandwright.errors import UsageError
from sandwright.methods.properties import Properties
from sandwright.policy.declaration import Declaration, Support
from sandwright.policy.names import FEATURES
from sandwright.verify.expected import default_expectation
from sandwright.verify.foreign.claims import Promises
from sandwright.verify.outcome import ProbeOutcome
from sandwright.verify.probe import Probe
from sandwright.verify.subject import ProofSubject
from sandwright.verify.verdict import Verdict

_NOTHING = Promises(schema_version=1, name="", about="", policy={})


@dataclass(frozen=True)
class ForeignSubject(ProofSubject):
    """The subject of a command, which has no row in the table of methods."""

    promises: Promises = _NOTHING

    @property
    def properties(self) -> Properties:
        """The properties of the plainest method, except the kind of root."""
        return Properties(root=self.promises.root, verifiable=True)

    @property
    def declaration(self) -> Declaration:
        """A declaration of every feature that the promises do not exclude."""
        return Declaration(self.method, dict.fromkeys(FEATURES, Support("exact")))

    @property
    def engine(self) -> str:
        """Empty, because there is no engine."""
        return ""

    @property
    def owner(self) -> int:
        """The ID of the user who started the command."""
        return os.geteuid()


def without_promise(
    outcomes: Sequence[ProbeOutcome], probes: Sequence[Probe], promises: Promises
) -> Iterator[ProbeOutcome]:
    """The outcomes; those that the subject does not promise are marked.

    Every sandbox promises that it starts.
    """
    features = {probe.name: frozenset(_probe_features(probe)) for probe in probes}
    for outcome in outcomes:
        reason = _why_not_promised(outcome.probe, features.get(outcome.probe, frozenset()), promises)
        yield outcome if reason is None else _apart(outcome, reason)


def check_names(promises: Promises, names: Sequence[str]) -> None:
    """Raise UsageError if the promises leave out an unknown probe."""
    for what in promises.not_promised:
        if what not in FEATURES and not fnmatch.filter(names, what):
            raise UsageError(f"{promises.name}: not_promised: no probe of this run is called {what!r}")


def _probe_features(probe: Probe) -> Iterator[str]:
    """The features that a probe's steps are about."""
    yield from (feature for step in probe.steps if (feature := default_expectation(step.claim).feature))


def _why_not_promised(name: str, features: frozenset[str], promises: Promises) -> str | None:
    """The reason why a probe is not promised; None if it is."""
    if name == "lifecycle/starts":
        return None
    for what, reason in promises.not_promised.items():
        if what in features or ("/" in what and fnmatch.fnmatchcase(name, what)):
            return reason
    return None


def _apart(outcome: ProbeOutcome, reason: str) -> ProbeOutcome:
    if outcome.verdict in (Verdict.SKIPPED, Verdict.NOT_PROMISED):
        return outcome
    held = "held all the same" if outcome.verdict is Verdict.PASS else f"seen: {outcome.verdict}"
    return replace(
        outcome,
        verdict=Verdict.NOT_PROMISED,
        note=f"not promised: {reason}",
        evidence=f"{held}\n{outcome.evidence}",
    )
