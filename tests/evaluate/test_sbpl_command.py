"""The output of `sandwright sbpl-eval`: the text, the JSON, the lines of a batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sandwright.errors import DocumentError, UsageError
from sandwright.evaluate.sbpl.command import evaluate_batch, evaluate_command, pairs
from sandwright.evaluate.sbpl.errors import ProfileError
from sandwright.evaluate.sbpl.imports import FileImporter
from sandwright.evaluate.sbpl.lint import lint

PROFILE = """\
(version 1)
(deny default)
(allow file-read*   ; what is read
    (subpath "/private/tmp")
    (subpath (param "ROOT")))
(deny file-read* (regex #"\\.env$"))
(allow file-read-metadata (literal "/tmp"))
"""


def ask(operation: str, *resource: str, profile: str = PROFILE, **more: Any) -> tuple[str, dict[str, Any]]:
    return evaluate_command(profile, operation, file="p.sb", resource=resource, define=["ROOT=/opt"], **more)


TEXTS = {
    "filtered": (
        ("file-read-data", "path=/opt/x"),
        """\
allow
stage: filtered rule
rule: p.sb:3:1: (allow file-read* (subpath "/private/tmp") (subpath (param "ROOT")))
shadowed: p.sb:2:1: (deny default)""",
    ),
    "unfiltered": (
        ("mach-lookup", "global-name=x"),
        """\
deny
stage: unfiltered rule
rule: p.sb:2:1: (deny default)""",
    ),
    "built-in": (
        ("process-info-pidinfo", "target=others"),
        """\
allow
stage: built-in
reason: macOS allows process-info* unless a rule names it
shadowed: p.sb:2:1: (deny default)""",
    ),
    "a resolved path": (
        ("file-read-data", "path=/tmp/a/.env"),
        """\
deny
stage: filtered rule
rule: p.sb:6:1: (deny file-read* (regex #"\\.env$"))
path: /private/tmp/a/.env
shadowed: p.sb:3:1: (allow file-read* (subpath "/private/tmp") (subpath (param "ROOT")))
shadowed: p.sb:2:1: (deny default)""",
    ),
    "a link that may not be read": (
        ("file-read-data", "path=/etc/x"),
        """\
deny
stage: unfiltered rule
rule: p.sb:2:1: (deny default)
link: file-read-metadata /etc, a symbolic link on the way to /etc/x""",
    ),
}


@pytest.mark.parametrize(("question", "text"), TEXTS.values(), ids=TEXTS)
def test_text(question: tuple[str, ...], text: str) -> None:
    assert ask(*question)[0] == text


def test_json() -> None:
    answer = ask("file-read-data", "path=/tmp/a/.env")[1]
    assert json.loads(json.dumps(answer)) == {
        "decision": "deny",
        "stage": "filtered rule",
        "rule": '(deny file-read* (regex #"\\.env$"))',
        "file": "p.sb",
        "line": 6,
        "column": 1,
        "operation": "file-read-data",
        "level": "file-read*",
        "link": None,
        "note": "",
        "path": "/private/tmp/a/.env",
        "approximate": [],
        "missing": [],
        "assumed": [],
        "version": 1,
        "shadowed": [
            {
                "decision": "allow",
                "rule": '(allow file-read* (subpath "/private/tmp") (subpath (param "ROOT")))',
                "file": "p.sb",
                "line": 3,
                "column": 1,
                "level": "file-read*",
            },
            {
                "decision": "deny",
                "rule": "(deny default)",
                "file": "p.sb",
                "line": 2,
                "column": 1,
                "level": "default",
            },
        ],
    }


def test_symlinks_are_followed() -> None:
    question = ("file-read-data", "path=/Users/u/link/x")
    allowed = '(allow file-read-metadata (literal "/Users/u/link"))'
    link = ["/Users/u/link=/opt"]
    assert ask(*question)[1]["decision"] == "deny"
    assert ask(*question, symlink=link)[1]["link"] == "/Users/u/link"
    assert ask(*question, profile=PROFILE + allowed, symlink=link)[1]["decision"] == "allow"


def test_a_value_may_hold_equals_signs() -> None:
    assert ask("file-read-data", "path=/opt/a=b")[1]["path"] == "/opt/a=b"


BAD_OPTIONS = {
    "no =": (["path"], "--resource needs KEY=VALUE, not 'path'"),
    "no key": (["=x"], "--resource needs KEY=VALUE, not '=x'"),
    "twice": (["path=/a", "path=/b"], "--resource gives 'path' twice"),
}


@pytest.mark.parametrize(("items", "message"), BAD_OPTIONS.values(), ids=BAD_OPTIONS)
def test_refuses_options(items: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        pairs(items, "--resource")
    assert str(caught.value) == message


def test_a_profile_that_does_not_compile_says_where() -> None:
    with pytest.raises(ProfileError) as caught:
        evaluate_command('(version 1)\n(allow file-read* (subpath (param "X")))', "signal", file="p.sb")
    assert (str(caught.value), caught.value.exit_code) == (
        "p.sb:2:19: subpath: argument 1 must be: string; parameters without a value, to give: -D X=…",
        2,
    )


def line(**question: Any) -> str:
    return json.dumps({"id": 1, "profile": "(version 1)\n(deny default)", "op": "signal", **question})


def answers(*lines: str) -> list[dict[str, Any]]:
    return [json.loads(text) for text in evaluate_batch(lines, file="q.jsonl")]


def test_batch() -> None:
    asked = [
        line(
            id="a", profile=PROFILE, params={"ROOT": "/opt"}, op="file-read-data", resource={"path": "/opt/é"}
        ),
        "",
        line(
            id=[2], profile=PROFILE, params={"ROOT": "/opt"}, op="mach-lookup", resource={"global-name": "x"}
        ),
        line(id=None, profile="(version 1)(allow default)", op="job-creation"),
        line(
            id="l",
            profile='(version 1)(allow file-read* (subpath "/opt") (literal "/l"))',
            op="file-read-data",
            resource={"path": "/l/x"},
            symlinks={"/l": "/opt"},
        ),
    ]
    assert answers(*asked) == [
        {
            "id": "a",
            "decision": "allow",
            "rule": '(allow file-read* (subpath "/private/tmp") (subpath (param "ROOT")))',
            "line": 3,
            "stage": "filtered rule",
        },
        {"id": [2], "decision": "deny", "rule": "(deny default)", "line": 2, "stage": "unfiltered rule"},
        {"id": None, "decision": "deny", "rule": None, "line": None, "stage": "built-in"},
        {
            "id": "l",
            "decision": "allow",
            "rule": '(allow file-read* (subpath "/opt") (literal "/l"))',
            "line": 1,
            "stage": "filtered rule",
        },
    ]


COMPILE_ERRORS = {
    "unbalanced": (
        {"profile": "(version 1)\n(allow default"},
        2,
        "profile.sb:2:1: this list is never closed",
    ),
    "endless": (
        {"profile": "(version 1)\n(define (f) (list (f)))\n(f)"},
        2,
        "profile.sb:2:13: the profile recurses deeper than 10000 expressions",
    ),
    "import of a file of ours": (
        {"profile": '(version 1)(import "/etc/passwd")'},
        1,
        "profile.sb:1:12: unable to open /etc/passwd",
    ),
    "unknown operation": ({"op": "sygnal"}, None, "there is no operation 'sygnal'; did you mean 'signal'?"),
    "unknown key": (
        {"resource": {"pth": "/"}},
        None,
        "no operation has the resource key 'pth'; did you mean 'path'?",
    ),
    "relative path": (
        {"op": "file-read-data", "resource": {"path": "x"}},
        None,
        "a resource's path must begin with /, not 'x'",
    ),
}


@pytest.mark.parametrize(("change", "number", "message"), COMPILE_ERRORS.values(), ids=COMPILE_ERRORS)
def test_batch_goes_on_after_errors(change: dict[str, Any], number: int | None, message: str) -> None:
    first, second = answers(line(**change), line(id=2))
    assert first == {
        "id": 1,
        "decision": "compile-error",
        "rule": None,
        "line": number,
        "stage": None,
        "error": message,
    }
    assert second["decision"] == "deny"


BAD_LINES = {
    "no JSON": (
        "{nope",
        "q.jsonl:2:2: not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
    ),
    "a list": ("[1]", "q.jsonl:2:1: a question is a JSON object"),
    "no profile": ('{"op": "signal"}', "q.jsonl:2:1: a question needs 'profile', a string"),
    "no op": ('{"profile": "(version 1)"}', "q.jsonl:2:1: a question needs 'op', a string"),
    "resource": (line(resource=["path"]), "q.jsonl:2:1: 'resource' of a question is an object"),
    "symlinks": (line(symlinks={"/a": 1}), "q.jsonl:2:1: the values of 'symlinks' are strings"),
    "params": (line(params={"A": True}), "q.jsonl:2:1: the values of 'params' are strings"),
    "misspelt": (line(parms={}), "q.jsonl:2:1: a question has no key 'parms'; did you mean 'params'?"),
    "deep": ("[" * 100_000, "q.jsonl:2:1: not JSON: nested too deep"),
}


@pytest.mark.parametrize(("text", "message"), BAD_LINES.values(), ids=BAD_LINES)
def test_batch_stops_at_what_is_no_question(text: str, message: str) -> None:
    stream = evaluate_batch([line(), text], file="q.jsonl")
    assert json.loads(next(stream))["decision"] == "deny"
    with pytest.raises(DocumentError) as caught:
        next(stream)
    assert str(caught.value) == message


def test_batch_answers_before_it_reads_on() -> None:
    """A program may ask, wait for the answer, and ask again."""
    given: list[str] = []

    def asking() -> Any:
        for number in range(3):
            given.append(str(number))
            yield line(id=number)

    stream = evaluate_batch(asking())
    assert json.loads(next(stream))["id"] == 0
    assert given == ["0"]


def test_importing_system_sb_is_approximate() -> None:
    text, answer = ask(
        "file-read-data", "path=/etc/passwd", profile='(version 1)(deny default)(import "system.sb")'
    )
    assert answer["decision"] == "allow"
    assert text.endswith("approximate: system.sb (approximate)")


def test_files_are_imported_from_given_directories_only(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "a.sb").write_text("(allow pseudo-tty)", encoding="utf-8")
    (tmp_path / "b.sb").write_text("(allow lsopen)", encoding="utf-8")
    importer = FileImporter((tmp_path / "lib",))
    assert (
        ask("pseudo-tty", profile='(version 1)(import "a.sb")', importer=importer)[1]["decision"] == "allow"
    )
    for name in ("../b.sb", str(tmp_path / "b.sb"), "lib/../../b.sb"):
        with pytest.raises(ProfileError, match="unable to open"):
            ask("lsopen", profile=f'(version 1)(import "{name}")', importer=importer)
    trusted = FileImporter((), trusted=True)
    profile = f'(version 1)(import "{tmp_path / "b.sb"}")'
    assert ask("lsopen", profile=profile, importer=trusted)[1]["decision"] == "allow"


def test_the_line_of_a_finding() -> None:
    profile = '(version 1)\n(allow default)\n(import "system.sb")\n(allow lsopn)\n'
    found = lint(profile, file="p.sb", importer=FileImporter(trusted=True))
    assert "p.sb:4:8: error: L01 unbound variable: lsopn; did you mean 'lsopen'?" in map(str, found)


def test_a_question_may_carry_what_somebody_expects() -> None:
    given = line(expect="deny", source="a test that runs on macOS", note=None)
    assert [json.loads(each) for each in evaluate_batch([given])] == [
        json.loads(each) for each in evaluate_batch([line()])
    ]


SECRETS = {
    "accounts": "root:$y$j9T$secretsalt$secrethash:19000:0:99999:7:::\n",
    "a list that is not closed": "(secret word\n",
    "a string": '(version "secret word")\n',
    "a list of things": "(secret one two)\n",
    "a character that begins nothing": "#secret\n",
    "an expression": '(regex #"secret[")\n',
    "a file that is imported": '(import "/secret")\n',
}


@pytest.mark.parametrize("content", SECRETS.values(), ids=SECRETS)
def test_nothing_is_quoted_of_an_imported_file(content: str, tmp_path: Path) -> None:
    (tmp_path / "private").write_text(content, encoding="utf-8")
    profile = f'(version 1)\n(import "{tmp_path}/private")'
    with pytest.raises(ProfileError) as caught:
        evaluate_command(profile, "signal", file="p.sb")
    said = str(caught.value)
    assert "secret" not in said
    assert said.startswith(f"{tmp_path}/private:1:")
    assert said.endswith("(imported at p.sb:2:1)")
    found = lint(profile, file="p.sb", importer=FileImporter(trusted=True))
    assert "secret" not in "".join(map(str, found))
    assert len(found) >= 1


def test_a_directory_of_apple_s_files(tmp_path: Path) -> None:
    folder = tmp_path / "Profiles"
    folder.mkdir()
    (folder / "system.sb").write_text("(allow pseudo-tty)", encoding="utf-8")
    importer = FileImporter((folder,), trusted=True)
    for name in ("system.sb", "/System/Library/Sandbox/Profiles/system.sb"):
        text, answer = ask("pseudo-tty", profile=f'(version 1)(import "{name}")', importer=importer)
        assert (answer["decision"], answer["approximate"]) == ("allow", [])
        assert f"rule: {folder}/system.sb:1:1: (allow pseudo-tty)" in text
    sent = FileImporter((folder,))
    for name in ("/System/Library/Sandbox/Profiles/../../system.sb", f"{tmp_path}/Profiles/system.sb"):
        found = ask("pseudo-tty", profile=f'(version 1)(import "{name}")', importer=sent)[1]
        assert found["approximate"] == ["system.sb (approximate)"]


def test_a_fragment() -> None:
    """The evaluator assumes a version and a default for a fragment without them, and reports that."""
    fragment = '(allow file-read* (subpath "/opt"))'
    with pytest.raises(ProfileError, match="unbound variable: allow"):
        ask("file-read-data", "path=/opt/x", profile=fragment)
    text, answer = ask("file-read-data", "path=/opt/x", profile=fragment, fragment=True)
    assert answer["decision"] == "allow"
    assert "rule: p.sb:1:1: (allow file-read*" in text
    assert text.endswith("assumed before the fragment: (version 1) (deny default)")
    text, answer = ask("mach-lookup", "global-name=x", profile=fragment, fragment=True)
    assert (answer["decision"], answer["file"], answer["line"]) == ("deny", "(assumed)", 2)
    whole = ask("mach-lookup", "global-name=x", profile="(version 3)\n(allow default)", fragment=True)[1]
    assert (whole["decision"], whole["version"]) == ("allow", 3)
    with pytest.raises(ProfileError, match="only one version"):
        ask("signal", profile="(version 1)(version 3)", fragment=True)


def test_parameters_without_a_value_are_listed() -> None:
    profile = '(version 1)(allow file-read* (subpath (param "B")))(allow signal (literal (param "A")))'
    with pytest.raises(ProfileError, match="parameters without a value, to give: -D A=… -D B=…"):
        ask("signal", profile=profile)
    unused = '(version 1)(deny default)(if (param "DEBUG") (allow signal))'
    text, answer = ask("signal", profile=unused)
    assert (answer["decision"], answer["missing"]) == ("deny", ["DEBUG"])
    assert text.endswith("without a value: -D DEBUG=…")


@pytest.mark.parametrize("number", [2, 3])
def test_later_versions_are_read_as_the_first(number: int) -> None:
    profile = f"(version {number})(deny default)(allow signal)"
    text, answer = ask("signal", profile=profile)
    assert (answer["decision"], answer["version"]) == ("allow", number)
    assert text.endswith(f"read as (version 1): (version {number})")
    linted = "".join(map(str, lint(profile, file="p.sb")))
    assert f"p.sb:1:1: info: L35 version {number} is read as version 1 here" in linted
