"""One layer: the valid contents of a file, and all its faults at once, with line, column and message.

Tests of policy/load.py.
"""

# A row of a table is a line, however long.
# ruff: noqa: E501

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandwright.api import Policy
from sandwright.errors import DocumentError, UsageError
from sandwright.policy import load

FULL = """\
schema: 1
method: bwrap
extends: [default]
filesystem:
  read: [/]
  write: [$PROJECT]
  readonly: [$PROJECT/.git/hooks]
  deny: [~/.ssh, ~/.aws]
  tmp: private
network:
  mode: proxy
  allow: [github.com, "*.githubusercontent.com:443"]
  unix_sockets: []
  localhost: []
  expose: []
process:
  sandbox_root: false
  seccomp: default
macos: [process-list]
environment:
  pass: [TERM, COLORTERM, LANG, "LC_*"]
  set: {CI: "1"}
credentials:
  cloud: none
  shims:
    gh: {secrets: {GH_TOKEN: "${SANDBOX_GH_TOKEN}"}, allow: ["auth status", "pr *"]}
user: {mapping: auto}
resources: {memory: 2GiB, cpus: 2, pids: 512, files: 4096, time: 30m}
image: debian
accept_gaps: []
"""


def test_a_policy_in_full() -> None:
    policy = load.layer(FULL).policy
    assert policy.method == "bwrap"
    assert policy.filesystem is not None
    assert policy.filesystem.deny == ("~/.ssh", "~/.aws")
    assert policy.resources is not None
    assert policy.resources.cpus == 2
    assert policy.accept_gaps == ()


