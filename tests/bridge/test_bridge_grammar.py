"""The argument grammar: known tricks that make git or gh run, read or reveal something else, and calls that
pass.

Each trick is tried with the widest policy there is, `allow: ["*"]`: only the profile stands against it.

Tests of bridge/arg_types.py: the valid values of options.
Tests of bridge/grammar.py: the accepted arguments of a shim.
Tests of bridge/profiles.py: the tables of git and gh.
"""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandwright.bridge.arg_types import WorkspaceFile
from sandwright.bridge.grammar import AllowedCall, Grammar, Refused, compile_grammar
from sandwright.bridge.profiles import profile_of
from sandwright.errors import RenderError
from sandwright.policy.values import command
from support.bridgetricks import GH_TRICKS, GIT_TRICKS

GIT_CALLS = [
    (["push"], ("push", "--")),
    (["push", "origin", "main"], ("push", "--", "origin", "main")),
    (["push", "-u", "origin", "HEAD"], ("push", "--", "origin", "HEAD")),
    (["push", "--force-with-lease", "origin", "+a/b:refs/heads/c"],
     ("push", "--force-with-lease", "--", "origin", "+a/b:refs/heads/c")),
    (["push", "origin", "--delete", "old"], ("push", "--delete", "--", "origin", "old")),
    (["push", "origin", ":old"], ("push", "--", "origin", ":old")),
    (["push", "--tags", "-q", "origin"], ("push", "--tags", "--quiet", "--", "origin")),
    (["fetch"], ("fetch", "--")),
    (["fetch", "--tags", "origin", "main:refs/remotes/origin/main"],
     ("fetch", "--tags", "--", "origin", "main:refs/remotes/origin/main")),
    (["fetch", "https://github.com/o/r.git", "main"], ("fetch", "--", "https://github.com/o/r.git", "main")),
    (["ls-remote", "--heads", "origin"], ("ls-remote", "--heads", "--", "origin")),
]  # fmt: skip

GH_CALLS = [
    (["auth", "status"], ("auth", "status", "--")),
    (["pr", "list"], ("pr", "list", "--")),
    (["pr", "list", "-L", "5", "--json=number,title", "--search", "is:open -draft"],
     ("pr", "list", "--limit=5", "--json=number,title", "--search=is:open -draft", "--")),
    (["pr", "view", "12", "-c", "--repo", "o/r.x"], ("pr", "view", "--comments", "--repo=o/r.x", "--", "12")),
    (["pr", "view", "feature/x"], ("pr", "view", "--", "feature/x")),
    (["pr", "create", "--title", "--web", "-b", "$(id)\n`id`", "-H", "topic"],
     ("pr", "create", "--title=--web", "--body=$(id)\n`id`", "--head=topic", "--")),
    (["pr", "create", "-t", "x", "-F", "notes/body.md", "--head=topic", "-d"],
     ("pr", "create", "--title=x", ("--body-file=", WorkspaceFile("notes/body.md")), "--head=topic",
      "--draft", "--")),
    (["pr", "comment", "1", "--body-file", "-"], ("pr", "comment", "--body-file=-", "--", "1")),
    (["pr", "review", "3", "--approve"], ("pr", "review", "--approve", "--", "3")),
    (["pr", "merge", "3", "--squash", "--auto"], ("pr", "merge", "--squash", "--auto", "--", "3")),
    (["pr", "checks", "3", "--required"], ("pr", "checks", "--required", "--", "3")),
    (["pr", "diff", "3"], ("pr", "diff", "--", "3")),
    (["issue", "create", "-t", "a", "-b", "b", "-l", "bug"],
     ("issue", "create", "--title=a", "--body=b", "--label=bug", "--")),
    (["issue", "list", "-a", "@me", "-s", "all"], ("issue", "list", "--assignee=@me", "--state=all", "--")),
    (["run", "view", "123", "--log-failed"], ("run", "view", "--log-failed", "--", "123")),
    (["repo", "view", "o/r"], ("repo", "view", "--", "o/r")),
]  # fmt: skip


def _grammar(program: str, *entries: str) -> Grammar:
    return compile_grammar(program, [command(each) for each in entries or ("*",)], profile_of(program))


@pytest.mark.parametrize(("source", "arguments"), GIT_TRICKS, ids=[source for source, _ in GIT_TRICKS])
def test_tricks_with_git(source: str, arguments: list[str]) -> None:
    with pytest.raises(Refused):
        _grammar("git").parse(arguments)


@pytest.mark.parametrize(("source", "arguments"), GH_TRICKS, ids=[source for source, _ in GH_TRICKS])
def test_tricks_with_gh(source: str, arguments: list[str]) -> None:
    with pytest.raises(Refused):
        _grammar("gh").parse(arguments)


@pytest.mark.parametrize(("arguments", "words"), GIT_CALLS, ids=lambda x: " ".join(map(str, x)))
def test_calls_of_git(arguments: list[str], words: tuple[str, ...]) -> None:
    assert _grammar("git").parse(arguments).words() == words


@pytest.mark.parametrize(("arguments", "words"), GH_CALLS, ids=lambda x: " ".join(map(str, x))[:60])
def test_calls_of_gh(arguments: list[str], words: tuple[str | tuple[str, WorkspaceFile], ...]) -> None:
    assert _grammar("gh").parse(arguments).words() == words


