"""The Python API: load a policy, resolve it on a host, render it for a method, and query it."""

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
    """A policy. `load` reads one from a file. Without `facts`, the current state of this host is used."""

    def resolve(self, facts: HostFacts | None = None) -> ResolvedPolicy:
        """Resolve the policy on the host of `facts`, or on this host.

        On this host, `$PROJECT` is the directory of the policy file; without one, the current directory.
        Raise like `sandwright.policy.resolve.resolve` and `facts`.
        """
        return super().resolve(facts or self.facts())

    def facts(self) -> HostFacts:
        """Collect the facts of this host that the policy needs. Raise like `policy.collect.collect_facts`."""
        return collect_facts(self)

    def render(self, method: str, facts: HostFacts | None = None) -> Rendered:
        """Render the artifacts of a method as bytes, without writing files.

        Raise RenderError with every feature that the method cannot enforce and `accept_gaps` does not list;
        UsageError for an unknown method, or if the sandbox could modify the installation of sandwright; and
        like `resolve`.
        """
        resolved = self.resolve(facts)
        if facts is None:
            refuse_changeable(resolved)
        return render(resolved, method)

    def is_path_readable(self, path: str, facts: HostFacts | None = None, *, method: str = "") -> bool:
        """Whether the policy allows reading a path.

        With `method`: whether the rendered artifacts allow it, which can be stricter. Then raise like
        `explain`, and RenderError if the method cannot enforce the policy.
        """
        if method:
            return self._allows("read", path, facts, method)
        return self.resolve_for("read", path, facts).is_path_readable(path)

    def is_path_writable(self, path: str, facts: HostFacts | None = None, *, method: str = "") -> bool:
        """Whether the policy allows writing a path.

        `method` is that of `is_path_readable`. Most methods deny, for example, the creation of `.git` if it
        is missing, because it is a parent of protected names.
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
        """Answer a question by the policy and by the rendered artifacts of each method in `methods`.

        The questions are `read`, `write` and `exec` of a path, `connect` to `host:port` or to a socket,
        `request` of `METHOD https://HOST/PATH`, `listen` on a published port, `tool` of the command, a server
        of MCP, `env` of a variable, and `syscall` of a system call with `arguments`.
        Raise UsageError for an invalid question.
        """
        return compare.explain(
            self.resolve_for(question, subject, facts),
            question,
            subject,
            arguments=arguments,
            methods=methods,
            architectures=architectures,
        )

    def resolve_for(self, question: str, subject: str, facts: HostFacts | None = None) -> ResolvedPolicy:
        """Resolve the policy on a host; on this host, also collect facts about the path in the question."""
        about_path = question in ("read", "write", "exec")
        about_path = about_path or (question == "connect" and subject.startswith(("/", "~", "$")))
        resolved = self.resolve(facts)
        return with_path_facts(resolved, subject) if about_path and facts is None else resolved
