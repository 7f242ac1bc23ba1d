"""Learns a policy: records a command, proposes, and runs it under the proposal until it passes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from sandwright.inputs import LiveHost
from sandwright.learn import profile
from sandwright.learn.attempt import RecordedCommand, RecordedRun, attempt
from sandwright.learn.generalise import PathGrant, link_grants, read_grants, write_grants
from sandwright.learn.http_rules import http_items
from sandwright.learn.needs import Bounds, Needs, measure_needs
from sandwright.learn.proposal import Item, Proposal, policy_path
from sandwright.policy.hosts import WEB_PORTS, host_pattern
from sandwright.policy.load import layer
from sandwright.policy.merged import MergedPolicy
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.mounts import mount_plan
from sandwright.session.access_log import AccessLog
from sandwright.session.prepare import resolved_here, resolved_with

MOST_TURNS = 12
"""Runs under proposals, without those of `necessary`."""

ALLOW_NETWORK = ("network.mode=proxy", 'network.allow=["*:*"]', "process.seccomp=build")
"""The access of a recorded command under `--allow-network`: every public host, through the proxy."""

_DEFAULT = "schema: 1\nextends: [default]\n"

Notify = Callable[[str], None]


@dataclass
class Learned:
    """The result of learning. `passed` is None where the command was not run under the proposal.

    `repeatable`: whether it ends as before under the current policy; looked at where no proposal passed.
    """

    proposal: Proposal
    needs: Needs
    records: list[AccessLog]
    passed: bool | None = None
    repeatable: bool = True
    first: int | None = None
    turns: int = 0
    necessary: list[tuple[Item, bool]] = field(default_factory=list)


@dataclass
class Learner:
    """One command to learn from. `notify` gets the progress messages."""

    command: RecordedCommand
    notify: Notify
    records: list[AccessLog] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Read the policy that is recorded under. Raise SandwrightError."""
        self.bounds = grant_bounds(self.command)
        self.current = self.bounds.current

    def learn(self, *, again: bool = True, necessary: bool = False) -> Learned:
        """Record the command, propose a change, and try it.

        `again`: run it under the proposal. Raise SandwrightError.
        """
        first = self._record_run((), "recording")
        if first.status:
            self.notify(f"it ended with {first.status} when recorded: nothing is tried under a proposal")
        learned = self.proposed()
        learned.first = first.status
        if again and not first.status:
            learned = self._try_proposals(learned, first.status)
        if again and necessary and learned.passed:
            self._ablate(learned, first.status)
        return learned

    def proposed(self, way: tuple[str | None, bool] | None = None) -> Learned:
        """The proposal that follows from the records.

        `way`: the filter, and whether paths that were only examined are granted.
        """
        found = measure_needs(self.records, self.bounds)
        names = profile.sufficient_profiles(self.current, profile.call_names(self.current, found.calls))
        seccomp, looks = way or (names[0] if names else None, False)
        return Learned(self._proposal(found, seccomp, looks=looks), found, self.records)

    def _record_run(self, settings: Sequence[str], what: str) -> RecordedRun:
        self.notify(f"{what}: {os.path.basename(self.command.argv[0])}")
        made = attempt(self.command, settings, profile.watched_calls(self.current), notify=self.notify)
        self.records.append(made.record)
        return made

    def _combinations(self) -> list[tuple[str | None, bool]]:
        """The candidates in order, the smallest first: many programs go on without a refused call."""
        names = profile.candidates(self.current)
        return [(name, looks) for name in names or (None,) for looks in (False, True)]

    def _try_proposals(self, learned: Learned, status: int) -> Learned:
        """Under each proposal in turn, until the command ends as it did when it was recorded."""
        turns = 0
        for way in self._combinations():
            before: Proposal | None = None
            learned = self.proposed(way)
            while learned.proposal != before and turns < MOST_TURNS:
                turns += 1
                before = learned.proposal
                ended = self._record_run(before.settings(), f"run {turns} under a proposal").status
                if ended == status:
                    return self._finish_learning(learned, status, turns, passed=True)
                learned = self.proposed(way)
        learned.repeatable = self._record_run((), "under the current policy again").status == status
        return self._finish_learning(learned, status, turns, passed=False)

    @staticmethod
    def _finish_learning(learned: Learned, status: int, turns: int, *, passed: bool) -> Learned:
        learned.first, learned.turns, learned.passed = status, turns, passed
        return learned

    def _ablate(self, learned: Learned, status: int) -> None:
        """Leave out each grant: one without which the command passes as well is none of the proposal's.

        So with variables that are passed, but for those of the preset `default`.
        """
        passed, usual = self.current.environment.passed, self.bounds.default.environment.passed
        if set(passed) - set(usual):
            variables = tuple(Item(each, "is passed") for each in passed)
            learned.proposal = replace(learned.proposal, variables=variables)
        for item in learned.proposal.items():
            if item.value in usual:
                continue
            less = learned.proposal.without(item)
            ended = attempt(self.command, less.settings(), (), notify=self.notify).status
            learned.necessary.append((item, ended != status))
            if ended == status:
                learned.proposal = less

    def _proposal(self, found: Needs, seccomp: str | None, *, looks: bool) -> Proposal:
        reads = {path: set(kinds) for path, kinds in found.reads.items()}
        for path in found.looks if looks else ():
            reads.setdefault(path, {"look"})
        written = write_grants(found.writes, self.bounds)
        base = self._with_nothing(written)
        project = self.current.facts.project
        if not base.is_path_readable(project) and self.bounds.readable(project):
            reads[project] = {"read"}
        covered = _covered(base)
        granted = read_grants(reads, self.bounds, covered)
        granted += link_grants(found.links, granted, covered)
        network = self.current.network
        proxied = network.mode == "proxy"
        hosts = tuple(self._hosts(found)) if proxied else None
        rules = tuple(http_items(found.requests, self.current)) if proxied and network.http else None
        return Proposal(
            tuple(self._grant_items(granted)),
            tuple(self._grant_items(written)),
            allow=hosts,
            http=rules,
            mode=("proxy" if hosts or rules else "none") if proxied else None,
            localhost=tuple(Item(each, "was connected to") for each in sorted(found.localhost))
            if network.localhost
            else None,
            unix_sockets=tuple(Item(each, "was connected to") for each in sorted(found.sockets))
            if network.unix_sockets
            else None,
            seccomp=seccomp,
        )

    def _with_nothing(self, written: Sequence[PathGrant]) -> ResolvedPolicy:
        """The policy that can read only the files that programs need to start, and the written ones."""
        nothing = Proposal((), tuple(self._grant_items(written)))
        return resolve_with(self.command, nothing.settings())

    def _grant_items(self, grants: Sequence[PathGrant]) -> Iterator[Item]:
        for each in grants:
            path_text = policy_path(each.path, self.current.facts)
            if path_text is None:
                self.notify("a path was used that no policy can spell; it is not proposed")
            else:
                times = "" if each.count == 1 else f", {each.count} of it used"
                yield Item(path_text, f"{each.why}{times}")

    def _hosts(self, found: Needs) -> Iterator[Item]:
        """Hosts as the policy writes them: without a port where a line of it allows both of the web's.

        A request for a name with a star in it reaches no host, and the name would open many.
        """
        allow, path_text = self.current.network.allow, set()
        for host, port in sorted(found.hosts):
            try:
                pattern = host_pattern(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
            except ValueError:
                continue  # nothing that a policy can name
            if self.current.network.opened(host, port):
                continue  # `http_items` has its rules
            allowing = [each for each in allow if each.matches(pattern.host, port)]
            if not allowing or "*" in pattern.host:
                continue
            pattern = replace(pattern, private=all(each.private for each in allowing))
            web = replace(pattern, ports=WEB_PORTS)
            if port in WEB_PORTS and any(each.covers(web) for each in allow):
                pattern = web
            if pattern not in path_text:
                path_text.add(pattern)
                yield Item(str(pattern), f"was reached on port {port}", pattern.private)


def _covered(policy: ResolvedPolicy) -> Callable[[str], bool]:
    """Whether a path, which may be a link, is there under a policy."""
    links = {each.target for each in mount_plan(policy, root="host").mounts if each.kind == "symlink"}
    return lambda path: path in links or policy.filesystem.tree.allows("read", path)


def grant_bounds(command: RecordedCommand) -> Bounds:
    """The upper bounds of the grants to a command. Raise SandwrightError."""
    return Bounds(resolve_with(command, ()), _default_policy(command))


def resolve_with(command: RecordedCommand, settings: Sequence[str]) -> ResolvedPolicy:
    """The command's policy with some settings, on this host. Raise SandwrightError."""
    return resolved_with(command.request(settings))


def _default_policy(command: RecordedCommand) -> ResolvedPolicy:
    """The preset `default` alone, in the same project."""
    request = command.request()
    only = MergedPolicy.from_layers([layer(_DEFAULT, file=str(Path(request.policy)))])
    return resolved_here(only, request, LiveHost())
