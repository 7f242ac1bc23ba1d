"""Signatures of commits and tags by the bridge: signed texts, refused texts, and the keys.

Tests of bridge/keys.py: the keys that a bridge accepts.
Tests of bridge/signed_payload.py.
Tests of bridge/signing.py.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from sandwright import process
from sandwright.bridge import frames
from sandwright.bridge.directory import Bridge
from sandwright.bridge.frames import CallRequest, FrameKind
from sandwright.bridge.grammar import Refused
from sandwright.bridge.keys import parse_public
from sandwright.bridge.signed_payload import MAX_PAYLOAD, parse_payload
from sandwright.bridge.signing import ended
from sandwright.errors import HostError, SandwrightError, UsageError
from sandwright.landlock import landlock_version
from support.bridges import IDENTITY, World, encode_request, world
from support.waiting import eventually

pytestmark = pytest.mark.needs("git", "ssh-keygen", "ssh-agent")

KEY = "~/.ssh/id.pub"
POLICY = f"credentials: {{signing: [{KEY}]}}"
TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
PERSON = "A <a@example.org> 1700000000 +0000"
COMMIT = f"tree {TREE}\nauthor {PERSON}\ncommitter {PERSON}\n\ntext\n"
TAG = f"object {TREE}\ntype tree\ntag v1\ntagger {PERSON}\n\n"
SIGN = ("-Y", "sign", "-n", "git", "-f", KEY)


@dataclass
class Signed:
    """A world with a repository and two keys of a person, of which the policy lists one."""

    world: World
    commit: str

    @property
    def ssh(self) -> Path:
        return self.world.root / "home" / ".ssh"

    def make_key(self, name: str, passphrase: str = "", kind: str = "ed25519") -> str:
        """Make a key for the person, and return its public half."""
        process.run("ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-f", self.ssh / name)
        return (self.ssh / f"{name}.pub").read_text()

    def sign(
        self, bridge: Bridge, payload: str | bytes, *words: str, cwd: Path | None = None
    ) -> process.Result:
        data = payload if isinstance(payload, bytes) else payload.encode()
        return self.world.call(bridge, "ssh-keygen", *(words or SIGN), stdin=data, cwd=cwd)

    def refused(self, bridge: Bridge, payload: str | bytes, *words: str) -> str:
        """The reason why a call is refused; it is logged as that, and no byte of a signature comes back."""
        done = self.sign(bridge, payload, *words)
        assert (done.status, done.stdout) == (126, b""), done
        assert self.world.audit("refused")[-1]["why"]
        return done.stderr

    def verify(self, *argv: str, public: str = "") -> process.Result:
        """Verify with the host's Git, with the person's key as the only allowed one."""
        allowed = self.world.root / "allowed"
        allowed.write_text(f"a@example.org {public or (self.ssh / 'id.pub').read_text()}")
        words = ("git", "-c", "gpg.format=ssh", "-c", f"gpg.ssh.allowedSignersFile={allowed}", *argv)
        return process.run(*words, cwd=self.world.project, env=IDENTITY, check=False)


@pytest.fixture
def place() -> Iterator[Signed]:
    with world() as made:
        made.git("init", "-q", "-b", "main")
        (made.project / "file").write_text("one\n")
        made.git("add", "file")
        made.git("commit", "-q", "-m", "first")
        found = Signed(made, made.git("rev-parse", "HEAD"))
        found.ssh.mkdir(mode=0o700)
        found.make_key("id")
        found.make_key("other")
        yield found


@contextlib.contextmanager
def agent(place: Signed, *names: str, passphrase: str = "") -> Iterator[dict[str, str]]:
    """An ssh-agent of the host with keys whose files are removed; the variable that names it."""
    path = place.world.root / "agent"
    asks = place.world.root / "tools" / "ask"
    asks.write_text(f"#!/bin/sh\necho '{passphrase}'\n")
    asks.chmod(0o755)
    with process.start("ssh-agent", "-D", "-a", path):
        eventually(path.exists, within=20)
        variables = {"SSH_AUTH_SOCK": str(path)}
        for name in names:
            asking = {"SSH_ASKPASS": str(asks), "SSH_ASKPASS_REQUIRE": "force"}
            process.run("ssh-add", "-q", place.ssh / name, env={**os.environ, **variables, **asking})
            (place.ssh / name).unlink()
        yield variables


def test_a_commit_and_a_tag(place: Signed) -> None:
    """Git's own texts, through the shim as Git starts it; the host's Git accepts the signatures."""
    git = place.world
    for name, value in (("gpg.format", "ssh"), ("user.signingkey", KEY)):
        git.git("config", name, value)
    with git.bridge(POLICY) as bridge:
        inside = {**IDENTITY, "PATH": f"{bridge.bin}:{IDENTITY['PATH']}", "HOME": str(git.root / "elsewhere")}
        for words in (
            ("commit", "-q", "-S", "--allow-empty", "-m", "signed"),
            ("tag", "-s", "-m", "text", "v1"),
            ("commit", "-q", "-S", "--amend", "--allow-empty", "-m", "anew", "--author", "B <b@x.org>"),
            ("merge", "-q", "-S", "--no-ff", "-m", "merged", "v1"),  # with the tag in a header
        ):
            done = process.run("git", *words, cwd=git.project, env=inside, check=False)
            assert done.status == 0, done
        signed = [each["signed"].split()[0] for each in git.audit("call", 4)]
    assert signed == ["commit", "tag", "commit", "commit"]
    assert "mergetag object" in git.git("cat-file", "commit", "HEAD")
    assert place.verify("verify-commit", "HEAD").status == 0
    assert place.verify("verify-tag", "v1").status == 0
    other = (place.ssh / "other.pub").read_text()
    assert place.verify("verify-commit", "HEAD", public=other).status != 0
    assert sorted(path.name for path in git.project.iterdir()) == [".git", "file"]


def test_the_key_by_its_names(place: Signed) -> None:
    """Git passes a literal key in a file, with -U; inside, such a file can be read."""
    literal = place.world.project / "literal"
    shutil.copy(place.ssh / "id.pub", literal)
    public = literal.read_text().strip()
    with place.world.bridge(POLICY) as bridge:
        for words in ((str(literal), "-U"), (KEY,), ("~/.ssh/id",), (public,), (public.rpartition(" ")[0],)):
            done = place.sign(bridge, COMMIT, "-Y", "sign", "-n", "git", "-f", *words)
            assert done.stdout.startswith(b"-----BEGIN SSH SIGNATURE-----"), done


BAD: list[tuple[str, str | bytes, str]] = [
    ("nothing", "", "only commits and tags are signed"),
    ("text", "a message\n", "only commits and tags are signed, and this begins with 'a message'"),
    ("a certificate of push --signed", "certificate version 0.1\npusher A\n\n", "only commits and tags"),
    ("no author", f"tree {TREE}\ncommitter {PERSON}\n\nx", "not those that Git writes: tree committer"),
    ("no end of headers", f"tree {TREE}\nauthor {PERSON}\ncommitter {PERSON}\n", "not those that Git writes"),
    ("NUL in the text", COMMIT + "\0", "with a NUL"),
    ("NUL in a header", COMMIT.replace("A <", "A\0<"), "with a NUL"),
    ("too long", COMMIT + "x" * MAX_PAYLOAD, "more than 1048576 bytes"),
    ("two trees", f"tree {TREE}\n{COMMIT}", "two headers tree"),
    ("two authors", COMMIT.replace("author", f"author {PERSON}\nauthor", 1), "two headers author"),
    ("two committers", COMMIT.replace("\n\n", f"\ncommitter {PERSON}\n\n"), "two headers committer"),
    ("two encodings", COMMIT.replace("\n\n", "\nencoding a\nencoding b\n\n"), "two headers encoding"),
    ("signed already", COMMIT.replace("\n\n", "\ngpgsig -----BEGIN\n x\n\n"), "has a signature already"),
    ("signed in SHA-256", COMMIT.replace("\n\n", "\ngpgsig-sha256 x\n\n"), "has a signature already"),
    ("an unknown header", COMMIT.replace("\n\n", "\nx y\n\n"), "not those that Git writes"),
    ("another order", f"author {PERSON}\ntree {TREE}\ncommitter {PERSON}\n\nx", "only commits and tags"),
    ("a parent behind the author", COMMIT.replace("committer", f"parent {TREE}\ncommitter"), "not those"),
    ("a short name", COMMIT.replace(TREE, TREE[:39]), "not those that Git writes"),
    ("capitals", COMMIT.replace(TREE, TREE.upper()), "not those that Git writes"),
    ("SHA-1 and SHA-256", COMMIT.replace("\nauthor", f"\nparent {'0' * 64}\nauthor"), "SHA-1 and of SHA-256"),
    ("65 parents", COMMIT.replace("\nauthor", f"\nparent {TREE}" * 65 + "\nauthor"), "more than 64 parents"),
    ("CR", COMMIT.replace("\n", "\r\n"), "not those that Git writes"),
    ("a person in two lines", COMMIT.replace("A <", "A\n B <"), "not those that Git writes"),
    ("a date in words", COMMIT.replace("1700000000", "yesterday"), "not those that Git writes"),
    ("a tag of nothing known", TAG.replace("type tree", "type x"), "not those that Git writes"),
    ("a tag's name in two words", TAG.replace("v1", "a b"), "not those"),
    ("a tag without a tagger", f"object {TREE}\ntype tree\ntag v\n\nx", "not those that Git writes"),
    *(
        (f"a tag with {begin}", f"{TAG}x\n-----BEGIN {begin}-----\n", "has a signature already")
        for begin in ("SSH SIGNATURE", "PGP SIGNATURE", "PGP MESSAGE", "SIGNED MESSAGE")
    ),
]  # fmt: skip


@pytest.mark.parametrize(("payload", "said"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_what_is_no_commit_or_tag(payload: str | bytes, said: str) -> None:
    with pytest.raises(Refused) as refusal:
        parse_payload(payload if isinstance(payload, bytes) else payload.encode())
    assert said in str(refusal.value)
    assert len(str(refusal.value)) < 400


@pytest.mark.parametrize(
    "line", ["a\n", "mergetag \n", "mergetag x\n y\n", "parent \n", "<", "> 1 +0000\n", " "]
)
@pytest.mark.parametrize(
    "first", ["tree x\n", f"tree {TREE}\nauthor {PERSON}\ncommitter {PERSON}\n", "object x\n"]
)
def test_no_text_takes_long(first: str, line: str) -> None:
    """The text has the maximum length and lines that may be repeated; other calls wait meanwhile."""
    text = (first + line * (MAX_PAYLOAD // len(line)))[:MAX_PAYLOAD]
    began = time.process_time()
    with pytest.raises(Refused):
        parse_payload(text.encode())
    assert time.process_time() - began < 2


GOOD = [
    (COMMIT, "commit of tree " + TREE),
    (COMMIT.replace("text\n", ""), "commit of tree " + TREE),
    (COMMIT.replace("A <", " <"), "commit of tree " + TREE),
    (COMMIT.replace("A <", "Ä Ö <"), "commit of tree " + TREE),
    (COMMIT.replace("\n\n", "\nencoding ISO-8859-1\n\n"), "commit of tree " + TREE),
    (COMMIT.replace("\n\n", f"\nmergetag object {TREE}\n type commit\n \n x\n\n"), "commit of tree " + TREE),
    (COMMIT.replace("\n\n", "\nchange-id kntqzsqt\n\n"), "commit of tree " + TREE),
    (COMMIT + "-----BEGIN SSH SIGNATURE-----\n", "commit of tree " + TREE),
    (f"object {TREE}\ntype tree\ntag v1\ntagger {PERSON}\n\n", "tag of tree " + TREE),
]


@pytest.mark.parametrize(("payload", "said"), GOOD)
def test_what_git_writes(payload: str, said: str) -> None:
    assert str(parse_payload(payload.encode())) == said


def test_objects_must_be_in_the_repository(place: Signed) -> None:
    """The control: the first commit's own tree and name."""
    tree = place.world.git("rev-parse", "HEAD^{tree}")
    blob = place.world.git("rev-parse", "HEAD:file")
    absent, second = "1" * 40, COMMIT.replace(TREE, tree)
    tag = f"object {{}}\ntype {{}}\ntag v1\ntagger {PERSON}\n\nx\n"
    with place.world.bridge(POLICY) as bridge:
        assert place.sign(bridge, second).status == 0
        assert place.sign(bridge, second.replace("\nauthor", f"\nparent {place.commit}\nauthor")).status == 0
        assert place.sign(bridge, tag.format(blob, "blob")).status == 0
        for payload, said in (
            (COMMIT.replace(TREE, absent), f"tree {absent} is no object of this repository"),
            (second.replace("\nauthor", f"\nparent {absent}\nauthor"), f"commit {absent} is no object"),
            (COMMIT.replace(TREE, place.commit), f"{place.commit} is a commit, and no tree"),
            (second.replace("\nauthor", f"\nparent {tree}\nauthor"), f"{tree} is a tree, and no commit"),
            (tag.format(tree, "commit"), f"{tree} is a tree, and no commit"),
            (tag.format(absent, "tag"), f"tag {absent} is no object"),
        ):
            assert said in place.refused(bridge, payload)


