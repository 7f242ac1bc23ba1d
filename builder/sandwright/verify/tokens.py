"""Two tokens for one run, a program on the host that reports which of them it got, and a bridge to it.

The host has token A in the variable that the program reads, and token B for the sandbox in another one, like
a person who logged in and set one aside for sandboxes. Both begin with a unique text, by which they are
searched for where neither must be; the text itself is no secret.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from sandwright import process
from sandwright.bridge.directory import Bridge
from sandwright.bridge.environment import KEPT
from sandwright.bridge.start import serve
from sandwright.launcher.run_document import RunDocument
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.verify.fixture import Fixture

NAME = "canary-token"
"""The planted program and its shim."""

VARIABLE = "CANARY_TOKEN"
SOURCE = "VERIFY_CANARY_TOKEN"
"""The variable in which the program expects its token, and the host's variable with the sandbox's token."""

_TELLER = f"""#!/bin/sh
digest() {{
    if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi
}}
printf %s "${VARIABLE}" | digest | cut -c1-64
"""
_SILENT = "#!/bin/sh\nexit 0\n"


@dataclass(frozen=True)
class Tokens:
    """Both tokens, which begin with `needle`: `host` is A, `sandbox` is B; neither is ever shown."""

    needle: str
    host: str = field(repr=False)
    sandbox: str = field(repr=False)

    @property
    def environment(self) -> Mapping[str, str]:
        """The host's variables."""
        return {VARIABLE: self.host, SOURCE: self.sandbox}


def tokens() -> Tokens:
    """Unique tokens."""
    needle = f"sandwright-canary-{uuid.uuid4().hex[:16]}"
    return Tokens(needle, f"{needle}-A-{uuid.uuid4().hex}", f"{needle}-B-{uuid.uuid4().hex}")


def token_answer(token: str) -> bytes:
    """The output of the program for a token."""
    return hashlib.sha256(token.encode()).hexdigest().encode() + b"\n"


def settings() -> list[str]:
    """The layer of this run that names the shim, as settings that `run_layer` takes."""
    shim = {NAME: {"secrets": {VARIABLE: f"${{{SOURCE}}}"}, "allow": ["*"]}}
    return [f"credentials.shims={json.dumps(shim)}"]


@dataclass(frozen=True)
class Bridged:
    """A running bridge, with its files on the host."""

    bridge: Bridge
    directory: Path
    tokens: Tokens

    @property
    def environment(self) -> Mapping[str, str]:
        """The launcher's environment: both tokens, and the bridge's directory."""
        return {**self.tokens.environment, **self.bridge.environment}

    def document(self, document: RunDocument) -> RunDocument:
        """A run document that names the bridge."""
        return replace(document, shims=str(self.bridge.public), channel=self.bridge.channel)

    def directly(self) -> bytes:
        """The output of the program when the user starts it directly on the host."""
        environment = {"PATH": process.search_path(), **self.tokens.environment}
        return process.run(self.directory / "tools" / NAME, env=environment, timeout=60, check=False).stdout


@contextlib.contextmanager
def start_bridge(policy: ResolvedPolicy, fixture: Fixture, token_pair: Tokens) -> Iterator[Bridged]:
    """Run a bridge for a policy's shims, all of them with planted programs and canaries for secrets.

    No program, secret or key of the host's is used. Raise the exceptions of `serve`.
    """
    directory = fixture.hidden / "host"
    directory.mkdir()
    tools = directory / "tools"
    tools.mkdir()
    secrets = {SOURCE: token_pair.sandbox}
    for name, shim in policy.credentials.shims.items():
        (tools / name).write_text(_TELLER if name == NAME else _SILENT, encoding="ascii")
        (tools / name).chmod(0o755)
        secrets |= {
            host: f"{token_pair.needle}-B-{uuid.uuid4().hex}"
            for host in shim.secrets.values()
            if host != SOURCE
        }
    environment = {name: os.environ[name] for name in KEPT if name in os.environ}
    search = f"{tools}:{process.search_path()}"
    with serve(
        replace(policy, credentials=replace(policy.credentials, signing=())),
        audit=directory / "audit.jsonl",
        environment={**environment, **secrets, "PATH": search},
    ) as bridge:
        yield Bridged(bridge, directory, token_pair)
