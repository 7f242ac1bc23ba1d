"""What every bundle starts from: read where runtime configurations are rendered, used here as well."""

from __future__ import annotations

from sandwright.render.baseline import Baseline, Mount, Point, Rlimit, load_baseline

__all__ = ["Baseline", "Mount", "Point", "Rlimit", "load_baseline"]
