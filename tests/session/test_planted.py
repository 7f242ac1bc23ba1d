"""Files that the next start of sandwright would load or run: no sandbox can plant one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

import sandwright
from sandwright import Policy
from session.conftest import SANDWRIGHT, WAIT, Project
from support.thorough import THOROUGH, representative

pytestmark = [pytest.mark.needs("bwrap"), pytest.mark.real_start]

POLICY = "schema: 1\nmethod: bwrap\nfilesystem:\n  write: [$PROJECT]\n"
SCRIPT = "from sandwright.cli import main; main()"


@pytest.fixture
def installed(project: Project) -> Path:
    """The program `sandwright` in an environment inside the project."""
    project.policy.write_text(POLICY)
    return _environment(project.root / ".venv")


def _environment(folder: Path) -> Path:
    venv.create(folder, with_pip=False, symlinks=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    places = {sysconfig.get_path("purelib"), str(Path(sandwright.__file__).parents[1])}
    (packages / "theirs.pth").write_text("".join(f"{each}\n" for each in places))
    program = folder / "bin" / "sandwright"
    program.write_text(f"#!{folder}/bin/python\n{SCRIPT}\n")
    program.chmod(0o755)
    return program


def _call(project: Project, *words: str | Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        words,
        capture_output=True,
        timeout=WAIT,
        check=False,
        cwd=project.root,
        env=project.environ | environment,
        stdin=subprocess.DEVNULL,
    )


ACTS = {
    "module and pth": (
        'echo \'open("{evil}", "w")\' >{packages}/own.py; echo import own >{packages}/own.pth'
    ),
    "pth": 'echo \'import sys; open("{evil}", "w")\' >{packages}/evil.pth',
    "module beside the script": 'echo \'open("{evil}", "w")\' >.venv/bin/sandwright.py',
    "program": "printf '#!/bin/sh\\n: >{evil}\\n' >.venv/bin/sandwright",
    "interpreter": (
        "rm .venv/bin/python; printf '#!/bin/sh\\n: >{evil}\\n' >.venv/bin/python; chmod +x .venv/bin/python"
    ),
    "moved": "mv .venv moved; cp -r moved .venv; printf '#!/bin/sh\\n: >{evil}\\n' >.venv/bin/sandwright",
}


def _content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_an_environment_in_the_project_is_read_only_inside(project: Project, installed: Path) -> None:
    """Each act leaves the environment unchanged, for the next act, too."""
    evil = project.home / "evil"
    packages = next((project.root / ".venv").glob("lib/python*/site-packages"))
    before = _content(project.root / ".venv")
    acts = [f"({act.format(evil=evil, packages=packages)})" for act in ACTS.values()]
    for script in ("; ".join(acts), "; ".join(reversed(acts))):  # rendered first, then cached
        ended = _call(project, installed, "run", "--", "sh", "-c", f"{script}; echo >written")
        assert (project.root / "written").exists(), ended.stderr
        (project.root / "written").unlink()
        assert _content(project.root / ".venv") == before
    assert _call(project, installed, "--version").returncode == 0
    assert not evil.exists()
    assert not (project.root / "moved").exists()


def test_what_is_rendered_keeps_it_too(project: Project, installed: Path) -> None:
    assert _call(project, installed, "render").returncode == 0
    launch = project.root / ".sandbox" / "bwrap" / "launch"
    assert _call(project, launch, "touch", ".venv/x").returncode != 0
    assert not (project.root / ".venv" / "x").exists()
    told = _call(project, installed, "facts").stdout
    assert f'"{project.root}/.venv"'.encode() in told


def test_an_environment_behind_a_link_in_the_project(project: Project, installed: Path) -> None:
    (project.root / ".venv").rename(project.home / "venv")
    (project.root / ".venv").symlink_to(project.home / "venv")
    ended = _call(project, installed, "run", "--", "true")
    assert ended.returncode == 125
    assert f"the policy lets {project.root}/.venv be written".encode() in ended.stderr


def test_an_environment_that_is_the_project(project: Project) -> None:
    project.policy.write_text(POLICY)
    program = _environment(project.root)
    for words in (("run", "--", "true"), ("render",)):
        ended = _call(project, program, *words)
        assert ended.returncode != 0
        said = f"the policy lets {project.root} be written, and this program is loaded from there"
        assert said.encode() in ended.stderr


def test_a_grant_inside_the_environment(project: Project, installed: Path) -> None:
    packages = next((project.root / ".venv").glob("lib/python*/site-packages"))
    project.policy.write_text(f"schema: 1\nmethod: bwrap\nfilesystem:\n  write: [$PROJECT, {packages}]\n")
    ended = _call(project, installed, "run", "--", "true")
    assert ended.returncode == 125
    assert f"the policy lets {packages} be written".encode() in ended.stderr


@pytest.mark.parametrize("of", ["its package", "another package"])
def test_a_grant_inside_a_directory_of_packages(project: Project, installed: Path, of: str) -> None:
    packages = next((project.root / ".venv").glob("lib/python*/site-packages"))
    ours = Path(sandwright.__file__).parent / "launcher" / "__pycache__"
    grant = ours if of == "its package" else packages / "later"
    grant.mkdir(exist_ok=True)
    project.policy.write_text(f"schema: 1\nmethod: bwrap\nfilesystem:\n  write: [{grant}]\n")
    for words in (("run", "--trust-policy", "--", "true"), ("render", "--out", f"{project.home}/out")):
        ended = _call(project, installed, *words)
        assert ended.returncode != 0
        assert f"the policy lets {grant}".encode() in ended.stderr


def test_a_project_in_a_cache_of_compiled_modules(project: Project, installed: Path) -> None:
    packages = next((project.root / ".venv").glob("lib/python*/site-packages"))
    inner = packages / "sandwright" / "__pycache__"
    inner.mkdir(parents=True)
    (inner / "sandbox.yaml").write_text("schema: 1\nmethod: bwrap\n")
    ended = _call(project, installed, "-C", inner, "run", "--", "true")
    assert ended.returncode == 125
    assert f"the policy lets {inner} be written".encode() in ended.stderr


ADDED = (
    ("PYTHONPATH", "src"),
    ("PYTHONPATH", "{root}/src"),
    ("PYTHONPATH", "/nowhere:{root}/new"),
    ("PYTHONPATH", "{root}/../link/src"),
    ("PYTHONPYCACHEPREFIX", "{root}/cache"),
    ("LD_LIBRARY_PATH", "{root}/lib"),
    ("LD_LIBRARY_PATH", "/usr/lib;{root}/lib"),
    ("LD_LIBRARY_PATH", "/usr/lib:"),
    ("LD_PRELOAD", "/nowhere.so {root}/own.so"),
    ("LD_AUDIT", "{root}/own.so"),
    ("OPENSSL_CONF", "{root}/openssl.cnf"),
    ("OPENSSL_CONF", "openssl.cnf"),
    ("OPENSSL_MODULES", "{root}"),
    ("OPENSSL_ENGINES", "{root}/new"),
    ("GCONV_PATH", "/usr/lib:{root}/gconv"),
    ("GCONV_PATH", "{root}/gconv"),
)


@pytest.mark.parametrize(
    "words",
    representative(
        [pytest.param(("run", "--", "touch", "ran"), id="run"), pytest.param(("render",), id="render")], "run"
    ),
)
def test_what_the_environment_adds_from_the_project_is_refused(
    project: Project, words: tuple[str, ...]
) -> None:
    """Rendering and running refuse it, even after a run without it. One function decides for both."""
    project.policy.write_text(POLICY)
    (project.root / "src").mkdir()
    (project.home / "link").symlink_to("p")
    assert project.run("true").returncode == 0
    half = ADDED[words[0] == "render" :: 2]
    for variable, value in ADDED if THOROUGH else half:
        ended = _call(project, *SANDWRIGHT, *words, **{variable: value.format(root=project.root)})
        assert ended.returncode != 0, (variable, value)
        said = b"which the sandbox can write: the next start would load code from there"
        assert said in ended.stderr, (variable, value)
    assert not (project.root / "ran").exists()
    assert project.run("true").returncode == 0


def test_what_the_environment_adds_from_elsewhere_is_none_of_ours(project: Project) -> None:
    project.policy.write_text(POLICY)
    (project.home / "lib").mkdir()
    added = {"PYTHONPATH": str(project.home / "lib"), "LD_LIBRARY_PATH": str(project.home / "lib")}
    ended = _call(project, *SANDWRIGHT, "run", "--", "true", **added)
    assert ended.returncode == 0, ended.stderr


def test_modules_of_the_current_directory(project: Project) -> None:
    """Python puts it first on its path with -c and -m, or else a script's own directory."""
    project.policy.write_text(POLICY)
    ended = _call(project, sys.executable, "-c", SCRIPT, "run", "--", "true")
    assert ended.returncode == 125
    assert f"looks for modules in {project.root} (without -P), which the sandbox".encode() in ended.stderr
    script = project.root / "agent.py"
    script.write_text(SCRIPT)
    assert _call(project, sys.executable, script, "run", "--", "true").returncode == 125
    script.write_text("from sandwright import Policy; Policy.load('sandbox.yaml').render('bwrap')")
    assert b"looks for modules in" in _call(project, sys.executable, script).stderr
    assert _call(project, sys.executable, "-P", script).returncode == 0


