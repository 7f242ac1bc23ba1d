"""Regular expressions of structure tests, in Go's dialect: matches, and patterns that are refused."""

from __future__ import annotations

import sys

import pytest

from sandwright.check import compared
from sandwright.check.compared import match_text
from sandwright.errors import HostError

FINDS: dict[str, tuple[str, str, bool]] = {
    "plain": ("key = .*", "a\nkey = value", True),
    "the end alone": ("value$", "value\n", False),
    "the end of a line": ("(?m)value$", "value\nmore", True),
    "the start alone": ("^b", "a\nb", False),
    "the start of a line": ("(?m)^b", "a\nb", True),
    "no line break": ("a.b", "a\nb", False),
    "a line break": ("(?s)a.b", "a\nb", True),
    "case": ("(?i)straSSe", "STRASSE", True),
    "case of a group": ("(?i:a)b", "AB", False),
    "case from here": ("a(?i)b", "aB", True),
    "case that ends": ("(?i)a(?-i)b", "AB", False),
    "flags end with their group": ("((?i)a)b", "AB", False),
    "digits are ASCII": (r"\d", "\u0663", False),
    "letters are ASCII": (r"\w", "\u00e9", False),
    "spaces": (r"\s", "\v", False),
    "boundaries are ASCII": (r"\bx", "\u00e9x", True),
    "POSIX": ("[[:digit:]]+-[[:^alpha:]x]", "12-x", True),
    "not a class": (r"[^\d]", "1", False),
    "not a class inside": (r"[\D1]", "1", True),
    "a bracket first": ("[]a]", "]", True),
    "the end of a text": (r"a\z", "a\n", False),
    "quoted": (r"\Qa.b*\E+", "a.b**", True),
    "quoted to the end": (r"\Qa.b", "axb", False),
    "the last of what is quoted is repeated": (r"^\Qab\E+$", "abb", True),
    "no boundary in nothing": (r"\B", "", True),
    "an end repeated": ("^{2}a${1,2}", "a", True),
    "hexadecimal": (r"\x41\x{1F600}", "A\U0001f600", True),
    "octal": (r"\101", "A", True),
    "names": ("(?P<n>a)(?<m>b)", "ab", True),
    "braces as text": ("a{,2}", "a{,2}", True),
    "braces": ("^a{2,3}$", "aaaa", False),
    "lazy": ("^a+?$", "aaa", True),
    "greedy the other way round": ("(?U)a+?b", "aab", True),
    "upstream's": (".*(FOO|BAR)=keepit(secret|safe)!.*", "FOO=keepitsecret!", True),
    "upstream's, with a backslash": (r"[a-z]+-2\.1\.*", "bcc-2.1", True),
    "nothing": ("", "a", True),
    "an alternative of nothing": ("^(|a)$", "", True),
}


@pytest.mark.parametrize(("pattern", "text", "found"), FINDS.values(), ids=FINDS)
def test_what_is_found(pattern: str, text: str, found: bool) -> None:
    messages = [each.message for each in match_text("t", text, [pattern], (), "it")]
    assert messages == ([] if found else [f"it doesn't have '{pattern}'"])


@pytest.mark.parametrize(
    "pattern",
    ["(", ")", "[a", "a**", "a*+", "*a", "(|*)", "(?=a)", "(?!a)", "(?<=a)", r"(a)\1", r"\Z", r"\u0041",
     "(?P=n)", "(?#x)", "a{1001}", "a{2,1}", "[b-a]", "[[:nothing:]]", "\\", "(?x)a", "(*)"],
)  # fmt: skip
def test_what_go_refuses(pattern: str) -> None:
    (finding,) = match_text("t", "a", [pattern], (), "it")
    assert finding.message.startswith(f"'{pattern}' is no regular expression of Go: ")


@pytest.mark.timeout(20)
def test_time_is_in_proportion_to_the_text() -> None:
    """Python's own engine would take hours for this expression."""
    assert [each.message for each in match_text("t", "a" * 60 + "!", [r"^(\w+\s?)*$"], (), "it")] != []


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    compared._re2.cache_clear()
    monkeypatch.setitem(sys.modules, "re2", None)
    try:
        with pytest.raises(HostError, match=r"pip install 'sandwright\[structure-tests\]'"):
            list(match_text("t", "a", ["a"], (), "it"))
    finally:
        compared._re2.cache_clear()
