"""Lint checks of filters: spellings that never match, regexes that match too much, wrong combinations."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from sandwright.evaluate.sbpl.filters import Filter, How, Not, Test, matches, tests
from sandwright.evaluate.sbpl.finding import Check, LintedProfile, SbplFinding
from sandwright.evaluate.sbpl.paths import DATA_VOLUME, FIRMLINKS, STANDARD_LINKS
from sandwright.evaluate.sbpl.probes import sample
from sandwright.evaluate.sbpl.request import SbplRequest
from sandwright.evaluate.sbpl.rule import Rule
from sandwright.evaluate.sbpl.source import readable
from sandwright.evaluate.sbpl.vocabulary import vocabulary

_MUCH_DATA = 16 * 1024
_ATTRIBUTES = frozenset({"vnode-type", "extension", "process", "file-mode", "socket"})
_METADATA = frozenset({"file-read-metadata", "file-read*"})
_EXTENSION = re.compile(r"(?<![\\\]*+?])\.[A-Za-z]{1,8}(?:[$()|]|$)")
_UNSUPPORTED = (
    (re.compile(r"\(\?"), "(?…) compiles and never matches"),
    (re.compile(r"(?<!\\)(?:\\\\)*\\[dDwWsSbB]"), "\\d, \\w, \\s and \\b are no classes"),
    (re.compile(r"(?<!\\)\{[0-9]+(?:,[0-9]*)?\}"), "{n} is no repetition"),
    (re.compile(r"(?:^\^?|[(|])[*+?](?<!\(\?)"), "a repetition needs something to repeat"),
)


def _path_tests(subject: LintedProfile) -> Iterator[tuple[Rule, Test, str]]:
    """The tests of paths with a fixed text, in rules of the profile's own file."""
    for rule in subject.own:
        for tested in rule.filters:
            for test in tests(tested):
                if test.key == "path" and isinstance(test.value, str) and test.how is not How.REGEX:
                    yield rule, test, test.value


def _regex_tests(subject: LintedProfile) -> Iterator[tuple[Rule, Test, str]]:
    for rule in subject.own:
        for tested in rule.filters:
            for test in tests(tested):
                if test.how is How.REGEX and isinstance(test.value, str):
                    yield rule, test, test.value


def _spelling(subject: LintedProfile) -> Iterator[SbplFinding]:
    for _, test, path in _path_tests(subject):
        shown = readable(path)
        if not path.startswith(("/", "${")):
            yield subject.find(
                test.span, "L02", "error", f"{shown!r} does not begin with /: it never matches"
            )
        elif "//" in path or re.search(r"/\.\.?(?:/|$)", path):
            yield subject.find(test.span, "L05", "error", f"{shown!r} is no resolved path: it never matches")
        elif path != "/" and path.endswith("/") and test.how is not How.PREFIX:
            yield subject.find(test.span, "L05", "error", f"{shown!r} ends in /: it never matches")
        if any(mark in path for mark in "*?"):
            message = f"{shown!r}: * and ? are no wildcards in {test.name}"
            yield subject.find(test.span, "L13", "warning", message)


def _links(subject: LintedProfile) -> Iterator[SbplFinding]:
    for rule in subject.own:
        found = [test for tested in rule.filters for test in tests(tested) if test.key == "path"]
        for test in found:
            if not isinstance(test.value, str):
                continue
            path = (sample(test.value) or "") if test.how is How.REGEX else test.value
            link = next(
                (each for each in STANDARD_LINKS if path == each or path.startswith(f"{each}/")), None
            )
            if link is None or (path == link and _is_meant(rule, test)):
                continue
            resolved = STANDARD_LINKS[link] + path[len(link) :]
            if any(_matches(other, resolved) for other in found):
                continue
            message = f"{readable(path)} leads through the link {link}; filters see {readable(resolved)}"
            yield subject.find(test.span, "L03", "error", message)


def _is_meant(rule: Rule, test: Test) -> bool:
    """Whether a test of a link's own path is for the link itself."""
    return test.how is How.LITERAL or _METADATA.issuperset(rule.operations)


def _matches(test: Test, path: str) -> bool:
    return matches(test, SbplRequest(path))


