"""Which variables look as if they held a secret, by their names."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

NAMES: Mapping[str, str] = {
    # Accounts whose variables are nearly all about credentials
    "AWS_*": "Amazon: keys and sessions",
    "ARM_*": "Azure, as Terraform reads it",
    "AZURE_*": "Azure: keys and secrets of applications",
    "DOCKER_AUTH*": "logins of registries",
    "OP_*": "1Password: sessions and service accounts",
    "BW_*": "Bitwarden: sessions",
    "VAULT_*": "HashiCorp Vault",
    "CI_REGISTRY*": "GitLab: the login of its registry",
    # Words for secrets, wherever they stand
    "*TOKEN*": "tokens of forges, registries, clouds",
    "*SECRET*": "secrets by their own word",
    "*PASSW*": "PASSWORD, PASSWD, and abbreviations",
    "*PASSPHRASE*": "of private keys",
    "*PASSCODE*": "of devices and accounts",
    "*CREDENTIAL*": "credentials, or the file that holds them",
    "*BEARER*": "tokens in HTTP's Authorization",
    "*JWT*": "signed tokens",
    "*COOKIE*": "cookies are sessions",
    "*MNEMONIC*": "of a wallet",
    "*SEED_PHRASE*": "of a wallet",
    "*WEBHOOK*": "whoever knows the address may post",
    "*PRIVATE*": "private keys",
    "*APIKEY*": "keys of programming interfaces",
    "*HMAC*": "keys that sign",
    "*SIGNING*": "keys that sign",
    "*ENCRYPT*": "keys that encrypt",
    "*CONNECTION_STRING*": "addresses with a login",
    "*CONN_STR*": "addresses with a login",
    "*NETRC*": "logins by host",
    "*KUBECONFIG*": "logins of clusters",
    # Words that mean it as a part of the name
    "*KEY": "API_KEY, OPENAI_KEY, SSHKEY",
    "*KEYS": "several of them",
    "*_KEY_*": "AWS_ACCESS_KEY_ID, SSH_KEY_FILE",
    "KEY_*": "the same",
    "*_PAT": "personal access tokens",
    "PAT": "personal access tokens",
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
    "*_SALT": "of hashes that are to stay unguessable",
    "*_SEED": "of keys and random numbers",
    "*_OTP": "one-time passwords",
    "*_TOTP": "what one-time passwords are made from",
    "*_PEM": "keys in PEM",
    "*_PFX": "keys in PKCS #12",
    "*_P12": "keys in PKCS #12",
    # Addresses: a login may stand in them
    "*_URL": "DATABASE_URL: postgres://user:password@…",
    "URL": "the same",
    "*_URI": "MONGODB_URI",
    "URI": "the same",
    "*_DSN": "data bases, Sentry",
    "DSN": "the same",
    "*_PROXY": "http://user:password@proxy",
}
"""By pattern of upper-case names: whose secret, or why a value may hold one."""


def why_secret(name: str) -> str:
    """Why a variable of this name may hold a secret; empty for none that looks so. Case says nothing."""
    upper = name.upper()
    return next((why for pattern, why in NAMES.items() if fnmatchcase(upper, pattern)), "")
