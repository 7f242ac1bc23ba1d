"""runc, the reference runtime."""

from __future__ import annotations

from collections.abc import Sequence

from sandwright.host import HostFacts
from sandwright.smoke.contract import Variant
from sandwright.smoke.runtimes.oci import OciRuntime, needs_emulator, plain


def _variants(host: HostFacts) -> Sequence[Variant]:  # noqa: ARG001
    return (Variant(),)


RUNC = OciRuntime("runc", _variants, plain, needs_emulator)
