"""Images that engines build from rendered Dockerfiles: the same trees and settings as the embedded builder's.

The base of the derived images is the small image that the first stages run on, which is built in seconds. The
image of packages is `distroless` itself for Docker, and a smaller one of its kind for Podman, which is
slower.

Tests of engines/contract.py.
Tests of image/dockerfile/recipe.py.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import pytest

from sandwright import process
from sandwright.engines import docker, podman_build
from sandwright.engines.connect import connect_engine
from sandwright.engines.contract import Engine, tail
from sandwright.engines.docker import DockerEngine, connect_docker
from sandwright.engines.podman import PodmanEngine, preferred_runtime
from sandwright.errors import BuildError, CommandFailed, HostError, ToolMissing, UsageError
from sandwright.host import MachineFacts, collect_host
from sandwright.image.cache import Cache, default_cache
from sandwright.image.definition import load_catalogue, load_definition
from sandwright.image.dockerfile import build, recipe
from sandwright.image.dockerfile.build import BuildRequest, EngineBuiltImage, build_in_engine, embedded
from sandwright.image.dockerfile.context import DockerfileContext
from sandwright.image.dockerfile.trees import KNOWN, Difference, compare, explained, read_files, unexplained
from sandwright.image.fetcher import Fetcher
from sandwright.image.lock import checksum, load_lock, write_lock
from sandwright.image.mirrors import find_mirrors
from sandwright.progress import SILENT
from sandwright.resources import data_path
from sandwright.rootfs.images.source import Image, open_image
from sandwright.verify.smoke import engine_smoke
from sandwright.verify.verdict import Verdict
from support.waiting import until

pytestmark = [pytest.mark.timeout(900), pytest.mark.exclusive("engine-builds")]

ENGINES = [
    pytest.param("docker", marks=pytest.mark.needs("docker", "dockerd")),
    pytest.param("podman", marks=pytest.mark.needs("podman")),
]
ODD = r"""
schema: 1
description: What "quotes" and $variables, and 'names' of many kinds \ make of an image.
base: {image: debian}
accounts:
  users:
    - {name: app, uid: 1234, gid: 4321, home: /home/app, shell: /bin/sh}
  groups:
    - {name: app, gid: 4321, members: [app]}
directories:
  - {path: /home/app, mode: "2750", user: app, group: app}
  - {path: /opt/deep/er, mode: "1777"}
  - {path: /etc, mode: "0750"}
files:
  - {path: /bin/run, content: "#!/bin/sh\nexec \"$@\"\n", mode: "6755", user: 1234, group: root}
  - {path: /made/here/file, content: ""}
  - {path: "/opt/a b [*] $x \\ ü", content: "x"}
  - {path: /etc/os-release, content: "NAME=other\n"}
links:
  - {path: /opt/dangling, target: "../no where/$x"}
  - {path: /opt/over, target: /etc}
  - {path: /home/app/in, target: .}
config:
  user: app
  workdir: /opt/deep/er
  environment: {EMPTY: "", PATH: "/usr/bin:/bin", QUOTED: "a \"b\" $HOME \\ 'c' #d  ü"}
  entrypoint: [/bin/run, "a \"b\"\n$HOME"]
  labels: {org.example.one: "1 $x \"2\"", two: ""}
  stop_signal: SIGINT
"""


SMALL = """
schema: 1
description: As distroless is made, and with a program instead of Python.
base: {debian: bookworm}
configure: declared
packages: [base-files, ca-certificates, libc-bin, media-types]
without: {debconf: none, mawk: none, openssl: none}
exclude: [/bin/*, /sbin/*, /usr/bin/*, /usr/sbin/*, /usr/share/doc/*, /usr/share/man/*, /usr/share/lintian/*]
keep: [/usr/bin/getent, /usr/share/doc/*/copyright]
declare: [merged-usr, accounts, ca-bundle, ld-cache, package-metadata, os-release, tmp, nsswitch]
accounts:
  users: [{name: root, uid: 0, gid: 0, home: /root}, {name: app, uid: 65532, gid: 65532, home: /home/app}]
  groups: [{name: root, gid: 0}, {name: app, gid: 65532}]
