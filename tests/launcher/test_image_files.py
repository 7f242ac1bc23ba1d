"""The files over those of an image: the host's CA certificates, Java's key store, and host names.

Tests of launcher/source/authorities.c: CA certificates.
Tests of launcher/source/imagefiles.c: /etc/hosts and other files over an image's.
Tests of policy/bundle.py: the host's CA certificates.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import struct
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sandwright.render.authorities import java_store
from support.launchers import launcher_of
from support.sanitized import fed

BUNDLE = "etc/ssl/certs/ca-certificates.crt"
JAVA = "etc/ssl/certs/java/cacerts"
FEDORA = "etc/pki/tls/certs/ca-bundle.crt"
NAMES = ("NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")
FAKE = """\
#!/bin/sh
while [ $# -gt 0 ]; do
    case $1 in
    --bundle) cp -a "$2" {made}/bundle 2>/dev/null ;;
    delete) exit 0 ;;
    esac
    shift
done
"""


def pem(text: str | bytes, label: str = "CERTIFICATE") -> str:
    content = text.encode() if isinstance(text, str) else text
    return f"-----BEGIN {label}-----\n{base64.b64encode(content).decode()}\n-----END {label}-----\n"


def trusted_by_java(store: bytes) -> list[bytes]:
    """The certificates in a key store, as OpenJDK's JavaKeyStore reads it. Its digest must be correct."""
    sealed = "changeit".encode("utf-16-be") + b"Mighty Aphrodite" + store[:-20]
    assert store[-20:] == hashlib.sha1(sealed).digest()
    mark, version, count = struct.unpack_from(">III", store)
    assert (mark, version) == (0xFEEDFEED, 2)
    at, names, found = 12, set(), []
    for _ in range(count):
        tag, length = struct.unpack_from(">IH", store, at)
        names.add(store[at + 6 : at + 6 + length])
        at += 6 + length
        since, kind, size = struct.unpack_from(">Q2x5sI", store, at)
        assert (tag, since, kind) == (2, 0, b"X.509")
        found.append(store[at + 19 : at + 19 + size])
        at += 19 + size
    assert (at, len(names)) == (len(store) - 20, count)
    return found


ONE, OTHER, KEY = pem("one"), pem("other"), pem("secret", "PRIVATE KEY")


