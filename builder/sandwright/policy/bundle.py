"""The host's CA certificates, as facts: an image's Java gets them in a key store."""

from __future__ import annotations

import re
import stat
from collections.abc import Mapping

from sandwright.inputs import LiveHost, Status
from sandwright.policy.facts import CERTIFICATES
from sandwright.policy.layers import MergedSettings
from sandwright.policy.startup import BUNDLES

CERTIFICATE = re.compile(
    r"^-----BEGIN CERTIFICATE-----[ \t\r]*\n([A-Za-z0-9+/= \t\r\n]*)^-----END CERTIFICATE-----[ \t\r]*$",
    re.MULTILINE,
)


def bundle_text(
    settings: MergedSettings, environ: Mapping[str, str], inputs: LiveHost, *, uid: int
) -> dict[str, str]:
    """The bundle that the launcher takes, too (authorities.c); nothing without a network.

    `uid` is the user's, who may own the bundle, as root may.
    """
    if settings.value("network.ca") != "host" or settings.value("network.mode") in (None, "none"):
        return {}
    inputs.variable("SSL_CERT_FILE")
    from_environment = environ.get("SSL_CERT_FILE", "")
    for bundle in (*([from_environment] if from_environment.startswith("/") else []), *BUNDLES):
        path = inputs.real(bundle)
        text = inputs.text(path) or ""
        found = [each.group(0) for each in CERTIFICATE.finditer(text)]
        if found and _is_safe(inputs.status(path), uid):
            return {CERTIFICATES: "\n".join((f"# {path}", *found, ""))}
    return {}


def _is_safe(status: Status, uid: int) -> bool:
    """Only root and this user can write it."""
    return bool(status.mode) and status.owner in (0, uid) and not status.mode & (stat.S_IWGRP | stat.S_IWOTH)
