"""The host's certificates of authorities, as facts: an image's Java gets them in a key store."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from sandwright.inputs import InputTracker
from sandwright.policy.layers import MergedSettings
from sandwright.policy.repositories import plain_content
from sandwright.policy.startup import BUNDLES

TEXT = "network.ca"
"""The key in `HostFacts.texts`. The first line is `# PATH`, the rest certificates alone."""

MOST = 1 << 24
"""Bytes of a bundle."""

CERTIFICATE = re.compile(
    r"^-----BEGIN CERTIFICATE-----[ \t\r]*\n([A-Za-z0-9+/= \t\r\n]*)^-----END CERTIFICATE-----[ \t\r]*$",
    re.MULTILINE,
)


def bundle_text(settings: MergedSettings, environ: Mapping[str, str], inputs: InputTracker) -> dict[str, str]:
    """The bundle that the launcher takes, too (authorities.c); nothing without a network."""
    if settings.value("network.ca") != "host" or settings.value("network.mode") in (None, "none"):
        return {}
    inputs.ask("variable", "SSL_CERT_FILE")
    given = environ.get("SSL_CERT_FILE", "")
    for place in (*([given] if given.startswith("/") else []), *BUNDLES):
        path = os.path.realpath(place)
        inputs.ask("links", place)
        raw = plain_content(Path(path), MOST, inputs)
        found = [each.group(0) for each in CERTIFICATE.finditer((raw or b"").decode("ascii", "replace"))]
        if found and _is_safe(path):
            return {TEXT: "\n".join((f"# {path}", *found, ""))}
    return {}


def _is_safe(path: str) -> bool:
    """Only root and this user can write it."""
    status = Path(path).stat()
    return status.st_uid in (0, os.geteuid()) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