def test_an_object_under_anothers_name(place: Signed) -> None:
    """A program inside could write such an object for the tree of another project, which it cannot read."""
    forged = place.world.project / ".git" / "objects" / "11" / ("1" * 38)
    forged.parent.mkdir()
    forged.write_bytes(zlib.compress(b"tree 0\0"))
    with place.world.bridge(POLICY) as bridge:
        why = place.refused(bridge, COMMIT.replace(TREE, "1" * 40))
    assert "does not match its digest" in why or "cannot read an object" in why


@pytest.mark.parametrize("way", ["alternates", "a link"])
def test_objects_of_another_repository(place: Signed, way: str) -> None:
    """git on the host could follow these. Landlock confines it to the project's objects."""
    if landlock_version() < 1:
        pytest.skip("Landlock")
    other = place.world.root / "elsewhere"
    place.world.git("init", "-q", str(other))
    objects = place.world.project / ".git" / "objects"
    for number in range(256):  # until no object of the project lies at the link's path
        (other / "theirs").write_text(f"{number}\n")
        place.world.git("add", "theirs", cwd=other)
        tree = place.world.git("write-tree", cwd=other)
        if not (objects / tree[:2]).exists():
            break
    if way == "alternates":
        (objects / "info" / "alternates").write_text(f"{other}/.git/objects\n")
    else:
        (objects / tree[:2]).symlink_to(other / ".git" / "objects" / tree[:2])
    assert place.world.git("cat-file", "-t", tree) == "tree"
    with place.world.bridge(POLICY) as bridge:
        why = place.refused(bridge, COMMIT.replace(TREE, tree))
    assert "is no object of this repository" in why or "cannot read an object" in why


