"""A project's policy that loosens what `default` protects starts only after the user's approval.

Tests of cli/trust.py.
Tests of session/loosened.py.
Tests of session/trust.py.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandwright import process
from sandwright.errors import IntegrityError
from sandwright.session.prepare import start_bridge
from sandwright.session.request import RunRequest
from sandwright.session.trust import Loosened
from session.conftest import SANDWRIGHT, Project
from session.terminals import terminal
from support.thorough import THOROUGH

pytestmark = pytest.mark.needs("bwrap")

HEAD = "schema: 1\nmethod: bwrap\n"
KEY = "a private key\n"
OPENED = HEAD + "filesystem: {unprotect: [{path: ~/.ssh, reason: it is needed}]}\n"
LINKED = HEAD + "filesystem: {read: [/, ~/alias/id]}\n"

STRANGERS = [
    pytest.param(OPENED, "reads ~/.ssh", id="a secret is unprotected"),
    pytest.param(LINKED, "reads ~/.ssh/id", id="a secret behind a link"),
    pytest.param(HEAD + "extends: []\nfilesystem: {read: [/]}\n", "reads ~/.age", id="no preset"),
    pytest.param(HEAD + "filesystem: {write: [~/other]}\n", "writes ~/other", id="another directory"),
    pytest.param(
        HEAD + "filesystem: {unprotect: [{path: $PROJECT/.git/hooks, reason: x}]}\n",
        "writes $PROJECT/.git/hooks",
        id="hooks",
    ),
    pytest.param(
        HEAD + "environment: {pass: ['...', AWS_SECRET_ACCESS_KEY]}\n",
        "passes AWS_SECRET_ACCESS_KEY",
        id="a variable with a secret",
    ),
    pytest.param(
        HEAD + "filesystem: {deny: ['/nowhere/${AWS_SECRET_ACCESS_KEY}']}\n",
        "shows in the name of a path AWS_SECRET_ACCESS_KEY",
        id="a variable with a secret in a path",
    ),
    pytest.param(HEAD + "network: {mode: host}\n", "uses the host's network", id="the host's network"),
    pytest.param("schema: 1\nmethod: noop\nreason: why not\n", "enforces nothing", id="no sandbox at all"),
    pytest.param(HEAD + "filesystem: {tmp: shared}\n", "writes /tmp", id="the host's temporary directory"),
    pytest.param(
        HEAD + "credentials: {shims: {git: {allow: ['*']}}}\n", "runs git on the host", id="a program outside"
    ),
    pytest.param(
        HEAD + "network: {mode: proxy, allow: [evil.example]}\n", "connects to evil.example", id="a host"
    ),
    pytest.param(
        HEAD + "process: {seccomp: build}\n", "lets programs leave set-user-id files", id="set-user-id files"
    ),
    pytest.param(HEAD + "extends: [build]\n", "lets programs leave set-user-id files", id="the preset build"),
]


@pytest.fixture
def stranger() -> Iterator[Project]:
    """A project of another author, and a home with a secret: not in /tmp, which is private inside."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="sandwright-test-") as made:
        home = Path(made, "home")
        project = Project(home / "p", home, Path(made, "run"))
        for folder in (project.root / ".git" / "hooks", home / ".ssh", home / "other", project.runtime):
            folder.mkdir(mode=0o700, parents=True)
        (home / ".ssh" / "id").write_text(KEY)
        (home / "alias").symlink_to(".ssh")
        project.environment |= {"SANDWRIGHT_TRUST": "", "AWS_SECRET_ACCESS_KEY": "hushed"}
        yield project


def _records(project: Project) -> list[Path]:
    return sorted((project.home / ".config" / "sandwright" / "trust").glob("*"))


@pytest.mark.parametrize(("policy", "said"), STRANGERS)
def test_a_strangers_policy_needs_a_word(stranger: Project, policy: str, said: str) -> None:
    stranger.policy.write_text(policy)
    refused = stranger.run("sh", "-c", "echo started; : >ran")
    assert refused.returncode == 125, refused
    assert refused.stdout == b""
    assert said in refused.stderr.decode()
    assert "sandwright trust" in refused.stderr.decode()
    assert b"hushed" not in refused.stderr
    assert not (stranger.root / "ran").exists()


