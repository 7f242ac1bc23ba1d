"""The subject of a proof: one method with one policy, and the files planted on the host."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from sandwright.methods import registry
from sandwright.methods.contract import RemoteCanary
from sandwright.methods.properties import Properties
from sandwright.policy.declaration import Declaration
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.runtime.probe.protocol import Word, attempt
from sandwright.verify.fixture import Fixture
from sandwright.verify.listeners import CanaryListeners
from sandwright.verify.probe import ProbeStep
from sandwright.verify.reserved_state import ReservedState


@dataclass(frozen=True)
class Canaries:
    """Variables with values that show whether they are passed.

    `passed` are variables of the host that the policy passes, `withheld` those it doesn't, each with its
    value for this run. No two values are alike.
    """

    passed: Mapping[str, str] = field(default_factory=dict)
    withheld: Mapping[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """All canaries."""
        return {**self.passed, **self.withheld}


@dataclass(frozen=True)
class ProofSubject:
    """The subject for which the catalogue makes probes.

    `word` identifies this run; a canary that receives it was reached. `remote` is a listener on the machine
    of a remote sandbox, or the reason why there is none. `reserved` has the files planted in sandwright's own
    directories; without it nothing is attempted there. `host_process` is the number of a process of the host
    (`verify/host_process.py`).
    """

    method: str
    policy: ResolvedPolicy
    fixture: Fixture
    listeners: CanaryListeners
    canaries: Canaries
    remote: RemoteCanary | str = ""
    reserved: ReservedState | None = None
    word: str = field(default_factory=lambda: uuid.uuid4().hex)
    host_process: int = field(kw_only=True)

    @property
    def properties(self) -> Properties:
        """The properties of the method."""
        return registry.properties(self.method)

    @property
    def declaration(self) -> Declaration:
        """The features that the method supports."""
        return registry.declaration(self.method)

    @property
    def image_root(self) -> bool:
        """Whether the root inside is an image's: paths of the host are there only when they are listed."""
        return self.properties.root == "image"

    @property
    def engine(self) -> str:
        """The engine of the container that is or contains the sandbox; empty for none."""
        if self.properties.engine:
            return self.method
        around = self.policy.gvisor_engine if self.properties.outer_container else "none"
        return "" if around == "none" else around

    @property
    def owner(self) -> int:
        """The owner, on the host, of files created inside: the caller, or the dedicated account."""
        return registry.backend(self.method).owner(self.policy)

    @property
    def linux(self) -> bool:
        """Whether the sandbox runs on Linux."""
        return self.properties.system != "darwin"


def step(claim: str, operation: str, *words: Word) -> ProbeStep:
    """A step without conditions on its value."""
    return ProbeStep(attempt(operation, *words), claim)


_READ = ("PATH", "HOME", "USER")
"""Variables that starters go by: Podman without root looks up the ranges of ids of USER (subuid(5))."""


def canaries(policy: ResolvedPolicy) -> Canaries:
    """Variables to look for: one with an unused name for each pattern that passes or withholds some."""
    passed = {}
    for pattern in policy.environment.passed:
        name = pattern.replace("*", "SANDWRIGHT") if pattern.endswith("*") else pattern
        if policy.environment.passes(name) and name not in _READ:
            # What shells and JSON treat in ways of their own must arrive as it is.
            passed[name] = f"{uuid.uuid4().hex} a=b 'c\" $HOME \\n\ttab"
    withheld = ["SANDWRIGHT_CANARY", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "LD_PRELOAD_CANARY", "BASH_ENV"]
    withheld += [*sorted(policy.environment.secret)]
    withheld_names = [name for name in withheld if not policy.environment.passes(name)]
    return Canaries(passed, {name: f"/nonexistent/{uuid.uuid4().hex}" for name in withheld_names})
