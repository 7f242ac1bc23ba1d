"""Names inside: the resolver's answers to any bytes, and the effect of a policy.

Tests of launcher/source/dns.c.
Tests of render/hostnames.py.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from sandwright.api import Policy
from sandwright.launcher.plan import NAME, LaunchPlan, NamePlan, parse_plan
from sandwright.methods.registry import render
from sandwright.policy.facts import HostEntry, HostFacts
from sandwright.render.artifact import Artifact
from support.sanitized import fed

FACTS = HostFacts(
    os="linux",
    home="/home/u",
    project="/home/u/p",
    entries={
        **dict.fromkeys(("/", "/etc", "/home", "/home/u", "/home/u/p", "/run"), HostEntry("directory")),
        "/etc/resolv.conf": HostEntry("file"),
        "/etc/hosts": HostEntry("file"),
    },
)
METHODS = ["bwrap", "oci", "gvisor", "docker", "podman", "user"]
A, AAAA, PTR = 1, 28, 12


def question(name: str, kind: int = A, *, flags: int = 0x0100, count: int = 1, more: bytes = b"") -> bytes:
    labels = b"".join(bytes([len(each)]) + each.encode("latin-1") for each in name.split(".") if each)
    return (
        struct.pack("!6H", 0x1234, flags, count, 0, 0, 0)
        + labels
        + b"\0"
        + struct.pack("!2H", kind, 1)
        + more
    )


def reply(name: str, kind: int, code: int, address: str = "") -> str:
    record = (
        bytes.fromhex("c00c00010001") + struct.pack("!IH", 60, 4) + bytes(map(int, address.split(".")))
        if address
        else b""
    )
    head = struct.pack("!6H", 0x1234, 0x8580 | code, 1, 1 if address else 0, 0, 0)
    return (head + question(name, kind)[12:] + record).hex()


NOBODY, FINE = 3, 0
ANSWERS = [
    (question("a.example"), "a.example", reply("a.example", A, FINE, "127.77.0.1")),
    (question("A.Example"), "a.example", reply("A.Example", A, FINE, "127.77.0.1")),
    (question("x.y.b.example"), "x.y.b.example", reply("x.y.b.example", A, FINE, "127.77.0.1")),
    (question("a.example", AAAA), "-", reply("a.example", AAAA, FINE)),
    (question("a.example", PTR), "-", reply("a.example", PTR, FINE)),
    (question("b.example"), "-", reply("b.example", A, NOBODY)),
    (question("evil.example"), "-", reply("evil.example", A, NOBODY)),
    (question("nota.example"), "-", reply("nota.example", A, NOBODY)),
    (question("a.example.evil"), "-", reply("a.example.evil", A, NOBODY)),
    (question("a.example", more=b"x" * 40), "a.example", reply("a.example", A, FINE, "127.77.0.1")),
    # Not a question, or one without an answer
    (question("a.example", flags=0x8100), "-", ""),
    (question("a.example", flags=0x2900), "-", ""),
    (question("a.example", count=0), "-", ""),
    (question("a.example", count=2), "-", ""),
    (question("a.example")[:-1], "-", ""),
    (question("a.example")[:20], "-", ""),
    (question("a.example")[:12], "-", ""),
    (b"", "-", ""),
    (question(""), "-", ""),
    (question("a_b.b.example"), "-", ""),
    (question("\x00.b.example"), "-", ""),
    (question("a\r\nHost: x.b.example"), "-", ""),
    (question(".".join(["a" * 63] * 4)), "-", ""),
    (question("a.example")[:12] + b"\xc0\x0c\0\x01\0\x01", "-", ""),
    (question("a.example", more=b"x" * 500), "-", ""),
]  # fmt: skip


@pytest.mark.needs("cc")
def test_what_is_answered(harness: Path) -> None:
    said = fed(harness, [b"h" + asked for asked, _, _ in ANSWERS])
    assert said == [f"{name} {answer}" for _, name, answer in ANSWERS]


def _rendered(method: str, text: str, facts: HostFacts = FACTS) -> tuple[LaunchPlan, dict[str, Artifact]]:
    policy = Policy.from_text(f"schema: 1\nmethod: {method}\n{text}").resolve(facts)
    made = {each.name: each for each in render(policy, method).artifacts}
    return parse_plan(made[NAME].content), made


PROXIED = "network: {mode: proxy, allow: [a.example, '*.b.example:8443', 'c.example:22', 192.0.2.1], "


@pytest.mark.parametrize("method", METHODS)
def test_listed_names_are_resolved_behind_a_proxy(method: str) -> None:
    """Names resolve for ports that no program inside can take, except for exposed ports."""
    plan, made = _rendered(method, PROXIED + "expose: [80]}\n")
    assert plan.names.patterns == ("a.example", "*.b.example", "c.example")
    assert plan.names.ports == ("22", "443")
    if method in ("docker", "podman"):  # their launcher finds out first whether it can enter the network
        assert made["resolv.conf"].content == b"# Names do not resolve here.\n"
    else:
        assert made["resolv.conf"].content == b"nameserver 127.0.0.1\n"
    assert plan.names.resolver_place == ("/etc/resolv.conf" if method == "bwrap" else None)
    assert plan.names.hosts_place == ("/etc/hosts" if method == "bwrap" else None)
    if method in ("bwrap", "user"):
        assert made["hosts"].content == b"127.0.0.1\tlocalhost sandbox\n::1\tlocalhost\n"
    if method == "user":
        places = b"\0beside\0resolv.conf\0/etc/resolv.conf\0beside\0hosts\0/etc/hosts\0"
        assert made["plan"].content.endswith(places)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "text",
    [
        "",
        "network: {mode: host}\n",
        "network: {mode: proxy, allow: []}\n",
        "network: {mode: proxy, allow: [192.0.2.1]}\n",
        PROXIED + "}\nprocess: {sandbox_root: true}\n",
    ],
)
def test_elsewhere_no_name_is(method: str, text: str) -> None:
    plan, made = _rendered(method, text)
    assert plan.names == NamePlan()
    assert b"nameserver" not in made["resolv.conf"].content if "resolv.conf" in made else True


def test_under_bwrap_the_file_has_to_be_there() -> None:
    """If it is missing, or a link into a hidden directory, names stay unchanged."""
    gone = {path: entry for path, entry in FACTS.entries.items() if path != "/etc/resolv.conf"}
    link = {**gone, "/etc/resolv.conf": HostEntry("symlink", "/run/other/resolv.conf")}
    link |= {"/run/other": HostEntry("directory"), "/run/other/resolv.conf": HostEntry("file")}
    for entries in (gone, link):
        plan, made = _rendered("bwrap", PROXIED + "}\n", replace(FACTS, entries=entries))
        assert (plan.names.patterns, plan.names.resolver_place, plan.names.hosts_place) == ((), None, None)
        assert "resolv.conf" not in made
        assert "hosts" not in made
    shown = {**gone, "/etc/resolv.conf": HostEntry("symlink", "/run/systemd/resolve/stub-resolv.conf")}
    shown |= dict.fromkeys(("/run/systemd", "/run/systemd/resolve"), HostEntry("directory"))
    shown |= {"/run/systemd/resolve/stub-resolv.conf": HostEntry("file")}
    plan, made = _rendered("bwrap", PROXIED + "}\n", replace(FACTS, entries=shown))
    assert plan.names.resolver_place == "/run/systemd/resolve/stub-resolv.conf"
    assert b"stub-resolv.conf" not in made["mounts"].content, (
        "what lies there is not what the watch waits for"
    )
