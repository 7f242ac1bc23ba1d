"""Known differences of a method from the policy, with the reason: the declaration, applied to one question.

Differences listed here are not disagreements. All others are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sandwright.evaluate.explain.reading import ReadBack
from sandwright.evaluate.explain.verdict import IS_SET, Asked, MethodVerdict
from sandwright.policy.declaration import Declaration, Support
from sandwright.policy.paths import is_inside
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.rules import PathRule
from sandwright.policy.uses import RenderFinding
from sandwright.render.authorities import NAMES
from sandwright.render.placeholders import files_in_the_way
from sandwright.render.proxy_env import proxy_environment


def features(policy: ResolvedPolicy, question: Asked) -> tuple[str, ...]:
    """The features of a policy that a question is about, the one that the answer rests on first."""
    match question.kind:
        case "read" | "write" | "exec":
            return tuple(_of_path(policy, question))
        case "connect" if question.path:
            listed = question.path in policy.network.unix_sockets
            unlisted: tuple[str, ...] = ("network.no-sockets", "network.other-sockets")
            unlisted += ("network.later-sockets", "network.other-later-sockets")
            return ("network.unix-sockets",) if listed else unlisted
        case "connect" if question.host == "localhost" and policy.network.mode != "host":
            return ("network.localhost", f"network.{policy.network.mode}")
        case "request" | "connect":
            rules = ["network.http"] if policy.network.opened(question.host, question.port) else []
            return (*rules, f"network.{policy.network.mode}")
        case "listen" if policy.network.mode != "host":
            return ("network.expose", f"network.{policy.network.mode}")
        case "listen":
            return ("network.host",)
        case "env":
            return ("environment.set" if question.name in policy.environment.set else "environment.pass",)
        case "syscall" | "tool":
            return ("process.seccomp" if question.kind == "syscall" else "mcp.tools",)


def _of_path(policy: ResolvedPolicy, question: Asked) -> Iterator[str]:
    rules = policy.filesystem.tree.deciding(question.path)
    read_all = "filesystem.read-all" if policy.filesystem.reads_all else "filesystem.read"
    if not rules or rules[0].path == "/":
        yield read_all
        return
    rule = rules[0]
    absent = policy.facts.kind(rule.path) is None
    match rule.origin:
        case "protected" | "policy":
            if absent and not is_inside(rule.path, _project_path(policy)):
                yield "filesystem.protect-elsewhere"
            yield "filesystem.protect"
        case "tmp":
            yield "filesystem.tmp-shared"
        case "home":
            yield "filesystem.home"
        case "own":
            yield f"filesystem.tmp-{policy.filesystem.tmp}" if rule.writable else read_all
        case "startup":
            yield read_all
        case "cloud":
            yield "credentials.cloud" if rule.readable else "filesystem.deny"
        case _ if rule.kind == "read":
            yield read_all
        case _:
            yield f"filesystem.{rule.kind}"
            if absent and rule.kind in ("deny", "readonly"):
                inside = is_inside(rule.path, _project_path(policy))
                yield "filesystem.absent" if inside else "filesystem.absent-elsewhere"
    if question.kind == "write" and rule.writable:
        yield "filesystem.protect"


def _project_path(policy: ResolvedPolicy) -> str:
    return policy.canonical(policy.facts.project)


def support(policy: ResolvedPolicy, declaration: Declaration, question: Asked) -> Support:
    """The method's declared support for the features of a question."""
    return declaration.of(features(policy, question)[0])


def why_stricter(
    policy: ResolvedPolicy,
    declaration: Declaration,
    question: Asked,
    verdict: MethodVerdict,
    sandbox: ReadBack,
) -> str:
    """The reason why a method denies an access that the policy allows; empty if unknown."""
    for feature in features(policy, question):
        declared = declaration.of(feature)
        if declared.level == "stricter" and feature != "filesystem.protect":
            return declared.reason
    if verdict.target in question.links:
        return f"the link {verdict.target} is not seen inside; ask about {question.path}, to which it leads"
    reason = sandbox.why_stricter(policy, question)
    return reason if reason is not None else _of_mounts(policy, declaration, question, verdict)


def _of_mounts(
    policy: ResolvedPolicy, declaration: Declaration, question: Asked, verdict: MethodVerdict
) -> str:
    if question.kind == "syscall" and question.name in ("socket", "socketcall", "io_uring_setup"):
        return "no socket of the host's can be reached, as network.unix_sockets lists none"
    rules = policy.filesystem.tree.deciding(question.path) if question.path else ()
    if not rules:
        return ""
    if verdict.target in policy.facts.unsearchable:
        return f"another user owns {verdict.target}, and root cannot pass it in a user namespace"
    if verdict.target and policy.facts.kind(verdict.target) is None and not rules[0].private:
        return f"{verdict.target} does not exist, and is not made: it is restricted, or on the way"
    held = files_in_the_way(policy).get(question.path) if question.kind == "write" else None
    if held is not None:
        return f"it is where {held} needs a directory, so it is read-only: none can take its place"
    of_image = rules[0].origin == "startup" or rules[0].source.layer.startswith("preset ")
    if verdict.position is None and of_image:
        return declaration.of("filesystem.read-all").reason
    if policy.facts.kind(rules[0].path) is None:
        return f"{rules[0].path} does not exist, and a mount needs something to lie on"
    return ""


def is_own(policy: ResolvedPolicy, question: Asked, verdict: MethodVerdict) -> str:
    """The purpose of a path or variable that belongs to the sandbox; empty if it is the host's."""
    if question.kind == "env" and verdict.because == IS_SET:
        if question.name == "TMPDIR":
            return "the sandbox's own temporary directory"
        if policy.network.mode == "proxy" and question.name in proxy_environment():
            return "the way to the proxy; the host's value is not passed on"
        if question.name in NAMES:
            return "where the host's certificates of authorities are"
    if not question.path or question.kind == "connect":
        return ""
    if policy.facts.os == "darwin" and verdict.because == f"{verdict.target} is the sandbox's own":
        return "it is the container's: no directory of macOS is there"
    rules = policy.filesystem.tree.deciding(question.path)
    inside = (
        rule.private and _is_empty(rule, question) and rule.path == verdict.target != rules[0].path
        for rule in rules
    )
    private = bool(rules) and (rules[0].private or any(inside))
    return "it is the sandbox's own: nothing of the host's is there" if private else ""


def _is_empty(private: PathRule, question: Asked) -> bool:
    """Whether a private mount shows only the sandbox's own files: not so in /proc and most of /dev."""
    kernels = private.path.split("/")[1] in ("dev", "proc")
    return not kernels or is_inside(question.path, "/dev/shm")  # noqa: S108 - a name only


def why_looser(
    policy: ResolvedPolicy, question: Asked, findings: Mapping[str, RenderFinding], sandbox: ReadBack
) -> str:
    """The reason why a method allows an access that the policy denies; empty if unknown."""
    for feature in features(policy, question):
        found = findings.get(feature)
        if found and found.kind == "partly":
            return found.reason
        if found and found.kind == "degraded":
            return f"{found.reason}; accepted: {found.accepted}"
    return sandbox.why_looser(policy, question)
