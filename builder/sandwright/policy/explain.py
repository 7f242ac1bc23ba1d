"""Answers about a policy, each with the rule that decides and the line it stands in.

This is the meaning of the policy. A method's artifacts may differ from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from sandwright.errors import UsageError
from sandwright.policy import hosts, http_rules, mcp_rules, values
from sandwright.policy.facts import HostFacts
from sandwright.policy.git_protection import CONFIGURATION
from sandwright.policy.paths import is_inside
from sandwright.policy.phrasing import one_of
from sandwright.policy.provenance import BUILT_IN, PolicySource
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.rules import Action, PathRule

Question = Literal["read", "write", "exec", "connect", "request", "listen", "tool", "env", "syscall"]

QUESTIONS: tuple[Question, ...] = (
    "read",
    "write",
    "exec",
    "connect",
    "request",
    "listen",
    "tool",
    "env",
    "syscall",
)


@dataclass(frozen=True)
class RuleReason:
    """A reason for a decision: a rule in words, and its position."""

    text: str
    source: PolicySource


@dataclass(frozen=True)
class Explanation:
    """The answer to one question.

    `subject` is the subject of the question, in its canonical spelling. `ground` decides; `others` also fit
    and are weaker, the strongest first. `void` says why a grant of this very path has no effect, or which
    grant covers the files that Git needs there.
    """

    question: Question
    subject: str
    allowed: bool
    ground: RuleReason
    others: tuple[RuleReason, ...] = ()
    void: str = ""

    def as_data(self) -> dict[str, object]:
        """The answer for JSON."""
        return {
            "question": self.question,
            "subject": self.subject,
            "decision": "allow" if self.allowed else "deny",
            "rule": _as_data(self.ground),
            "others": [_as_data(ground) for ground in self.others],
            **({"void": self.void} if self.void else {}),
        }

    def __str__(self) -> str:
        """`write /home/u/.ssh: denied by deny ~/.ssh (preset default presets/default.yaml:20:7)`."""
        verdict = "allowed" if self.allowed else "denied"
        return f"{self.question} {self.subject}: {verdict} by {self.ground.text} ({self.ground.source})"


def explain(policy: ResolvedPolicy, question: str, subject: str) -> Explanation:
    """Answer one question.

    `read`, `write` and `exec` ask about a path (a readable file is executable), `connect` about `host:port`
    or the path of a socket, `request` about `METHOD https://HOST/PATH`, `listen` about a port on which the
    host reaches a server inside, `tool` about a tool of the command that a client of MCP calls, `env` about a
    variable. The answer to a system call comes from the rendered filters (`sandwright.evaluate.explain`).
    Raise UsageError for another question, and for a subject that it can't be about.
    """
    try:
        return _ANSWERS[one_of(question, tuple(_ANSWERS), what="question")](policy, subject)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _explain_read(policy: ResolvedPolicy, path: str) -> Explanation:
    return _explain_path(policy, "read", path)


def _explain_write(policy: ResolvedPolicy, path: str) -> Explanation:
    return _explain_path(policy, "write", path)


def _exec(policy: ResolvedPolicy, path: str) -> Explanation:
    return replace(_explain_path(policy, "read", path), question="exec")


def _explain_path(policy: ResolvedPolicy, action: Action, path: str) -> Explanation:
    canonical = policy.canonical(path)
    rules = policy.filesystem.tree.deciding(canonical)
    if not rules:
        ground = RuleReason("no rule lists it, so it cannot be read", policy.source("filesystem.read"))
        return Explanation(action, canonical, allowed=False, ground=ground)
    allowed = rules[0].readable if action == "read" else rules[0].writable
    grounds = [RuleReason(_rule_text(rule), rule.source) for rule in rules]
    void = next(filter(None, (_why_without_effect(policy, rule) for rule in rules[1:])), "") or of_git(
        policy, canonical
    )
    void = "" if allowed else void
    return Explanation(action, canonical, allowed, grounds[0], tuple(grounds[1:]), void)


def _why_without_effect(policy: ResolvedPolicy, rule: PathRule) -> str:
    why = why_void(policy, rule)
    return f"{rule.kind} {rule.written} ({rule.source}) {why}" if why else ""


def of_git(policy: ResolvedPolicy, path: str) -> str:
    """The grant for files that Git writes at a canonical path; empty for none."""
    facts = policy.facts
    folder, _, name = path.rpartition("/")
    if folder in facts.git_directories and f".git/{name}" in CONFIGURATION:
        return CONFIG_GRANT
    if not facts.git_worktree or policy.filesystem.tree.changes_host(f"{facts.git_worktree[0]}/HEAD"):
        return ""
    return worktree_grant(facts) if is_inside(path, facts.git_worktree[1]) else ""


CONFIG_GRANT = (
    "for `git config`, `git branch -u` and `git submodule update`, run them outside, or add "
    "filesystem.git: [config]: the host's Git runs programs that configuration names"
)


def worktree_grant(facts: HostFacts) -> str:
    """The setting that allows commits in a linked work tree."""
    return f"for commits in this linked work tree of {facts.git_worktree[1]}, add filesystem.git: [worktree]"


def why_void(policy: ResolvedPolicy, grant: PathRule) -> str:
    """The rule that overrides a grant, and the key that changes this; empty if the grant has an effect."""
    named = grant.origin == "listed" and not grant.source.layer.startswith("preset ")
    winner = policy.filesystem.tree.deciding(grant.path)[0]
    holds = {"write": winner.writable, "read": winner.readable}.get(grant.kind, True)
    if holds or not named:
        return ""
    void = "allows no writing" if winner.readable else "grants nothing"
    advice = how_to_lift(winner, grant.written, grant.source.rank)
    return f"{void}: {_rule_text(winner)} ({winner.source}) decides; {advice}"


def how_to_lift(winner: PathRule, path: str, rank: int) -> str:
    """The key that lifts a rule for a path, in a layer of that rank, or why no key does."""
    field = winner.source.field.partition("[")[0]
    if winner.source.layer == "floor":
        return "only the operator changes that"
    if winner.origin in ("policy", "engine", "own") or winner.source.layer == "built-in":
        return "nothing changes that"
    if winner.origin == "cloud":
        return "to read it, set credentials.cloud: readonly"
    if winner.source.rank < rank:
        return f"to open it, add filesystem.unprotect: [{{path: {path}, reason: …}}]"
    return f"to open it, remove it from {field}"


def _rule_text(rule: PathRule) -> str:
    """A rule as the policy writes it, and its expansion."""
    written = rule.written or rule.path
    word = _WORDS.get(rule.origin, rule.kind) if rule.origin != "cloud" else _CLOUD[rule.kind]
    text = f"{word} {written}"
    notes = [rule.path] if written != rule.path else []
    notes += [rule.why] if rule.why else []
    return f"{text} [{'; '.join(notes)}]" if notes else text


_WORDS: Mapping[str, str] = {
    "protected": "protect",
    "policy": "protect",
    "engine": "deny always",
    "home": "the sandbox's own",
    "own": "the sandbox's own",
    "startup": "needed to start:",
}


_CLOUD: Mapping[str, str] = {"read": "credentials.cloud reads", "deny": "credentials.cloud: none denies"}


def _explain_connect(policy: ResolvedPolicy, target: str) -> Explanation:
    if target.startswith(("/", "~", "$", "./")):
        return _connect_socket(policy, policy.canonical(target))
    host, _, port = target.rpartition(":")
    if host.lower().removesuffix(".") in ("localhost", "127.0.0.1", "[::1]"):
        return _connect_localhost(policy, values.port(int(port)) if port.isascii() and port.isdigit() else 0)
    return _connect_host(policy, *hosts.endpoint(target))


def _connect_socket(policy: ResolvedPolicy, path: str) -> Explanation:
    rules = policy.filesystem.tree.deciding(path)
    if rules and rules[0].origin == "engine":
        return Explanation("connect", path, allowed=False, ground=RuleReason(_rule_text(rules[0]), BUILT_IN))
    listed = path in policy.network.unix_sockets
    source = policy.listed_at("network.unix_sockets", path)
    text = f"unix_sockets {path}" if listed else "unix_sockets, which does not list it"
    return Explanation("connect", path, listed, RuleReason(text, source))


def _connect_localhost(policy: ResolvedPolicy, port: int) -> Explanation:
    values.port(port)
    mode = policy.network.mode
    subject = f"localhost:{port}"
    if mode == "host":
        return Explanation("connect", subject, allowed=True, ground=_network_mode_rule(policy))
    listed = port in policy.network.localhost
    source = policy.listed_at("network.localhost", port)
    text = f"localhost {port}" if listed else "localhost, which does not list it"
    return Explanation("connect", subject, listed, RuleReason(text, source))


def _explain_listen(policy: ResolvedPolicy, text: str) -> Explanation:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{text!r} is no port, 1 to 65535")
    port = values.port(int(text))
    if policy.network.mode == "host":
        return Explanation("listen", str(port), allowed=True, ground=_network_mode_rule(policy))
    listed = port in policy.network.expose
    source = policy.listed_at("network.expose", port)
    ground = RuleReason(f"expose {port}" if listed else "expose, which does not list it", source)
    return Explanation("listen", str(port), listed, ground)


def _connect_host(policy: ResolvedPolicy, host: str, port: int) -> Explanation:
    subject = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    mode = policy.network.mode
    if mode != "proxy":
        return Explanation("connect", subject, allowed=mode == "host", ground=_network_mode_rule(policy))
    rules = policy.network.opened(host, port) or next(
        (each for each in policy.network.http if each.host == host), None
    )
    if rules is not None:
        ground = RuleReason(f"http {rules.name}: only requests that its rules allow", rules.rules[0].source)
        others = (_network_mode_rule(policy),)
        return Explanation("connect", subject, allowed=port == rules.port, ground=ground, others=others)
    item = policy.listed_host(host, port)
    if item is not None:
        ground = RuleReason(f"allow {item.value}", item.source)
        return Explanation(
            "connect", subject, allowed=True, ground=ground, others=(_network_mode_rule(policy),)
        )
    ground = RuleReason("allow, which does not list it", policy.source("network.allow"))
    return Explanation("connect", subject, allowed=False, ground=ground, others=(_network_mode_rule(policy),))


def parse_request(text: str) -> tuple[str, int, str, str, str]:
    """Host, port, method, target (the path with its query) and call of `GET https://HOST/PATH`.

    The call is a message of MCP behind it: `tools/call NAME`. Raise ValueError for anything else.
    """
    found = _REQUEST.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no request like `GET https://api.github.com/repos/acme/tool`")
    host, port = hosts.endpoint(found[2] if found[3] else f"{found[2]}:{http_rules.PORT}")
    return host, port, http_rules.http_method(found[1]), found[4] or "/", found[5] or ""


_REQUEST = re.compile(r"([^ ]+) https://([^/:?# ]+(:[0-9]+)?)(/[^ #]*)?(?: ([A-Za-z0-9/_-]+(?: [^ ]+)?))?")


def _explain_request(policy: ResolvedPolicy, text: str) -> Explanation:
    host, port, method, target, call = parse_request(text)
    name = host if port == http_rules.PORT else f"{host}:{port}"
    subject = f"{method} https://{name}{target} {call}".rstrip()
    opened = policy.network.opened(host, port) if policy.network.mode == "proxy" else None
    if opened is None:
        return replace(_connect_host(policy, host, port), question="request", subject=subject)
    decided = opened.decide(method, target, call)
    if not isinstance(decided, str):
        ground = RuleReason(f"http {opened.name}: {decided}", decided.source)
    else:
        ground = RuleReason(f"http {opened.name}: {_REFUSED[decided]}", opened.rules[0].source)
    return Explanation("request", subject, not isinstance(decided, str), ground)


_REFUSED = {
    "rule": "no rule has this method and path",
    "spelling": "the path can be read in two ways",
    "override": "it asks for another method",
    "call": "rules about tools (mcp) allow no such method of MCP",
    "tool": "no rule about tools (mcp) lists this tool",
}


def _explain_tool(policy: ResolvedPolicy, name: str) -> Explanation:
    source = policy.source("mcp.tools")
    if policy.mcp_tools is None:
        ground = RuleReason("no mcp: the messages of the command are not read", source)
        return Explanation("tool", name, allowed=True, ground=ground)
    items = policy.settings.items("mcp.tools")
    found = next((each for each in items if mcp_rules.lists_tool([each.value], name)), None)
    if found is None:
        ground = RuleReason("mcp.tools, which does not list it", source)
        return Explanation("tool", name, allowed=False, ground=ground)
    return Explanation("tool", name, allowed=True, ground=RuleReason(f"tools {found.value}", found.source))


def _network_mode_rule(policy: ResolvedPolicy) -> RuleReason:
    return RuleReason(f"mode: {policy.network.mode}", policy.source("network.mode"))


def _env(policy: ResolvedPolicy, name: str) -> Explanation:
    values.variable(name)
    environment = policy.environment
    if name in environment.set:
        item = policy.settings.entries["environment.set"][name]
        return Explanation(
            "env", name, allowed=True, ground=RuleReason(f"set {name}: {item.value}", item.source)
        )
    for secret in policy.credentials.http:
        if name in secret.variables:
            ground = RuleReason(f"http {secret.host}: a placeholder stands in its place", secret.source)
            return Explanation("env", name, allowed=False, ground=ground)
    if name in environment.secret:
        ground = RuleReason("credentials: it holds a secret of a shim", BUILT_IN)
        return Explanation("env", name, allowed=False, ground=ground)
    if values.loads_code(name):
        ground = RuleReason("it makes programs load code, and is never passed on", BUILT_IN)
        return Explanation("env", name, allowed=False, ground=ground)
    passed = policy.passing(name)
    if passed is not None:
        ground = RuleReason(f"pass {passed.value}", passed.source)
        return Explanation("env", name, allowed=True, ground=ground)
    ground = RuleReason("pass, which does not list it", policy.source("environment.pass"))
    return Explanation("env", name, allowed=False, ground=ground)


_ANSWERS: Mapping[str, Callable[[ResolvedPolicy, str], Explanation]] = {
    "read": _explain_read,
    "write": _explain_write,
    "exec": _exec,
    "connect": _explain_connect,
    "request": _explain_request,
    "listen": _explain_listen,
    "tool": _explain_tool,
    "env": _env,
}


def _as_data(ground: RuleReason) -> dict[str, object]:
    """A ground for JSON."""
    source = ground.source
    return {
        "text": ground.text,
        "layer": source.layer,
        "file": source.file,
        "line": source.line,
        "column": source.column,
        "field": source.field,
    }
