"""A policy on a host: built-in rules, refusals, and invalid input that stays invalid.

Tests of policy/engines.py: ports and sockets of container engines.
Tests of policy/path_resolver.py.
Tests of policy/policy_warnings.py.
Tests of policy/resolve.py.
"""

# A row of a table is a line, however long.
# ruff: noqa: E501

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandwright.api import Policy
from sandwright.errors import DocumentError, RenderError, UsageError
from sandwright.inputs import LiveHost
from sandwright.methods.registry import render
from sandwright.policy import load
from sandwright.policy.facts import HostEntry, HostFacts
from sandwright.policy.policy_warnings import collect_warnings
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.questions import EntryKind

DIRECTORY = HostEntry("directory")
LINUX = HostFacts(
    os="linux",
    home="/home/u",
    project="/home/u/p",
    entries={
        **dict.fromkeys(("/", "/home", "/home/u", "/home/u/p", "/home/u/p/.git"), DIRECTORY),
        "/var/run": HostEntry("symlink", "/run"),
        "/bin": HostEntry("symlink", "usr/bin"),
    },
)
MAC = HostFacts(
    os="darwin", home="/Users/u", project="/tmp/p", tmp="/var/folders/T/x", uid=501, case_sensitive=False
)


def _resolve(text: str, facts: HostFacts = LINUX) -> ResolvedPolicy:
    return Policy.from_text(text).resolve(facts)


READABLE, WRITABLE, NEITHER = (True, False), (True, True), (False, False)


@pytest.mark.parametrize(
    ("text", "path", "access"),
    [
        # default: the host is readable except secrets, the project writable except files that the host runs
        ("", "/etc/passwd", READABLE),
        ("", "/srv/data", READABLE),
        ("", "/home/u/other", READABLE),
        ("", "/home/u/.ssh/id_ed25519", NEITHER),
        ("", "/home/u/.sshfoo", READABLE),
        ("", "/etc/shadow", NEITHER),
        ("", "/etc/shadow2", READABLE),
        ("", "/home/u/p", WRITABLE),
        ("", "/home/u/p/src/a.py", WRITABLE),
        ("", "/home/u/p2", READABLE),
        ("", "/home/u/p/.git/HEAD", WRITABLE),
        ("", "/home/u/p/.git/hooks/pre-commit", READABLE),
        ("", "/home/u/p/.git/hooks", READABLE),
        ("", "/home/u/p/.git/hooksx", WRITABLE),
        ("", "/home/u/p/.git/config", READABLE),
        ("", "/home/u/p/.git/commondir", READABLE),
        ("", "/home/u/p/.vscode/tasks.json", READABLE),
        ("", "/home/u/p/src/.vscode/tasks.json", WRITABLE),
        ("", "/home/u/p/sandbox.yaml", READABLE),
        ("", "/home/u/p/.sandbox/bwrap.args", READABLE),
        ("", "/tmp/x", WRITABLE),
        ("", "/dev/null", WRITABLE),
        ("", "/dev/sda", READABLE),
        ("", "/run/user/1000/bus", NEITHER),
        ("", "/var/run/docker.sock", NEITHER),
        # only the paths that a program needs to start
        ("extends: []", "/usr/bin/env", READABLE),
        ("extends: []", "/bin/env", READABLE),
        ("extends: []", "/etc/passwd", READABLE),
        ("extends: []", "/etc/hostname", NEITHER),
        ("extends: []", "/home/u/p", NEITHER),
        ("extends: []", "/tmp/x", WRITABLE),
        ("extends: []\nfilesystem: {deny: [/usr/local]}", "/usr/local/bin/x", NEITHER),
        ("extends: []\nfilesystem: {deny: [/]}", "/usr/bin/env", NEITHER),
        ("extends: []\nfilesystem: {deny: [/etc], read: [/]}", "/etc/passwd", NEITHER),
        # precedence at the same path, and by specificity
        ("filesystem: {write: [/a], read: [/a]}", "/a", WRITABLE),
        ("filesystem: {write: [/a], readonly: [/a]}", "/a", READABLE),
        ("filesystem: {write: [/a], readonly: [/a], deny: [/a]}", "/a", NEITHER),
        ("filesystem: {write: [/a], deny: [/a/b], read: [/a/b/c]}", "/a/b/c/d", READABLE),
        ("filesystem: {write: [/a/b/c], deny: [/a/b]}", "/a/b/c", WRITABLE),
        ("filesystem: {write: [/a/b/c], deny: [/a/b]}", "/a/b/d", NEITHER),
        ("filesystem: {write: [/var/run/x], deny: [/run/x]}", "/var/run/x", NEITHER),
        # the home directory writable: secrets stay closed, start-up files stay read-only
        ("filesystem: {write: [$HOME]}", "/home/u/notes", WRITABLE),
        ("filesystem: {write: [$HOME]}", "/home/u/.ssh/id_ed25519", NEITHER),
        ("filesystem: {write: [$HOME]}", "/home/u/.bashrc", READABLE),
        ("filesystem: {write: [$HOME]}", "/home/u/.config/fish/config.fish", READABLE),
        ("filesystem: {write: [$HOME]}", "/home/u/.docker/run/docker.sock", NEITHER),
        ("filesystem: {write: [$HOME]}", "/home/u/p/.git/hooks/x", READABLE),
        # a protected name grants nothing, and gives way only to a more specific path
        ("filesystem: {deny: [$PROJECT/.git]}", "/home/u/p/.git/hooks", NEITHER),
        ("filesystem: {write: [$PROJECT, $PROJECT/.git/hooks]}", "/home/u/p/.git/hooks/x", READABLE),
        ("filesystem: {write: [$PROJECT, $PROJECT/.git/hooks/x]}", "/home/u/p/.git/hooks/x", WRITABLE),
        ("filesystem: {unprotect: [{path: $PROJECT/.vscode, reason: ours}]}", "/home/u/p/.vscode/x", WRITABLE),
        ("filesystem: {unprotect: [{path: $PROJECT/.vscode, reason: ours}]}", "/home/u/p/.idea/x", READABLE),
        ("filesystem: {unprotect: [{path: ~/.npmrc, reason: no token in it}]}", "/home/u/.npmrc", READABLE),
        # cloud credentials
        ("credentials: {cloud: readonly}", "/home/u/.aws/credentials", READABLE),
        ("credentials: {cloud: readonly}", "/home/u/.kube/config", NEITHER),
        ("credentials: {cloud: readonly}\nfilesystem: {deny: [~/.aws]}", "/home/u/.aws/credentials", NEITHER),
        # the temporary directory
        ("filesystem: {tmp: shared}", "/tmp/x", WRITABLE),
        ("filesystem: {deny: [/tmp]}", "/tmp/x", NEITHER),
        ("filesystem: {write: []}", "/home/u/p/x", READABLE),
    ],
)  # fmt: skip
def test_files_on_linux(text: str, path: str, access: tuple[bool, bool]) -> None:
    policy = _resolve(text)
    assert (policy.is_path_readable(path), policy.is_path_writable(path)) == access


