"""The host's own proxy (HTTPS_PROXY) as squid's upstream, with the real squid.

Tests of egress/upstream.py.
Tests of egress/upstream_trial.py.
"""

from __future__ import annotations

import base64
import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandwright.egress import Proxy, proxy
from sandwright.egress.supervisor import _last_message
from sandwright.egress.upstream import NONE, HostProxies, host_proxies
from sandwright.egress.upstream_trial import try_upstream
from sandwright.errors import HostError
from support.companyproxy import CompanyProxy, company_proxy
from support.egressing import ask, connect, get, policy
from support.netlab import PRIVATE, WORLD, World

FAR = {"far.example": WORLD, "web.example": WORLD, "inside.wild.example": PRIVATE}
"""The names that the company's proxy resolves; this machine resolves the second and the third, too."""

ALLOW = ("far.example", "web.example", "*.wild.example", "near.example", "gone.example")


@pytest.fixture
def company(world: World) -> Iterator[CompanyProxy]:
    """A company's proxy out there."""
    with contextlib.ExitStack() as stack:
        with world.inside():
            found = stack.enter_context(company_proxy(FAR, namespace=world.inside, address=WORLD))
        yield found


@contextlib.contextmanager
def behind(monkeypatch: pytest.MonkeyPatch, names: Path, *allow: str, **variables: str) -> Iterator[Proxy]:
    """A proxy that is started with these variables of the host."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with proxy(policy(*allow), hosts_file=names, nameservers=("45.33.32.53",)) as found:
        yield found


def test_tunnels_and_requests_go_through_it(
    monkeypatch: pytest.MonkeyPatch, names: Path, company: CompanyProxy
) -> None:
    """A host whose name only the company's proxy resolves is reached, with CONNECT and with GET."""
    url = f"http://{WORLD}:{company.port}"
    with behind(monkeypatch, names, *ALLOW, https_proxy=url, http_proxy=url) as running:
        assert ask(running, connect("far.example:443")).verdict == (200, "")
        assert ask(running, get("far.example")).verdict == (200, "")
    assert company.asked == ["CONNECT far.example:443 HTTP/1.1", "GET http://far.example/page HTTP/1.1"]
    assert company.logins == ["", ""]


def test_rules_come_first(monkeypatch: pytest.MonkeyPatch, names: Path, company: CompanyProxy) -> None:
    """No refused request reaches the company's proxy, nor does a name that is private here."""
    url = f"http://{WORLD}:{company.port}"
    with behind(monkeypatch, names, *ALLOW, https_proxy=url, http_proxy=url) as running:
        assert ask(running, connect("other.example:443")).reason == "host"
        assert ask(running, connect("inside.wild.example:443")).reason == "address"
        assert ask(running, connect("far.example:22")).reason == "host"
        assert ask(running, get("other.example")).reason == "host"
    assert company.asked == []


def test_a_listed_port_is_the_only_one(
    monkeypatch: pytest.MonkeyPatch, names: Path, company: CompanyProxy
) -> None:
    """The port of the company's proxy is open to squid, and to no host of the policy."""
    url = f"http://{WORLD}:{company.port}"
    with behind(monkeypatch, names, "far.example:443", https_proxy=url, NO_PROXY="web.example") as running:
        assert ask(running, connect("far.example:443")).verdict == (200, "")
        assert ask(running, connect(f"far.example:{company.port}")).reason == "host"


def test_the_login_is_sent(monkeypatch: pytest.MonkeyPatch, names: Path, company: CompanyProxy) -> None:
    """User and password are sent unchanged, whatever bytes they contain; no program inside sees them."""
    company.login = f"Basic {base64.b64encode('ann~%#é:p@ss: $x'.encode()).decode()}"
    url = f"http://ann~%25%23%C3%A9:p%40ss%3A%20$x@{WORLD}:{company.port}"
    with behind(monkeypatch, names, *ALLOW, https_proxy=url, http_proxy=url) as running:
        assert ask(running, connect("far.example:443")).verdict == (200, "")
        assert ask(running, get("far.example")).verdict == (200, "")
    assert set(company.logins) == {company.login}


