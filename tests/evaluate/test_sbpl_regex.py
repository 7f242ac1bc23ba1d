"""The regexes of profiles: their matches, the ones that macOS refuses, and bounded time for each."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandwright.evaluate.sbpl import automaton
from sandwright.evaluate.sbpl.automaton import Automaton, search
from sandwright.evaluate.sbpl.errors import SbplFault
from sandwright.evaluate.sbpl.probes import sample
from sandwright.evaluate.sbpl.regex import compile_regex

MATCHES = {
    "anywhere": ("b", "abc", True),
    "anywhere not": ("d", "abc", False),
    "anchored": ("^/tmp/x", "/tmp/xy", True),
    "anchored elsewhere": ("^/tmp", "/private/tmp", False),
    "to the end": ("^/a$", "/ab", False),
    "end in a group": ("^/a(/|$)", "/a", True),
    "end in a group, below": ("^/a(/|$)", "/a/b", True),
    "end in a group, beside": ("^/a(/|$)", "/ab", False),
    "empty": ("", "abc", True),
    "empty alternative": ("^a(|b)$", "a", True),
    "dot": ("^a.c$", "a/c", True),
    "dot is one byte": ("^a.c$", "a\xc3\xa9c", False),
    "dot takes newline": ("^a.c$", "a\nc", True),
    "escaped dot": (r"^a\.c$", "abc", False),
    "escape of a letter": (r"^\d$", "d", True),
    "escape of a letter is no class": (r"^\d$", "5", False),
    "set": ("^[a-c_]+$", "ab_c", True),
    "set not": ("^[a-c]+$", "abd", False),
    "negated": ("^[^/]+$", "ab", True),
    "negated not": ("^[^/]+$", "a/b", False),
    "set with ] first": ("^[]a]+$", "a]", True),
    "set with - last": ("^[a-]+$", "-a", True),
    "set with an escape": (r"^[^\.]$", ".", False),
    "star": ("^ab*c$", "ac", True),
    "plus": ("^ab+c$", "ac", False),
    "question": ("^ab?c$", "abbc", False),
    "star of a group": ("^(ab)*$", "ababab", True),
    "glob idiom repeats the slash": ("^/Users/*/x$", "/Users/u/x", False),
    "braces are letters": ("^a{2}$", "aa", False),
    "braces are letters, so": ("^a{2}$", "a{2}", True),
    "upper and lower case differ": ("^/a", "/A", False),
    "hidden files of any directory": (r"^(.*/)?\.env$", "/a/b/.env", True),
    "(?:…) never matches": ("^/a/(?:b|c)$", "/a/b", False),
    "(?:…) never matches, whatever stands in it": ("^/a/(?:b|c)$", "/a/c", False),
    "(?i) never matches": ("(?i)abc", "abc", False),
    "(?i) is no letter": ("(?i)abc", "iabc", False),
    "a leading star is a letter": ("*/docker.sock", "/x*/docker.sock", True),
}


@pytest.mark.parametrize(("pattern", "text", "expected"), MATCHES.values(), ids=MATCHES)
def test_matches(pattern: str, text: str, expected: bool) -> None:
    assert search(pattern, text) is expected


REFUSED = {
    "a second ^": ("a^b", "unexpected ^ operator in middle of expression"),
    "^ after a group": ("(?i)^/a", "unexpected ^ operator in middle of expression"),
    "^ in an alternative": ("^a|^b", "unexpected ^ operator in middle of expression"),
    "open group": ("a(b", "unbalanced ( in regex"),
    "closed too often": ("a)b", "unbalanced ) in regex"),
    "open set": ("[a", "unbalanced [ in regex"),
    "open set of ]": ("[]", "unbalanced [ in regex"),
    "backward range": ("[b-a]", "a range in a regex set runs backwards"),
    "backslash at the end": ("a\\", "a regex cannot end in a single \\"),
    "groups too deep": ("(" * 101 + ")" * 101, "the groups of a regex nest deeper than 100"),
    "too long": ("a" * 20_001, "a regex has more than 20000 characters"),
    "too complex": ("a?" * 5_000, "a regex is too complex"),
}


@pytest.mark.parametrize(("pattern", "message"), REFUSED.values(), ids=REFUSED)
def test_refuses(pattern: str, message: str) -> None:
    with pytest.raises(SbplFault) as caught:
        compile_regex(pattern)
    assert caught.value.message == message


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|a)*$", "(a|b)*a" + "(a|b)" * 16, "^(a?){1}" + "a?" * 40])
def test_catastrophic_patterns_take_as_long_as_others(pattern: str) -> None:
    """With backtracking, each of these would take longer than the age of the universe."""
    search(pattern, "a" * 20_000 + "c")


def test_many_patterns_run_at_once() -> None:
    found = Automaton([compile_regex(pattern) for pattern in ("^/a", "b$", "^/a/b$", "c", "")])
    assert found.matches("/a/b") == (0, 1, 2, 4)
    assert found.matches("") == (4,)


def test_forgetting_states_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    patterns = [compile_regex(f"^/d{number}/.*x{number}$") for number in range(20)]
    expected = [(number,) for number in range(20)]
    monkeypatch.setattr(automaton, "MAX_STATES", 5)
    small = Automaton(patterns)
    assert [small.matches(f"/d{number}/abc/x{number}") for number in range(20)] == expected


def regex_parts() -> st.SearchStrategy[str]:
    single = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\.", "/"])
    return st.recursive(
        single,
        lambda inner: st.one_of(
            st.tuples(inner, inner).map("".join),
            st.tuples(inner, inner).map(lambda pair: f"({pair[0]}|{pair[1]})"),
            st.tuples(inner, st.sampled_from("*+?")).map(lambda pair: f"({pair[0]}){pair[1]}"),
            inner.map(lambda part: f"({part}|$)"),
        ),
        max_leaves=8,
    )


@given(regex_parts(), st.booleans(), st.text("ab./", max_size=8))
def test_agrees_with_another_engine(pattern: str, anchored: bool, text: str) -> None:
    theirs = re.compile(("\\A(?:" if anchored else "(?:") + pattern.replace("$", r"\Z") + ")", re.DOTALL)
    assert search(("^" if anchored else "") + pattern, text) is (theirs.search(text) is not None)


@given(regex_parts(), st.booleans())
def test_a_sample_matches_its_pattern(pattern: str, anchored: bool) -> None:
    whole = ("^" if anchored else "") + pattern
    made = sample(whole)
    assert made is None or search(whole, made)


@given(
    st.text(st.characters(max_codepoint=255), max_size=20),
    st.text(st.characters(max_codepoint=255), max_size=20),
)
def test_any_pattern_compiles_or_is_refused(pattern: str, text: str) -> None:
    fault: SbplFault | None = None
    try:
        search(pattern, text)
    except SbplFault as error:
        fault = error
    assert fault is None or fault.message
