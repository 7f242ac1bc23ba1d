"""Structure tests are read as container-structure-test reads them, and each of their parts can fail.

Tests of check/commands.py.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sandwright import process
from sandwright.check.image import check_image
from sandwright.check.structure import expand_variables, read_tests
from sandwright.errors import DocumentError
from support import layouts, tars
from support.tars import file, folder, symlink

MEMBERS = (
    folder(b"bin"),
    folder(b"etc"),
    file(b"etc/passwd", b"root:x:0:0::/:/bin/sh\n"),
    file(b"etc/group", b"root:x:0:\n"),
    file(b"etc/app.conf", b"key = value\nother = 1\n", mode=0o640, uid=3, gid=4),
    symlink(b"etc/link", b"app.conf"),
    folder(b"tmp", mode=0o1777),
)
CONFIG: dict[str, Any] = {
    "Env": ["PATH=/bin", "A=one two", "EMPTY="],
    "Labels": {"kind": "test", "none": ""},
    "Entrypoint": ["/bin/sh"],
    "Cmd": ["-c", "true"],
    "WorkingDir": "/work",
    "User": "0",
    "ExposedPorts": {"80/tcp": {}},
    "Volumes": {"/data": {}},
}


def said(path: Path, text: str, *members: bytes, user: str = "0", **options: Any) -> list[str]:
    """The failures of structure tests for an image with these members."""
    tests = path / "tests.yaml"
    path.mkdir(exist_ok=True)
    version = "" if "schemaVersion" in text else "schemaVersion: 2.0.0\n"
    tests.write_text(f"{version}{text}")
    made = layouts.Layout(path / "image")
    image = made.image(tars.archive(*MEMBERS, *members), config=CONFIG | {"User": user})
    found = check_image(made.index(image), tests=[read_tests(tests)], **options).findings
    return [f"{each.where}: {each.message}" for each in found if each.rule == "structure/test"]


HOLDS = """
fileExistenceTests:
  - {name: config, path: /etc/app.conf, shouldExist: true, permissions: '-rw-r-----', uid: 3, gid: 4}
  - {name: gone, path: /etc/gone, shouldExist: false}
  - {name: link, path: /etc/link, permissions: 'Lrwxrwxrwx'}
  - {name: directory, path: /bin/, isExecutableBy: any}
fileContentTests:
  - {name: content, path: /etc/link, expectedContents: ['key = .*', '(?m)^other'], excludedContents: [secret]}
metadataTest:
  envVars: [{key: A, value: one two}, {key: PATH, value: '^/b', isRegex: true}]
  labels: [{key: kind, value: test}]
  exposedPorts: ["80"]
  unexposedPorts: [81]
  volumes: [/data]
  unmountedVolumes: [/etc]
  entrypoint: [/bin/sh]
  cmd: ["-c", "true"]
  workdir: /work
  user: 0