@pytest.mark.parametrize("text", ["", "# only a comment\n", "{}", "---\n", "\ufeffmethod: bwrap\n"])
def test_a_layer_may_say_nothing(text: str) -> None:
    load.layer(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "p:1:1: must be a mapping, not a list"),
        ("a\n", "p:1:1: must be a mapping, not text"),
        ("metod: bwrap", "p:1:1: metod: no such key; did you mean 'method'?"),
        ("filesystem: {wirte: [/a]}", "p:1:14: filesystem.wirte: no such key; did you mean 'write'?"),
        ("filesystem: {xyz: 1}", "p:1:14: filesystem.xyz: no such key; there is read, write, readonly, deny, protect, unprotect, git, placeholders, home, tmp"),
        ("method: bwarp", "p:1:9: method: 'bwarp' is no method; did you mean 'bwrap'?"),
        ("method: chroot", "p:1:9: method: 'chroot' is no method; there is bwrap, docker, podman, gvisor, oci, seatbelt, kubernetes, user, alcless, landlock, vm, noop"),
        ("method: [bwrap]", "p:1:9: method: must be text, not a list"),
        ("method: 1", "p:1:9: method: must be text, not 1; put it in quotes"),
        ("method:", "p:1:8: method: has no value; leave the key out, or write [] for an empty list"),
        ("schema:", "p:1:8: schema: has no value; leave the key out, or write [] for an empty list"),
        ("network:\n  mode:\n", "p:2:8: network.mode: has no value; leave the key out, or write [] for an empty list"),
        ("filesystem:", "p:1:12: filesystem: has no value; leave the key out, or write [] for an empty list"),
        ("method: bwrap\nmethod: docker", "p:2:1: method: is given twice; first in line 1"),
        ("method: bwrap\nmethods: [docker]", "p:2:1: methods: excludes method; name one method, or several in order"),
        ("methods: []", "p:1:10: methods: must name at least one method"),
        ("methods: [gvisor, noop]", "p:1:19: methods[1]: noop enforces nothing, so only `method: noop` can choose it"),
        ("methods: [gvisor, docke]", "p:1:19: methods[1]: 'docke' is no method; did you mean 'docker'?"),
        ("method: noop", "p:1:1: method: noop enforces nothing and needs a reason: reason: why that is acceptable"),
        ("method: noop\nreason: ''", "p:1:1: method: noop enforces nothing and needs a reason: reason: why that is acceptable\np:2:9: reason: must say why"),
        ("method: bwrap\nreason: x", "p:2:1: reason: is only for method: noop"),
        ("schema: 2\nnonsense: 1", "p:1:9: schema: is version 2 of the format; this sandwright reads 1. Install a newer one"),
        ("schema: 0", "p:1:9: schema: must be 1, not 0"),
        ("schema: '1'", "p:1:9: schema: must be a whole number, not '1'"),
        ("schema: true", "p:1:9: schema: must be a whole number, not true"),
        ("schema: 1.5", "p:1:9: schema: must be a whole number, not 1.5"),
        ("extends: [defalt]", "p:1:11: extends[0]: 'defalt' is no preset; did you mean 'default'?"),
        ("extends: default", "p:1:10: extends: must be a list, not 'default'"),
        ("filesystem:\n  write:\n    - src\n", "p:3:7: filesystem.write[0]: 'src' is not an absolute path; write $PROJECT/src"),
        ("filesystem: {write: /a}", "p:1:21: filesystem.write: must be a list, not '/a'"),
        ("filesystem: {deny: [...]}", "p:1:21: filesystem.deny[0]: '...' is not an absolute path; write $PROJECT/..."),
        ("filesystem: {write: [~]}", "p:1:22: filesystem.write[0]: must be text; a ~ alone is YAML's null, write $HOME"),
        ("filesystem: {protect: [/a]}", "p:1:24: filesystem.protect[0]: '/a' must be relative to the writable paths, like .git/hooks; use readonly"),
        ("filesystem: {protect: [../a]}", "p:1:24: filesystem.protect[0]: '../a' must be a relative path without '.', '..' or double slashes"),
        ("filesystem: {protect: ['*.pem']}", "p:1:24: filesystem.protect[0]: '*.pem' holds a glob; name the file or directory itself"),
        ("filesystem: {unprotect: [$PROJECT/.vscode]}", "p:1:26: filesystem.unprotect[0]: must be a mapping, not '$PROJECT/.vscode'"),
        ("filesystem: {unprotect: [{path: $PROJECT/.vscode}]}", "p:1:26: filesystem.unprotect[0].reason: is required"),
        ("filesystem: {tmp: none}", "p:1:19: filesystem.tmp: must be one of private, shared, not 'none'"),
        ("network: {mode: of}", "p:1:17: network.mode: must be one of none, proxy, host, not 'of'"),
        ("network: {mode: off}", "p:1:17: network.mode: must be one of none, proxy, host, not 'off'"),
        ("network: {allow: [https://pypi.org]}", "p:1:19: network.allow[0]: 'https://pypi.org' is a URL; name the host: pypi.org"),
        ("network: {allow: [{host: a.example, privat: true}]}", "p:1:45: network.allow[0].privat: no such key; there is host, private"),
        ("network: {allow: [{host: a.example, private: 'yes'}]}", "p:1:46: network.allow[0].private: must be true or false"),
        ("network: {allow: [{private: true}]}", "p:1:19: network.allow[0]: host must be a host, like mirror.example"),
        ("network: {allow: [{host: ..., private: true}]}", "p:1:26: network.allow[0].host: host must be a host, like mirror.example"),
        ("network: {allow: [{host: '*', private: true}]}", "p:1:26: network.allow[0].host: * with private would open the whole network that this machine is in; name hosts"),
        ("network: {allow: [{host: https://a.example}]}", "p:1:26: network.allow[0].host: 'https://a.example' is a URL; name the host: a.example"),
        ("network: {allow: [7]}", "p:1:19: network.allow[0]: must be a host, or a mapping like {host: mirror.example, private: true}"),
        ("network: {allow: [100:50]}", "p:1:19: network.allow[0]: '100' is no address; write it in full, like 192.0.2.7 or [2001:db8::7]"),
        ("network: {localhost: [0]}", "p:1:23: network.localhost[0]: must be a port, 1 to 65535"),
        ("network: {localhost: ['8080']}", "p:1:23: network.localhost[0]: must be a port, 1 to 65535, not '8080'"),
        ("network: {localhost: [true]}", "p:1:23: network.localhost[0]: must be a whole number or text, not true"),
        ("process: {sandbox_root: 1}", "p:1:25: process.sandbox_root: must be true or false, not 1"),
        ("process: {sandbox_root: yes}", "p:1:25: process.sandbox_root: must be true or false, not 'yes'"),
        ("process: {seccomp: strit}", "p:1:20: process.seccomp: 'strit' is no profile (name a file by its absolute path); did you mean 'strict'?"),
        ("macos: [proces-list]", "p:1:9: macos[0]: 'proces-list' is no fragment; did you mean 'process-list'?"),
        ("environment: {pass: [A B]}", "p:1:22: environment.pass[0]: 'A B' cannot be the name of a variable: letters, digits and _, no digit first"),
        ("environment: {set: {CI: 1}}", "p:1:25: environment.set.CI: must be text, not 1; put it in quotes"),
        ("environment: {set: {1A: x}}", "p:1:21: environment.set[\"1A\"]: '1A' cannot be the name of a variable: letters, digits and _, no digit first"),
        ("environment: {set: {A: $PROJCT}}", "p:1:24: environment.set.A: there is no variable $PROJCT; did you mean $PROJECT?"),
        ("credentials: {cloud: readwrite}", "p:1:22: credentials.cloud: must be one of none, readonly, not 'readwrite'"),
        ("credentials: {shims: {gh: {}}}", "p:1:27: credentials.shims.gh.allow: is required"),
        ("credentials: {shims: {../gh: {allow: []}}}", "p:1:23: credentials.shims[\"../gh\"]: '../gh' cannot be the name of a shim: letters, digits and ._+- only"),
        ("credentials: {shims: {gh: {allow: [], secrets: {GH_TOKEN: ghp_x}}}}", "p:1:59: credentials.shims.gh.secrets.GH_TOKEN: must name a variable of the host that holds the secret, like ${SANDBOX_GH_TOKEN}; never write the secret itself into a policy"),
        ("credentials: {shims: {gh: {allow: [], secrets: {GH_TOKEN: 42}}}}", "p:1:59: credentials.shims.gh.secrets.GH_TOKEN: must name a variable of the host that holds the secret, like ${SANDBOX_GH_TOKEN}; never write the secret itself into a policy"),
        ("credentials: {shims: {gh: {allow: [], secrets: ghp_x}}}", "p:1:48: credentials.shims.gh.secrets: must be a mapping of variables to references like ${SANDBOX_GH_TOKEN}"),
        ("credentials: {signing: [id.pub]}", "p:1:25: credentials.signing[0]: 'id.pub' is no key: give the path of a public key (~/.ssh/id_ed25519.pub), SHA256: and a fingerprint as ssh-add -l prints it, or gpg: and the 40 digits of a fingerprint"),
        ("credentials: {signing: [$PROJECT/id.pub]}", "p:1:25: credentials.signing[0]: '$PROJECT/id.pub' is no key: give the path of a public key (~/.ssh/id_ed25519.pub), SHA256: and a fingerprint as ssh-add -l prints it, or gpg: and the 40 digits of a fingerprint"),
        ("credentials: {signing: [SHA256:abc]}", "p:1:25: credentials.signing[0]: 'SHA256:abc' is no key: give the path of a public key (~/.ssh/id_ed25519.pub), SHA256: and a fingerprint as ssh-add -l prints it, or gpg: and the 40 digits of a fingerprint"),
        ("user: {mapping: on}", "p:1:17: user.mapping: must be one of auto, off, required, not 'on'"),
        ("resources: {memory: 2}", "p:1:21: resources.memory: must be text, not 2; put it in quotes"),
        ("resources: {memory: 2G}", "p:1:21: resources.memory: must be a number with a unit, like 2GiB or 512MiB, not '2G'; did you mean 2GiB?"),
        ("resources: {cpus: lots}", "p:1:19: resources.cpus: must be a number, or unlimited, not 'lots'"),
        ("resources: {cpus: .nan}", "p:1:19: resources.cpus: must be between 0.001 and 4096"),
        ("resources: {pids: 1.5}", "p:1:19: resources.pids: must be a whole number or text, not 1.5"),
        ("accept_gaps: [{feature: filesystem.absnt, method: bwrap, reason: x}]", "p:1:25: accept_gaps[0].feature: 'filesystem.absnt' is no feature; did you mean 'filesystem.absent'?"),
        ("accept_gaps: [{feature: filesystem.absent, method: bwrap, reason: ' '}]", "p:1:67: accept_gaps[0].reason: must say why"),
        ("image: -v", "p:1:8: image: '-v' is no reference of an image: [registry/]name[:tag][@sha256:digest]"),
        ("\tmethod: bwrap", "p:1:1: cannot indent with a tab; use spaces"),
        ('filesystem: {deny: ["/a\\0b"]}', "p:1:21: holds an escape for a character that is not allowed"),
    ],
)  # fmt: skip
def test_refused(text: str, message: str) -> None:
    with pytest.raises(DocumentError) as refused:
        load.layer(text, file="p")
    assert str(refused.value) == message


