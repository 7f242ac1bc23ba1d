"""Signs commits and tags on the host, with the keys of `credentials.signing`.

Git inside starts the shim in the place of ssh-keygen or gpg. The shim sends the whole text, so the bridge can
check it before signing. A filter in front of an ssh-agent would see only a hash. The text must be a commit or
tag (`sandwright.bridge.signed_payload`), the objects that it names must be in this repository, and the key
must be listed. Then the host's program signs it, with arguments of the bridge only, and the key in the
signature is compared with the requested one.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from sandwright import process
from sandwright.bridge import frames
from sandwright.bridge.children import Children
from sandwright.bridge.configuration import CommitKey, Configuration
from sandwright.bridge.directory import SESSION_MARK
from sandwright.bridge.environment import program_environment
from sandwright.bridge.frames import FrameKind, ProtocolError
from sandwright.bridge.git import READERS
from sandwright.bridge.grammar import Refused, quote_words
from sandwright.bridge.keys import GPG, fingerprint
from sandwright.bridge.objects import read_objects
from sandwright.bridge.repository import find_repository
from sandwright.bridge.restricted import RestrictedGit
from sandwright.bridge.signed_payload import MAX_PAYLOAD, SignedPayload, parse_payload
from sandwright.bridge.workspace import OpenWorkspace
from sandwright.errors import CommandFailed

SIGN_SECONDS = 120.0
"""Seconds for the program that signs: its owner may have to touch a key or to type a passphrase."""

_SSH_FORM = "`ssh-keygen -Y sign -n git -f KEY`"
_ARMOUR = re.compile(
    r"-----BEGIN SSH SIGNATURE-----\n(?P<body>[A-Za-z0-9+/=\n]+)-----END SSH SIGNATURE-----\n"
)
_CREATED = re.compile(r"^\[GNUPG:\] SIG_CREATED D (?:[^ \n]+ ){4}(?P<key>[0-9A-F]{40})$", re.MULTILINE)


@dataclass(frozen=True)
class SignatureAnswer:
    """The whole answer to a shim; for the log, the kind of object and the fingerprint of the key."""

    frames: bytes
    signed: str
    key: str


class CommitSigner:
    """Signs commits and tags for one bridge."""

    def __init__(
        self, configuration: Configuration, workspace: OpenWorkspace, children: Children, stop: int
    ) -> None:
        """`stop` is a descriptor that is readable when the bridge ends."""
        self._configuration = configuration
        self._keys = configuration.signing
        self._workspace = workspace
        self._children = children
        self._stop = stop
        self._reading = threading.BoundedSemaphore(READERS)

    @property
    def programs(self) -> frozenset[str]:
        """The names of the shims that sign."""
        return frozenset(each.program for each in self._keys)

    def key(self, program: str, arguments: Sequence[str]) -> CommitKey:
        """The key that a call asks for. Raise Refused for an unlisted key, and for other operations."""
        name = _gpg_name(arguments) if program == GPG else _ssh_name(arguments)
        matches = _is_gpg_name if program == GPG else _is_ssh_name
        keys = [each for each in self._keys if each.program == program]
        found = next((each for each in keys if matches(name, each)), None)
        if found is None:
            listed = ", ".join(each.written for each in keys)
            raise Refused(f"credentials.signing does not list the key {quote_words([name])}, but {listed}")
        return found

    def answer(
        self,
        connection: socket.socket,
        reader: frames.FrameReader,
        request: frames.CallRequest,
    ) -> SignatureAnswer:
        """Sign for a call.

        Raise Refused unless the text is a commit or tag of the repository of its directory, for an unlisted
        key or another operation, and if the host's program doesn't sign; ProtocolError as `read_payload`
        does.
        """
        try:
            arguments = [word.decode() for word in request.arguments]
            parts = self._workspace.relative(request.directory.decode("utf-8", "surrogateescape"))
        except UnicodeDecodeError:
            raise Refused("arguments that are no UTF-8 are not passed on") from None
        key = self.key(request.program.decode("ascii"), arguments)
        data = read_payload(connection, reader, self._configuration.limits.greeting_seconds)
        payload = parse_payload(data)
        with (
            TemporaryDirectory(prefix="sign-", dir=self._configuration.private) as directory,
            self._children.working(),
        ):
            scratch = Path(directory)
            self._check_objects(payload, parts, scratch)
            done = self._signed(key, data, scratch, ended(connection, self._stop))
        check_signature(key, done)
        answer = frames.encode_frame(FrameKind.STDOUT, done.stdout)
        answer += frames.encode_frame(FrameKind.STDERR, _status_lines(key, done)) + frames.encode_exit(0)
        name = key.public if key.program == GPG else fingerprint(key.public)
        return SignatureAnswer(answer, str(payload), name)

    def _check_objects(self, payload: SignedPayload, parts: tuple[str, ...], scratch: Path) -> None:
        location = find_repository(self._workspace, parts)
        names = [name for name, _ in payload.objects]
        restricted = RestrictedGit(self._configuration.restricting)
        with self._reading:
            check_objects(payload, read_objects(self._workspace, location, names, scratch, restricted))

    def _signed(self, key: CommitKey, data: bytes, scratch: Path, stop: Callable[[], bool]) -> process.Result:
        """Run the host's signing program, with arguments of ours, on the text that was checked."""
        file = scratch / "payload"
        file.write_bytes(data)
        public = scratch / "key.pub"
        public.write_text(f"{key.public}\n", encoding="ascii")
        words = (
            ("--batch", "--no-tty", "--status-fd=2", "-bsau", key.public)
            if key.program == GPG
            else ("-Y", "sign", "-n", "git", "-f", key.file or str(public))
        )
        home = scratch / "home"
        home.mkdir()
        environment = program_environment(self._configuration.environment, home=home)
        marks = {"SSH_ASKPASS_REQUIRE": "never", SESSION_MARK: self._configuration.session}
        try:
            with file.open("rb") as stdin:
                return process.run(
                    key.path, *words, stdin=stdin, cwd=home, timeout=SIGN_SECONDS, stop=stop,
                    env={**environment, **key.variables, **marks},
                )  # fmt: skip
        except CommandFailed as error:
            raise Refused(_why_unsigned(key, error)) from error