@pytest.mark.parametrize(
    ("entries", "arguments", "passes"),
    [
        (["auth status"], ["auth", "status"], True),
        (["auth status"], ["auth", "status", "--active"], False),
        (["pr *"], ["pr", "list"], True),
        (["pr *"], ["issue", "list"], False),
        (["pr *"], ["prx", "list"], False),
        (["pr list *"], ["pr", "view", "1"], False),
        (["pr list", "pr view *"], ["pr", "view", "1"], True),
        ([], ["pr", "list"], False),
    ],
)
def test_entries(entries: list[str], arguments: list[str], passes: bool) -> None:
    grammar = compile_grammar("gh", [command(each) for each in entries], profile_of("gh"))
    if passes:
        assert isinstance(grammar.parse(arguments), AllowedCall)
    else:
        with pytest.raises(Refused, match="the policy does not let"):
            grammar.parse(arguments)


@pytest.mark.parametrize(
    ("program", "entry", "said"),
    [
        ("gh", "api *", "credentials.shims.gh.allow[1]: `api *` is nothing that the bridge runs: it "),
        ("gh", "pr checkout *", "`pr checkout *` is nothing that the bridge runs: it runs git in the"),
        ("gh", "frobnicate", "`frobnicate` is nothing that the bridge runs; it runs auth, issue, label, pr"),
        ("git", "commit *", "`commit *` is nothing that the bridge runs: it needs no secret"),
        ("git", "-c *", "`-c *` is nothing that the bridge runs; it runs fetch, ls-remote, push"),
        ("gh", "auth", "`auth` is nothing that the bridge runs"),
    ],
)  # fmt: skip
def test_entries_that_could_let_nothing_through(program: str, entry: str, said: str) -> None:
    first = "auth status" if program == "gh" else "push"
    with pytest.raises(RenderError) as caught:
        _grammar(program, first, entry)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("entries", "arguments", "passes"),
    [
        (["deploy *"], ["deploy", "staging", "v1.2"], True),
        (["deploy --now *"], ["deploy", "--now", "staging"], True),
        (["get /etc/motd"], ["get", "/etc/motd"], True),
        (["deploy *"], ["deploy", "--now"], False),
        (["deploy *"], ["deploy", "-x"], False),
        (["deploy *"], ["deploy", "/etc/passwd"], False),
        (["deploy *"], ["deploy", "a/b"], False),
        (["deploy *"], ["deploy", ".."], False),
        (["deploy *"], ["deploy", "a..b"], False),
        (["deploy *"], ["deploy", "@file"], False),
        (["deploy *"], ["deploy", "a=b"], False),
        (["deploy *"], ["deploy", "https:x"], False),
        (["deploy *"], ["deploy", "a b"], False),
        (["deploy *"], ["deploy", "$(id)"], False),
        (["deploy *"], ["deploy", "a\nb"], False),
        (["deploy *"], ["deploy", ""], False),
        (["deploy *"], ["destroy"], False),
    ],
)
def test_programs_without_a_profile(entries: list[str], arguments: list[str], passes: bool) -> None:
    grammar = _grammar("tool", *entries)
    if passes:
        assert grammar.parse(arguments).words() == tuple(arguments)
    else:
        with pytest.raises(Refused):
            grammar.parse(arguments)


WORDS = [
    *(
        "push",
        "fetch",
        "pr",
        "list",
        "create",
        "view",
        "auth",
        "status",
        "--",
        "-t",
        "--title",
        "--body",
        "-c",
    ),
    *("--receive-pack", "--upload-pack", "--web", "--jq", "-R", "o/r", "origin", "1", "--body-file", "../x"),
    *("ext::id", "-", "", "--title=--web", "--exec=id", "a\0b", "-F", "--head", "main", "--repo=h/o/r"),
]


@given(
    st.sampled_from(["git", "gh"]),
    st.lists(st.sampled_from(WORDS) | st.text(max_size=12) | st.text("-=/.:+@ab", max_size=8), max_size=8),
)
def test_whatever_passes_is_harmless(program: str, arguments: list[str]) -> None:
    """The program's command line has known options only, each with its value behind `=`."""
    try:
        words = _grammar(program).parse(arguments).words()
    except Refused:
        return
    flat = [word if isinstance(word, str) else word[0] + word[1].path for word in words]
    assert not any("\0" in word for word in flat)
    ended = flat.index("--")
    for word in flat[ended + 1 :]:
        assert word[:1] in string.ascii_letters + string.digits + "_+:"
        assert "::" not in word
        assert ".." not in word
    names = {word.partition("=")[0] for word in flat[:ended] if word.startswith("-")}
    assert not names & {
        *(
            "-c",
            "-C",
            "--exec",
            "--exec-path",
            "--receive-pack",
            "--upload-pack",
            "--config-env",
            "--git-dir",
        ),
        *(
            "--web",
            "--jq",
            "--template",
            "--show-token",
            "--editor",
            "--recover",
            "--hostname",
            "-t",
            "-q",
            "-w",
        ),
    }
    for word in flat[:ended]:
        if word.startswith("--repo="):
            assert word.count("/") == 1


@given(st.lists(st.text(max_size=10), max_size=6))
def test_whatever_passes_without_a_profile_is_plain(arguments: list[str]) -> None:
    try:
        words = _grammar("tool", "go *").parse(["go", *arguments]).words()
    except Refused:
        return
    allowed = set(string.ascii_letters + string.digits + "_.,+-")
    assert all(set(word) <= allowed and word[0] not in "-." for word in words if isinstance(word, str))
