"""Signatures without a key of one's own: a certificate for minutes, bound to an identity, and a public log.

All of it is the work of sigstore's own library (extra `keyless`), without which this module can't be
imported. The services are Sigstore's public ones, or those of a trust configuration (`clienttrustconfig` of
sigstore/protobuf-specs), for who runs his own.
"""

from __future__ import annotations

from dataclasses import dataclass

from sigstore.dsse import Statement
from sigstore.errors import Error
from sigstore.models import Bundle, ClientTrustConfig
from sigstore.oidc import IdentityError, IdentityToken, detect_credential
from sigstore.sign import Signer, SigningContext
from sigstore.verify import Verifier
from sigstore.verify.policy import Identity as Policy

from sandwright.errors import HostError, UsageError
from sandwright.reading import read_named
from sandwright.registry.client import within
from sandwright.release import bundle as form
from sandwright.release.bundle import NotSigned
from sandwright.release.statement import PAYLOAD_TYPE

PATIENCE = 60.0
"""Seconds that the services have for an answer; the library itself waits for ever."""

_LARGEST = 16 << 20


@dataclass(frozen=True)
class Identity:
    """The required signer: the subject of a certificate (an address, a workflow's URI), and its issuer.

    `log` checks the certificate, its time and the entry in the log.
    """

    subject: str
    issuer: str
    log: Verifier

    def __str__(self) -> str:
        return f"{self.subject} ({self.issuer})"

    def opened(self, bundle: bytes, where: str) -> bytes:
        """The statement in a bundle, if they have signed it; see `Verifier`."""
        if "certificate" not in form.read_bundle(bundle, where).material:
            raise NotSigned(f"{where}: not signed by {self}, but by a key")
        try:
            policy = Policy(identity=self.subject, issuer=self.issuer)
            kind, payload = self.log.verify_dsse(Bundle.from_json(bundle), policy)
        except Exception as error:  # any error of an untrusted certificate
            raise NotSigned(f"{where}: not signed by {self}: {_error_line(error)}") from error
        if kind != PAYLOAD_TYPE:
            raise NotSigned(f"{where}: its payload is no in-toto statement")
        return payload


@dataclass(frozen=True)
class KeylessSigner:
    """An identity that signs, for as long as its token is good."""

    signer: Signer
    verifier: Identity

    def sign(self, payload: bytes) -> bytes:
        """A bundle with a statement, signed and logged. Raise HostError when a service refuses."""
        try:
            signed = within(PATIENCE, lambda: self.signer.sign_dsse(Statement(payload)))
        except Exception as error:  # any error of the service or the connection
            raise _refused(error) from error
        bundle = signed.to_json().encode()
        self.verifier.opened(bundle, "sigstore")
        return bundle


def load_identity(subject: str, issuer: str, *, trust: str = "") -> Identity:
    """Load the required signer. `trust` is the file of a trust configuration; absent: Sigstore's public one.

    Raise UsageError for an invalid file, HostError if the public one is not available.
    """
    return _signer_identity(subject, issuer, _trust_configuration(trust))


def log_in(token: str = "", *, trust: str = "") -> KeylessSigner:
    """The identity of a token in a file; without a file, that of the environment (in CI systems).

    This requests a certificate: raise HostError if it is refused, UsageError without a valid token.
    """
    held = _identity_token(token)
    configuration = _trust_configuration(trust)
    verifier = _signer_identity(held.identity, held.federated_issuer, configuration)
    try:
        context = SigningContext.from_trust_config(configuration)
        return KeylessSigner(within(PATIENCE, lambda: Signer(held, context)), verifier)
    except Exception as error:  # any error of the service or the connection
        raise _refused(error) from error


def _signer_identity(subject: str, issuer: str, configuration: ClientTrustConfig) -> Identity:
    return Identity(subject, issuer, Verifier(trusted_root=configuration.trusted_root))


def _identity_token(path: str) -> IdentityToken:
    try:
        raw = _read_file(path).decode().strip() if path else detect_credential()
        if not raw:
            raise UsageError("no identity token: name its file, or run where there is one in the environment")
        return IdentityToken(raw)
    except (IdentityError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path or 'the environment'}: no good identity token: {_error_line(error)}"
        ) from None


def _trust_configuration(path: str) -> ClientTrustConfig:
    try:
        if path:
            return ClientTrustConfig.from_json(_read_file(path).decode())
        return within(PATIENCE, ClientTrustConfig.production)
    except ValueError as error:
        raise UsageError(f"{path}: not a trust configuration of Sigstore: {_error_line(error)}") from None
    except (Error, OSError) as error:  # TimeoutError is one
        raise HostError(f"cannot get Sigstore's public trust configuration: {_error_line(error)}") from None


def _read_file(path: str) -> bytes:
    try:
        return read_named(path, limit=_LARGEST)
    except OSError as error:
        raise HostError(f"cannot read {path}: {error.strerror}") from None


def _refused(error: Exception) -> HostError:
    return HostError(f"sigstore: it does not sign: {type(error).__name__}: {_error_line(error)}")


def _error_line(error: Exception) -> str:
    """The message of an error, on one line."""
    return " ".join(str(error).split())[:300]
