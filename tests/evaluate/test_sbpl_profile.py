"""Profiles as programs: the rules that they make, and the errors in those that do not compile.

Tests of evaluate/sbpl/actions.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sandwright.evaluate.sbpl.errors import ProfileError
from sandwright.evaluate.sbpl.library import IMPORT_DIRECTORIES
from sandwright.evaluate.sbpl.machine import SbplLimits
from sandwright.evaluate.sbpl.profile import compile_profile
from sandwright.evaluate.sbpl.source import SourceFile

PARAMS = {"HOME": "/Users/u", "EMPTY": "", "PORT": "localhost:80"}


def rules(text: str) -> list[str]:
    return [rule.expanded for rule in compile_profile(f"(version 1)\n{text}", params=PARAMS).rules]


MAKES = {
    "plain": ("(deny default)", ["(deny default)"]),
    "several operations and filters": (
        '(allow file-read* file-write* (literal "/a") (subpath "/b" "/c"))',
        ['(allow file-read* file-write* (literal "/a") (require-any (subpath "/b") (subpath "/c")))'],
    ),
    "any order": (
        '(allow (literal "/a") (with report) file-read*)',
        ['(allow file-read* (literal "/a") (with report))'],
    ),
    "aliases of operations": (
        "(allow process-exec ipc-posix-sem file-unlink time-set)",
        ["(allow process-exec* ipc-posix-sem* file-write-unlink system-set-time)"],
    ),
    "an operation twice": ("(allow process-exec process-exec*)", ["(allow process-exec*)"]),
    "operations that are gone": ("(allow mach-per-user-lookup)", []),
    "one that is gone beside one that is not": ("(allow signal qtn-download)", ["(allow signal)"]),
    "parameters": (
        '(allow file-read* (subpath (param "HOME")))',
        ['(allow file-read* (subpath "/Users/u"))'],
    ),
    "a parameter without a value is #f": ('(if (param "X") (allow signal) (deny signal))', ["(deny signal)"]),
    "an empty parameter is true": ('(if (param "EMPTY") (allow signal))', ["(allow signal)"]),
    "getenv": ('(allow file-read* (literal (getenv "HOME")))', ['(allow file-read* (literal "/Users/u"))']),
    "functions that profiles define": (
        '(define (home-subpath x) (subpath (string-append (param "HOME") x)))'
        '(allow file-read* (home-subpath "/Library"))',
        ['(allow file-read* (subpath "/Users/u/Library"))'],
    ),
    "rules in a loop": (
        '(for-each (lambda (p) (allow file-read* (literal p))) \'("/a" "/b"))',
        ['(allow file-read* (literal "/a"))', '(allow file-read* (literal "/b"))'],
    ),
    "actions as values": (
        '(define (both action what) (action file-read* what)) (both deny (literal "/a"))',
        ['(deny file-read* (literal "/a"))'],
    ),
    "regexes computed": (
        '(allow file-read* (regex (string-append "^" (regex-quote "/a.b") #"(/|$)")))',
        [r'(allow file-read* (regex "^/a\\.b(/|$)"))'],
    ),
    "combinations": (
        '(allow file-read* (require-all (subpath "/a") (require-not (require-any (literal "/a/b") '
        "(vnode-type SYMLINK)))))",
        [
            '(allow file-read* (require-all (subpath "/a") (require-not (require-any (literal '
            '"/a/b") (vnode-type SYMLINK)))))'
        ],
    ),
    "numbers and constants": (
        "(allow system-socket (require-all (socket-domain AF_SYSTEM) (socket-protocol 2)))"
        "(deny file-write* (file-mode #o4000))",
        [
            "(allow system-socket (require-all (socket-domain AF_SYSTEM) (socket-protocol 2)))",
            "(deny file-write* (file-mode #o4000))",
        ],
    ),
    "constants only the headers know": (
        "(allow syscall-unix (syscall-number SYS_open SYS_read))",
        ["(allow syscall-unix (require-any (syscall-number SYS_open) (syscall-number SYS_read)))"],
    ),
    "network": (
        '(allow network-outbound (remote tcp4 "localhost:80") (remote udp) (local ip "*:*" "*:443"))',
        [
            '(allow network-outbound (remote tcp4 "localhost:80") (remote udp) '
            '(require-any (local ip "*:*") (local ip "*:443")))'
        ],
    ),
    "unix sockets, the old way": (
        '(allow network-outbound (remote unix-socket (path-literal "/s")) (to unix))',
        ['(allow network-outbound (require-all (remote unix-socket) (path-literal "/s")) (to unix-socket))'],
    ),
    "path-ancestors": (
        '(allow file-read-metadata (path-ancestors "/a/b/c"))',
        ['(allow file-read-metadata (require-any (literal "/") (literal "/a") (literal "/a/b")))'],
    ),
    "modifiers": (
        '(deny default (with message "TAG") (with send-signal SIGKILL) (with no-log))',
        ['(deny default (with message "TAG") (with send-signal 9) (with no-report))'],
    ),
    "with-filter": (
        '(with-filter (extension "e") (allow file-read* (literal "/a") (literal "/b")) (allow signal))',
        [
            '(allow file-read* (require-all (require-any (literal "/a") (literal "/b")) (extension "e")))',
            '(allow signal (extension "e"))',
        ],
    ),
    "with-filter reaches into functions": (
        "(define (more) (allow signal)) (with-filter (uid 501) (more)) (more)",
        ["(allow signal (uid 501))", "(allow signal)"],
    ),
    "with-filter in with-filter": (
        "(with-filter (uid 1) (with-filter (uid 2) (allow signal)))",
        ["(allow signal (require-all (require-any (uid 2)) (uid 1)))"],
    ),
    "with-modifier": ("(with-modifier (with telemetry) (allow signal))", ["(allow signal (with telemetry))"]),
    "with-operations": (
        '(with-operations (list file-read*) (allow file-write* (literal "/a")))',
        ['(allow file-read* file-write* (literal "/a"))'],
    ),
    "message filters stay inside their rule": (
        '(allow iokit-open (iokit-connection "C") (apply-message-filter (deny iokit-external-method)))',
        ['(allow iokit-open* (iokit-connection "C") (apply-message-filter (deny iokit-external-method)))'],
    ),
    "entitlements are not there": (
        '(allow signal (require-entitlement "e"))',
        ["(allow signal (require-entitlement))"],
    ),
    "storage classes": (
        '(define-storage-class "c" (subpath "/s"))',
        ['(allow storage-class-map (subpath "/s") (with assign-storage-class "c"))'],
    ),
    "what decides nothing": ('(debug deny) (trace "/t") (disable-full-symbolication)', []),
    "a profile's last word": (
        "(set! %finalize (lambda () (deny signal))) (allow signal)",
        ["(allow signal)", "(deny signal)"],
    ),
    "names of the library can be bound anew": (
        '(define literal subpath) (allow file-read* (literal "/a"))',
        ['(allow file-read* (subpath "/a"))'],
    ),
}


@pytest.mark.parametrize(("text", "expected"), MAKES.values(), ids=MAKES)
def test_makes_rules(text: str, expected: list[str]) -> None:
    assert rules(text) == expected


UNQUOTED = "; imported text is not quoted: pass the imported file as the profile to see more"

REFUSED = {
    "nothing at all": ("", "p.sb:1:1: no version specified"),
    "rules before a version": ("(allow default)\n(version 1)", "p.sb:1:2: unbound variable: allow"),
    "version 4": ("(version 4)", "p.sb:1:1: unsupported version: the number 4"),
    "a version with a fraction": ("(version 2.5)", "p.sb:1:1: unsupported version: the number 2.5"),
    "two versions": ("(version 1)\n(version 3)", "p.sb:2:1: only one version may be specified"),
    "unknown operation": (
        "(version 1)\n(allow file-raed*)",
        "p.sb:2:8: unbound variable: file-raed*; did you mean 'file-read*'?",
    ),
    "unknown filter": (
        '(version 1)\n(allow file-read* (subpth "/a"))',
        "p.sb:2:20: unbound variable: subpth; did you mean 'subpath'?",
    ),
    "unknown constant": ("(version 1)\n(allow signal (target me))", "p.sb:2:23: unbound variable: me"),
    "an invalid form": ("(+ 5 a)", "p.sb:1:6: unbound variable: a"),
    "no operation": ("(version 1)\n(allow)", "p.sb:2:1: allow takes at least 1 arguments, not 0"),
    "only a filter": ('(version 1)\n(deny (literal "/a"))', "p.sb:2:1: deny: needs at least one operation"),
    "a string as an operation": (
        '(version 1)\n(allow "file-read*")',
        "p.sb:2:1: allow: argument 1 must be: operation, filter or modifier, not a string",
    ),
    "a forgotten -D": (
        '(version 1)\n(allow file-read*\n  (subpath (param "NO")))',
        "p.sb:3:3: subpath: argument 1 must be: string",
    ),
    "a number as a path": (
        "(version 1)\n(allow file-read* (literal 5))",
        "p.sb:2:19: literal: argument 1 must be: string",
    ),
    "a string as a number": (
        '(version 1)\n(allow system-socket (socket-protocol "2"))',
        "p.sb:2:22: socket-protocol: argument 1 must be: integer",
    ),
    "a filter without arguments": (
        "(version 1)\n(allow file-read* (subpath))",
        "p.sb:2:19: subpath takes at least 1 arguments, not 0",
    ),
    "host": (
        '(version 1)\n(allow network-outbound (remote ip "10.0.0.1:80"))',
        "p.sb:2:25: host must be * or localhost in network address",
    ),
    "no port": (
        '(version 1)\n(allow network-outbound (remote ip "localhost"))',
        "p.sb:2:25: host must be * or localhost in network address",
    ),
    "port": (
        '(version 1)\n(allow network-outbound (remote ip "*:65536"))',
        "p.sb:2:25: port must be * or a number from 0 to 65535 in network address",
    ),
    "regex": (
        '(version 1)\n(allow file-read* (regex #"(?i)^/a"))',
        "p.sb:2:19: regex: unexpected ^ operator in middle of expression",
    ),
    "not of two": (
        '(version 1)\n(allow file-read* (require-not (literal "/a") (literal "/b")))',
        "p.sb:2:19: require-not takes 1 arguments, not 2",
    ),
    "all of a string": (
        '(version 1)\n(allow file-read* (require-all "/a"))',
        "p.sb:2:19: require-all: argument 1 must be: filter, not a string",
    ),
    "modifier of the other action": (
        "(version 1)\n(deny process-exec (with no-sandbox))",
        "p.sb:2:1: deny: the modifier no-sandbox applies to allow only",
    ),
    "modifier without its argument": (
        "(version 1)\n(deny default (with message))",
        "p.sb:2:15: with message: needs one string",
    ),
    "a filter as a string": (
        '(version 1)\n(allow file-read* (literal (subpath "/a")))',
        "p.sb:2:19: literal: argument 1 must be: string",
    ),
    "a filter called": (
        '(version 1)\n((literal "/a") 1)',
        'p.sb:2:1: the filter (literal "/a") is not a procedure',
    ),
    "a modifier called": ("(version 1)\n(report)", "p.sb:2:1: the modifier report is not a procedure"),
    "an operation called": (
        "(version 1)\n(file-read*)",
        "p.sb:2:1: the operation file-read* is not a procedure",
    ),
    "unknown modifier": ("(version 1)\n(deny default (with lots))", "p.sb:2:21: unbound variable: lots"),
    "import of nothing": ('(version 1)\n(import "none.sb")', "p.sb:2:1: unable to open none.sb"),
    "path-ancestors of a relative path": (
        '(version 1)\n(allow file-read* (path-ancestors "a"))',
        "p.sb:2:19: path must start with a /",
    ),
    "endless recursion": (
        "(version 1)\n(define (f x) (require-not (f x)))\n(allow file-read*\n  (f 1))",
        "p.sb:2:15: the profile recurses deeper than 10000 expressions",
    ),
    "filters that nest too deep": (
        '(version 1)\n(define (f n) (if (= n 0) (literal "/a") (require-not (f (- n 1)))))\n(allow '
        "file-read* (f 200))",
        "p.sb:3:1: filters nest deeper than 100",
    ),
    "filters that double": (
        '(version 1)\n(define (f n) (if (= n 0) (literal "/a") (let ((x (f (- n 1)))) (require-any '
        "x x))))\n(allow file-read* (f 40))",
        "p.sb:3:1: a rule has more than 100000 filters",
    ),
    "64 KiB of patterns in one rule": (
        f'(version 1)\n(allow file-read* (literal "/{"a" * 40_000}") (subpath "/{"b" * 30_000}"))',
        "p.sb:2:1: a rule has more than 65535 bytes of patterns",
    ),
}


@pytest.mark.parametrize(("text", "message"), REFUSED.values(), ids=REFUSED)
def test_does_not_compile(text: str, message: str) -> None:
    with pytest.raises(ProfileError) as caught:
        compile_profile(text, file="p.sb")
    assert str(caught.value) == message


def test_64_kib_of_patterns_are_fine_in_two_rules() -> None:
    text = f'(allow file-read* (literal "/{"a" * 40_000}")) (allow file-read* (subpath "/{"b" * 30_000}"))'
    assert len(rules(text)) == 2


def test_a_rule_knows_the_form_that_made_it() -> None:
    text = '(version 1)\n(define (f x)\n  (allow file-read*   ; why\n    (literal x)))\n(f "/a")\n(f "/b")'
    first, second = compile_profile(text, file="p.sb").rules
    assert (str(first.position), first.text) == ("p.sb:3:3", "(allow file-read* (literal x))")
    assert [rule.expanded for rule in (first, second)] == [
        '(allow file-read* (literal "/a"))',
        '(allow file-read* (literal "/b"))',
    ]
    assert (first.ordinal, second.ordinal) == (0, 1)


class Files:
    """An importer of files in memory that records the requested names."""

    def __init__(self, **files: str) -> None:
        self.files = files
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    def __call__(self, name: str, directories: Sequence[str]) -> SourceFile | None:
        self.asked.append((name, tuple(directories)))
        text = self.files.get(name.removesuffix(".sb"))
        return None if text is None else SourceFile(name, text)


def test_imports_run_where_they_stand() -> None:
    files = Files(lib="(version 1)\n(define (more) (allow signal))\n(allow sysctl-read)")
    text = '(version 1)\n(deny default)\n(import "lib.sb")\n(more)'
    made = compile_profile(text, file="p.sb", importer=files).rules
    assert [(rule.expanded, str(rule.position)) for rule in made] == [
        ("(deny default)", "p.sb:2:1"),
        ("(allow sysctl-read)", "lib.sb:3:1"),
        ("(allow signal)", "lib.sb:2:16"),
    ]
    assert files.asked == [("lib.sb", IMPORT_DIRECTORIES)]


def test_import_dir_replaces_the_directories() -> None:
    files = Files(lib="(allow signal)")
    compile_profile('(version 1)(import "lib.sb")', params={"IMPORT_DIR": "/x"}, importer=files)
    assert files.asked == [("lib.sb", ("/x",))]


def test_an_error_in_an_import_names_both_places() -> None:
    files = Files(lib="(allow signal)\n(allow signl)")
    with pytest.raises(ProfileError) as caught:
        compile_profile('(version 1)\n  (import "lib.sb")', file="p.sb", importer=files)
    message = f"lib.sb:2:8: unbound variable{UNQUOTED} (imported at p.sb:2:3)"
    assert str(caught.value) == message


def test_an_import_that_does_not_read_names_both_places() -> None:
    files = Files(lib="(allow signal")
    with pytest.raises(ProfileError) as caught:
        compile_profile('(version 1)\n  (import "lib.sb")', file="p.sb", importer=files)
    assert str(caught.value) == f"lib.sb:1:1: this list is never closed{UNQUOTED} (imported at p.sb:2:3)"


def test_imports_that_go_in_circles_end() -> None:
    files = Files(a='(import "b.sb")', b='(import "a.sb")')
    with pytest.raises(ProfileError, match="imports itself; imported text is not quoted"):
        compile_profile('(version 1)(import "a.sb")', importer=files)


def test_limits_can_be_set() -> None:
    with pytest.raises(ProfileError, match="the profile has more than 2 rules"):
        compile_profile("(version 1)(allow signal)(allow signal)(allow signal)", limits=SbplLimits(rules=2))


@pytest.mark.parametrize(
    "path",
    [
        '/with "quotes"',
        "/back\\slash",
        "/new\nline",
        "/(paren",
        "/;semi",
        "/$dollar",
        "/-dash",
        "/é",
        "/e\u0301",
        "/" + "x" * 4095,
    ],
)
def test_any_path_can_be_a_parameter(path: str) -> None:
    (rule,) = compile_profile('(version 1)(allow file-read* (literal (param "P")))', params={"P": path}).rules
    assert rule.filters[0].value == path.encode().decode("latin-1")  # type: ignore[union-attr]
