"""The environment by which programs find the proxy: each has its own way, and some have none but their own.

It is a convenience, not a protection: a program that ignores it finds no route. The source for each variable
is the program's documentation, named beside it. Tools that read the usual variables and need nothing more:
curl, wget, git over HTTPS (libcurl), pip and requests, apt (apt-transport-http(1)), cargo, Go (net/http,
ProxyFromEnvironment), Ruby, .NET (HttpClient.DefaultProxy), gRPC, Deno and Bun.
"""

from __future__ import annotations

from collections.abc import Mapping

from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.proxyfacts import HOST, PORT

LOCAL = "localhost,127.0.0.1,::1"
"""Destinations without the proxy: servers in the sandbox. Private networks are not in it: without a route
they would only fail differently, and through the proxy the refusal states the reason."""


def proxy_environment(
    policy_set: Mapping[str, str] | None = None, *, host: str = HOST, port: int | str = PORT
) -> dict[str, str]:
    """The variables for a proxy at a host and port, without those that the policy sets itself.

    `policy_set` is `environment.set`; its JAVA_TOOL_OPTIONS stay, before ours. `port` may be any text that is
    replaced later.
    """
    fixed = policy_set or {}
    found = {name: value for name, value in _variables_for_proxy(host, port).items() if name not in fixed}
    if "JAVA_TOOL_OPTIONS" in fixed:
        found["JAVA_TOOL_OPTIONS"] = f"{fixed['JAVA_TOOL_OPTIONS']} {_java(host, port)}"
    return found


def sandbox_environment(policy: ResolvedPolicy) -> dict[str, str]:
    """The environment of a sandbox with a separate localhost: the policy's variables, and the proxy's."""
    environment = dict(policy.environment.set)
    return (
        {**environment, **proxy_environment(environment)} if policy.network.mode == "proxy" else environment
    )


def _variables_for_proxy(host: str, port: int | str) -> dict[str, str]:
    url = f"http://{host}:{port}"
    return {
        # curl(1): http_proxy only in lower case, since a CGI sets HTTP_PROXY of a header (CVE-2016-5385);
        # wget(1) reads lower case, Go and Node both, .NET upper case.
        "http_proxy": url,
        "https_proxy": url,
        "all_proxy": url,
        "no_proxy": LOCAL,
        "HTTP_PROXY": url,
        "HTTPS_PROXY": url,
        "ALL_PROXY": url,
        "NO_PROXY": LOCAL,
        # Node 22.21, 24.5 and newer (doc/api/cli.md): fetch() and node:http read the usual ones.
        "NODE_USE_ENV_PROXY": "1",
        # npm (config: proxy, https-proxy, noproxy): a variable beats the user's .npmrc.
        "npm_config_proxy": url,
        "npm_config_https_proxy": url,
        "npm_config_noproxy": LOCAL,
        # Yarn 2 and newer (yarnrc.yml: httpProxy, httpsProxy) read no others.
        "YARN_HTTP_PROXY": url,
        "YARN_HTTPS_PROXY": url,
        # pip (--proxy as a variable): beats the user's pip.conf.
        "PIP_PROXY": url,
        # cargo (config: http.proxy): beats the user's config.toml.
        "CARGO_HTTP_PROXY": url,
        # The JVM reads no proxy variable, but options of this one (JDK, "Networking Properties"); Maven,
        # Gradle and sbt inherit it. The JVM says on standard error that it did.
        "JAVA_TOOL_OPTIONS": _java(host, port),
    }


def _java(host: str, port: int | str) -> str:
    places = [f"-D{scheme}.proxyHost={host} -D{scheme}.proxyPort={port}" for scheme in ("http", "https")]
    return " ".join([*places, "-Dhttp.nonProxyHosts=localhost|127.*|[::1]"])