directories: [{path: /home/app, mode: "0700", user: app, group: app}]
links: [{path: /var/run, target: /run}]
config: {user: app, workdir: /home/app, command: [/usr/bin/getent, passwd], environment: {PATH: /usr/bin}}
smoke:
  checks: [{name: it has a name, run: [getent, passwd, app], prints: "app:x:65532:65532:"}]
"""
SMALL_PACKAGES = {
    "base-files",
    "ca-certificates",
    "gcc-12-base",
    "libc-bin",
    "libc6",
    "libgcc-s1",
    "media-types",
}
BUILT = {"docker": ["distroless", "odd", "workspace"], "podman": ["small", "odd"]}
"""The images that each engine builds, with the image of packages first."""


@dataclass(frozen=True)
class World:
    """An engine, its built images, and the same images by the embedded builder."""

    engine: Engine
    wish: BuildRequest
    built: Mapping[str, EngineBuiltImage]
    layouts: Mapping[str, Path]
    scratch: Path

    @property
    def of_packages(self) -> str:
        """The image of packages, which is no other one's child."""
        return BUILT[self.engine.name][0]

    def image(self, name: str) -> Image:
        """The engine's image."""
        archive = self.scratch / f"{name}.tar"
        if not archive.exists():
            self.engine.save(self.built[name].references[0], archive)
        return open_image(archive)

    def same(self, name: str) -> Image:
        """The embedded builder's image."""
        return open_image(self.layouts[name], platform=HOST.platform, ref=HOST.architecture)


HOST: MachineFacts = collect_host()


def catalogue(root: Path) -> Path:
    """A small base, the catalogue's own `workspace` on it, images of packages, and an odd one."""
    shutil.copytree(data_path("images", "engine", "builder"), root / "debian")
    for name in ("workspace", "distroless"):
        shutil.copytree(data_path("images", name), root / name)
    (root / "odd").mkdir()
    (root / "odd/image.yaml").write_text(ODD.lstrip(), encoding="utf-8")
    (root / "small").mkdir()
    (root / "small/image.yaml").write_text(SMALL.lstrip(), encoding="utf-8")
    locked = load_lock(root / "distroless")
    chosen = {
        platform: tuple(each for each in packages if each.name in SMALL_PACKAGES)
        for platform, packages in locked.platforms.items()
    }
    definition = load_definition(root / "small")
    write_lock(root / "small", replace(locked, definition=checksum(definition), platforms=chosen))
    return root


@contextlib.contextmanager
def opened(name: str, place: Path) -> Iterator[Engine]:
    if name == "docker":
        with connect_docker() as engine:
            yield engine
        return
    assert name in {"podman", "buildah"}
    options = ("--root", str(place / "store"), "--runroot", str(place / "run"))
    yield PodmanEngine(name, None, options, host=HOST, runtime=preferred_runtime(HOST))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def wish(tmp_path_factory: pytest.TempPathFactory) -> BuildRequest:
    """The images that every engine builds; the embedded builder makes its versions once."""
    directory = tmp_path_factory.mktemp("engines")
    mark = uuid.uuid4().hex[:12]
    return BuildRequest(
        load_catalogue(catalogue(directory / "images")),
        [],
        [HOST.platform],
        directory / "build",
        Fetcher(Cache(default_cache(os.environ)), lambda: find_mirrors(None, os.environ)),
        repository=f"sandwright-test-{mark}",
        grounds=f"localhost/sandwright-test-{mark}",
        frozen=True,
    )