def test_objects_that_fill_the_memory(place: Signed) -> None:
    """A bomb: some kilobytes that unpack to more than the limit, under any name."""
    size = 64 << 20
    forged = place.world.project / ".git" / "objects" / "11" / ("1" * 38)
    forged.parent.mkdir()
    forged.write_bytes(zlib.compress(f"tree {size}\0".encode() + bytes(size)))
    with place.world.bridge(POLICY) as bridge:
        why = place.refused(bridge, COMMIT.replace(TREE, "1" * 40))
        assert "have more than 16 MiB" in why or "cannot read an object" in why
        assert place.sign(bridge, COMMIT).status == 0


@pytest.mark.parametrize("format_", ["sha1", "sha256"])
def test_packed_objects_and_formats(place: Signed, format_: str) -> None:
    project = place.world.project
    shutil.rmtree(project / ".git")
    place.world.git("init", "-q", "-b", "main", f"--object-format={format_}")
    for number in range(3):
        (project / "file").write_text(f"{number}\n" * 100)
        place.world.git("add", "file")
        place.world.git("commit", "-q", "-m", "text")
    place.world.git("gc", "-q")
    tree, parent = place.world.git("rev-parse", "HEAD^{tree}"), place.world.git("rev-parse", "HEAD~1")
    payload = COMMIT.replace(TREE, f"{tree}\nparent {parent}")
    with place.world.bridge(POLICY) as bridge:
        assert place.sign(bridge, payload).status == 0
        absent = "1" * len(tree)
        assert "is no object of this repository" in place.refused(bridge, payload.replace(parent, absent))


