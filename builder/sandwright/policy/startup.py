"""Files that a program reads to start at all: its loader (ld.so), its libraries, a little configuration.

These paths stay readable if a policy's `read` does not name them; denied paths stay denied.
"""

from __future__ import annotations

from collections.abc import Mapping

from sandwright.policy.facts import System

BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Alpine, distroless, Arch
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora, RHEL
    "/etc/ssl/cert.pem",  # OpenSSL's own on Alpine and others
)
"""The files in which systems keep the certificates of all authorities."""

STORES = (
    "/etc/ssl/certs/java/cacerts",  # Debian, Alpine
    "/etc/pki/java/cacerts",  # Fedora, RHEL
)
"""The key stores that Java reads on systems; its releases have a link there."""

PATHS: Mapping[System, Mapping[str, str]] = {
    "linux": {
        "/usr": "programs and libraries",
        "/bin": "programs",
        "/sbin": "programs",
        "/lib": "the loader and libraries",
        "/lib32": "the loader and libraries",
        "/lib64": "the loader and libraries",
        "/libx32": "the loader and libraries",
        "/etc/ld.so.cache": "where libraries are",
        "/etc/ld.so.conf": "where libraries are",
        "/etc/ld.so.conf.d": "where libraries are",
        "/etc/alternatives": "what names like `awk` lead to",
        "/etc/passwd": "names of users",
        "/etc/group": "names of groups",
        "/etc/nsswitch.conf": "how names are looked up",
        "/etc/hosts": "names of hosts",
        "/etc/host.conf": "names of hosts",
        "/etc/resolv.conf": "names of hosts",
        "/etc/gai.conf": "order of addresses",
        "/etc/services": "names of ports",
        "/etc/protocols": "names of protocols",
        "/etc/localtime": "the time zone",
        "/etc/timezone": "the time zone",
        "/etc/locale.alias": "languages",
        "/etc/ssl/certs": "certificates of authorities",
        "/etc/ssl/openssl.cnf": "how TLS is configured",
        "/etc/pki/tls": "certificates of authorities (Fedora)",
        "/etc/pki/ca-trust": "certificates of authorities (Fedora)",
        "/etc/ca-certificates": "certificates of authorities",
        "/etc/terminfo": "terminals",
        "/etc/python3": "how Debian's Python starts",
        "/nix/store": "programs and libraries (NixOS)",
        "/run/current-system": "programs and libraries (NixOS)",
        "/proc": "the sandbox's own processes",
        "/sys/devices/system/cpu": "how many processors there are",
        "/dev": "the sandbox's own devices: null, zero, random, tty",
    },
    "darwin": {
        "/usr": "programs and libraries",
        "/bin": "programs",
        "/sbin": "programs",
        "/System/Library": "frameworks",
        "/System/Cryptexes": "frameworks",
        "/System/Volumes/Preboot/Cryptexes": "frameworks",
        "/Library/Apple": "frameworks",
        "/Library/Developer/CommandLineTools": "git, python3 and compilers",
        "/private/etc/hosts": "names of hosts",
        "/private/etc/localtime": "the time zone",
        "/private/etc/passwd": "names of users",
        "/private/etc/protocols": "names of protocols",
        "/private/etc/resolv.conf": "names of hosts",
        "/private/etc/services": "names of ports",
        "/private/etc/shells": "login shells",
        "/private/etc/ssl": "certificates of authorities",
        "/private/var/db/dyld": "the cache of libraries",
        "/private/var/db/timezone": "the time zone",
        "/private/var/select": "which sh and which Xcode",
        "/dev": "null, zero, random, tty",
    },
}
"""By system and path: the kind of file."""
