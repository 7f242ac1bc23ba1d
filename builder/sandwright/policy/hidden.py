"""The paths of /proc and /sys that every sandbox on Linux hides, as `oci/paths.json` lists them."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping

from sandwright.resources import data_path


@functools.cache
def hidden_paths() -> Mapping[str, str]:
    """The paths, each with the reason for which it is hidden."""
    rows = json.loads(data_path("oci", "paths.json").read_text(encoding="utf-8"))["masked"]
    return {row["path"]: row["reason"] for row in rows}