"""
FAILS = {
    "not there": ("fileExistenceTests: [{name: n, path: /x}]", "n: /x is not there"),
    "there": ("fileExistenceTests: [{name: n, path: /etc, shouldExist: false}]", "n: /etc is there"),
    "rights": (
        "fileExistenceTests: [{name: n, path: /etc, permissions: drwx------}]",
        "n: /etc has drwxr-xr-x, not drwx------",
    ),
    "owner": ("fileExistenceTests: [{name: n, path: /etc, uid: 5}]", "n: /etc belongs to user 0, not 5"),
    "executable": (
        "fileExistenceTests: [{name: n, path: /etc/passwd, isExecutableBy: other}]",
        "n: /etc/passwd cannot be executed by other",
    ),
    "content": (
        "fileContentTests: [{name: n, path: /etc/passwd, expectedContents: [toor]}]",
        "n: /etc/passwd doesn't have 'toor'",
    ),
    "excluded": (
        "fileContentTests: [{name: n, path: /etc/passwd, excludedContents: [root]}]",
        "n: /etc/passwd has 'root'",
    ),
    "no file": ("fileContentTests: [{name: n, path: /none}]", "n: /none is no file"),
    "variable": (
        "metadataTest: {envVars: [{key: A, value: x}]}",
        "metadataTest: the variable A is 'one two'",
    ),
    "label": ("metadataTest: {labels: [{key: b, value: x}]}", "metadataTest: the label b is not set"),
    "port": ("metadataTest: {exposedPorts: [81]}", "metadataTest: the port 81 is not there"),
    "other port": ("metadataTest: {unexposedPorts: ['80']}", "metadataTest: the port 80 is there"),
    "cmd": ("metadataTest: {cmd: []}", "metadataTest: Cmd is ['-c', 'true'], not []"),
    "user": ("metadataTest: {user: app}", "metadataTest: User is '0', not 'app'"),
}


def test_what_holds(tmp_path: Path) -> None:
    assert said(tmp_path, HOLDS) == []


@pytest.mark.parametrize(("text", "message"), FAILS.values(), ids=FAILS)
def test_what_fails(text: str, message: str, tmp_path: Path) -> None:
    assert said(tmp_path, text) == [message]


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        (
            "commandTests: [{name: n, command: x, setup: [[a]], teardown: [[b]]}]",
            ["n: setup is not supported here: each command gets the image as it is"],
        ),
        (
            "commandTests: [{name: n, command: x}]\n"
            "containerRunOptions: {privileged: true, bindMounts: ['/a:/a'], capabilities: [a],"
            " allocateTty: true}",
            [
                f"commandTests: containerRunOptions: {name} is not supported here, so no command was run"
                for name in ("allocateTty", "bindMounts", "capabilities", "privileged")
            ],
        ),
        ("commandTests: [{command: x}]", ["commandTests: it has no name"]),
        ("commandTests: [{name: n}]", ["n: it has no command"]),
        (
            "commandTests: [{name: n, command: x, envVars: [{key: A}]}]",
            ["n: a variable of it has no name or no value"],
        ),
        ("fileExistenceTests: [{path: /etc}]", ["/etc: the test has no name"]),
        ("fileContentTests: [{name: n}]", ["n: the test has no path"]),
        (
            "fileContentTests:\n"
            "  - {name: n, path: /etc/passwd, expectedContents: ['('], excludedContents: ['(?=a)']}",
            [
                "n: '(' is no regular expression of Go: missing ): (",
                "n: '(?=a)' is no regular expression of Go: invalid perl operator: (?=",
            ],
        ),
        (
            "fileExistenceTests: [{name: n, path: /etc, isExecutableBy: me}]",
            ["n: isExecutableBy: 'me' is none of owner, group, other, any"],
        ),
    ],
)
def test_what_is_not_done_fails_by_its_name(text: str, messages: list[str], tmp_path: Path) -> None:
    assert said(tmp_path, text) == messages


def test_an_unknown_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tests.yaml").write_text("schemaVersion: 2.0.0\nfileTests: []\n")
    with pytest.raises(DocumentError, match=r"tests.yaml:2:\d+: fileTests: no such key"):
        read_tests(tmp_path / "tests.yaml")


RIGHTS = {
    "/tmp": "dtrwxrwxrwx",
    "/bin/own": "urwxr-xr-x",
    "/bin/both": "ugrwxr-xr-x",
    "/etc/link": "Lrwxrwxrwx",
    "/dev0": "Dcrw-rw-rw-",
    "/etc/app.conf": "-rw-r-----",
    "/": "drwxr-xr-x",
}


def test_rights_are_written_as_go_writes_them(tmp_path: Path) -> None:
    """Modes are written as Go's `fs.FileMode.String` writes them, with "dalTLDpSugct?"."""
    tests = [
        f"  - {{name: '{path}', path: '{path}', permissions: '{mode}'}}" for path, mode in RIGHTS.items()
    ]
    members = (
        file(b"bin/own", mode=0o4755),
        file(b"bin/both", mode=0o6755),
        tars.header(b"dev0", kind=b"3", device=(1, 3), mode=0o666),
    )
    assert said(tmp_path, "fileExistenceTests:\n" + "\n".join(tests), *members) == []