@pytest.mark.parametrize(
    ("text", "path", "access"),
    [
        ("", "/tmp/p/src", WRITABLE),
        ("", "/private/tmp/p/src", WRITABLE),
        ("", "/System/Volumes/Data/private/tmp/p/src", WRITABLE),
        ("", "/private/tmp/P/SRC", WRITABLE),
        ("", "/private/tmp/p/.GIT/Hooks/x", READABLE),
        ("", "/private/tmp/other", READABLE),
        ("", "/var/folders/T/x/file", WRITABLE),
        ("", "/Users/u/.SSH/id_ed25519", NEITHER),
        ("", "/System/Volumes/Data/Users/u/.ssh", NEITHER),
        ("", "/Users/u/Library/Keychains/login.keychain-db", NEITHER),
        ("filesystem: {deny: ['~/caf\u00e9']}", "/Users/u/cafe\u0301/x", NEITHER),
        ("filesystem: {deny: [/etc/x]}", "/private/etc/x", NEITHER),
        ("filesystem: {write: [/var/x]}", "/private/var/x", WRITABLE),
        ("", "/var/run/docker.sock", NEITHER),
        ("extends: []", "/System/Library/Frameworks/X", READABLE),
        ("extends: []", "/etc/hosts", READABLE),
    ],
)
def test_files_on_macos(text: str, path: str, access: tuple[bool, bool]) -> None:
    policy = _resolve(text, MAC)
    assert (policy.is_path_readable(path), policy.is_path_writable(path)) == access


def test_names_differ_by_case_on_linux() -> None:
    assert _resolve("").is_path_readable("/home/u/.SSH")


