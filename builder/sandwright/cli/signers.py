"""Makes the signer and the verifier that the options of a release name."""

from __future__ import annotations

import os
from typing import Any

from sandwright.errors import ToolMissing, UsageError
from sandwright.lazy import load
from sandwright.release.bundle import Signer, Verifier
from sandwright.release.signing import load_key, load_verifier


def signer(key: str, public_key: str, *, keyless: bool, token: str, trust: str) -> Signer:
    """The signer that the options of `publish` name. Raise UsageError for none, and for two."""
    if keyless and (key or public_key):
        raise UsageError("publish: either --key or --keyless")
    if not keyless:
        if token or trust:
            raise UsageError(f"publish: --{'token' if token else 'trust'} belongs to --keyless")
        if not key:
            raise UsageError("publish: --key is needed, or --keyless: nothing is published unsigned")
        return load_key(key, public=public_key, environ=os.environ)
    keyless_signer: Signer = _keyless("log_in")(token, trust=trust)
    return keyless_signer


def verifier(key: str, *, identity: str, issuer: str, trust: str) -> Verifier:
    """The verifier that the options of `verify-image` name. Raise UsageError for none, and for two."""
    if key and (identity or issuer or trust):
        raise UsageError("verify-image: either --key, or --identity with --issuer")
    if key:
        return load_verifier(key)
    if not (identity and issuer):
        raise UsageError("verify-image: --key is needed, or --identity with --issuer, to name the signer")
    identified: Verifier = _keyless("load_identity")(identity, issuer, trust=trust)
    return identified


def _keyless(name: str) -> Any:  # noqa: ANN401 - a function of the module
    """A function of `release.keyless`, whose library takes most of a second to import, and is an extra."""
    try:
        return load(f"sandwright.release.keyless:{name}")
    except ModuleNotFoundError as error:
        raise ToolMissing(str(error.name), "pip install 'sandwright[keyless]'") from error
