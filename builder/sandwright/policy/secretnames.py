"""Patterns of names of variables that probably contain a secret."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

NAMES: Mapping[str, str] = {
    # Services whose variables are mostly credentials
    "AWS_*": "Amazon: keys and sessions",
    "ARM_*": "Azure, as read by Terraform",
    "AZURE_*": "Azure: keys and secrets of applications",
    "DOCKER_AUTH*": "logins of registries",
    "OP_*": "1Password: sessions and service accounts",
    "BW_*": "Bitwarden: sessions",
    "VAULT_*": "HashiCorp Vault",
    "CI_REGISTRY*": "GitLab: the login of its registry",
    "BUNDLE_*__*": "Bundler: the login of a gem server, by host",
    # Words for secrets in any position
    "*TOKEN*": "tokens of forges, registries, clouds",
    "*SECRET*": "secrets",
    "*PASSW*": "PASSWORD, PASSWD, and abbreviations",
    "*PASSPHRASE*": "of private keys",
    "*PASSCODE*": "of devices and accounts",
    "*CREDENTIAL*": "credentials, or the file that holds them",
    "*BEARER*": "tokens in HTTP's Authorization",
    "*AUTHORIZATION*": "the same",
    "*_HEADERS": "OTEL_EXPORTER_OTLP_HEADERS, with Authorization in it",
    "*JWT*": "signed tokens",
    "*COOKIE*": "cookies are logins",
    "*MNEMONIC*": "of a wallet",
    "*SEED_PHRASE*": "of a wallet",
    "*WEBHOOK*": "anyone with the URL can post",
    "*PRIVATE*": "private keys",
    "*APIKEY*": "API keys",
    "*HMAC*": "keys that sign",
    "*SIGNING*": "keys that sign",
    "*ENCRYPT*": "keys that encrypt",
    "*CONNECTION_STRING*": "URLs with a login",
    "*CONN_STR*": "URLs with a login",
    "*NETRC*": "logins by host",
    "*KUBECONFIG*": "logins of clusters",
    # Words for secrets as a part of a name
    "*KEY": "API_KEY, OPENAI_KEY, SSHKEY",
    "*KEYS": "several of them",
    "*_KEY_*": "AWS_ACCESS_KEY_ID, SSH_KEY_FILE",
    "*_PAT": "personal access tokens",
    "*_PAT_*": "personal access tokens",
    "*PASS": "DB_PASS, PGPASS",
    "*_PASS_*": "SMTP_PASS_FILE",
    "*_PW": "passwords",
    "*_PWD": "MYSQL_PWD",
    "*_CRED": "credentials",
    "*_CREDS": "credentials",
    "*_AUTH": "npm_config__auth, REDIS_AUTH",
    "*_AUTH_*": "logins; SSH_AUTH_SOCK, the agent that signs",
    "*_AUTHTOKEN": "npm",
    "*_SESSION": "BW_SESSION",
    "*_SK": "secret keys: STRIPE_SK",
    "*_SALT": "of hashes that must not be guessed",
    "*_SEED": "of keys and random numbers",
    "*_OTP": "one-time passwords",
    "*_TOTP": "what one-time passwords are made from",
    "*_PIN": "of devices and accounts",
    "*_PEM": "keys in PEM",
    "*_PFX": "keys in PKCS #12",
    "*_P12": "keys in PKCS #12",
    # Addresses: a login may stand in them
    "*_URL": "DATABASE_URL: postgres://user:password@…",
    "*_URI": "MONGODB_URI",
    "*_DSN": "data bases, Sentry",
    "*_PROXY": "http://user:password@proxy",
    "GOPROXY": "the same, of a module proxy",
    "GOAUTH": "logins of module proxies",
    "CARGO_REGISTRIES_*_INDEX": "https://user:password@registry",
    "RESTIC_REPOSITORY": "rest:https://user:password@…",
}
"""By pattern of upper-case names: the owner of the secret, or why a value may hold one.

`*_WORD` and `*_WORD_*` also match a name that begins with the word.
"""

_PLAIN = ("PWD",)
"""Names that only look so: the working directory."""


def why_secret(name: str) -> str:
    """The reason why a variable of this name may hold a secret; empty without one. Case is ignored."""
    upper = name.upper()
    names = (upper,) if upper in _PLAIN else (upper, f"_{upper}")
    return next(
        (why for pattern, why in NAMES.items() if any(fnmatchcase(each, pattern) for each in names)), ""
    )


_SHORTEST = 4
"""The least number of characters of a possible secret."""


def secret_values(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that may hold secrets, with their values."""
    return {name: value for name, value in environ.items() if why_secret(name)}


def without_values(text: str, values: Mapping[str, str]) -> str:
    """A text in which each value is the name of its variable; the longest first, as one may be in another."""
    for name, value in sorted(values.items(), key=lambda each: -len(each[1])):
        in_path = "/".join(part for part in value.split("/") if part not in ("", "."))
        normal = posixpath.normpath(value).strip("/")
        for form in (value, in_path, normal, repr(value)[1:-1], *_shortened(value, in_path, normal)):
            text = text.replace(form, f"${{{name}}}") if len(form) >= _SHORTEST else text
    return text


def _shortened(value: str, *paths: str) -> Iterator[str]:
    """Ends of an absolute path below `~` or `$PROJECT`, which texts say instead; the longest first."""
    for path in paths if value.startswith("/") else ():
        parts = path.split("/")
        for start in range(1, len(parts)):
            yield from (f"{place}/{'/'.join(parts[start:])}" for place in ("~", "$PROJECT"))