def test_all_faults_of_a_file_at_once() -> None:
    text = "\n".join(
        [
            "metod: bwrap",
            "methods: [docker]",
            "method: gvisr",
            "filesystem:",
            "  write: [src, $PROJCT]",
            "  readonly:",
            "network: {mode: any}",
            "resources: {time: 30}",
        ]
    )
    with pytest.raises(DocumentError) as refused:
        load.layer(text, file="p")
    places = [(problem.line, problem.column, problem.field) for problem in refused.value.problems]
    assert places == [
        (1, 1, "metod"),
        (2, 1, "methods"),
        (3, 9, "method"),
        (5, 11, "filesystem.write[0]"),
        (5, 16, "filesystem.write[1]"),
        (6, 12, "filesystem.readonly"),
        (7, 17, "network.mode"),
        (8, 19, "resources.time"),
    ]


def test_invalid_utf_8_has_a_position() -> None:
    with pytest.raises(DocumentError) as refused:
        load.layer(b"filesystem:\n  deny: ['/a\xff']\n", file="p")
    assert str(refused.value) == "p:2:13: byte 0xff is not valid UTF-8"


def test_a_bomb_does_not_go_off() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(DocumentError) as refused:
        load.layer("\n".join(lines), file="p")
    assert "aliases make the document grow to more than 50000 values" in str(refused.value)


