"""Settings for registries: CA certificates, credentials, token servers, retries, plain HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sandwright import environment
from sandwright.errors import UsageError
from sandwright.registry.credentials import ANONYMOUS, CredentialSource
from sandwright.registry.reference import HUB, is_loopback, split_host
from sandwright.registry.retries import RetryPolicy

AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
"""The certificates that this host trusts; without the file, those of `certifi`."""

_AUTHORITY_VARIABLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")
_HUB_SERVER = "registry-1.docker.io"

TOKEN_SERVERS: Mapping[str, str] = {
    HUB: "auth.docker.io",
    "registry.gitlab.com": "gitlab.com",
    "registry.digitalocean.com": "api.digitalocean.com",
    "docker.elastic.co": "docker-auth.elastic.co",
}
"""Token servers on another host than their registry, as the operators document them."""

TOKEN_SERVERS_VARIABLE = environment.TOKEN_SERVERS.name
"""More hosts, separated by commas or blanks, that logins may be sent to when a registry names them."""


@dataclass(frozen=True)
class RegistrySettings:
    """The settings of a client of registries.

    `insecure` are hosts, as references write them, that may be used with plain http; loopback addresses
    always may. Where https is offered it is used, with a valid certificate. `authorities` is a file of
    certificates that replaces the host's. `token_servers` are hosts that may receive a login when a registry
    names them, besides the registry itself and TOKEN_SERVERS.
    """

    credentials: CredentialSource = ANONYMOUS
    authorities: Path | None = None
    insecure: frozenset[str] = frozenset()
    patience: RetryPolicy = field(default_factory=RetryPolicy)
    token_servers: frozenset[str] = frozenset()

    def knows_token_server(self, registry: str, host: str) -> bool:
        """Whether a registry's login may be sent to a host that the registry names as its token server.

        The registry's word alone is no reason: it may be malicious or compromised.
        """
        name = host.strip("[]").lower().rstrip(".")
        registry_host, _ = split_host(registry)
        return name in (registry_host.rstrip("."), TOKEN_SERVERS.get(registry)) or name in self.token_servers

    def may_be_plain(self, host: str) -> bool:
        """Whether `host[:port]` may be used with plain http; an invalid host may not."""
        try:
            name, _ = split_host(host)
        except UsageError:
            return False
        return is_loopback(name) or host in self.insecure or name in self.insecure

    def trusted(self, environment: Mapping[str, str]) -> str | bool:
        """The value of `verify` for `requests`: a file of certificates, or True for those of `certifi`."""
        if self.authorities is not None:
            if not self.authorities.is_file():
                raise UsageError(f"{self.authorities}: there is no such file of certificates")
            return str(self.authorities)
        named = next((environment[each] for each in _AUTHORITY_VARIABLES if environment.get(each)), None)
        if named is not None and Path(named).exists():
            return named
        return str(AUTHORITIES) if AUTHORITIES.exists() else True


def server(host: str) -> str:
    """The server of a registry: Docker Hub's differs from the name in references."""
    return _HUB_SERVER if host == HUB else host