def read_payload(connection: socket.socket, reader: frames.FrameReader, seconds: float) -> bytes:
    """Read the whole input of a shim, for at most `seconds`.

    Raise Refused for too much, ProtocolError for other frames.
    """
    until = time.monotonic() + seconds
    data = bytearray()
    connection.settimeout(seconds)
    connection.sendall(frames.encode_credit(MAX_PAYLOAD + 1))
    while True:
        connection.settimeout(max(0.01, until - time.monotonic()))
        try:
            received = connection.recv(1 << 16)
        except TimeoutError:
            raise Refused(f"the text to be signed did not arrive within {seconds:g} s") from None
        if not received:
            raise ProtocolError("the connection ended before all that is to be signed had come")
        for frame in reader.feed(received):
            if frame.kind != FrameKind.STDIN:
                raise (
                    Refused("interrupted")
                    if frame.kind == FrameKind.SIGNAL
                    else ProtocolError("a second call")
                )
            if not frame.payload:
                return bytes(data)
            data += frame.payload
            if len(data) > MAX_PAYLOAD:
                raise Refused(f"more than {MAX_PAYLOAD} bytes are not signed")


def ended(connection: socket.socket, stop: int) -> Callable[[], bool]:
    """Whether a shim has ended its call or its connection, or the bridge ends."""
    poll = select.poll()
    for fd in (connection.fileno(), stop):
        poll.register(fd, select.POLLIN)
    return lambda: bool(poll.poll(0))


