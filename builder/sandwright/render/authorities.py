"""The host's CA certificates in an image's root, so that TLS is trusted as outside.

A company's proxy signs with the company's authority, which its machines know and no image does. The launcher
copies the host's bundle when a run starts (`launcher/source/authorities.c`), and mounts the copy read-only
over the image's. Java gets a key store, which is rendered of the bundle as it was then. Most programs read
the bundle of the system; those that bring one along read a variable.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
from collections.abc import Iterable, Sequence
from dataclasses import replace

from sandwright.launcher.plan import AuthorityPlan, LaunchPlan
from sandwright.policy.bundle import CERTIFICATE
from sandwright.policy.facts import CERTIFICATES
from sandwright.policy.paths import is_inside
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.startup import BUNDLES, STORES
from sandwright.render.artifact import Artifact
from sandwright.render.mounts import MountPlan

STORE = "authorities.jks"

NAMES = (
    "SSL_CERT_FILE",  # OpenSSL (SSL_CTX_set_default_verify_paths(3)), Go, rustls, uv, Ruby
    "REQUESTS_CA_BUNDLE",  # Python's requests and pip, which bring certifi along
    "NODE_EXTRA_CA_CERTS",  # Node and npm, whose authorities are compiled in
)
"""Variables of programs that don't read the system's bundle by themselves."""

ALL_NAMES = (
    *NAMES,
    "CURL_CA_BUNDLE",  # curl(1)
    "GIT_SSL_CAINFO",  # git(1), http.sslCAInfo
    "CARGO_HTTP_CAINFO",  # cargo (http.cainfo)
    "AWS_CA_BUNDLE",  # the AWS command line and SDKs
    "DENO_CERT",
    "npm_config_cafile",  # npm, pnpm and Yarn 1, whose requests through a proxy take no other certificates
    "YARN_HTTPS_CA_FILE_PATH",  # Yarn 2 and newer (httpsCaFilePath)
)
"""The same, and those of programs that read the system's bundle, where nothing can be mounted over it."""


def authority_environment(policy: ResolvedPolicy) -> dict[str, str]:
    """The variables where the root is the host's: its own bundle, as far as that is seen.

    Variables that the policy sets or passes on stay unchanged.
    """
    if not _needs_host_authorities(policy):
        return {}
    seen = _visible_files(policy, BUNDLES)
    rules = policy.environment
    free = (name for name in NAMES if name not in rules.set and not rules.passes(name))
    return dict.fromkeys(free, seen[0]) if seen else {}


def session_authorities(policy: ResolvedPolicy) -> AuthorityPlan:
    """The certificates of the host's root that a session with `network.http` covers with its own.

    Without a place for mounts, a launcher sets the variables instead.
    """
    if not policy.network.http:
        return AuthorityPlan()
    return AuthorityPlan(
        bundles=_visible_files(policy, BUNDLES), stores=_visible_files(policy, STORES), variables=ALL_NAMES
    )


def _visible_files(policy: ResolvedPolicy, places: Iterable[str]) -> tuple[str, ...]:
    there = dict.fromkeys(map(policy.canonical, places))
    return tuple(
        each for each in there if policy.facts.kind(each) == "file" and policy.is_path_readable(each)
    )


def authority_store(policy: ResolvedPolicy) -> list[Artifact]:
    """The host's certificates for Java, which takes no PEM; none where the sandbox can write the bundle."""
    text = policy.facts.texts.get(CERTIFICATES, "") if _needs_host_authorities(policy) else ""
    path, _, certificates = text.removeprefix("# ").partition("\n")
    rules = (each for each in policy.filesystem.rules if each.writable and not each.private)
    written = any(is_inside(path, each.path) for each in rules)
    if not text or written:
        return []
    return [Artifact(STORE, java_store(certificates), "the host's certificates of authorities, for Java")]


def java_store(certificates: str) -> bytes:
    """A key store of Java's oldest kind, JKS, which every release reads, with the usual password."""
    found = [each for each in map(_der, CERTIFICATE.findall(certificates)) if each]
    store = struct.pack(">III", 0xFEEDFEED, 2, len(found))
    for number, each in enumerate(found, 1):
        name = str(number).encode()
        store += struct.pack(">IH", 2, len(name)) + name + struct.pack(">QH", 0, 5) + b"X.509"
        store += struct.pack(">I", len(each)) + each
    seal = hashlib.sha1("changeit".encode("utf-16-be") + b"Mighty Aphrodite" + store, usedforsecurity=False)
    return store + seal.digest()


def _der(text: str) -> bytes:
    """The sequence that a certificate is (X.690, 8.1.3); empty without one, or Java would read none."""
    try:
        raw = base64.b64decode(text)
    except binascii.Error:
        return b""
    more = raw[1] & 0x7F if len(raw) > 1 and raw[1] & 0x80 else 0
    if raw[:1] != b"\x30" or len(raw) < 2 + more or raw[1] == 0x80 or more > 3:
        return b""
    length = 2 + more + (int.from_bytes(raw[2 : 2 + more], "big") if more else raw[1])
    return raw[:length] if length <= len(raw) else b""


def _needs_host_authorities(policy: ResolvedPolicy) -> bool:
    network = policy.network
    return network.ca == "host" and network.mode != "none" and policy.facts.os == "linux"


def with_authorities(policy: ResolvedPolicy, plan: MountPlan, base: LaunchPlan) -> LaunchPlan:
    """A launcher's plan with them.

    Unchanged where the policy wants the image's, or where there is no network. Where a listed path of the
    host is mounted on or above a place, that stays. A variable that the policy sets keeps its value.
    """
    if not _needs_host_authorities(policy):
        return base
    taken = [mount.target for mount in plan.mounts if mount.target != "/"]
    names = tuple(name for name in NAMES if name not in policy.environment.set)
    made = AuthorityPlan(
        bundles=_outside_mounts(BUNDLES, taken), stores=_outside_mounts(STORES, taken), variables=names
    )
    return replace(base, authorities=made, never=(*base.never, *sorted(set(names) - set(base.never))))


def _outside_mounts(places: Iterable[str], taken: Sequence[str]) -> tuple[str, ...]:
    return tuple(each for each in places if not any(is_inside(each, path) for path in taken))
