"""Differences of two policies that no question covers: limits, shims, rights, methods."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from sandwright.change.questions import Case
from sandwright.methods import registry
from sandwright.policy.loosening import OTHER_METHOD, Loosening, loosenings, shown_path
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.values import pattern_covers

_ANSWERED = ("connects to", OTHER_METHOD)
"""Settings that the questions cover, and methods, which have no order here."""


_VERBS = {"read": "reads", "write": "writes", "env": "passes"}
"""By question: the verb of a loosening."""


@dataclass(frozen=True)
class SettingChange:
    """A changed setting that no case covers.

    `widened` is None for a change that is neither wider nor narrower, or unknown.
    """

    text: str
    widened: bool | None

    def __str__(self) -> str:
        return self.text


def changed_settings(
    old: ResolvedPolicy,
    new: ResolvedPolicy,
    refused: Mapping[str, tuple[str, str]],
    cases: Collection[tuple[Case, bool]],
) -> tuple[SettingChange, ...]:
    """The changed settings that no case reports. `refused` are methods that accept only one of the policies.

    `cases` are those that changed, each with whether more is allowed. Their differences are reported once. A
    path that was the sandbox's own and is the host's now can be read before and after, and a variable that
    had a value of the policy's is there before and after: no case reports these.
    """
    reported = {
        (_VERBS.get(case.question), shown_path(case.subject, new.facts), wide) for case, wide in cases
    }
    methods = (*old.methods, *new.methods)
    compare = partial(loosenings, remote=registry.remote(methods), image_root=registry.image_root(methods))
    wider = (each for each in compare(new, old) if _is_new(each, reported, widened=True))
    narrower = (each for each in compare(old, new) if _is_new(each, reported, widened=False))
    found = [SettingChange(str(each), widened=True) for each in wider]
    found += [SettingChange(f"no longer: {each}", widened=False) for each in narrower]
    found += _refusal_changes(refused)
    found += _unordered_changes(old, new)
    return tuple(dict.fromkeys(found))


def _is_new(found: Loosening, reported: Collection[tuple[str | None, str, bool]], *, widened: bool) -> bool:
    if found.what == "passes":
        names = (name for what, name, wide in reported if (what, wide) == ("passes", widened))
        return not any(pattern_covers(found.subject, name) for name in names)
    return (found.what, found.subject, widened) not in reported and found.what not in _ANSWERED


def _refusal_changes(refused: Mapping[str, tuple[str, str]]) -> Iterator[SettingChange]:
    for method, (before, after) in refused.items():
        if before:
            yield SettingChange(f"{method} takes the policy, which it refused: {before}", widened=True)
        else:
            yield SettingChange(f"{method} refuses the policy: {after}", widened=False)


def _unordered_changes(old: ResolvedPolicy, new: ResolvedPolicy) -> Iterator[SettingChange]:
    """Values without an order. The values of variables are not shown, because they may be secrets."""
    for name, before, after in (
        ("method", ", ".join(old.methods), ", ".join(new.methods)),
        ("image", old.image, new.image),
        ("gvisor.engine", old.gvisor_engine, new.gvisor_engine),
        ("network.ca", old.network.ca, new.network.ca),
    ):
        if before != after:
            yield SettingChange(f"{name}: {before or 'none'} → {after or 'none'}", widened=None)
    for name in sorted(old.environment.set.keys() & new.environment.set.keys()):
        if old.environment.set[name] != new.environment.set[name]:
            yield SettingChange(f"environment.set: {name} has another value", widened=None)
