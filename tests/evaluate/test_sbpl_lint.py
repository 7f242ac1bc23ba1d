"""The linter: each check finds its fault and the position, and reports no correct text.

Tests of evaluate/sbpl/lint_filters.py.
Tests of evaluate/sbpl/lint_reach.py.
Tests of evaluate/sbpl/lint_rules.py.
Tests of evaluate/sbpl/lint_text.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sandwright.evaluate.sbpl.finding import SbplFinding
from sandwright.evaluate.sbpl.imports import FileImporter
from sandwright.evaluate.sbpl.lint import lint

DENY = "(deny file-map-executable iokit-get-properties process-info* nvram* dynamic-code-generation)"
HEAD = f"(version 1)\n(deny default)\n{DENY}\n"


def findings(rules: str, **options: dict[str, str]) -> tuple[SbplFinding, ...]:
    return lint(HEAD + rules, file="p.sb", **options)  # type: ignore[arg-type]


def codes(rules: str) -> set[str]:
    return {finding.code for finding in findings(rules)}


HOME = '(allow file-read-metadata (literal "/tmp" "/var" "/etc"))\n'

FINDS = {
    # rules after HEAD → the finding
    "L01 unknown operation": (
        "(allow file-reed*)",
        "p.sb:4:8: error: L01 unbound variable: file-reed*; did you mean 'file-read*'?",
    ),
    "L02 relative path": (
        '(allow file-read* (literal "x/y"))',
        "p.sb:4:19: error: L02 'x/y' does not begin with /: it never matches",
    ),
    "L03 link": (
        '(allow file-read* (subpath "/tmp/x"))',
        "p.sb:4:19: error: L03 /tmp/x leads through the link /tmp; filters see /private/tmp/x",
    ),
    "L03 link itself as a subpath": (
        '(allow file-write* (subpath "/var"))',
        "p.sb:4:20: error: L03 /var leads through the link /var; filters see /private/var",
    ),
    "L03 link in a regex": (
        '(deny file-read* (regex #"^/etc/ssl(/|$)"))',
        "p.sb:4:18: error: L03 /etc/ssl/ leads through the link /etc; filters see /private/etc/ssl/",
    ),
    "L03 link at the start of names": (
        '(allow file-read* (prefix "/tmp/x"))',
        "p.sb:4:19: error: L03 /tmp/x leads through the link /tmp; filters see /private/tmp/x",
    ),
    "L03 link in one of a regex's branches": (
        '(allow file-read* (regex #"^/(tmp|opt)/x/"))',
        "p.sb:4:19: error: L03 /tmp/x/ leads through the link /tmp; filters see /private/tmp/x/",
    ),
    "L04 data volume": (
        '(allow file-read* (subpath "/System/Volumes/Data/Users/u"))',
        "p.sb:4:19: warning: L04 filters see /Users/u, not /System/Volumes/Data/Users/u",
    ),
    "L04 data volume in a regex": (
        '(allow file-read* (regex #"^/System/Volumes/Data/Users/"))',
        "p.sb:4:19: warning: L04 filters see /Users/, not /System/Volumes/Data/Users/",
    ),
    "L05 slash at the end": (
        '(allow file-read* (subpath "/opt/x/"))',
        "p.sb:4:19: error: L05 '/opt/x/' ends in /: it never matches",
    ),
    "L05 two slashes": (
        '(allow file-read* (literal "/opt//x"))',
        "p.sb:4:19: error: L05 '/opt//x' is no resolved path: it never matches",
    ),
    "L05 dots": (
        '(allow file-read* (literal "/opt/../x"))',
        "p.sb:4:19: error: L05 '/opt/../x' is no resolved path: it never matches",
    ),
    "L05 two slashes in a regex": (
        '(allow file-read* (regex #"^/opt//x$"))',
        "p.sb:4:19: error: L05 ^/opt//x$ is no resolved path: it never matches",
    ),
    "L06 two backslashes": (
        r'(allow file-read* (regex #"^/a\\.b$"))',
        r"p.sb:4:19: error: L06 \\ wants a backslash in the name; one \ is enough: ^/a\\.b$",
    ),
    "L07 lost backslash": (
        r'(allow file-read* (regex "^/a\.b/"))',
        r'p.sb:4:26: warning: L07 in a string \. is just .; for a regex write \\. or use #"…"',
    ),
    "L08 no ^": (
        '(allow file-read* (regex #"/x/"))',
        "p.sb:4:19: warning: L08 without ^ this may match anywhere in a path: /x/",
    ),
    "L09 no end": (
        '(allow file-read* (regex #"^/opt/x"))',
        "p.sb:4:19: warning: L09 without $ or /, what only begins so matches too: ^/opt/x",
    ),
    "L10 group": (
        '(allow file-read* (regex #"^/(?:a|b)$"))',
        "p.sb:4:19: error: L10 (?…) compiles and never matches: ^/(?:a|b)$",
    ),
    "L10 class": (
        r'(allow file-read* (regex #"^/\d$"))',
        r"p.sb:4:19: error: L10 \d, \w, \s and \b are no classes: ^/\d$",
    ),
    "L10 count": (
        '(allow file-read* (regex #"^/a{2}$"))',
        "p.sb:4:19: error: L10 {n} is no repetition: ^/a{2}$",
    ),
    "L10 star first": (
        '(allow network-outbound (regex #"*/docker.sock$"))',
        "p.sb:4:25: error: L10 a repetition needs something to repeat: */docker.sock$",
    ),
    "L10 inner ^": (
        '(allow file-read* (regex #"(?i)^/a$"))',
        "p.sb:4:19: error: L10 regex: unexpected ^ operator in middle of expression",
    ),
    "L11 glob": (
        '(allow file-read* (regex #"^/Users/*/x/"))',
        "p.sb:4:19: warning: L11 in a regex * repeats what stands before it: ^/Users/*/x/",
    ),
    "L12 dot": (
        '(allow file-read* (regex #"^/a/b.plist$"))',
        "p.sb:4:19: warning: L12 an unescaped . matches any character: ^/a/b.plist$",
    ),
    "L12 dot before a group": (
        '(allow file-read* (regex #"^/a/b.db(-wal)?$"))',
        "p.sb:4:19: warning: L12 an unescaped . matches any character: ^/a/b.db(-wal)?$",
    ),
    "L13 wildcard": (
        '(allow file-read* (subpath "/opt/*"))',
        "p.sb:4:19: warning: L13 '/opt/*': * and ? are no wildcards in subpath",
    ),
    "L14 path or kind": (
        '(allow file-read* (literal "/a") (vnode-type DIRECTORY))',
        "p.sb:4:1: error: L14 several filters mean OR: a path or vnode-type is enough. Use require-all",
    ),
    "L15 require-not beside": (
        '(allow file-read* (literal "/a") (require-not (literal "/b")))',
        "p.sb:4:1: error: L15 several filters mean OR: require-not beside others matches nearly everything",
    ),
    "L16 reopened before": (
        '(allow file-read-metadata (subpath "/private/var/run"))\n(deny file-read* (literal '
        '"/private/var/run/s"))',
        "p.sb:5:1: error: L16 line 4 allows file-read-metadata all the same: (allow "
        'file-read-metadata (subpath "/private/var/run")). '
        "A rule on an operation beats any on its parent; name file-read-metadata here too",
    ),
    "L16 reopened after": (
        '(deny file-read* (subpath "/Users/u"))\n(allow file-read-metadata (subpath "/Users/u"))',
        "p.sb:4:1: info: L16 line 5 allows file-read-metadata all the same: (allow "
        'file-read-metadata (subpath "/Users/u"))',
    ),
    "L17 late unfiltered": (
        '(allow file-write* (subpath "/opt"))\n(deny file-write*)',
        "p.sb:5:1: warning: L17 this does not override line 4: an unfiltered rule holds only where "
        "no filtered one of file-write* matches",
    ),
    "L20 movable": (
        '(allow file-write* (subpath "/opt/w"))\n(deny file-write* (subpath "/opt/w/a/hooks"))',
        "p.sb:5:19: error: L20 /opt/w/a/hooks can be moved away with /opt/w/a; deny file-write-unlink there",
    ),
    "L20 movable, by a regex": (
        '(allow file-write* (subpath "/opt/w"))\n(deny file-write* (regex #"^/opt/w/[a-z]+/hooks/"))',
        "p.sb:5:19: error: L20 /opt/w/a/hooks/ can be moved away with /opt/w/a; deny file-write-unlink there",
    ),
    "L20 hidden and movable": (
        '(allow file-read* file-write* (subpath "/opt/w"))\n(deny file-read* (literal "/opt/w/key"))',
        "p.sb:5:18: error: L20 /opt/w/key can be moved away; deny file-write-unlink there",
    ),
    "L21 link": (
        '(allow file-read* (subpath "/private/etc/ssl"))',
        "p.sb:4:19: warning: L21 who spells it /etc/… needs file-read-metadata on /etc",
    ),
    "L22 executable": (
        '(allow process-exec (subpath "/opt"))\n(allow file-write* (subpath "/opt/w"))',
        "p.sb:5:20: warning: L22 files written below /opt/w can be executed",
    ),
    "L22 hooks": (
        '(allow file-write* (subpath "/Users/u/w"))',
        "p.sb:4:20: warning: L22 .git/hooks/pre-commit, .git/config below /Users/u/w run later "
        "outside the sandbox",
    ),
    "L22 a shell's file": (
        '(allow file-write* (literal "/Users/u/.zshrc"))',
        "p.sb:4:20: warning: L22 /Users/u/.zshrc runs later outside the sandbox",
    ),
    "L22 agents": (
        '(allow file-write* (subpath "/Users/u/Library"))',
        "p.sb:4:20: warning: L22 LaunchAgents/x.plist below /Users/u/Library run later outside the sandbox",
    ),
    "L23 LaunchServices": (
        "(allow lsopen)",
        "p.sb:4:1: warning: L23 lsopen: an application started through LaunchServices is outside the sandbox",
    ),
    "L23 broad": (
        "(allow signal)",
        "p.sb:4:1: warning: L23 unfiltered signal: every process of the user can be killed",
    ),
    "L23 no-sandbox": (
        '(allow process-exec (literal "/bin/ps") (with no-sandbox))',
        "p.sb:4:1: warning: L23 what this starts runs outside the sandbox",
    ),
    "L23 container engine": (
        '(allow network-outbound (subpath "/private/var/run"))',
        "p.sb:4:1: warning: L23 network-outbound: who can use the container engine can do all its user can",
    ),
    "L23 container engine of a user": (
        '(allow network-outbound (literal "/Users/u/.docker/run/docker.sock"))',
        "p.sb:4:1: warning: L23 network-outbound: who can use the container engine can do all its user can",
    ),
    "L24 names leak": (
        '(allow network-outbound (remote ip "localhost:8080"))\n(allow mach-lookup (global-name '
        '"com.apple.dnssd.service"))',
        "p.sb:5:1: error: L24 line 4 confines connections to this machine, but names can still be asked for",
    ),
    "L24 names are asked for elsewhere": (
        '(allow network-outbound (remote tcp "localhost:8080"))\n'
        '(allow network-outbound (remote udp "*:53"))',
        "p.sb:5:1: error: L24 line 4 confines connections to this machine, but names can still be asked for",
    ),
    "L25 host": (
        '(allow network-outbound (remote ip "10.0.0.1:80"))',
        "p.sb:4:25: error: L25 host must be * or localhost in network address",
    ),
    "L26 twice": (
        '(allow file-read* (literal "/a"))\n(allow file-read* (literal "/a"))',
        "p.sb:5:1: warning: L26 this repeats line 4",
    ),
    "L26 covered": (
        '(deny file-read* (literal "/opt/a/b"))\n(allow file-read* (subpath "/opt/a"))',
        "p.sb:4:1: warning: L26 this decides nothing we could try: line 5 does ((allow file-read* "
        '(subpath "/opt/a")))',
    ),
    "L26 replaced": (
        "(allow sysctl-read)\n(deny sysctl-read)",
        "p.sb:4:1: warning: L26 this decides nothing we could try: line 5 does ((deny sysctl-read))",
    ),
    "L27 long string": (
        f'(allow file-read* (literal "/{"a" * 300}"))',
        "p.sb:4:28: warning: L27 this string has 303 bytes; TinyScheme's buffer takes 255. Pass it "
        "by a parameter",
    ),
    "L27 much data": (
        '(define x (make-string 20000 #\\a))\n(allow file-read* (literal (string-append "/" x)))',
        "p.sb:5:1: warning: L27 this rule has 20001 bytes of patterns; about 64 KiB no longer compile",
    ),
    "L28 parameter": (
        '(if (param "X") (allow pseudo-tty))',
        "p.sb:4:5: error: L28 the parameter X has no value here: (param …) gives #f",
    ),
    "L30 old name": (
        "(allow ipc-posix-sem)",
        "p.sb:4:8: info: L30 ipc-posix-sem is an old name; use ipc-posix-sem*",
    ),
    "L30 name without effect": (
        "(allow mach-per-user-lookup)",
        "p.sb:4:8: info: L30 mach-per-user-lookup is an old name and has no effect",
    ),
    "L31 secrets": (
        '(allow file-read* (subpath "/Users/u/.ssh"))',
        "p.sb:4:1: warning: L31 secrets can be read: /Users/u/.ssh/id_ed25519",
    ),
    "L32 misplaced": (
        '(allow file-read* (global-name "x"))',
        "p.sb:4:19: error: L32 file-read* does not take the filter global-name: it never matches",
    ),
    "L33 comment": ("#| no |#", "p.sb:4:1: error: L33 #| comments are not known to work on macOS; use ;"),
    "L34 needed": (
        '(allow process-exec (literal "/bin/x"))',
        "p.sb:2:1: warning: L34 file-write-data /dev/null is denied: shells and runtimes open it",
    ),
}


@pytest.mark.parametrize(("rules", "expected"), FINDS.values(), ids=FINDS)
def test_finds(rules: str, expected: str) -> None:
    assert expected in [str(finding) for finding in findings(rules)]


LEAVES = {
    "L02": '(allow file-read* (literal "/x/y"))',
    "L03 resolved": HOME + '(allow file-read* (subpath "/private/tmp/x"))',
    "L03 with its twin": HOME + '(allow file-read* (subpath "/tmp/x") (subpath "/private/tmp/x"))',
    "L03 metadata of the link": '(allow file-read-metadata (literal "/tmp"))',
    "L03 regex with its twin": HOME + '(allow file-read* (regex #"^(/private)?/tmp/x/"))',
    "L03 regex anywhere": HOME + '(allow file-read* (regex #"/tmp/x/"))',
    "L04 regex": '(allow file-read* (regex #"^/System/Volumes/Data/other/"))',
    "L04": '(allow file-read* (subpath "/System/Volumes/Data/other"))',
    "L05 root": '(allow file-read-metadata (subpath "/"))',
    "L05 prefix": '(allow file-read* (prefix "/opt/"))',
    "L05 regex": '(allow file-read* (regex #"^/opt/(.*/)?x$"))',
    "L06": r'(allow file-read* (regex #"^/a\.b$"))',
    "L07": r'(allow file-read* (regex "^/a\\.b$"))',
    "L08": '(allow file-read* (regex #"^/x/"))',
    "L09": '(allow file-read* (regex #"^/opt/x(/|$)"))',
    "L10": r'(allow file-read* (regex #"^/a\{2\}[0-9]+$"))',
    "L11": '(allow file-read* (regex #"^/Users/[^/]*/x/"))',
    "L12": r'(allow file-read* (regex #"^/a/.*\.plist$"))',
    "L13": '(allow file-read* (literal "/opt/x"))',
    "L14": '(allow file-read* (require-all (literal "/a") (vnode-type DIRECTORY)))',
    "L15": '(allow file-read* (require-all (subpath "/a") (require-not (literal "/a/b"))))',
    "L16": '(allow file-read-metadata (subpath "/a"))\n(deny file-read* file-read-metadata (literal '
           '"/a/s"))',
    "L17": '(deny file-write*)\n(allow file-write* (subpath "/opt"))',
    "L18": "",
    "L19": "",
    "L20": '(allow file-write* (subpath "/opt/w"))\n(deny file-write* (subpath "/opt/w/a"))\n(deny '
           'file-write-unlink (literal "/opt/w"))',
    "L20 regex": '(allow file-write* (subpath "/opt/w"))\n'
                 '(deny file-write* (regex #"^/opt/w/[a-z]+(/hooks)?$"))\n'
                 '(deny file-write-unlink (literal "/opt/w"))',
    "L20 hidden": '(allow file-read* (subpath "/opt/w"))\n(deny file-read* (literal "/opt/w/key"))',
    "L21": HOME + '(allow file-read* (subpath "/private/etc/ssl"))',
    "L22": '(allow process-exec (subpath "/bin"))\n(allow file-write* (subpath "/opt/w"))',
    "L22 caches": '(allow file-write* (subpath "/Users/u/Library/Caches"))',
    "L23": '(allow signal (target self))\n(allow mach-lookup (global-name "com.apple.logd"))',
    "L24": '(allow network-outbound (remote ip "localhost:8080"))',
    "L25": '(allow network-outbound (remote ip "localhost:80"))',
    "L26": '(allow file-read* (subpath "/opt/a"))\n(deny file-read* (literal "/opt/a/b"))',
    "L27": '(allow file-read* (literal "/a"))',
    "L28": '(allow pseudo-tty)',
    "L29": "",
    "L30": "(allow ipc-posix-sem*)",
    "L31": '(allow file-read* (subpath "/Users/u/w"))',
    "L32": "(allow process-info* (target self))",
    "L33": "; fine",
    "L34": "",
}  # fmt: skip


@pytest.mark.parametrize(("name", "rules"), LEAVES.items(), ids=LEAVES)
def test_leaves_alone(name: str, rules: str) -> None:
    assert name.split(maxsplit=1)[0] not in codes(rules)


def test_default_that_allows() -> None:
    (first, *_) = [item for item in lint("(version 1)\n(allow default)", file="p.sb") if item.code == "L18"]
    assert str(first).startswith("p.sb:2:1: error: L18 (allow default) allows whatever no rule denies")


def test_no_default_at_all() -> None:
    found = [str(item) for item in lint("(version 1)\n(allow signal)", file="p.sb") if item.code == "L18"]
    assert found == ["p.sb:1:1: error: L18 no rule on default: begin with (deny default)"]


def test_what_deny_default_leaves_open() -> None:
    (found,) = [
        item for item in lint("(version 1)\n(deny default)\n(deny nvram*)", file="p.sb") if item.code == "L19"
    ]
    assert str(found) == (
        "p.sb:2:1: warning: L19 (deny default) does not deny dynamic-code-generation (JIT code), "
        "file-map-executable (any library can be loaded), "
        "iokit-get-properties (the hardware can be read, serial numbers included), "
        "process-info* (other processes can be listed and looked into): deny them by name"
    )


def test_a_clean_profile_has_no_findings() -> None:
    assert findings(HOME + '(allow file-read* (subpath "/opt/tool") (literal "/opt"))') == ()


def test_supplied_parameters_are_no_findings() -> None:
    rules = '(allow file-read* (subpath (param "ROOT")))'
    assert [str(item) for item in findings(rules)] == [
        "p.sb:4:28: error: L28 the parameter ROOT has no value here: (param …) gives #f",
        "p.sb:4:19: error: L01 subpath: argument 1 must be: string",
    ][::-1]
    assert findings(rules, params={"ROOT": "/opt"}) == ()


def test_imports_are_named_and_not_linted_themselves(tmp_path: Path) -> None:
    (tmp_path / "own.sb").write_text('(allow file-read* (subpath "/opt/x/"))', encoding="utf-8")
    text = HEAD + '(import "own.sb")\n(import "system.sb")'
    found = lint(text, file="p.sb", importer=FileImporter((tmp_path,)))
    assert [str(item) for item in found if item.code in ("L05", "L29")] == [
        "p.sb:4:1: warning: L29 own.sb is looked for in system directories, not beside this file",
        "p.sb:5:1: warning: L29 system.sb changes with each macOS release: its rules are unknown here",
    ]


def test_all_that_does_not_compile_is_found_at_once() -> None:
    found = [
        str(item)
        for item in findings(
            "(allow a)\n(allow b)\n(allow pseudo-tty)\n(with-filter (uid 1) (allow c))\n(allow d"
        )
    ]
    assert [item for item in found if "L01" in item] == [
        "p.sb:4:8: error: L01 unbound variable: a",
        "p.sb:5:8: error: L01 unbound variable: b",
        "p.sb:7:29: error: L01 unbound variable: c",
        "p.sb:8:1: error: L01 this list is never closed",
    ]


def test_endless_profiles_are_linted_in_bounded_time() -> None:
    found = findings("(define (f) (list (f)))\n(f)\n(let loop () (loop))\n(allow signal)")
    messages = [item.message for item in found if item.code == "L01"]
    assert messages == [
        "the profile recurses deeper than 10000 expressions",
        "the profile runs for more than 1000000 steps",
    ]
