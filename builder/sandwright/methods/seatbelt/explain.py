"""Asks a rendered Seatbelt profile: it is run, as macOS runs it, and its rules decide."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sandwright.evaluate.explain import variables
from sandwright.evaluate.explain.enclosure import Passing
from sandwright.evaluate.explain.reading import ReadBack
from sandwright.evaluate.explain.verdict import BY_RUN, IS_SET, ArtifactPosition, Asked, MethodVerdict
from sandwright.evaluate.sbpl.decide import Evaluator
from sandwright.evaluate.sbpl.filters import matches, write_filter
from sandwright.evaluate.sbpl.paths import Links
from sandwright.evaluate.sbpl.profile import compile_profile
from sandwright.evaluate.sbpl.request import Resource, parse_request
from sandwright.evaluate.sbpl.source import readable
from sandwright.methods.seatbelt.path_rules import native
from sandwright.policy.facts import HostFacts
from sandwright.policy.paths import below, is_inside, same_name
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.questions import EntryKind
from sandwright.render.rendered import Rendered

PROXY_PORT = 3128
"""The port in questions to the profile; the launcher sets the real one at each start."""

_VNODES: dict[EntryKind, str] = {
    "directory": "DIRECTORY",
    "file": "REGULAR-FILE",
    "symlink": "SYMLINK",
    "socket": "SOCKET",
    "device": "CHARACTER-DEVICE",
    "fifo": "FIFO",
}


@dataclass(frozen=True)
class ReadProfile(ReadBack):
    """A profile that was evaluated, and the variables that the launcher passes on."""

    evaluator: Evaluator
    policy: ResolvedPolicy
    passing: Passing
    set_variables: dict[str, ArtifactPosition]

    def answer(self, question: Asked, facts: HostFacts, arch: str) -> MethodVerdict:  # noqa: ARG002 - no architecture
        """Answer a question, on the host of `facts`."""
        match question.kind:
            case "read" | "write" | "exec":
                hidden = next(self._hidden_links(question, facts), None)
                return hidden or self._first_refusal(list(self._macos_operations(question, facts)))
            case "connect" | "request":
                return self._first_refusal([self._connecting(question)])
            case "listen":
                resource: Resource = {"local": f"localhost:{question.port}", "proto": "tcp"}
                return self._first_refusal([("network-bind", resource), ("network-inbound", resource)])
            case "env" if question.name in self.set_variables:
                return MethodVerdict(allowed=True, because=IS_SET, position=self.set_variables[question.name])
            case "env":
                return self.passing.verdict(question.name)
            case "tool":
                return MethodVerdict(allowed=None, because=BY_RUN)
            case "syscall":
                return MethodVerdict(
                    allowed=None, because="a profile decides operations, not Linux's system calls"
                )

    def can_move(self, path: str, facts: HostFacts) -> bool | None:  # noqa: ARG002 - for any kind of file
        """Whether a path can be renamed: macOS checks whether the old name may be removed."""
        resource: Resource = {"path": self._path_on_macos(path), "vnode-type": "DIRECTORY"}
        return _evaluate_operation(self.evaluator, "file-write-unlink", resource).allowed

    def way_to_proxy(self) -> MethodVerdict:
        """Whether the proxy's port can be reached."""
        resource: Resource = {"remote": f"localhost:{PROXY_PORT}", "proto": "tcp"}
        return _evaluate_operation(self.evaluator, "network-outbound", resource)

    def _hidden_links(self, question: Asked, facts: HostFacts) -> Iterator[MethodVerdict]:
        """The refusals to follow links on the way: macOS looks at the metadata of each."""
        same = same_name(facts)
        for link in question.links:
            target = facts.link(link) or ""
            if "/" in target or same(target) != same(link.rpartition("/")[2]):
                resource: Resource = {"path": self._path_on_macos(link), "vnode-type": "SYMLINK"}
                verdict = _evaluate_operation(self.evaluator, "file-read-metadata", resource)
                if not verdict.allowed:
                    yield verdict._replace(target=link)

    def _macos_operations(self, question: Asked, facts: HostFacts) -> Iterator[tuple[str, Resource]]:
        """The operations that macOS checks for an action: all of them have to be allowed."""
        path, kind = self._path_on_macos(question.path), facts.kind(question.path)
        vnode = _VNODES.get(kind or "file", "REGULAR-FILE")
        match question.kind:
            case "read":
                yield "file-read-data", {"path": path, "vnode-type": vnode}
            case "exec":
                yield "file-read-data", {"path": path, "vnode-type": vnode}
                yield "process-exec*", {"path": path, "vnode-type": vnode}
            case _ if kind is None:
                yield "file-write-create", {"path": path, "vnode-type": vnode}
                yield "file-write-data", {"path": path, "vnode-type": vnode}
            case _ if kind == "directory":
                inside = f"{path.rstrip('/')}/{_NEW}"
                yield "file-write-create", {"path": inside, "vnode-type": "REGULAR-FILE"}
            case _:
                yield "file-write-data", {"path": path, "vnode-type": vnode}

    def _connecting(self, question: Asked) -> tuple[str, Resource]:
        if question.path:
            return "network-outbound", {"unix": "true", "path": self._path_on_macos(question.path)}
        host = "localhost" if question.host == "localhost" else question.host
        address = f"[{host}]" if ":" in host else host
        return "network-outbound", {"remote": f"{address}:{question.port}", "proto": "tcp"}

    def _first_refusal(self, operations: list[tuple[str, Resource]]) -> MethodVerdict:
        """The first denial; without one, the rule that allows the last operation."""
        verdict = MethodVerdict(allowed=None, because="nothing is checked")
        for operation, resource in operations:
            verdict = _evaluate_operation(self.evaluator, operation, resource)
            if not verdict.allowed:
                return verdict
        return verdict

    def _path_on_macos(self, path: str) -> str:
        return native(path, self.policy)

    def why_stricter(self, policy: ResolvedPolicy, question: Asked) -> str:
        """The reason for a stricter answer: parent directories of restricted paths keep their names."""
        return _why_pinned(policy, question)

    def why_looser(self, policy: ResolvedPolicy, question: Asked) -> str:  # noqa: ARG002
        """The reason for a looser answer: programs read the names in the root directory when they start."""
        if question.kind == "read" and question.path == "/":
            return "getcwd(3) and dyld read the names at the root; nothing else is read there"
        return ""