@pytest.mark.parametrize(
    ("project", "message"),
    [
        ("/home/u", "the project /home/u is the home directory; choose a directory in it"),
        ("/alias", "the project /alias is the home directory; choose a directory in it"),
        ("/", "the project / is a directory of the system; choose another one"),
        ("/home", "the project /home is a directory of the system; choose another one"),
        ("/etc", "the project /etc is a directory of the system; choose another one"),
        ("/usr", "the project /usr is a directory of the system; choose another one"),
        ("/tmp", "the project /tmp is a directory of the system; choose another one"),
    ],
)
def test_refused_projects(project: str, message: str) -> None:
    facts = replace(LINUX, project=project).with_entries({"/alias": HostEntry("symlink", "home/u")})
    with pytest.raises(UsageError) as refused:
        _resolve("", facts)
    assert str(refused.value) == message


@pytest.mark.parametrize("project", ["/work", "/workspace", "/home/u/p", "/home/v", "/tmp/p"])
def test_projects(project: str) -> None:
    assert _resolve("", replace(LINUX, project=project)).is_path_writable(f"{project}/x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("filesystem: {write: [/]}", "p:1:22: filesystem.write[0]: the whole host cannot be writable; name directories"),
        ("filesystem: {write: [/root-link]}", "p:1:22: filesystem.write[0]: the whole host cannot be writable; name directories"),
        ("filesystem: {read: ['${NOWHERE}']}", "p:1:21: filesystem.read[0]: variable NOWHERE is not set in the environment"),
        ("filesystem: {read: [/loop/x]}", "p:1:21: filesystem.read[0]: /loop/x leads through more than 40 links"),
        ("filesystem: {read: [/bad/x]}", "p:1:21: filesystem.read[0]: leads to '/\\udcff/x', which is not valid UTF-8"),
        ("filesystem: {deny: [/bad/x]}", "p:1:21: filesystem.deny[0]: leads to '/\\udcff/x', which is not valid UTF-8"),
        ("filesystem: {read: [/run/docker.sock]}", "p:1:21: filesystem.read[0]: /run/docker.sock leads to the socket of Docker, which is always denied"),
        ("filesystem: {write: [~/.docker/run/x]}", "p:1:22: filesystem.write[0]: /home/u/.docker/run/x leads to the socket of Docker Desktop, which is always denied\np:1:22: filesystem.write[0]: ~/.docker/run/x is in /home/u/.docker, what programs of the host start or obey: no policy can let it be written"),
        ("filesystem: {readonly: [/sock]}", "p:1:25: filesystem.readonly[0]: /run/docker.sock leads to the socket of Docker, which is always denied"),
        ("filesystem: {unprotect: [{path: /run/docker.sock, reason: x}]}", "p:1:26: filesystem.unprotect[0]: /run/docker.sock is a socket of Docker, always denied"),
        ("filesystem: {unprotect: [{path: $PROJECT/sandbox.yaml, reason: x}]}", "p:1:26: filesystem.unprotect[0]: /home/u/p/sandbox.yaml is protected always"),
        ("network: {unix_sockets: [/var/run/docker.sock]}", "p:1:26: network.unix_sockets[0]: /run/docker.sock leads to the socket of Docker, which is always denied"),
        ("network: {unix_sockets: [/run/podman/podman.sock]}", "p:1:26: network.unix_sockets[0]: /run/podman/podman.sock leads to the socket of Podman, which is always denied"),
        ("filesystem: {read: ['/x/${T}']}\ncredentials: {shims: {gh: {secrets: {A: '${T}'}, allow: []}}}", "p:1:21: filesystem.read[0]: T holds a secret of a shim; no path may show it"),
        ("process: {seccomp: '${NOWHERE}/s.json'}", "p:1:20: process.seccomp: variable NOWHERE is not set in the environment"),
    ],
)  # fmt: skip
def test_refused_paths(text: str, message: str) -> None:
    links = {"/root-link": "/", "/loop": "loop", "/bad": "/\udcff", "/sock": "/run/docker.sock"}
    facts = LINUX.with_entries({path: HostEntry("symlink", target) for path, target in links.items()})
    with pytest.raises(DocumentError) as refused:
        Policy.from_layers([load.layer(text, file="p")]).resolve(facts)
    assert str(refused.value) == message