@pytest.fixture(scope="module", params=ENGINES)
def world(
    request: pytest.FixtureRequest, wish: BuildRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    scratch = tmp_path_factory.mktemp(request.param)
    wish = replace(wish, names=BUILT[request.param])
    layouts = {name: each.path for name, each in embedded(wish, wish.catalogue, wish.names).items()}
    with engine_place() as place, opened(request.param, place) as engine:
        try:
            built = {each.name: each for each in build_in_engine(wish, engine, host_platform=HOST.platform)}
            yield World(engine, wish, built, layouts, scratch)
        finally:
            for reference in references(engine, wish.repository.rpartition("-")[2]):
                engine.remove_image(reference)


@contextlib.contextmanager
def engine_place() -> Iterator[Path]:
    """A directory with a short name, because Podman's path has a maximum length."""
    place = Path(f"/var/tmp/sandwright-{uuid.uuid4().hex[:8]}")
    place.mkdir()
    try:
        yield place
    finally:
        for mounted in ("store/overlay", "store/overlay-containers"):
            process.run("umount", "--recursive", place / mounted, check=False)
        shutil.rmtree(place)


def references(engine: Engine, mark: str) -> list[str]:
    """The names in an engine that have a mark; an image precedes its base."""
    if isinstance(engine, DockerEngine):
        found = process.run("docker", "images", "--format", "{{.Repository}}:{{.Tag}}").text
    else:
        assert isinstance(engine, PodmanEngine)
        found = process.run(
            "podman", *engine.options, "images", "--format", "{{.Repository}}:{{.Tag}}", timeout=120
        ).text
    return sorted((line for line in found.split() if mark in line), key=lambda line: "-test-" in line)


def test_the_trees_are_the_embedded_builders(world: World) -> None:
    for name in world.built:
        ours, theirs = read_files(world.same(name)), read_files(world.image(name))
        found = compare(ours, theirs)
        assert [each.describe() for each in unexplained(found, world.engine.name)] == [], name
        assert len(ours) > 400
        allowed = {"docker": {"time of a directory"}, "podman": {"time of a directory", "time of a file"}}
        linker = {"bytes of the linker's cache"} if name == world.of_packages else set()
        assert explained(found, world.engine.name).keys() <= allowed[world.engine.name] | linker, name


def test_the_settings_are_the_embedded_builders(world: World) -> None:
    for name in world.built:
        assert settings(world.image(name)) == settings(world.same(name)), name


def settings(image: Image) -> dict[str, Any]:
    section = image.config["config"]
    told = {
        key: section.get(key) or None for key in ("User", "WorkingDir", "Entrypoint", "Cmd", "StopSignal")
    }
    return {**told, "Env": sorted(section["Env"]), "Labels": section["Labels"]}


def test_names(world: World) -> None:
    repository = world.wish.repository
    for name, built in world.built.items():
        assert built.references == (f"{repository}/{name}:latest", f"{repository}/{name}:{HOST.architecture}")
        for reference in built.references:
            found = world.engine.inspect_image(reference)
            assert found is not None
            assert found == built.image
    assert world.engine.inspect_image(f"{repository}/nothing:latest") is None


def test_it_starts_where_it_was_built(world: World) -> None:
    report = engine_smoke.smoke_in_engine(
        [world.built[world.of_packages]],
        world.wish.catalogue,
        world.engine,
        host=HOST,
        output=world.scratch,
    )
    (row,) = report.rows
    if world.of_packages == "distroless":
        assert report.explain() == []
        assert report.green
        assert len(row.findings) > 10
    else:
        (found,) = (finding for finding in row.findings if finding.check.endswith("it has a name"))
        assert found.verdict is Verdict.PASS
    assert report.subjects[0].built_by == world.engine.name
    assert report.to_json()["subjects"][0]["built_by"] == world.engine.name


def test_nothing_is_loaded_twice(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("loaded again")

    monkeypatch.setattr(type(world.engine), "load", refuse)
    again = build_in_engine(replace(world.wish, names=["odd"]), world.engine, host_platform=HOST.platform)
    if world.engine.name == "podman":
        assert again[0].image.id == world.built["odd"].image.id, "the same context gives the same image"


class Steps:
    """Counts the instructions of a build, and may raise at one of them."""

    def __init__(self, at: int = 0, error: type[BaseException] = KeyboardInterrupt) -> None:
        self.count = 0
        self._at = at
        self._error = error

    def advance(self, amount: int) -> None:
        self.count += amount
        if self.count == self._at:
            raise self._error


def builder(world: World) -> str:
    lines = (
        line for line in references(world.engine, world.wish.grounds.rpartition("-")[2]) if "builder" in line
    )
    return next(lines)


def context(world: World, *lines: str) -> DockerfileContext:
    text = "\n".join([f"FROM {builder(world)}", *lines, ""])
    return DockerfileContext({"Dockerfile": text.encode()}, 7)


def test_a_build_that_fails_says_why_and_leaves_the_last_image(world: World) -> None:
    word = uuid.uuid4().hex
    before = containers(world.engine, word)
    step = Steps()
    broken = context(world, f"RUN echo {word}; exit 3", "RUN true")
    with pytest.raises(BuildError, match=word) as failed:
        world.engine.build(broken, HOST.platform, step)
    assert "3" in str(failed.value)
    assert step.count == 2
    assert containers(world.engine, word) == before


def test_a_package_that_is_not_the_locks_ends_the_build(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = recipe.make_context
    (tmp_path / "bad.deb").write_bytes(b"!<arch>\n")

    def tampered(*words: Any, **more: Any) -> DockerfileContext:
        made = make(*words, **more)
        name = next(name for name in made.files if name.startswith("work/packages/libc6_"))
        return DockerfileContext({**made.files, name: tmp_path / "bad.deb"}, made.epoch)

    monkeypatch.setattr(build, "make_context", tampered)
    before = world.engine.inspect_image(world.built[world.of_packages].references[0])
    with pytest.raises(BuildError, match=r"packages/libc6_[^ ]*: FAILED"):
        build_in_engine(
            replace(world.wish, names=[world.of_packages]), world.engine, host_platform=HOST.platform
        )
    assert world.engine.inspect_image(world.built[world.of_packages].references[0]) == before


def test_a_build_has_no_network(world: World) -> None:
    """The list of devices can be read, as in the control, and has only the loopback."""
    words = "RUN [\"sh\", \"-c\", \"tail -n +3 /proc/net/dev | mawk '{print $1}' | tr '\\\\n' ' ' ; exit 5\"]"
    with pytest.raises(BuildError) as failed:
        world.engine.build(context(world, words), HOST.platform, Steps())
    told = [line.strip() for line in str(failed.value).splitlines()]
    assert "lo:" in " ".join(told)
    assert not any("eth" in line for line in told)


def test_ctrl_c_ends_the_build_and_all_that_runs_in_it(world: World) -> None:
    word = uuid.uuid4().hex
    before = containers(world.engine, word)
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        world.engine.build(context(world, f"RUN : {word}; sleep 600"), HOST.platform, Steps(at=2))
    assert time.monotonic() - started < 300
    until(lambda: containers(world.engine, word) == before)


def containers(engine: Engine, word: str) -> set[str]:
    """The containers whose command contains a word; in a separate store, all of them."""
    if isinstance(engine, DockerEngine):
        words = ["docker", "ps", "--all", "--format", "{{.ID}} {{.Command}}", "--no-trunc"]
        return {line for line in process.run(*words).text.splitlines() if word in line}
    assert isinstance(engine, PodmanEngine)
    words = ["podman", *engine.options, "ps", "--all", "--external", "--format", "{{.ID}} {{.Image}}"]
    return set(process.run(*words, timeout=120).text.splitlines())


@pytest.mark.needs("buildah")
def test_buildah_builds_the_same(world: World, tmp_path: Path) -> None:
    """Buildah uses Podman's image store, so that the base is there."""
    if not isinstance(world.engine, PodmanEngine):
        return
    buildah = replace(world.engine, name="buildah")
    wish = replace(world.wish, names=["odd"], repository=f"{world.wish.repository}-too")
    (built,) = build_in_engine(wish, buildah, host_platform=HOST.platform)
    buildah.save(built.references[0], tmp_path / "odd.tar")
    image, same = open_image(tmp_path / "odd.tar"), world.same("odd")
    assert unexplained(compare(read_files(same), read_files(image)), "buildah") == []
    assert settings(image) == settings(same)
    assert built.image.id == world.built["odd"].image.id, "Podman's builder is Buildah"


# -- differences that are not permitted


FORBIDDEN = {
    "content": ("docker", Difference("etc/passwd", "file", "content", "a", "b")),
    "missing": ("docker", Difference("etc/passwd", "file", "there", True, False)),
    "apt's logs, the other way": ("docker", Difference("var/log/apt", "directory", "there", False, True)),
    "mode": ("podman", Difference("usr", "directory", "mode", 0o755, 0o777)),
    "owner": ("podman", Difference("bin/su", "file", "owner", (0, 0), (1, 0))),
    "time of a file": ("docker", Difference("bin/su", "file", "time", 1, 2)),
    "linker's cache": ("docker", Difference("etc/ld.so.cache", "file", "meaning", "a", "b")),
    "capabilities": ("docker", Difference("bin/ping", "file", "xattrs", {}, {b"security.capability": b""})),
    "hard links": ("podman", Difference("bin/gunzip", "file", "linked", (b"bin/gunzip", b"bin/x"), ())),
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_a_difference_without_a_reason(name: str) -> None:
    engine, difference = FORBIDDEN[name]
    assert unexplained([difference], engine) == [difference]


def test_every_known_difference_has_a_reason() -> None:
    assert all(row.reason and row.name for row in KNOWN)
    assert unexplained([Difference("usr", "directory", "time", 1, 2)], "docker") == []
    assert unexplained([Difference("bin/su", "file", "time", 1, 2)], "podman") == []


# -- engines that can't


class Daemon:
    """Answers a request for the daemon's version."""

    def __init__(self, **answer: Any) -> None:
        self._answer = answer

    def version(self) -> dict[str, Any]:
        return self._answer


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(
            {"ApiVersion": "1.39", "Version": "18.09"},
            r"^Docker 18\.09 has API 1\.39; images need 1\.40 \(Docker 19\.03\)$",
            id="old",
        ),
        pytest.param({"ApiVersion": "1.4"}, r"has API 1\.4; images need 1\.40", id="no decimals"),
        pytest.param({}, "has API of no version", id="nothing"),
        pytest.param(
            {"ApiVersion": "1.41", "Components": [{"Name": "Podman Engine"}]},
            "^DOCKER_HOST leads to Podman, which is no Docker; build with --engine podman, or unset it$",
            id="podman",
        ),
    ],
)
def test_a_daemon_that_can_not(answer: dict[str, Any], message: str) -> None:
    with pytest.raises(HostError, match=message):
        DockerEngine(Daemon(**answer)).check()  # type: ignore[arg-type]


def test_a_daemon_that_can() -> None:
    daemon = Daemon(ApiVersion="1.100", Version="99.0", Components=[{"Name": "Engine"}])
    assert DockerEngine(daemon).check() == "Docker 99.0, API 1.100"  # type: ignore[arg-type]


def test_no_daemon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(HostError, match="no Docker daemon"), connect_docker():
        pass


def program(place: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place.mkdir(exist_ok=True)
    (place / "podman").write_text(f"#!/bin/sh\n{text}\n")
    (place / "podman").chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")


def test_podman_that_is_too_old(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program(tmp_path / "bin", "echo podman version 3.4.4", monkeypatch)
    with pytest.raises(HostError, match=r"^podman version 3\.4\.4: images need version 4\.0$"):
        PodmanEngine("podman", host=HOST).check()


def test_podman_that_does_not_work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = '[ "$1" = --version ] && echo podman version 4.3.1 && exit; echo "Error: no store" >&2; exit 125'
    program(tmp_path / "bin", text, monkeypatch)
    with pytest.raises(HostError, match=r"^cannot use podman here: Error: no store$"):
        PodmanEngine("podman", host=HOST).check()


def test_podman_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "find", lambda _: None)
    with pytest.raises(ToolMissing, match="podman is not installed"):
        PodmanEngine("podman", host=HOST).check()


def test_a_user_without_ids(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program(tmp_path / "bin", "echo podman version 4.3.1", monkeypatch)
    monkeypatch.setenv("LOGNAME", "nobody-at-all")
    somebody = replace(HOST, uid=54321)
    with pytest.raises(HostError, match=r"podman without root needs ids .* usermod --add-subuids"):
        PodmanEngine("podman", host=somebody).check()


def test_what_a_build_said_begins_no_line() -> None:
    """A GitHub runner obeys a line that begins with `::`, even after blanks."""
    lines = tail(["::stop-commands::x", "", "sandwright: all is well"]).splitlines()
    assert lines == ["", "  | ::stop-commands::x", "  | sandwright: all is well"]
    assert tail(["", " "]) == ""


@pytest.mark.timeout(60)
@pytest.mark.parametrize("said", ["yes", "yes | tr -d '\\n'"])
def test_a_build_that_says_more_and_more(said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The build ends when its time is up, and no line of it fills the memory here."""
    program(tmp_path / "bin", said, monkeypatch)
    monkeypatch.setattr(podman_build, "BUILD_TIMEOUT", 1.0)
    monkeypatch.setattr(podman_build, "_END", 0.5)
    context = DockerfileContext({"Dockerfile": b"FROM x\n"}, 7)
    with SILENT.step("build") as step, pytest.raises(CommandFailed) as caught:
        PodmanEngine("podman", host=HOST).build(context, HOST.platform, step)
    assert caught.value.timeout == 1.0
    first, *shown = str(caught.value).splitlines()
    assert bool(shown) is (said == "yes")
    assert all(line.lstrip().startswith("| y") for line in shown), first


@pytest.mark.timeout(60)
def test_a_daemon_that_says_more_and_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker, "BUILD_TIMEOUT", 1.0)

    class Daemon:
        @property
        def api(self) -> Daemon:
            return self

        def build(self, *, fileobj: IO[bytes], **_: object) -> Iterator[dict[str, str]]:
            while fileobj.read(1 << 16):
                pass
            while True:
                yield {"stream": "y" * 100_000 + "\n"}

    context = DockerfileContext({"Dockerfile": b"FROM x\n"}, 7)
    with SILENT.step("build") as step, pytest.raises(BuildError, match="ran out of time") as caught:
        DockerEngine(Daemon()).build(context, HOST.platform, step)  # type: ignore[arg-type]
    assert len(str(caught.value)) < 400_000


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        pytest.param((1024, -1), 4096, id="unlimited"),
        pytest.param((1024, 2048), 2048, id="lower"),
        pytest.param((1024, 1 << 20), 4096, id="higher"),
    ],
)
def test_limits_no_higher_than_ours(limits: tuple[int, int], expected: int, tmp_path: Path) -> None:
    host = replace(HOST, limits={**HOST.limits, "nofile": limits})
    options = PodmanEngine("podman", host=host)._build_options(
        DockerfileContext({}, 7), HOST.platform, tmp_path / "id"
    )
    assert f"--ulimit=nofile={expected}:{expected}" in options
    assert "--network=none" in options


def test_an_engine_that_is_none() -> None:
    with pytest.raises(UsageError, match="there is no engine 'lxc'"), connect_engine("lxc", HOST):
        pass


def test_an_engine_by_its_name() -> None:
    with connect_engine("buildah", HOST) as engine:
        assert engine == PodmanEngine("buildah", host=HOST, runtime=preferred_runtime(HOST))
