"""Makes the signer and the verifier that the options of a release name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sandwright.errors import UsageError

if TYPE_CHECKING:
    from sandwright.release.bundle import Signer, Verifier


def signer(key: str, public_key: str, *, keyless: bool, token: str, trust: str) -> Signer:
    """The signer that the options of `publish` name. Raise UsageError for none, and for two."""
    if keyless and (key or public_key):
        raise UsageError("publish: either --key or --keyless")
    if not keyless:
        if token or trust:
            raise UsageError(f"publish: --{'token' if token else 'trust'} belongs to --keyless")
        if not key:
            raise UsageError("publish: --key is needed, or --keyless: nothing is published unsigned")
        from sandwright.release.signing import load_key  # noqa: PLC0415

        return load_key(key, public=public_key, environ=os.environ)
    from sandwright.release.keyless import log_in  # noqa: PLC0415

    return log_in(token, trust=trust)


def verifier(key: str, *, identity: str, issuer: str, trust: str) -> Verifier:
    """The verifier that the options of `verify-image` name. Raise UsageError for none, and for two."""
    if key and (identity or issuer or trust):
        raise UsageError("verify-image: either --key, or --identity with --issuer")
    if key:
        from sandwright.release.signing import load_verifier  # noqa: PLC0415

        return load_verifier(key)
    if not (identity and issuer):
        raise UsageError("verify-image: --key is needed, or --identity with --issuer: who must have signed")
    from sandwright.release.keyless import load_identity  # noqa: PLC0415

    return load_identity(identity, issuer, trust=trust)
