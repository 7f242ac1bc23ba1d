"""The lines and values that squid.conf may have: everything else is refused.

squid's documentation of a line is in squid.conf.documented (5.7).
"""

from __future__ import annotations

import re

BELOW = re.compile(r"\^\.\+\\\.((?:[a-z0-9-]+\\\.)*[a-z0-9-]+)\$")
"""The regular expression of all names below one, as `sandwright.render.proxy.quote_below` writes it."""

_SPELLINGS = frozenset((
    r"^([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)*[a-z]([a-z0-9-]*[a-z0-9])?$", r"^([0-9]+\.){3}[0-9]+$",
    r"^\[[0-9a-f:.]+\]$",
))  # fmt: skip
"""The patterns for the spelling of names and addresses: lists that name no host."""

_KNOWN = frozenset((
    # Its ports and its files: none of these lines lets a request through
    "visible_hostname", "deny_info", "logformat", "access_log", "cache_log", "error_directory",
    "cache_store_log", "pid_filename", "coredump_dir", "netdb_filename", "reply_header_access",
    # Sizes and times
    "cache_mem", "request_header_max_size", "reply_header_max_size", "pipeline_prefetch",
    "request_start_timeout", "request_timeout", "connect_timeout", "forward_timeout", "read_timeout",
    "client_lifetime", "quick_abort_min", "quick_abort_max", "max_filedescriptors", "shutdown_lifetime",
    # Names
    "dns_defnames", "dns_timeout", "positive_dns_ttl", "negative_dns_ttl", "hosts_file", "dns_nameservers",
))  # fmt: skip
"""Lines with any content."""

_CONSTANT = frozenset((
    "cache deny all", "global_internal_static off", "via off", "forwarded_for delete",
    "httpd_suppress_version_string on", "email_err_data off", "icp_port 0", "pinger_enable off",
    "always_direct allow all", "relaxed_header_parser off", "uri_whitespace deny", "check_hostnames on",
    "allow_underscore off", "proxy_protocol_access allow sw_relay", "proxy_protocol_access deny all",
))  # fmt: skip
"""Lines that would change a client's rights if they said something else."""


_LISTENS = re.compile(r"http_port (SW-LISTEN|[0-9a-f.:\[\]]+):[0-9]+( require-proxy-header)?")
"""SW-LISTEN stands for the values of each start (`sandwright.render.proxyfacts`)."""


def is_known_line(line: str) -> bool:
    """Whether a line, of neither a list nor a rule, opens nothing."""
    word = line.partition(" ")[0]
    return word.startswith("#") or word in _KNOWN or line in _CONSTANT or _LISTENS.fullmatch(line) is not None


def is_known_value(kind: str, value: str) -> bool:
    """Whether a value means here the same as to squid: `.name` is a name with all below it, `1-9` ports."""
    match kind:
        case "dstdomain":
            return not value.startswith(".")
        case "dstdom_regex":
            return value in _SPELLINGS or BELOW.fullmatch(value) is not None
        case "port":
            return value.isdigit()
        case _:
            return True
