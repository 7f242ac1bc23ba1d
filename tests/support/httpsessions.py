"""A project with `network.http` in its policy, on a machine whose hosts file has a canary."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from support import labworker
from support.canary import Canary
from support.netlab import hosts_file

GAPS = ("filesystem.attributes", "filesystem.protect", "process.kernel", "filesystem.git-links")
HTTP_METHODS = [
    pytest.param("bwrap", marks=pytest.mark.needs("bwrap")),
    pytest.param("landlock"),
    pytest.param("vm", marks=pytest.mark.needs("bwrap", "linux.uml")),
]
"""The methods with the host's files, whose sandboxes find the upstream by the machine's hosts file."""


@dataclass
class HttpSession:
    """A project, the user's separate directories, and the upstream."""

    project: Path
    base: Path
    upstream: Canary
    environment: dict[str, str]

    def command(self, words: list[str], *options: str) -> list[str]:
        """`sandwright run` on a machine whose hosts file has the upstream."""
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
        enter, drop = labworker.mount_namespace()
        return [*enter, "sh", "-c", script, "sh", str(self.base / "hosts"), *drop, *run]

    def run(self, words: list[str], *options: str) -> subprocess.CompletedProcess[str]:
        self.upstream.arrived.clear()
        return subprocess.run(
            self.command(words, *options), cwd=self.project, env=self.environment, text=True,
            stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False,
        )  # fmt: skip

    def curl(self, *requests: str) -> list[str]:
        """A script with requests, each as curl's words, that prints the status of each."""
        lines = [f"curl -sS -m 20 -w '\\nstatus %{{http_code}}\\n' {each}" for each in requests]
        return ["sh", "-c", "\n".join(lines)]


def http_session(base: Path, upstream: Canary, hosts: Mapping[str, str]) -> HttpSession:
    """A new project, with the user's separate directories, on a machine with these names by address."""
    for name in ("project", "home", "cache", "state", "config"):
        (base / name).mkdir()
    (base / "run").mkdir(mode=0o700)
    (base / "hosts").write_text(hosts_file(hosts))
    bundle = base / "bundle.pem"
    bundle.write_text(upstream.authority)
    names = {
        "HOME": "home",
        "XDG_CACHE_HOME": "cache",
        "XDG_STATE_HOME": "state",
        "XDG_CONFIG_HOME": "config",
        "XDG_RUNTIME_DIR": "run",
    }
    environment = {**os.environ, **{key: str(base / value) for key, value in names.items()}}
    environment["SSL_CERT_FILE"] = str(bundle)
    return HttpSession(base / "project", base, upstream, environment)


def http_gaps(method: str) -> str:
    """The line of a policy that accepts the gaps of landlock; "" for other methods."""
    gaps = ", ".join(f"{{feature: {each}, method: landlock, reason: a test}}" for each in GAPS)
    return f"accept_gaps: [{gaps}]\n" if method == "landlock" else ""


def http_policy(method: str, source: str = "env:API_KEY", more: str = "") -> str:
    return textwrap.dedent(f"""\
        schema: 1
        method: {method}
        network:
          mode: proxy
          http:
            - {{host: 'api.example:444', methods: [GET], paths: ['/repos/acme/*']}}
        credentials:
          http:
            - {{host: 'api.example:444', header: x-api-key, from: '{source}'{more}}}
        """) + http_gaps(method)