@pytest.mark.parametrize("where", ["nowhere", "a denied repository", "outside"])
def test_other_directories(place: Signed, where: str) -> None:
    policy = f"{POLICY}\nfilesystem: {{deny: [$PROJECT/.git/objects]}}" if "denied" in where else POLICY
    folder = place.world.root / "outside" if where == "outside" else place.world.project
    folder.mkdir(exist_ok=True)
    if where == "nowhere":
        shutil.rmtree(place.world.project / ".git")
    with place.world.bridge(policy) as bridge:
        done = place.sign(bridge, COMMIT, cwd=folder)
    said = {
        "nowhere": "there is no git repository here",
        "a denied repository": "the policy keeps the sandbox from",
        "outside": "is outside of the workspace",
    }[where]
    assert (done.status, done.stdout) == (126, b"")
    assert said in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-Y", "sign", "-n", "file", "-f", KEY), "the namespace 'file' is not signed"),
        (("-Y", "sign", "-n", "git\n", "-f", KEY), "the namespace"),
        (("-Y", "sign", "-f", KEY), "the namespace ''"),
        (("-Y", "sign", "-n", "git", "-n", "file", "-f", KEY), "'-n' is not let through"),
        (("-Y", "sign", "-n", "git", "-f", KEY, "-f", "~/.ssh/other.pub"), "'-f' is not let through"),
        (("-Y", "sign", "-n", "git", "-f", "~/.ssh/other.pub"), "does not list the key ~/.ssh/other.pub"),
        (("-Y", "sign", "-n", "git", "-f", "~/.ssh/../.ssh/id.pub"), "does not list the key"),
        (("-Y", "sign", "-n", "git", "-f", "/etc/ssh/ssh_host_ed25519_key"), "does not list the key"),
        (("-Y", "sign", "-n", "git", "-f", ""), "only `ssh-keygen -Y sign"),
        (("-Y", "sign", "-n", "git", "-f"), "only `ssh-keygen -Y sign"),
        (("-Y", "sign", "-n", "git", "-f", KEY, "-O", "hashalg=sha1"), "'-O' is not let through"),
        (("-Y", "sign", "-n", "git", "-f", KEY, "-D/x/pkcs11.so"), "'-D/x/pkcs11.so' is not let through"),
        (("-Y", "sign", "-n", "git", "-f", KEY, "-w/x/provider.so"), "'-w/x/provider.so' is not let through"),
        (("-Y", "sign", "-ngit", "-f", KEY), "'-ngit' is not let through"),
        (("-Y", "sign", "-n", "git", "-f", KEY, "-q"), "'-q' is not let through"),
    ],
)  # fmt: skip
def test_other_work_and_other_keys(place: Signed, words: tuple[str, ...], said: str) -> None:
    with place.world.bridge(POLICY) as bridge:
        assert said in place.refused(bridge, COMMIT, *words)


