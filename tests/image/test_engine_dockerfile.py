"""Dockerfiles as text: their content for every image, the output of linters, and the refused content.

Tests of image/dockerfile/additions.py.
Tests of image/dockerfile/recipe.py.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from sandwright.errors import BuildError, RenderError, UsageError
from sandwright.image.cache import Cache
from sandwright.image.definition import ImageDefinition, load_catalogue, load_definition
from sandwright.image.dockerfile.build import BuildRequest, build_in_engine, render_text
from sandwright.image.dockerfile.recipe import BaseReferences, make_context
from sandwright.image.dockerfile.render import plain_token, quote_word, quote_words
from sandwright.image.fetcher import Fetcher
from sandwright.image.lock import load_lock
from sandwright.image.mirrors import Mirrors
from sandwright.resources import data_path
from support.dockerfiles import RULES, faults, parse

AMD, ARM = "linux/amd64", "linux/arm64"
CATALOGUE = load_catalogue(data_path("images"))
LOCKED = [name for name, each in CATALOGUE.items() if not each.reference]
GROUND = BaseReferences("localhost/sandwright/builder:b", "localhost/sandwright/base:a")


def wish(*names: str, **more: object) -> BuildRequest:
    supply = Fetcher(Cache(Path("/nonexistent")), Mirrors({}))
    return BuildRequest(CATALOGUE, names, [AMD], Path("/nonexistent"), supply, frozen=True, **more)  # type: ignore[arg-type]


def defined(place: Path, text: str) -> ImageDefinition:
    folder = place / "thing"
    folder.mkdir()
    (folder / "image.yaml").write_text(
        f"schema: 1\ndescription: A thing.\nbase: {{image: debian}}\n{text}", encoding="utf-8"
    )
    return load_definition(folder)


def rendered(place: Path, text: str) -> str:
    definition = defined(place, text)
    return make_context(definition, [CATALOGUE["debian"]], AMD, GROUND, epoch=7).dockerfile


@pytest.mark.parametrize("platform", [AMD, ARM])
@pytest.mark.parametrize("name", LOCKED)
def test_linters_find_nothing(name: str, platform: str) -> None:
    text = render_text(wish(), name, platform)
    assert faults(text) == []


BROKEN = {
    "DL3000": "FROM a:1\nWORKDIR work",
    "DL3001": "FROM a:1\nRUN ps -e",
    "DL3002": "FROM a:1\nUSER app\nUSER root",
    "DL3003": "FROM a:1\nRUN cd /work && ls",
    "DL3004": "FROM a:1\nRUN sudo ls",
    "DL3006": "FROM debian",
    "DL3007": "FROM debian:latest",
    "DL3008": "FROM a:1\nRUN apt-get -y --no-install-recommends install git",
    "DL3010": "FROM a:1\nCOPY a.tar.gz /",
    "DL3015": "FROM a:1\nRUN apt-get install git=1",
    "DL3018": "FROM a:1\nRUN apk add git",
    "DL3020": "FROM a:1\nADD file /",
    "DL3021": "FROM a:1\nCOPY a b /c",
    "DL3022": "FROM a:1\nCOPY --from=nothing /a /b",
    "DL3023": "FROM a:1 AS one\nCOPY --from=one /a /b",
    "DL3024": "FROM a:1 AS one\nFROM a:1 AS one",
    "DL3025": "FROM a:1\nCMD run it",
    "DL3027": "FROM a:1\nRUN apt install git",
    "DL3029": "FROM --platform=linux/arm64 a:1",
    "DL3044": 'FROM a:1\nENV A="b" C="$A"',
    "DL3045": "FROM a:1\nCOPY a b",
    "DL3047": "FROM a:1\nRUN wget https://example.invalid",
    "DL3048": "FROM a:1\nLABEL -bad=1",
    "DL3059": "FROM a:1\nRUN a\nRUN b",
    "DL3061": "RUN a\nFROM a:1",
    "DL3064": "FROM a:1\nENV GH_TOKEN=abc",
    "DL3067": "FROM a:1 AS one\nFROM a:1\nCOPY --from=one / /",
    "DL4000": "FROM a:1\nMAINTAINER me",
    "DL4003": 'FROM a:1\nCMD ["a"]\nCMD ["b"]',
    "DL4004": 'FROM a:1\nENTRYPOINT ["a"]\nENTRYPOINT ["b"]',
    "DL4005": "FROM a:1\nRUN ln -sf /bin/bash /bin/sh",
    "DL4006": "FROM a:1\nRUN a | b",
}


@pytest.mark.parametrize("rule", sorted(RULES))
def test_each_rule_can_be_broken(rule: str) -> None:
    assert rule in {fault.partition(":")[0] for fault in faults(BROKEN[rule])}


def test_packages_are_pinned_by_the_dockerfile_alone() -> None:
    """The Dockerfile has the checksum of the file of checksums, which has those of the lock."""
    definition, lock = CATALOGUE["distroless"], load_lock(CATALOGUE["distroless"].folder)
    packages = lock.packages(AMD)
    files = {each.sha256: Path("/nonexistent") for each in packages}
    context = make_context(definition, [], AMD, GROUND, epoch=7, packages=packages, files=files)
    sums = context.files["work/SHA256SUMS"]
    assert isinstance(sums, bytes)
    assert f"steps/verify {hashlib.sha256(sums).hexdigest()} " in context.dockerfile
    listed = dict(line.split("  ")[::-1] for line in sums.decode().splitlines())
    assert len(listed) == len(packages)
    for each in packages:
        name = f"packages/{each.name}_{each.version.replace(':', '%3a')}_{each.architecture}.deb"
        assert listed[name] == each.sha256
        assert f"work/{name}" in context.files


def test_a_base_is_pinned_and_nobody_elses() -> None:
    text = render_text(wish(), "workspace", AMD)
    bases = [each.words[0] for each in parse(text) if each.word == "FROM"]
    assert [base.partition(":")[0] for base in bases] == [
        "localhost/sandwright/builder",
        "localhost/sandwright/debian",
    ]
    copied = [each.flag("from") for each in parse(text) if each.word == "COPY" and each.flag("from")]
    assert copied == [bases[1], "accounts"]
    assert text == render_text(wish(), "workspace", AMD)
    assert bases[1] not in render_text(wish(), "workspace", ARM)


def test_another_builder() -> None:
    pinned = "docker.io/library/debian@sha256:" + "0" * 64
    text = render_text(wish(builder=pinned), "distroless", AMD)
    assert f"FROM {pinned} AS packages\n" in text


def test_a_builder_without_a_digest_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^the builder 'debian:12' is not pinned: write name@sha256:…$"):
        build_in_engine(wish("distroless", builder="debian:12"), None, host_platform=AMD)  # type: ignore[arg-type]


def test_an_unknown_image_is_refused() -> None:
    with pytest.raises(UsageError, match="there is no image 'nothing'; there is alpine, "):
        build_in_engine(wish("nothing"), None, host_platform=AMD)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param('config: {environment: {A: "x y"}}', 'A="x y"', id="a space"),
        pytest.param("config: {environment: {A: '$HOME'}}", 'A="\\$HOME"', id="a variable"),
        pytest.param('config: {environment: {A: "\\"\\\\"}}', 'A="\\"\\\\"', id="quotes and backslashes"),
        pytest.param(
            'config: {command: [sh, -c, "a\\nb $X"]}', 'CMD ["sh", "-c", "a\\nb $X"]', id="an array"
        ),
        pytest.param('config: {workdir: "/a b"}', 'WORKDIR "/a b"', id="a directory"),
        pytest.param("config: {stop_signal: SIGINT}", "STOPSIGNAL SIGINT", id="a signal"),
        pytest.param("config: {user: '1000:100'}", "USER 1000:100", id="a user"),
        pytest.param("config: {user: nobody}", "USER 65534", id="a user by name"),
        pytest.param("config: {ports: ['80', 53/udp]}", "EXPOSE 80/tcp 53/udp", id="ports"),
        pytest.param("config: {volumes: [/data]}", 'VOLUME ["/data"]', id="volumes"),
        pytest.param(
            "config: {healthcheck: {command: [/run, -c], retries: 2}}",
            'CMD ["/run", "-c"]',
            id="a health check",
        ),
        pytest.param("config: {entrypoint: [/run]}", "CMD []", id="an entrypoint drops the command"),
    ],
)
def test_settings(text: str, line: str, tmp_path: Path) -> None:
    assert line in [each.strip() for each in rendered(tmp_path, text).splitlines()]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            'config: {environment: {A: "a\\nb"}}',
            "cannot write image 'thing' as a Dockerfile: .*'a\\\\nb' holds a line break",
            id="environment",
        ),
        pytest.param('config: {labels: {a: "b\\nc"}}', "holds a line break", id="label"),
        pytest.param(
            "files: [{path: /x, content: x, user: somebody}]",
            "image 'thing': /x: which number user 'somebody' has is known only once the image is built, and "
            "a Dockerfile has to say it: write the number",
            id="an owner without a known number",
        ),
    ],
)
def test_what_a_dockerfile_cannot_hold(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=message):
        rendered(tmp_path, text)


def test_descriptions_can_not_leave_their_comment(tmp_path: Path) -> None:
    text = rendered(tmp_path, 'files: [{path: "/a\\u2028RUN x", content: x}]')
    assert [each.word for each in parse(text)] == ["FROM", "ADD", "LABEL"]


@pytest.mark.parametrize("text", ["a b", "a\nRUN x", "", "-x", "$A", "a;b", 'a"b'])
def test_names_that_are_none(text: str) -> None:
    with pytest.raises(RenderError):
        plain_token(text)


def test_quoting() -> None:
    assert quote_word('a"$\\') == '"a\\"\\$\\\\"'
    assert quote_words(['a"', "é"]) == '["a\\"", "é"]'


def test_additions(tmp_path: Path) -> None:
    """The order is the embedded builder's: directories, links, files; owners are numbers."""
    definition = defined(
        tmp_path,
        """
accounts: {users: [{name: app, uid: 1000, gid: 1000}], groups: [{name: app, gid: 1001}]}
directories: [{path: /z, user: app, group: staff, mode: "2750"}, {path: /a}]
links: [{path: /l, target: z/../a}]
files: [{path: /l/f, content: "x", mode: "4755", group: app}]
""",
    )
    context = make_context(definition, [CATALOGUE["debian"]], AMD, GROUND, epoch=7)
    raw = context.files["additions.tar"]
    assert isinstance(raw, bytes)
    with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
        found = [(m.name, m.type, m.mode, m.uid, m.gid, m.linkname, m.mtime) for m in archive]
    assert found == [
        ("a", b"5", 0o755, 0, 0, "", 7),
        ("z", b"5", 0o2750, 1000, 50, "", 7),
        ("l", b"2", 0o777, 0, 0, "z/../a", 7),
        ("l/f", b"0", 0o4755, 0, 1001, "", 7),
    ]
    assert "#   drwxr-s--- 1000:50 /z\n#   lrwxrwxrwx 0:0 /l -> z/../a\n" in context.dockerfile


def test_a_context_as_directory_and_as_archive(tmp_path: Path) -> None:
    definition = defined(tmp_path, "accounts: {users: [{name: app, uid: 1000, gid: 1000}]}")
    context = make_context(definition, [CATALOGUE["debian"]], AMD, GROUND, epoch=7)
    context.write_directory(tmp_path / "context")
    buffer = io.BytesIO()
    context.write_archive(buffer)
    with tarfile.open(fileobj=io.BytesIO(buffer.getvalue())) as archive:
        archived = {m.name: archive.extractfile(m).read() for m in archive if m.isreg()}  # type: ignore[union-attr]
        assert {m.mtime for m in archive} == {7}
    written = {
        str(path.relative_to(tmp_path / "context")): path.read_bytes()
        for path in (tmp_path / "context").rglob("*")
        if path.is_file()
    }
    assert archived == written
    assert {"Dockerfile", "work/users", "work/steps/accounts", "work/steps/accounts.awk"} <= written.keys()
    with pytest.raises(BuildError, match="is not empty: a context needs an empty directory"):
        context.write_directory(tmp_path / "context")
