"""A small world for the bridge: a project, a home, a policy, and a running bridge."""

from __future__ import annotations

import contextlib
import json
import os
import struct
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandwright import process
from sandwright.api import Policy
from sandwright.bridge import frames
from sandwright.bridge.configuration import CallLimits
from sandwright.bridge.directory import Bridge
from sandwright.bridge.frames import CallRequest
from sandwright.bridge.start import serve
from sandwright.policy.collect import collect_facts
from sandwright.policy.resolved import ResolvedPolicy
from support.githttp import GitServer, git_server
from support.standby import COMMAND as SANDWRIGHT

IDENTITY = {
    "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "PATH": "/usr/local/bin:/usr/bin:/bin",
}  # fmt: skip


@dataclass
class World:
    """The directories of a test of the bridge. Paths are short, because a socket's has to be."""

    root: Path

    @property
    def project(self) -> Path:
        """The workspace."""
        return self.root / "p"

    @property
    def log(self) -> Path:
        """The audit log."""
        return self.root / "audit.jsonl"

    def policy(self, text: str) -> ResolvedPolicy:
        """A policy for the project, on this host."""
        loaded = Policy.from_text(f"schema: 1\nmethod: bwrap\n{text}")
        environ = {"HOME": str(self.root / "home"), "PATH": os.environ["PATH"]}
        return loaded.resolve(collect_facts(loaded, project=self.project, environ=environ))

    @contextlib.contextmanager
    def bridge(
        self,
        text: str,
        *,
        environment: Mapping[str, str] | None = None,
        limits: CallLimits | None = None,
        directory: str | None = "b",
    ) -> Iterator[Bridge]:
        """A bridge for a policy, in a directory of the world, or with None in that of runs.

        Programs are looked for in the world's `tools` first.
        """
        place = None if directory is None else self.root / directory
        path = f"{self.root / 'tools'}:{os.environ['PATH']}"
        with serve(
            self.policy(text), directory=place, audit=self.log, limits=limits,
            environment={"PATH": path, "HOME": str(self.root / "home"), **(environment or {})},
        ) as bridge:  # fmt: skip
            yield bridge

    def tool(self, name: str, script: str) -> None:
        """A program of the host."""
        path = self.root / "tools" / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def call(self, bridge: Bridge, *argv: str, cwd: Path | None = None, stdin: bytes = b"") -> process.Result:
        """Call a shim like a program of the sandbox."""
        where = cwd or self.project
        return process.run(
            bridge.bin / argv[0], *argv[1:], cwd=where, stdin=stdin, check=False, timeout=60, env={}
        )

    def audit(self, event: str, count: int = 1) -> list[dict[str, Any]]:
        """At least this number of lines of an event: a line is written after the shim got its answer."""
        until = time.monotonic() + 40
        while True:
            lines = [json.loads(line) for line in self.log.read_text().splitlines()]
            found = [line for line in lines if line["event"] == event]
            if len(found) >= count or time.monotonic() > until:
                return found
            time.sleep(0.02)

    def git(self, *argv: str, cwd: Path | None = None) -> str:
        """git on the host's side, as the owner of everything."""
        return process.run("git", *argv, cwd=cwd or self.project, env=IDENTITY, timeout=60).text

    def sandwright(self, *argv: str, **environment: str) -> process.Result:
        """The command, with its data in the world; but the compiled shim is the user's."""
        kept = os.environ.get("SANDWRIGHT_CACHE") or str(Path.home() / ".cache" / "sandwright")
        return process.run(
            *SANDWRIGHT, *argv, cwd=self.project, check=False, timeout=60,
            env={
                "PATH": f"{self.root / 'tools'}:{os.environ['PATH']}", "HOME": str(self.root / "home"),
                "PYTHONPATH": str(Path(__file__).parents[2] / "builder"), "SANDWRIGHT_CACHE": kept,
                "SANDWRIGHT_TRUST": "1", **environment,
            },
        )  # fmt: skip

    @contextlib.contextmanager
    def git_server(self, token: str) -> Iterator[GitServer]:
        """A server with an empty repository, which is the project's remote `origin`."""
        served = self.root / "served"
        self.git("init", "-q", "--bare", str(served / "r.git"), cwd=self.root)
        self.git("config", "http.receivepack", "true", cwd=served / "r.git")
        with git_server(served, token) as running:
            self.git("remote", "add", "origin", f"{running.url}/r.git")
            yield running

    def commit(self) -> None:
        """A repository with one commit of one file."""
        self.git("init", "-q", "-b", "main")
        (self.project / "file").write_text("one\n")
        self.git("add", "file")
        self.git("commit", "-q", "-m", "first")


@contextlib.contextmanager
def world(base: str | None = None) -> Iterator[World]:
    """A new world, removed at the end. `base` replaces the directory for temporary files."""
    with tempfile.TemporaryDirectory(prefix="sw-", dir=base) as name:
        root = Path(name).resolve()
        for each in ("p", "home", "tools"):
            (root / each).mkdir()
        yield World(root)


def encode_request(request: CallRequest) -> bytes:
    """The CALL of a request, as a shim sends it."""
    words = (request.program, request.directory, *request.arguments)
    counted = b"".join(struct.pack(">I", len(word)) + word for word in words)
    head = struct.pack(">BI", frames.VERSION, len(words))
    return frames.encode_frame(frames.FrameKind.CALL, head + counted)
