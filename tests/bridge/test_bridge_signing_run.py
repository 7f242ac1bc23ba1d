"""Signed commits as people make them: `sandwright run -- git commit -S`, with the host's agent.

The signatures are made by the real ssh-keygen, ssh-agent and gpg, and verified by the host's Git.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator

import pytest

from sandwright import process
from support.bridges import IDENTITY, World, world
from support.waiting import eventually

pytestmark = pytest.mark.needs("bwrap", "git", "ssh-keygen", "ssh-agent")

POLICY = "schema: 1\nmethod: bwrap\n"
SIGNING = "credentials: {signing: [~/.ssh/id_ed25519.pub]}\n"
PASSPHRASE = "a passphrase"


@pytest.fixture
def place() -> Iterator[World]:
    """A repository that signs its commits, and a key with a passphrase in the home directory."""
    with world() as made:
        ssh = made.root / "home" / ".ssh"
        ssh.mkdir(mode=0o700)
        process.run("ssh-keygen", "-q", "-t", "ed25519", "-N", PASSPHRASE, "-f", ssh / "id_ed25519")
        made.git("init", "-q", "-b", "main")
        for name, value in (
            ("gpg.format", "ssh"), ("user.signingkey", "~/.ssh/id_ed25519.pub"), ("commit.gpgsign", "true"),
            ("user.name", "A"), ("user.email", "a@example.org"),
        ):  # fmt: skip
            made.git("config", name, value)
        yield made


@contextlib.contextmanager
def _agent(place: World) -> Iterator[dict[str, str]]:
    """Start the person's ssh-agent with the key."""
    path, asks = place.root / "agent", place.root / "tools" / "ask"
    place.tool("ask", f"echo '{PASSPHRASE}'")
    with process.start("ssh-agent", "-D", "-a", path):
        eventually(path.exists, within=20)
        asking = {"SSH_ASKPASS": str(asks), "SSH_ASKPASS_REQUIRE": "force", "SSH_AUTH_SOCK": str(path)}
        key = place.root / "home" / ".ssh" / "id_ed25519"
        process.run("ssh-add", "-q", key, env={**os.environ, **asking})
        yield {"SSH_AUTH_SOCK": str(path)}


def _verify(place: World, *argv: str) -> process.Result:
    allowed = place.root / "allowed"
    allowed.write_text(f"a@example.org {(place.root / 'home/.ssh/id_ed25519.pub').read_text()}")
    words = ("git", "-c", f"gpg.ssh.allowedSignersFile={allowed}", *argv)
    return process.run(*words, cwd=place.project, env=IDENTITY, check=False)


def test_a_signed_commit(place: World) -> None:
    """Inside there is neither the key nor an agent; other namespaces and `ssh-add` get nothing."""
    (place.project / "sandbox.yaml").write_text(POLICY + SIGNING)
    script = """
        git commit -q --allow-empty -m one && git tag -s -m text v1 || exit 1
        ! ssh-add -l 2>&1 || exit 2
        ! cat ~/.ssh/id_ed25519 2>&1 || exit 3
        echo x >text
        ! ssh-keygen -Y sign -n file -f ~/.ssh/id_ed25519.pub text 2>&1 || exit 4
        [ ! -e text.sig ] || exit 5
        env | grep -c SSH_AUTH_SOCK
        exit 0
    """
    with _agent(place) as variables:
        done = place.sandwright("run", "--", "sh", "-c", script, **variables)
    assert done.status == 0, done
    assert done.stdout.endswith(b"0\n")
    assert b"the namespace 'file' is not signed, only `git`" in done.stdout
    assert "refused: the call of ssh-keygen -Y sign -n file" in done.stderr
    assert "credentials.signing, project " in done.stderr
    shown = _verify(place, "log", "-1", "--show-signature")
    assert 'Good "git" signature for a@example.org with ED25519 key SHA256:' in shown.text
    assert _verify(place, "verify-tag", "v1").status == 0
    log = (place.root / "home/.local/state/sandwright/bridge.jsonl").read_text().splitlines()
    signed = [json.loads(line).get("signed", "") for line in log if '"call"' in line]
    assert [each.split(" of ")[0] for each in signed if each] == ["commit", "tag"]


