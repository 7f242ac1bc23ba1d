"""Mirrors: how they are named, and how the mirrors of this machine's apt are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandwright import process
from sandwright.errors import HostError, UsageError
from sandwright.image import mirrors
from sandwright.image.mirrors import Mirrors, find_mirrors, machine_mirrors, parse_mirrors, redact_address

HINT = (
    "name a mirror with --mirror or SANDWRIGHT_MIRROR: one address, or debian=ADDRESS,debian-security=ADDRESS"
    ",alpine=ADDRESS"
)

NAMED: dict[str, dict[str, tuple[str, ...]]] = {
    "http://one.example/debian": {
        "debian": ("http://one.example/debian",),
        "debian-security": ("http://one.example/debian-security",),
        "alpine": ("http://one.example/alpine",),
    },
    "https://one.example/pub/": {
        "debian": ("https://one.example/pub/debian",),
        "debian-security": ("https://one.example/pub/debian-security",),
        "alpine": ("https://one.example/pub/alpine",),
    },
    "http://one.example/alpine/": {
        "debian": ("http://one.example/debian",),
        "debian-security": ("http://one.example/debian-security",),
        "alpine": ("http://one.example/alpine",),
    },
    "http://one.example:8080": {
        "debian": ("http://one.example:8080/debian",),
        "debian-security": ("http://one.example:8080/debian-security",),
        "alpine": ("http://one.example:8080/alpine",),
    },
    "file:///srv/mirror": {
        "debian": ("file:///srv/mirror/debian",),
        "debian-security": ("file:///srv/mirror/debian-security",),
        "alpine": ("file:///srv/mirror/alpine",),
    },
    "debian=http://a.example/d, debian-security=http://b.example/s/": {
        "debian": ("http://a.example/d",),
        "debian-security": ("http://b.example/s",),
    },
    "debian=http://a.example/d,debian=http://b.example/d": {
        "debian": ("http://a.example/d", "http://b.example/d"),
    },
}


@pytest.mark.parametrize(("text", "archives"), NAMED.items(), ids=NAMED.keys())
def test_mirrors_that_are_named(text: str, archives: dict[str, tuple[str, ...]]) -> None:
    assert parse_mirrors(text) == Mirrors(archives)


NO_ADDRESS = "is not the address of a mirror; it begins with http://, https:// or file:///"
REFUSED = {
    "one.example/debian": f"'one.example/debian' {NO_ADDRESS}",
    "ftp://one.example/debian": f"'ftp://one.example/debian' {NO_ADDRESS}",
    "http:///debian": f"'http:///debian' {NO_ADDRESS}",
    "http://one.example/a b": "'http://one.example/a b' has characters that no address may have",
    "http://one.example/?a": "'http://one.example/?a' has characters that no address may have",
    'http://u:secret@one.example/"': "'http://one.example/\"' has characters that no address may have",
    "http://one.example/[a=b]": "'http://one.example/[a=b]' has characters that no address may have",
    "ubuntu=http://a.example,debian=http://b.example": (
        "'ubuntu=http://a.example' is not archive=address; archives are debian, debian-security, alpine"
    ),
    "http://a.example,http://b.example": (
        "'http://a.example' is not archive=address; archives are debian, debian-security, alpine"
    ),
    " , ": f"' , ' names no mirror; {HINT}",
}


@pytest.mark.parametrize(("text", "message"), REFUSED.items(), ids=REFUSED.keys())
def test_mirrors_that_are_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_mirrors(text)
    assert str(caught.value) == message


def test_the_option_comes_before_the_environment() -> None:
    environment = {"SANDWRIGHT_MIRROR": "http://environment.example"}
    found = find_mirrors("http://option.example", environment)
    assert found.bases("debian") == ("http://option.example/debian",)
    assert find_mirrors(None, environment).bases("debian") == ("http://environment.example/debian",)


def test_nothing_to_go_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "find", lambda _: None)
    monkeypatch.setattr("sandwright.image.mirrors.APK_REPOSITORIES", tmp_path / "absent")
    with pytest.raises(HostError) as caught:
        find_mirrors(None, {})
    assert str(caught.value) == f"no mirror is known: this machine has no apt to ask; {HINT}"


def test_an_archive_without_a_mirror() -> None:
    with pytest.raises(HostError) as caught:
        parse_mirrors("debian=http://a.example").bases("debian-security")
    assert str(caught.value) == f"no mirror of the archive 'debian-security' is known; {HINT}"


@pytest.mark.needs("apt-get")
def test_a_mirror_of_alpine_is_added_to_the_machine_s() -> None:
    found = find_mirrors("alpine=http://a.example/alpine", {})
    assert found.bases("alpine") == ("http://a.example/alpine",)
    assert found.archives["debian"] == machine_mirrors().archives["debian"]


def test_what_is_named_of_debian_replaces_the_machine_s() -> None:
    found = find_mirrors("debian-security=http://a.example/s,alpine=http://a.example/alpine", {})
    assert found.archives == {
        "debian-security": ("http://a.example/s",),
        "alpine": ("http://a.example/alpine",),
    }


def test_the_mirrors_of_this_machine_s_apk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = tmp_path / "repositories"
    listed.write_text(
        "# comment\nhttp://a.example/alpine/v3.22/main\n@testing http://b.example/edge/testing/\n"
        "http://a.example/alpine/v3.22/community\n/media/cdrom/apks\n"
    )
    monkeypatch.setattr(mirrors, "APK_REPOSITORIES", listed)
    monkeypatch.setattr(process, "find", lambda _: None)
    assert find_mirrors(None, {}).archives == {"alpine": ("http://a.example/alpine", "http://b.example")}


def test_secrets_are_not_shown() -> None:
    assert redact_address("http://me:secret@one.example/debian") == "http://one.example/debian"
    assert redact_address("http://one.example/a@b") == "http://one.example/a@b"


CONFIGURED: dict[str, tuple[str, Mirrors]] = {
    "Debian's own sources": (
        "deb http://a.example/debian bookworm main contrib\n"
        "deb http://a.example/debian bookworm-updates main\n"
        "deb http://b.example/debian-security bookworm-security main\n",
        Mirrors(
            {"debian": ("http://a.example/debian",), "debian-security": ("http://b.example/debian-security",)}
        ),
    ),
    "a newer release": (
        "deb https://a.example/debian trixie main\n"
        "deb https://a.example/debian-security trixie-security main\n",
        Mirrors(
            {
                "debian": ("https://a.example/debian",),
                "debian-security": ("https://a.example/debian-security",),
            }
        ),
    ),
    "no security archive": (
        "deb http://a.example/pub/debian sid main\n",
        Mirrors(
            {
                "debian": ("http://a.example/pub/debian",),
                "debian-security": ("http://a.example/pub/debian-security",),
            }
        ),
    ),
    "others' archives beside it": (
        "deb http://a.example/prod bookworm main\n"
        "deb http://c.example/linux/debian bookworm stable\n"
        "deb http://d.example/debian bookworm main\n"
        "deb cdrom:[Debian]/ bookworm main\n",
        Mirrors(
            {"debian": ("http://d.example/debian",), "debian-security": ("http://d.example/debian-security",)}
        ),
    ),
    "two mirrors": (
        "deb http://a.example/debian bookworm main\ndeb http://b.example/debian bookworm main\n"
        "deb http://a.example/debian-security bookworm-security main\n",
        Mirrors(
            {
                "debian": ("http://a.example/debian", "http://b.example/debian"),
                "debian-security": ("http://a.example/debian-security",),
            }
        ),
    ),
    "a list of mirrors": (
        "deb mirror+file:{root}/list bookworm main\ndeb mirror+file:{root}/security bookworm-security main\n",
        Mirrors(
            {
                "debian": ("http://m.example/debian", "https://n.example/debian"),
                "debian-security": ("http://m.example/debian-security",),
            }
        ),
    ),
}


@pytest.mark.needs("apt-get")
class TestTheMachine:
    @pytest.fixture
    def configure(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """Settings under which apt reads only `sources.list` of the given directory."""
        for name in ("sources.list.d", "apt.conf.d"):
            (tmp_path / name).mkdir()
        (tmp_path / "list").write_text(
            "# two\nhttp://m.example/debian/ priority:1\n\nhttps://n.example/debian\nftp://o.example/debian\n"
        )
        (tmp_path / "security").write_text("http://m.example/debian-security\n")
        (tmp_path / "apt.conf").write_text(
            f'Dir::Etc "{tmp_path}";\nDir::Etc::main "/dev/null";\nDir::State::lists "{tmp_path}/lists";\n'
            'Acquire::http::Proxy "http://proxy.example:3142";\nAcquire::https::Proxy "DIRECT";\n'
        )
        monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt.conf"))
        return tmp_path

    @pytest.mark.parametrize(("sources", "mirrors"), CONFIGURED.values(), ids=CONFIGURED.keys())
    def test_what_apt_is_configured_with(self, configure: Path, sources: str, mirrors: Mirrors) -> None:
        (configure / "sources.list").write_text(sources.format(root=configure))
        found = machine_mirrors()
        assert {name: {*bases} for name, bases in found.archives.items()} == {
            name: {*bases} for name, bases in mirrors.archives.items()
        }
        assert found.proxies == {"http": "http://proxy.example:3142"}

    @pytest.mark.parametrize(
        "sources", ["", "deb http://a.example/ubuntu jammy main\n"], ids=["none", "Ubuntu's"]
    )
    def test_a_machine_without_debian_s(self, configure: Path, sources: str) -> None:
        (configure / "sources.list").write_text(sources)
        with pytest.raises(HostError) as caught:
            machine_mirrors()
        assert str(caught.value) == f"this machine's apt knows no mirror of Debian; {HINT}"

    def test_release_files_tell_whose_an_archive_is(self, configure: Path) -> None:
        (configure / "sources.list").write_text(
            "deb http://a.example/other bookworm main\ndeb http://b.example/debian bookworm main\n"
        )
        (configure / "lists").mkdir()
        architecture = process.run("dpkg", "--print-architecture").text
        for name, origin in (("a.example_other", "Debian"), ("b.example_debian", "Somebody")):
            (configure / "lists" / f"{name}_dists_bookworm_InRelease").write_text(
                f"Origin: {origin}\nLabel: {origin}\nSuite: stable\nCodename: bookworm\n"
            )
            (configure / "lists" / f"{name}_dists_bookworm_main_binary-{architecture}_Packages").write_text(
                ""
            )
        assert machine_mirrors().archives["debian"] == ("http://a.example/other",)
