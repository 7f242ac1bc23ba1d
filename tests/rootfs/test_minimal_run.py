"""Minimal roots of real programs, run: Python and git of this machine's distribution, from its packages.

The image is made of the files of installed Debian packages, so no network is needed; on other distributions
these tests skip. Each proof has its counter-proof: an omitted file makes the run fail.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sandwright import process
from sandwright.errors import BuildError, CommandFailed
from sandwright.rootfs.bundles.assemble import BundleReport, bundle
from sandwright.rootfs.bundles.convert import BundleOptions
from sandwright.rootfs.images.source import open_image
from sandwright.rootfs.minimal.minimal import MinimalOptions, write_minimal_bundle
from sandwright.rootfs.minimal.trace import TracedCommand, trace
from sandwright.rootfs.minimal.trial import try_minimal
from sandwright.rootfs.securejoin import Root
from support import layouts
from support.processtrees import naming
from support.small_image import UID, make_small_image
from support.thorough import representative
from support.waiting import eventually

PACKAGES = ("python3", "git", "ca-certificates", "bash", "coreutils")
GROUND = (
    "etc/passwd",
    "etc/group",
    "etc/nsswitch.conf",
    "etc/ld.so.cache",
    "etc/ssl/certs/ca-certificates.crt",
)
LIMIT = 60.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs("dpkg-query", "git", "tar"),
    pytest.mark.skipif(os.geteuid() != 0, reason="the image's files belong to root"),
    pytest.mark.timeout(280),
]

PYTHON = [
    "/usr/bin/python3",
    "-c",
    "import ssl, json, hashlib; print(json.dumps(len(ssl.create_default_context().get_ca_certs()) > 50))",
]
COMMIT = """
set -e
cd /tmp
git init -q work && cd work
echo content > file
git add file
git -c user.name=a -c user.email=a@example.com commit -q -m message
git log --format=%s
git --version
"""


def _installed(names: tuple[str, ...]) -> set[str]:
    """The packages, and all installed ones that they need."""
    form = "${Package}\t${Depends},${Pre-Depends}\n"
    rows = process.run("dpkg-query", "-W", "-f", form, timeout=30).text.splitlines()
    needs = {row.split("\t")[0]: row.partition("\t")[2] for row in rows}
    found: set[str] = set()
    ahead = list(names)
    while ahead:
        name = ahead.pop()
        if name in needs and name not in found:
            found.add(name)
            ahead += [
                part.strip().split(" ")[0].split(":")[0] for part in needs[name].replace("|", ",").split(",")
            ]
    return found


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image of Debian packages that are installed here, with their dpkg database."""
    if not all(Path(f"/var/lib/dpkg/info/{name}.list").exists() for name in ("python3", "git")):
        pytest.skip("python3 and git are not installed as Debian packages")
    folder = tmp_path_factory.mktemp("image")
    packages = _installed(PACKAGES)
    listed = process.run("dpkg-query", "-L", *sorted(packages), timeout=60).text.splitlines()
    info = [
        path
        for name in packages
        for path in Path("/var/lib/dpkg/info").glob(f"{name}*.list")
        if path.stem.split(":")[0] == name
    ]
    names = {line for line in listed if line.startswith("/") and os.path.lexists(line) and line != "/."}
    names |= {f"/{name}" for name in GROUND if Path("/", name).exists()} | {str(path) for path in info}
    names |= {
        "/var/lib/dpkg/status",
        *(name for name in ("/bin", "/lib", "/lib64", "/sbin") if Path(name).is_symlink()),
    }
    (folder / "names").write_text("\n".join(sorted(name[1:] for name in names)) + "\n")
    process.run(
        "tar", "-C", "/", "--no-recursion", "-T", folder / "names", "-cf", folder / "layer.tar", timeout=120
    )
    return layouts.simple(folder / "layout", (folder / "layer.tar").read_bytes(), config={"Cmd": ["bash"]})


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


def under_runc(report: BundleReport, tmp_path: Path) -> process.Result:
    """Run the bundle unchanged."""
    words = ["runc", "--root", str(tmp_path / "state")]
    name = f"sandwright-test-{uuid.uuid4().hex}"
    try:
        return process.run(*words, "run", "--bundle", report.bundle, name, timeout=LIMIT, check=False)
    finally:
        process.run(*words, "delete", "--force", name, timeout=30, check=False)


