"""The keys of `credentials.signing`, found on the host when the bridge starts, which reads no private key.

A private key stays where it is: in the host's ssh-agent, in a file without a passphrase, or with gpg-agent.
The bridge keeps the public key, and compares every signature with it. So a file that is replaced later cannot
introduce another key.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from sandwright import process
from sandwright.bridge.configuration import CommitKey
from sandwright.bridge.secret import Reach
from sandwright.errors import CommandFailed, HostError, ToolMissing, UsageError
from sandwright.policy.resolved import ResolvedPolicy

SSH, GPG = "ssh-keygen", "gpg"
"""The programs that Git starts to sign, and the names of their shims."""

MAX_PUBLIC = 16 << 10
"""Bytes of a public key's file."""

_PUBLIC = re.compile(
    r"(?:ssh-(?:ed25519|rsa)|ecdsa-sha2-nistp(?:256|384|521)|sk-(?:ssh-ed25519|ecdsa-sha2-nistp256)@openssh\.com)"
    r" (?P<blob>[A-Za-z0-9+/]{16,}={0,2})(?: [^\n]*)?\n?"
)
_ENVIRONMENT = ("SSH_AUTH_SOCK", "GNUPGHOME", "HOME", "XDG_RUNTIME_DIR")


def signing_keys(
    policy: ResolvedPolicy, environment: Mapping[str, str], path: str, sandbox: Reach
) -> Iterator[CommitKey]:
    """Find the signing keys of a policy. Programs are searched for on `path`.

    Raise UsageError for a key that the sandbox could replace or that can't sign now, HostError for one that
    can't be read, ToolMissing for a missing program.
    """
    variables = {name: environment[name] for name in _ENVIRONMENT if name in environment}
    for text in policy.credentials.signing:
        name = GPG if text.startswith("gpg:") else SSH
        if name in policy.credentials.shims:
            raise UsageError(f"credentials.shims.{name}: credentials.signing runs {name} itself")
        program = _signing_program(name, path, sandbox)
        if name == GPG:
            yield _gpg_key(text, program, {**variables, "PATH": path}, sandbox)
        else:
            yield _ssh_key(text, program, {**variables, "PATH": path}, policy.facts.home, sandbox)


def _signing_program(name: str, path: str, sandbox: Reach) -> str:
    found = shutil.which(name, path=path)
    if found is None:
        raise ToolMissing(name, "credentials.signing runs it on the host")
    if sandbox.writes(found):
        raise UsageError(f"credentials.signing: {found} may be written by the sandbox")
    return found


def fingerprint(public: str) -> str:
    """The SHA-256 fingerprint of a public key as `ssh-keygen -l` prints it."""
    digest = hashlib.sha256(base64.b64decode(public.split(" ")[1])).digest()
    return f"SHA256:{base64.b64encode(digest).decode('ascii').rstrip('=')}"


def parse_public(text: str) -> str | None:
    """Type and key of a line of a file such as `id_rsa.pub`; None for anything else, also certificates."""
    found = _PUBLIC.fullmatch(text)
    if found is None or len(text) > MAX_PUBLIC:
        return None
    kind, blob = text.split()[:2]
    try:
        raw = base64.b64decode(blob, validate=True)
    except binascii.Error:
        return None
    return f"{kind} {blob}" if raw[4 : 4 + len(kind)] == kind.encode("ascii") else None


def _ssh_key(text: str, program: str, environment: Mapping[str, str], home: str, sandbox: Reach) -> CommitKey:
    agent = _agent_keys(environment, sandbox)
    if text.startswith("SHA256:"):
        public = next((each for each in agent if fingerprint(each) == text), None)
        if public is None:
            raise UsageError(f"credentials.signing: {text}: the host's ssh-agent has no such key{_HOW}")
        return CommitKey(text, program, SSH, public, (public, text), variables=environment)
    path = home + text[1:] if text.startswith("~") else text
    private = path.removesuffix(".pub")
    for each in (path, private):
        if sandbox.writes(each):
            raise UsageError(f"credentials.signing: {each} may be written by the sandbox")
    public = _read_public(path, text)
    names = [public, fingerprint(public)]
    for each in dict.fromkeys((text, path, *(_below_home(each, home) for each in (path, private)))):
        names += [each, each.removesuffix(".pub")]
    file = "" if public in agent else _usable_file(private, public, program, environment)
    if public not in agent and not file:
        raise UsageError(
            f"credentials.signing: {text}: the host's ssh-agent does not have this key, and there is no "
            f"{private} without a passphrase{_HOW}"
        )
    return CommitKey(text, program, SSH, public, tuple(dict.fromkeys(names)), file, environment)


_HOW = "; add it with ssh-add to the agent at SSH_AUTH_SOCK"


def _below_home(path: str, home: str) -> str:
    return f"~{path[len(home) :]}" if path.startswith(f"{home}/") else path


def _read_public(path: str, text: str) -> str:
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_PUBLIC + 1).decode()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "is no text"
        raise HostError(f"credentials.signing: {text}: {why}") from None
    public = parse_public(content)
    if public is None:
        raise UsageError(f"credentials.signing: {text}: no public key of ssh-keygen's; name the file .pub")
    return public


def _agent_keys(environment: Mapping[str, str], sandbox: Reach) -> list[str]:
    """The public keys in the agent; none where there is no agent."""
    if "SSH_AUTH_SOCK" not in environment:
        return []
    program = _signing_program("ssh-add", environment["PATH"], sandbox)
    listed = process.run(program, "-L", env=environment, timeout=20, check=False).stdout
    found = map(parse_public, listed.decode(errors="replace").splitlines())
    return [public for public in found if public is not None]


def _usable_file(private: str, public: str, program: str, environment: Mapping[str, str]) -> str:
    """The file of a private key without a passphrase; empty if it is none, or belongs to another key."""
    derived = process.run(
        program, "-y", "-P", "", "-f", private, env={**environment, "SSH_ASKPASS_REQUIRE": "never"},
        timeout=20, check=False,
    )  # fmt: skip
    return private if parse_public(derived.stdout.decode(errors="replace")) == public else ""


def _gpg_key(text: str, program: str, environment: Mapping[str, str], sandbox: Reach) -> CommitKey:
    home = environment.get("GNUPGHOME") or f"{environment.get('HOME', '')}/.gnupg"
    for path in (home, f"{home}/gpg.conf"):  # it names programs that gpg starts
        if sandbox.writes(path):
            raise UsageError(f"credentials.signing: {path} may be written by the sandbox")
    primary = text.removeprefix("gpg:").upper()
    try:
        listed = process.run(
            program, "--batch", "--no-tty", "--with-colons", "--list-secret-keys", primary,
            env=environment, timeout=20,
        ).text  # fmt: skip
    except CommandFailed:
        raise UsageError(f"credentials.signing: {text}: gpg has no such secret key") from None
    lines = [line.split(":") for line in listed.splitlines()]
    names = [each[9] for each in lines if each[0] in ("fpr", "uid") and len(each) > 9]
    if primary not in names:
        raise UsageError(f"credentials.signing: {text}: give the fingerprint of the primary key")
    return CommitKey(text, program, GPG, primary, tuple(names), variables=environment)