def test_a_package_that_is_installed_from_the_project(project: Project) -> None:
    """Another package's editable installation puts the project's sources on Python's path."""
    project.policy.write_text(POLICY)
    program = _environment(project.home / "venv")
    assert _call(project, program, "run", "--", "true").returncode == 0
    packages = next((project.home / "venv").glob("lib/python*/site-packages"))
    (project.root / "src").mkdir()
    (packages / "editable.pth").write_text(f"{project.root}/src\n")
    ended = _call(project, program, "run", "--", "true")
    said = f"{project.root}/src is on the path of Python that runs this program, which the sandbox can write"
    assert said.encode() in ended.stderr


def test_the_installation_is_no_part_of_ordinary_facts(project: Project) -> None:
    project.policy.write_text(POLICY)
    assert Policy.load(project.policy).facts().installation == ()
    assert os.fspath(project.root) not in sys.path


PROGRAMS = (
    *(
        "awk",
        "bash",
        "bwrap",
        "cat",
        "cp",
        "docker",
        "env",
        "flock",
        "grep",
        "id",
        "mkdir",
        "mkfifo",
        "mktemp",
    ),
    *(
        "perl",
        "podman",
        "rm",
        "rmdir",
        "runc",
        "runsc",
        "sed",
        "setsid",
        "sha256sum",
        "sleep",
        "stty",
        "sudo",
    ),
    *("tail", "timeout", "uname", "unshare"),
)


