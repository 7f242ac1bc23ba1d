"""Images × runtimes × ways of starting: the user inside, and the owner of new files.

This is a selection of the starts of `sandwright verify-mapping`; test_mapping_command has all cases, under
runc.

Tests of verify/mapping/seen.py.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from sandwright.errors import BuildError
from sandwright.host import collect_host
from sandwright.rootfs.bundles.identity import AccountFiles
from sandwright.runtime.contract import Start, StartableImage
from sandwright.verify.mapping.cases import CALLER, ExpectedUser, MappingCase, mapping_cases
from sandwright.verify.mapping.prove import fault, prove_mapping
from sandwright.verify.mapping.starts import MappedImage
from sandwright.watchdog import Ended
from support import mappedimages

root = pytest.mark.skipif(os.getuid() != 0, reason="starts containers of several users")

SOME = (
    "a uid that another account has",
    "read-only: rendered accounts",
    "read-only: unknown numbers",
    "started as a number, read-only, rendered accounts",
)
ALL = (
    "the account as it is",
    "a caller's numbers",
    "a uid that another account has",
    "a gid that another group has",
    "a high uid",
    "root, when it is asked for",
    "read-only: the account as it is",
    "read-only: unknown numbers",
    "read-only: rendered accounts",
    "rendered accounts",
    "started as the account",
    "started as a number",
    "started as a number, read-only, rendered accounts",
    "started as a number, and root asked for",
)


@pytest.fixture(scope="module")
def alpine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return mappedimages.alpine_like(tmp_path_factory.mktemp("alpine"))


@pytest.fixture(scope="module")
def distroless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return mappedimages.on_distroless(tmp_path_factory.mktemp("distroless"))


def prove(layout: Path, runtime: str, store: Path, only: tuple[str, ...]) -> None:
    found = prove_mapping(
        layout, platform=collect_host().platform, store=store, runtimes=[runtime], only=only
    )
    assert {each.check: each.detail for row in found for each in row.findings} == dict.fromkeys(only, "")


@root
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("runtime", "only"),
    [
        pytest.param("runc", SOME, marks=pytest.mark.needs("runc", "busybox", "unshare")),
        pytest.param("runsc", SOME, marks=pytest.mark.needs("runsc", "busybox", "unshare")),
        pytest.param("docker", SOME, marks=pytest.mark.needs("docker", "busybox")),
        pytest.param("podman", SOME, marks=pytest.mark.needs("podman", "runc", "busybox")),
    ],
)
def test_an_alpine_like_image(alpine: Path, tmp_path: Path, runtime: str, only: tuple[str, ...]) -> None:
    prove(alpine, runtime, tmp_path, only)


@root
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("runtime", "only"),
    [
        pytest.param("runc", SOME, marks=pytest.mark.needs("runc", "unshare")),
        pytest.param("docker", SOME[:2], marks=pytest.mark.needs("docker")),
    ],
)
def test_distroless(distroless: Path, tmp_path: Path, runtime: str, only: tuple[str, ...]) -> None:
    prove(distroless, runtime, tmp_path, only)


PASSWD = "root:x:0:0::/root:/bin/sh\nwww:x:33:33::/var/www:/x\nagent:x:1000:1000::/home/agent:/bin/sh"


def test_the_cases() -> None:
    """The expected cases for one image, written by hand."""
    group = "root:x:0:\nstaff:x:50:\ndialout:x:20:\nagent:x:1000:\n"
    found = {case.name: case for case in mapping_cases("agent", AccountFiles(PASSWD, group))}
    assert tuple(found) == ALL
    expected = {name: case.expected for name, case in found.items()}
    home = "/home/agent"
    assert expected["the account as it is"] == ExpectedUser(1000, 1000, "agent", "agent", home, at_home=True)
    assert expected["a caller's numbers"] == ExpectedUser(4242, 4243, "agent", "agent", home, at_home=True)
    assert expected["a uid that another account has"] == ExpectedUser(
        33, 4243, "agent", "agent", home, at_home=True
    )
    assert expected["a gid that another group has"] == ExpectedUser(
        4242, 20, "agent", "dialout", home, at_home=True
    )
    assert expected["a high uid"] == ExpectedUser(100000, 100000, "agent", "agent", home, at_home=True)
    assert expected["root, when it is asked for"] == ExpectedUser(0, 0, "root", "root", "/root", at_home=True)
    assert expected["read-only: rendered accounts"] == ExpectedUser(4242, 4243, "ada", "ada", "/home/ada")
    assert expected["started as a number"] == ExpectedUser(4242, 4243, None, None, "/")


def test_an_image_with_nobody_else() -> None:
    names = [
        case.name for case in mapping_cases("agent", AccountFiles("agent:x:1:1::/a:/b\n", "agent:x:1:\n"))
    ]
    missing = {"a uid that another account has", "a gid that another group has", "root, when it is asked for"}
    assert set(names) == set(ALL) - missing
    with pytest.raises(BuildError, match="the image has no account agent"):
        mapping_cases("agent", AccountFiles())


TOLD = {
    "uid": "4242",
    "gid": "4243",
    "name": "agent",
    "group": "agent",
    "home": "/home/agent",
    "user": "agent",
    "account": "agent:/home/agent",
    "written": "yes",
    "CapEff:": "0000000000000000",
    "CapBnd:": "0000000000000000",
    "NoNewPrivs:": "1",
}
WANTED = MappingCase(
    "a caller's numbers",
    ExpectedUser(*CALLER, "agent", "agent", "/home/agent", at_home=True),
    requested_ids=CALLER,
)
REFUSAL = MappingCase("refused", "it can't", requested_ids=CALLER)


class Liar:
    """A runtime that gives these answers and this owner."""

    def __init__(self, told: dict[str, str], status: int, stderr: str, owner: tuple[int, int]) -> None:
        self._told, self._status, self._stderr, self._owner = told, status, stderr, owner

    def run(self, start: Start) -> Ended:
        assert start.argv is not None
        assert start.run_as is not None
        new = start.run_as.mounts["/workspace"] / "new"
        new.touch()
        os.chown(new, *self._owner)
        output = "".join(self._answer(line) for line in start.argv[3:])
        return Ended("exited", self._status, output.encode(), self._stderr, 0.1)

    def _answer(self, line: str) -> str:
        """An answer of the probe's protocol to one line of it."""
        word, index, *asked = line.split(" ")
        told, value = self._told, ""
        match [asked[0], *(bytes.fromhex(each).decode() for each in asked[1:])]:
            case ["identity"]:
                value = f"{told['uid']} {told['uid']} {told['gid']} {told['gid']}"
            case ["call", "id", option]:
                value = f"status 0\n{told['name' if option == '-un' else 'group']}\n"
            case ["environment", name]:
                value = told[name.lower()]
            case ["read", "/etc/passwd"]:
                name, _, home = told["account"].partition(":")
                value = f"root:x:0:0::/root:/x\n{name}:x:{told['uid']}:1::{home}:/x\n"
            case ["read", _]:
                value = "".join(f"{key} {told[key]}\n" for key in told if key.endswith(":"))
            case ["create", path] if not path.startswith("/workspace/") and not told["written"]:
                return f"{word} {index} errno EACCES\n"
        return f"{word} {index} ok {value.encode().hex() or '-'}\n"


