"""A project with `network.http` in its policy, on a machine whose hosts file has a canary."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from sandwright.methods.user.render import account_for
from sandwright.methods.user.setup import SharedTrees, plan_account, plan_removal
from support import labworker
from support.canary import Canary
from support.locks import accounts_change
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

    def command(self, words: list[str], *options: str, verb: str = "run") -> list[str]:
        """`sandwright run`, or another command, on a machine whose hosts file has the upstream."""
        script = 'mount --bind "$1" /etc/hosts && shift && exec "$@"'
        run = [
            sys.executable,
            "-P",
            "-c",
            "from sandwright.cli import main; main()",
            verb,
            "--trust-policy",
            *options,
            "--",
            *words,
        ]
        enter, drop = labworker.mount_namespace()
        return [*enter, "sh", "-c", script, "sh", str(self.base / "hosts"), *drop, *run]

    def run(
        self, words: list[str], *options: str, limit: float = 120, verb: str = "run"
    ) -> subprocess.CompletedProcess[str]:
        self.upstream.arrived.clear()
        return subprocess.run(
            self.command(words, *options, verb=verb), cwd=self.project, env=self.environment, text=True,
            stdin=subprocess.DEVNULL, capture_output=True, timeout=limit, check=False,
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


@contextlib.contextmanager
def account_of(session: HttpSession) -> Iterator[None]:
    """The account of a project for the method `user`, for the length of a `with`."""
    account = account_for(str(session.project), os.geteuid())
    with accounts_change():
        plan_account(account, SharedTrees(session.project, (), os.geteuid())).execute()
    try:
        yield
    finally:
        with accounts_change():
            plan_removal(account).execute()


FROM_HOST = (
    "alternatives",
    "java-17-openjdk",
    "passwd",
    "group",
    "nsswitch.conf",
    "mime.types",
    "ssl",
    "php",
)


def root_of_host(root: Path) -> Path:
    """Make the root file system of an image whose /usr is empty, for the host's; return its directory."""
    for name in ("dev", "etc", "home", "proc", "root", "run", "sys", "tmp", "usr", "var"):
        (root / name).mkdir(parents=True)
    for name in ("bin", "lib", "lib64", "sbin"):
        (root / name).symlink_to(f"usr/{name}")
    for each in filter(os.path.lexists, (Path("/etc", name) for name in FROM_HOST)):
        made = root / "etc" / each.name
        if each.is_dir():
            shutil.copytree(each, made, symlinks=True, ignore=shutil.ignore_patterns("private"))
        else:
            shutil.copy(each, made)
    return root


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