def test_many_hosts_hide_no_path_in_the_line() -> None:
    many = [f"connects to h{number}.example" for number in range(12)]
    line = Loosened("/p/sandbox.yaml", "", (*many, "reads ~/.ssh")).line()
    assert "reads ~/.ssh" in line
    assert "and 7 more" in line


@pytest.mark.parametrize(
    "command", [("run", "--", "true"), ("verify",), ("fleet", "--count", "1", "--", "true")]
)
def test_an_unapproved_policy_reaches_no_cluster(stranger: Project, command: tuple[str, ...]) -> None:
    stranger.policy.write_text("schema: 1\nmethod: kubernetes\nimage: registry.example/x:1\n")
    with socket.create_server(("127.0.0.1", 0)) as api_server:
        port = api_server.getsockname()[1]
        config = {
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
            "users": [{"name": "u", "user": {"token": "a token"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }
        (stranger.home / "kubeconfig").write_text(json.dumps(config))
        stranger.environment["KUBECONFIG"] = str(stranger.home / "kubeconfig")
        refused = stranger.sandwright(*command)
        api_server.settimeout(0)
        with pytest.raises(BlockingIOError):
            api_server.accept()
    assert refused.returncode != 0
    assert "runs on another machine with your credentials: method kubernetes" in refused.stderr.decode()


SECRET_PATHS = [
    "filesystem: {deny: ['/nowhere/${AWS_SECRET_ACCESS_KEY}']}\n",
    "filesystem: {write: ['/nowhere/a-${AWS_SECRET_ACCESS_KEY}']}\n",
    "filesystem: {read: ['...', '${AWS_SECRET_ACCESS_KEY}']}\n",
    "filesystem: {unprotect: [{path: '/etc/${AWS_SECRET_ACCESS_KEY}', reason: x}]}\n",
]
ASKED = [
    ("facts",),
    ("render",),
    ("explain", "write", "/nowhere"),
    ("lint", "sandbox.yaml"),
    ("diff", "old.yaml", "sandbox.yaml", "--json", "said", "--markdown", "said.md", "--sarif", "said.s"),
    ("verify",),
    ("run", "--", "true"),
    ("trust",),
    ("account-setup",),
]


@pytest.mark.parametrize("text", SECRET_PATHS if THOROUGH else SECRET_PATHS[1::2])
def test_a_strangers_path_shows_no_secret(stranger: Project, text: str) -> None:
    """Neither a log nor a file, like a comment to a pull request, shows it: the policy has no approval."""
    (stranger.root / "old.yaml").write_text(HEAD)
    stranger.policy.write_text(HEAD + text)
    # One text applies to every command: the rest differs by the place where the policy is resolved.
    every = THOROUGH or text == SECRET_PATHS[0]
    for words in ASKED if every else [each for each in ASKED if each[0] in ("facts", "lint", "run")]:
        found = stranger.sandwright(*words)
        assert b"hushed" not in found.stdout + found.stderr, words
    written = [path for path in stranger.root.rglob("*") if path.is_file()]
    assert [path for path in written if b"hushed" in path.read_bytes()] == []


def test_what_the_user_accepts_may_show_it(stranger: Project) -> None:
    """The control; and the name of a file is no secret itself."""
    stranger.policy.write_text(HEAD + SECRET_PATHS[0])
    assert stranger.sandwright("facts").returncode == 64
    assert stranger.sandwright("trust", "--yes").returncode == 0
    assert b"hushed" in stranger.sandwright("facts").stdout
    assert stranger.sandwright("render").returncode == 0
    assert b"hushed" in (stranger.root / ".sandbox/bwrap/launch.plan").read_bytes()
    stranger.environment["KUBECONFIG"] = str(stranger.home / "other")
    stranger.policy.write_text(HEAD + "filesystem: {deny: ['${KUBECONFIG}']}\n")
    assert str(stranger.home / "other") in stranger.sandwright("facts").stdout.decode()


@pytest.mark.parametrize("named", ["~/.ssh/id", "$PROJECT/profile.json"])
def test_facts_print_no_file_that_a_strangers_policy_names(stranger: Project, named: str) -> None:
    """They contain the text of a seccomp profile: a policy could name a key, or a link to one."""
    (stranger.root / "profile.json").symlink_to(stranger.home / ".ssh" / "id")
    stranger.policy.write_text(HEAD + f"process: {{seccomp: {named}}}\n")
    refused = stranger.sandwright("facts")
    assert KEY.strip().encode() not in refused.stdout + refused.stderr
    assert (refused.returncode, refused.stdout) == (64, b"")
    assert b"filters system calls as a file says: ~/.ssh/id" in refused.stderr
    stranger.environment["SANDWRIGHT_TRUST"] = "1"
    assert KEY.strip().encode() in stranger.sandwright("facts").stdout


def test_facts_hold_a_profile_of_the_project(stranger: Project) -> None:
    """The author of the policy wrote that file, too, so it needs no approval."""
    (stranger.root / "profile.json").write_text('{"defaultAction": "SCMP_ACT_ERRNO"}')
    stranger.policy.write_text(HEAD + "process: {seccomp: $PROJECT/profile.json}\n")
    assert "SCMP_ACT_ERRNO" in stranger.sandwright("facts").stdout.decode()


def test_a_bare_repository_is_accepted_by_the_project_with_a_word(stranger: Project) -> None:
    """The preset, with which the policy is compared, refuses such a project."""
    process.run("git", "init", "-q", "--bare", stranger.root)
    stranger.policy.write_text(HEAD)
    assert b"can be a bare repository" in stranger.run("true", options=("--trust-policy",)).stderr
    stranger.policy.write_text(HEAD + "filesystem: {unprotect: [{path: $PROJECT/HEAD, reason: it is one}]}\n")
    refused = stranger.run("true")
    assert refused.returncode == 125
    assert b"writes $PROJECT/HEAD" in refused.stderr
    ended = stranger.run("true", options=("--trust-policy",))
    assert ended.returncode == 0, ended.stderr


def test_the_word_for_one_run(stranger: Project) -> None:
    stranger.policy.write_text(OPENED)
    line = b"sandwright: sandbox.yaml allows more than the preset default: reads ~/.ssh\n"
    for _ in range(2):  # the second sandbox comes from the cache
        found = stranger.run("cat", str(stranger.home / ".ssh/id"), options=("--trust-policy",))
        assert (found.returncode, found.stdout, found.stderr) == (0, KEY.encode(), line)
        assert stranger.run("true").returncode == 125
    assert _records(stranger) == []


def test_the_word_in_a_variable(stranger: Project) -> None:
    stranger.policy.write_text(OPENED)
    stranger.environment["SANDWRIGHT_TRUST"] = "1"
    shown = [stranger.run("true").stderr.count(b"allows more than the preset default") for _ in range(2)]
    assert shown == [1, 0], "it is shown when the sandbox is rendered"
    stranger.environment["SANDWRIGHT_TRUST"] = "sha256:" + "0" * 64
    refused = stranger.run("true")
    assert refused.returncode == 125
    digest = next(word for word in refused.stderr.decode().split() if word.startswith("SANDWRIGHT_TRUST="))
    stranger.environment["SANDWRIGHT_TRUST"] = digest.partition("=")[2].rstrip(".;)")
    approved = stranger.run("true")
    assert (approved.returncode, approved.stderr) == (0, b"")
    stranger.policy.write_text(OPENED + "network: {mode: proxy, allow: [evil.example.com]}\n")
    assert stranger.run("true").returncode == 125


def test_what_was_rendered_for_another_project_is_not_read(stranger: Project) -> None:
    """Its paths are there, with values of variables that were approved for it alone."""
    stranger.policy.write_text(HEAD + SECRET_PATHS[0])
    assert stranger.run("true", options=("--trust-policy",)).returncode == 0
    kept = stranger.home / ".cache/sandwright/sessions"
    assert any(b"hushed" in path.read_bytes() for path in kept.rglob("*") if path.is_file())
    other = stranger.home / "another"
    other.mkdir()
    (other / "sandbox.yaml").write_text(HEAD)
    script = "ls ~/.cache/sandwright; ls -A ~/.cache/sandwright/sessions; grep -rl hushed ~/.cache"
    ended = stranger.sandwright("run", "--", "sh", "-c", script, cwd=other)
    assert (ended.returncode, ended.stdout.decode().split()) == (1, ["sessions"]), ended


def _trusts(project: Project, answer: str) -> tuple[int, str]:
    """`sandwright trust` on a terminal, with an answer: status and output."""
    with terminal([*SANDWRIGHT, "trust"], project.root, project.environ) as asking:
        shown = asking.read_until(b"[y/N] ")
        asking.type(answer.encode())
        return asking.end(), shown.decode()


def test_the_word_is_asked_for_once(stranger: Project) -> None:
    stranger.policy.write_text(OPENED)
    status, shown = _trusts(stranger, "n\n")
    assert status != 0
    assert "reads ~/.ssh" in shown
    assert _records(stranger) == []
    assert _trusts(stranger, "y\n")[0] == 0
    (record,) = _records(stranger)
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
    assert json.loads(record.read_text())["policy"] == str(stranger.policy)
    for _ in range(2):
        found = stranger.run("cat", str(stranger.home / ".ssh/id"))
        assert (found.returncode, found.stdout) == (0, KEY.encode()), found
        assert found.stderr == b"", "approved, and nothing has changed"
    assert stranger.sandwright("trust", "--forget").returncode == 0
    assert stranger.run("true").returncode == 125  # the cached sandbox, too
    assert _records(stranger) == []


def test_nobody_is_asked_without_a_terminal(stranger: Project) -> None:
    stranger.policy.write_text(OPENED)
    found = stranger.sandwright("trust", stdin=b"y\n")
    assert found.returncode != 0
    assert b"reads ~/.ssh" in found.stdout
    assert _records(stranger) == []
    assert stranger.sandwright("trust", "--yes").returncode == 0
    assert stranger.run("true").returncode == 0


def _text(project: Project) -> None:
    project.policy.write_text(LINKED + "network: {mode: proxy, allow: [evil.example.com]}\n")


def _link(project: Project) -> None:
    (project.home / "alias").unlink()
    (project.home / "alias").symlink_to(".gnupg")


@pytest.mark.parametrize("change", [_text, _link], ids=["another text", "a link that leads elsewhere"])
def test_what_changed_is_asked_for_again(stranger: Project, change: Callable[[Project], None]) -> None:
    (stranger.home / ".gnupg").mkdir()
    (stranger.home / ".gnupg" / "id").write_text("another key")
    stranger.policy.write_text(LINKED)
    assert stranger.sandwright("trust", "--yes").returncode == 0
    assert stranger.run("true").returncode == 0
    change(stranger)
    assert stranger.run("true").returncode == 125


def test_the_users_own_layer_needs_no_word(stranger: Project) -> None:
    own = stranger.home / ".config" / "sandwright" / "policy.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("filesystem: {unprotect: [{path: ~/.ssh, reason: mine}]}\n")
    stranger.policy.write_text(HEAD)
    found = stranger.run("cat", str(stranger.home / ".ssh/id"))
    assert (found.returncode, found.stdout, found.stderr) == (0, KEY.encode(), b"")


@pytest.mark.parametrize("command", [("run", "--", "true"), ("trust",), ("facts",), ("explain", "read", "/")])
@pytest.mark.parametrize(
    ("path", "value", "shown"),
    [
        ("/run/docker.sock/${GH_TOKEN}", "ghp_of_mine", b"/run/docker.sock/${GH_TOKEN} leads to the socket"),
        (
            "/run/docker.sock/${GH_TOKEN}",
            "ghp//of_mine/",
            b"/run/docker.sock/${GH_TOKEN} leads to the socket",
        ),
        ("$PROJECT/loop/${GH_TOKEN}", "ghp_of_mine", b"/loop/${GH_TOKEN} leads through more than"),
        ("/x/${GH_TOKEN}", "ghp_of_mine/../y", b"'/x/${GH_TOKEN}' holds '..'"),
        ("/x/${GH_TOKEN}", f"{'ghp_of_mine' * 9}/../y", b"'/x/${GH_TOKEN}' holds '..'"),
    ],
)
def test_a_fault_of_a_path_does_not_print_a_secret(
    stranger: Project, command: tuple[str, ...], path: str, value: str, shown: bytes
) -> None:
    """A stranger chooses the path, and a log may be public."""
    (stranger.root / "loop").symlink_to("loop")
    stranger.policy.write_text(HEAD + f'filesystem: {{write: ["{path}"]}}\n')
    stranger.environment["GH_TOKEN"] = value
    found = stranger.sandwright(*command)
    assert found.returncode != 0
    assert shown in found.stderr
    assert b"of_mine" not in found.stdout + found.stderr


def test_a_file_of_the_host_in_the_users_images_needs_approval(stranger: Project) -> None:
    """An image's root shows no file of the host, although `default` makes all of them readable."""
    own = stranger.home / ".config" / "sandwright" / "policy.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("method: docker\n")
    (stranger.home / "notes").mkdir()
    stranger.policy.write_text("filesystem: {read: ['...', ~/notes]}\n")
    found = stranger.run("true")
    assert found.returncode == 125
    assert b"sandbox.yaml allows more than the preset default: reads ~/notes" in found.stderr
    own.write_text("method: bwrap\n")
    assert stranger.run("true").returncode == 0


def test_the_options_of_a_run_need_no_word(stranger: Project) -> None:
    stranger.policy.write_text(HEAD)
    found = stranger.run("true", options=("--set", "network.mode=host"))
    assert (found.returncode, found.stderr) == (0, b"")


def test_a_name_of_the_last_release_needs_the_same_word(stranger: Project) -> None:
    """The approval of one spelling is the approval of the other: they mean the same."""
    old, new = (f"{HEAD}process: {{{key}: true}}\n" for key in ("privileged", "sandbox_root"))
    stranger.policy.write_text(old)
    refused = stranger.run("true")
    assert refused.returncode == 125
    assert b"lets programs gain rights: process.sandbox_root" in refused.stderr
    assert refused.stderr.count(b"sandbox.yaml:3:11: `process.privileged` is now `process.sandbox_root`") == 1
    assert stranger.sandwright("trust", "--yes").returncode == 0
    for text in (old, new, old):
        stranger.policy.write_text(text)
        ended = stranger.run("true")
        assert ended.returncode == 0, ended.stderr
        assert ended.stderr.count(b" is now ") == (text == old)
    stranger.policy.write_text(old.replace("true", "true, seccomp: build"))
    assert stranger.run("true").returncode == 125


def test_an_option_does_not_lend_its_word(stranger: Project) -> None:
    stranger.policy.write_text(HEAD + "filesystem: {read: [/]}\n")
    assert stranger.run("true").returncode == 0
    assert stranger.run("true", options=("--set", "extends=[]")).returncode == 125


def test_words_are_not_given_from_inside(stranger: Project) -> None:
    """Neither the record nor the user's own policy can be written, in a directory that the policy opens."""
    lacks = "".join(
        f"  - {{feature: filesystem.{name}-elsewhere, method: bwrap, reason: x}}\n"
        for name in ("absent", "protect")
    )
    stranger.policy.write_text(f"{HEAD}filesystem: {{write: [$HOME]}}\naccept_gaps:\n{lacks}")
    script = (
        'for d in "$HOME/.config/sandwright" "$HOME/.config/sandwright/trust"; do'
        ' mkdir -p "$d"; echo x >"$d/f" || echo kept; done; mv "$HOME/.config" "$HOME/.c" || echo stays'
    )
    found = stranger.run("sh", "-c", script, options=("--trust-policy",))
    assert found.stdout.decode().split() == ["kept", "kept", "stays"], found
    assert not list((stranger.home / ".config" / "sandwright").rglob("f"))


def test_a_record_of_others_is_no_word(stranger: Project) -> None:
    stranger.policy.write_text(OPENED)
    assert stranger.sandwright("trust", "--yes").returncode == 0
    (record,) = _records(stranger)
    for mode in (0o666, 0o644):  # Git checks out files with the second mode
        record.chmod(mode)
        assert stranger.run("true").returncode == 125
    record.chmod(0o600)
    assert stranger.run("true").returncode == 0
    aside = record.with_name("aside")
    record.rename(aside)
    record.symlink_to(aside.name)
    assert stranger.run("true").returncode == 125


def test_a_link_to_a_trusted_policy_is_no_word(stranger: Project) -> None:
    """A stranger's repository may contain a link to a policy of the user's own."""
    stranger.policy.write_text(OPENED)
    assert stranger.sandwright("trust", "--yes").returncode == 0
    other = stranger.home / "q"
    other.mkdir()
    (other / "sandbox.yaml").symlink_to(stranger.policy)
    assert stranger.run("true", cwd=other).returncode == 125
    assert stranger.run("true").returncode == 0


def test_one_line_stays_one(stranger: Project) -> None:
    stranger.policy.write_text(HEAD + 'filesystem: {write: ["/var/tmp/a\\nsandwright: all is well"]}\n')
    refused = stranger.run("true").stderr.decode().splitlines()
    assert len(refused) == 2, refused
    assert r"a\nsandwright: all is well" in refused[0]
    assert r"a\nsandwright: all is well" in stranger.sandwright("trust").stdout.decode()


def test_another_policy_at_the_last_moment(stranger: Project) -> None:
    """The session reads the settings of its helpers again, from the approved policy."""
    stranger.policy.write_text(HEAD + "credentials: {shims: {git: {allow: ['fetch *']}}}\n")
    request = RunRequest(["true"], policy=str(stranger.policy))
    stranger.policy.write_text(HEAD + "credentials: {shims: {git: {allow: ['*']}}}\n")
    with contextlib.ExitStack() as stack, pytest.raises(IntegrityError, match="was changed meanwhile"):
        start_bridge(request, stack, "sha256:another")


@pytest.mark.parametrize("words", [("verify",), ("bridge", "--", "true")], ids=["verify", "bridge"])
def test_what_else_starts_it_needs_the_word(stranger: Project, words: tuple[str, ...]) -> None:
    stranger.policy.write_text(OPENED)
    refused = stranger.sandwright(*words)
    assert refused.returncode not in (0, 12), refused
    assert b"reads ~/.ssh" in refused.stderr


@pytest.mark.parametrize("words", [("render",), ("lint", "sandbox.yaml"), ("explain", "read", "/etc/shadow")])
def test_a_look_needs_no_word(stranger: Project, words: tuple[str, ...]) -> None:
    stranger.policy.write_text(OPENED)
    assert stranger.sandwright(*words).returncode == 0


def test_a_plain_policy_needs_no_word(stranger: Project) -> None:
    stranger.policy.write_text(
        HEAD + "network: {mode: none}\nfilesystem: {write: [$PROJECT], deny: [~/.ssh]}\n"
    )
    found = stranger.run("true")
    assert (found.returncode, found.stderr) == (0, b"")
    shown = stranger.sandwright("trust")
    assert shown.returncode == 0
    assert b"nothing" in shown.stdout
    assert not (stranger.home / ".config").exists()
    assert os.environ.get("SANDWRIGHT_TRUST") == "1"  # for all other tests, which grant anything


KEEPING = (
    HEAD + "filesystem: {write: [$STATE/claude/.credentials.json/x], readonly: [$STATE/settings.json]}\n"
)


@pytest.mark.parametrize("words", [("run", "--", "true"), ("account-setup",)], ids=["run", "account-setup"])
def test_nothing_is_made_before_approval(stranger: Project, words: tuple[str, ...]) -> None:
    """A stranger's policy names directories below $STATE, like an agent's own files."""
    stranger.policy.write_text(KEEPING)
    refused = stranger.sandwright(*words)
    assert refused.returncode != 0
    assert b"sandwright trust" in refused.stderr
    assert not (stranger.home / ".local/state/sandwright/state").exists()
    if words[0] == "run":
        approved = stranger.run("test", "-d", f"{stranger.home}/{MADE}", options=("--trust-policy",))
        assert approved.returncode == 0, approved.stderr
        assert (stranger.home / MADE).is_dir()


MADE = ".local/state/sandwright/state/claude/.credentials.json/x"
