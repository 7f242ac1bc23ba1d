"""Refuses rendered artifacts that allow more than the policy and the method's declaration.

The artifacts are read back as their consumer reads them, and evaluated at every boundary of the policy: each
rule, each protected name, the directory above and a made-up name below; whether a directory above can be
moved away; hosts, ports, sockets, variables, and system calls. Mounts of the host's paths and variables that
only the artifacts name are checked, too. The renderer's intent does not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from sandwright.errors import ArtifactsTooWide
from sandwright.evaluate.boundary import CHILD, KERNEL_CALLS, boundary_paths, refused_calls
from sandwright.evaluate.explain.calls import architecture_named
from sandwright.evaluate.explain.enclosure import Enclosure
from sandwright.evaluate.explain.known import is_own, why_looser
from sandwright.evaluate.explain.own import own_answer
from sandwright.evaluate.explain.reading import ReadBack
from sandwright.evaluate.explain.verdict import Asked, MethodVerdict
from sandwright.evaluate.isolation import Exposure, exposures
from sandwright.lazy import load
from sandwright.policy.declaration import Declaration
from sandwright.policy.explain import explain
from sandwright.policy.paths import ancestors, below, canonical_with_links, is_inside, parent
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.rules import Action
from sandwright.policy.uses import RenderFinding
from sandwright.policy.values import LOADERS
from sandwright.render.mounts import Mount
from sandwright.render.rendered import Rendered

MAX_SHOWN = 5
"""Cases that an error lists."""

_ACTIONS: tuple[Action, ...] = ("read", "write")

_VARIABLE = "GATE_VARIABLE"
"""The end of a name that no variable has."""

_ALLOWED_CALL = "read"
"""A filter that refuses this, too, is not the one of the policy, and its refusals show nothing."""


@dataclass(frozen=True)
class Excess:
    """A case that the artifacts allow and the policy denies, with no declared or accepted reason."""

    case: Asked
    denied_by: str
    verdict: MethodVerdict

    def __str__(self) -> str:
        """`write /p/a/b: denied by deny $PROJECT/a/b (sandbox.yaml:3:4), allowed by args: --bind /p /p`."""
        where = str(self.verdict.position) if self.verdict.position else self.verdict.because
        return f"{self.case.kind} {self.case.subject}: denied by {self.denied_by}, allowed by {where}"


def check_artifacts(
    policy: ResolvedPolicy, declaration: Declaration, rendered: Rendered, sandboxes: Iterable[ReadBack]
) -> None:
    """Raise ArtifactsTooWide where the artifacts allow more than the policy.

    `sandboxes` are read back from the artifacts: the launcher's sandbox, and those that other tools start.
    """
    policy = _with_closed_facts(policy)
    findings = {each.use.feature: each for each in rendered.findings}
    questions = tuple(_denied_questions(policy))
    found: list[Excess | Exposure] = []
    for sandbox in sandboxes:
        filtered = _has_filter(policy, sandbox)
        cases = (*questions, *(_refused_calls(policy) if filtered else ()))
        found += exposures(policy, declaration, sandbox, _arch(policy))
        found += (*_excesses(policy, sandbox, findings, cases), *_through_proxy(policy, sandbox))
        if filtered:
            _check_filter(policy, rendered.method, sandbox)
    if found:
        raise _too_wide(rendered.method, found)


def _too_wide(method: str, found: list[Excess | Exposure]) -> ArtifactsTooWide:
    more = len(found) - MAX_SHOWN
    lines = [f"{method}: the rendered sandbox allows more than the policy, so it is not used:"]
    lines += [f"  {each}" for each in found[:MAX_SHOWN]]
    lines += [f"  and {more} more"] if more > 0 else []
    advice = "choose another method, or change the rule or the file at its path"
    first = next((each.case for each in found if isinstance(each, Excess)), None)
    if first is not None:
        question = f"sandwright explain {first.kind} {first.subject} --method {method}"
        advice += f"; `{question}` shows both answers"
    return ArtifactsTooWide(*lines, advice)


def _with_closed_facts(policy: ResolvedPolicy) -> ResolvedPolicy:
    """The gate invents names. Recorded facts do not contain them, so they count as missing."""
    return replace(policy, facts=policy.facts.closed())


def _denied_questions(policy: ResolvedPolicy) -> Iterator[Asked]:
    """The questions that the policy answers with a denial."""
    yield from _boundary_questions(policy)
    yield from _denied_resources(policy)


def _has_filter(policy: ResolvedPolicy, sandbox: ReadBack) -> bool:
    """Whether the artifacts decide system calls at all: a Seatbelt profile does not."""
    case = Asked("syscall", _ALLOWED_CALL, name=_ALLOWED_CALL)
    return sandbox.answer(case, policy.facts, _arch(policy)).allowed is not None


def _refused_calls(policy: ResolvedPolicy) -> Iterator[Asked]:
    """System calls that the policy's filter refuses; an error names those of KERNEL_CALLS first."""
    found = refused_calls(policy, architecture_named(_arch(policy)))
    for name, arguments in sorted(found, key=lambda each: each[0] not in KERNEL_CALLS):
        words = "".join(f" {value:#x}" for value in arguments) if any(arguments) else ""
        yield Asked("syscall", f"{name}{words}", name=name, arguments=arguments)