def test_registered_methods_are_known() -> None:
    assert load.layer("method: jail", methods=["jail"]).policy.method == "jail"
    with pytest.raises(DocumentError, match="did you mean 'jail'"):
        load.layer("method: jial", methods=["jail"])


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    missing = tmp_path / "sandbox.yaml"
    with pytest.raises(UsageError) as refused:
        Policy.load(missing)
    why = "No such file or directory; `sandwright init` proposes one"
    assert str(refused.value) == f"cannot read the project policy {missing}: {why}"


def test_a_policy_without_an_end_is_refused(tmp_path: Path) -> None:
    endless = tmp_path / "sandbox.yaml"
    endless.symlink_to("/dev/zero")
    with pytest.raises(DocumentError, match=r"sandbox\.yaml: the file to which this link leads is not valid"):
        load.read_layer(endless)
    with pytest.raises(DocumentError, match="/dev/zero: is larger than 1 MiB"):
        load.read_layer("/dev/zero")


def test_faults_of_a_link_quote_nothing_of_the_file(tmp_path: Path) -> None:
    """A stranger's link can lead to your secrets, and CI shows the faults of a pull request to everybody."""
    secret = tmp_path / "credentials"
    secret.write_text("aws_secret_access_key: s3cr3t\nschema: 1\n")
    with pytest.raises(DocumentError, match="aws_secret"):
        load.read_layer(secret)
    link = tmp_path / "sandbox.yaml"
    link.symlink_to("credentials")
    with pytest.raises(DocumentError) as caught:
        load.read_layer(link)
    assert str(caught.value) == (
        f"{link}: the file to which this link leads is not valid; check it under its own name to see the faults"
    )
    secret.write_text("schema: 1\n")
    assert load.read_layer(link).policy == load.read_layer(secret).policy


@pytest.mark.parametrize("through_a_link", [False, True])
def test_a_named_pipe_is_refused_and_one_of_a_shell_is_read(tmp_path: Path, through_a_link: bool) -> None:
    """A stranger's project may contain one, and no process writes to it."""
    pipe = tmp_path / "sandbox.yaml"
    if through_a_link:
        pipe.symlink_to("pipe")
    os.mkfifo(tmp_path / ("pipe" if through_a_link else "sandbox.yaml"))
    with pytest.raises(
        UsageError, match=r"cannot read the project policy .*sandbox\.yaml: it is a named pipe"
    ):
        load.read_layer(pipe)
    reading, writing = os.pipe()
    os.write(writing, FULL.encode())
    os.close(writing)
    assert load.read_layer(f"/dev/fd/{reading}").policy == load.layer(FULL).policy
    os.close(reading)


def test_a_file(tmp_path: Path) -> None:
    file = tmp_path / "sandbox.yaml"
    file.write_text(FULL)
    layer = load.read_layer(file)
    assert layer.file == str(file)
    assert str(layer.source(("filesystem", "deny", 1))) == f"project {file}:8:18"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["network.mode"], "'network.mode' is no setting; write field=value, like network.mode=none"),
        (["=x"], "'=x' is no setting; write field=value, like network.mode=none"),
        (["image=a", "image=b"], "image is set twice"),
        (["network=none", "network.mode=none"], "network.mode is set inside network, which is set too"),
    ],
)
def test_refused_settings(settings: list[str], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        load.run_layer(settings)
    assert str(refused.value) == message


def test_settings_of_one_run() -> None:
    layer = load.run_layer(["filesystem.write=[$PROJECT, /data]", "network.mode=none"], method="docker")
    assert layer is not None
    assert layer.kind == "run"
    assert layer.policy.method == "docker"
    assert layer.policy.filesystem is not None
    assert layer.policy.filesystem.write == ("$PROJECT", "/data")
    assert load.run_layer() is None


def test_a_run_without_a_sandbox_says_why() -> None:
    with pytest.raises(DocumentError, match="needs a reason"):
        load.run_layer(method="noop")
    layer = load.run_layer(method="noop", reason='a: "quoted" [reason]')
    assert layer is not None
    assert layer.policy.reason == 'a: "quoted" [reason]'


def test_faults_of_settings() -> None:
    with pytest.raises(DocumentError) as refused:
        load.run_layer(["network.mode=of", "resources.memory=2"], method="bwarp")
    assert str(refused.value) == (
        "the command line: method: 'bwarp' is no method; did you mean 'bwrap'?\n"
        "the command line: network.mode: must be one of none, proxy, host, not 'of'\n"
        "the command line: resources.memory: must be text, not 2; put it in quotes"
    )


def test_what_ships_can_be_shown() -> None:
    assert "network:\n  mode: proxy" in load.preset_text("build")
    with pytest.raises(UsageError, match="there is no preset 'nothing'"):
        load.preset_text("nothing")