AGREES = {
    "the root": "fileExistenceTests: [{name: n, path: /, uid: 0, gid: 0}]",
    "a variable in a path": "fileExistenceTests: [{name: n, path: '$PATH/$NONE'}]",
    "a variable in braces in a path": "fileExistenceTests: [{name: n, path: '${PATH}'}]",
    "a variable of the tests in a path": (
        "globalEnvVars: [{key: D, value: '$PATH/../etc'}]\nfileExistenceTests: [{name: n, path: '$D/passwd'}]"
    ),
    "empty words": "metadataTest: {workdir: '', user: '', envVars: , unexposedPorts: [81]}",
    "an empty value": "metadataTest: {envVars: [{key: EMPTY, value: ''}], labels: [{key: none, value: ''}]}",
    "an unbound variable": "metadataTest: {unboundEnvVars: [{key: NONE}]}",
    "licences": "licenseTests: [{debian: true, files: }]",
    "a licence": "licenseTests: [{debian: false, files: [/usr/share/doc/good/copyright]}]",
    "numbers as text": "metadataTest: {exposedPorts: [80]}",
}
DOCUMENTED = (
    folder(b"usr/share/doc/good"),
    file(b"usr/share/doc/good/copyright", b"MIT\n"),
    folder(b"usr/share/doc/libgnutls30"),
    file(b"usr/share/doc/file", b"AGPL"),
    folder(b"usr/share/doc/linked"),
    symlink(b"usr/share/doc/linked/copyright", b"../good/copyright"),
)


@pytest.mark.parametrize("text", AGREES.values(), ids=AGREES)
def test_what_container_structure_test_passes(text: str, tmp_path: Path) -> None:
    assert said(tmp_path, text, *DOCUMENTED) == []


def test_licences_that_fail(tmp_path: Path) -> None:
    bad = (
        folder(b"usr/share/doc/bad"),
        file(b"usr/share/doc/bad/copyright", b"This is agpl"),
        folder(b"usr/share/doc/none"),
    )
    assert said(tmp_path / "debian", "licenseTests: [{debian: true}]", *bad) == [
        "licenseTests: /usr/share/doc/bad/copyright has AGPL",
        "licenseTests: /usr/share/doc/none/copyright is no file",
    ]
    named = "licenseTests: [{files: [/usr/share/doc/bad/copyright]}]"
    assert said(tmp_path / "named", named, *bad) == ["licenseTests: /usr/share/doc/bad/copyright has AGPL"]


def test_an_unbound_variable_that_is_set(tmp_path: Path) -> None:
    text = "metadataTest: {unboundEnvVars: [{key: A}]}"
    assert said(tmp_path, text) == ["metadataTest: the variable A is set"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$A", "1"), ("${A}x", "1x"), ("$A$B", "12"), ("$NONE.", "."), ("a$", "a$"), ("a$.", "a$."),
        ("${", ""), ("${}x", "x"), ("$$A", "A"), ("$1A", "A"), ("${A", "A"), ("x", "x"), ("", ""),
    ],
)  # fmt: skip
def test_variables_are_replaced_as_by_go(text: str, expected: str) -> None:
    """The expected values are the output of os.Expand in Go 1.26."""
    assert expand_variables(text, {"A": "1", "B": "2"}) == expected


COMMANDS = """
schemaVersion: 2.0.0
globalEnvVars: [{key: G, value: every}]
commandTests:
  - name: says
    command: /bin/busybox
    args: [sh, -c, 'echo "$G $A"; busybox env | busybox grep V=; echo wrong >&2; exit 3']
    envVars: [{key: V, value: here}]
    expectedOutput: ['^every one two\\nV=here\\n$']
    excludedOutput: [wrong]
    expectedError: [wrong]
    exitCode: 3
"""
OLDER = """
schemaVersion: 1.0.0
commandTests:
  - name: says
    command: [busybox, echo, 'in ${PATH}', '$V']
    expectedOutput: ['in /bin \\n$']
  - {name: missing, command: [no-such-program]}
  - {name: still, command: [busybox, 'true']}
"""
OPTIONS = """
schemaVersion: 2.0.0
commandTests:
  - {name: user, command: busybox, args: [id, -u], expectedOutput: ['^3\\n']}
  - {name: variables, command: busybox, args: [env], expectedOutput: [FOO=keepit, BAR=quoted, HERE=it is]}
containerRunOptions: {user: '3', envFile: FILE, envVars: [HERE, NOT_HERE]}
"""


