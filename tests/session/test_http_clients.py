"""Clients of HTTP and a host of `network.http`: each one's request passes the inspecting proxy.

They are started as users start them: the session provides the proxy's address and the run's authority.
docs/http.md has the table of the results.

Tests of render/authorities.py: the variables that lead clients to the certificates.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from support.canary import canary
from support.httpsessions import GAPS, HttpSession, http_session
from support.netlab import WORLD, lab
from support.thorough import THOROUGH

pytestmark = [
    pytest.mark.needs("haproxy", "squid", "ip", "unshare", "openssl"),
]

HOST = "api.example"
URL = f"https://{HOST}"
JAVA = """
import java.net.URI;
import java.net.http.*;
class Get {
    public static void main(String[] words) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(words[0])).build();
        HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
    }
}
"""
GO = 'package main\n\nimport (\n\t"net/http"\n\t"os"\n)\n\nfunc main() { http.Get(os.Args[1]) }\n'
AIOHTTP = """
import asyncio, sys, aiohttp
async def main():
    async with aiohttp.ClientSession(trust_env=True) as session:
        async with session.get(sys.argv[1]): pass
asyncio.run(main())
"""

OF_DEBIAN = {
    "curl": f"curl -sS -m 20 {URL}/curl",
    "wget": f"wget -q -T 20 -t 1 -O- {URL}/wget",
    "git": f"git ls-remote {URL}/git/tool.git",
    "urllib": f"/usr/bin/python3 -c \"import urllib.request as r; r.urlopen('{URL}/urllib', timeout=20)\"",
    "pip": f"/usr/bin/python3 -m pip download --no-deps --retries 0 --index-url {URL}/pip/ something",
    "npm": f"npm view something --registry {URL}/npm/ --fetch-retries 0",
    "fetch": f"node -e \"fetch('{URL}/fetch')\"",
    "java": f"java Get.java {URL}/java",
}
"""A command of each client, whose path has its name."""

INSTALLED = {
    "pnpm": f"node_modules/.bin/pnpm view something --registry {URL}/pnpm/",
    "yarn": f"node_modules/.bin/yarn info something --registry {URL}/yarn/",
    "uv": f"uv/bin/uv pip install --target t --index-url {URL}/uv/ something",
    "requests": f"uv/bin/python -c \"import requests; requests.get('{URL}/requests', timeout=20)\"",
    "httpx": f"uv/bin/python -c \"import httpx; httpx.get('{URL}/httpx', timeout=20)\"",
    "aiohttp": f"uv/bin/python get.py {URL}/aiohttp",
    "go": f"./get {URL}/go",
    "cargo": f"CARGO_REGISTRIES_X_INDEX=sparse+{URL}/cargo/ cargo search --registry x something",
}
"""The clients that a test installs, or that need compilers which a user's machine lacks."""

UNDER_LANDLOCK = frozenset(OF_DEBIAN) - {"wget", "fetch", "java"}
"""wget reads only the system's certificates, and Node 20's fetch and Java bypass the proxy: nothing is
mounted, and no name resolves inside."""


@pytest.fixture
def session(network_lab: None, tmp_path: Path) -> Iterator[HttpSession]:
    with contextlib.ExitStack() as stack:
        world = stack.enter_context(lab(ports=()))
        with world.inside():
            upstream = stack.enter_context(canary(tmp_path, [HOST], WORLD, 443))
        yield http_session(tmp_path, upstream, {WORLD: HOST})


def arrived(session: HttpSession, commands: Mapping[str, str], method: str) -> frozenset[str]:
    """The clients whose requests reached the upstream in one run of all of them."""
    (session.project / "Get.java").write_text(JAVA)
    (session.project / "get.py").write_text(AIOHTTP)
    gaps = ", ".join(f"{{feature: {each}, method: landlock, reason: a test}}" for each in GAPS)
    home = ", home: throwaway" if method == "bwrap" else ""
    (session.project / "sandbox.yaml").write_text(
        f"schema: 1\nmethod: {method}\nfilesystem: {{write: ['...', $PROJECT]{home}}}\n"
        f"environment: {{pass: [..., RUSTUP_HOME, CARGO_HOME], set: {{npm_config_cache: $PROJECT/npm}}}}\n"
        f"network: {{mode: proxy, http: [{{host: {HOST}, methods: [GET]}}]}}\n"
        + (f"accept_gaps: [{gaps}]\n" if method == "landlock" else "")
    )
    script = "\n".join(f"echo; echo '== {name}'; {each} < /dev/null" for name, each in commands.items())
    done = session.run(["sh", "-c", f"exec 2>&1\n{script}\nexit 0"])
    assert done.returncode == 0, done.stderr
    return frozenset(each.line.split("/")[1].split()[0] for each in session.upstream.arrived)


@pytest.mark.needs("bwrap", "curl", "wget", "git", "npm", "node", "java")
def test_clients_of_debian(session: HttpSession) -> None:
    assert arrived(session, OF_DEBIAN, "bwrap") == frozenset(OF_DEBIAN)


@pytest.mark.needs("curl", "wget", "git", "npm", "node", "java")
def test_clients_under_landlock(session: HttpSession) -> None:
    """No file can be mounted over the system's certificates, so variables lead to the run's."""
    found = arrived(session, OF_DEBIAN, "landlock")
    assert found == UNDER_LANDLOCK, found


@pytest.mark.skipif(not THOROUGH, reason="only `invoke test --thorough` installs clients")
@pytest.mark.needs("bwrap", "npm", "go", "cargo")
def test_clients_of_package_indexes(installed: Path, session: HttpSession) -> None:
    """`installed` comes first, because the session's network permits no installation."""
    shutil.copytree(installed, session.project, symlinks=True, dirs_exist_ok=True)
    home = Path.home()
    session.environment |= {"RUSTUP_HOME": f"{home}/.rustup", "CARGO_HOME": str(session.project / "cargo")}
    assert arrived(session, INSTALLED, "bwrap") == frozenset(INSTALLED)


@pytest.fixture
def installed() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="sandwright-clients-") as folder:
        _install(Path(folder))
        yield Path(folder)


def _install(project: Path) -> None:
    (project / "get.go").write_text(GO)
    uv = project / "uv"
    for words in (
        ("npm", "install", "--silent", "--no-audit", "--prefix", project, "pnpm@9", "yarn@1"),
        ("/usr/bin/python3", "-m", "venv", "--copies", uv),
        (uv / "bin/pip", "install", "--quiet", "uv", "requests", "httpx", "aiohttp"),
        ("go", "build", "-o", project / "get", project / "get.go"),
    ):
        environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false"}
        subprocess.run(words, cwd=project, env=environment, check=True, timeout=300, stdout=sys.stderr)
