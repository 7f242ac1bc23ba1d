"""Attempts changes in real sandboxes: each under the old policy and under the new one."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sandwright.change.compare import POLICY, CaseChange, PolicyDifference
from sandwright.change.policies import PolicyPair
from sandwright.change.questions import Case
from sandwright.change.stage import Stage, make_stage, resolve_staged
from sandwright.change.witness import Witness, is_host, judged
from sandwright.egress import Proxy, proxy
from sandwright.environment import SESSION
from sandwright.errors import HostError, SandwrightError, UsageError
from sandwright.evaluate.explain.calls import architecture_named
from sandwright.evaluate.explain.compare import MethodQuestions
from sandwright.host import collect_host
from sandwright.launcher.run_document import RunDocument, handed_over
from sandwright.methods import registry
from sandwright.methods.compare import questions
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.proxy_env import sandbox_environment
from sandwright.runtime.probe.protocol import Attempt, ProbeAnswer, attempt
from sandwright.seccomp.abi import NATIVE, numbers
from sandwright.verify.canary import CanaryListener, canary_listener
from sandwright.verify.sandbox import RenderedSandbox, is_native, materialize

_LEFT_OUT = frozenset((
    "fork", "vfork", "clone", "clone3", "exit", "exit_group", "rt_sigreturn", "restart_syscall", "pause",
    "rt_sigsuspend", "sync", "vhangup", "reboot", "execve", "execveat",
))  # fmt: skip
"""Calls that end the probe, double it, wait, or touch the machine where something lets them."""

_OWN = frozenset(("PATH", "HOME", "TMPDIR", "XDG_RUNTIME_DIR"))
"""Variables that launchers need themselves."""


def trial_method(methods: Sequence[str]) -> str:
    """The method under which changes are attempted: the first that shows the host's files and starts here.

    Raise UsageError where there is none.
    """
    host = collect_host()
    reasons = []
    for name in methods:
        properties = registry.properties(name)
        if properties.root == "host" and properties.verifiable and not properties.own_account:
            found = registry.backend(name).preflight(host)
            if found.ready:
                return name
            reasons.append(found.describe())
    why = "; ".join(reasons) or "none of the methods shows the host's files and can be started here"
    raise UsageError(f"cannot attempt changes: {why}")


def witnesses(
    pair: PolicyPair, real: Sequence[ResolvedPolicy], found: PolicyDifference, method: str
) -> tuple[Witness, ...]:
    """A witness for each change of a method or of the policy's own answer, in the order of the changes.

    `real` are both policies on this host. The user's files are not touched: the attempts run in a home and a
    project that are created for them. Raise the exceptions of the method's start.
    """
    attempted = [each for each in found.cases if not {method, POLICY}.isdisjoint(each.methods)]
    if not attempted:
        return ()
    with make_stage(real[1]) as stage, contextlib.ExitStack() as stack:
        planted = [
            (moved, real[1].facts.kind(each.case.subject))
            for each in attempted
            if each.case.question in ("read", "write") and (moved := stage.moved(each.case.subject))
        ]
        policies = resolve_staged(pair, stage, planted, os.environ)
        trial = _Trial(stage, policies, method, stack)
        return tuple(trial.witnesses(attempted))


@dataclass
class _Trial:
    """Both policies on a stage, with the listeners on the host."""

    stage: Stage
    policies: tuple[ResolvedPolicy, ResolvedPolicy]
    method: str
    stack: contextlib.ExitStack
    canary: CanaryListener = field(init=False)
    questions: list[MethodQuestions] = field(init=False)
    proxies: list[Proxy | None] = field(default_factory=list)
    refused: str = ""
    """The reason why no sandbox can be started."""

    def __post_init__(self) -> None:
        self.questions = [questions(each, [self.method]) for each in self.policies]
        self.canary = self.stack.enter_context(canary_listener())

    def witnesses(self, changes: Sequence[CaseChange]) -> Iterator[Witness]:
        """Everything in one start of each policy's sandbox."""
        cases = [self._staged_case(each.case) for each in changes]
        self._start_proxies()
        reasons = [self._trial_obstacle(change, case) for change, case in zip(changes, cases, strict=True)]
        tried = [case for case, reason in zip(cases, reasons, strict=True) if not reason and case]
        answers = [self._answers_under(index, tried) for index in (0, 1)] if tried else [[], []]
        pairs = iter(zip(*answers, strict=True))
        attempts = iter([self._attempt_for(each, 1) for each in tried])
        for change, case, reason in zip(changes, cases, reasons, strict=True):
            if reason or case is None:
                yield Witness(change, self.method, "not seen", reason=reason)
            else:
                made = Witness(change, self.method, "seen", str(next(attempts)))
                yield judged(made, case, next(pairs), self.stage.word)

    def _staged_case(self, case: Case) -> Case | None:
        """The case on the stage; None for a case that has no place there."""
        if not case.subject.startswith("/"):
            return case
        moved = self.stage.moved(case.subject)
        return None if moved is None else replace(case, subject=moved)

    def _trial_obstacle(self, change: CaseChange, case: Case | None) -> str:
        """The reason why a change can't be attempted; empty when it can."""
        if self.refused:
            return self.refused
        if case is None:
            return "it is outside the project and the home directory, where no file is touched"
        why = self._why_not_attempted(case)
        if why:
            return why
        decided = [each.ask(case.question, case.subject, arguments=case.arguments) for each in self.questions]
        allowed = [each.row(self.method).decision == "allow" for each in decided]
        if allowed != [not change.widened, change.widened]:
            return "in the home and project that were planted for attempts the policies do not differ so"
        return ""

    def _why_not_attempted(self, case: Case) -> str:
        """The reason why this program does not attempt a case; empty if it does."""
        match case.question:
            case "syscall" if any(each.process.sandbox_root for each in self.policies):
                return "with process.sandbox_root no calls are attempted, as they would be root's"
            case "syscall" if case.subject in _LEFT_OUT:
                return "this call is not attempted, as it may end more than the probe"
            case "syscall" if case.subject not in numbers(self._native_abi()):
                return "this machine has no such call"
            case "env" if case.subject in _OWN:
                return "launchers need this variable themselves"
            case "request":
                return "no request is attempted, as it would need the host"
            case "connect" if not is_host(case):
                return self._listen(case)
        return ""

    def _listen(self, case: Case) -> str:
        """Listen where the case connects to. Why that can't be, empty where it can."""
        try:
            if case.subject.startswith("/"):
                made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                Path(case.subject).parent.mkdir(parents=True, exist_ok=True)
                made.bind(case.subject)
                made.listen()
            else:
                made = socket.create_server(("127.0.0.1", int(case.subject.rpartition(":")[2])))
            self.stack.enter_context(canary_listener(made))
        except OSError as error:
            return f"nothing can listen there: {error.strerror}"
        return ""

    def _native_abi(self) -> Any:  # noqa: ANN401 - seccomp's
        return NATIVE[architecture_named(self.policies[0].facts.platform.partition("/")[2])]

    def _start_proxies(self) -> None:
        """A proxy for each policy that has one, without which its sandbox does not start."""
        try:
            for policy in self.policies:
                proxied = policy.network.mode == "proxy"
                self.proxies.append(self.stack.enter_context(proxy(policy)) if proxied else None)
        except (SandwrightError, OSError) as error:
            self.refused = f"cannot start the proxy: {error}"

    def _answers_under(self, index: int, cases: Sequence[Case]) -> list[ProbeAnswer]:
        """The answers under one policy, all in one sandbox."""
        policy = replace(self.policies[index], workspace="live")  # a witness is about the walls
        artifacts = registry.render(policy, self.method).artifacts
        launcher = materialize(artifacts, self.stage.hidden / f"artifacts-{index}")
        variables = {case.subject: self.stage.word for case in cases if case.question == "env"}
        proxied = self.proxies[index] if self.proxies else None
        environment = {**variables, **self.stage.environment, SESSION.name: f"diff-{index}"}
        environment |= proxied.environment if proxied else {}
        document = RunDocument(
            egress=str(proxied.directory) if proxied else None,
            authorities=proxied.authorities if proxied else None,
            mcp=policy.mcp_tools is not None,
        )
        with handed_over(document) as file:
            sandbox = RenderedSandbox(
                *(self.method, launcher, self.stage.program, environment),
                document=file if is_native(launcher) else None,
            )
            batch = sandbox.attempt([self._attempt_for(case, index) for case in cases])
        if all(each.kind == "none" for each in batch.answers):
            raise HostError(f"the sandbox of {self.method} did not start: {batch.stderr.strip()[-1000:]}")
        return list(batch.answers)

    def _attempt_for(self, case: Case, index: int) -> Attempt:
        path = Path(case.subject)
        match case.question:
            case "read" | "exec":
                return attempt("read", path / self.stage.word if path.is_dir() else path)
            case "write":
                return (
                    attempt("create", path / f"made-{self.stage.word}-{index}")
                    if path.is_dir()
                    else attempt("write", path, self.stage.word)
                )
            case "env":
                return attempt("environment", case.subject)
            case "syscall":
                return attempt(
                    "syscall",
                    numbers(self._native_abi())[case.subject],
                    *map(_to_signed, case.arguments or ()),
                )
            case "connect" if case.subject.startswith("/"):
                return attempt("unix", case.subject, self.stage.word)
            case "connect" if not is_host(case):
                return attempt("tcp", "127.0.0.1", int(case.subject.rpartition(":")[2]), self.stage.word)
            case _:
                return self._attempt_connection(case, index)

    def _attempt_connection(self, case: Case, index: int) -> Attempt:
        """To a host by the policy's proxy; with no proxy to a port that only the host's network has."""
        policy = self.policies[index]
        if policy.network.mode != "proxy":
            return attempt("tcp", "127.0.0.1", self.canary.address[1], self.stage.word)
        where = urlsplit(sandbox_environment(policy).get("http_proxy", ""))
        request = f"CONNECT {case.subject} HTTP/1.1\r\nHost: {case.subject}\r\n\r\n"
        return attempt("tcp", where.hostname or "", where.port or 0, request)


def _to_signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value