@dataclass
class Started:
    """A launcher with a runtime of the test, which keeps the bundle of its run."""

    scratch: Path
    environment: dict[str, str] = field(default_factory=dict)
    said: str = ""

    @property
    def image(self) -> Path:
        return self.scratch / "image"

    @property
    def bundle(self) -> Path:
        return self.scratch / "made" / "bundle"

    def run(self, **variables: str) -> dict[str, Any]:
        ended = subprocess.run(
            [self.scratch / "out" / "launch", "true"],
            env={**self.environment, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        self.said = ended.stderr
        assert ended.returncode == 0, ended.stderr
        found: dict[str, Any] = json.loads((self.bundle / "config.json").read_bytes())
        return found

    def trusted(self, **variables: str) -> tuple[dict[str, str], set[str], list[str]]:
        """The certificate files inside, the options of their mounts, and the variables that name them."""
        config = self.run(**variables)
        laid = [each for each in config["mounts"] if each["source"].endswith("/authorities.pem")]
        content = (self.bundle / "authorities.pem").read_text() if laid else ""
        named = [each for each in config["process"]["env"] if each.split("=")[0] in NAMES]
        return (
            {each["destination"]: content for each in laid},
            {option for each in laid for option in each["options"]},
            sorted(named),
        )


Make = Callable[..., Started]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    for name in ("image/etc/ssl/certs", "bin", "state", "made", "home/p/.git"):
        (tmp_path / name).mkdir(parents=True)

    def made(policy: str, method: str = "oci", **variables: str) -> Started:
        for name in ("runc", "runsc"):
            program = tmp_path / "bin" / name
            program.write_text(FAKE.format(made=tmp_path / "made"))
            program.chmod(0o755)
        text, project = f"schema: 1\nmethod: {method}\n{policy}", tmp_path / "home" / "p"
        environ = {"HOME": str(tmp_path / "home"), **variables}
        launcher_of(text, method, tmp_path / "out", project=project, environ=environ)
        environment = {
            "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
            "SANDWRIGHT_ROOTFS": str(tmp_path / "image"),
            "XDG_RUNTIME_DIR": str(tmp_path / "state"),
        }
        return Started(tmp_path, environment)

    return made


@pytest.mark.parametrize("method", ["oci", "gvisor"])
def test_the_hosts_certificates_and_nothing_else_are_taken_along(make: Make, method: str) -> None:
    """This also holds if their file contains a key; the image's own file is not changed."""
    started = make("network: {mode: host}\n", method)
    (started.image / BUNDLE).write_text("the image's\n")
    own = started.scratch / "own.pem"
    own.write_text(f"# A company\n{ONE}{KEY}some text\n{OTHER}")
    laid, options, named = started.trusted(SSL_CERT_FILE=str(own))
    assert laid == {f"/{BUNDLE}": ONE + OTHER}
    assert {"ro", "nosuid", "nodev", "noexec"} <= options
    assert named == [f"{name}=/{BUNDLE}" for name in NAMES]
    assert (started.image / BUNDLE).read_text() == "the image's\n"
    assert started.said == ""


def test_links_in_an_image_lead_to_what_is_in_it(make: Make) -> None:
    started = make("network: {mode: host}\n")
    outside = started.scratch / "outside"
    outside.write_text("the host's")
    (started.image / "etc/pki/tls/certs").mkdir(parents=True)
    (started.image / "real").write_text("")
    (started.image / FEDORA).symlink_to("/real")
    (started.image / "etc/ssl/cert.pem").symlink_to(outside)
    own = started.scratch / "own.pem"
    own.write_text(ONE)
    laid, _, named = started.trusted(SSL_CERT_FILE=str(own))
    assert laid == {"/real": ONE}
    assert named == [f"{name}=/real" for name in NAMES]


def test_an_image_without_a_bundle_gets_one(make: Make) -> None:
    started = make("network: {mode: host}\n")
    own = started.scratch / "own.pem"
    own.write_text(ONE)
    laid, _, named = started.trusted(SSL_CERT_FILE=str(own))
    place = "/.sandwright-authorities.pem"
    assert laid == {place: ONE}
    assert named == [f"{name}={place}" for name in NAMES]
    assert (started.bundle / "rootfs" / place[1:]).read_text() == ""


@pytest.mark.parametrize("method", ["oci", "gvisor"])
def test_java_gets_them_in_its_own_form(make: Make, method: str, tmp_path: Path) -> None:
    """The store is read-only, lies where the image has one, and is found through links of the image."""
    der = [b"0\x03abc", b"0\x81\x80" + bytes(128)]
    own = tmp_path / "own.pem"
    own.write_text(f"{pem(der[0])}{KEY}{pem(der[1])}{ONE}")
    started = make("network: {mode: host}\n", method, SSL_CERT_FILE=str(own))
    (started.image / JAVA).parent.mkdir()
    (started.image / JAVA).write_text("the image's")
    (started.image / "etc/pki/java").mkdir(parents=True)
    (started.image / "etc/pki/java/cacerts").symlink_to("/store")
    (started.image / "store").write_text("")
    config = started.run(SSL_CERT_FILE=str(own))
    stores = {
        each["destination"]: each["options"]
        for each in config["mounts"]
        if each["source"] == f"{started.scratch}/out/authorities.jks"
    }
    assert set(stores) == {f"/{JAVA}", "/store"}
    assert all({"ro", "nosuid", "nodev", "noexec"} <= set(each) for each in stores.values())
    assert trusted_by_java((started.scratch / "out" / "authorities.jks").read_bytes()) == der
    assert (started.image / JAVA).read_text() == "the image's"


@pytest.mark.parametrize("mode", [0o666, 0o620])
def test_java_gets_none_of_a_bundle_that_others_can_write(make: Make, mode: int, tmp_path: Path) -> None:
    own = tmp_path / "own.pem"
    own.write_text(ONE)
    own.chmod(mode)
    started = make("network: {mode: host}\n", "oci", SSL_CERT_FILE=str(own))
    store = started.scratch / "out" / "authorities.jks"
    assert not store.exists() or b"0\x01" not in trusted_by_java(store.read_bytes())


def test_java_gets_none_of_a_bundle_that_the_sandbox_can_write(make: Make, tmp_path: Path) -> None:
    own = tmp_path / "home" / "p" / "own.pem"
    own.write_text(pem(b"0\x03abc"))
    policy = "network: {mode: host}\nfilesystem: {write: [$PROJECT]}\n"
    assert not (make(policy, "oci", SSL_CERT_FILE=str(own)).scratch / "out" / "authorities.jks").exists()


@pytest.mark.parametrize("policy", ["", "network: {mode: none}\n", "network: {mode: host, ca: image}\n"])
def test_the_images_own_stay(make: Make, policy: str) -> None:
    started = make(policy)
    (started.image / BUNDLE).write_text("")
    own = started.scratch / "own.pem"
    own.write_text(ONE)
    assert started.trusted(SSL_CERT_FILE=str(own)) == ({}, set(), [])


def test_what_the_policy_sets_stays(make: Make) -> None:
    started = make(
        "network: {mode: host}\nenvironment: {set: {SSL_CERT_FILE: /a}, pass: [NODE_EXTRA_CA_CERTS]}\n"
    )
    (started.image / BUNDLE).write_text("")
    own = started.scratch / "own.pem"
    own.write_text(ONE)
    _, _, named = started.trusted(SSL_CERT_FILE=str(own), NODE_EXTRA_CA_CERTS="/of/the/host")
    assert named == [f"{NAMES[0]}=/{BUNDLE}", f"{NAMES[1]}=/{BUNDLE}", "SSL_CERT_FILE=/a"]


def _refused(started: Started, path: Path) -> str:
    """The reason to refuse a bundle; the system's bundle, if there is one, is used instead."""
    laid, _, _ = started.trusted(SSL_CERT_FILE=str(path))
    assert all(ONE not in content for content in laid.values())
    assert started.said.startswith("sandbox: SSL_CERT_FILE is not passed: ")
    return started.said.removeprefix("sandbox: SSL_CERT_FILE is not passed: ").strip()


def test_who_is_inside_does_not_choose_whom_to_trust(make: Make) -> None:
    """Neither a file in the project nor a link of the host to it adds a trusted certificate."""
    started = make("network: {mode: host}\nfilesystem: {write: [$PROJECT]}\n")
    inside = started.scratch / "home/p/own.pem"
    inside.write_text(ONE)
    link = started.scratch / "link.pem"
    link.symlink_to(inside)
    assert _refused(started, inside) == "the sandbox can write it"
    assert _refused(started, link) == "the sandbox can write it"


def test_a_bundle_that_others_can_write_is_not_taken(make: Make) -> None:
    started = make("network: {mode: host}\n")
    own = started.scratch / "own.pem"
    own.write_text(ONE)
    own.chmod(0o666)
    assert _refused(started, own) == "users other than root and you can write it"
    own.chmod(0o620)
    assert _refused(started, own) == "users other than root and you can write it"


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
def test_a_bundle_of_another_user_is_not_taken(make: Make) -> None:
    started = make("network: {mode: host}\n")
    own = started.scratch / "own.pem"
    own.write_text(ONE)
    os.chown(own, 12345, -1)
    assert _refused(started, own) == "users other than root and you can write it"


def test_what_is_no_bundle_is_not_taken(make: Make) -> None:
    started = make("network: {mode: host}\n")
    key, pipe = started.scratch / "key.pem", started.scratch / "pipe"
    key.write_text(KEY)
    os.mkfifo(pipe)
    assert _refused(started, key) == "it contains no certificate"
    assert _refused(started, pipe) == "it is not a regular file"
    assert _refused(started, started.scratch) == "it is not a regular file"
    assert _refused(started, started.scratch / "gone") == "No such file or directory"


NO_KEYS: Sequence[tuple[str, str]] = (
    (ONE, ONE),
    (ONE + OTHER, ONE + OTHER),
    (f"{KEY}{ONE}{KEY}", ONE),
    (ONE.rstrip("\n"), ONE),
    (ONE.replace("\n", "\r\n"), ONE.replace("\n", "\r\n")),
    (f" {ONE}", ""),
    (f"x{ONE}", ""),
    ("", ""),
    (KEY, ""),
    (pem("x", "TRUSTED CERTIFICATE"), ""),
    (f"-----BEGIN CERTIFICATE-----\n{KEY}-----END CERTIFICATE-----\n", ""),
    (f"-----BEGIN CERTIFICATE-----\n{ONE}", ONE),
    ("-----BEGIN CERTIFICATE-----\nYQ==\n", ""),
    ("-----BEGIN CERTIFICATE-----\nY\0Q==\n-----END CERTIFICATE-----\n", ""),
    ("-----BEGIN CERTIFICATE-----\nkey: value\n-----END CERTIFICATE-----\n", ""),
)


@pytest.mark.needs("cc")
def test_only_certificates_are_kept(harness: Path) -> None:
    told = fed(harness, [b"k" + given.encode() for given, _ in NO_KEYS])
    assert told == [kept.replace("\n", "?").replace("\r", "?") for _, kept in NO_KEYS]


SEQUENCES: Sequence[tuple[bytes, bytes]] = (
    (b"0\x00", b"0\x00"),
    (b"0\x7f" + bytes(127), b"0\x7f" + bytes(127)),
    (b"0\x82\x01\x00" + bytes(256), b"0\x82\x01\x00" + bytes(256)),
    (b"0\x83\x00\x01\x00" + bytes(256), b"0\x83\x00\x01\x00" + bytes(256)),
    (b"0\x01abc", b"0\x01a"),  # bytes after it don't belong to the certificate
    (b"0\x02a", b""),
    (b"0", b""),
    (b"", b""),
    (b"0\x80\x00\x00", b""),  # DER has no indefinite length
    (b"0\x82\x01", b""),
    (b"0\x84\x00\x00\x00\x01a", b""),
    (b"0\xff" + bytes(300), b""),
    (b"1\x01a", b""),
    (b"\0\x01a", b""),
)


def test_what_is_no_certificate_is_not_in_javas_store() -> None:
    """Otherwise Java would read none of them."""
    right = b"0\x03abc"
    stores = [trusted_by_java(java_store(f"{KEY}{pem(given)}{pem(right)}")) for given, _ in SEQUENCES]
    assert stores == [[kept, right] if kept else [right] for _, kept in SEQUENCES]
    assert trusted_by_java(java_store("")) == []
    wrapped = pem(b"0\x30" + bytes(range(208, 256))).replace("4", "4\r\n \t")
    assert trusted_by_java(java_store(wrapped)) == [b"0\x30" + bytes(range(208, 256))]


@pytest.mark.needs("keytool")
@pytest.mark.parametrize("password", [("-storepass", "changeit"), ()], ids=["password", "none"])
def test_java_reads_the_store(tmp_path: Path, password: tuple[str, ...]) -> None:
    bundle = Path("/etc/ssl/certs/ca-certificates.crt").read_bytes()
    (tmp_path / "store").write_bytes(java_store(bundle.decode()))
    listed = subprocess.run(
        ["keytool", "-J-Duser.language=en", "-list", "-keystore", tmp_path / "store", *password],
        input="\n",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert listed.stdout.count("trustedCertEntry") == bundle.count(b"BEGIN CERTIFICATE"), listed.stdout[:500]
    assert ("integrity of the information" in listed.stderr) == (not password)


@pytest.mark.parametrize("method", ["oci", "gvisor"])
def test_names_of_hosts_are_the_sandboxs_own(make: Make, method: str) -> None:
    started = make("", method)
    for name in ("hosts", "resolv.conf"):
        (started.image / "etc" / name).write_text("")
    config = started.run()
    sources = {each["destination"]: each["source"] for each in config["mounts"]}
    assert Path(sources["/etc/hosts"]).read_text() == "127.0.0.1\tlocalhost sandbox\n::1\tlocalhost\n"
    assert Path(sources["/etc/resolv.conf"]).read_text() == "# There is no network.\n"


@pytest.mark.parametrize("method", ["oci", "gvisor"])
def test_in_the_hosts_network_names_are_the_hosts(make: Make, method: str) -> None:
    """A link on the host, as systemd-resolved makes it, is followed; a link in the image never is."""
    started = make("network: {mode: host}\n", method)
    (started.image / "etc/hosts").write_text("")
    (started.image / "etc/resolv.conf").symlink_to("hosts")
    sources = {each["destination"]: each["source"] for each in started.run()["mounts"]}
    assert sources["/etc/hosts"].endswith("/hosts")
    assert (started.bundle / "hosts").read_bytes() == Path("/etc/hosts").read_bytes()
    assert "/etc/resolv.conf" not in sources
