"""runc, the reference runtime."""

from __future__ import annotations

from collections.abc import Sequence

from sandwright.host import MachineFacts
from sandwright.runtime.contract import Variant
from sandwright.runtime.oci import ROOTLESS, OciRuntime, needs_emulator, plain_words


def _runc_variants(host: MachineFacts) -> Sequence[Variant]:
    return (Variant() if host.is_root else ROOTLESS,)


RUNC = OciRuntime("runc", _runc_variants, plain_words, needs_emulator)
