"""The id-mapping strategy of each method: a table, the rendered artifacts, and the real user inside."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sandwright import process
from sandwright.api import Policy
from sandwright.errors import UsageError
from sandwright.methods import METHODS, registry
from sandwright.methods.registry import render
from sandwright.policy.collect import collect_facts
from support.idmapping import IdMapping, IdStrategy, InnerId, MappingHost, mapping
from support.initcontainers import container
from support.launchers import launcher_of
from support.thorough import covering, representative

DECLARATIONS = {name: registry.declaration(name).support for name in METHODS}

ROOT, USER = MappingHost(as_root=True), MappingHost()
ROOTLESS = MappingHost(rootless=True)
REMAPPED = MappingHost(remapped=True)
NUMBERLESS = MappingHost(numbers=False)

TABLE: list[tuple[str, MappingHost, str, IdStrategy, InnerId, bool]] = [
    ("bwrap", ROOT, "auto", "itself", "caller", False),
    ("bwrap", USER, "required", "itself", "caller", False),
    ("seatbelt", USER, "auto", "itself", "caller", False),
    ("noop", USER, "auto", "itself", "caller", False),
    ("docker", USER, "auto", "accounts", "caller", True),
    ("docker", USER, "required", "accounts", "caller", True),
    ("docker", ROOT, "auto", "accounts", "root", True),
    ("docker", ROOTLESS, "auto", "namespace", "root", True),
    ("docker", REMAPPED, "auto", "none", "other", False),
    ("docker", USER, "off", "none", "other", False),
    ("devcontainer", USER, "auto", "accounts", "caller", True),
    ("podman", USER, "auto", "namespace", "caller", True),
    ("podman", NUMBERLESS, "auto", "namespace", "root", True),
    ("podman", ROOT, "auto", "accounts", "root", True),
    ("podman", USER, "off", "none", "other", False),
    ("oci", ROOT, "auto", "namespace", "root", True),
    ("oci", USER, "auto", "namespace", "root", True),
    ("oci", USER, "off", "namespace", "root", False),
    ("gvisor", ROOT, "required", "namespace", "root", True),
    ("gvisor", USER, "auto", "namespace", "root", True),
    ("kubernetes", USER, "auto", "none", "other", False),
    ("user", USER, "auto", "none", "other", False),
    ("alcless", USER, "auto", "none", "other", False),
]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row[0]}-{row[2]}-{row[3]}-{row[4]}")
def test_the_table(row: tuple[str, MappingHost, str, IdStrategy, InnerId, bool]) -> None:
    method, engine, mode, rung, inside, named = row
    assert mapping(method, engine, mode=mode) == IdMapping(rung, inside, named=named)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("method", "engine", "mode", "expected"),
    [
        ("docker", USER, "auto", IdMapping("none", "root", named=True)),
        ("docker", ROOT, "auto", IdMapping("accounts", "root", named=True)),
        ("docker", USER, "required", IdMapping("accounts", "caller", named=True)),
        ("podman", USER, "auto", IdMapping("namespace", "root", named=True)),
        ("podman", NUMBERLESS, "auto", IdMapping("namespace", "root", named=True)),
    ],
)
def test_what_may_gain_rights(method: str, engine: MappingHost, mode: str, expected: IdMapping) -> None:
    assert mapping(method, engine, mode=mode, sandbox_root=True) == expected  # type: ignore[arg-type]


def test_every_method_has_a_rung() -> None:
    for method in DECLARATIONS:
        assert mapping(method, USER)
    with pytest.raises(UsageError, match="there is no method 'lxc'"):
        mapping("lxc", USER)


def rendered(method: str, uid: int, mode: str, home: str = "/home/ada") -> dict[str, str]:
    policy = Policy.from_text(f"schema: 1\nmethod: {method}\nimage: debian\nuser: {{mapping: {mode}}}\n")
    facts = collect_facts(policy, project=Path("/srv"), environ={"HOME": home})
    user = replace(facts, uid=uid, gid=uid, user="ada" if uid else "root")
    artifacts = render(policy.resolve(user), method).artifacts
    return {each.name: each.content.decode(errors="replace") for each in artifacts}


@pytest.mark.parametrize(
    ("method", "mode", "uid"),
    representative(
        covering(["docker", "podman", "oci", "gvisor"], ["auto", "off"], [0, 1000], thorough=True),
        *("docker-auto-0", "docker-off-1000", "podman-auto-1000", "podman-off-0"),
        *("oci-auto-0", "oci-off-1000", "gvisor-auto-1000", "gvisor-off-0"),
    ),
)
def test_it_says_what_is_rendered(method: str, mode: str, uid: int) -> None:
    engine = USER if uid else ROOT
    found = rendered(method, uid, mode)
    said = mapping(method, engine, mode=mode)  # type: ignore[arg-type]
    assert ("passwd" in found) == ("group" in found) == said.named
    if method in ("oci", "gvisor"):
        config = json.loads(found["config.json"])
        inside: InnerId = "root" if config["process"]["user"] == {"uid": 0, "gid": 0} else "other"
        spaces = "user" in [each["type"] for each in config["linux"]["namespaces"]]
        spaces = spaces or "--rootless" in found["launch.plan"].split("\0")
    else:
        arguments = found["launch.plan"].replace("\0", "\n")
        user = re.search(r"^--user=(\S+)", arguments, re.MULTILINE)
        numbers: dict[str, InnerId] = {"0:0": "root", "1000:1000": "caller"}
        inside = numbers[user[1]] if user else "other"
        spaces = "--userns=keep-id" in arguments
    assert said.inside == inside
    assert (said.strategy == "namespace") == spaces
    if said.named:
        first = found["passwd"].splitlines()[0].split(":")
        number = {"root": "0", "caller": "1000"}[said.inside]
        assert (first[2], first[3], first[5]) == (number, number, "/home/ada")


WHO = (
    "id -u; id -g; echo $HOME;"
    "while IFS=: read -r n p u g c h s; do [ $u != $(id -u) ] || { echo $n $h; break; }; done </etc/passwd;"
    "id -un; id -gn; touch made; (echo x >>/etc/passwd) 2>/dev/null && echo written"
)


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that every user can enter: a project `p`, a root `root`."""
    with tempfile.TemporaryDirectory(prefix="sandwright-") as name:
        folder = Path(name)
        root = container(folder).root
        for each in ("run", "sys", "usr", "var"):
            (root / each).mkdir(exist_ok=True)
        for each in ("hosts", "hostname", "resolv.conf"):
            (root / "etc" / each).touch()
        (folder / "p").mkdir()
        yield folder


