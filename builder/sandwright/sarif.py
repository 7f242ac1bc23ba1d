"""SARIF 2.1.0, which code hosts show beside the lines of a change."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import sandwright

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def sarif(rules: Sequence[dict[str, Any]], results: Sequence[dict[str, Any]]) -> bytes:
    """A log of one run. `rules` and `results` are SARIF's own objects."""
    driver = {"name": "sandwright", "version": sandwright.__version__, "rules": list(rules)}
    run = {"tool": {"driver": driver}, "results": list(results), "columnKind": "unicodeCodePoints"}
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"
