"""The Python API: a policy, put on a host, rendered for a method, and asked what it allows."""

from __future__ import annotations

from collections.abc import Sequence

from sandwright.errors import RenderError
from sandwright.evaluate.explain.compare import Comparison
from sandwright.methods import compare
from sandwright.methods.registry import render
from sandwright.policy.collect import collect_facts
from sandwright.policy.facts import HostFacts
from sandwright.policy.installation import refuse_changeable
from sandwright.policy.live_entries import with_path_facts
from sandwright.policy.merged import MergedPolicy
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.rendered import Rendered


class Policy(MergedPolicy):
    """What a sandbox allows. `load` reads one; where no facts are given, this host is meant, as it is now."""

    def resolve(self, facts: HostFacts | None = None) -> ResolvedPolicy:
        """Put the policy on a host: that of `facts`, or this one.

        On this host, `$PROJECT` is the directory of the project's file; without one, the current directory.
        Raise like `sandwright.policy.resolve.resolve` and `facts`.
        """
        return super().resolve(facts or self.facts())

    def facts(self) -> HostFacts:
        """What the policy needs to know of this host. Raise like `policy.collect.collect_facts`."""
        return collect_facts(self)

    def render(self, method: str, facts: HostFacts | None = None) -> Rendered:
        """The artifacts of a method as bytes: nothing is written.

        Raise RenderError that names each feature the method can't enforce and `accept_gaps` does not list,
        UsageError for an unknown method, and where the sandbox could write what this program is loaded from;
        and what `resolve` raises.
        """
        resolved = self.resolve(facts)
        if facts is None:
            refuse_changeable(resolved)
        return render(resolved, method)

    def is_path_readable(self, path: str, facts: HostFacts | None = None, *, method: str = "") -> bool:
        """Whether the policy lets a path be read.

        With `method`: whether what that method renders lets it, which may be stricter. Then raise like
        `explain`, and RenderError when the method can't enforce the policy.
        """
        if method:
            return self._allows("read", path, facts, method)
        return self.resolve_for("read", path, facts).is_path_readable(path)

    def is_path_writable(self, path: str, facts: HostFacts | None = None, *, method: str = "") -> bool:
        """Whether the policy lets a path be written.

        `method` is that of `is_path_readable`. Most methods refuse, for one, to make a directory on the way
        to a protected name: `.git`, where there is none.
        """
        if method:
            return self._allows("write", path, facts, method)
        return self.resolve_for("write", path, facts).is_path_writable(path)

    def _allows(self, question: str, path: str, facts: HostFacts | None, method: str) -> bool:
        row = self.explain(question, path, facts, methods=[method]).row(method)
        if row.status in ("refused", "not asked"):
            raise RenderError(row.reason or row.because)
        return row.decision == "allow"

    def explain(
        self,
        question: str,
        subject: str,
        facts: HostFacts | None = None,
        *,
        methods: Sequence[str] = (),
        architectures: Sequence[str] = (),
        arguments: Sequence[int] | None = None,
    ) -> Comparison:
        """Answer a question: the policy's answer, and what `methods` decide.

        The questions are `read`, `write` and `exec` of a path, `connect` to `host:port` or a socket, `listen`
        on a port that the host reaches, `env` of a variable, `syscall` of a call with `arguments`. Only the
        methods in `methods` are rendered and
        asked. Raise UsageError for a question that makes no sense.
        """
        # Here, because the evaluators cost 120 ms, which rendering should not pay.

        return compare.explain(
            self.resolve_for(question, subject, facts),
            question,
            subject,
            arguments=arguments,
            methods=methods,
            architectures=architectures,
        )

    def resolve_for(self, question: str, subject: str, facts: HostFacts | None = None) -> ResolvedPolicy:
        """Put the policy on a host and, on this one, look at the path that a question is about."""
        about_path = question in ("read", "write", "exec")
        about_path = about_path or (question == "connect" and subject.startswith(("/", "~", "$")))
        resolved = self.resolve(facts)
        return with_path_facts(resolved, subject) if about_path and facts is None else resolved
