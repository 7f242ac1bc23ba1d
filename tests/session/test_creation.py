"""Names that the policy restricts and that don't exist, without placeholders: Landlock, and a supervisor that
creates the other names (`launcher/source/creation.c`).

Tests of landlock.py.
Tests of launcher/source/closed.c.
Tests of launcher/source/creation.c.
Tests of launcher/source/lookup.c.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandwright.landlock import BACKSTOP, landlock_version
from session import creations as script
from session.conftest import Project
from support.thorough import covering, representative

pytestmark = [
    pytest.mark.needs("bwrap", "git"),
    pytest.mark.skipif(landlock_version() < BACKSTOP, reason="this kernel has no Landlock"),
]

POLICY = """schema: 1
method: bwrap
filesystem:
  write: [$PROJECT]
  protect: [..., secrets, deep/key]
  placeholders: false
"""
RESTRICTED = ("secrets", ".bashrc", ".vscode", ".envrc", "commondir", ".BASHRC", "Secrets")
SCRIPT = Path(script.__file__ or "")


@pytest.fixture
def outside(project: Project) -> Iterator[Project]:
    """A project outside the sandbox's private /tmp."""
    root = Path(tempfile.mkdtemp(prefix="sandwright-test-", dir="/var/tmp"))
    project.root = root / "p"
    for name in ("sub", "deep"):
        (project.root / name).mkdir(parents=True)
    project.policy.write_text(POLICY)
    project.environment |= {"SANDWRIGHT_TRUST": "1"}
    subprocess.run(("git", "init", "-q", project.root), check=True, timeout=30, env=project.environ)
    yield project
    shutil.rmtree(root)


def names(project: Project) -> set[str]:
    return {each.name for each in project.root.iterdir()}


def test_nothing_is_in_the_project_while_it_runs(outside: Project) -> None:
    before = names(outside)
    with outside.start("sh", "-c", "ls -A; touch started; sleep 30") as process:
        try:
            for _ in range(300):
                if (outside.root / "started").exists():
                    break
                time.sleep(0.1)
            assert names(outside) == before | {"started"}
        finally:
            process.terminate()
            seen = process.communicate(timeout=60)[0]
    assert set(seen.decode().split()) == before


def answers(project: Project, *tried: str, cwd: Path | None = None) -> dict[str, dict[str, str]]:
    (project.root / "creations.py").write_text(SCRIPT.read_text())
    found = project.run("/usr/bin/python3", str(project.root / "creations.py"), *tried, cwd=cwd)
    assert found.returncode == 0, found.stderr.decode()
    decoded: dict[str, dict[str, str]] = json.loads(found.stdout)
    return decoded


def test_no_call_creates_a_restricted_name(outside: Project) -> None:
    """The last one is the control: each way works for another name."""
    found = answers(outside, *RESTRICTED, "other")
    assert found.pop("other") == dict.fromkeys(found["secrets"], "made") | {"exchange": "ENOENT"}
    wrong = {
        (name, way, answer) for name in found for way, answer in found[name].items() if answer != "EACCES"
    }
    assert not wrong
    assert not {name for name in names(outside) if name.lower() in map(str.lower, RESTRICTED)}


def test_nor_further_down(outside: Project) -> None:
    """Below a directory that existed at the start, only the directory with the restricted name is closed."""
    (outside.root / "deep/other/sub").mkdir(parents=True)
    (outside.root / "deep/sub").mkdir()
    found = answers(outside, "key", "other-key", cwd=outside.root / "deep")
    assert set(found["key"].values()) == {"EACCES"}
    assert set(found["other-key"].values()) == {"made", "ENOENT"}
    assert set(answers(outside, "key", cwd=outside.root / "deep/other")["key"].values()) == {"made", "ENOENT"}