def check_objects(payload: SignedPayload, found: Mapping[str, tuple[str, bytes]]) -> None:
    """Raise Refused unless all objects that a commit or tag names were found, under their own names."""
    for name, kind in payload.objects:
        if name not in found:
            raise Refused(f"{kind} {name} is no object of this repository")
        what, content = found[name]
        if what != kind:
            raise Refused(f"{name} is a {what}, and no {kind}")
        hashed = hashlib.sha256 if len(name) == 64 else hashlib.sha1
        if hashed(f"{what} {len(content)}\0".encode("ascii") + content).hexdigest() != name:
            raise Refused(f"{kind} {name} does not match its digest")


def check_signature(key: CommitKey, done: process.Result) -> None:
    """Raise Refused for a signature of another key, or for another purpose: key files may have changed."""
    if key.program == GPG:
        created = _CREATED.search(done.stderr)
        if created is None or created["key"] not in key.names:
            raise Refused("gpg has signed with another key than the listed one; nothing is handed on")
        return
    armoured = _ARMOUR.fullmatch(done.stdout.decode("ascii", "replace"))
    try:
        raw = base64.b64decode(armoured["body"]) if armoured else b""
        public, namespace = _signature_fields(raw)
    except (binascii.Error, struct.error):
        public, namespace = b"", b""
    if public != base64.b64decode(key.public.split(" ")[1]) or namespace != b"git":
        raise Refused("ssh-keygen has signed with another key than the listed one; nothing is handed on")


def _signature_fields(raw: bytes) -> tuple[bytes, bytes]:
    """The public key and the namespace of a signature (PROTOCOL.sshsig).

    Raise struct.error if it is malformed.
    """
    if raw[:10] != b"SSHSIG\0\0\0\1":
        raise struct.error
    (length,) = struct.unpack_from(">I", raw, 10)
    (other,) = struct.unpack_from(">I", raw, 14 + length)
    return raw[14 : 14 + length], raw[18 + length : 18 + length + other]


def _ssh_name(arguments: Sequence[str]) -> str:
    """The key in ssh-keygen's arguments. -U means that the key is in an agent, which is true in any case."""
    values: dict[str, str] = {}
    rest = [word for word in arguments if word != "-U"]
    for option, value in zip(rest[::2], [*rest[1::2], ""], strict=False):
        if option not in ("-Y", "-n", "-f") or option in values:
            raise Refused(f"ssh-keygen: {quote_words([option])!r} is not let through, only {_SSH_FORM}")
        values[option] = value
    if values.get("-Y") != "sign" or not values.get("-f"):
        raise Refused(f"ssh-keygen: only {_SSH_FORM} is let through")
    if values.get("-n") != "git":
        namespace = quote_words([values.get("-n", "")])
        raise Refused(f"ssh-keygen: the namespace {namespace!r} is not signed, only `git`")
    return values["-f"]


def _gpg_name(arguments: Sequence[str]) -> str:
    if len(arguments) != 3 or tuple(arguments[:2]) != ("--status-fd=2", "-bsau"):
        raise Refused("gpg: only `gpg --status-fd=2 -bsau KEY` is let through")
    return arguments[2]


def _is_ssh_name(name: str, key: CommitKey) -> bool:
    return name in key.names or " ".join(name.split(" ")[:2]) in key.names


def _is_gpg_name(name: str, key: CommitKey) -> bool:
    """Whether a name is a fingerprint, the end of one, a user ID, or the address in one."""
    end = name.removesuffix("!").removeprefix("0x").upper()
    if re.fullmatch(r"[0-9A-F]{8,40}", end):
        return any(each.endswith(end) for each in key.names)
    return any(name in (each, each.partition("<")[2].removesuffix(">")) for each in key.names)


def _why_unsigned(key: CommitKey, error: CommandFailed) -> str:
    if error.status is None:
        return f"{key.program} on the host was ended before it had signed"
    lines = error.stderr.strip().splitlines() or ["no reason given"]
    return f"{key.program} on the host did not sign: {quote_words([lines[-1]])}"


def _status_lines(key: CommitKey, done: process.Result) -> bytes:
    """The lines that Git expects among gpg's messages."""
    created = _CREATED.search(done.stderr) if key.program == GPG else None
    return f"\n{created[0]}\n".encode("ascii") if created else b""