@pytest.mark.skipif(os.getuid() != 0, reason="becomes another user")
@pytest.mark.timeout(180)
@pytest.mark.parametrize("uid", [0, 4242], ids=["root", "user"])
@pytest.mark.parametrize(
    "method",
    [
        pytest.param("oci", marks=pytest.mark.needs("runc", "busybox", "setpriv")),
        pytest.param("gvisor", marks=pytest.mark.needs("runsc", "busybox", "setpriv")),
    ],
)
def test_in_the_real_sandbox(place: Path, method: str, uid: int) -> None:
    """The name, the home and the owner of new files agree, inside and outside."""
    home, text = str(place), f"schema: 1\nmethod: {method}\nimage: debian\n"
    user = "ada" if uid else "root"
    launcher_of(text, method, place / "out", project=place / "p", uid=uid, gid=uid, user=user)
    for path in (place, *place.rglob("*")):
        os.chown(path, uid, uid, follow_symlinks=False)
    env = {
        "PATH": os.environ["PATH"],
        "HOME": home,
        "XDG_RUNTIME_DIR": home,
        "SANDWRIGHT_ROOTFS": f"{place}/root",
    }
    who = [process.which("setpriv"), "--reuid", str(uid), "--regid", str(uid), "--clear-groups", "--"]
    result = process.run(
        *who, f"{place}/out/launch", "sh", "-c", WHO, env=env, cwd=place / "p", timeout=120, check=False
    )
    assert result.text.splitlines() == ["0", "0", home, f"root {home}", "root", "root"], result.stderr
    made = (place / "p" / "made").stat()
    assert (made.st_uid, made.st_gid) == (uid, uid)


@pytest.mark.skipif(os.getuid() != 0, reason="starts a container as root")
@pytest.mark.needs("runc", "busybox")
@pytest.mark.parametrize("left", ["nothing", "a link"])
def test_an_image_without_account_files_starts_all_the_same(place: Path, left: str) -> None:
    for name in ("passwd", "group"):
        (place / "root/etc" / name).unlink()
        if left == "a link":
            (place / "root/etc" / name).symlink_to("elsewhere")
    launcher_of("schema: 1\nmethod: oci\nimage: debian\n", "oci", place / "out", project=place / "p")
    env = {"PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": str(place), "SANDWRIGHT_ROOTFS": f"{place}/root"}
    result = process.run(f"{place}/out/launch", "id", "-u", env=env, cwd=place / "p", timeout=60, check=False)
    assert (result.status, result.text) == (0, "0"), result.stderr
    shutil.rmtree(place / "out")
