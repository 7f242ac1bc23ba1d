"""Each rule of `lint-image` is broken by an image made byte by byte, which breaks no other rule.

Tests of check/configuration.py.
Tests of check/image.py.
Tests of sarif.py.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from sandwright import process
from sandwright.check import layers, report
from sandwright.check.files import check_files
from sandwright.check.finding import RULES, ImageFinding, Waiver
from sandwright.check.image import CheckResult, check_image
from sandwright.check.secrets import secrets_in
from sandwright.documents.strictjson import parse_json
from sandwright.errors import ArchiveRefused, UsageError
from sandwright.image.layered import LayeredTree
from sandwright.image.tree import FileNode
from sandwright.release.contents import ImageContents, keep_nothing, read_contents
from sandwright.rootfs.images.source import open_image
from sandwright.rootfs.tar.codec import DecompressedStream
from sandwright.rootfs.tar.entry import EntryKind
from sandwright.rootfs.tar.limits import ArchiveLimits
from sandwright.rootfs.unpacking.layers import ImageLayer
from support import layouts, tars
from support.elffiles import AARCH64, Machine, elf, library, program
from support.standby import COMMAND
from support.tars import file, folder, symlink

KEY = b"-----BEGIN PRIVATE KEY-----\n" + b"MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7" * 2 + b"\n"
TOKEN = b"ghp_" + b"a1B2" * 9
PASSWD = b"root:x:0:0:root:/root:/bin/sh\napp:x:1000:1000::/home/app:/bin/sh\n"
GROUP = b"root:x:0:\napp:x:1000:\n"
MTIME = 1_600_000_000
GOOD = (
    folder(b"bin"),
    file(b"bin/run", b"#!/bin/run\n", mode=0o755),
    folder(b"etc"),
    file(b"etc/passwd", PASSWD),
    file(b"etc/group", GROUP),
    file(b"etc/os-release", b"ID=small\n"),
    folder(b"tmp", mode=0o1777),
)
CONFIG: dict[str, Any] = {
    "User": "app",
    "Env": ["PATH=/bin"],
    "Entrypoint": ["/bin/run"],
    "Labels": {
        f"org.opencontainers.image.{key}": "1" for key in ("version", "revision", "source", "licenses")
    },
}


def checked(
    path: Path,
    *members: bytes,
    upper: tuple[bytes, ...] = (),
    config: dict[str, Any] | None = None,
    without: bytes = b"",
    **options: Any,
) -> CheckResult:
    """Check an image that is valid except for `members`, a second layer, or its configuration."""
    made = layouts.Layout(path)
    kept = [each for each in GOOD if not without or without not in each[:100]]
    archives = [tars.archive(*kept, *members), *([tars.archive(*upper)] if upper else [])]
    steps = [{"created_by": "test"}] * len(archives)
    change = {"history": steps, "created": "2026-01-01T00:00:00Z"}
    image = made.image(*archives, config={**CONFIG, **(config or {})}, change_config=change)
    return check_image(made.index(image), **options)


def found(path: Path, *members: bytes, **options: Any) -> list[tuple[str, str]]:
    return [(each.rule, each.where) for each in checked(path, *members, **options).findings]


def test_a_good_image_has_no_finding(tmp_path: Path) -> None:
    made = checked(tmp_path / "i")
    assert made.findings == ()
    assert (made.platform, made.layers) == ("linux/amd64", 1)


MEMBERS: dict[str, tuple[tuple[bytes, ...], list[tuple[str, str]]]] = {
    "twice": ((file(b"bin/run", b"other", mode=0o755),), [("layer/duplicate", "bin/run")]),
    "takes nothing away": ((file(b"etc/.wh.gone"),), [("layer/whiteout", "etc/.wh.gone")]),
    "climbs": ((symlink(b"etc/up", b"../../x"),), [("layer/link-outside", "etc/up")]),
    "climbs and comes back": ((symlink(b"etc/up", b"../etc/../../x"),), [("layer/link-outside", "etc/up")]),
    "set-uid": ((file(b"bin/own", b"x", mode=0o4755),), [("layer/set-id", "bin/own")]),
    "set-gid": ((file(b"bin/own", b"x", mode=0o2755),), [("layer/set-id", "bin/own")]),
    "set-uid through another name": (
        (tars.hardlink(b"bin/own", b"bin/run", mode=0o4755),), [("layer/set-id", "bin/own")],
    ),
    "writable through another name": (
        (tars.hardlink(b"bin/own", b"bin/run", mode=0o666),), [("layer/world-writable", "bin/own")],
    ),
    "a password": (
        (file(b"etc/shadow", b"root:$6$salt$hash:1::::::\napp:!$6$salt$hash:1::::::\n", mode=0o600),),
        [("files/password", "etc/shadow")],
    ),
    "writable file": ((file(b"etc/open", mode=0o666),), [("layer/world-writable", "etc/open")]),
    "writable directory": ((folder(b"open", mode=0o777),), [("layer/world-writable", "open")]),
    "newer": ((file(b"etc/new", mtime=2_000_000_000),), [("layer/time", "etc/new")]),
    "several newer, told once": (
        tuple(file(b"etc/new%d" % each, mtime=2_000_000_000 + each) for each in range(500)),
        [("layer/time", "etc/new499")],
    ),
    "control characters": ((file(b"etc/a\nb"),), [("layer/name", r"etc/a\nb")]),
    "not UTF-8": ((file(b"etc/\xff"),), [("layer/encoding", r"etc/\xff")]),
    "case": ((file(b"etc/Passwd"),), [("layer/case", "etc/Passwd")]),
    "a key": ((file(b"etc/tls.pem", KEY),), [("secret/content", "etc/tls.pem")]),
    "a token": ((file(b"etc/rc", b"x=" + TOKEN),), [("secret/content", "etc/rc")]),
    "logins": ((folder(b"root"), file(b"root/.netrc", b"machine x")), [("secret/file", "root/.netrc")]),
    "a repository": (
        (folder(b"app"), folder(b"app/.git"), file(b"app/.git/HEAD", b"ref")),
        [("secret/file", "app/.git"), ("secret/file", "app/.git/HEAD")],
    ),
    "strangers": ((file(b"etc/x", uid=7), file(b"etc/y", uid=7)), [("files/owner", "etc/x")]),
    "the host's": (
        (file(b"etc/resolv.conf", b"nameserver 10.0.0.1\n"),), [("files/of-the-host", "etc/resolv.conf")],
    ),
    "downloads": (
        (file(b"var/cache/apt/archives/a.deb", b"x"), file(b"var/cache/apt/archives/lock")),
        [("files/cache", "var/cache/apt/archives/")],
    ),
    "half merged": (
        (symlink(b"lib", b"usr/lib"), folder(b"usr"), folder(b"usr/lib")), [("files/merged-usr", "bin")],
    ),
    "open passwords": (
        (file(b"etc/shadow", b"root:*:1::::::\n", mode=0o644),), [("files/shadow", "etc/shadow")],
    ),
    "no password": (
        (file(b"etc/shadow", b"root::1::::::\n", mode=0o600),), [("files/no-password", "etc/shadow")],
    ),
    "another machine's": (
        (file(b"bin/arm", elf(machine=Machine(AARCH64)), mode=0o755),), [("files/architecture", "bin/arm")],
    ),
    "a missing library": (
        (file(b"bin/lost", library(b"", b"libgone.so.1"), mode=0o755),), [("files/library", "bin/lost")],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("members", "rules"), MEMBERS.values(), ids=MEMBERS)
def test_a_member(members: tuple[bytes, ...], rules: list[tuple[str, str]], tmp_path: Path) -> None:
    assert found(tmp_path / "i", *members) == rules


ALLOWED: dict[str, tuple[bytes, ...]] = {
    "su": (folder(b"usr"), folder(b"usr/bin"), file(b"usr/bin/su", b"x", mode=0o4755)),
    "sticky": (folder(b"drop", mode=0o1777),),
    "a link inside": (symlink(b"etc/up", b"../bin/run"), symlink(b"etc/root", b"/bin/run")),
    "a public key": (file(b"etc/tls.pem", KEY.replace(b"PRIVATE", b"PUBLIC")),),
    "the words alone": (file(b"etc/doc", b"-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----\n"),),
    "a library that is there": (
        file(b"bin/found", library(b"", b"libhere.so.1"), mode=0o755), file(b"bin/libhere.so.1", b"x"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("members", ALLOWED.values(), ids=ALLOWED)
def test_what_is_right(members: tuple[bytes, ...], tmp_path: Path) -> None:
    assert found(tmp_path / "i", *members) == []


def test_what_an_upper_layer_hides_is_found(tmp_path: Path) -> None:
    rules = found(tmp_path / "i", file(b"etc/rc", TOKEN), upper=(folder(b"etc"), file(b"etc/.wh.rc")))
    assert rules == [("secret/content", "etc/rc")]


CONFIGURATIONS: dict[str, tuple[dict[str, Any], list[tuple[str, str]]]] = {
    "root": ({"User": ""}, [("config/user", "User")]),
    "uid 0": ({"User": "0:1000"}, [("config/user", "User")]),
    "nobody it knows": ({"User": "ghost"}, [("config/unknown-user", "User")]),
    "relative": ({"WorkingDir": "work"}, [("config/directory", "WorkingDir")]),
    "no program": ({"Entrypoint": ["/bin/gone"]}, [("config/program", "Entrypoint")]),
    "not executable": ({"Entrypoint": ["/etc/passwd"]}, [("config/program", "Entrypoint")]),
    "a line": (
        {"Entrypoint": ["/bin/sh", "-c", "run"]},
        [("config/program", "Entrypoint"), ("config/shell", "Entrypoint")],
    ),
    "by PATH": ({"Entrypoint": ["run"]}, []),
    "not by PATH": ({"Entrypoint": ["passwd"]}, [("config/program", "Entrypoint")]),
    "relative PATH": ({"Env": ["PATH=/bin:."]}, [("config/path", "Env: PATH")]),
    "open PATH": ({"Env": ["PATH=/bin:/tmp"]}, [("config/path", "Env: PATH")]),
    "no labels": ({"Labels": {}}, [("config/label", "")]),
    "volume": ({"Volumes": {"/etc": {}, "/data": {}}}, [("config/volume", "Volumes")]),
    "signal": ({"StopSignal": "SIGWRONG"}, [("config/signal", "StopSignal")]),
    "signals": ({"StopSignal": "SIGRTMIN+3"}, []),
    "a secret's name": (
        {"Env": ["PATH=/bin", "DB_PASSWORD=hunter22"]}, [("secret/configuration", "Env: DB_PASSWORD")],
    ),
    "names of secrets": (
        {"Env": ["PATH=/bin", "PGPASSWORD=hunter22", "DB_PASS=hunter22", "SECRETKEY=hunter22"]},
        [("secret/configuration", f"Env: {name}") for name in ("DB_PASS", "PGPASSWORD", "SECRETKEY")],
    ),
    "a login in an address": (
        {"Env": ["PATH=/bin", "DB=postgres://app:hunter22@db/app"]}, [("secret/configuration", "Env: DB")],
    ),
    "addresses": ({"Env": ["PATH=/bin", "DB=postgres://app@db/app", "X=http://h:80/a", "Y=://$U:$P@h"]}, []),
    "a label's name": (
        {"Labels": {**CONFIG["Labels"], "com.example.api-token": "hunter22"}},
        [("secret/configuration", "Labels: com.example.api-token")],
    ),
    "an argument": (
        {"Cmd": ["--token", TOKEN.decode()]}, [("secret/configuration", "config")],
    ),
    "a name alone": ({"Env": ["PATH=/bin", "TOKEN_FILE=/run/token", "PASSWORD="]}, []),
    "a token": ({"Env": ["PATH=/bin", f"X={TOKEN.decode()}"]}, [("secret/configuration", "Env: X")]),
}  # fmt: skip


@pytest.mark.parametrize(("config", "rules"), CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_a_configuration(config: dict[str, Any], rules: list[tuple[str, str]], tmp_path: Path) -> None:
    assert found(tmp_path / "i", config=config) == rules


ODD = [1, True, 1.5, "x", "9" * 5000, [], [1], [None], {}, {"a": 1}, {"a": None}]


@pytest.mark.parametrize(
    "key", ["User", "Env", "Entrypoint", "Cmd", "Labels", "Volumes", "StopSignal", "Healthcheck"]
)
def test_odd_configurations_are_told(key: str, tmp_path: Path) -> None:
    """Unexpected values in a document are findings, not errors of the check."""
    for number, value in enumerate(ODD):
        found(tmp_path / str(number), config={key: value})
    assert ("config/type", f"config.{key}") in found(tmp_path / "i", config={key: 1}) or key == "Healthcheck"


@pytest.mark.parametrize("value", ODD)
def test_odd_documents_are_told(value: object, tmp_path: Path) -> None:
    for number, key in enumerate(("config", "history", "created")):
        made = layouts.Layout(tmp_path / str(number))
        path = made.index(made.image(tars.archive(*GOOD), config=CONFIG, change_config={key: value}))
        assert check_image(path).findings
    made = layouts.Layout(tmp_path / "annotations")
    path = made.index(made.image(tars.archive(*GOOD), config=CONFIG, change={"annotations": value}))
    assert check_image(path).findings


@pytest.mark.parametrize(
    ("made_by", "expected"),
    [
        ("|1 NPM_TOKEN=hunter22 /bin/sh -c npm ci", True),
        ("/bin/sh -c #(nop)  ENV DB_PASSWORD=hunter22", True),
        ("ENV DB_PASSWORD='hunter22'", True),
        ("RUN /bin/sh -c curl -H 'x: " + TOKEN.decode() + "' # buildkit", True),
        ("RUN git clone https://me:hunter22@host/x", True),
        ("RUN /bin/sh -c TOKEN=$(cat /run/secrets/t) ./x PASSWORD=$P", False),
        ("ENV TOKEN_FILE=/run/secrets/t", False),
        ("mmdebstrap bookworm: passwd=1:4.13+dfsg1-1", True),
        ("mmdebstrap bookworm: passwd_1:4.13+dfsg1-1", False),
    ],
)
def test_the_history(made_by: str, expected: bool, tmp_path: Path) -> None:
    made = layouts.Layout(tmp_path / "i")
    change = {"history": [{"created_by": made_by}], "created": "2026-01-01T00:00:00Z"}
    path = made.index(made.image(tars.archive(*GOOD), config=CONFIG, change_config=change))
    findings = [(each.rule, each.where) for each in check_image(path).findings]
    assert findings == ([("secret/configuration", "history[0]")] if expected else [])


@pytest.mark.parametrize(
    ("without", "rule"),
    [(b"etc/passwd", "files/accounts"), (b"etc/os-release", "files/os-release"), (b"tmp", "files/temporary")],
)
def test_what_is_missing(without: bytes, rule: str, tmp_path: Path) -> None:
    assert rule in [name for name, _ in found(tmp_path / "i", without=without)]


def test_numbers_of_any_length_are_told(tmp_path: Path) -> None:
    """Python converts no number of more than 4300 digits."""
    made = checked(tmp_path / "i", file(b"etc/passwd", b"x:x:" + b"9" * 5000 + b":0::/:/bin/sh\n"))
    assert "line 1 is no line of it" in [each.message for each in made.findings]


def test_accounts_with_two_meanings(tmp_path: Path) -> None:
    double = PASSWD + b"toor:x:0:0::/:/bin/sh\nbroken\n"
    made = checked(tmp_path / "i", file(b"etc/passwd", double), without=b"etc/passwd")
    assert [each.message for each in made.findings] == ["line 4 is no line of it", "the id 0 is there twice"]


def test_a_damaged_layout(tmp_path: Path) -> None:
    path = tmp_path / "i"
    checked(path)
    blobs = sorted((path / "blobs" / "sha256").iterdir(), key=lambda each: each.stat().st_size)
    layer = next(each for each in blobs if each.read_bytes().startswith(b"\x1f\x8b"))
    (path / "blobs" / "sha256" / ("0" * 64)).write_bytes(b"")
    raw = bytearray(layer.read_bytes())
    raw[-20] ^= 1
    layer.write_bytes(raw)
    rules = [(each.rule, each.where) for each in check_image(path).findings]
    assert ("layout/blob", f"sha256:{layer.name}") in rules
    assert ("layout/unreferenced", "sha256:" + "0" * 64) in rules
    assert ("layout/refused", "") in rules


def test_size_and_waivers(tmp_path: Path) -> None:
    made = checked(
        tmp_path / "i",
        file(b"bin/own", b"x", mode=0o4755),
        file(b"bin/other", b"x", mode=0o4755),
        budget=10,
        waivers=[Waiver.parse("layer/set-id:bin/own=it is ours = really")],
    )
    assert [(each.rule, each.where, each.waived) for each in made.findings] == [
        ("layer/set-id", "bin/other", ""),
        ("layer/set-id", "bin/own", "it is ours = really"),
        ("size/budget", "", ""),
    ]
    assert [each.rule for each in made.faults] == ["layer/set-id", "size/budget"]
    for text in ("layer/set-id", "layer/set-id=", "no/rule=x"):
        with pytest.raises(UsageError):
            Waiver.parse(text)


def test_every_rule_is_broken_by_some_test() -> None:
    """Every rule has a test that breaks it."""
    own = Path(__file__).read_text() + Path(__file__).with_name("test_structure.py").read_text()
    assert {name for name in RULES if f'"{name}"' not in own} == set()


def test_documents(tmp_path: Path) -> None:
    made = layouts.Layout(tmp_path / "i")
    archive = tars.archive(*GOOD)
    image = made.manifest(archive, config=CONFIG)
    del image["mediaType"]
    image["layers"][0]["urls"] = ["https://example.com/layer"]
    path = made.index(made.document(image, layouts.MANIFEST))
    rules = [each.rule for each in check_image(path).findings]
    assert {"layout/media-type", "layout/history", "layout/elsewhere"} <= set(rules)


def test_rights_of_files_and_devices(tmp_path: Path) -> None:
    null = tars.header(b"dev0", kind=b"3", device=(1, 3), mode=0o600)
    rules = found(tmp_path / "i", null, file(b"bin/lost", program(interpreter=b"/lib/ld.so"), mode=0o755))
    assert rules == [("files/interpreter", "bin/lost"), ("layer/device", "dev0")]
    capable = tars.pax({b"SCHILY.xattr.security.capability": b"\1\0\0\2" + bytes(16)}) + file(
        b"bin/ping", b"x", mode=0o755
    )
    assert found(tmp_path / "j", capable) == [("layer/capability", "bin/ping")]


def test_reports(tmp_path: Path) -> None:
    made = [
        checked(
            tmp_path / "i",
            file(b"bin/own\x01", b"x", mode=0o4755),
            waivers=[Waiver.parse("layer/name=old names")],
        )
    ]
    rows = json.loads(report.to_json(made))["images"][0]["findings"]
    assert [(row["rule"], row["severity"], row["waived"]) for row in rows] == [
        ("layer/name", "error", "old names"), ("layer/set-id", "error", ""),
    ]  # fmt: skip
    run = json.loads(report.to_sarif(made))["runs"][0]
    assert [result["ruleId"] for result in run["results"]] == ["layer/name", "layer/set-id"]
    assert run["results"][0]["suppressions"] == [{"kind": "external", "justification": "old names"}]
    assert "suppressions" not in run["results"][1]
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    suite = ET.fromstring(report.to_junit(made)).find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == (str(len(RULES)), "1", "1")


def test_the_task(tmp_path: Path) -> None:
    checked(tmp_path / "i", file(b"bin/own", b"x", mode=0o4755))
    task = (
        *COMMAND,
        "lint-image",
        tmp_path / "i",
    )
    words = (*task, "--sarif", tmp_path / "out.sarif")
    ended = process.run(*words, check=False, timeout=60)
    assert ended.status == 12
    assert b"error: layer/set-id: bin/own: in layer 1: runs as user 0 for every caller\n" in ended.stdout
    assert json.loads((tmp_path / "out.sarif").read_bytes())["version"] == "2.1.0"
    accepted = process.run(*words, "--accept", "layer/set-id=known", timeout=60)
    assert b"0 errors" in accepted.stdout
    stale = process.run(*words, *("--accept", "layer/set-id=known", "--accept", "size/budget=x"), check=False)
    assert (stale.status, "size/budget" in stale.stderr) == (12, True), stale.stderr


def test_an_image_writes_no_line_of_its_own(tmp_path: Path) -> None:
    """Each line begins with our text: a code host obeys `::stop-commands::`, a person believes `0 errors`."""
    fake = "x\n::stop-commands::y\ni linux/amd64: 1 layers, 1 kB, 0 errors, 0 warnings"
    config = {
        "WorkingDir": fake,
        "Env": [f"{fake}_TOKEN=abcdefgh", f"PATH={fake}"],
        "StopSignal": fake,
        "Cmd": [fake],
    }
    made = checked(tmp_path / "i", config=config)
    assert sum("\n" in f"{each}" for each in made.findings) > 3, "the control: the findings have it"
    ended = process.run(*COMMAND, "lint-image", tmp_path / "i", check=False, timeout=60)
    starts = [line.split(b" ")[0] for line in (ended.stdout + ended.stderr.encode()).splitlines()]
    assert set(starts) <= {b"error:", b"warning:", b"i", b"sandwright:", b"look"}
    assert b"x\\n::stop-commands::y" in ended.stdout


def test_findings_are_sorted_and_told_once() -> None:
    one = ImageFinding("layer/name", "b", "x")
    assert str(one) == "error: layer/name: b: x"
    assert str(ImageFinding("config/user", "", "is root")) == "warning: config/user: is root"


DEEP = b"/".join([b"d"] * 1000)


@pytest.mark.parametrize(
    "lower",
    [(file(DEEP + b"/f", b"1"),), tuple(folder(DEEP[: 2 * depth + 1]) for depth in range(1000))],
    ids=["implied", "named"],
)
def test_a_thousand_directories_deep(lower: tuple[bytes, ...], tmp_path: Path) -> None:
    """Deep directories are read, and can be removed by the layer above."""
    assert found(tmp_path / "i", *lower, upper=(file(b".wh.d"),)) == []


def _put_deep(tree: LayeredTree, number: int) -> None:
    """Members that lie a thousand directories deep, each in separate directories."""
    for each in range(number):
        tree.put(b"%d/" % each + DEEP + b"/f", FileNode(EntryKind.FILE, "a test", 0o644, 0, 0, 0))


def _remember_deep(below: layers._Below, number: int) -> None:
    for each in range(number):
        below.add(b"%d/" % each + DEEP + b"/f")


def test_directories_that_no_member_speaks_of_are_bounded() -> None:
    """Each of these members implies a thousand directories, whose names take a megabyte."""
    with pytest.raises(ArchiveRefused, match="directories that no member speaks of have names of"):
        _put_deep(LayeredTree("a test", limits=ArchiveLimits(names=1 << 20)), 4)
    with pytest.raises(ArchiveRefused, match="directories that no member speaks of have names of"):
        _remember_deep(layers._Below(limits=ArchiveLimits(names=1 << 20)), 4)


@pytest.mark.parametrize(
    "members",
    [
        [tars.pax({b"SCHILY.xattr.user.x": b"x" * 3000}) + file(b"%d" % each) for each in range(40)],
        [file(b"n" * 90 + b"%d" % each) for each in range(300)],
        [symlink(b"%d" % each, b"l" * 90) for each in range(300)],
    ],
    ids=["xattrs", "names", "targets"],
)
def test_what_is_kept_of_members_is_bounded(
    members: list[bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A layer compresses to a 500th: one of 250 MB would have filled 128 GB of the auditor's memory."""
    assert "layout/refused" not in dict(found(tmp_path / "control", *members))
    monkeypatch.setattr("sandwright.rootfs.tar.memory_budget.DEFAULT", ArchiveLimits(held=100_000))
    refused = [each for each in checked(tmp_path / "i", *members).findings if each.rule == "layout/refused"]
    assert "it and the members before it need more than 100000 bytes of memory" in refused[0].message
    image = open_image(tmp_path / "i")
    for read in (
        read_contents,
        lambda each: list(layers.check_layers(each, None, layers.LayersRead(), keep_nothing)),
    ):
        with pytest.raises(ArchiveRefused, match="need more than 100000 bytes of memory"):
            read(image)


