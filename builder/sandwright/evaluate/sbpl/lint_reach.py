"""Lint checks of the paths and services in a program's reach, and of those that it needs and lacks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sandwright.evaluate.sbpl.decide import SbplDecision
from sandwright.evaluate.sbpl.filters import How, Test
from sandwright.evaluate.sbpl.finding import Check, LintedProfile, SbplFinding, lint_data
from sandwright.evaluate.sbpl.paths import STANDARD_LINKS
from sandwright.evaluate.sbpl.probes import sample
from sandwright.evaluate.sbpl.request import SbplRequest
from sandwright.evaluate.sbpl.rule import Rule
from sandwright.evaluate.sbpl.source import readable


def _fixed_paths(rule: Rule) -> Iterator[tuple[Test, str, bool]]:
    """The literal and subpath tests of a rule: each, its path, and whether it stands for all paths below."""
    for test in rule.tests():
        fixed = test.key == "path" and test.how in (How.LITERAL, How.SUBPATH)
        if fixed and isinstance(test.value, str) and test.value.startswith("/"):
            yield test, test.value, test.how is How.SUBPATH


def _decide_for(subject: LintedProfile, operation: str, path: str) -> SbplDecision:
    return subject.evaluator.decide_request(operation, SbplRequest(path))


def _lint_renamable(subject: LintedProfile) -> Iterator[SbplFinding]:
    """Protected paths that can be moved away with a directory above; for reading, also without one."""
    for rule in subject.profile_rules:
        hidden = any(name.startswith(("file-read", "file*")) for name in rule.operations)
        is_allowed_write = any(name.startswith(("file-write", "file*")) for name in rule.operations)
        if rule.action == "allow" or not (hidden or is_allowed_write):
            continue
        for test, path in _matched_paths(rule):
            names = path.rstrip("/").split("/")
            above = ["/".join(names[:count]) for count in range(len(names) - (not hidden), 1, -1)]
            loose = next(
                (probed for probed in above if _decide_for(subject, "file-write-unlink", probed).allowed),
                None,
            )
            if loose is not None:
                away = "" if loose == path else f" with {readable(loose)}"
                message = f"{readable(path)} can be moved away{away}; deny file-write-unlink there"
                yield subject.find(test.span or rule, "L20", "error", message)


def _matched_paths(rule: Rule) -> Iterator[tuple[Test, str]]:
    """The tests of paths of a rule, each with a path that it matches."""
    for test in rule.tests():
        if test.key == "path" and isinstance(test.value, str):
            path = sample(test.value) if test.how is How.REGEX else test.value
            if path and path.startswith("/"):
                yield test, path


def _links_walked(subject: LintedProfile) -> Iterator[SbplFinding]:
    warned: set[str] = set()
    for rule in subject.profile_rules:
        if rule.action == "deny":
            continue
        for test, path, _ in _fixed_paths(rule):
            for link, target in STANDARD_LINKS.items():
                if link in warned or not (path == target or path.startswith(target + "/")):
                    continue
                if not subject.evaluator.decide_request(
                    "file-read-metadata", SbplRequest(link, link=True)
                ).allowed:
                    warned.add(link)
                    message = f"who spells it {link}/… needs file-read-metadata on {link}"
                    yield subject.find(test.span or rule, "L21", "warning", message)


def _lint_writable(subject: LintedProfile) -> Iterator[SbplFinding]:
    for rule in subject.profile_rules:
        if rule.action == "deny":
            continue
        for test, path, deep in _fixed_paths(rule):
            probed = path.rstrip("/") + "/sandwright-probe" if deep else path
            if not _decides_by_rule(subject, rule, "file-write-create", probed):
                continue
            span = test.span or rule
            if deep and _decide_for(subject, "process-exec*", probed).allowed:
                message = f"files written below {readable(path)} can be executed"
                yield subject.find(span, "L22", "warning", message)
            started = _executable_by_host(subject, path, deep=deep)
            if started:
                what = (
                    f"{', '.join(started)} below {readable(path)} run" if deep else f"{readable(path)} runs"
                )
                yield subject.find(span, "L22", "warning", f"{what} later outside the sandbox")


def _executable_by_host(subject: LintedProfile, path: str, *, deep: bool) -> list[str]:
    """Files that could be written at or below a user's path and that programs outside would run."""
    home = re.match(r"/Users/[^/]+", path)
    if home is None:
        return []
    found = []
    for name in lint_data()["started_files"]:
        in_home = f"{home[0]}/{name}"
        if not deep:
            found += [name] if path.endswith(f"/{name}") else []
        elif in_home.startswith(f"{path}/"):
            found += [in_home[len(path) + 1 :]]
        elif name.startswith(".git") and "/Library" not in path:
            found += [name]
    return [
        name
        for name in found
        if not deep or _decide_for(subject, "file-write-create", f"{path}/{name}").allowed
    ]


