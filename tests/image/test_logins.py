"""The logins of apt: how its files are read, and that each login is sent to its own address only."""

from __future__ import annotations

import base64
import contextlib
import functools
from collections.abc import Iterator
from dataclasses import replace
from http.server import SimpleHTTPRequestHandler
from pathlib import Path

import pytest

from sandwright.errors import FetchError
from sandwright.image.cache import Cache
from sandwright.image.fetch import fetch
from sandwright.image.lock import LockedPackage
from sandwright.image.logins import AptLogin, login_for, machine_logins, parse_logins
from sandwright.image.mirrors import Mirrors, find_mirrors
from sandwright.image.transfer import MIRROR_RETRIES
from support.localhttp import listening

QUICK = replace(MIRROR_RETRIES, attempts=2, pause=0.01, connect=20.0, stall=20.0)
CONTENT = b"a package\n"
SHA256 = "c5919a885d0e983e8bcfedc3ad1ab67b4020c2c31be5bfc2e8117f072fdc9106"

FILES: dict[str, tuple[str, list[AptLogin]]] = {
    "a line": (
        "machine one.example login me password secret\n",
        [AptLogin("one.example", "me", "secret")],
    ),
    "several lines": (
        "machine http://one.example:8080/deb\n  login me\n  password s#cr=t\n",
        [AptLogin("http://one.example:8080/deb", "me", "s#cr=t")],
    ),
    "two, and a comment": (
        "# ours\nmachine a.example login me password one # old: two\n\nmachine b.example login you\n",
        [AptLogin("a.example", "me", "one"), AptLogin("b.example", "you")],
    ),
    "words without a machine": (
        "login me password secret\nmachine a.example password p",
        [AptLogin("a.example", "", "p")],
    ),
    "nothing": ("", []),
    "a machine without a name": ("machine", []),
    "something else": ("<html>not found</html>", []),
}


@pytest.mark.parametrize(("text", "expected"), FILES.values(), ids=list(FILES))
def test_files(text: str, expected: list[AptLogin]) -> None:
    assert parse_logins(text) == expected


FITS = {
    ("one.example", "https://one.example/debian"): True,
    ("one.example", "https://ONE.example/debian"): True,
    ("one.example", "http://one.example/debian"): False,
    ("http://one.example", "http://one.example/debian"): True,
    ("http://one.example", "https://one.example/debian"): False,
    ("one.example", "https://two.one.example/debian"): False,
    ("one.example", "https://one.example.evil/debian"): False,
    ("one.example", "https://one.example:8443/debian"): False,
    ("one.example:8443", "https://one.example:8443/debian"): True,
    ("one.example:8443", "https://one.example/debian"): False,
    ("one.example/debian", "https://one.example/debian/pool/x.deb"): True,
    ("one.example/debian", "https://one.example/other"): False,
    ("https://one.example/debian", "https://one.example/debian/x"): True,
    ("one.example", "file:///one.example"): False,
}


@pytest.mark.parametrize(("machine", "address"), FITS, ids=" for ".join)
def test_which_addresses_it_is_for(machine: str, address: str) -> None:
    assert AptLogin(machine).fits(address) is FITS[machine, address]


def test_the_first_counts_and_no_password_is_shown() -> None:
    logins = [AptLogin("a.example", "me", "one"), AptLogin("a.example", "you", "two")]
    assert login_for("https://a.example/x", logins) is logins[0]
    assert login_for("https://b.example/x", logins) is None
    assert "one" not in repr(logins[0])