@pytest.mark.parametrize("words", [("-y", "-f", KEY), ("-s", "ca", KEY), ("-Y", "find-principals")])
def test_the_bridge_itself_takes_nothing_else(place: Signed, words: tuple[str, ...]) -> None:
    """The bridge checks calls itself, because a program inside needs no shim to talk to it."""
    with place.world.bridge(POLICY) as bridge:
        assert _directly(place, bridge, words, b"") == FrameKind.REFUSED
    (line,) = place.world.audit("refused")
    assert "is let through" in line["why"] or "not let through" in line["why"]


def _directly(place: Signed, bridge: Bridge, words: tuple[str, ...], data: bytes) -> FrameKind:
    """Call without a shim, and return the kind of the last frame."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(30)
        connection.connect(str(bridge.socket))
        directory = str(place.world.project).encode()
        request = CallRequest(b"ssh-keygen", directory, tuple(word.encode() for word in words))
        connection.sendall(encode_request(request))
        reader, last = frames.FrameReader(frozenset(FrameKind)), FrameKind.CALL
        with contextlib.suppress(ConnectionError):  # the client sends on after the last frame
            while received := connection.recv(1 << 16):
                for frame in reader.feed(received):
                    last = frame.kind
                    if last == FrameKind.CREDIT:
                        connection.sendall(data)
    return last


def test_a_huge_text(place: Signed) -> None:
    """The text exceeds the granted size, in endless frames: the connection ends, and the bridge goes on."""
    with place.world.bridge(POLICY) as bridge:
        assert "more than 1048576 bytes" in place.refused(bridge, COMMIT + "x" * (4 << 20))
        one = frames.encode_frame(FrameKind.STDIN, b"x" * (1 << 19))
        assert _directly(place, bridge, SIGN, one * 40) in (FrameKind.REFUSED, FrameKind.CREDIT)
        call = frames.encode_frame(FrameKind.CALL, b"\1")
        assert _directly(place, bridge, SIGN, call) == FrameKind.REFUSED
        assert not place.world.audit("call", 0)
        assert place.sign(bridge, COMMIT).status == 0


def test_a_thousand_requests(place: Signed) -> None:
    """A refused request starts no program and leaves nothing behind; the bridge goes on signing."""
    bad = frames.encode_frame(FrameKind.STDIN, b"a message\n") + frames.encode_frame(FrameKind.STDIN)
    with place.world.bridge(POLICY) as bridge:
        with ThreadPoolExecutor(16) as pool:
            ended = list(pool.map(lambda _: _directly(place, bridge, SIGN, bad), range(1000)))
        assert set(ended) == {FrameKind.REFUSED}
        assert len(place.world.audit("refused", 1000)) == 1000
        assert place.sign(bridge, COMMIT).status == 0
        private = bridge.public.parent / "private"
        assert not list(private.glob("sign-*"))


@pytest.mark.parametrize("how", ["another key", "a link to another key", "a link into the project", "gone"])
def test_a_key_that_is_exchanged_later(place: Signed, how: str) -> None:
    """The signature must be made by the listed key, whatever lies at its path by then."""
    with place.world.bridge(POLICY) as bridge:
        assert place.sign(bridge, COMMIT).status == 0
        (place.ssh / "id").unlink()
        if how == "another key":
            for end in ("", ".pub"):
                shutil.copy(place.ssh / f"other{end}", place.ssh / f"id{end}")
        elif how == "a link to another key":
            (place.ssh / "id").symlink_to("other")
            (place.ssh / "id.pub").unlink()
        elif how == "a link into the project":
            shutil.copy(place.ssh / "other", place.world.project / "planted")
            (place.ssh / "id").symlink_to(place.world.project / "planted")
            (place.ssh / "id.pub").unlink()
        why = place.refused(bridge, COMMIT)
    assert ("did not sign" if how == "gone" else "another key than the listed one") in why


@pytest.mark.parametrize("listed", ["path", "fingerprint"])
def test_an_agents_key(place: Signed, listed: str) -> None:
    """The key has a passphrase and its file is gone: only the host's agent can sign."""
    public = place.make_key("locked", "a passphrase").strip()
    shown = process.run("ssh-keygen", "-l", "-f", place.ssh / "locked.pub").text.split()[1]
    key = "~/.ssh/locked.pub" if listed == "path" else shown
    policy = f"credentials: {{signing: ['{key}']}}"
    with (
        agent(place, "locked", passphrase="a passphrase") as variables,
        place.world.bridge(policy, environment=variables) as bridge,
    ):
        for name in (key, public):
            done = place.sign(bridge, COMMIT, "-Y", "sign", "-n", "git", "-f", name)
            assert done.status == 0, done
        words = ("-Y", "sign", "-n", "git", "-f", "~/.ssh/other.pub")
        assert f"does not list the key ~/.ssh/other.pub, but {key}" in place.refused(bridge, COMMIT, *words)
        process.run("ssh-add", "-q", "-D", env={**os.environ, **variables})
        words = ("-Y", "sign", "-n", "git", "-f", key)
        assert "ssh-keygen on the host did not sign" in place.refused(bridge, COMMIT, *words)