def _excesses(
    policy: ResolvedPolicy,
    sandbox: ReadBack,
    findings: Mapping[str, RenderFinding],
    questions: Iterable[Asked],
) -> Iterator[Excess]:
    arch = _arch(policy)
    for case in questions:
        verdict = sandbox.answer(case, policy.facts, arch)
        if not verdict.allowed or is_own(policy, case, verdict):
            continue
        if not why_looser(policy, case, findings, sandbox):
            answer = own_answer(policy, case, arch)
            yield Excess(case, f"{answer.ground.text} ({answer.ground.source})", verdict)
    yield from _renamable_directories(policy, sandbox, findings)
    yield from _bind_excesses(policy, sandbox, findings)
    yield from _passed(policy, sandbox)


def _arch(policy: ResolvedPolicy) -> str:
    return policy.facts.platform.partition("/")[2] or "amd64"


def _check_filter(policy: ResolvedPolicy, method: str, sandbox: ReadBack) -> None:
    case = Asked("syscall", _ALLOWED_CALL, name=_ALLOWED_CALL)
    verdict = sandbox.answer(case, policy.facts, _arch(policy))
    if verdict.allowed is False and own_answer(policy, case, _arch(policy)).allowed:
        raise ArtifactsTooWide(
            f"{method}: the rendered filter of system calls is not the policy's, so it is not used: "
            f"it refuses {_ALLOWED_CALL} ({verdict.position or verdict.because})"
        )


def _boundary_questions(policy: ResolvedPolicy) -> Iterator[Asked]:
    """The reads and writes at its boundaries that the policy denies."""
    tree = policy.filesystem.tree
    for path in _boundary_neighbours(policy):
        denied = [action for action in _ACTIONS if not tree.allows(action, path)]
        image = bool(denied) and policy.denies_image(path)
        yield from (Asked(action, path, path=path, image=image) for action in denied)


def _boundary_neighbours(policy: ResolvedPolicy) -> Iterator[str]:
    """Canonical paths, each once: of the boundaries, above and below."""
    found: dict[str, None] = {}
    for spelled in dict.fromkeys(boundary_paths(policy)):
        path = canonical_with_links(spelled, policy.facts)[0]
        found |= {parent(path): None, path: None, below(path, CHILD): None}
    yield from found