def test_what_programs_name_is_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Small files may name many programs, so rows share their names."""
    name = b":".join([b"a"] * 400)
    members = [file(b"%d" % each, elf(texts=[(15, name)]), mode=0o755) for each in range(9)]
    checked(tmp_path / "i", *members)
    image = open_image(tmp_path / "i")
    for most, refused in ((300_000, False), (100_000, True)):
        monkeypatch.setattr("sandwright.rootfs.tar.memory_budget.DEFAULT", ArchiveLimits(held=most))
        with pytest.raises(ArchiveRefused) if refused else contextlib.nullcontext():
            list(layers.check_layers(image, None, layers.LayersRead(), keep_nothing))


def test_deep_members_apart_from_each_other_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandwright.rootfs.unpacking.steps._FREE", 10_000)
    with pytest.raises(ArchiveRefused, match="and those before it are too many directories to enter"):
        _put_deep(LayeredTree("a test"), 40)


def test_links_lead_no_member_deeper_than_the_limit() -> None:
    tree = LayeredTree("a test")
    link = FileNode(EntryKind.SYMLINK, "a test", 0o777, 0, 0, 0, link=b"/" + DEEP)
    tree.put(b"l", link)
    with pytest.raises(ArchiveRefused, match="links lead it deeper than 1024 directories"):
        tree.put(b"l/" + DEEP + b"/f", FileNode(EntryKind.FILE, "a test", 0o644, 0, 0, 0))


def test_a_member_below_a_file_is_refused(tmp_path: Path) -> None:
    """`bundle` also refuses it."""
    made = checked(tmp_path / "i", file(b"bin/run/below"))
    assert (
        "layout/refused",
        "layer 1: 'bin/run/below': it lies below 'bin/run', which is not a directory",
    ) in [(each.rule, each.message) for each in made.findings]


def _whiteouts(number: int) -> None:
    """In the worst order for a list: the last one first."""
    tree = LayeredTree("a test")
    names = [b"d%06d" % each for each in range(number)]
    for name in reversed(names):
        tree.put(name, FileNode(EntryKind.DIRECTORY, "a test", 0o755, 0, 0, 0))
    tree.apply_whiteouts(names, ())
    assert not tree.tree.nodes


def _accounts(number: int) -> None:
    line = "".join(f"user{each}:x:{each}:0::/:/bin/sh\n" for each in range(number))
    tree = LayeredTree("a test").tree
    tree.add(b"etc", FileNode(EntryKind.DIRECTORY, "a test", 0o755, 0, 0, 0))
    tree.add(b"etc/passwd", FileNode(EntryKind.FILE, "a test", 0o644, 0, 0, 0))
    tree.kept[b"etc/passwd"] = line.encode()
    assert list(check_files(ImageContents({}, tree), {}, "amd64"))


def _blank_lines(number: int) -> None:
    assert not list(secrets_in(b"\n" * (4 * number) + b"_authToken"))


def _keys(number: int) -> None:
    text = "{" + ",".join(f'"{each}":1' for each in range(number)) + ',"0":1}'
    with pytest.raises(ArchiveRefused, match="key '0' twice"):
        parse_json(text.encode(), "a test", {})


@pytest.mark.parametrize("work", [_whiteouts, _accounts, _blank_lines, _keys])
def test_the_cost_grows_with_the_length_alone(work: Callable[[int], None]) -> None:
    """60,000 of each took 20 seconds and more when the cost grew with the square."""
    before = time.process_time()
    work(60_000)
    assert time.process_time() - before < 10


def test_tokens_of_npm_are_still_found() -> None:
    assert list(secrets_in(b"\n \t//registry.example/:_authToken = abcdefgh12\n")) == ["a token of npm"]


def test_a_layer_is_unpacked_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    checked(tmp_path / "i")
    read: list[str] = []
    archive = ImageLayer.archive

    def counted(
        layer: ImageLayer, limits: ArchiveLimits, watch: Callable[[int], None]
    ) -> contextlib.AbstractContextManager[DecompressedStream]:
        read.append(layer.digest)
        return archive(layer, limits, watch)

    monkeypatch.setattr(ImageLayer, "archive", counted)
    check_image(tmp_path / "i")
    assert read == [each.digest for each in open_image(tmp_path / "i").layers]