@pytest.mark.parametrize(
    ("key", "error", "said"),
    [
        ("~/.ssh/locked.pub", UsageError, "no agent"),
        ("~/.ssh/missing.pub", HostError, "No such file"),
        ("~/.ssh/id", UsageError, "no public key of ssh-keygen's"),
        ("~/.ssh/id-cert.pub", UsageError, "no public key of ssh-keygen's"),
        ("SHA256:" + "A" * 43, UsageError, "the host's ssh-agent has no such key"),
        ("/PROJECT/key.pub", UsageError, "may be written by the sandbox"),
        ("~/.ssh/linked.pub", UsageError, "may be written by the sandbox"),
        ("gpg:" + "0" * 40, UsageError, "gpg has no such secret key"),
    ],
)
def test_keys_that_no_bridge_takes(place: Signed, key: str, error: type[SandwrightError], said: str) -> None:
    if "gpg" in key and not shutil.which("gpg"):
        pytest.skip("gpg")
    place.make_key("locked", "a passphrase")
    shutil.copy(place.ssh / "id.pub", place.world.project / "key.pub")
    (place.ssh / "linked.pub").symlink_to(place.world.project / "key.pub")
    process.run("ssh-keygen", "-q", "-s", place.ssh / "other", "-I", "x", "-n", "x", place.ssh / "id.pub")
    policy = f"credentials: {{signing: ['{key.replace('/PROJECT', str(place.world.project))}']}}"
    with pytest.raises(error) as raised, place.world.bridge(policy):
        pass
    said = "the host's ssh-agent does not have this key" if said == "no agent" else said
    assert said in str(raised.value)
    assert "credentials.signing" in str(raised.value)