_NEW = "sandwright-explain"
"""A name that nothing has, to ask whether something new can be made."""


def read_seatbelt(rendered: Rendered, policy: ResolvedPolicy) -> ReadProfile:
    """The profile, run with a proxy's port as the launcher gives one."""
    params = {"PROXY_PORT": str(PROXY_PORT)} if policy.network.mode == "proxy" else {}
    profile = compile_profile(rendered.artifact("profile.sb").content, file="profile.sb", params=params)
    rows = variables.rows_of(rendered)
    evaluator = Evaluator(profile, links=None if policy.facts.os == "darwin" else _LinuxHomes())
    return ReadProfile(evaluator, policy, variables.passed_variables(rows), dict(_launcher_variables(rows)))


def _launcher_variables(rows: dict[str, list[variables.Words]]) -> Iterator[tuple[str, ArtifactPosition]]:
    """The variables that the launcher sets, with the place of each in the launcher."""
    for switch, name in (("sw_tells_tmp", "TMPDIR"), ("sw_bridge", "PATH")):
        for words in rows.get(switch, ()):
            yield name, words[0][1]
    yield from variables.first_words(rows, "proxied").items()
    yield from variables.first_words(rows, "settings").items()


class _LinuxHomes(Links):
    """The links of macOS but that at `/home`: a profile for a look at it keeps a Linux host's homes there."""

    def __init__(self) -> None:
        super().__init__()
        self._targets.pop("/home")
        self._heads.discard("home")


def _evaluate_operation(evaluator: Evaluator, operation: str, resource: Resource) -> MethodVerdict:
    """The decision of a profile on an operation, and the filter of the matching rule."""
    request = parse_request(resource)
    decision = evaluator.decide_request(operation, request)
    rule = decision.rule
    if rule is None:
        return MethodVerdict(decision.allowed, f"{decision.operation}: {decision.note}")
    fitting = next((each for each in rule.filters if matches(each, request)), None)
    text = " ".join(rule.text.split())
    if fitting is not None and (len(rule.filters) > 1 or len(text) > _WIDTH):
        text = f"({rule.action} {decision.level} … {readable(write_filter(fitting))} …)"
    short = text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
    position = rule.position
    because = f"{decision.operation} by a rule with a filter"
    if decision.stage == "unfiltered rule":
        because = f"{decision.operation} by an unfiltered rule"
    return MethodVerdict(
        decision.allowed, because, ArtifactPosition("profile.sb", short, position.line, position.column)
    )


_WIDTH = 160
"""Characters of a rule that are shown; some hold hundreds of paths."""


def _why_pinned(policy: ResolvedPolicy, question: Asked) -> str:
    """Whether a directory lies on the way to something restricted, so that it keeps its name."""
    if question.kind != "write" or not question.path:
        return ""
    files = policy.filesystem
    for each in files.protections:
        for root in each.roots:
            for name in each.names:
                path = below(root, name.value)
                if path != question.path and is_inside(path, question.path):
                    return _KEPT.format(path)
    for rule in (*files.rules, *files.protected):
        if (
            rule.kind in ("deny", "readonly")
            and rule.path != question.path
            and is_inside(rule.path, question.path)
        ):
            return _KEPT.format(rule.path)
        if question.path in rule.through:
            return f"it is a link on the way to {rule.path}, and stays one"
    return ""


_KEPT = "it is on the way to {}, so it can be neither made nor renamed"
