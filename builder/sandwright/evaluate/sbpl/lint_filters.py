"""Lint checks of filters: spellings that never match, regexes that match too much, wrong combinations."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator

from sandwright.evaluate.sbpl.filters import How, Not, Test, matches
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


def _path_tests(subject: LintedProfile, *, regex: bool) -> Iterator[tuple[Test, str]]:
    """The tests of the profile's own rules by regex, or of paths by a fixed text; each with its text."""
    for _, test in subject.tests():
        if isinstance(test.value, str) and (test.how is How.REGEX) is regex and (regex or test.key == "path"):
            yield test, test.value


def _spelling(subject: LintedProfile) -> Iterator[SbplFinding]:
    for test, path in _path_tests(subject, regex=False):
        text = readable(path)
        if not path.startswith(("/", "${")):
            yield subject.find(test.span, "L02", "error", f"{text!r} does not begin with /: it never matches")
        elif "//" in path or re.search(r"/\.\.?(?:/|$)", path):
            yield subject.find(test.span, "L05", "error", f"{text!r} is no resolved path: it never matches")
        elif path != "/" and path.endswith("/") and test.how is not How.PREFIX:
            yield subject.find(test.span, "L05", "error", f"{text!r} ends in /: it never matches")
        if any(mark in path for mark in "*?"):
            message = f"{text!r}: * and ? are no wildcards in {test.name}"
            yield subject.find(test.span, "L13", "warning", message)


def _lint_links(subject: LintedProfile) -> Iterator[SbplFinding]:
    for rule in subject.profile_rules:
        found = [test for test in rule.tests() if test.key == "path"]
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
            if any(_matches_path(other, resolved) for other in found):
                continue
            message = f"{readable(path)} leads through the link {link}; filters see {readable(resolved)}"
            yield subject.find(test.span, "L03", "error", message)


def _is_meant(rule: Rule, test: Test) -> bool:
    """Whether a test of a link's own path is for the link itself."""
    return test.how is How.LITERAL or _METADATA.issuperset(rule.operations)


def _matches_path(test: Test, path: str) -> bool:
    return matches(test, SbplRequest(path))


def _firmlinks(subject: LintedProfile) -> Iterator[SbplFinding]:
    patterns = (
        (test, pattern.removeprefix("^"))
        for test, pattern in _path_tests(subject, regex=True)
        if test.key == "path"
    )
    for test, path in (*_path_tests(subject, regex=False), *patterns):
        for short in FIRMLINKS:
            if path == DATA_VOLUME + short or path.startswith(f"{DATA_VOLUME}{short}/"):
                seen = readable(path.removeprefix(DATA_VOLUME))
                message = f"filters see {seen}, not {readable(path)}"
                yield subject.find(test.span, "L04", "warning", message)


def _regexes(subject: LintedProfile) -> Iterator[SbplFinding]:
    for test, pattern in _path_tests(subject, regex=True):
        why = next((why for fault, why in _UNSUPPORTED if fault.search(pattern)), None)
        if why is not None:
            yield subject.find(test.span, "L10", "error", f"{why}: {readable(pattern)}")
        if "\\\\" in pattern:
            message = f"\\\\ wants a backslash in the name; one \\ is enough: {readable(pattern)}"
            yield subject.find(test.span, "L06", "error", message)
        for code, is_faulty, message in _PATH_REGEXES if test.key == "path" else ():
            if is_faulty(pattern):
                yield subject.find(test.span, code, "warning", f"{message}: {readable(pattern)}")
        if test.key == "path" and "//" in pattern:
            message = f"{readable(pattern)} is no resolved path: it never matches"
            yield subject.find(test.span, "L05", "error", message)


_PATH_REGEXES: tuple[tuple[str, Callable[[str], object], str], ...] = (
    ("L08", lambda pattern: not pattern.startswith("^"), "without ^ this may match anywhere in a path"),
    (
        "L09",
        lambda pattern: not pattern.endswith(("$", "/", "$)", ".*")),
        "without $ or /, what only begins so matches too",
    ),
    ("L11", re.compile(r"/\*/|/\*\.|/\*\Z").search, "in a regex * repeats what stands before it"),
    ("L12", _EXTENSION.search, "an unescaped . matches any character"),
)
"""Likely mistakes in a regex of a path."""


def _lint_combinations(subject: LintedProfile) -> Iterator[SbplFinding]:
    filters = vocabulary().filters
    for rule in subject.profile_rules:
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
    for rule in subject.profile_rules:
        for name in rule.operations:
            families = _families(name)
            for test in rule.tests():
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
        return (
            any(filter_family.startswith("iokit") for filter_family in families)
            or "extension-class" not in families
        )
    return family in families or family in ("sandbox", "check")


def _lint_filter_length(subject: LintedProfile) -> Iterator[SbplFinding]:
    for rule in subject.profile_rules:
        size = sum(len(test.value) for test in rule.tests() if isinstance(test.value, str))
        if size > _MUCH_DATA:
            message = f"this rule has {size} bytes of patterns; about 64 KiB no longer compile"
            yield subject.find(rule, "L27", "warning", message)


FILTER_CHECKS: tuple[Check, ...] = (
    _spelling,
    _lint_links,
    _firmlinks,
    _regexes,
    _lint_combinations,
    _misplaced,
    _lint_filter_length,
)
