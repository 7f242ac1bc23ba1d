"""Configurations of OCI runtimes: golden, no value adds a field, and the runtimes themselves run them.

Tests of methods/gvisor/render.py.
Tests of methods/gvisor/threads.py.
Tests of methods/oci/render.py.
Tests of methods/shared/runtime_spec/render.py: limits, uid and gid, namespaces.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandwright import process
from sandwright.api import Policy
from sandwright.errors import RenderError
from sandwright.methods.compare import explain
from sandwright.methods.registry import artifacts, render
from sandwright.policy.facts import HostEntry, HostFacts
from support.cgroups import needs_groups
from support.filetrees import paths_below
from support.goldens import CASES, case_policy
from support.launchers import launcher_of
from support.thorough import examples
from support.waiting import until

POLICY = """\
schema: 1
method: oci
filesystem:
  write: [$PROJECT]
  readonly: [$PROJECT/LICENSE]
  deny: [$PROJECT/secrets]
environment:
  pass: [TERM, "LC_*", HOME]
  set: {CI: "it's 1"}
"""


def _config(text: str, method: str = "oci", **facts: Any) -> dict[str, Any]:
    directories = ("/", "/home", "/home/u", "/home/u/p", "/srv", "/usr", "/usr/data")
    base: dict[str, Any] = {
        "os": "linux", "home": "/home/u", "project": "/home/u/p",
        "entries": dict.fromkeys(directories, HostEntry("directory")),
    }  # fmt: skip
    policy = Policy.from_text(text).resolve(HostFacts(**{**base, **facts}))
    artifact = next(each for each in artifacts(policy, method) if each.name == "config.json")
    document: dict[str, Any] = json.loads(artifact.content)
    return document


@pytest.mark.parametrize("method", ["oci", "gvisor"])
def test_a_configuration_that_would_not_be_read_back_is_refused(method: str) -> None:
    """Other methods still answer."""
    denied = "".join(f"\n    - $PROJECT/d{number}" for number in range(6000))
    text = f"extends: []\nmethod: oci\nfilesystem:\n  write: [$PROJECT]\n  deny:{denied}"
    entries = dict.fromkeys(("/", "/home", "/home/u", "/home/u/p"), HostEntry("directory"))
    facts = HostFacts(os="linux", home="/home/u", project="/home/u/p", entries=entries)
    policy = Policy.from_text(text).resolve(facts)
    with pytest.raises(RenderError, match=r"mounts make a config\.json of more than 1 MiB: name directories"):
        render(policy, method)
    rows = explain(policy, "read", "/home/u/p/a", methods=[method, "bwrap"])
    assert [rows.row(each).status for each in (method, "bwrap")] == ["refused", "agrees"]


def test_what_every_sandbox_has() -> None:
    config = _config("extends: []")
    assert config["root"] == {"path": "rootfs", "readonly": True}
    assert config["process"]["noNewPrivileges"] is True
    assert config["process"]["capabilities"] == {"bounding": [], "effective": [], "permitted": []}
    assert "annotations" not in config
    assert "selinuxLabel" not in config["process"]
    kinds = ["mount", "pid", "ipc", "uts", "network", "cgroup", "user"]
    assert [each["type"] for each in config["linux"]["namespaces"]] == kinds
    assert config["linux"]["uidMappings"] == [{"containerID": 0, "hostID": 1000, "size": 1}]
    assert {"/proc/kcore", "/sys/firmware"} <= set(config["linux"]["maskedPaths"])
    assert config["linux"]["seccomp"]["defaultAction"] == "SCMP_ACT_ERRNO"


def test_runsc_makes_the_user_namespace_itself() -> None:
    config = _config("extends: []", "gvisor")
    assert {"type": "user"} not in config["linux"]["namespaces"]
    assert "uidMappings" not in config["linux"]


@pytest.mark.parametrize(
    ("method", "uid", "text", "type_"),
    [
        ("gvisor", 1000, "extends: []", "sysfs"),
        ("gvisor", 0, "extends: []\nnetwork: {mode: host}", "sysfs"),
        ("oci", 0, "extends: []", "sysfs"),
        ("oci", 1000, "extends: []", "none"),
    ],
)
def test_whose_sys_is_seen(method: str, uid: int, text: str, type_: str) -> None:
    """gVisor's own kernel has one; it masks nothing, so the host's would be completely visible."""
    mounts = _config(text, method, uid=uid)["mounts"]
    assert [each["type"] for each in mounts if each["destination"] == "/sys"] == [type_]


def test_root_has_a_user_namespace_with_all_numbers_and_no_devices() -> None:
    config = _config("extends: []", uid=0, gid=0)
    assert {"type": "user"} in config["linux"]["namespaces"]
    assert config["linux"]["uidMappings"] == [{"containerID": 0, "hostID": 0, "size": 4294967295}]
    assert config["linux"]["resources"] == {"devices": [{"allow": False, "access": "rwm"}]}


def test_limits() -> None:
    config = _config("extends: []\nresources: {memory: 1MiB, cpus: 1.5, pids: 9, files: 8}\n", uid=0)
    assert config["linux"]["resources"] == {
        "devices": [{"allow": False, "access": "rwm"}],
        "memory": {"limit": 1048576, "swap": 1048576},
        "cpu": {"period": 100000, "quota": 150000},
        "pids": {"limit": 9},
    }
    assert config["process"]["rlimits"] == [
        {"type": "RLIMIT_CORE", "soft": 0, "hard": 0},
        {"type": "RLIMIT_NOFILE", "soft": 8, "hard": 8},
    ]


def test_gvisor_needs_threads_of_its_own() -> None:
    said = r"resources\.pids: 127 is too few for gVisor: its own threads are counted too"
    with pytest.raises(RenderError, match=said):
        _config("extends: []\nresources: {pids: 127}\n", "gvisor", uid=0)
    limits = _config("extends: []\nresources: {pids: 128}\n", "gvisor", uid=0)["linux"]["resources"]
    assert limits["pids"] == {"limit": 128}


@pytest.mark.parametrize(
    ("mode", "shared"), [("none", False), ("proxy", False), ("host", True)], ids=["none", "proxy", "host"]
)
def test_network(mode: str, *, shared: bool) -> None:
    config = _config(f"extends: []\nnetwork: {{mode: {mode}}}\n")
    assert ({"type": "network"} not in config["linux"]["namespaces"]) is shared


CARD = "/sys/devices/pci0/net"
NETWORK = {"/sys/class/net", "/sys/devices/virtual/net", CARD}


@pytest.mark.parametrize(
    ("network", "uid", "hidden"),
    [
        pytest.param("{mode: none}", 1000, {*NETWORK, "/sys/fs/cgroup"}, id="without-root"),
        pytest.param("{mode: proxy}", 0, {*NETWORK, "/sys/fs/cgroup"}, id="proxy"),
        pytest.param("{mode: none, localhost: [5432]}", 0, {*NETWORK, "/sys/fs/cgroup"}, id="localhost"),
        pytest.param("{mode: host}", 1000, {"/sys/fs/cgroup"}, id="host"),
        pytest.param("{mode: none}", 0, set(), id="sys-of-its-own"),
    ],
)
def test_the_hosts_network_devices_are_hidden_in_its_sys(network: str, uid: int, hidden: set[str]) -> None:
    """A user other than the owner of the network namespace cannot mount its /sys."""
    entries = {
        **dict.fromkeys(("/", "/home", "/home/u", "/home/u/p"), HostEntry("directory")),
        "/sys/class/net/eth0": HostEntry("symlink", "../../devices/pci0/net/eth0"),
    }
    config = _config(f"extends: []\nnetwork: {network}\n", uid=uid, entries=entries)
    assert {*NETWORK, "/sys/fs/cgroup"} & set(config["linux"]["maskedPaths"]) == hidden


def test_gvisor_gets_a_filter_that_it_takes() -> None:
    """runsc knows no errno and not all actions (hardening facts: refuses LOG, KILL_PROCESS and others)."""
    filter_ = _config("extends: []", "gvisor")["linux"]["seccomp"]
    assert {rule["action"] for rule in filter_["syscalls"]} <= {"SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO"}
    assert not any("errnoRet" in rule for rule in filter_["syscalls"])


def test_what_is_mounted() -> None:
    text = "extends: []\nfilesystem: {write: [$PROJECT], read: [/usr/data], deny: [/home/u/p/no]}\n"
    entries = dict.fromkeys(("/home/u/p", "/home/u/p/no", "/usr/data"), HostEntry("directory"))
    mounts = {each["destination"]: each for each in _config(text, entries=entries)["mounts"]}
    bind = ["rbind", "rprivate", "nosuid", "nodev"]
    assert (mounts["/home/u/p"]["source"], mounts["/home/u/p"]["options"]) == ("/home/u/p", [*bind, "rw"])
    assert (mounts["/usr/data"]["source"], mounts["/usr/data"]["options"]) == (
        "/usr/data",
        [*bind, "ro", "rro"],
    )
    assert (mounts["/home/u/p/no"]["type"], mounts["/home/u/p/no"]["options"]) == (
        "tmpfs", ["nosuid", "nodev", "ro", "mode=555"],
    )  # fmt: skip
    assert not {"/", "/usr", "/home"} & mounts.keys()


NAMES = st.text(
    st.characters(exclude_categories=["Cs"], max_codepoint=0xFFFF, exclude_characters="\0/*?"), max_size=9
)
TEXTS = NAMES | st.sampled_from(
    ['"', '"}],"mounts":[{"', "\\", '\n    "args": [', "    ],", '\n    "env": [],']
)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(NAMES.filter(lambda name: name not in ("", ".", "..")), max_size=3, unique=True), TEXTS)
def test_no_value_adds_anything(names: list[str], value: str) -> None:
    paths = [f"/home/u/p/{name}" for name in names]
    data = {
        "extends": [],
        "filesystem": {"write": ["$PROJECT"], "readonly": [path.replace("$", "$$") for path in paths]},
        "environment": {"set": {"VALUE": value.replace("$", "$$")}},
    }
    entries = dict.fromkeys(("/", "/home", "/home/u", "/home/u/p", *paths), HostEntry("directory"))
    config = _config(json.dumps(data), entries=entries)
    plain = _config(json.dumps({"extends": [], "filesystem": {"write": ["$PROJECT"]}}))
    own = {each["destination"] for each in plain["mounts"]}
    assert {
        each["destination"]: each["source"] for each in config["mounts"] if each["destination"] not in own
    } == {path: path for path in paths}
    assert f"VALUE={value}" in config["process"]["env"]
    assert len(config["process"]["env"]) == len(plain["process"]["env"]) + 1
    assert {**config, "mounts": 0, "process": 0} == {**plain, "mounts": 0, "process": 0}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("method", ["oci", "gvisor"])
def test_the_lines_that_the_launcher_replaces_are_alone(method: str, case: str) -> None:
    made = artifacts(case_policy(case), method)
    lines = next(each for each in made if each.name == "config.json").content.decode().split("\n")
    for line in ('    "args": [', '  "mounts": ['):
        assert lines.count(line) == 1
    limited = case == "ci"
    assert lines.count('    "cgroupsPath": "/sandwright-run",') == limited
    assert lines.count('    "env": [') + lines.count('    "env": [],') == 1


PROGRAMS = ("sh", "cat", "echo", "env", "grep", "id", "ls", "mv", "sleep", "touch", "tr")


@pytest.fixture
def rootfs(tmp_path: Path) -> Path:
    """A root file system of busybox, with none of the mount points."""
    root = tmp_path / "rootfs"
    for name in ("bin", "etc", "usr"):
        (root / name).mkdir(parents=True)
    (root / "sbin").symlink_to("bin")
    shutil.copy(process.which("busybox"), root / "bin" / "busybox")
    for name in PROGRAMS:
        (root / "bin" / name).symlink_to("busybox")
    return root


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "home" / "p"
    for name in (".git/hooks/x", ".git/HEAD", "secrets/key", "LICENSE"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("content")
    return project


RUNTIMES = [
    pytest.param("oci", "runc", marks=pytest.mark.needs("runc", "busybox")),
    pytest.param("gvisor", "runsc", marks=pytest.mark.needs("runsc", "busybox")),
]
Start = Callable[..., list[str]]


@pytest.fixture
def command(project: Path, tmp_path: Path, rootfs: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """The launcher's path, for a method and additions to the policy."""
    monkeypatch.setenv("SANDWRIGHT_ROOTFS", str(rootfs))
    (tmp_path / "session").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "session"))

    def rendered(method: str, policy: str = "", *, base: str = POLICY) -> list[str]:
        return [str(launcher_of(base + policy, method, tmp_path / method, project=project))]

    return rendered