def _firmlinks(subject: LintedProfile) -> Iterator[SbplFinding]:
    patterns = (
        (test, pattern.removeprefix("^")) for _, test, pattern in _regex_tests(subject) if test.key == "path"
    )
    for test, path in (*((test, path) for _, test, path in _path_tests(subject)), *patterns):
        for short in FIRMLINKS:
            if path == DATA_VOLUME + short or path.startswith(f"{DATA_VOLUME}{short}/"):
                seen = readable(path.removeprefix(DATA_VOLUME))
                message = f"filters see {seen}, not {readable(path)}"
                yield subject.find(test.span, "L04", "warning", message)


def _regexes(subject: LintedProfile) -> Iterator[SbplFinding]:
    for _, test, pattern in _regex_tests(subject):
        for pattern_of_fault, why in _UNSUPPORTED:
            if pattern_of_fault.search(pattern):
                yield subject.find(test.span, "L10", "error", f"{why}: {readable(pattern)}")
                break
        if "\\\\" in pattern:
            message = f"\\\\ wants a backslash in the name; one \\ is enough: {readable(pattern)}"
            yield subject.find(test.span, "L06", "error", message)
        if test.key != "path":
            continue
        if not pattern.startswith("^"):
            message = f"without ^ this may match anywhere in a path: {readable(pattern)}"
            yield subject.find(test.span, "L08", "warning", message)
        yield from _path_regex(subject, test, pattern)


def _path_regex(subject: LintedProfile, test: Test, pattern: str) -> Iterator[SbplFinding]:
    if not pattern.endswith(("$", "/", "$)", ".*")):
        message = f"without $ or /, what only begins so matches too: {readable(pattern)}"
        yield subject.find(test.span, "L09", "warning", message)
    if "//" in pattern:
        message = f"{readable(pattern)} is no resolved path: it never matches"
        yield subject.find(test.span, "L05", "error", message)
    if "/*/" in pattern or "/*." in pattern or pattern.endswith("/*"):
        message = f"in a regex * repeats what stands before it: {readable(pattern)}"
        yield subject.find(test.span, "L11", "warning", message)
    if _EXTENSION.search(pattern):
        message = f"an unescaped . matches any character: {readable(pattern)}"
        yield subject.find(test.span, "L12", "warning", message)


def _combinations(subject: LintedProfile) -> Iterator[SbplFinding]:
    filters = vocabulary().filters
    for rule in subject.own:
        if len(rule.filters) < 2:
            continue
        families = {
            filters[part.name].family
            for part in rule.filters
            if isinstance(part, Test) and part.name in filters
        }
        mixed = sorted(families & _ATTRIBUTES)
        if "path" in families and mixed:
            message = f"several filters mean OR: a path or {mixed[0]} is enough. Use require-all"
            yield subject.find(rule, "L14", "error", message)
        if any(isinstance(part, Not) for part in rule.filters):
            message = "several filters mean OR: require-not beside others matches nearly everything"
            yield subject.find(rule, "L15", "error", message)


def _misplaced(subject: LintedProfile) -> Iterator[SbplFinding]:
    filters = vocabulary().filters
    for rule in subject.own:
        for name in rule.operations:
            families = _families(name)
            for test in (test for tested in rule.filters for test in tests(tested)):
                kind = filters.get(test.name)
                if kind is None or not families or _takes(families, kind.family):
                    continue
                message = f"{name} does not take the filter {test.name}: it never matches"
                yield subject.find(test.span, "L32", "error", message)


@functools.cache
def _families(name: str) -> frozenset[str]:
    """The families of filters that an operation or one of its children takes; none when one is not known."""
    words = vocabulary()
    found = words.operations[name].families
    for operation in words.operations.values():
        if operation.parent == name:
            below = _families(operation.name)
            if not below:
                return frozenset()
            found = found | below
    return found


def _takes(families: frozenset[str], family: str) -> bool:
    if family.startswith("iokit"):
        return any(known.startswith("iokit") for known in families) or "extension-class" not in families
    return family in families or family in ("sandbox", "check")


def _amount(subject: LintedProfile) -> Iterator[SbplFinding]:
    for rule in subject.own:
        size = sum(_data(tested) for tested in rule.filters)
        if size > _MUCH_DATA:
            message = f"this rule has {size} bytes of patterns; about 64 KiB no longer compile"
            yield subject.find(rule, "L27", "warning", message)


def _data(tested: Filter) -> int:
    return sum(len(test.value) for test in tests(tested) if isinstance(test.value, str))


FILTER_CHECKS: tuple[Check, ...] = (
    _spelling,
    _links,
    _firmlinks,
    _regexes,
    _combinations,
    _misplaced,
    _amount,
)