def test_without_the_field(place: World) -> None:
    """The commit fails, and the run names the field."""
    (place.project / "sandbox.yaml").write_text(POLICY)
    with _agent(place) as variables:
        done = place.sandwright("run", "--", "git", "commit", "--allow-empty", "-m", "one", **variables)
    assert done.status != 0
    assert "credentials: {signing: ['~/.ssh/id_ed25519.pub']}" in done.stderr
    assert _verify(place, "rev-parse", "HEAD").status != 0


def test_without_an_agent(place: World) -> None:
    """The control: no command runs, and the message names the missing key and the command that adds it."""
    (place.project / "sandbox.yaml").write_text(POLICY + SIGNING)
    done = place.sandwright("run", "--", "echo", "started")
    assert (done.status, done.stdout) == (125, b"")
    assert "the host's ssh-agent does not have this key" in done.stderr
    assert "add it with ssh-add" in done.stderr


@pytest.mark.parametrize("words", [("run", "--", "true"), ("trust",)], ids=["run", "trust"])
def test_a_strangers_policy_needs_approval(place: World, words: tuple[str, ...]) -> None:
    (place.project / "sandbox.yaml").write_text(POLICY + SIGNING)
    done = place.sandwright(*words, SANDWRIGHT_TRUST="")
    assert "signs commits and tags of the project with ~/.ssh/id_ed25519.pub" in done.stderr + done.text
    assert done.status != 0


def test_diff_names_it(place: World) -> None:
    for name, text in (("old", POLICY), ("new", POLICY + SIGNING)):
        (place.project / f"{name}.yaml").write_text(text)
    done = place.sandwright("diff", "old.yaml", "new.yaml")
    assert "signs commits and tags of the project with ~/.ssh/id_ed25519.pub" in done.text, done
    done = place.sandwright("diff", "new.yaml", "old.yaml")
    assert "no longer: signs commits and tags of the project with ~/.ssh/id_ed25519.pub" in done.text, done


def test_a_review_workspace_has_no_bridge(place: World) -> None:
    (place.project / "sandbox.yaml").write_text(POLICY + SIGNING + "workspace: review\n")
    done = place.sandwright("run", "--", "true")
    assert "credentials.signing" in done.stderr
    assert done.status != 0


@pytest.mark.needs("gpg")
def test_gpg(place: World) -> None:
    """The same for a GnuPG key, named by its fingerprint, by the end of it, or by the committer's name."""
    home = place.root / "home" / ".gnupg"
    home.mkdir(mode=0o700)
    outside = {"HOME": str(place.root / "home"), "PATH": os.environ["PATH"]}
    words = (
        "--batch",
        "--passphrase",
        "",
        "--quick-gen-key",
        "A <a@example.org>",
        "ed25519",
        "sign",
        "never",
    )
    process.run("gpg", *words, env=outside)
    try:
        listed = process.run("gpg", "--with-colons", "--list-secret-keys", env=outside).text
        key = next(line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr:"))
        (place.project / "sandbox.yaml").write_text(f"{POLICY}credentials: {{signing: ['gpg:{key}']}}\n")
        place.git("config", "gpg.format", "openpgp")
        for name in (key, key[-16:], "a@example.org", ""):
            place.git("config", "user.signingkey", name) if name else place.git(
                "config", "--unset", "user.signingkey"
            )
            done = place.sandwright("run", "--", "git", "commit", "-q", "--allow-empty", "-m", "one")
            assert done.status == 0, done
            verified = process.run(
                "git", "verify-commit", "HEAD", cwd=place.project, env=outside, check=False
            )
            assert "Good signature" in verified.stderr, verified
        done = place.sandwright("run", "--", "gpg", "--status-fd=2", "-bsau", "B")
        assert "credentials.signing does not list the key B" in done.stderr
    finally:
        process.run("gpgconf", "--kill", "all", env=outside, check=False)
        shutil.rmtree(home)
