"""Verifies RSA signatures (PKCS #1 v1.5) of packages and indices with a distribution's keys (apk-keys(5))."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sandwright.errors import HostError, IntegrityError, ToolMissing
from sandwright.image.apk.package import Signature, SignedMember
from sandwright.reading import read_unlinked

try:
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
    from cryptography.hazmat.primitives.hashes import SHA1, SHA256
    from cryptography.hazmat.primitives.serialization import load_pem_public_key
except ImportError as error:  # without the extra `release`
    _MISSING: ImportError | None = error
else:
    _MISSING = None

SUFFIX = ".rsa.pub"
MIN_BITS = 2048
_HINT = "pip install 'sandwright[release]'"


def read_keys(paths: list[Path]) -> dict[str, bytes]:
    """Public keys by file name, by which signatures name them.

    Raise HostError for a file that can't be read.
    """
    try:
        return {path.name: read_unlinked(path) for path in paths}
    except OSError as error:
        raise HostError(f"cannot read {error.filename}: {error.strerror}") from None


def verify_signature(member: SignedMember, keys: Mapping[str, bytes], what: str) -> str:
    """Verify the signature of a member, and give the name of the key that signed it.

    Raise IntegrityError if none did; its message begins with `what`.
    """
    if _MISSING is not None:
        raise ToolMissing("cryptography", _HINT) from _MISSING
    trusted = [each for each in member.signatures if each.key in keys]
    if not trusted:
        names = ", ".join(each.key for each in member.signatures) or "nobody"
        raise IntegrityError(f"{what}: it is signed by {names}, which is none of the {len(keys)} keys")
    for each in trusted:
        if _is_valid(each, member, keys[each.key], what):
            return each.key
    raise IntegrityError(f"{what}: the signature of {trusted[0].key} is not valid")


def _is_valid(signature: Signature, member: SignedMember, pem: bytes, what: str) -> bool:
    try:
        key = load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise IntegrityError(f"{what}: {signature.key} is not a public key: {error}") from None
    if not isinstance(key, RSAPublicKey) or key.key_size < MIN_BITS:
        raise IntegrityError(f"{what}: {signature.key} is not an RSA key of at least {MIN_BITS} bits")
    digest, algorithm = (
        (member.sha256, SHA256()) if signature.algorithm == "RSA256" else (member.sha1, SHA1())  # noqa: S303 - as signed
    )
    try:
        key.verify(signature.value, digest, PKCS1v15(), Prehashed(algorithm))
    except InvalidSignature:
        return False
    return True