def under_bwrap(report: BundleReport, tmp_path: Path) -> process.Result:
    """Run the command over the bundle's root, with the bundle's environment."""
    config = json.loads((report.bundle / "config.json").read_text())
    words = [
        "bwrap",
        "--unshare-all",
        "--die-with-parent",
        "--ro-bind",
        str(report.rootfs),
        "/",
        "--proc",
        "/proc",
    ]
    words += ["--dev", "/dev", "--tmpfs", "/tmp", "--clearenv"]
    for entry in config["process"]["env"]:
        words += ["--setenv", *entry.split("=", 1)]
    return process.run(*words, *config["process"]["args"], timeout=LIMIT, check=False)


RUNNERS = [
    pytest.param(under_runc, marks=pytest.mark.needs("runc"), id="runc"),
    pytest.param(under_bwrap, marks=pytest.mark.needs("bwrap"), id="bwrap"),
]
RUNTIMES = pytest.mark.parametrize("run", RUNNERS)
Runner = Callable[[BundleReport, Path], process.Result]


@pytest.mark.parametrize("run", representative(RUNNERS, "bwrap"))
def test_python_and_git_run_from_a_minimal_root(
    run: Runner, image: Path, store: Path, tmp_path: Path
) -> None:
    wanted = ["/usr/bin/python3", "/usr/bin/git", "bash"]
    report = bundle(image, tmp_path / "one", store=store, minimal=wanted, command=PYTHON)
    result = run(report, tmp_path)
    assert (result.status, result.text) == (0, "true"), result.stderr
    report = bundle(image, tmp_path / "two", store=store, minimal=wanted, command=["bash", "-c", COMMIT])
    result = run(report, tmp_path)
    assert result.status == 0, result.stderr
    subject, version = result.text.splitlines()
    assert subject == "message"
    assert version.startswith("git version ")
    assert report.sizes is not None
    full, minimal = report.sizes
    assert minimal.files < full.files * 0.6
    assert minimal.bytes < full.bytes * 0.75
    assert not report.changed or (report.rootfs / "usr/bin/git").exists()


@RUNTIMES
def test_what_was_not_asked_for_is_not_there(run: Runner, image: Path, store: Path, tmp_path: Path) -> None:
    script = (
        "[ -e /usr/bin/python3 ] && echo python; [ -e /usr/bin/ls ] && echo ls; "
        "[ -e /bin/bash ] && [ -e /usr/bin/bash ] && echo bash"
    )
    report = bundle(image, tmp_path / "b", store=store, minimal=["bash"], command=["bash", "-c", script])
    assert run(report, tmp_path).text == "bash"
    full = bundle(image, tmp_path / "full", store=store, command=["bash", "-c", script])
    assert run(full, tmp_path).text.split() == ["python", "ls", "bash"]


@pytest.mark.needs("bwrap")
def test_taking_one_kept_library_away_breaks_it(image: Path, store: Path, tmp_path: Path) -> None:
    report = bundle(image, tmp_path / "b", store=store, minimal=["/usr/bin/python3"], command=PYTHON)
    copy = tmp_path / "copy"
    shutil.copytree(report.rootfs, copy, symlinks=True)
    damaged = BundleReport(**{**report.__dict__, "rootfs": copy})
    assert under_bwrap(damaged, tmp_path).text == "true"
    (library,) = {path.resolve() for path in copy.rglob("libssl.so.*")}
    library.unlink()
    result = under_bwrap(damaged, tmp_path)
    assert result.status == 1
    assert "libssl.so" in result.stderr
    assert "cannot open shared object file" in result.stderr


def test_every_kept_file_leads_back_to_what_was_asked(image: Path, store: Path, tmp_path: Path) -> None:
    report = bundle(image, tmp_path / "b", store=store, minimal=["/usr/bin/git"])
    why = json.loads((report.bundle / "why.json").read_text())["kept"]
    for path in why:
        seen, current = set(), path
        while "by" in why[current][0]:
            assert current not in seen, f"{path} is kept because of itself"
            seen.add(current)
            current = why[current][0]["by"]
        assert why[current][0]["kind"] in ("asked", "declared"), path
    kinds = {rows[0]["kind"] for rows in why.values()}
    assert {"asked", "interpreter", "needed", "package", "rule"} <= kinds


@pytest.mark.needs("strace", "bwrap")
@pytest.mark.parametrize("program", ["python3", "git"])
def test_nothing_that_a_run_opens_was_left_out(
    program: str, image: Path, store: Path, tmp_path: Path
) -> None:
    """The static closure is compared with the kernel's record."""
    argv = {"python3": PYTHON, "git": ["/usr/bin/git", "init", "/tmp/x"]}[program]
    report = bundle(image, tmp_path / "b", store=store, minimal=[program, "bash"])
    kept = set(json.loads((report.bundle / "why.json").read_text())["kept"])
    full = bundle(image, tmp_path / "full", store=store)
    seen = trace(
        full.rootfs, TracedCommand(tuple(argv), {"PATH": "/usr/bin:/bin", "HOME": "/tmp"}), timeout=LIMIT
    )
    with Root(full.rootfs) as root:
        places = [root.locate(path) for path in seen.used]
    used = {place.path.decode() for place in places if place.is_file}
    assert len(used) > 10
    assert used - kept == set()