RACE = """
import ctypes, os, sys, threading, time
path = ctypes.create_string_buffer(b"./plain-name-1", 64)
good, bad = b"./plain-name-1\\0", b"./.bashrc\\0"
stop = time.monotonic() + float(sys.argv[1])
libc = ctypes.CDLL(None)
def flip():
    while time.monotonic() < stop:
        ctypes.memmove(path, bad, len(bad)); ctypes.memmove(path, good, len(good))
threads = [threading.Thread(target=flip) for _ in range(2)]
[each.start() for each in threads]
made = tried = 0
while time.monotonic() < stop:
    file = libc.open(path, os.O_CREAT | os.O_WRONLY, 0o644)
    tried += 1
    if file >= 0:
        os.close(file); made += 1
    libc.mkdir(path, 0o755); libc.rename(b"plain-name-1", path)
    for name in ("plain-name-1", ".bashrc"):
        if name == ".bashrc" and os.path.lexists(name):
            print("CREATED"); os._exit(9)
        try: os.unlink(name)
        except IsADirectoryError: os.rmdir(name)
        except OSError: pass
print(tried, made)
"""


def test_a_path_that_is_changed_meanwhile(outside: Project) -> None:
    """The call goes on only if Landlock decides; otherwise the supervisor uses its own copy."""
    found = outside.run("/usr/bin/python3", "-c", RACE, "4")
    assert found.returncode == 0, found.stdout + found.stderr
    tried, made = map(int, found.stdout.split())
    assert tried > 100
    assert made > 10
    assert ".bashrc" not in names(outside)