@pytest.mark.needs("gpg")
def test_a_key_ring_that_the_sandbox_writes(place: Signed) -> None:
    """Such a key ring is refused, because gpg.conf names programs."""
    policy = f"credentials: {{signing: ['gpg:{'0' * 40}']}}"
    variables = {"GNUPGHOME": str(place.world.project)}
    with (
        pytest.raises(UsageError, match="may be written by the sandbox"),
        place.world.bridge(policy, environment=variables),
    ):
        pass


def test_many_files_are_open() -> None:
    """The bridge uses descriptors above 1024, as on a busy host."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        try:
            high = fcntl.fcntl(ours.fileno(), fcntl.F_DUPFD, 1500)
        except OSError:
            pytest.skip("the limit of open files")
        with socket.socket(fileno=high) as connection:
            stopped = ended(connection, ours.fileno())
            assert not stopped()
            theirs.send(b"x")
            assert stopped()


def test_a_shim_of_the_same_name(place: Signed) -> None:
    policy = f"credentials: {{signing: [{KEY}], shims: {{ssh-keygen: {{allow: [-l]}}}}}}"
    with pytest.raises(UsageError, match=r"credentials\.shims\.ssh-keygen"), place.world.bridge(policy):
        pass


def test_all_else_is_the_sandboxs_own_program(place: Signed) -> None:
    """Verifying, or signing with a key inside, needs the sandbox's own program; the shim reports its lack."""
    git = place.world
    own = git.project / "own"
    process.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", own)
    with git.bridge(POLICY) as bridge:
        inside = {"PATH": f"{bridge.bin}:{IDENTITY['PATH']}", "HOME": str(git.root / "elsewhere")}
        for words in (("-l", "-f", f"{own}.pub"), ("-Y", "sign", "-n", "file", "-f", str(own), "file")):
            done = process.run(bridge.bin / "ssh-keygen", *words, cwd=git.project, env=inside, check=False)
            assert done.status == 0, done
        assert (git.project / "file.sig").read_text().startswith("-----BEGIN SSH SIGNATURE")
        bare = process.run(bridge.bin / "ssh-keygen", "-l", env={"PATH": str(bridge.bin)}, check=False)
        assert (bare.status, "not installed in this sandbox" in bare.stderr) == (127, True)
    assert not [line for line in git.audit("stop") if line["calls"]]


