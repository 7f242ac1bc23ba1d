"""Certificates for single registries: the directories `certs.d` of containers-certs.d(5) and of Docker.

`HOST:PORT` in one of them is a directory with authorities, `*.crt`, which are trusted for that registry in
addition to the others, and client certificates, `*.cert`, each with its key, `*.key`.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path

from urllib3.util.ssl_ import create_urllib3_context

from sandwright.errors import UsageError

SYSTEM = (Path("/etc/containers/certs.d"), Path("/etc/docker/certs.d"))


def certificate_directories(environment: Mapping[str, str]) -> tuple[Path, ...]:
    """The directories `certs.d`, the user's first."""
    home = Path(environment.get("HOME") or "~").expanduser()
    configuration = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    return (configuration / "containers" / "certs.d", *SYSTEM)


def tls_context(host: str, directories: tuple[Path, ...], *, authorities: bool) -> ssl.SSLContext | None:
    """A context with the certificates of `host[:port]`, or None where no directory has any.

    The first directory that exists for the host is used. Without `authorities` only client certificates are
    loaded. Raise UsageError for a file that cannot be read or is no certificate, and for half a pair.
    """
    found = next((each / host for each in directories if (each / host).is_dir()), None)
    if found is None or host.startswith("."):
        return None
    context = create_urllib3_context()
    try:
        for each in sorted(found.glob("*.crt")) if authorities else ():
            file = each
            context.load_verify_locations(cafile=str(each))
        for file, key in _client_pairs(found):
            context.load_cert_chain(str(file), str(key))
    except OSError as error:  # ssl.SSLError, too
        raise UsageError(f"cannot use {file}: {error.strerror or error}") from error
    return context


def _client_pairs(directory: Path) -> Iterator[tuple[Path, Path]]:
    """Each client certificate with its key."""
    certificates, keys = ({each.stem: each for each in directory.glob(f"*.{end}")} for end in ("cert", "key"))
    for name in sorted(certificates.keys() | keys.keys()):
        if name not in certificates or name not in keys:
            there, missing = (keys, "cert") if name in keys else (certificates, "key")
            raise UsageError(f"{there[name]} needs {name}.{missing} beside it")
        yield certificates[name], keys[name]