def _renamable_directories(
    policy: ResolvedPolicy, sandbox: ReadBack, findings: Mapping[str, RenderFinding]
) -> Iterator[Excess]:
    """Directories that can be renamed, with a restricted path that is in them: its name is then free."""
    tree = policy.filesystem.tree
    seen: set[str] = set()
    for rule in policy.filesystem.rules:
        if rule.kind not in ("deny", "readonly") or policy.facts.kind(rule.path) is None:
            continue
        for above in ancestors(rule.path)[:-1]:
            if above in seen or not (tree.changes_host(above) and tree.changes_host(parent(above))):
                continue
            seen.add(above)
            case = Asked("write", above, path=above)
            inner = Asked("write", rule.path, path=rule.path)
            if sandbox.can_move(above, policy.facts) and not why_looser(policy, inner, findings, sandbox):
                because = f"renaming {above}, with {rule.path} in it"
                verdict = MethodVerdict(allowed=True, because=because)
                yield Excess(case, f"{rule.kind} {rule.written or rule.path} ({rule.source})", verdict)


def _bind_excesses(
    policy: ResolvedPolicy, sandbox: ReadBack, findings: Mapping[str, RenderFinding]
) -> Iterator[Excess]:
    """Paths of the host that mounts of the artifacts show, there or under another name."""
    for mount, position in sandbox.binds():
        for path, inside in _shown_by(policy, mount):
            for action in _ACTIONS:
                if _is_granted(policy, action, path):
                    continue
                case = Asked(action, inside, path=inside)
                verdict = sandbox.answer(case, policy.facts, _arch(policy))
                reason = why_looser(policy, case._replace(path=path), findings, sandbox)
                if verdict.allowed and verdict.position == position and not reason:
                    answer = explain(policy, action, path)
                    yield Excess(case, f"{answer.ground.text} ({answer.ground.source})", verdict)


def _shown_by(policy: ResolvedPolicy, mount: Mount) -> Iterator[tuple[str, str]]:
    """Paths of the host that a mount may show, with their names inside."""
    near = () if mount.source == mount.target else _boundary_neighbours(policy)
    for path in (mount.source, *near):
        if is_inside(path, mount.source):
            rest = path[len(mount.source.rstrip("/")) :].rstrip("/")
            yield path, f"{mount.target.rstrip('/')}{rest}" or "/"


def _is_granted(policy: ResolvedPolicy, action: Action, path: str) -> bool:
    """Whether a path may be the host's; the kernel's files in /proc and /dev are seen in any case."""
    tree, home = policy.filesystem.tree, policy.filesystem.home_source
    if home and is_inside(path, home):
        return True
    if action == "write":
        return tree.changes_host(path)
    kernels = path.split("/")[1] in ("dev", "proc")
    return tree.shows_host(path) or (kernels and tree.allows("read", path))


def _passed(policy: ResolvedPolicy, sandbox: ReadBack) -> Iterator[Excess]:
    """Variables that the launcher takes from the host, and the policy doesn't list."""
    for pattern in sandbox.passed():
        name = pattern.replace("*", _VARIABLE)
        answer = explain(policy, "env", name)
        case = Asked("env", name, name=name)
        verdict = sandbox.answer(case, policy.facts, _arch(policy))
        if verdict.allowed and not answer.allowed and not is_own(policy, case, verdict):
            yield Excess(case, f"{answer.ground.text} ({answer.ground.source})", verdict)


def _through_proxy(policy: ResolvedPolicy, sandbox: ReadBack) -> Iterator[Excess | Exposure]:
    """The hosts that the rendered proxy lets through and the policy doesn't list."""
    squid = sandbox.proxy() if isinstance(sandbox, Enclosure) and sandbox.proxy is not None else None
    if policy.network.mode != "proxy" or squid is None:
        return
    hosts = load("sandwright.evaluate.proxied:unlisted_hosts")
    for host, port, answer, verdict in hosts(policy, squid):
        case = Asked("connect", answer.subject, host=host, port=port)
        yield Excess(case, f"{answer.ground.text} ({answer.ground.source})", verdict)
    yield from load("sandwright.evaluate.proxied:proxy_exposures")(policy, squid)


def _denied_resources(policy: ResolvedPolicy) -> Iterator[Asked]:
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