def test_without_the_login(monkeypatch: pytest.MonkeyPatch, names: Path, company: CompanyProxy) -> None:
    """The program inside gets the status of a proxy that asks for a login."""
    company.login = "Basic eDp5"
    url = f"http://{WORLD}:{company.port}"
    with behind(monkeypatch, names, *ALLOW, https_proxy=url, http_proxy=url) as running:
        answers = [ask(running, connect("far.example:443")), ask(running, get("far.example"))]
        assert [each.status for each in answers] == [407, 407]


def test_no_proxy(monkeypatch: pytest.MonkeyPatch, names: Path, company: CompanyProxy) -> None:
    """Hosts in NO_PROXY, and names below them, are reached directly; others are not."""
    url = f"http://{WORLD}:{company.port}"
    with behind(
        monkeypatch, names, *ALLOW, https_proxy=url, http_proxy=url, no_proxy=".wild.example,web.example:80"
    ) as running:
        assert ask(running, connect("sub.wild.example:443")).verdict == (200, "")
        assert ask(running, connect("web.example:80")).verdict == (200, "")
        assert company.asked == []
        assert ask(running, connect("web.example:443")).verdict == (200, "")
        assert ask(running, connect("far.example:443")).verdict == (200, "")
    assert company.asked == ["CONNECT web.example:443 HTTP/1.1", "CONNECT far.example:443 HTTP/1.1"]


def test_only_requests(monkeypatch: pytest.MonkeyPatch, names: Path, company: CompanyProxy) -> None:
    """With http_proxy alone, tunnels connect directly."""
    with behind(monkeypatch, names, *ALLOW, http_proxy=f"{WORLD}:{company.port}") as running:
        assert ask(running, connect("web.example:443")).verdict == (200, "")
        assert ask(running, connect("far.example:443")).reason == "unresolved"
        assert company.asked == []
        assert ask(running, get("far.example")).verdict == (200, "")


def test_nothing_goes_past_a_dead_proxy(monkeypatch: pytest.MonkeyPatch, names: Path, world: World) -> None:
    """If the host's proxy does not answer, squid does not connect by itself."""
    with behind(monkeypatch, names, *ALLOW, https_proxy=f"http://{WORLD}:9") as running:
        world.reached.clear()
        assert ask(running, connect("web.example:443")).status == 500
        assert world.reached == []


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, HostProxies()),
        ({"https_proxy": "http://p:1", "NO_PROXY": "a, *"}, HostProxies()),
        ({"https_proxy": "", "HTTPS_PROXY": " "}, HostProxies()),
    ],
)
def test_none(variables: dict[str, str], expected: HostProxies) -> None:
    """Without a proxy of the host, squid connects by itself."""
    assert host_proxies(variables) == expected
    assert host_proxies(variables).configuration() == NONE


def test_the_first_variable_counts() -> None:
    """The order is curl's: lower case, upper case, and all_proxy last."""
    found = host_proxies({"https_proxy": "http://a:1", "HTTPS_PROXY": "b:2", "ALL_PROXY": "http://[::1]"})
    assert found.tunnels
    assert (found.tunnels.address, found.tunnels.variable) == ("a:1", "https_proxy")
    assert found.requests
    assert found.requests.address == "[::1]:80"
    assert found.ports == (1, 80)


def test_items_of_no_proxy() -> None:
    """Names, addresses and networks with and without ports; any other item is reported."""
    text = "Localhost,.a.example,*.b.example,c.example:8443,10.0.0.0/8,[::1],::2,[fd00::1]:80"
    text += ",<local>,x y,169.254.*"
    found = host_proxies({"https_proxy": "p:1", "NO_PROXY": text})
    assert found.direct == (
        ("localhost", None), ("a.example", None), ("b.example", None), ("c.example", 8443),
        ("10.0.0.0/8", None), ("::1", None), ("::2", None), ("fd00::1", 80),
    )  # fmt: skip
    assert found.unknown == ("<local>", "x y", "169.254.*")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("socks5://p:1", "cannot use a proxy of kind socks5://"),
        ("https://p:1", "cannot use a proxy of kind https://"),
        ("http://", "names no host of a proxy"),
        ("http://a b:1", "names no host of a proxy"),
        ("http://a\nhttp_access allow all:1", "names no host|no URL"),
        ("http://p:99999", "is no URL of a proxy"),
        ("http://10.0.0.0/8", None),
    ],
)
def test_values_that_cannot_be_used(value: str, message: str | None) -> None:
    """Each is named by its variable, without the password that may be in it."""
    if message is None:
        found = host_proxies({"https_proxy": value})
        assert found.tunnels
        assert found.tunnels.address == "10.0.0.0:80"
        return
    with pytest.raises(HostError, match=message) as caught:
        host_proxies({"HTTPS_PROXY": value.replace("://", "://me:secret@", 1)})
    assert "HTTPS_PROXY" in str(caught.value)
    assert "secret" not in str(caught.value)


