"""Refuses rendered artifacts that allow more than the policy, and the method's declaration, say.

The artifacts are read back as their consumer reads them, and asked at every boundary of the policy: each
rule, each protected name, the directory above and a made-up name below. The renderer's intent doesn't count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from sandwright.errors import ArtifactsTooWide
from sandwright.evaluate.boundary import CHILD, boundary_paths, parent
from sandwright.evaluate.explain.known import is_own, why_looser
from sandwright.evaluate.explain.reading import ReadBack
from sandwright.evaluate.explain.verdict import Asked, MethodVerdict
from sandwright.policy.explain import explain
from sandwright.policy.paths import below, followed
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.rules import Action
from sandwright.policy.uses import RenderFinding
from sandwright.policy.values import LOADERS

MAX_SHOWN = 5
"""Cases that an error lists."""

_ACTIONS: tuple[Action, ...] = ("read", "write")


@dataclass(frozen=True)
class Excess:
    """A case that the artifacts allow and the policy denies, with no declared or accepted reason."""

    asked: Asked
    denied_by: str
    verdict: MethodVerdict

    def __str__(self) -> str:
        """`write /p/a/b: denied by deny $PROJECT/a/b (sandbox.yaml:3:4), allowed by args: --bind /p /p`."""
        where = str(self.verdict.place) if self.verdict.place else self.verdict.because
        return f"{self.asked.kind} {self.asked.subject}: denied by {self.denied_by}, allowed by {where}"


def check_artifacts(
    policy: ResolvedPolicy, sandbox: ReadBack, findings: Mapping[str, RenderFinding], *, method: str
) -> None:
    """Raise ArtifactsTooWide where the artifacts allow more than the policy.

    `sandbox` is what they were read back to, `findings` what rendering reported, by feature.
    """
    found = tuple(excesses(policy, sandbox, findings))
    if not found:
        return
    more = len(found) - MAX_SHOWN
    lines = [f"{method}: the rendered sandbox allows more than the policy, so it is not used:"]
    lines += [f"  {each}" for each in found[:MAX_SHOWN]]
    lines += [f"  and {more} more"] if more > 0 else []
    first = found[0].asked
    lines.append(
        "take another method, or change the rule or what is at its path; "
        f"`sandwright explain {first.kind} {first.subject} --method {method}` shows both answers"
    )
    raise ArtifactsTooWide(*lines)


def excesses(
    policy: ResolvedPolicy, sandbox: ReadBack, findings: Mapping[str, RenderFinding]
) -> Iterator[Excess]:
    """Each such case. Takes time in proportion to the number of rules and protected names."""
    policy = replace(policy, facts=policy.facts.closed())  # names are made up, and nothing is there
    arch = policy.facts.platform.partition("/")[2] or "amd64"
    for asked in (*_paths(policy), *_others(policy)):
        verdict = sandbox.answer(asked, policy.facts, arch)
        if not verdict.allowed or is_own(policy, asked, verdict):
            continue
        if not why_looser(policy, asked, findings, sandbox):
            answer = explain(policy, asked.kind, asked.subject)
            yield Excess(asked, f"{answer.ground.text} ({answer.ground.source})", verdict)


def _paths(policy: ResolvedPolicy) -> Iterator[Asked]:
    """What the policy denies of reading and writing at its boundaries."""
    tree = policy.filesystem.tree
    for path in _near(policy):
        denied = [action for action in _ACTIONS if not tree.allows(action, path)]
        image = bool(denied) and policy.denies_image(path)
        yield from (Asked(action, path, path=path, image=image) for action in denied)


def _near(policy: ResolvedPolicy) -> Iterator[str]:
    """Canonical paths, each once: of the boundaries, above and below."""
    found: dict[str, None] = {}
    for spelled in dict.fromkeys(boundary_paths(policy)):
        path = followed(spelled, policy.facts)[0]
        found |= {parent(path): None, path: None, below(path, CHILD): None}
    yield from found


def _others(policy: ResolvedPolicy) -> Iterator[Asked]:
    """Hosts, ports, sockets and variables that the policy denies."""
    for subject in ("192.0.2.1:443", "localhost:1", *(f"localhost:{port}" for port in policy.network.expose)):
        host, _, port = subject.partition(":")
        if not explain(policy, "connect", subject).allowed:
            yield Asked("connect", subject, host=host, port=int(port))
    if not explain(policy, "listen", "1").allowed:
        yield Asked("listen", "1", port=1)
    for path in policy.facts.sockets:
        if not explain(policy, "connect", path).allowed:
            yield Asked("connect", path, path=path)
    for pattern in (*policy.environment.secret, *LOADERS):
        name = pattern.removesuffix("*")
        if not explain(policy, "env", name).allowed:
            yield Asked("env", name, name=name)