def test_no_file_is_left_of_a_refused_signature(place: Signed) -> None:
    text = place.world.project / "text"
    text.write_text("a message\n")
    with place.world.bridge(POLICY) as bridge:
        assert place.world.call(bridge, "ssh-keygen", *SIGN, str(text)).status == 126
        assert not text.with_suffix(".sig").exists()
        text.write_text(COMMIT)
        assert place.world.call(bridge, "ssh-keygen", *SIGN, str(text)).status == 0
        assert text.with_suffix(".sig").read_text().startswith("-----BEGIN SSH SIGNATURE")


def test_a_bridge_that_ends_signs_nothing_more(place: Signed) -> None:
    """A key that waits for its owner's confirmation does not delay the end."""
    place.world.tool("ssh-keygen", 'case $1 in -Y) exec sleep 60 ;; *) exec /usr/bin/ssh-keygen "$@" ;; esac')
    began = time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        with place.world.bridge(POLICY) as bridge:
            waiting = pool.submit(place.sign, bridge, COMMIT)
            time.sleep(1)
        done = waiting.result(timeout=30)
    assert done.status != 0
    assert time.monotonic() - began < 9


@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
def test_kinds_of_keys(place: Signed, kind: str) -> None:
    """All these kinds sign; a name may contain blanks, and one policy may list two keys."""
    public = place.make_key("a kind of key", kind=kind)
    name = "~/.ssh/a kind of key.pub"
    with place.world.bridge(f"credentials: {{signing: [{KEY}, '{name}']}}") as bridge:
        for key, file in ((name, "a kind of key"), (KEY, "id")):
            done = place.sign(bridge, COMMIT, "-Y", "sign", "-n", "git", "-f", key)
            assert done.status == 0, done
            signature = place.world.root / "signature"
            signature.write_bytes(done.stdout)
            allowed = place.world.root / "allowed"
            allowed.write_text(f"a {(place.ssh / f'{file}.pub').read_text()}")
            words = ("-Y", "verify", "-n", "git", "-f", allowed, "-I", "a", "-s", signature)
            assert process.run("ssh-keygen", *words, stdin=COMMIT.encode(), check=False).status == 0
    assert parse_public(public) == " ".join(public.split()[:2])


@pytest.mark.parametrize(
    "text",
    ["", "ssh-ed25519", "ssh-ed25519 AAAA", "ssh-dss " + "A" * 40, "ssh-rsa " + "A" * 41,
     "ssh-ed25519 " + "A" * 64,
     "command=x ssh-rsa AAAA", "x" * 20000],
)  # fmt: skip
def test_no_public_keys(text: str) -> None:
    assert parse_public(text) is None