# Traced runs.

CURL = "libcurl-gnutls.so.4"
LATE = ["/usr/bin/python3", "-c", f"import ctypes; ctypes.CDLL('{CURL}'); print('loaded')"]


@pytest.mark.needs("strace", "bwrap")
def test_library_loaded_at_run_time_is_found_by_a_traced_run(
    image: Path, store: Path, tmp_path: Path
) -> None:
    plain = bundle(image, tmp_path / "plain", store=store, minimal=["python3"], command=LATE)
    assert CURL in under_bwrap(plain, tmp_path).stderr
    assert any("loaded at run time" in each.about for each in plain.questions)
    traced = bundle(image, tmp_path / "traced", store=store, minimal=["python3"], command=LATE, trace=[LATE])
    assert under_bwrap(traced, tmp_path).text == "loaded"
    assert any(CURL in path for path in traced.loaded_late)
    assert not any("libssl" in path for path in traced.loaded_late), "that one is needed by a file's header"


@pytest.mark.needs("strace", "bwrap")
def test_traced_run_sees_children_links_and_relative_paths(image: Path, store: Path, tmp_path: Path) -> None:
    full = bundle(image, tmp_path / "full", store=store)
    script = "cd /usr/share; (cd git-core && [ -e templates ]); read line < ../../etc/passwd; "
    script += "/usr/bin/python3 -Sc '' ; ls perl5"
    seen = trace(full.rootfs, TracedCommand(("bash", "-c", script), {"PATH": "/usr/bin"}, "/"), timeout=LIMIT)
    with Root(full.rootfs) as root:
        used = {root.locate(path).path for path in seen.used}
    assert {b"/usr/share/git-core/templates", b"/etc/passwd", b"/usr/share/perl5"} <= used
    assert any(path.startswith(b"/usr/bin/python3.") for path in used)
    assert b"/usr/share/perl5" in seen.listed
    assert not [path for path in used if path.startswith((b"/newroot", b"/oldroot"))], "what bwrap did"


@pytest.mark.needs("strace", "bwrap")
def test_traced_run_starts_in_the_root_where_the_home_is_closed(tmp_path: Path) -> None:
    """The home is that of distroless' user, whom the namespace does not map."""
    rootfs = make_small_image(tmp_path).rootfs
    home = rootfs / "home/other"
    home.mkdir(parents=True, mode=0o700)
    os.chown(home, UID, UID)
    script = "import os; assert os.getcwd() == '/'; open('/etc/passwd')"
    run = TracedCommand(("python3", "-c", script), {"PATH": "/usr/bin"}, "/home/other", (UID, UID))
    assert b"/etc/passwd" in trace(rootfs, run, timeout=LIMIT).used


@pytest.mark.needs("strace", "bwrap")
def test_traced_run_that_fails_proves_nothing(image: Path, store: Path, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"(?s)the traced run of bash -c .* ended with 3.*reason"):
        bundle(
            image,
            tmp_path / "b",
            store=store,
            minimal=["bash"],
            trace=[["bash", "-c", "echo reason >&2; exit 3"]],
        )


@pytest.mark.needs("strace", "bwrap")
def test_traced_run_ends_with_its_time_and_leaves_no_process(
    image: Path, store: Path, tmp_path: Path
) -> None:
    full = bundle(image, tmp_path / "full", store=store)
    seconds = f"9{uuid.uuid4().int % 10**9}"
    with pytest.raises(CommandFailed, match="did not end within 3 s"):
        trace(
            full.rootfs,
            TracedCommand(("bash", "-c", f"sleep {seconds} & sleep {seconds}"), {"PATH": "/usr/bin"}),
            timeout=3,
        )
    eventually(lambda: not naming(seconds), within=10)
    assert naming(seconds) == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="the devices are root's")
@pytest.mark.needs("strace", "bwrap")
def test_a_program_of_the_image_can_not_change_devices_of_the_host(
    image: Path, store: Path, tmp_path: Path
) -> None:
    """Neither tracing nor the run of the result permits it."""
    device = Path("/dev/full")
    mode = device.stat().st_mode & 0o777
    command = ("bash", "-c", "! chmod 0662 /dev/full && echo x >/dev/null")
    wanted = MinimalOptions(("bash",), keep=("/usr/bin/chmod",), trace=(command,))
    try:
        assert len(_tried(image, store, tmp_path / "b", wanted, command)) == 3
        assert device.stat().st_mode & 0o777 == mode
    finally:
        device.chmod(mode)


