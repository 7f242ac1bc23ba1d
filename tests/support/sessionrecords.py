"""Records of sessions, for tests that need one for some process."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sandwright import signalling
from sandwright.session.denial_context import BlamedField, DenialContext, PathContext
from sandwright.session.scan_scope import ScanScope
from sandwright.session.session_record import Enforced, PostRun, SessionRecord

CONTEXT = DenialContext(
    seccomp="default (default)",
    sockets="default",
    allow="default",
    http="default",
    mcp="built-in",
    mode="none",
    network="default",
    method="bwrap (default)",
    own_sockets=BlamedField(field="network.own_sockets", source="default"),
    signing="",
    shims={},
    looser=(),
    partly={},
    shipped=True,
    never=(),
    paths=PathContext(rules={}, startup={}, names=()),
)


def session_record(session: str, process: int = 0, **fields: Any) -> SessionRecord:
    """The record of a session for a process, by default this one; other fields replace some."""
    given = {
        **asdict(signalling.identity(process)),
        "method": "bwrap",
        "project": "/nonexistent",
        "policy": "sha256:0",
        "artifacts": {},
        "directory": "/nonexistent",
        "placeholders": (),
        "enforced": Enforced(
            network="none", write=(), denied=0, seccomp="default", privileged=False,
            limits={}, degraded=(), stricter=(),
        ),
        "after": PostRun(policy="/nonexistent/sandbox.yaml", scope=ScanScope(), context=CONTEXT),
        "began": 1.0,
        "clock": (1, 1),
        "command": "true",
    }  # fmt: skip
    return SessionRecord(session=session, **{**given, **fields})