class Handler(SimpleHTTPRequestHandler):
    """Serves files to known users; `/away` leads to another server."""

    seen: list[str | None]
    away: str

    def do_GET(self) -> None:
        told = self.headers.get("Authorization")
        self.seen.append(told)
        if self.path.startswith("/away"):
            self.send_response(302)
            self.send_header("Location", self.away + self.path.removeprefix("/away"))
            self.end_headers()
        elif told == "Basic " + base64.b64encode("me:sécret".encode()).decode():
            super().do_GET()
        else:
            self.send_error(401)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Write no log."""


@contextlib.contextmanager
def serving(folder: Path, away: str = "") -> Iterator[tuple[str, list[str | None]]]:
    seen: list[str | None] = []
    handler = type("Mine", (Handler,), {"seen": seen, "away": away})
    with listening(functools.partial(handler, directory=str(folder))) as port:
        yield f"http://127.0.0.1:{port}", seen


@pytest.fixture
def wanted(tmp_path: Path) -> LockedPackage:
    (tmp_path / "mirror/pool").mkdir(parents=True)
    (tmp_path / "mirror/pool/a.deb").write_bytes(CONTENT)
    return LockedPackage("a1", "1", "amd64", len(CONTENT), SHA256, "debian", "pool/a.deb", "a1", "1", 1)


def get(wanted: LockedPackage, base: str, logins: tuple[AptLogin, ...], cache: Path) -> bytes:
    mirrors = Mirrors({"debian": (base,)}, logins=logins)
    return fetch([wanted], mirrors=mirrors, cache=Cache(cache), patience=QUICK)[SHA256].read_bytes()


def test_a_mirror_lets_us_in(wanted: LockedPackage, tmp_path: Path) -> None:
    with serving(tmp_path / "mirror") as (base, _):
        with pytest.raises(FetchError, match="answered 401"):
            get(wanted, base, (AptLogin("127.0.0.1", "me", "sécret"),), tmp_path / "cache")  # for https alone
        with pytest.raises(FetchError, match="answered 401"):
            get(wanted, base, (AptLogin(base, "me", "wrong"),), tmp_path / "cache")
        assert get(wanted, base, (AptLogin(base, "me", "sécret"),), tmp_path / "cache") == CONTENT


def test_a_login_does_not_follow_a_redirection(wanted: LockedPackage, tmp_path: Path) -> None:
    with serving(tmp_path / "mirror") as (other, seen), serving(tmp_path, other) as (base, first):
        login = AptLogin(f"{base}/away", "me", "sécret")
        with pytest.raises(FetchError, match="answered 401"):
            get(wanted, f"{base}/away", (login,), tmp_path / "cache")
        assert first[0] is not None
        assert seen == [None]


@pytest.mark.parametrize("machine", ["machine 127.0.0.1", "default"])
def test_no_server_gets_those_of_netrc(
    wanted: LockedPackage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: str
) -> None:
    """Logins in netrc are other programs'. A mirror, or a man in the middle, could choose the host."""
    (tmp_path / "netrc").write_text(f"{machine} login me password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with serving(tmp_path / "mirror") as (other, seen), serving(tmp_path, other) as (base, first):
        with pytest.raises(FetchError, match="answered 401"):
            get(wanted, f"{base}/away", (), tmp_path / "cache")
        assert first == seen == [None]


def test_an_address_keeps_its_own(
    wanted: LockedPackage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The login in an address takes precedence over netrc(5), and is used for that address only."""
    (tmp_path / "netrc").write_text("default login you password other\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with serving(tmp_path / "mirror") as (other, seen), serving(tmp_path, other) as (base, first):
        mine = other.replace("//", "//me:s%C3%A9cret@")
        assert get(wanted, mine, (), tmp_path / "cache") == CONTENT
        del seen[:]
        with pytest.raises(FetchError, match="answered 401"):
            get(wanted, f"{base.replace('//', '//me:s%C3%A9cret@')}/away", (), tmp_path / "other")
        assert first[0] is not None
        assert seen == [None]


@pytest.mark.needs("apt-get")
def test_those_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "auth").write_text("machine a.example login me password one\n")
    (tmp_path / "parts/more.conf").write_text("machine b.example login you password two\n")
    (tmp_path / "parts/more.txt").write_text("machine c.example login they password three\n")
    (tmp_path / "apt.conf").write_text(
        f'Dir::Etc::netrc "{tmp_path}/auth";\nDir::Etc::netrcparts "{tmp_path}/parts";\n'
    )
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt.conf"))
    expected = (AptLogin("a.example", "me", "one"), AptLogin("b.example", "you", "two"))
    assert machine_logins() == expected
    assert find_mirrors("http://a.example/debian", {}).logins == expected