def _decides_by_rule(subject: LintedProfile, rule: Rule, operation: str, path: str) -> bool:
    decision = _decide_for(subject, operation, path)
    return decision.allowed and decision.rule is rule


def _escapes(subject: LintedProfile) -> Iterator[SbplFinding]:
    sockets = [f"{home}/{name}" for home in sorted(_homes(subject)) for name in lint_data()["engine_sockets"]]
    why = lint_data()["escapes"][-1]["why"]
    engines = [{"operation": "network-outbound", "resource": {"unix": path}, "why": why} for path in sockets]
    for entry in [*lint_data()["escapes"], *engines]:
        decision = subject.evaluator.decide(entry["operation"], entry["resource"])
        rule = decision.rule
        if decision.allowed and rule is not None and "default" not in rule.operations:
            yield subject.find(rule, "L23", "warning", f"{entry['operation']}: {entry['why']}")
    broad = lint_data()["broad"]
    for rule in subject.profile_rules:
        if rule.action == "deny":
            continue
        if rule.has("no-sandbox"):
            yield subject.find(rule, "L23", "warning", "what this starts runs outside the sandbox")
        for name in rule.operations if not rule.filters else ():
            if name in broad:
                yield subject.find(rule, "L23", "warning", f"unfiltered {name}: {broad[name]}")


def _leaking_names(subject: LintedProfile) -> Iterator[SbplFinding]:
    """Name look-ups that leave although connections are confined to a proxy on this machine."""
    decide = subject.evaluator.decide
    if decide("network-outbound", {"remote": "192.0.2.1:443"}).allowed:
        return
    local = [rule for rule in subject.profile_rules if rule.action == "allow" and _confines(rule)]
    if not local:
        return
    for entry in lint_data()["name_services"]:
        decision = decide(entry["operation"], entry["resource"])
        if decision.allowed:
            where = local[0].position.line
            message = f"line {where} confines connections to this machine, but names can still be asked for"
            yield subject.find(decision.rule, "L24", "error", message)


def _confines(rule: Rule) -> bool:
    operations = {"network-outbound", "network*"}
    return bool(operations & set(rule.operations)) and any(
        test.how is How.ADDRESS and "localhost" in str(test.value) for test in rule.tests()
    )


def _homes(subject: LintedProfile) -> set[str]:
    """The homes that a profile names, and one more."""
    homes = {"/Users/someone"}
    for rule in subject.profile_rules:
        for _, path, _ in _fixed_paths(rule):
            found = re.match(r"/Users/[^/]+", path)
            if found:
                homes.add(found.group())
    return homes


def _lint_secrets(subject: LintedProfile) -> Iterator[SbplFinding]:
    by_rule: dict[int, list[str]] = {}
    for home in sorted(_homes(subject)):
        for name in lint_data()["secrets"]:
            decision = _decide_for(subject, "file-read-data", f"{home}/{name}")
            if decision.allowed and decision.rule is not None:
                by_rule.setdefault(decision.rule.ordinal, []).append(f"{home}/{name}")
    for ordinal, paths in by_rule.items():
        listing = ", ".join(paths[:4]) + (f" and {len(paths) - 4} more" if len(paths) > 4 else "")
        yield subject.find(
            subject.profile.rules[ordinal], "L31", "warning", f"secrets can be read: {listing}"
        )


def _necessary(subject: LintedProfile) -> Iterator[SbplFinding]:
    """Operations that nearly every program needs, for a profile that denies by default."""
    if subject.evaluator.decide_request("hid-control", SbplRequest()).allowed:
        return
    if not any(
        rule.action == "allow" and {"process-exec*", "process*"} & set(rule.operations)
        for rule in subject.profile.rules
    ):
        return
    for entry in lint_data()["necessary"]:
        decision = subject.evaluator.decide(entry["operation"], entry["resource"])
        if not decision.allowed:
            what = " ".join([entry["operation"], *map(str, entry["resource"].values())])
            message = f"{what} is denied: {entry['why']}"
            yield subject.find(decision.rule, "L34", "warning", message)


REACH_CHECKS: tuple[Check, ...] = (
    _lint_renamable,
    _links_walked,
    _lint_writable,
    _escapes,
    _leaking_names,
    _lint_secrets,
    _necessary,
)
