"""The bridge process' configuration, which it reads as one JSON text from a pipe when it starts.

It contains the secrets, so it is never in arguments, an environment or a file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sandwright.bridge.access import AccessRule
from sandwright.documents import strictjson
from sandwright.policy.values import ShimCommand


@dataclass(frozen=True)
class CallLimits:
    """The limits of calls, in seconds and bytes."""

    call_seconds: float = 600.0
    """For a whole call. Then the program is ended, and the shim exits with 124."""

    output_bytes: int = 8 << 30
    """Of standard output and standard error together. Then the program is ended."""

    input_bytes: int = 8 << 30
    """Of standard input."""

    calls: int = 128
    """Concurrent calls; further ones wait."""

    connections: int = 512
    """Concurrent connections; further ones are closed."""

    greeting_seconds: float = 10.0
    """From the connection until the whole call has arrived."""

    grace_seconds: float = 2.0
    """Between telling a program to end and killing it."""


@dataclass(frozen=True)
class ShimProgram:
    """One shim's program: its file on the host, the policy's entries, and its secrets by variable."""

    path: str
    allow: tuple[ShimCommand, ...]
    secrets: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True)
class ChangesProgram:
    """The program behind `sandwright-changes`: its words, without the form, and variables."""

    words: tuple[str, ...]
    environment: Mapping[str, str]


@dataclass(frozen=True)
class CommitKey:
    """A signing key on the host. `written` is the key as the policy spells it.

    `path` is the program that signs with it, `program` the name of its shim. `public` is the key as in a
    `.pub` file without its comment, or a fingerprint of gpg; a call may use any of `names` for it. `file` is
    that of the private key, empty for one in an agent. `variables` are those of the host by which agents are
    found.
    """

    written: str
    path: str
    program: str
    public: str
    names: tuple[str, ...]
    file: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Configuration:
    """The configuration of one bridge.

    `public` is the directory that the sandbox sees, with the shims and the socket. `private`, beside it, is
    the bridge's; the directory above both goes when the bridge ends. `audit` is the file that gets a line for
    each call. `uids` may connect. `environment` are the host's variables that programs may get.
    `repositories` are those with known remotes. `access` are the policy's rules for the workspace.
    `loopback`: the sandbox has another network, so this machine's loopback addresses are separate.
    `restricting`: see `RestrictedGit`. `changes` lists the changes of the session's workspace, None without a
    review.
    """

    session: str
    workspace: Path
    public: Path
    private: Path
    audit: Path
    programs: Mapping[str, ShimProgram]
    uids: tuple[int, ...]
    environment: Mapping[str, str]
    access: tuple[AccessRule, ...]
    loopback: bool = True
    restricting: tuple[str, str] | None = None
    repositories: tuple[tuple[str, ...], ...] = ()
    limits: CallLimits = CallLimits()
    signing: tuple[CommitKey, ...] = ()
    changes: ChangesProgram | None = None

    def to_json(self) -> bytes:
        """Encode the configuration as JSON, including the secrets."""
        return json.dumps(asdict(self), default=str).encode("utf-8", "surrogateescape")

    @classmethod
    def from_json(cls, text: bytes) -> Configuration:
        """Decode the output of `to_json`."""
        data: dict[str, Any] = strictjson.loads_record(text.decode("utf-8", "surrogateescape"))
        programs = {
            name: ShimProgram(each["path"], tuple(map(_command, each["allow"])), each["secrets"])
            for name, each in data["programs"].items()
        }
        return cls(
            session=data["session"],
            workspace=Path(data["workspace"]),
            public=Path(data["public"]),
            private=Path(data["private"]),
            audit=Path(data["audit"]),
            programs=programs,
            uids=tuple(data["uids"]),
            environment=data["environment"],
            access=tuple(AccessRule(*each) for each in data["access"]),
            loopback=data["loopback"],
            restricting=None
            if data["restricting"] is None
            else (data["restricting"][0], data["restricting"][1]),
            repositories=tuple(map(tuple, data["repositories"])),
            limits=CallLimits(**data["limits"]),
            signing=tuple(CommitKey(**{**each, "names": tuple(each["names"])}) for each in data["signing"]),
            changes=None if data["changes"] is None else _changes_program(data["changes"]),
        )


def _changes_program(data: Mapping[str, Any]) -> ChangesProgram:
    return ChangesProgram(tuple(data["words"]), data["environment"])


def _command(data: Mapping[str, Any]) -> ShimCommand:
    words: Sequence[str] = data["words"]
    return ShimCommand(tuple(words), data["more"])
