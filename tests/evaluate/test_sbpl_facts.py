"""Known facts of Seatbelt's decisions, one by one: rules in every order and place that invites a mistake."""

# A row of a table is a line, however long.
# ruff: noqa: E501

from __future__ import annotations

import re

import pytest

from sandwright.evaluate.sbpl.decide import Evaluator
from sandwright.evaluate.sbpl.errors import ProfileError
from sandwright.evaluate.sbpl.profile import compile_profile

READ, META, WRITE, CREATE, UNLINK = (
    "file-read-data",
    "file-read-metadata",
    "file-write-data",
    "file-write-create",
    "file-write-unlink",
)
OUT, IN, BIND = "network-outbound", "network-inbound", "network-bind"
A, B = {"path": "/a/x"}, {"path": "/b/x"}

CASES: dict[str, list[tuple[str, str, dict[str, str], str]]] = {
    "the later of two filtered rules of one operation decides": [
        ('(allow file-read* (subpath "/a")) (deny file-read* (literal "/a/x"))', READ, A, "deny"),
        ('(deny file-read* (literal "/a/x")) (allow file-read* (subpath "/a"))', READ, A, "allow"),
        ('(deny file-read* (subpath "/a")) (allow file-read* (literal "/a/x"))', READ, A, "allow"),
        ('(allow file-read* (literal "/a/x")) (deny file-read* (subpath "/b"))', READ, A, "allow"),
    ],
    "a rule on a child decides over one on its parent, wherever either stands": [
        ('(allow file-read-data (subpath "/a")) (deny file-read* (subpath "/a"))', READ, A, "allow"),
        ('(deny file-read* (subpath "/a")) (allow file-read-data (subpath "/a"))', READ, A, "allow"),
        ('(deny file-write-unlink (subpath "/a")) (allow file-write*)', UNLINK, A, "deny"),
        ('(deny file-write-unlink (subpath "/a")) (allow file-write* (subpath "/a"))', UNLINK, A, "deny"),
        ('(allow file-read-metadata (subpath "/a")) (deny file-read* (subpath "/a"))', META, A, "allow"),
        ('(deny file-read-metadata (subpath "/a")) (allow file*)', META, A, "deny"),
        ('(allow file-read-data) (deny file* (subpath "/a"))', READ, A, "allow"),
    ],
    "a rule without filters is what its operation falls to, wherever it stands": [
        ('(allow file-read* (subpath "/a")) (deny file-read*)', READ, A, "allow"),
        ('(deny file-read* (subpath "/a")) (allow file-read*)', READ, A, "deny"),
        ('(deny file-read* (subpath "/a")) (allow file-read*)', READ, B, "allow"),
        ("(allow file-read*) (deny file-read*)", READ, A, "deny"),
        ("(deny file-read*) (allow file-read*)", READ, A, "allow"),
        ('(deny file-write* (subpath "/a")) (allow default)', WRITE, A, "deny"),
        ('(deny file-write*) (allow default)', WRITE, A, "deny"),
    ],
    "default is the root of all, not of what is terminal": [
        ("(deny default)", READ, A, "deny"),
        ("(allow default)", READ, A, "allow"),
        ("(deny default)", "file-link", A, "allow"),
        ("(deny default)", "file-clone", A, "allow"),
        ("(deny default)", "file-map-executable", A, "allow"),
        ("(deny default)", "file-test-existence", A, "allow"),
        ("(deny default)", "process-info-pidinfo", {"target": "others"}, "allow"),
        ("(deny default)", "dynamic-code-generation", {}, "allow"),
        ("(deny default)", "iokit-get-properties", {}, "allow"),
        ("(deny default)", "nvram-get", {}, "allow"),
        ("(deny default)", "mach-cross-domain-lookup", {}, "allow"),
        ("(deny default) (deny process-info*)", "process-info-pidinfo", {"target": "others"}, "deny"),
        ("(deny default) (deny nvram*)", "nvram-get", {}, "deny"),
        ("(allow default)", "file-write-setugid", A, "deny"),
        ("(allow default)", "job-creation", {}, "deny"),
        ("(allow file-write*)", "file-write-setugid", A, "deny"),
        ('(allow file-write-setugid (subpath "/a"))', "file-write-setugid", A, "allow"),
    ],
    "filters of a rule are alternatives": [
        ('(allow file-read-metadata (literal "/z") (vnode-type DIRECTORY))', META, {**A, "vnode-type": "DIRECTORY"}, "allow"),
        ('(allow file-read-metadata (literal "/z") (vnode-type DIRECTORY))', META, {**A, "vnode-type": "REGULAR-FILE"}, "deny"),
        ('(allow file-read* (subpath "/z" "/a"))', READ, A, "allow"),
        ('(allow file-read* (require-all (subpath "/a") (vnode-type DIRECTORY)))', READ, {**A, "vnode-type": "DIRECTORY"}, "allow"),
        ('(allow file-read* (require-all (subpath "/a") (vnode-type DIRECTORY)))', READ, {**A, "vnode-type": "REGULAR-FILE"}, "deny"),
        ('(allow file-read* (require-not (subpath "/b")))', READ, A, "allow"),
        ('(allow file-read* (require-not (subpath "/b")))', READ, B, "deny"),
        ('(allow file-read* (literal "/z") (require-not (literal "/y")))', READ, A, "allow"),
        ('(allow file-read* (require-any (literal "/z") (require-all (subpath "/a") (require-not (literal "/a/y")))))', READ, A, "allow"),
        ('(allow file-read* (require-any (literal "/z") (require-all (subpath "/a") (require-not (literal "/a/x")))))', READ, A, "deny"),
    ],
    "subpath ends at a slash, prefix does not, literal is exact": [
        ('(allow file-read* (subpath "/a"))', READ, {"path": "/a"}, "allow"),
        ('(allow file-read* (subpath "/a"))', READ, {"path": "/ab"}, "deny"),
        ('(allow file-read* (subpath "/a/x"))', READ, {"path": "/a/x/y"}, "allow"),
        ('(allow file-read* (prefix "/a"))', READ, {"path": "/ab"}, "allow"),
        ('(allow file-read* (prefix "/a/"))', READ, {"path": "/a"}, "deny"),
        ('(allow file-read* (literal "/a"))', READ, A, "deny"),
        ('(allow file-read* (literal "/"))', READ, {"path": "/"}, "allow"),
        ('(allow file-read* (literal "/"))', READ, A, "deny"),
        ('(allow file-read* (subpath "/"))', READ, A, "allow"),
        ('(allow file-read* (literal "/A/x"))', READ, A, "deny"),
    ],
    "a regex is searched for, from the start only where it says so": [
        ('(allow file-read* (regex #"x"))', READ, A, "allow"),
        ('(allow file-read* (regex #"^/a"))', READ, {"path": "/ab"}, "allow"),
        ('(allow file-read* (regex #"^/a$"))', READ, {"path": "/ab"}, "deny"),
        ('(allow file-read* (regex #"^/a(/|$)"))', READ, {"path": "/a"}, "allow"),
        ('(allow file-read* (regex #"^/a(/|$)"))', READ, {"path": "/ab"}, "deny"),
        ('(allow file-read* (regex #"\\\\.env$"))', READ, {"path": "/a/.env"}, "deny"),
        ('(allow file-read* (regex #"\\.env$"))', READ, {"path": "/a/.env"}, "allow"),
        ('(allow file-read* (regex #"\\.env$"))', READ, {"path": "/a/xenv"}, "deny"),
        ('(allow file-read* (regex "\\\\.env$"))', READ, {"path": "/a/.env"}, "allow"),
        ('(allow file-read* (regex #"^/[Aa]/x"))', READ, {"path": "/A/x"}, "allow"),
        ('(allow file-read* (regex #"^/a/[^/]+$"))', READ, {"path": "/a/x/y"}, "deny"),
    ],
    "the kernel's path is compared, and links on the way need metadata": [
        ('(allow file-read* (subpath "/tmp"))', READ, {"path": "/tmp/x"}, "deny"),
        ('(allow file-read* (subpath "/private/tmp"))', READ, {"path": "/private/tmp/x"}, "allow"),
        ('(allow file-read* (literal "/private/etc/hosts"))', READ, {"path": "/etc/hosts"}, "deny"),
        ('(allow file-read* (literal "/private/etc/hosts")) (allow file-read-metadata (literal "/etc"))', READ, {"path": "/etc/hosts"}, "allow"),
        ('(allow file-read* (subpath "/Users/u"))', READ, {"path": "/System/Volumes/Data/Users/u/x"}, "allow"),
        ('(allow file-read* (subpath "/System/Volumes/Data/Users/u"))', READ, {"path": "/Users/u/x"}, "deny"),
        ('(deny file-read* (subpath "/tmp/s")) (allow file-read*)', READ, {"path": "/private/tmp/s"}, "allow"),
    ],
    "addresses: localhost or all, and no Unix socket among them": [
        ('(allow network-outbound (remote ip "localhost:80"))', OUT, {"remote": "localhost:80", "proto": "tcp"}, "allow"),
        ('(allow network-outbound (remote ip "localhost:80"))', OUT, {"remote": "127.0.0.1:80", "proto": "tcp"}, "allow"),
        ('(allow network-outbound (remote ip "localhost:80"))', OUT, {"remote": "localhost:81", "proto": "tcp"}, "deny"),
        ('(allow network-outbound (remote ip "localhost:80"))', OUT, {"remote": "192.0.2.1:80", "proto": "tcp"}, "deny"),
        ('(allow network-outbound (remote ip "*:*"))', OUT, {"remote": "192.0.2.1:80", "proto": "udp"}, "allow"),
        ('(allow network-outbound (remote tcp "*:80"))', OUT, {"remote": "192.0.2.1:80", "proto": "udp"}, "deny"),
        ("(allow network-outbound (remote ip))", OUT, {"unix": "/a/s"}, "deny"),
        ('(allow network-outbound (literal "/a/s"))', OUT, {"unix": "/a/s"}, "allow"),
        ('(allow network-outbound (remote unix-socket (path-literal "/a/s")))', OUT, {"unix": "/a/s"}, "allow"),
        ("(allow network*)", OUT, {"unix": "/a/s"}, "allow"),
        ('(deny file-read* file-write* (subpath "/a")) (allow network-outbound)', OUT, {"unix": "/a/s"}, "allow"),
        ("(allow network-inbound (local ip))", BIND, {"local": "localhost:80", "proto": "tcp"}, "allow"),
        ("(allow network-bind (local ip))", IN, {"local": "localhost:80", "proto": "tcp"}, "deny"),
    ],
    "names, and targets": [
        ('(allow mach-lookup (global-name "a.b"))', "mach-lookup", {"global-name": "a.b"}, "allow"),
        ('(allow mach-lookup (global-name "a.b"))', "mach-lookup", {"local-name": "a.b"}, "deny"),
        ('(allow mach-lookup (global-name "a.b"))', "mach-lookup", {"global-name": "a.bc"}, "deny"),
        ('(allow mach-lookup (global-name-prefix "a."))', "mach-lookup", {"global-name": "a.bc"}, "allow"),
        ('(allow mach-lookup (global-name-regex #"^a\\."))', "mach-lookup", {"global-name": "a.bc"}, "allow"),
        ('(allow sysctl-read (sysctl-name "hw.ncpu"))', "sysctl-read", {"sysctl-name": "hw.ncpu"}, "allow"),
        ('(allow sysctl-read (sysctl-name-prefix "hw."))', "sysctl-read", {"sysctl-name": "kern.x"}, "deny"),
        ("(allow signal (target self))", "signal", {"target": "others"}, "deny"),
        ("(allow signal (target same-sandbox))", "signal", {"target": "same-sandbox"}, "allow"),
    ],
    "set-id programs are executed by nobody but without a sandbox": [
        ("(allow default)", "process-exec*", {"path": "/bin/ps", "setugid": "true"}, "deny"),
        ('(allow process-exec (literal "/bin/ps"))', "process-exec*", {"path": "/bin/ps", "setugid": "true"}, "deny"),
        ('(allow process-exec (literal "/bin/ps") (with no-sandbox))', "process-exec*", {"path": "/bin/ps", "setugid": "true"}, "allow"),
        ("(allow default)", "process-exec*", {"path": "/bin/ls"}, "allow"),
    ],
    "other names of operations and filters": [
        ('(allow file-unlink (subpath "/a"))', UNLINK, A, "allow"),
        ("(allow ipc-posix-sem)", "ipc-posix-sem-create", {}, "allow"),
        ('(allow process-exec (subpath "/a"))', "process-exec*", A, "allow"),
        ('(allow file-read* (path "/a/x"))', READ, A, "allow"),
        ('(allow file-read* (path-literal "/a/x"))', READ, A, "allow"),
        ('(allow file-read* (path-prefix "/a"))', READ, A, "allow"),
        ('(allow file-read* (path-regex #"^/a"))', READ, A, "allow"),
        ('(allow network-outbound (to ip "localhost:*"))', OUT, {"remote": "localhost:9", "proto": "tcp"}, "allow"),
        ('(allow network-inbound (from ip "localhost:*"))', IN, {"local": "localhost:9", "proto": "tcp"}, "allow"),
    ],
    "a profile is a program": [
        ('(define (home x) (subpath (string-append "/a" x))) (allow file-read* (home "/x"))', READ, A, "allow"),
        ('(if (param "NONE") (allow file-read*) (deny file-read*))', READ, A, "deny"),
        ("(for-each (lambda (p) (allow file-read* (subpath p))) '(\"/z\" \"/a\"))", READ, A, "allow"),
        ('(let ((p "/a")) (allow file-read* (subpath p)))', READ, A, "allow"),
        ('(when #f (allow file-read*))', READ, A, "deny"),
        ('(allow file-read* (path-ancestors "/a/x/y"))', READ, {"path": "/a/x"}, "allow"),
        ('(allow file-read* (path-ancestors "/a/x/y"))', READ, {"path": "/a/x/y"}, "deny"),
        ('(with-filter (vnode-type DIRECTORY) (allow file-read* (subpath "/a")))', READ, {**A, "vnode-type": "REGULAR-FILE"}, "deny"),
        ('(with-filter (vnode-type DIRECTORY) (allow file-read* (subpath "/a")))', READ, {**A, "vnode-type": "DIRECTORY"}, "allow"),
        ("(debug deny) (allow file-read*)", READ, A, "allow"),
        ('(allow file-read* (require-all (subpath "/a") (require-entitlement "x")))', READ, A, "deny"),
        ('(allow file-read* (require-all (subpath "/a") (extension "com.apple.app-sandbox.read")))', READ, A, "deny"),
    ],
}  # fmt: skip

