"""Structure tests are read as container-structure-test reads them, and can fail in each of their parts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import layouts
import tars
from sandwright import process
from sandwright.check.look import check_image
from sandwright.check.structure import read_tests
from sandwright.errors import DocumentError
from tars import file, folder, symlink

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
    "Env": ["PATH=/bin", "A=one two"],
    "Labels": {"kind": "test"},
    "Entrypoint": ["/bin/sh"],
    "Cmd": ["-c", "true"],
    "WorkingDir": "/work",
    "User": "0",
    "ExposedPorts": {"80/tcp": {}},
    "Volumes": {"/data": {}},
}


def said(path: Path, text: str, *members: bytes, **options: Any) -> list[str]:
    """What of the tests does not hold, in an image with these members."""
    tests = path / "tests.yaml"
    path.mkdir(exist_ok=True)
    tests.write_text(f"schemaVersion: 2.0.0\n{text}")
    made = layouts.Layout(path / "image")
    image = made.image(tars.archive(*MEMBERS, *members), config=CONFIG)
    found = check_image(made.index(image), tests=[read_tests(tests)], **options).findings
    return [f"{each.where}: {each.message}" for each in found if each.rule == "structure/test"]


HOLDS = """
fileExistenceTests:
  - {name: config, path: /etc/app.conf, shouldExist: true, permissions: '-rw-r-----', uid: 3, gid: 4}
  - {name: gone, path: /etc/gone, shouldExist: false}
  - {name: link, path: /etc/link, permissions: 'lrwxrwxrwx'}
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
        "n: /etc/passwd can't be executed by other",
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
    ("text", "told"),
    [
        ("commandTests: [{name: n, command: x, setup: [[a]]}]", "setup: no such key"),
        ("licenseTests: [{debian: true}]", "licenseTests: no such key"),
        ("fileContentTests: [{name: n, path: /x, expectedContents: ['(']}]", "regular expression"),
    ],
)
def test_what_is_not_done_is_refused(text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "tests.yaml").write_text(f"schemaVersion: 2.0.0\n{text}\n")
    with pytest.raises(DocumentError, match=r"tests.yaml:2:\d+: ") as raised:
        read_tests(tmp_path / "tests.yaml")
    assert told in str(raised.value)


COMMANDS = """
globalEnvVars: [{key: G, value: every}]
commandTests:
  - name: says
    command: /bin/busybox
    args: [sh, -c, 'echo "$G $V"; echo wrong >&2; exit 3']
    envVars: [{key: V, value: here}]
    expectedOutput: ['^every here$']
    excludedOutput: [wrong]
    expectedError: [wrong]
    exitCode: 3
"""


@pytest.mark.needs("busybox", "runc", "bwrap")
@pytest.mark.skipif(os.getuid() != 0, reason="these are started as root here")
@pytest.mark.parametrize("runtime", ["runc", "bwrap"])
def test_commands_are_run(runtime: str, tmp_path: Path) -> None:
    program = file(b"bin/busybox", Path(process.which("busybox")).read_bytes(), mode=0o755)
    assert said(tmp_path / "holds", COMMANDS, program, runtimes=[runtime]) == []
    wrong = COMMANDS.replace("exitCode: 3", "exitCode: 0").replace(
        "[wrong]\n    expectedError", "[every]\n    expectedError"
    )
    failed = said(tmp_path / "fails", wrong, program, runtimes=[runtime])
    assert failed == [
        f"says ({runtime}): exit status 3: wrong; it has to exit with 0",
        f"says ({runtime}): its output has 'every'",
    ]
