"""Asks every method and compares its answers with the policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from sandwright.errors import RenderError
from sandwright.evaluate.explain.known import is_own, support, why_looser, why_stricter
from sandwright.evaluate.explain.own import make_question as ask
from sandwright.evaluate.explain.own import own_answer
from sandwright.evaluate.explain.reading import ReadBack
from sandwright.evaluate.explain.squid import through_proxy
from sandwright.evaluate.explain.verdict import ArtifactPosition, Asked, MethodVerdict
from sandwright.policy.declaration import Declaration
from sandwright.policy.explain import Explanation
from sandwright.policy.limits import with_kept_limits
from sandwright.policy.provenance import PolicySource
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.uses import RenderFinding, check_expressible
from sandwright.render.rendered import Rendered, Renderer


@dataclass(frozen=True)
class ComparedMethod:
    """A method to compare. `read` reads its artifacts back; None if that is not possible."""

    declaration: Declaration
    renderer: Renderer
    read: Callable[[Rendered, ResolvedPolicy], ReadBack] | None

    @property
    def name(self) -> str:
        """The method's name in a policy."""
        return self.declaration.method


Decision = Literal["allow", "deny"]

Status = Literal["agrees", "stricter", "looser", "disagrees", "refused", "not asked"]
"""The relation of an answer to the policy's.

`agrees`: the same. `stricter`: denied although the policy allows it, and known to be. `looser`: allowed
although the policy denies it; the policy accepts that, or it is a known difference of the method.
`disagrees`: another answer, without a known reason. `refused`: rendering refuses the policy, so the method
does not enforce it. `not asked`: the method makes no such decision, or its artifacts cannot be evaluated.
"""


@dataclass(frozen=True)
class Row:
    """The answer of one method.

    `decision` is None if the artifacts do not decide. `because` is the reason in words, `position` is the
    rule of the artifact, `source` the field of the policy behind it. `level` and `reason` are those of the
    declaration, or of a known difference.
    """

    method: str
    decision: Decision | None
    status: Status
    because: str
    level: str
    reason: str = ""
    arch: str = ""
    position: ArtifactPosition | None = None
    source: PolicySource | None = None

    def as_data(self) -> dict[str, Any]:
        """The row for JSON: keys are always there."""
        position, source = self.position, self.source
        return {
            "method": self.method,
            "arch": self.arch or None,
            "decision": self.decision,
            "status": self.status,
            "because": self.because,
            "level": self.level,
            "reason": self.reason or None,
            "artifact": position and {
                "file": position.artifact,
                "line": position.line or None,
                "column": position.column or None,
                "text": position.text,
            },
            "policy": source and {
                "layer": source.layer,
                "file": source.file or None,
                "line": source.line or None,
                "column": source.column or None,
                "field": source.field or None,
            },
        }  # fmt: skip


@dataclass(frozen=True)
class Comparison:
    """The policy's own answer, and a row for each compared method and architecture."""

    answer: Explanation
    rows: tuple[Row, ...]

    @property
    def allowed(self) -> bool:
        """Whether the policy allows it."""
        return self.answer.allowed

    @property
    def subject(self) -> str:
        """The subject of the question, in its canonical spelling."""
        return self.answer.subject

    @property
    def agree(self) -> bool:
        """Whether no row disagrees."""
        return all(row.status != "disagrees" for row in self.rows)

    def row(self, method: str) -> Row:
        """The first row of a method. Raise KeyError if there is none."""
        for each in self.rows:
            if each.method == method:
                return each
        raise KeyError(method)

    def as_data(self) -> dict[str, Any]:
        """The answer for JSON: that of the policy at the top, the methods in a list."""
        rows = [row.as_data() for row in self.rows]
        return {"schema": 1, **self.answer.as_data(), "agree": self.agree, "methods": rows}


def explain_methods(
    policy: ResolvedPolicy,
    question: str,
    subject: str,
    *,
    arguments: Sequence[int] | None = None,
    methods: Sequence[ComparedMethod],
    architectures: Sequence[str] = (),
) -> Comparison:
    """Ask `methods` one question about a policy. Empty: the policy alone.

    `question` and `subject` are those of `sandwright.policy.explain.explain`, or `syscall` and the name of a
    call, whose `arguments` are taken as 0 where they are absent. `architectures` are amd64 and arm64; absent:
    that of the policy's host. Raise UsageError for a question that makes no sense.
    """
    return MethodQuestions(policy, methods).ask(
        question, subject, arguments=arguments, architectures=architectures
    )


class MethodQuestions:
    """A policy's methods, for many questions: each is rendered and read back once."""

    def __init__(self, policy: ResolvedPolicy, methods: Sequence[ComparedMethod]) -> None:
        """`policy` holds the facts about every path in the questions."""
        self.policy = policy
        self.methods = tuple(methods)
        self._read: dict[tuple[str, str], _ReadMethod] = {}

    def ask(
        self,
        question: str,
        subject: str,
        *,
        arguments: Sequence[int] | None = None,
        architectures: Sequence[str] = (),
    ) -> Comparison:
        """The answers to one question, as `explain_methods` gives them."""
        made_question = ask(self.policy, question, subject, None if arguments is None else tuple(arguments))
        own_arch = self.policy.facts.platform.partition("/")[2] or "amd64"
        asked_of = tuple(architectures) or (own_arch,)
        by_arch = asked_of if made_question.kind == "syscall" else (own_arch,)
        answers = {arch: own_answer(self.policy, made_question, arch) for arch in by_arch}
        rows = [
            _Asking(self.policy, made_question, answers[arch], arch).row(
                method, self._read_artifacts(method, made_question, arch)
            )
            for method in self.methods
            for arch in (
                by_arch if method.declaration.of("process.seccomp").level != "unused" else by_arch[:1]
            )
        ]
        return Comparison(answers[by_arch[0]], tuple(rows))

    def _read_artifacts(self, method: ComparedMethod, question: Asked, arch: str) -> _ReadMethod:
        """A method's artifacts, for the policy's host or for one of another architecture."""
        key = method.name, arch if question.kind == "syscall" else ""
        if key not in self._read:
            facts = self.policy.facts
            facts = replace(facts, platform=f"linux/{arch}") if question.kind == "syscall" else facts
            self._read[key] = _read_method(replace(self.policy, facts=facts), method)
        return self._read[key]