OWN = "the sandbox has a private {}, and files written there are lost: leave it out"


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        ("[/dev/shm]", OWN.format("/dev/shm")),
        ("[/dev]", OWN.format("/dev")),
        ("[/proc]", OWN.format("/proc")),
        ("[/tmp]", OWN.format("/tmp") + ", or set filesystem.tmp: shared"),
        ("[$TMP]", OWN.format("/tmp") + ", or set filesystem.tmp: shared"),
        ("[/to-shm]", OWN.format("/dev/shm")),
        ("[/tmp/there, /dev/shm/there, /dev/null, /dev/pts, /dev/tty]", None),
        ("[/tmp, $TMP/new]\n  tmp: shared", None),
    ],
)
def test_what_is_written_is_not_lost_in_the_sandboxs_own_memory(paths: str, message: str | None) -> None:
    directory = HostEntry("directory")
    facts = LINUX.with_entries(
        {
            "/to-shm": HostEntry("symlink", "/dev/shm"),
            **dict.fromkeys(("/tmp", "/tmp/there", "/dev", "/dev/shm", "/dev/shm/there"), directory),
        }
    )
    policy = Policy.from_layers([load.layer(f"filesystem:\n  write: {paths}\n", file="p")])
    if message is None:
        policy.resolve(facts)
        return
    with pytest.raises(DocumentError) as refused:
        policy.resolve(facts)
    assert [problem.message for problem in refused.value.problems] == [message]


def test_all_faults_of_a_file_on_a_host_at_once() -> None:
    text = (
        "filesystem:\n  read: ['${A}']\n  write: [/]\n  deny: ['${B}']\nnetwork: {unix_sockets: ['${C}']}\n"
    )
    with pytest.raises(DocumentError) as refused:
        _resolve(text)
    assert [(problem.line, problem.field) for problem in refused.value.problems] == [
        (2, "filesystem.read[0]"),
        (3, "filesystem.write[0]"),
        (4, "filesystem.deny[0]"),
        (5, "network.unix_sockets[0]"),
    ]


def test_a_denied_loop_is_no_fault() -> None:
    facts = LINUX.with_entries({"/home/u/.ssh": HostEntry("symlink", ".ssh")})
    rules = _resolve("", facts).filesystem.rules
    assert "/home/u/.ssh" in [rule.path for rule in rules if rule.kind == "deny"]


def test_another_socket_of_an_engine() -> None:
    facts = replace(LINUX, environment={"DOCKER_HOST": "unix:///srv/docker.sock"})
    assert not _resolve("", facts).is_path_readable("/srv/docker.sock")
    assert _resolve("").is_path_readable("/srv/docker.sock")


def test_the_policys_own_file_is_read_only(tmp_path: object) -> None:
    layer = replace(load.layer("filesystem: {write: [/srv/policies]}"), file="/srv/policies/mine.yaml")
    policy = Policy.from_layers([layer]).resolve(LINUX)
    assert policy.is_path_writable("/srv/policies/other.yaml")
    assert not policy.is_path_writable("/srv/policies/mine.yaml")


def test_protected_names_of_git_elsewhere() -> None:
    """In a linked work tree, they are the hooks of its main repository."""
    facts = replace(LINUX, git_directories=("/srv/repo/.git", "/srv/repo/.git/worktrees/p"))
    policy = _resolve("filesystem: {write: [$PROJECT, /srv/repo/.git]}", facts)
    assert policy.is_path_writable("/srv/repo/.git/objects/ab")
    assert not policy.is_path_writable("/srv/repo/.git/hooks/pre-commit")
    assert not policy.is_path_writable("/srv/repo/.git/worktrees/p/commondir")
    assert policy.is_path_writable("/srv/repo/.git/worktrees/p/HEAD")


def test_a_protected_link_protects_what_it_leads_to() -> None:
    facts = LINUX.with_entries(
        {"/home/u/p/.vscode": HostEntry("symlink", "settings"), "/home/u/p/settings": DIRECTORY}
    )
    assert not _resolve("", facts).is_path_writable("/home/u/p/settings/tasks.json")
    assert _resolve("").is_path_writable("/home/u/p/settings/tasks.json")


def test_a_protected_link_opens_nothing() -> None:
    facts = LINUX.with_entries(
        {"/home/u/p/.vscode": HostEntry("symlink", "/home/u/.ssh"), "/home/u/.ssh": DIRECTORY}
    )
    assert not _resolve("", facts).is_path_readable("/home/u/.ssh/id_ed25519")


