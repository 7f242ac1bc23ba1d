"""Simulates the probes against the rendered Seatbelt profile on systems other than macOS.

Nothing runs: each attempt becomes the operations that macOS would check, and the SBPL evaluator decides them.
Properties that a profile does not decide (variables, limits, the end of runs) are not simulated.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from sandwright.evaluate.sbpl import Evaluator, FileImporter, Links, compile_profile
from sandwright.evaluate.sbpl.request import ResourceValue
from sandwright.methods import registry
from sandwright.policy.facts import DARWIN_LINKS, HostEntry, HostFacts
from sandwright.runtime.probe.protocol import NO_ANSWER, Attempt, ProbeAnswer
from sandwright.verify.catalogue import catalogue
from sandwright.verify.cloud import cloud_cases, plant_home
from sandwright.verify.fixture import Fixture, plant_fixture
from sandwright.verify.listeners import canary_listeners
from sandwright.verify.outcome import ProbeOutcome, judge
from sandwright.verify.probe import Family, Probe
from sandwright.verify.prove import MethodProof, Resolve, Weaken, findings
from sandwright.verify.subject import Canaries, ProofSubject

DECIDED = (Family.FILES, Family.LINKS, Family.NETWORK)
"""The families that the profile decides; the launcher or the system decides the rest."""

_Resource = dict[str, ResourceValue]

_OPERATIONS: Mapping[str, tuple[tuple[str, int], ...]] = {
    "read": (("file-read-data", 0),),
    "length": (("file-read-data", 0),),
    "content": (("file-read-data", 0),),
    "list": (("file-read-data", 0),),
    "stat": (("file-read-metadata", 0),),
    "write": (("file-write-data", 0),),
    "truncate": (("file-write-data", 0),),
    "create": (("file-write-create", 0),),
    "mkdir": (("file-write-create", 0),),
    "mknod": (("file-write-create", 0),),
    "symlink": (("file-write-create", 1),),
    "unlink": (("file-write-unlink", 0),),
    "rmdir": (("file-write-unlink", 0),),
    "rename": (("file-write-unlink", 0), ("file-write-create", 1)),
    "link": (("file-link", 0), ("file-write-create", 1)),
    "chmod": (("file-write-mode", 0),),
    "utimes": (("file-write-times", 0),),
    "chown": (("file-write-owner", 0),),
}
"""By attempt: the operation that macOS checks, and the argument that is its resource."""


def as_macos(facts: HostFacts) -> HostFacts:
    """The facts of this host as those of a Mac: the same files, with the links of its root resolved."""
    entries = {_macos_path(path): entry for path, entry in facts.entries.items()}
    entries |= {path: HostEntry("directory") for path in _MACOS_DIRECTORIES}
    return replace(
        facts,
        os="darwin",
        platform=f"darwin/{facts.platform.partition('/')[2]}",
        tmp="/private/var/folders/zz/sandwright/T",
        entries=entries,
        absent=tuple(map(_macos_path, facts.absent)),
        autorun=tuple(map(_macos_path, facts.autorun)),
        git_directories=tuple(map(_macos_path, facts.git_directories)),
        git_files={_macos_path(path): why for path, why in facts.git_files.items()},
        sockets=tuple(map(_macos_path, facts.sockets)),
        case_sensitive=False,
    )


_MACOS_DIRECTORIES = ("/private", "/System", "/System/Volumes", "/System/Volumes/Data")
"""The targets of the links at the root of macOS."""


def _macos_path(path: str) -> str:
    """The real path on macOS, where /tmp, /var, /etc and /home are links."""
    first, _, below = path.removeprefix("/").partition("/")
    target = DARWIN_LINKS.get(f"/{first}")
    return path if target is None else f"/{target.removeprefix('/')}{'/' if below else ''}{below}"


def simulate(resolve: Resolve, method: str, *, weaken: Weaken | None = None) -> MethodProof:
    """The verdicts that the rendered profile gives, marked as simulated. Raise RenderError like `prove`."""
    with plant_fixture() as fixture, canary_listeners(fixture.read, fixture.write, fixture.word) as listeners:
        policy = resolve(fixture.settings(), as_macos)
        subject = ProofSubject(method, policy, fixture, listeners, Canaries(), host_process=os.getpid())
        probes = [probe for probe in catalogue(subject) if probe.family in DECIDED]
        outcomes = [*_outcomes(subject, probes, weaken)]
        planted_home = plant_home(fixture)
        for mode, read, made in cloud_cases(planted_home):
            words = [*fixture.settings(*read), f"credentials.cloud={mode}"]
            other = replace(subject, policy=resolve(words, lambda facts: as_macos(planted_home.seen(facts))))
            outcomes += _outcomes(other, made(other, planted_home), weaken)
        stricter, weaker = findings(policy, registry.declaration(method))
        simulated = (
            f"{method}: simulated: the SBPL evaluator answered for the rendered profile, and nothing ran; it "
            "decides on files, links, the network and cloud accounts. "
            f"`verify --method {method}` on macOS enforces"
        )
        return MethodProof(method, tuple(outcomes), (*stricter, simulated), weaker)


def _outcomes(
    subject: ProofSubject, probes: Sequence[Probe], weaken: Weaken | None
) -> Iterator[ProbeOutcome]:
    """The verdicts on probes of one policy."""
    artifacts = registry.render(subject.policy, subject.method).artifacts
    artifacts = artifacts if weaken is None else weaken(subject, artifacts)
    profile = compile_profile(
        next(each.content for each in artifacts if each.name == subject.properties.simulated_by),
        params={"PROXY_PORT": "1"},
        importer=FileImporter(),
    )
    simulation = _ProfileAnswers(Evaluator(profile), subject.fixture)
    yield from (_judge_simulated(probe, simulation, subject.method) for probe in probes)


def _judge_simulated(probe: Probe, simulation: _ProfileAnswers, method: str) -> ProbeOutcome:
    """Judge without looking at the host: nothing was done there."""
    answers = [simulation.answer(step.attempt) for step in probe.asked]
    return judge(replace(probe, check=None, never=()), method, answers, simulated=True)


@dataclass
class _ProfileAnswers:
    """Answers attempts from a profile. `links` are those that the attempts have made so far."""

    evaluator: Evaluator
    fixture: Fixture
    links: dict[str, str] = field(default_factory=dict)

    def answer(self, attempt: Attempt) -> ProbeAnswer:
        """The answer of macOS to an attempt, as far as the profile decides it."""
        words = [os.fsdecode(argument) for argument in attempt.arguments]
        questions = list(_macos_questions(attempt.operation, words))
        if not questions:
            return NO_ANSWER
        evaluator = self.evaluator.at(Links({**self._planted_links(), **self.links}))
        if not all(evaluator.decide(operation, resource).allowed for operation, resource in questions):
            return ProbeAnswer("errno", "EPERM")
        if attempt.operation == "symlink":
            self.links[words[1]] = words[0]
        return ProbeAnswer("ok", value=_expected_value(attempt.operation, words))

    def _planted_links(self) -> dict[str, str]:
        link = self.fixture.read / "link-to-denied"
        return {str(link): os.fsdecode(link.readlink())}


def _macos_questions(operation: str, words: list[str]) -> Iterator[tuple[str, _Resource]]:
    """The operations that macOS would check, each with its resource; none for steps outside the profile."""
    if operation in ("tcp", "udp"):
        host = "localhost" if words[0] == "127.0.0.1" else "*"
        yield "network-outbound", {"remote": f"{host}:{words[1]}", "proto": operation}
    elif operation == "unix":
        yield "network-outbound", {"unix": words[0]}
    else:
        for name, argument in _OPERATIONS.get(operation, ()):
            made = {"vnode-type": "SYMLINK"} if operation == "symlink" else {}
            yield name, {"path": os.path.normpath(words[argument]), **made}


def _expected_value(operation: str, words: list[str]) -> bytes:
    """The value that an allowed attempt would give: the content of the host's file."""
    look: Mapping[str, Callable[[Path], bytes]] = {
        "read": lambda path: path.read_bytes(),
        "list": lambda path: "".join(f"{name}\n" for name in os.listdir(path)).encode(),  # noqa: PTH208
    }
    with contextlib.suppress(OSError):
        return look[operation](Path(words[0]))[:65536] if operation in look else b""
    return b""