@dataclass(frozen=True)
class _ReadMethod:
    """A method with its artifacts read back, None where they can't be.

    `refusal` is the reason why rendering refuses the policy, `findings` are the reports of rendering by
    feature.
    """

    policy: ResolvedPolicy
    rendered: Rendered | None
    sandbox: ReadBack | None
    refusal: str
    findings: Mapping[str, RenderFinding]


def _read_method(policy: ResolvedPolicy, method: ComparedMethod) -> _ReadMethod:
    if method.read is None:
        return _ReadMethod(policy, None, None, "", {})
    refusal, findings = _render_findings(policy, method.declaration)
    try:
        artifacts = method.renderer(with_kept_limits(policy, method.declaration))
    except RenderError as error:
        return _ReadMethod(policy, None, None, str(error).splitlines()[0], findings)
    rendered = Rendered(method.name, artifacts, ())
    return _ReadMethod(policy, rendered, method.read(rendered, policy), refusal, findings)


@dataclass(frozen=True)
class _Asking:
    """One question for methods, with the policy's answer."""

    policy: ResolvedPolicy
    question: Asked
    answer: Explanation
    arch: str

    def row(self, method: ComparedMethod, read: _ReadMethod) -> Row:
        """The row of a method: the model of its artifacts answers the question."""
        declared = support(self.policy, method.declaration, self.question)
        blank = Row(method.name, None, "not asked", "", declared.level, declared.reason)
        blank = replace(blank, arch=self.arch) if self.question.kind == "syscall" else blank
        if method.read is None:
            return replace(
                blank, because=f"{method.name} can be rendered, but its artifacts cannot be read back"
            )
        if read.rendered is None or read.sandbox is None:
            return replace(blank, status="refused", because=read.refusal, reason="")
        question = self.question
        if question.kind == "request":
            subject = f"{question.host}:{question.port}"
            question = question._replace(kind="connect", subject=subject)
        verdict = read.sandbox.answer(question, read.policy.facts, self.arch)
        if self._asks_proxy(verdict) and declared.level != "stricter":
            way = read.sandbox.way_to_proxy()
            verdict = through_proxy(read.sandbox, read.policy, self.question) if way.allowed else way
        row = replace(blank, because=verdict.because, position=verdict.position)
        row = self._compare_row(row, verdict, method.declaration, read.sandbox, read.findings)
        return replace(row, status="refused", reason=read.refusal) if read.refusal and row.decision else row

    def _asks_proxy(self, verdict: MethodVerdict) -> bool:
        """Whether the proxy decides about a host that cannot be reached directly."""
        outside = self.question.kind in ("connect", "request") and self.question.host not in ("", "localhost")
        return outside and self.policy.network.mode == "proxy" and verdict.allowed is False

    def _compare_row(
        self,
        row: Row,
        verdict: MethodVerdict,
        declaration: Declaration,
        sandbox: ReadBack,
        findings: Mapping[str, RenderFinding],
    ) -> Row:
        """The row with the verdict in it, and how that relates to the policy's answer."""
        if verdict.allowed is None:
            return row
        decision: Decision = "allow" if verdict.allowed else "deny"
        row = replace(row, decision=decision, source=self._deciding_source(verdict))
        if verdict.allowed == self.answer.allowed:
            return replace(row, status="agrees")
        private_reason = is_own(self.policy, self.question, verdict)
        if private_reason and verdict.allowed:
            return replace(row, status="agrees", reason=private_reason)
        if self.answer.allowed:
            reason = why_stricter(self.policy, declaration, self.question, verdict, sandbox)
            return replace(row, status="stricter" if reason else "disagrees", reason=reason or row.reason)
        reason = why_looser(self.policy, self.question, findings, sandbox)
        return replace(row, status="looser" if reason else "disagrees", reason=reason or row.reason)

    def _deciding_source(self, verdict: MethodVerdict) -> PolicySource:
        """The source of the deciding rule in the policy; without one, that of the policy's own answer."""
        rules = self.policy.filesystem.tree.at(verdict.target) if verdict.target else []
        if rules:
            return max(rules, key=lambda rule: rule.strength).source
        return self.answer.ground.source


def _render_findings(
    policy: ResolvedPolicy, declaration: Declaration
) -> tuple[str, dict[str, RenderFinding]]:
    """The reason why rendering refuses the policy, empty without one, and its findings by feature."""
    try:
        return "", {each.use.feature: each for each in check_expressible(policy, declaration)}
    except RenderError as error:
        return str(error).splitlines()[0], {}
