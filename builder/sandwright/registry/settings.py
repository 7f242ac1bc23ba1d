"""How registries are spoken to: trust, credentials, patience."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sandwright.errors import UsageError
from sandwright.registry.credentials import ANONYMOUS, CredentialSource
from sandwright.registry.reference import HUB, is_loopback, split_host

AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
"""Whom this machine trusts for https; where it is not there, whom `certifi` trusts."""

_AUTHORITY_VARIABLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")
_HUB_SERVER = "registry-1.docker.io"

TOKEN_SERVERS: Mapping[str, str] = {
    HUB: "auth.docker.io",
    "registry.gitlab.com": "gitlab.com",
    "registry.digitalocean.com": "api.digitalocean.com",
    "docker.elastic.co": "docker-auth.elastic.co",
}
"""By registry: its token server, where that is another host, as its operator documents it."""

TOKEN_SERVERS_VARIABLE = "SANDWRIGHT_TOKEN_SERVERS"  # noqa: S105 - a variable's name
"""More hosts, separated by commas or blanks, that logins may be sent to when a registry names them."""


@dataclass(frozen=True)
class RetryPolicy:
    """How long to wait for a registry; all times in seconds.

    `reach` is the most that finding out whether it can be reached takes, names looked up included. `connect`
    and `stall` are without a connection or a byte, `commit` without an answer to what was sent. A failure
    that may pass is tried again until there were `attempts`, after a pause of `pause` that doubles every
    time; a registry's own wish (Retry-After) is granted up to `longest`. `slowest` is the fewest bytes per
    second of a blob, after `grace`; `answer` the longest that a document may take.
    """

    reach: float = 5.0
    connect: float = 5.0
    stall: float = 30.0
    commit: float = 300.0
    attempts: int = 5
    pause: float = 0.5
    longest: float = 60.0
    slowest: float = 8_000.0
    grace: float = 60.0
    answer: float = 60.0


@dataclass(frozen=True)
class RegistrySettings:
    """What a client of registries goes by.

    `insecure` are hosts, as references write them, to which plain http may be spoken; to this machine's own
    addresses it always may. Where https is offered it is used, and its certificate must be good, there too.
    `authorities` is a file of certificates to trust in place of the machine's. `token_servers` are hosts that
    a login may be sent to when a registry names them, beside its own and TOKEN_SERVERS.
    """

    credentials: CredentialSource = ANONYMOUS
    authorities: Path | None = None
    insecure: frozenset[str] = frozenset()
    patience: RetryPolicy = field(default_factory=RetryPolicy)
    token_servers: frozenset[str] = frozenset()

    def knows_token_server(self, registry: str, host: str) -> bool:
        """Whether a registry's login may be sent to a host, which the registry names as its token server.

        What a registry says is no reason by itself: it may be anybody's, or broken into.
        """
        name = host.strip("[]").lower().rstrip(".")
        own, _ = split_host(registry)
        return name in (own.rstrip("."), TOKEN_SERVERS.get(registry)) or name in self.token_servers

    def may_be_plain(self, host: str) -> bool:
        """Whether plain http may be spoken to `host[:port]`."""
        name, _ = split_host(host)
        return is_loopback(name) or host in self.insecure or name in self.insecure

    def trusted(self, environment: Mapping[str, str]) -> str | bool:
        """What `requests` takes as `verify`: a file of certificates, or True for those of `certifi`."""
        if self.authorities is not None:
            if not self.authorities.is_file():
                raise UsageError(f"{self.authorities}: there is no such file of certificates")
            return str(self.authorities)
        named = next((environment[each] for each in _AUTHORITY_VARIABLES if environment.get(each)), None)
        if named is not None and Path(named).exists():
            return named
        return str(AUTHORITIES) if AUTHORITIES.exists() else True


def server(host: str) -> str:
    """The host that answers for a registry: Docker Hub's has another name than its references."""
    return _HUB_SERVER if host == HUB else host