SAME = """
import ctypes, errno, fcntl, os, resource, stat, sys
libc = ctypes.CDLL(None, use_errno=True)
def say(name, act):
    try: print(name, act())
    except OSError as error: print(name, errno.errorcode[error.errno])
mode = lambda path: oct(os.lstat(path).st_mode)
def linkat(folder, old, new, flags):
    if libc.linkat(folder, old.encode(), -100, new.encode(), flags) != 0:
        raise OSError(ctypes.get_errno(), new)
    return os.lstat(new).st_nlink
def without_descriptors(path):
    _, most = limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    file = os.open(".", os.O_PATH)
    resource.setrlimit(resource.RLIMIT_NOFILE, (file + 1, most))
    try:
        os.open(path, os.O_CREAT | os.O_EXCL)
    except OSError as error:
        return error.errno == errno.EMFILE and os.path.lexists(path)
    finally:
        os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)
def nameless(path, by):
    file = os.open(os.path.dirname(path) or ".", os.O_TMPFILE | os.O_RDWR)
    return linkat(-100, f"{by}/{file}", path, 0x400)
os.umask(0o027)
for path in ("plain", "sub/plain"):
    say("open", lambda: os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o767)) or mode(path))
    say("again", lambda: os.close(os.open(path, os.O_CREAT | os.O_RDWR)))
    say("appended", lambda: os.write(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND), b"xy"))
    say("flags", lambda: oct(fcntl.fcntl(os.open(path, os.O_CREAT | os.O_RDONLY), fcntl.F_GETFL)))
    more = os.O_CREAT | os.O_RDWR | os.O_NONBLOCK
    say("flags", lambda: oct(fcntl.fcntl(os.open(path, more), fcntl.F_GETFL)))
    say("truncated", lambda: os.fstat(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)).st_size)
    say("read-only", lambda: os.chmod(path, 0o400))
    say("written", lambda: os.close(os.open(path, os.O_CREAT | os.O_WRONLY)))
    say("read", lambda: os.read(os.open(path, os.O_CREAT | os.O_RDONLY), 9))
    say("as before", lambda: os.chmod(path, 0o740))
    say("a directory", lambda: os.open(os.path.dirname(path) or ".", os.O_CREAT))
    say("exclusive", lambda: os.open(path, os.O_CREAT | os.O_EXCL))
    say("slash", lambda: os.open(path + "/", os.O_CREAT))
    say("slash, new", lambda: os.open(path + "-new/", os.O_CREAT))
    say("below a file", lambda: os.open(path + "/x", os.O_CREAT))
    say("nowhere", lambda: os.open(path + "-none/x", os.O_CREAT))
    say("directory", lambda: os.open(path + "-d", os.O_CREAT | os.O_DIRECTORY))
    say("path", lambda: os.open(path + "-d", os.O_CREAT | os.O_PATH))
    say("cloexec", lambda: os.get_inheritable(os.open(path + "-c", os.O_CREAT)))
    say("mkdir", lambda: os.mkdir(path + "-m", 0o1777) or mode(path + "-m"))
    say("mkdir again", lambda: os.mkdir(path + "-m"))
    say("mkdir dot", lambda: os.mkdir(path + "-m/."))
    say("mknod", lambda: os.mknod(path + "-n", 0o100666) or mode(path + "-n"))
    say("device", lambda: os.mknod(path + "-dev", stat.S_IFCHR | 0o666, os.makedev(1, 3)))
    say("fifo", lambda: os.mkfifo(path + "-f", 0o666) or mode(path + "-f"))
    say("symlink", lambda: os.symlink("nothing", path + "-s") or os.readlink(path + "-s"))
    say("symlink again", lambda: os.symlink("nothing", path + "-s"))
    say("no follow", lambda: os.open(path + "-s", os.O_CREAT | os.O_NOFOLLOW))
    say("loop", lambda: os.symlink("loop", path + "-l"))
    say("link", lambda: os.link(path, path + "-2") or os.lstat(path).st_nlink)
    say("link again", lambda: os.link(path, path + "-2"))
    say("link nothing", lambda: os.link(path + "-none", path + "-3"))
    say("link a directory", lambda: os.link(path + "-m", path + "-3"))
    say("absolute link", lambda: os.symlink(os.path.abspath(path), path + "-a"))
    say("link what is behind it", lambda: linkat(-100, path + "-a", path + "-6", 0x400))
    say("link it", lambda: linkat(-100, path + "-a", path + "-7", 0))
    say("link outside", lambda: os.symlink("/etc/passwd", path + "-o"))
    for by in ("/proc/self/fd", "/proc/thread-self/fd", "/dev/fd"):
        say(by, lambda: nameless(path + by.replace("/", "-"), by))
    say("no descriptor left", lambda: without_descriptors(path + "-e"))
    say("rename", lambda: os.rename(path + "-2", path + "-4") or mode(path + "-4"))
    say("rename nothing", lambda: os.rename(path + "-none", path + "-5"))
    say("rename over", lambda: os.rename(path + "-4", path + "-c") or os.path.lexists(path + "-4"))
    say("rename onto a directory", lambda: os.rename(path, path + "-m"))
    say("rename a directory onto a file", lambda: os.rename(path + "-m", path))
    say("rename into itself", lambda: os.rename(path + "-m", path + "-m/x"))
    say("unlink", lambda: os.unlink(path + "-f"))
    say("rmdir", lambda: os.rmdir(path + "-m"))
    say("long", lambda: os.open(path + "n" * 300, os.O_CREAT))
    say("written", lambda: open(path, "a").write("x"))
"""


CAPABILITIES = ("--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all")
WITHOUT_CAPABILITIES = ("setpriv", *CAPABILITIES) if os.geteuid() == 0 else ()