def _plant(folder: Path, evil: Path) -> None:
    folder.mkdir(parents=True)
    for name in PROGRAMS:
        program = folder / name
        program.write_text(
            f'#!/bin/sh\necho "$0 $PPID" >>{evil}\nPATH=/usr/sbin:/usr/bin:/sbin:/bin\nexec {name} "$@"\n'
        )
        program.chmod(0o755)


def _first_on_path(project: Project) -> Path:
    """Put planted programs first on PATH: in the project, behind a link to it, and under a relative name."""
    evil = project.home / "evil"
    _plant(project.root / "node_modules" / ".bin", evil)
    (project.home / "link").symlink_to(project.root)
    places = (
        f"{project.root}/node_modules/.bin",
        f"{project.home}/link/node_modules/.bin",
        "node_modules/.bin",
    )
    project.environment["PATH"] = ":".join([*places, "", os.environ["PATH"]])
    return evil


def test_programs_are_taken_from_where_nobody_inside_can_write(project: Project) -> None:
    project.policy.write_text(POLICY)
    evil = _first_on_path(project)
    for _ in range(2):  # rendered first, then cached
        ended = project.run("sh", "-c", 'echo "$PATH"', options=("--time", "60s"))
        assert ended.stdout.decode() == project.environment["PATH"] + "\n", ended.stderr
    assert not evil.exists(), evil.read_text()