def look(
    case: MappingCase,
    tmp_path: Path,
    told: dict[str, str] | None = None,
    *,
    status: int = 42,
    stderr: str = "",
    owner: tuple[int, int] = CALLER,
) -> str:
    image = MappedImage(StartableImage("mapped", "linux/amd64", tmp_path, lambda *_: None), (), {})
    liar = Liar({**TOLD, **(told or {})}, status, stderr, owner)
    return fault(liar, image, case, "id", tmp_path)


LIES = {
    "uid": ({"uid": "0"}, "uid: 0, not 4242; passwd: 'root:/root', not 'agent:/home/agent'"),
    "gid": ({"gid": "0"}, "gid: 0, not 4243"),
    "name": ({"name": "www"}, "name: 'www', not 'agent'"),
    "a number for a name": ({"name": "4242"}, "name: None, not 'agent'"),
    "group": ({"group": ""}, "group: None, not 'agent'"),
    "home": ({"home": "/"}, "$HOME: '/', not '/home/agent'"),
    "user": ({"user": ""}, "$USER: None, not 'agent'"),
    "another account": ({"account": "www:/var/www"}, "passwd: 'www:/var/www', not 'agent:/home/agent'"),
    "nothing written": ({"written": ""}, "a file at home: None, not 'yes'"),
    "a capability": ({"CapEff:": "0000000000000001"}, "rights: 'CapEff:', not ''"),
    "of the bounding set": ({"CapBnd:": "00000000a80425fb"}, "rights: 'CapBnd:', not ''"),
    "new privileges": ({"NoNewPrivs:": "0"}, "rights: 'new privileges', not ''"),
}


@root
class TestWhatIsAmissIsFound:
    def test_the_control(self, tmp_path: Path) -> None:
        assert look(WANTED, tmp_path) == ""

    @pytest.mark.parametrize("name", LIES)
    def test_what_is_told(self, tmp_path: Path, name: str) -> None:
        told, found = LIES[name]
        assert look(WANTED, tmp_path, told) == found

    def test_who_owns_a_new_file(self, tmp_path: Path) -> None:
        assert look(WANTED, tmp_path, owner=(0, 0)) == "owner of a new file: (0, 0), not (4242, 4243)"

    def test_another_end(self, tmp_path: Path) -> None:
        assert look(WANTED, tmp_path, status=0) == "did not tell: status 0"

    def test_who_was_never_root_keeps_a_bounding_set(self, tmp_path: Path) -> None:
        started = replace(WANTED, user=CALLER)
        assert look(started, tmp_path, {"CapBnd:": "00000000a80425fb"}) == ""

    @pytest.mark.parametrize(
        ("status", "stderr", "found"),
        [
            (125, "sandwright-init: it can't be\n", ""),
            (125, "another\n", "was not refused: status 125: another"),
            (42, "", "was not refused: status 42"),
        ],
    )
    def test_refusals(self, tmp_path: Path, status: int, stderr: str, found: str) -> None:
        assert look(REFUSAL, tmp_path, status=status, stderr=stderr) == found


@root
@pytest.mark.needs("runc", "busybox", "unshare")
def test_an_image_that_only_looks_like_it(tmp_path: Path) -> None:
    """If the image has another program there that runs the command unchanged, the prover detects it."""
    layout = mappedimages.alpine_like(tmp_path, program=b'#!/bin/sh\nshift\nexec "$@"\n')
    found = prove_mapping(
        layout, platform=collect_host().platform, store=tmp_path / "store", runtimes=["runc"], only=SOME
    )
    faults = {each.check: each.detail for row in found for each in row.findings}
    assert faults["a uid that another account has"].startswith("uid: 0, not ")
    assert "rights: " in faults["a uid that another account has"]
    assert faults["read-only: unknown numbers"] == "was not refused: status 42"