def found_by_doctor(**variables: str) -> list[str]:
    """The output of `doctor` in an environment."""
    return list(try_upstream(variables))


INJECTED = (
    "fe80::1%lo\nacl evil dstdomain web.example\nhttp_access allow evil",
    "fe80::1%x\r\nhttp_access allow all\r\n#",
    "fe80::1%x y",
    "[fe80::1%x\nhttp_access allow all]:80",
    "fe80::1%x\u2028http_access allow all",
)
"""Addresses with a zone, in which Python accepts every character but `%` and `/`."""


@pytest.mark.parametrize("item", INJECTED)
def test_an_item_of_no_proxy_is_no_line_of_squid_s(item: str) -> None:
    found = host_proxies({"HTTPS_PROXY": "http://proxy.example:3128", "NO_PROXY": item})
    assert (found.direct, found.unknown) == ((), (item.lower().strip(),))


@pytest.mark.parametrize("item", ["[fe80::1%x y]", "[fe80::1%25x login=PASS]", "[fe80::1%lo]", "u\udcff:p@p"])
def test_a_proxy_has_no_other_words_of_squid_s(item: str) -> None:
    with pytest.raises(HostError, match="HTTPS_PROXY "):
        host_proxies({"HTTPS_PROXY": f"http://{item}:3128"})


def test_no_item_of_no_proxy_opens_squid(
    monkeypatch: pytest.MonkeyPatch, names: Path, company: CompanyProxy
) -> None:
    url = f"http://{WORLD}:{company.port}"
    with behind(monkeypatch, names, "far.example", https_proxy=url, NO_PROXY=INJECTED[0]) as running:
        assert ask(running, connect("web.example:443")).reason == "host"


def test_doctor_tries_it() -> None:
    """A proxy that answers, one that asks for a login, and one that refuses it."""
    with company_proxy({}) as company:
        name = f"127.0.0.1:{company.port}"
        works = f"https_proxy names the proxy {name}, through which network.mode: proxy connects: it answers"
        assert found_by_doctor(https_proxy=name, http_proxy="") == [works]
        company.login = f"Basic {base64.b64encode(b'a:b c').decode()}"
        assert "asks for a login (407)" in found_by_doctor(https_proxy=name)[0]
        assert (
            "refuses the login in the variable (407)" in found_by_doctor(https_proxy=f"http://a:x@{name}")[0]
        )
        assert found_by_doctor(https_proxy=f"http://a:b%20c@{name}") == [works]


def test_doctor_names_what_is_of_no_use() -> None:
    """A port without a server, a server of another protocol, a kind of proxy, and an item of NO_PROXY."""
    assert found_by_doctor() == []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        name = f"127.0.0.1:{listener.getsockname()[1]}"
        thread = threading.Thread(target=lambda: listener.accept()[0].sendall(b"SSH-2.0-x\r\n"))
        thread.start()
        assert "does not speak HTTP" in found_by_doctor(https_proxy=name)[0]
        thread.join(10)
    refused, ignored = found_by_doctor(https_proxy=name, no_proxy="<local>")
    assert "cannot be reached (Connection refused)" in refused
    assert ignored.startswith("NO_PROXY: '<local>' is no host, address or network")
    (unusable,) = found_by_doctor(all_proxy="socks5://127.0.0.1:9")
    assert unusable.startswith("all_proxy: cannot use a proxy of kind socks5://")


def test_a_quoted_line_shows_no_password(tmp_path: Path) -> None:
    """Squid repeats a line that it cannot read: an error has it without the login."""
    (tmp_path / "squid.err").write_text("FATAL: Bungled squid.conf line 5: cache_peer p login=me:secret x\n")
    assert _last_message(tmp_path).endswith("cache_peer p login=… x")