@pytest.mark.needs("strace", "bwrap")
def test_traced_run_can_not_write_to_the_root_or_reach_a_network(
    image: Path, store: Path, tmp_path: Path
) -> None:
    full = bundle(image, tmp_path / "full", store=store)
    script = """
    echo x > /etc/new
    [ -e /etc/new ] && exit 9
    while read name rest; do case $name in Inter-*|face|lo:) ;; *) exit 8;; esac; done < /proc/net/dev
    while read name count; do [ "$name" = Seccomp: ] && [ "$count" != 2 ] && exit 7; done < /proc/self/status
    echo x > /tmp/new && [ -e /tmp/new ]
    """
    trace(full.rootfs, TracedCommand(("bash", "-c", script), {"PATH": "/usr/bin"}), timeout=LIMIT)
    assert not (full.rootfs / "etc/new").exists()


def test_settings_reach_the_minimal_bundle(image: Path, store: Path, tmp_path: Path) -> None:
    report = bundle(
        image,
        tmp_path / "b",
        store=store,
        minimal=["bash"],
        settings=BundleOptions(hostname="small", cwd="/tmp"),
    )
    config = json.loads((report.bundle / "config.json").read_text())
    assert (config["hostname"], config["process"]["cwd"], config["process"]["args"]) == (
        "small",
        "/tmp",
        ["bash"],
    )


def _tried(
    image: Path, store: Path, bundle: Path, wanted: MinimalOptions, *checks: tuple[str, ...]
) -> list[str]:
    opened = open_image(image)
    made = write_minimal_bundle(opened, bundle, wanted, store=store)
    return list(try_minimal(opened, made, wanted, checks))


@pytest.mark.needs("bwrap")
def test_the_result_is_run(image: Path, store: Path, tmp_path: Path) -> None:
    wanted = MinimalOptions(("/usr/bin/git", "bash"), trace=(("git", "--exec-path"),))
    lines = _tried(image, store, tmp_path / "b", wanted, ("bash", "-c", "git init -q /tmp/a && echo made"))
    version = process.run("git", "--version").text
    assert lines[0] == f"tried: /usr/bin/git --version: {version}"
    assert lines[1].startswith("tried: /usr/bin/bash --version: GNU bash")
    assert lines[2].startswith("tried: git --exec-path: /usr/lib/git-core")
    assert lines[3].endswith(": made")


@pytest.mark.needs("bwrap")
def test_a_result_that_does_not_start_is_an_error(image: Path, store: Path, tmp_path: Path) -> None:
    wanted = MinimalOptions(("/usr/bin/git",), drop=("/usr/lib/**/libpcre2*",))
    with pytest.raises(BuildError) as caught:
        _tried(image, store, tmp_path / "b", wanted)
    assert str(caught.value).startswith("in the minimal root, /usr/bin/git --version ended with 127: ")
    assert "in the full image, it ended with 0: git version" in str(caught.value)


@pytest.mark.needs("bwrap")
def test_a_check_that_fails_is_an_error(image: Path, store: Path, tmp_path: Path) -> None:
    wanted = MinimalOptions(("/usr/bin/git",))
    with pytest.raises(BuildError, match=r"in the minimal root, git log ended with 128: fatal: not a git"):
        _tried(image, store, tmp_path / "b", wanted, ("git", "log"))


@pytest.mark.needs("bwrap")
def test_a_program_that_refuses_the_option_does_so_in_both_roots(
    image: Path, store: Path, tmp_path: Path
) -> None:
    (line,) = _tried(image, store, tmp_path / "b", MinimalOptions(("/usr/bin/false",)))
    assert line.startswith("tried: /usr/bin/false --version: ")


@pytest.mark.needs("bwrap")
def test_what_can_not_be_started_at_all_is_an_error(image: Path, store: Path, tmp_path: Path) -> None:
    """An example is another processor without an emulator: equal failures would prove nothing."""
    opened, wanted = open_image(image), MinimalOptions(("/usr/bin/git",))
    made = write_minimal_bundle(opened, tmp_path / "b", wanted, store=store)
    elsewhere = replace(made, full_path=tmp_path / "none")
    elsewhere.full_path.joinpath("etc").mkdir(parents=True)
    with pytest.raises(BuildError, match=r"cannot start .* here, even in the full image"):
        list(try_minimal(opened, elsewhere, wanted, ()))