def test_unprotecting_reaches_only_lower_layers() -> None:
    user = load.layer("filesystem: {unprotect: [{path: /srv/x, reason: mine}]}", kind="user")
    project = load.layer("filesystem: {deny: [/srv/x]}", kind="project")
    assert not Policy.from_layers([user, project]).resolve(LINUX).is_path_readable("/srv/x")
    user = load.layer("filesystem: {deny: [/srv/x]}", kind="user")
    project = load.layer("filesystem: {unprotect: [{path: /srv/x, reason: ours}]}", kind="project")
    assert Policy.from_layers([user, project]).resolve(LINUX).is_path_readable("/srv/x")


def test_asking_about_paths() -> None:
    policy = _resolve("", replace(LINUX, cwd="/home/u/p/sub"))
    assert policy.canonical("x/y") == "/home/u/p/sub/x/y"
    assert policy.canonical("../x") == "/home/u/p/x"
    assert policy.canonical("~/.ssh") == "/home/u/.ssh"
    assert policy.canonical("$PROJECT/x") == "/home/u/p/x"
    assert policy.canonical("/a/$b") == "/a/$b"
    assert policy.canonical("/bin/sh") == "/usr/bin/sh"
    for text in ("", "/a\0b", "$NOWHERE/x"):
        with pytest.raises(UsageError):
            policy.canonical(text)


def test_variables_that_reach_the_program() -> None:
    policy = _resolve(
        "environment: {pass: [LC_*, GH_*, PATH, LD*], set: {PATH: /usr/bin}}\n"
        "credentials: {shims: {gh: {secrets: {GH_TOKEN: '${GH_HOST_TOKEN}'}, allow: []}}}\n"
    ).environment
    passes = {
        name: policy.passes(name)
        for name in ("LC_ALL", "GH_TOKEN", "GH_HOST_TOKEN", "GH_PAGER", "PATH", "LD_PRELOAD", "LDX", "HOME")
    }
    assert passes == {
        "LC_ALL": True,
        "GH_TOKEN": False,
        "GH_HOST_TOKEN": False,
        "GH_PAGER": True,
        "PATH": False,
        "LD_PRELOAD": False,
        "LDX": True,
        "HOME": False,
    }


def test_secrets_are_references_all_the_way() -> None:
    facts = replace(LINUX, environment={"SANDBOX_GH_TOKEN": "ghp_secret"})
    policy = _resolve("credentials: {shims: {gh: {secrets: {T: '${SANDBOX_GH_TOKEN}'}, allow: []}}}", facts)
    assert policy.credentials.shims["gh"].secrets == {"T": "SANDBOX_GH_TOKEN"}
    assert "ghp_secret" not in repr(replace(policy, facts=LINUX))


HOSTILE = [
    '/q"uote', "/q'uote", "/back\\slash", "/new\nline", "/tab\t", "/(allow default)", '/x") (allow default) ("',
    "/a,b", "/a:b", "/a b", "/-rf", "/#x", "/$$HOME", "/$(id)", "/`id`", "/%s", "/{{ 7+7 }}", "/\u202e", "/\x7f",
    "/\u00e9", "/e\u0301", "/\U0001f4a9", "/&amp;", "/" + "x" * 255,
]  # fmt: skip


@pytest.mark.parametrize("path", HOSTILE)
def test_hostile_paths_stay_one_path(path: str) -> None:
    if path.startswith("/$("):
        path = "/$$" + path[2:]
    policy = Policy.from_layers([_layer(path)]).resolve(LINUX)
    plain = path.replace("$$", "$")
    listed = [rule for rule in policy.filesystem.rules if rule.source.layer == "project"]
    assert [(rule.path, rule.kind) for rule in listed] == [(plain, "deny")]
    assert not policy.is_path_readable(plain)
    assert policy.is_path_readable(plain + "x")


def _layer(path: str) -> load.Layer:
    """A layer that denies a path. For characters beyond the BMP, YAML's escapes differ from JSON's."""
    text = json.dumps(path, ensure_ascii=False)
    text = re.sub("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]", lambda found: f"\\u{ord(found[0]):04x}", text)
    return load.layer(f"filesystem: {{deny: [{text}]}}")


NAMES = st.text(
    st.characters(exclude_characters="/\0$*?", exclude_categories=["Cs"]), min_size=1, max_size=20
)


@settings(deadline=None)
@given(st.lists(NAMES.filter(lambda name: name not in (".", "..")), min_size=1, max_size=4))
def test_any_path_is_one_rule(names: list[str]) -> None:
    path = "/srv/" + "/".join(names)
    policy = Policy.from_layers([_layer(path)])
    rules = policy.resolve(LINUX).filesystem.rules
    assert [rule.path for rule in rules if rule.source.layer == "project"] == [path]