@pytest.mark.parametrize(("method", "_runtime"), RUNTIMES)
def test_a_runtime_runs_it(method: str, _runtime: str, command: Start, project: Path, rootfs: Path) -> None:
    before, root = paths_below(project), paths_below(rootfs)
    script = (
        "id -u; cat LICENSE; echo; echo new >file; cat file; (echo x >LICENSE); cat secrets/key; "
        "mv .git moved; "
        "touch .git/hooks/y; touch /bin/x; grep -c : /proc/net/dev; exit 7"
    )
    result = process.run(*command(method), "sh", "-c", script, timeout=60, check=False)
    assert (result.status, result.text.split()) == (7, ["0", "content", "new", "1"]), result.stderr
    for said in (
        "can't create LICENSE: Read-only file system",
        "can't open 'secrets/key': No such file or directory",
        "can't rename '.git': Device or resource busy",
        "touch: .git/hooks/y: Read-only file system",
        "touch: /bin/x: Read-only file system",
    ):
        assert said in result.stderr
    assert paths_below(project) == before | {"file"}
    assert paths_below(rootfs) == root


@pytest.mark.parametrize(("method", "_runtime"), RUNTIMES)
def test_somebody_listens_in_the_project(
    method: str, _runtime: str, command: Start, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """runsc can't mount over a socket, and connects to none of the host's anyway."""
    monkeypatch.chdir(project)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("listening")
        listener.listen()
        result = process.run(*command(method), "echo", "started", timeout=60, check=False)
    assert (result.status, result.text) == (0, "started"), result.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
@pytest.mark.parametrize(("method", "_runtime"), RUNTIMES)
def test_what_the_host_has_mounted_below_is_read_only_too(
    command: Start, tmp_path: Path, method: str, _runtime: str
) -> None:
    """The control: the same mount below a writable directory."""
    for name in ("kept", "open"):
        (tmp_path / "deep" / name / "mounted").mkdir(parents=True)
    with contextlib.ExitStack() as mounted:
        for name in ("kept", "open"):
            target = tmp_path / "deep" / name / "mounted"
            process.run("mount", "-t", "tmpfs", "sandwright-test", target, timeout=10)
            mounted.callback(process.run, "umount", target, timeout=10)
        deep = tmp_path / "deep"
        base = f"schema: 1\nfilesystem: {{read: [{deep}/kept], write: [{deep}/open]}}\n"
        launch = command(method, base=base)
        write = "for d in kept open; do echo x >" + f"{deep}/$d/mounted/new && echo $d; done; true"
        result = process.run(*launch, "sh", "-c", write, timeout=60)
        assert result.text.split() == ["open"]
        assert "Read-only file system" in result.stderr
        assert not (deep / "kept" / "mounted" / "new").exists()


def _is_hidden(mount: list[str], mounts: list[list[str]]) -> bool:
    """Whether another mount of the table covers this one, or its parent."""
    above = next((each for each in mounts if each[0] == mount[1]), None)
    if any(each[1] == mount[0] and each[4] == mount[4] for each in mounts):
        return True
    over = mount[4] != (above or mount)[4]  # not a mount that hides the one below it
    return above is not None and over and _is_hidden(above, mounts)


@pytest.mark.needs("runc", "busybox")
def test_the_host_s_network_brings_nothing_else_of_its_sys(command: Start) -> None:
    """The host's /sys holds its cgroups and debug files, on mounts that root may write."""
    launch = command("oci", "network: {mode: host}\n")
    table = process.run(*launch, "cat", "/proc/self/mountinfo", timeout=60).text
    mounts = [line.split() for line in table.splitlines()]
    seen = [each for each in mounts if each[3] != "/null" and not _is_hidden(each, mounts)]  # masked
    below = {each[4]: each[5].split(",") for each in seen if each[4].startswith("/sys")}
    assert "/sys" in below
    assert all("ro" in options for options in below.values()), below
    assert process.run(*launch, "ls", "/sys/fs/cgroup", timeout=60).text == ""


@pytest.mark.needs("setpriv")
@pytest.mark.parametrize(("method", "_runtime"), RUNTIMES)
def test_without_root(method: str, _runtime: str, rootfs: Path) -> None:
    """A user who isn't root starts the runtime, is root inside, and owns the new files."""
    is_root = os.geteuid() == 0
    uid, gid = (65534, 65534) if is_root else (os.geteuid(), os.getegid())
    with tempfile.TemporaryDirectory(prefix="sandwright-") as folder:
        home = Path(folder)
        shutil.copytree(rootfs, home / "rootfs", symlinks=True)
        for name in ("p/.git", "session"):
            (home / name).mkdir(parents=True)
        text = f"schema: 1\nmethod: {method}\n"
        launcher_of(text, method, home / "out", project=home / "p", uid=uid, gid=gid)
        for path in (home, *home.rglob("*")):
            os.chown(path, uid, gid, follow_symlinks=False)
        home.chmod(0o755)
        env = {"PATH": os.environ["PATH"], "SANDWRIGHT_ROOTFS": f"{folder}/rootfs"}
        env["XDG_RUNTIME_DIR"] = f"{folder}/session"
        become = ["setpriv", "--reuid", str(uid), "--regid", str(gid), "--clear-groups", "--"]
        user = become if is_root else []
        hidden = "ls -A /sys/firmware; cat /sys/kernel/notes"  # the host has them
        argv = [*user, f"{folder}/out/launch", "sh", "-c", f"id -u; {hidden}; touch file; exit 5"]
        result = process.run(*argv, env=env, timeout=60, check=False)
        assert (result.status, result.text) == (5, "0"), result.stderr
        assert process.run("sh", "-c", hidden, timeout=60).stdout
        assert (home / "p" / "file").stat().st_uid == uid
        assert paths_below(home / "p") == {".git", "file"}
        assert paths_below(home / "session" / "sandwright" / "runs") == set()


@pytest.mark.parametrize(("method", "_runtime"), RUNTIMES)
def test_words_and_variables_arrive_to_the_letter(
    method: str, _runtime: str, command: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [
        "",
        "a b",
        "it's",
        '"',
        "\\n",
        "new\nline",
        '\n    "env": [',
        "é",
        "\t\x01\x7f",
        "$(id)",
        "--",
        "a=b",
    ]
    monkeypatch.setenv("LC_ODD", "one\nLC_FAKE=two\n\"'\\")
    monkeypatch.setenv("TOKEN", "PLANTED")
    script = 'for word; do echo "<$word>"; done; cat /proc/$$/environ'
    result = process.run(*command(method), "sh", "-c", script, "sh", *words, timeout=60, check=False)
    said, _, variables = result.stdout.decode().rpartition(">\n")
    assert said + ">\n" == "".join(f"<{word}>\n" for word in words), result.stderr
    assert "LC_ODD=one\nLC_FAKE=two\n\"'\\\0" in variables, result.stderr
    assert "CI=it's 1\0" in variables
    assert "PLANTED" not in variables


@pytest.mark.parametrize(("method", "_runtime"), RUNTIMES)
def test_time_is_up(method: str, _runtime: str, command: Start, project: Path, tmp_path: Path) -> None:
    before, started = paths_below(project), time.monotonic()
    argv = command(method, "resources: {time: 3s}\n")
    result = process.run(*argv, "sh", "-c", "sleep 50", timeout=60, check=False)
    assert result.status == 124, result.stderr
    assert time.monotonic() - started < 40
    assert paths_below(project) == before
    assert paths_below(tmp_path / "session" / "sandwright" / "runs") == set()


@pytest.mark.parametrize(("method", "_runtime"), RUNTIMES)
def test_killed(method: str, _runtime: str, command: Start, project: Path, tmp_path: Path) -> None:
    before = paths_below(project)
    with process.start(*command(method), "sh", "-c", "echo up; sleep 50") as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"up\n"
        os.killpg(running.pid, signal.SIGKILL)
        running.wait(timeout=60)
        until(
            lambda: (
                not paths_below(tmp_path / "session" / "sandwright" / "runs")
                and paths_below(project) == before
            )
        )


@pytest.mark.needs("runc", "busybox")
def test_nothing_is_made_in_the_image(command: Start, rootfs: Path) -> None:
    """A mount point in a directory of the image must already exist."""
    before = paths_below(rootfs)
    argv = command("oci", base=POLICY.replace("[$PROJECT]", "[$PROJECT]\n  read: [/etc/passwd]"))
    refused = process.run(*argv, "cat", "/etc/passwd", timeout=30, check=False)
    assert refused.status == 125
    assert "the image has no /etc/passwd to mount on" in refused.stderr
    assert paths_below(rootfs) == before
    (rootfs / "etc" / "passwd").touch()
    result = process.run(*argv, "cat", "/etc/passwd", timeout=30)
    assert result.stdout == Path("/etc/passwd").read_bytes()


@pytest.mark.needs("runc", "busybox")
def test_crun_is_not_needed_where_runc_is(command: Start, tmp_path: Path) -> None:
    argv = command("oci")
    (tmp_path / "bin").mkdir()
    for name in ("sh", "sha256sum", "awk"):
        (tmp_path / "bin" / name).symlink_to(process.which(name))
    env = {**os.environ, "PATH": f"{tmp_path}/bin"}
    result = process.run(*argv, "true", env=env, timeout=30, check=False)
    assert (result.status, result.stderr) == (125, "sandbox: neither runc nor crun is installed\n")


@needs_groups
@pytest.mark.needs("runc", "busybox")
def test_a_limit_of_processes_holds_and_its_group_goes(command: Start, tmp_path: Path) -> None:
    before = _groups()
    many = ["sh", "-c", "i=0; while [ $i -lt 40 ]; do sleep 2 & i=$((i + 1)); done; echo all"]
    limited = process.run(*command("oci", "resources: {pids: 20}\n"), *many, timeout=60, check=False)
    assert (limited.status, limited.text) == (2, "")
    assert "can't fork: Resource temporarily unavailable" in limited.stderr
    free = process.run(*command("oci", "resources: {pids: 100}\n"), *many, timeout=60, check=False)
    assert (free.status, free.text) == (0, "all")
    until = time.monotonic() + 20  # tests beside this one have groups for as long as they run
    while (groups := _groups() - before) and time.monotonic() < until:
        time.sleep(0.2)
    assert groups == set()


def _groups() -> set[str]:
    folders = (name for _, names, _ in os.walk("/sys/fs/cgroup") for name in names)  # others' come and go
    return {name for name in folders if re.fullmatch("sandwright-.{10}", name)}