def run(path: Path, text: str, **options: Any) -> list[str]:
    """Like `said`, with busybox in the image."""
    program = file(b"bin/busybox", Path(process.which("busybox")).read_bytes(), mode=0o755)
    return said(path, text.replace("schemaVersion: 2.0.0\n", ""), program, **options)


@pytest.mark.needs("busybox", "runc", "bwrap")
@pytest.mark.parametrize("runtime", ["runc", "bwrap"])
def test_commands_are_run(runtime: str, tmp_path: Path) -> None:
    assert run(tmp_path / "holds", COMMANDS, runtimes=[runtime]) == []
    wrong = COMMANDS.replace("exitCode: 3", "exitCode: 0").replace(
        "[wrong]\n    expectedError", "[every]\n    expectedError"
    )
    failed = run(tmp_path / "fails", wrong, runtimes=[runtime])
    assert failed == [
        f"says ({runtime}): exit status 3: wrong; it has to exit with 0",
        f"says ({runtime}): its output has 'every'",
    ]


@pytest.mark.needs("busybox", "runc")
def test_a_missing_program_fails_its_test_alone(tmp_path: Path) -> None:
    """This includes schema 1.0.0, whose commands are lists; the whole report was lost before."""
    assert run(tmp_path, OLDER, runtimes=["runc"]) == [
        "missing (runc): the image has no program 'no-such-program'"
    ]


@pytest.mark.needs("busybox", "runc")
def test_commands_in_an_image_a_thousand_directories_deep(tmp_path: Path) -> None:
    """A recursive removal used to fail and leave the unpacked files."""
    program = file(b"bin/busybox", Path(process.which("busybox")).read_bytes(), mode=0o755)
    deep = file(b"/".join([b"d"] * 1000) + b"/f")
    text = "commandTests: [{name: n, command: busybox, args: ['true']}]"
    assert said(tmp_path, text, program, deep, runtimes=["runc"]) == []


@pytest.mark.needs("busybox")
@pytest.mark.parametrize(
    "runtime",
    [pytest.param(name, marks=pytest.mark.needs(name)) for name in ("runc", "runsc", "bwrap")],
)
def test_how_commands_are_run(runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run as the requested user; without root, runc can't do that, and the report says so."""
    monkeypatch.setenv("HERE", "it is")
    monkeypatch.delenv("NOT_HERE", raising=False)
    (tmp_path / "file").write_text("# one\nFOO=keepitsecret!\nexport BAR='quoted'\nEMPTY=\n")
    cannot = "runc: started without root, with one id mapped it cannot be the image's user, 3"
    expected = [cannot] if runtime == "runc" and os.geteuid() != 0 else []
    assert run(tmp_path, OPTIONS.replace("FILE", str(tmp_path / "file")), runtimes=[runtime]) == expected


@pytest.mark.needs("busybox", "bwrap")
def test_commands_run_as_the_image_s_user(tmp_path: Path) -> None:
    """This also holds without root: commands ran as root inside, which may write more than the user."""
    text = "commandTests: [{name: n, command: busybox, args: [id, -u], expectedOutput: ['^1000\\n']}]"
    assert run(tmp_path, text, runtimes=["bwrap"], user="1000") == []
    text = "commandTests: [{name: n, command: busybox, args: ['true']}]"
    failed = run(tmp_path / "unknown", text, runtimes=["bwrap"], user="nobody")
    assert failed == ["n (bwrap): user 'nobody': the image's /etc/passwd has no user 'nobody'"]
