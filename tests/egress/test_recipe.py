"""Real programs find the proxy by the rendered environment alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandwright import process
from sandwright.api import Policy
from sandwright.egress import Proxy, proxy
from sandwright.methods.registry import render
from sandwright.policy.collect import collect_facts
from support.goldens import write_artifacts
from support.netlab import World
from support.rundocuments import launching, proxied

pytestmark = pytest.mark.needs("squid", "ip", "setpriv", "bwrap")

POLICY = """
schema: 1
method: bwrap
extends: [default]
accept_gaps: [{feature: network.other-sockets, method: bwrap, reason: a test}]
network: {mode: proxy, allow: [web.example]}
filesystem: {write: ["$PROJECT"]}
environment: {set: {XDG_CACHE_HOME: /tmp, npm_config_cache: /tmp/npm, CARGO_HOME: /tmp/cargo}}
"""

JAVA = """
import java.net.*;
public class Ask {
    public static void main(String[] a) throws Exception {
        for (String each : a) try { new URL(each).openStream().close(); } catch (java.io.IOException e) { }
    }
}
"""


@pytest.fixture(scope="module")
def started(
    world: World, names: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Proxy]]:
    """A launcher, and its running proxy."""
    del world
    folder = tmp_path_factory.mktemp("recipe")
    project = folder / "home" / "p"
    project.mkdir(parents=True)
    (project / "Ask.java").write_text(JAVA)
    loaded = Policy.from_text(POLICY)
    resolved = loaded.resolve(collect_facts(loaded, project=project, environ={"HOME": str(project.parent)}))
    out = write_artifacts(folder / "out", render(resolved, "bwrap").artifacts)
    with proxy(resolved, hosts_file=names) as running:
        yield launching(out / "launch", proxied(running)), running


def urls(scheme: str, path: str = "") -> list[str]:
    """The same path on a listed host, and on an unlisted one."""
    return [f"{scheme}://{host}.example/{path}" for host in ("web", "other")]


PLAIN, TUNNEL = "GET", "CONNECT"
TOOLS = [
    pytest.param(
        "curl -s --max-time 3 " + " ".join(urls("http")), PLAIN, marks=pytest.mark.needs("curl"), id="curl"
    ),
    pytest.param(
        "curl -s --max-time 3 " + " ".join(urls("https")),
        TUNNEL,
        marks=pytest.mark.needs("curl"),
        id="curl-tls",
    ),
    *(
        pytest.param(
            "; ".join(f"git ls-remote {url}" for url in urls(scheme, "x.git")),
            method,
            marks=pytest.mark.needs("git"),
            id=f"git-{scheme}",
        )
        for scheme, method in (("http", PLAIN), ("https", TUNNEL))
    ),
    pytest.param(
        "; ".join(
            f"python3 -m pip --disable-pip-version-check download --retries 0 -d /tmp -i {url} x"
            for url in urls("https", "simple")
        ),
        TUNNEL,
        marks=pytest.mark.needs("pip"),
        id="pip",
    ),
    pytest.param(
        "; ".join(
            f"npm view --fetch-retries=0 --fetch-timeout=3000 --registry={url} x" for url in urls("https")
        ),
        TUNNEL,
        marks=pytest.mark.needs("npm"),
        id="npm",
    ),
    pytest.param(
        "java Ask.java " + " ".join(urls("https")), TUNNEL, marks=pytest.mark.needs("java"), id="java"
    ),
]


@pytest.mark.parametrize(("script", "method"), TOOLS)
def test_it_goes_through_the_proxy(started: tuple[str, Proxy], script: str, method: str) -> None:
    """The log shows one allowed host, and the other refused by name. No other connection gets anywhere."""
    launch, running = started
    before = len(list(running.decisions()))
    environment = {"PATH": os.environ["PATH"], "TERM": "dumb"}
    found = process.run(launch, "sh", "-c", script, env=environment, timeout=120, check=False)
    told = {(d.method, d.host, d.reason) for d in list(running.decisions())[before:]}
    assert {(method, "web.example", ""), (method, "other.example", "host")} <= told, found.stderr
    assert {host for _, host, _ in told} == {"web.example", "other.example"}