ROWS = [
    pytest.param(*row, id=f"{fact} {number}")
    for fact, rows in CASES.items()
    for number, row in enumerate(rows, 1)
]


@pytest.mark.parametrize(("rules", "operation", "resource", "decision"), ROWS)
def test_facts(rules: str, operation: str, resource: dict[str, str], decision: str) -> None:
    found = Evaluator(compile_profile(f"(version 1)\n{rules}")).decide(operation, resource)
    assert ("allow" if found.allowed else "deny") == decision


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        pytest.param('(allow file-read* (subpath (param "GONE")))', "argument 1 must be: string", id="a missing parameter fails closed"),
        pytest.param('(allow network-outbound (remote ip "192.0.2.1:80"))', "host must be * or localhost", id="no filter for one address"),
        pytest.param('(allow network-outbound (remote ip "example.org:80"))', "host must be * or localhost", id="no filter for a name"),
        pytest.param('(allow file-read* (regex #"(?i)^/a"))', "unexpected ^ operator in middle", id="no flags in a regex"),
        pytest.param('(deny file-read* (with report))', "applies to allow only", id="report is of allow"),
        pytest.param('(allow file-read* (with no-report))', "applies to deny only", id="no-report is of deny"),
        pytest.param("(version 2)", "only one version", id="one version"),
        pytest.param('(home-subpath "/x")', "unbound variable: home-subpath", id="what families of profiles define themselves"),
        pytest.param("(system-network)", "unbound variable: system-network", id="what system.sb defines"),
        pytest.param('(import "gone.sb")', "unable to open gone.sb", id="imports are looked for"),
    ],
)  # fmt: skip
def test_what_does_not_compile(rules: str, said: str) -> None:
    with pytest.raises(ProfileError, match=re.escape(said)):
        compile_profile(f"(version 1)\n{rules}")
