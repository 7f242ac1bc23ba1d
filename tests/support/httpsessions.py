"""Sessions with `network.http` on a machine whose hosts file knows a canary, and nobody else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from support.canary import Canary
from support.netlab import WORLD, hosts_file


@dataclass
class Setup:
    """A project, directories of a user's own, and the upstream."""

    project: Path
    base: Path
    upstream: Canary
    environment: dict[str, str]

    def command(self, words: list[str], *options: str) -> list[str]:
        """`sandwright run` on a machine whose hosts file knows the upstream."""
        script = 'mount --bind "$1" /etc/hosts && shift && exec "$@"'
        run = [
            sys.executable,
            "-P",
            "-c",
            "from sandwright.cli import main; main()",
            "run",
            "--trust-policy",
            *options,
            "--",
            *words,
        ]
        return ["unshare", "--mount", "sh", "-c", script, "sh", str(self.base / "hosts"), *run]

    def run(self, words: list[str], *options: str) -> subprocess.CompletedProcess[str]:
        self.upstream.arrived.clear()
        return subprocess.run(
            self.command(words, *options), cwd=self.project, env=self.environment, text=True,
            stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False,
        )  # fmt: skip

    def curl(self, *requests: str) -> list[str]:
        """A script with requests, each as curl's words, that writes the status of each."""
        lines = [f"curl -sS -m 20 -w '\\nstatus %{{http_code}}\\n' {each}" for each in requests]
        return ["sh", "-c", "\n".join(lines)]


def make_setup(tmp_path: Path, upstream: Canary, variables: Mapping[str, str]) -> Setup:
    """A project below a directory, with directories of a user's own and some variables."""
    project = tmp_path / "project"
    project.mkdir()
    for name in ("home", "cache", "state", "config"):
        (tmp_path / name).mkdir()
    (tmp_path / "run").mkdir(mode=0o700)
    (tmp_path / "hosts").write_text(hosts_file({WORLD: "api.example"}))
    bundle = tmp_path / "bundle.pem"
    bundle.write_text(upstream.authority)
    names = {
        "HOME": "home",
        "XDG_CACHE_HOME": "cache",
        "XDG_STATE_HOME": "state",
        "XDG_CONFIG_HOME": "config",
    }
    environment = {**os.environ, **{key: str(tmp_path / value) for key, value in names.items()}}
    environment |= {"XDG_RUNTIME_DIR": str(tmp_path / "run"), "SSL_CERT_FILE": str(bundle), **variables}
    return Setup(project, tmp_path, upstream, environment)
