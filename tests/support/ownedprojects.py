"""Projects whose commands run as their own account, for the tests of that."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import pwd
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sandwright.launcher.plan import parse_plan, plan_bytes
from sandwright.methods.user.render import DedicatedAccount, account_for
from sandwright.methods.user.setup import SharedTrees, plan_account
from support.launchers import launcher_of
from support.locks import accounts_change
from support.standby import COMMAND

WAIT = 60.0
POLICY = """\
schema: 1
method: user
network: {mode: none}
filesystem:
  write: [$PROJECT]
  readonly: [$PROJECT/LICENSE]
  deny: [$PROJECT/.env]
"""


@dataclass(frozen=True)
class Project:
    """A directory with a policy, and the person's home beside it, which the account can't see."""

    root: Path
    home: Path

    @property
    def account(self) -> DedicatedAccount:
        return account_for(str(self.root), os.geteuid())

    @property
    def uid(self) -> int:
        return pwd.getpwnam(self.account.name).pw_uid

    @property
    def environ(self) -> dict[str, str]:
        kept = {
            name: os.environ[name]
            for name in ("PATH", "SANDWRIGHT_TEST_RUN", "SANDWRIGHT_TRUST")
            if name in os.environ
        }
        return {
            **kept,
            "HOME": str(self.home),
            "XDG_RUNTIME_DIR": str(self.home / "run"),
            "LC_ALL": "C.UTF-8",
        }

    def set_up(self) -> list[str]:
        with accounts_change():
            return plan_account(self.account, SharedTrees(self.root, (), os.geteuid())).execute()

    def rendered(self, text: str = POLICY) -> Path:
        """Render a policy, and return its launcher."""
        directory = Path(tempfile.mkdtemp(dir=self.home.parent)) / "out"
        return launcher_of(text, "user", directory, project=self.root, environ=self.environ)

    def run(
        self,
        *words: str,
        launcher: Path | None = None,
        stdin: bytes = b"",
        environ: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [launcher or self.rendered(), *words],
            input=stdin, capture_output=True, timeout=WAIT, check=False, cwd=self.root,
            env={**self.environ, **(environ or {})},
        )  # fmt: skip

    def sandwright(self, *words: str) -> subprocess.CompletedProcess[str]:
        with accounts_change() if words[0].startswith("account-") else contextlib.nullcontext():
            return subprocess.run(
                [*COMMAND, *words],
                capture_output=True, text=True, timeout=WAIT, check=False, cwd=self.root, env=self.environ,
            )  # fmt: skip


def planted(base: Path) -> Project:
    """A project in a new directory, and the home of a person beside it."""
    root, home = base / "app", base / "home"
    root.mkdir()
    (home / ".ssh").mkdir(parents=True)
    (home / "run").mkdir(mode=0o700)
    (home / ".ssh/config").write_text("Host secret\n")
    home.chmod(0o700)
    (root / "sandbox.yaml").write_text(POLICY)
    (root / "LICENSE").write_text("as it was\n")
    (root / ".env").write_text("TOKEN=hidden\n")
    (root / "script").write_text("#!/bin/sh\necho ran\n")
    (root / "script").chmod(0o755)
    (root / ".git/hooks").mkdir(parents=True)
    return Project(root, home)


def digests(launcher: Path) -> None:
    """Let a launcher accept the files beside it as the rendered ones."""
    file = launcher.with_name("launch.plan")
    plan = parse_plan(file.read_bytes())
    found = tuple(
        (name, hashlib.sha256(launcher.with_name(name).read_bytes()).hexdigest())
        for name, _ in plan.artifacts
    )
    file.write_bytes(plan_bytes(dataclasses.replace(plan, artifacts=found)))