def test_the_same_input_gives_the_same_policy() -> None:
    text = "filesystem: {write: [$PROJECT, /b, /a]}\nenvironment: {set: {B: '1', A: '2'}}"
    assert _resolve(text) == _resolve(text)
    assert list(_resolve(text).environment.set) == ["A", "B", "SANDWRIGHT_INSIDE"]


def test_ten_thousand_paths() -> None:
    paths = "\n".join(f"    - /data/d{n // 100}/e{n}" for n in range(10_000))
    policy = _resolve(f"filesystem:\n  deny:\n{paths}\n")
    assert not policy.is_path_readable("/data/d99/e9999/x")
    assert policy.is_path_readable("/data/d99/e10000/x")


def test_a_port_leads_one_way_only() -> None:
    with pytest.raises(DocumentError) as refused:
        _resolve("network: {localhost: [80, 81], expose: [82, 81]}")
    assert [(problem.field, problem.message) for problem in refused.value.problems] == [
        ("network.expose[1]", "port 81 is in network.localhost too: it would lead to itself")
    ]


def test_ports_in_the_hosts_network_are_remarked_on() -> None:
    said = collect_warnings(_resolve("network: {mode: host, expose: [80]}"), LiveHost(), mounts=True)
    assert [each.split(": ", 1)[1] for each in said if "expose" in each] == [
        "expose has no effect with mode: host, which exposes all ports"
    ]
    assert not any(
        "expose" in each
        for each in collect_warnings(_resolve("network: {expose: [80]}"), LiveHost(), mounts=True)
    )


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("network: {allow: [example.org, example.com]}", 1),
        ("network: {mode: proxy, allow: [example.org]}", 0),
        ("extends: [agent-claude]\nnetwork: {mode: none}", 0),
    ],
)
def test_hosts_that_no_proxy_reads_are_remarked_on(text: str, count: int) -> None:
    said = collect_warnings(_resolve(text), LiveHost(), mounts=True)
    ending = ": network.allow has no effect with mode: none; set network.mode: proxy"
    assert sum(each.endswith(ending) for each in said) == count


def test_grants_through_links_under_an_image_are_remarked_on() -> None:
    """Under an image's root, the host's link is missing; a link that is shown itself exists."""
    link = {"/home/u/link": HostEntry("symlink", "/srv/data"), "/srv": DIRECTORY, "/srv/data": DIRECTORY}
    facts = replace(LINUX, entries={**LINUX.entries, **link})

    def said(text: str, *, image_root: bool = True) -> list[str]:
        found = collect_warnings(_resolve(text, facts), LiveHost(), mounts=True, image_root=image_root)
        return [each.split(": ", 1)[1] for each in found if "link" in each]

    granted = "method: oci\nextends: []\nfilesystem: {read: [~/link]}"
    assert said(granted) == [
        "~/link leads through the link /home/u/link, which an image's root lacks: inside, the path is /srv/data"
    ]
    assert said(granted, image_root=False) == []
    assert said("method: oci\nextends: []\nfilesystem: {read: [~/link, $HOME]}") == []
    assert said("method: oci\nextends: []\nfilesystem: {read: [/srv/data]}") == []


@pytest.mark.parametrize("kind", ["fifo", "device", "file", "directory", "socket"])
def test_what_gvisor_mounts(kind: EntryKind) -> None:
    """runsc would only say "operation not permitted", without the path."""
    facts = replace(LINUX, entries={**LINUX.entries, "/srv": DIRECTORY, "/srv/x": HostEntry(kind)})
    policy = _resolve("method: gvisor\nextends: []\nfilesystem: {read: [/srv/x]}", facts)
    if kind in ("fifo", "device"):
        with pytest.raises(RenderError, match=r"read /srv/x: a (FIFO|device), and gVisor mounts files"):
            render(policy, "gvisor")
    else:
        assert render(policy, "gvisor").artifacts


@pytest.mark.parametrize(("port", "owner"), [(2375, "Docker"), (2376, "Docker, with TLS")])
def test_ports_of_container_engines_are_never_reached(port: int, owner: str) -> None:
    with pytest.raises(DocumentError) as refused:
        _resolve(f"network: {{localhost: [80, {port}]}}")
    assert [(problem.field, problem.message) for problem in refused.value.problems] == [
        ("network.localhost[1]", f"port {port} is that of {owner}: engines are never reached")
    ]
    assert _resolve(f"network: {{expose: [{port}]}}").network.expose == (port,)
