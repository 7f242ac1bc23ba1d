"""Go's regular expressions: what they find, and what are none."""

from __future__ import annotations

import pytest

from sandwright.check.goregex import NotGo, compile_go

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
    assert bool(compile_go(pattern).search(text)) is found


@pytest.mark.parametrize(
    "pattern",
    ["(", ")", "[a", "a**", "a*+", "*a", "(|*)", "(?=a)", "(?!a)", "(?<=a)", r"(a)\1", r"\Z", r"\u0041",
     "(?P=n)", "(?#x)", "a{1001}", "a{2,1}", "[b-a]", "(?)", r"\p{Greek}", "[[:nothing:]]", "\\", "(?x)a",
     r"\_", "(*)"],
)  # fmt: skip
def test_what_go_refuses(pattern: str) -> None:
    with pytest.raises(NotGo):
        compile_go(pattern)
