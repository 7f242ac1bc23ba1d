"""The launcher's record is read as it was written, and no other text is accepted as one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sandwright.errors import UsageError
from sandwright.session.access_log import (
    Access,
    AccessLog,
    Contact,
    RequestedHost,
    access_log_lines,
    parse_access_log,
    read_access_log,
)

WHOLE = AccessLog(
    accesses=(
        Access("/a b/\n- /etc", "/a b/\n- /etc", "absent", frozenset({"create", "write"})),
        Access("/l/\udcff", "/r/\udcff", "file", frozenset({"read"})),
    ),
    contacts=(Contact("connect", "tcp", "192.0.2.1", 443), Contact("connect", "unix", "/s/\udc80", 0)),
    calls=frozenset({101}),
    hosts=frozenset({RequestedHost("example.org", 443, ""), RequestedHost("other.example", 80, "host")}),
    seen=7,
    dropped=2,
    unresolved=1,
    whole=True,
)


def test_a_record_is_read_as_it_was_written() -> None:
    text = list(access_log_lines(WHOLE))
    assert all(each.isascii() and each.isprintable() for each in text)
    assert parse_access_log(text) == WHOLE


@pytest.mark.parametrize(
    "line",
    [
        '{"path": "relative", "found": "file", "kinds": ["read"]}',
        '{"path": "/a", "real": "b", "found": "file", "kinds": ["read"]}',
        '{"path": "/a\\u0000b", "found": "file", "kinds": ["read"]}',
        '{"path": "/a", "found": "file", "kinds": ["grant"]}',
        '{"path": "/a\\u0100", "found": "file", "kinds": ["read"]}',
        '{"path": "/a"}',
        '{"other": 1}',
        "[]",
        "x",
    ],
)
def test_what_is_no_record_is_refused(line: str, tmp_path: Path) -> None:
    file = tmp_path / "record"
    file.write_text(f"{line}\n{json.dumps({'end': True, 'calls': 0, 'dropped': 0})}\n")
    with pytest.raises(UsageError, match="is no record of a run"):
        read_access_log(file)