def test_other_names_are_created_as_by_the_kernel(outside: Project, tmp_path: Path) -> None:
    """In the closed directory and in one below, the results are the same as without a sandbox."""
    found = outside.run("/usr/bin/python3", "-c", SAME)
    assert found.returncode == 0, found.stderr.decode()
    lines = found.stdout.decode().splitlines()
    (tmp_path / "bare/sub").mkdir(parents=True)
    bare = subprocess.run(
        (*WITHOUT_CAPABILITIES, "/usr/bin/python3", "-c", SAME),
        cwd=tmp_path / "bare", capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    assert lines == bare.stdout.decode().splitlines()
    assert len(lines) == 2 * 51


ACCESS_LIST = struct.pack("<I" + 3 * "HHI", 2, 1, 7, 2**32 - 1, 4, 7, 2**32 - 1, 0x20, 5, 2**32 - 1)
"""For directories: rwxrwxr-x for new entries (acl(5), linux/posix_acl_xattr.h)."""


def test_a_default_access_list_replaces_the_mask(outside: Project) -> None:
    """The kernel does the same (umask(2))."""
    try:
        os.setxattr(outside.root, "system.posix_acl_default", ACCESS_LIST)
    except OSError as error:
        pytest.skip(str(error))
    words = "umask 077; : >file; mkdir folder; mkfifo fifo; stat -c %a file folder fifo"
    found = outside.run("sh", "-c", words).stdout.decode().split()
    assert found == ["664", "775", "664"]


PARALLEL = """
import errno, os, threading
wrong = []
def folder(path):
    try:
        os.mkdir(path)
    except FileNotFoundError:
        folder(os.path.dirname(path))
        folder(path)
    except FileExistsError:
        pass
    except OSError as error:
        wrong.append(error)
for turn in range(400):
    threads = [threading.Thread(target=folder, args=(f"new{turn}/{each}",)) for each in range(4)]
    [each.start() for each in threads]
    [each.join() for each in threads]
print(wrong[:1], len(wrong))
"""


def test_a_parent_that_another_thread_makes(outside: Project) -> None:
    """npm does this: the call fails with ENOENT, or succeeds."""
    assert outside.run("/usr/bin/python3", "-c", PARALLEL).stdout.decode() == "[] 0\n"


REMOVED = """
import errno, os, threading
wrong, opened = [], []
def work():
    for _ in range(1000):
        try:
            os.close(os.open("file", os.O_CREAT | os.O_RDWR | os.O_APPEND))
            opened.append(1)
        except OSError as error:
            wrong.append(error)
        try:
            os.unlink("file")
        except FileNotFoundError:
            pass
threads = [threading.Thread(target=work) for _ in range(4)]
[each.start() for each in threads]
[each.join() for each in threads]
print(wrong[:1], len(wrong), len(opened))
"""


def test_a_file_that_another_thread_removes(outside: Project) -> None:
    """Examples are lock files, and SQLite's `-shm`."""
    assert outside.run("/usr/bin/python3", "-c", REMOVED).stdout.decode() == "[] 0 4000\n"


@pytest.fixture
def folding(outside: Project) -> Iterator[Project]:
    """A file system whose comparison of names the launcher does not know."""
    if os.geteuid() != 0 or not Path("/dev/fuse").exists() or shutil.which("bindfs") is None:
        pytest.skip("needs root, /dev/fuse and bindfs")
    source = outside.root.with_name("source")
    outside.root.rename(source)
    outside.root.mkdir()
    subprocess.run(("bindfs", source, outside.root), check=True, timeout=30)
    yield outside
    subprocess.run(("umount", outside.root), check=True, timeout=30)


def test_names_that_may_be_folded(folding: Project) -> None:
    """Other characters may equal any (the Kelvin sign folds to a k), and short names any name."""
    refused = (
        "secrets",
        "SECRETS. ",
        "\u017fecrets",
        "secre\u200dts",
        ".\uff42ashrc",
        "SECRET~1",
        ".vscod\xe9",
    )
    allowed = ("r\xe9sum\xe9", "file~", "~lock.file#", "secret\xe9.txt", "\u65e5\u672c.txt", "a.")
    ran = folding.run(
        "sh", "-c", 'for each; do touch "$each" && echo "$each"; done 2>/dev/null', "sh", *refused, *allowed
    )
    assert ran.stdout.decode().splitlines() == list(allowed)


OPENAT2 = """
import ctypes, errno, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
for path in ("new", ".bashrc", "sub/new", "sandbox.yaml"):
    flags = os.O_CREAT * (path != "sandbox.yaml")
    file = libc.syscall(437, -100, path.encode(), struct.pack("QQQ", flags, 0o600 if flags else 0, 0), 24)
    print("made" if file >= 0 else errno.errorcode[ctypes.get_errno()])
"""


def test_openat2(outside: Project) -> None:
    """Here the filter answers as a kernel without it, for which callers are prepared."""
    ran = outside.run("/usr/bin/python3", "-c", OPENAT2, options=("--set", "process.seccomp=build"))
    assert ran.stdout.decode().split() == ["ENOSYS", "EACCES", "made", "made"]


def test_new_directories_are_used(outside: Project) -> None:
    """They have no rule: the supervisor creates all names in them and below."""
    ran = outside.run(
        "sh", "-ec",
        "mkdir -p new/a/b; echo 1 >new/a/b/f; cp -r new copy; mv new/a up; mv copy/a/b/f .; "
        "git init -q nested; git -C nested -c user.name=n -c user.email=e commit -q --allow-empty -m x; "
        "tar cf - up | tar xf - -C copy; ln -s up/b link; echo 2 >link/g; "
        "find . -name .git -prune -o -type f -print",
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr.decode()
    found = set(ran.stdout.decode().split()) - {"./sandbox.yaml", "./nested"}
    assert found == {"./f", "./up/b/f", "./up/b/g", "./copy/up/b/f"}


def test_mount_points_are_not_moved(outside: Project) -> None:
    """The kernel would let the supervisor move a mount point of another mount namespace."""
    (outside.root / ".vscode").mkdir()
    (outside.root / ".vscode/settings.json").write_text("mine\n")
    (outside.root / ".envrc").write_text("mine\n")
    ran = outside.run(
        "sh", "-c",
        "mv .vscode away; mv .envrc away; mv .git away; echo x >plain; mv plain .envrc; mv -T sub .vscode; "
        "echo theirs >.envrc; echo theirs >.vscode/settings.json; ls -A",
    )  # fmt: skip
    assert {".vscode", ".envrc", ".git"} <= set(ran.stdout.decode().split())
    assert "away" not in ran.stdout.decode()
    assert (
        (outside.root / ".envrc").read_text()
        == (outside.root / ".vscode/settings.json").read_text()
        == "mine\n"
    )


def test_what_the_host_makes_meanwhile(outside: Project) -> None:
    """A new directory of the host can be used, and one with a restricted name cannot."""
    words = (
        "touch started; until [ -e go ]; do sleep 0.1; done; "
        "echo x >theirs/file; echo x >.vscode/tasks.json; true"
    )
    with outside.start("sh", "-c", words) as process:
        for _ in range(300):
            if (outside.root / "started").exists():
                break
            time.sleep(0.1)
        for name in ("theirs", ".vscode", "go"):
            (outside.root / name).mkdir()
        errors = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 0, errors
    assert (outside.root / "theirs/file").read_text() == "x\n"
    assert not (outside.root / ".vscode/tasks.json").exists()


LINKS = """
import os, sys
names, open_ = sys.argv[1:], os.open("started", os.O_CREAT)
while not os.path.exists("go"):
    for name in names:
        try:
            os.symlink("sub/theirs", f"{name}/link")
        except OSError:
            pass
"""


def test_links_in_what_the_host_makes_meanwhile(outside: Project) -> None:
    """This holds before the launcher hides it, too."""
    made = (".vscode", ".idea", ".husky", ".cursor", ".devcontainer")
    with outside.start("/usr/bin/python3", "-c", LINKS, *made) as process:
        for _ in range(300):
            if (outside.root / "started").exists():
                break
            time.sleep(0.1)
        for name in made:
            (outside.root / name).mkdir()
            time.sleep(0.1)
        (outside.root / "go").touch()
        errors = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 0, errors
    assert not [name for name in made if os.listdir(outside.root / name)]  # noqa: PTH208 - names


UNABLE = {
    "below a private directory": ("--method", "bwrap"),
    "another method": ("--method", "oci"),
    "a filter from a file": ("--set", "process.seccomp=FILTER"),
}


@pytest.mark.parametrize("options", UNABLE.values(), ids=UNABLE.keys())
def test_where_it_is_not_possible(project: Project, options: tuple[str, ...]) -> None:
    """It is an error, and not ignored."""
    project.policy.write_text(POLICY)
    (project.root / "filter.json").write_text('{"defaultAction": "SCMP_ACT_ALLOW", "architectures": []}\n')
    (project.root / "deep").mkdir()
    project.environment |= {"SANDWRIGHT_TRUST": "1"}
    filter_file = str(project.root / "filter.json")
    ran = project.run("true", options=tuple(word.replace("FILTER", filter_file) for word in options))
    assert ran.returncode == 125
    assert b"filesystem.placeholders: false" in ran.stderr, ran.stderr.decode()


def test_a_strangers_policy_needs_approval(outside: Project) -> None:
    outside.environment["SANDWRIGHT_TRUST"] = ""
    ran = outside.run("true")
    assert ran.returncode == 125
    assert b"filesystem.placeholders false" in ran.stderr


REPOSITORY = r"""
import os, socket, time
if os.path.exists(".git/HEAD"):
    os.rename(".git/HEAD", ".git/gone")
def make(name):
    for way in (os.mkdir, lambda name: socket.socket(socket.AF_UNIX).bind(name)):
        try:
            return way(name)
        except OSError:
            pass
make("objects"), make("refs")
try:
    open("HEAD", "w").write("ref: refs/heads/main\n")
except OSError:
    make("HEAD")
program = f"touch '{os.getcwd()}/ran'; false"
open("config", "w").write(
    f'[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n\tfsmonitor = "{program}"\n'
)
print("up", flush=True)
while not os.path.exists("go"):
    time.sleep(0.05)
"""


@pytest.mark.parametrize(
    ("protected", "there"),
    representative(
        covering([True, False], ["", "HEAD", "refs", "objects"], thorough=True),
        *("True-", "True-HEAD", "True-refs", "True-objects", "False-"),
    ),
)
def test_sockets_make_no_repository(outside: Project, there: str, protected: bool) -> None:
    """Git only checks whether `objects` and `refs` can be searched. The control: unprotected, it works."""
    if there:
        (outside.root / there).touch()
        (outside.root / there).chmod(0o755)
    lifted = "" if protected else "  unprotect: [{path: $PROJECT/HEAD, reason: the control}]\n"
    outside.policy.write_text(POLICY + lifted)
    status = ("git", "-C", str(outside.root), "status")
    with outside.start("/usr/bin/python3", "-c", REPOSITORY) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        subprocess.run(status, check=False, timeout=30, env=outside.environ)
        (outside.root / "go").touch()
        process.communicate(timeout=60)
    subprocess.run(status, check=False, timeout=30, env=outside.environ)
    assert (outside.root / "ran").exists() is not protected


def test_denied_names_keep_their_placeholders(outside: Project) -> None:
    """The host can't create them during the run either."""
    outside.policy.write_text(
        POLICY.replace("protect: [..., secrets,", "deny: [$PROJECT/denied]\n  protect: [..., secrets,")
    )
    ran = outside.run("sh", "-c", "ls -A; mkdir denied")
    assert "denied" in ran.stdout.decode().split()
    assert ".bashrc" not in ran.stdout.decode().split()
    assert ran.returncode != 0


def test_without_landlock_nothing_starts(outside: Project, tmp_path: Path) -> None:
    """The launcher was rendered on another host."""
    shown = outside.sandwright("render", "--out", str(tmp_path / "out"))
    assert shown.returncode == 0, shown.stderr.decode()
    launch = next((tmp_path / "out").rglob("launch"))
    words = ("/usr/bin/python3", "-c", WITHOUT_LANDLOCK, str(launch), "true")
    ended = subprocess.run(
        words, cwd=outside.root, env=outside.environ, capture_output=True, timeout=60, check=False
    )
    assert ended.returncode == 125
    assert b"no Landlock" in ended.stderr or b"which this kernel lacks" in ended.stderr, ended.stderr
    with contextlib.suppress(FileNotFoundError):
        (outside.root / "started").unlink()


WITHOUT_LANDLOCK = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None)
words = [(0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x50000 | 38), (0x06, 0, 0, 0x7fff0000)]
code = b"".join(struct.pack("HBBI", *each) for each in words)
buffer = ctypes.create_string_buffer(code)
program = struct.pack("HxxxxxxP", len(words), ctypes.addressof(buffer))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""
