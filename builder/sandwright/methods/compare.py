"""Asks several methods the same question about a policy."""

from __future__ import annotations

from collections.abc import Sequence

from sandwright.evaluate.explain.compare import ComparedMethod, Comparison, MethodQuestions
from sandwright.methods import METHODS, registry
from sandwright.policy.resolved import ResolvedPolicy


def explain(
    policy: ResolvedPolicy,
    question: str,
    subject: str,
    *,
    arguments: Sequence[int] | None = None,
    methods: Sequence[str] | None = None,
    architectures: Sequence[str] = (),
) -> Comparison:
    """Ask `methods` one question about a policy. Absent: all of ours; empty: the policy alone.

    See `sandwright.evaluate.explain.compare.explain_methods`. Raise UsageError for a method that there isn't.
    """
    return questions(policy, methods).ask(question, subject, arguments=arguments, architectures=architectures)


def questions(policy: ResolvedPolicy, methods: Sequence[str] | None = None) -> MethodQuestions:
    """Methods for questions about a policy, each rendered once. Absent: all of ours. Raise like `explain`."""
    compared = []
    for name in METHODS if methods is None else methods:
        found = registry.method(name)
        read = found.read_artifacts if found.parts.read_back else None
        compared.append(ComparedMethod(found.declare(), found.make_artifacts, read))
    return MethodQuestions(policy, compared)