@pytest.mark.parametrize("method", ["bwrap", "oci", "gvisor", "docker", "podman", "user"])
def test_launchers_take_none_of_them(project: Project, method: str, tmp_path: Path) -> None:
    """The rest of the method may be missing here: each searches for programs first."""
    project.policy.write_text(POLICY.replace("bwrap", method))
    rendered = _call(project, *SANDWRIGHT, "render", "--out", tmp_path / "out")
    assert rendered.returncode == 0, rendered.stderr
    evil = _first_on_path(project)
    ended = _call(project, tmp_path / "out" / method / "launch", "true", DOCKER_HOST="unix:///nowhere")
    assert b"not installed" not in ended.stderr
    assert not evil.exists()


@pytest.mark.parametrize(
    "words",
    representative(
        [
            pytest.param(words, id=words[0])
            for words in (
                ("run", "--", "true"),
                ("diff", "--revisions", "HEAD"),
                ("doctor",),
                ("init", "--yes"),
                ("launch",),
            )
        ],
        *("run", "diff", "launch"),
    ),
)
def test_no_program_of_another_project_is_taken(project: Project, words: tuple[str, ...]) -> None:
    """Its sandbox may have put it there, whatever this policy makes writable."""
    project.policy.write_text(POLICY)
    shutil.rmtree(project.root / ".git")
    git = ("git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-C", str(project.root))
    for step in (("init", "-q"), ("add", "sandbox.yaml"), ("commit", "-qm", "x")):
        assert _call(project, *git, *step).returncode == 0
    assert _call(project, *SANDWRIGHT, "render").returncode == 0
    if words[0] == "init":
        project.policy.unlink()
    other, evil = project.home / "other", project.home / "evil"
    _plant(other / ".venv" / "bin", evil)
    (other / "sandbox.yaml").write_text(POLICY)
    (project.home / "link").symlink_to(other)
    project.environment["PATH"] = f"{other}/.venv/bin:{project.home}/link/.venv/bin:{os.environ['PATH']}"
    launch = (str(project.root / ".sandbox" / "bwrap" / "launch"), "true")
    ended = _call(project, *(launch if words == ("launch",) else (*SANDWRIGHT, *words)))
    assert ended.returncode == 0, ended.stderr
    assert not evil.exists(), evil.read_text()


def test_only_directories_that_can_be_written(project: Project) -> None:
    project.policy.write_text(POLICY)
    assert _call(project, *SANDWRIGHT, "render").returncode == 0
    launch = project.root / ".sandbox" / "bwrap" / "launch"
    ended = _call(project, launch, "true", PATH=f"{project.root}/bin:{project.root}:relative")
    assert ended.returncode == 125
    assert b"every directory of PATH can be written by the sandbox" in ended.stderr


def test_a_program_that_is_a_link_into_the_project(project: Project) -> None:
    project.policy.write_text(POLICY)
    tools = project.home / "tools"
    tools.mkdir()
    _plant(project.root / "tools", project.home / "evil")
    (tools / "flock").symlink_to(project.root / "tools" / "flock")
    project.environment["PATH"] = f"{tools}:{os.environ['PATH']}"
    ended = project.run("true")
    assert ended.returncode == 125
    assert (
        f"{tools}/flock, which launchers run, leads to a file that the sandbox can write".encode()
        in ended.stderr
    )
    assert not (project.home / "evil").exists()
