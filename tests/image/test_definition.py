"""Image definitions: their keys, the refusals with their positions, and the shipped images.

Tests of image/definition.py.
Tests of image/fields.py.
Tests of image/schema.py.
Tests of image/sections.py.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import json
import operator
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sandwright.documents.decode import decode
from sandwright.documents.yaml import parse_yaml
from sandwright.errors import BuildError, DocumentError, HostError, UsageError
from sandwright.image.additions import checksums
from sandwright.image.aptsources import SUITES
from sandwright.image.definition import ImageDefinition, load_catalogue, load_definition
from sandwright.image.lock import load_lock
from sandwright.image.schema import definition_schema
from sandwright.image.sections import Config, DebianBase, Directory, ImageFile, ImageGroup, ImageUser, Link
from sandwright.release.sources import collect_sources
from sandwright.release.vex import load_vex
from sandwright.resources import data_path

DEBIAN = """\
schema: 1
description: An image.
base: {debian: bookworm}
configure: declared
packages: [libc6]
"""
DERIVED = """\
schema: 1
description: An image.
base: {image: below}
"""
IMAGES = ("alpine", "debian", "distroless", "gvisor", "proxy", "workspace")


def write(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "image.yaml").write_text(text)
    return folder


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(DocumentError) as caught:
        load_definition(write(folder, text))
    return str(caught.value).replace(f"{folder}/", "")


def test_what_is_absent_has_a_default(tmp_path: Path) -> None:
    image = load_definition(write(tmp_path / "small", DEBIAN))
    assert (image.name, image.folder, image.suite, image.parent) == (
        "small",
        tmp_path / "small",
        "bookworm",
        None,
    )
    assert image.packages == ("libc6",)
    assert (image.without, image.exclude, image.keep, image.declare) == ({}, (), (), ())
    assert image.platforms == ("linux/amd64", "linux/arm64")
    assert image.layers.budget == 6
    assert image.config == Config()


def test_everything_that_can_be_said(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "full",
        DEBIAN
        + """\
without: {dpkg: nothing is installed later}
exclude: ["/usr/share/doc/*"]
keep: ["/usr/share/doc/*/copyright"]
declare: [accounts, tmp]
accounts:
  users: [{name: me, uid: 1000, gid: 1000, comment: My Self, home: /home/me, shell: /bin/sh}]
  groups: [{name: me, gid: 1000, members: [me]}, {name: root, gid: 0}]
directories: [{path: /home/me, mode: 0700, user: me, group: me}, {path: /t, mode: "1777", user: 0, group: 0}]
files:
  - {path: /a, source: files/a, mode: "4755", user: me}
  - {path: /b, content: "text\\n", user: 7, group: 8}
links: [{path: /c, target: ../a}]
config:
  user: me:me
  environment: {A: "1", B: ""}
  workdir: /home/me
  entrypoint: [/a]
  command: [-x]
  labels: {org.example.key: value}
  stop_signal: SIGINT
platforms: [linux/arm64]
smoke:
  programs: [[a, --version]]
  checks: [{name: it works, run: [a], status: 3, prints: x}]
layers: {budget: 2}
""",
    )
    (folder / "files").mkdir()
    (folder / "files/a").write_text("")
    image = load_definition(folder)
    me = ImageUser(name="me", uid=1000, gid=1000, comment="My Self", home="/home/me", shell="/bin/sh")
    assert image.accounts.users == (me,)
    assert image.accounts.groups[0] == ImageGroup(name="me", gid=1000, members=("me",))
    assert [(each.mode, each.user) for each in image.directories] == [(0o700, "me"), (0o1777, 0)]
    assert [(each.mode, each.source, each.content) for each in image.files] == [
        (0o4755, "files/a", None),
        (0o644, None, "text\n"),
    ]
    assert [(each.path, each.target) for each in image.links] == [("/c", "../a")]
    assert image.config.environment == {"A": "1", "B": ""}
    assert image.config.command == ("-x",)
    assert image.platforms == ("linux/arm64",)
    assert (image.smoke.checks[0].status, image.smoke.checks[0].prints) == (3, "x")


REFUSALS: dict[str, tuple[str, str]] = {
    "an unknown key": (
        DEBIAN + "package: []\n",
        "image.yaml:6:1: package: no such key; did you mean 'packages'?",
    ),
    "an unknown key inside": (
        DEBIAN + "config: {entry-point: [a]}\n",
        "image.yaml:6:10: config.entry-point: no such key; did you mean 'entrypoint'?",
    ),
    "a version that is not this one": (
        DEBIAN.replace("schema: 1", "schema: 2"),
        "image.yaml:1:9: schema: must be one of 1, not 2",
    ),
    "nothing that is required": (
        "{}\n",
        "image.yaml:1:1: base: is required\n"
        "image.yaml:1:1: description: is required\n"
        "image.yaml:1:1: schema: is required",
    ),
    "a description of two lines": (
        DEBIAN.replace("An image.", '"a\\nb"'),
        "image.yaml:2:14: description: 'a\\nb' is not a line of text",
    ),
    "a base that can't be": (
        DEBIAN.replace("bookworm", "bookwurm"),
        "image.yaml:3:16: base.debian: must be one of bookworm, trixie, not 'bookwurm'; "
        "did you mean 'bookworm'?",
    ),
    "packages on a base from a registry": (
        DEBIAN.replace("{debian: bookworm}", "{registry: alpine}"),
        "image.yaml:4:12: configure: only an image with a Debian or Alpine base can have this\n"
        "image.yaml:5:11: packages: only an image with a Debian or Alpine base can have this",
    ),
    "a base from a registry that can't be named so": (
        DERIVED.replace("{image: below}", '{registry: "Alpine:3.22"}'),
        "image.yaml:3:18: base.registry: 'Alpine:3.22': 'Alpine' cannot name a repository; "
        "repositories are written in lower case",
    ),
    "a base from a registry with half a digest": (
        DERIVED.replace("{image: below}", '{registry: "alpine@sha256:12"}'),
        "image.yaml:3:18: base.registry: 'alpine@sha256:12': 'sha256:12': expected 64 lower-case hex digits",
    ),
    "two bases": (
        DEBIAN.replace("{debian: bookworm}", "{debian: bookworm, image: x}"),
        "image.yaml:3:7: base: can have only one of debian, image",
    ),
    "a name that is a path": (
        DERIVED.replace("below", "../x"),
        "image.yaml:3:15: base.image: '../x' is not an image name: words of a-z and 0-9, joined by '-'",
    ),
    "no way to configure": (
        DEBIAN.replace("configure: declared\n", ""),
        "image.yaml:1:1: configure: is required with a Debian or Alpine base",
    ),
    "no packages": (
        DEBIAN.replace("packages: [libc6]\n", ""),
        "image.yaml:1:1: packages: an image with a Debian or Alpine base needs at least one package",
    ),
    "what only a Debian base can have": (
        DERIVED + "packages: [a1]\nwithout: {b1: c}\nconfigure: scripts\nlayers: {budget: 3}\n",
        "image.yaml:4:11: packages: only an image with a Debian or Alpine base can have this\n"
        "image.yaml:5:10: without: only an image with a Debian or Alpine base can have this\n"
        "image.yaml:6:12: configure: only an image with a Debian or Alpine base can have this\n"
        "image.yaml:7:9: layers: only an image with a Debian or Alpine base can have this",
    ),
    "declarations beside scripts": (
        DEBIAN.replace("declared", "scripts") + "declare: [tmp]\n",
        "image.yaml:6:10: declare: not allowed with 'configure: scripts', where maintainer scripts do this",
    ),
    "a declaration there is not": (
        DEBIAN + "declare: [tmpp]\n",
        "image.yaml:6:11: declare[0]: must be one of merged-usr, accounts, ca-bundle, ld-cache, "
        "package-metadata, os-release, tmp, nsswitch, busybox-applets, alternatives, "
        "not 'tmpp'; did you mean 'tmp'?",
    ),
    "packages that can't be": (
        DEBIAN.replace("[libc6]", "[libc6, Git, 'a b', libc6, -x]"),
        "image.yaml:5:19: packages[1]: 'Git' is not a package: name, name=version or name/suite\n"
        "image.yaml:5:24: packages[2]: 'a b' is not a package: name, name=version or name/suite\n"
        "image.yaml:5:38: packages[4]: '-x' is not a package: name, name=version or name/suite",
    ),
    "a package twice": (
        DEBIAN.replace("[libc6]", "[libc6, git, libc6]"),
        "image.yaml:5:24: packages[2]: 'libc6' is there twice",
    ),
    "a package wanted and not": (
        DEBIAN + "without: {libc6: why}\n",
        "image.yaml:6:18: without.libc6: is in 'packages' too",
    ),
    "a package left out without a reason": (
        DEBIAN + "without: {dpkg: ''}\n",
        "image.yaml:6:17: without.dpkg: '' is not a line of text",
    ),
    "globs that can't be": (
        DEBIAN + "exclude: [usr/*, /a/../b, '/a[b']\n",
        "image.yaml:6:11: exclude[0]: 'usr/*' is not an absolute path\n"
        "image.yaml:6:18: exclude[1]: '/a/../b' holds '.' or '..'; write where it leads\n"
        "image.yaml:6:27: exclude[2]: '/a[b' has a bracket without its partner",
    ),
    "paths that can't be": (
        DERIVED
        + "directories:\n"
        + "".join(f"- {{path: {path}}}\n" for path in ("a", "/", "/a/", "//a", "/./a", "/a/..", '"/a\\nb"'))
        + f"- {{path: /{'x' * 256}}}\n",
        "image.yaml:5:10: directories[0].path: 'a' is not an absolute path\n"
        "image.yaml:6:10: directories[1].path: '/' is the root itself, which every image has\n"
        "image.yaml:7:10: directories[2].path: '/a/' has a slash too many\n"
        "image.yaml:8:10: directories[3].path: '//a' has a slash too many\n"
        "image.yaml:9:10: directories[4].path: '/./a' holds '.' or '..'; write where it leads\n"
        "image.yaml:10:10: directories[5].path: '/a/..' holds '.' or '..'; write where it leads\n"
        "image.yaml:11:10: directories[6].path: '/a\\nb' holds a control character\n"
        f"image.yaml:12:10: directories[7].path: '/{'x' * 56}...' is longer than Linux takes",
    ),
    "modes that can't be": (
        DERIVED
        + "directories:\n"
        + "".join(f"- {{path: /a, mode: {mode}}}\n" for mode in (755, "0o755", '"888"')),
        'image.yaml:5:20: directories[0].mode: must be octal digits in quotes, like "0755", '
        "not 755 without quotes\n"
        'image.yaml:6:20: directories[1].mode: must be octal digits in quotes, like "0755", '
        "not 493 without quotes\n"
        "image.yaml:7:20: directories[2].mode: must be octal digits in quotes, like \"0755\", not '888'",
    ),
    "two things at one path": (
        DERIVED + "files: [{path: /a, content: x}]\nlinks: [{path: /a, target: b}]\n",
        "image.yaml:5:16: links[0].path: '/a' is made by files[0] already",
    ),
    "a file from nowhere": (
        DERIVED + "files: [{path: /a}]\n",
        "image.yaml:4:9: files[0]: must have either 'source' or 'content'",
    ),
    "a file from two places": (
        DERIVED + "files: [{path: /a, source: b, content: c}]\n",
        "image.yaml:4:9: files[0]: must have either 'source' or 'content'",
    ),
    "sources that are not below the definition": (
        DERIVED + "files: [{path: /a, source: /etc/passwd}, {path: /b, source: ../../x}]\n",
        "image.yaml:4:28: files[0].source: '/etc/passwd' must be relative to the definition's directory\n"
        "image.yaml:4:61: files[1].source: '/../../x' holds '.' or '..'; write where it leads",
    ),
    "a source that is not there": (
        DERIVED + "files: [{path: /a, source: files/a}]\n",
        "image.yaml:4:28: files[0].source: there is no file 'files/a'",
    ),
    "a link to nothing": (
        DERIVED + "links: [{path: /a, target: ''}]\n",
        "image.yaml:4:28: links[0].target: must not be empty",
    ),
    "accounts that would be other lines of passwd": (
        DERIVED + 'accounts: {users: [{name: "a:b", uid: 1, gid: 1, comment: "x:0:0", home: "/a\\nb"}]}\n',
        "image.yaml:4:27: accounts.users[0].name: 'a:b' is not a name for a user or group\n"
        "image.yaml:4:59: accounts.users[0].comment: 'x:0:0' is not text for a field of passwd, "
        "which ':' would end\n"
        "image.yaml:4:74: accounts.users[0].home: '/a\\nb' holds a control character",
    ),
    "ids out of range": (
        DERIVED + "accounts: {groups: [{name: a, gid: -1}, {name: b, gid: 4294967295}]}\n",
        "image.yaml:4:36: accounts.groups[0].gid: must be at least 0, not -1\n"
        "image.yaml:4:56: accounts.groups[1].gid: must be at most 4294967294, not 4294967295",
    ),
    "accounts that are there twice": (
        DERIVED + "accounts: {users: [{name: a, uid: 1, gid: 1}, {name: a, uid: 1, gid: 1}]}\n",
        "image.yaml:4:54: accounts.users[1].name: 'a' is there twice\n"
        "image.yaml:4:62: accounts.users[1].uid: 1 is there twice",
    ),
    "owners that are no account": (
        DEBIAN
        + "declare: [accounts]\n"
        + "directories: [{path: /a, user: me}]\n"
        + "config: {user: 'me:us'}\n",
        "image.yaml:7:15: directories[0].group: there is no group 'root' in 'accounts'\n"
        "image.yaml:7:32: directories[0].user: there is no user 'me' in 'accounts'\n"
        "image.yaml:8:16: config.user: there is no group 'us' in 'accounts'\n"
        "image.yaml:8:16: config.user: there is no user 'me' in 'accounts'",
    ),
    "variables that can't be": (
        DERIVED + "config: {environment: {A=B: x, C: 1, D: }}\n",
        "image.yaml:4:24: config.environment[\"A=B\"]: 'A=B' is not the name of an environment variable\n"
        "image.yaml:4:35: config.environment.C: must be text, not 1; put it in quotes\n"
        "image.yaml:4:41: config.environment.D: must be text, not null",
    ),
    "an empty command": (
        DERIVED + "config: {entrypoint: []}\n",
        "image.yaml:4:22: config.entrypoint: must not be empty",
    ),
    "a command in one word": (
        DERIVED + "config: {command: ls -l}\n",
        "image.yaml:4:19: config.command: must be a list, not 'ls -l'",
    ),
    "a user that can't be": (
        DERIVED + "config: {user: 'a b'}\n",
        "image.yaml:4:16: config.user: 'a b' is not a user, like 'name' or '1000:1000'",
    ),
    "platforms that can't be": (
        DERIVED + "platforms: [linux/amd64, linux/amd46, linux/amd64]\n",
        "image.yaml:4:26: platforms[1]: must be one of linux/amd64, linux/arm64, not 'linux/amd46'; "
        "did you mean 'linux/amd64'?",
    ),
    "no platform": (DERIVED + "platforms: []\n", "image.yaml:4:12: platforms: must not be empty"),
    "no layers": (
        DEBIAN + "layers: {budget: 0}\n",
        "image.yaml:6:18: layers.budget: must be at least 1, not 0",
    ),
    "a check without a name": (
        DERIVED + "smoke: {checks: [{run: [a], status: 256}]}\n",
        "image.yaml:4:18: smoke.checks[0].name: is required\n"
        "image.yaml:4:37: smoke.checks[0].status: must be at most 255, not 256",
    ),
    "syntax": (
        "schema: [\n",
        "image.yaml:2:1: is not YAML: did not find expected node content while parsing a flow node",
    ),
    "a key twice": (DEBIAN + "packages: []\n", "image.yaml:6:1: packages: is given twice; first in line 5"),
    "nothing": ("", "image.yaml:1:1: must be a mapping, not null"),
}


@pytest.mark.parametrize(("text", "message"), REFUSALS.values(), ids=REFUSALS.keys())
def test_definitions_that_are_refused(tmp_path: Path, text: str, message: str) -> None:
    assert refusal(tmp_path / "image", text) == message


def test_an_unquoted_mode_with_a_zero_is_octal(tmp_path: Path) -> None:
    image = load_definition(write(tmp_path / "image", DERIVED + "directories: [{path: /a, mode: 0750}]\n"))
    assert image.directories[0].mode == 0o750


def test_a_source_must_not_lead_out(tmp_path: Path) -> None:
    folder = write(tmp_path / "image", DERIVED + "files: [{path: /a, source: files/a}]\n")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/a").write_text("secret")
    (folder / "files").symlink_to(tmp_path / "outside")
    with pytest.raises(DocumentError, match=r"files\[0\]\.source: 'files/a' leads through a symbolic link$"):
        load_definition(folder)
    (folder / "files").unlink()
    (folder / "files").mkdir()
    (folder / "files/a").mkdir()
    with pytest.raises(DocumentError, match=r"files\[0\]\.source: there is no file 'files/a'$"):
        load_definition(folder)


@pytest.mark.parametrize("load", [load_definition, lambda folder: load_vex(folder / "image.yaml"), load_lock])
def test_faults_of_a_link_quote_nothing_of_the_file(load: Callable[[Path], object], tmp_path: Path) -> None:
    """A stranger's link can lead to your secrets, as for a policy."""
    (tmp_path / "credentials").write_text('{"aws_secret_access_key": "s3cr3t"}\n')
    folder = tmp_path / "image"
    folder.mkdir()
    for name in ("image.yaml", "lock.json"):
        (folder / name).symlink_to(tmp_path / "credentials")
    with pytest.raises(DocumentError, match="the file to which this link leads is not valid") as caught:
        load(folder)
    assert "s3cr3t" not in str(caught.value)
    assert "aws" not in str(caught.value)


@pytest.mark.parametrize(
    "exchanged", ["project/images/image/files", "project/images/image", "project/images"]
)
def test_what_is_exchanged_later_is_not_read(tmp_path: Path, exchanged: str) -> None:
    """A sandbox of the project could exchange the file while the image is built."""
    folder = write(tmp_path / "project/images/image", DERIVED + "files: [{path: /a, source: files/a}]\n")
    (folder / "files").mkdir()
    (folder / "files/a").write_text("text")
    definition = load_definition(folder)
    secret = tmp_path / "secret" / "image" / "files"
    secret.mkdir(parents=True)
    (secret / "a").write_text("secret")
    target = {"files": secret, "image": secret.parent, "images": secret.parent.parent}
    (tmp_path / exchanged).rename(tmp_path / "moved")
    (tmp_path / exchanged).symlink_to(target[Path(exchanged).name])
    with pytest.raises(BuildError, match="cannot read "):
        checksums(definition)
    with pytest.raises(HostError, match="cannot read "):
        collect_sources({"image": definition}, "image")


def test_a_definition_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DocumentError) as caught:
        load_definition(tmp_path)
    assert str(caught.value) == f"{tmp_path}/image.yaml: cannot read the file: No such file or directory"


def test_a_directory_that_can_not_name_an_image(tmp_path: Path) -> None:
    with pytest.raises(DocumentError) as caught:
        load_definition(write(tmp_path / "My Image", DEBIAN))
    assert str(caught.value).endswith("'My Image' cannot name an image: words of a-z and 0-9, joined by '-'")


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("/usr/bin/python3", True),
        ("/usr/bin/pydoc3", False),
        ("/usr/bin/deep/er", False),
        ("/usr/bin", True),
        ("/usr/share/doc/a/copyright", True),
        ("/usr/share/doc/a/b/copyright", True),
        ("/usr/share/doc/a/changelog.gz", False),
        ("/usr/share/doc\nx/changelog", True),
        ("/opt/x1", False),
        ("/opt/x2", True),
        ("/opt/ab", False),
        ("/OPT/x1", True),
    ],
)
def test_wildcards_match_as_dpkg_s_do(tmp_path: Path, path: str, wanted: bool) -> None:
    text = DEBIAN + (
        "exclude: [/usr/bin/*, '/usr/share/doc/*', '/opt/x[!2]', '/opt/a?']\n"
        "keep: [/usr/bin/python3, '/usr/share/doc/*/copyright']\n"
    )
    assert load_definition(write(tmp_path / "image", text)).wanted()(path) is wanted


def test_without_wildcards_everything_is_wanted(tmp_path: Path) -> None:
    assert load_definition(write(tmp_path / "image", DEBIAN)).wanted()("/usr/share/doc/x")


def test_a_configuration_over_that_of_the_base() -> None:
    base = Config(
        user="a",
        environment={"A": "1", "B": "2"},
        workdir="/w",
        entrypoint=("e",),
        command=("c",),
        labels={"l": "1"},
        stop_signal="SIGINT",
    )
    assert Config().over(base) == base
    own = Config(user="b", environment={"B": "3"}, labels={"m": "2"})
    assert own.over(base) == Config(
        user="b",
        environment={"A": "1", "B": "3"},
        workdir="/w",
        entrypoint=("e",),
        command=("c",),
        labels={"l": "1", "m": "2"},
        stop_signal="SIGINT",
    )
    assert Config(entrypoint=("f",)).over(base).command is None
    assert Config(entrypoint=("f",), command=("d",)).over(base).command == ("d",)
    assert Config(command=("d",)).over(base).entrypoint == ("e",)


def test_a_catalogue_has_bases_first(tmp_path: Path) -> None:
    for name, base in {"a": "c", "b": "a", "c": "z"}.items():
        write(tmp_path / name, DERIVED.replace("below", base))
    write(tmp_path / "z", DEBIAN)
    (tmp_path / "not-an-image").mkdir()
    (tmp_path / "a-file").write_text("")
    assert list(load_catalogue(tmp_path)) == ["z", "c", "a", "b"]


@pytest.mark.parametrize("name", ["", "nowhere"])
def test_a_catalogue_of_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / "image.yaml").write_text(DEBIAN)
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden/image.yaml").write_text(DEBIAN)
    with pytest.raises(UsageError) as caught:
        load_catalogue(tmp_path / name)
    assert str(caught.value) == f"{tmp_path / name} holds no image definitions: nothing like NAME/image.yaml"


def test_the_directory_one_is_in_names_the_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(write(tmp_path / "small", DEBIAN))
    assert load_definition(Path()).name == "small"


@pytest.mark.parametrize(
    ("bases", "message"),
    [
        ({"a": "b"}, "a/image.yaml:3:15: base.image: there is no image 'b'; there is a"),
        ({"a": "a"}, "a/image.yaml:3:15: base.image: an image cannot be its own base: a → a"),
        ({"a": "b", "b": "a"}, "b/image.yaml:3:15: base.image: an image cannot be its own base: a → b → a"),
        (
            {"a": "b", "b": "c", "c": "b"},
            "c/image.yaml:3:15: base.image: an image cannot be its own base: a → b → c → b",
        ),
    ],
)
def test_catalogues_that_are_refused(tmp_path: Path, bases: dict[str, str], message: str) -> None:
    for name, base in bases.items():
        write(tmp_path / name, DERIVED.replace("below", base))
    with pytest.raises(DocumentError) as caught:
        load_catalogue(tmp_path)
    assert str(caught.value) == f"{tmp_path}/{message}"


def test_a_base_must_have_the_platforms(tmp_path: Path) -> None:
    write(tmp_path / "below", DEBIAN + "platforms: [linux/arm64]\n")
    write(tmp_path / "above", DERIVED + "platforms: [linux/amd64, linux/arm64]\n")
    with pytest.raises(DocumentError) as caught:
        load_catalogue(tmp_path)
    expected = "above/image.yaml:4:12: platforms: its base 'below' is not built for linux/amd64"
    assert str(caught.value) == f"{tmp_path}/{expected}"


def shipped() -> dict[str, Any]:
    return {name: yaml.safe_load(data_path("images", name, "image.yaml").read_text()) for name in IMAGES}


def test_the_images_that_ship() -> None:
    catalogue = load_catalogue(data_path("images"))
    assert sorted(catalogue) == sorted(IMAGES)
    assert catalogue["workspace"].parent == "debian"
    assert catalogue["debian"].configure == "scripts"
    assert {"git", "curl", "python3", "ca-certificates"} <= {*catalogue["debian"].packages}
    for image in catalogue.values():
        assert image.platforms == ("linux/amd64", "linux/arm64")
        assert image.smoke.programs
        assert image.smoke.checks
        config = image.config if image.parent is None else image.config.over(catalogue[image.parent].config)
        assert config.user not in (None, "root", "0")


def test_the_distroless_image_has_the_accounts_of_its_kind() -> None:
    # As in https://github.com/GoogleContainerTools/distroless (base/testdata/base.yaml).
    image = load_definition(data_path("images", "distroless"))
    assert [(user.name, user.uid, user.gid, user.home, user.shell) for user in image.accounts.users] == [
        ("root", 0, 0, "/root", "/sbin/nologin"),
        ("nobody", 65534, 65534, "/nonexistent", "/sbin/nologin"),
        ("nonroot", 65532, 65532, "/home/nonroot", "/sbin/nologin"),
    ]
    assert {(group.name, group.gid) for group in image.accounts.groups} == {
        ("root", 0),
        ("nobody", 65534),
        ("tty", 5),
        ("staff", 50),
        ("nonroot", 65532),
    }
    wanted = image.wanted()
    for shell in ("/bin/sh", "/bin/bash", "/usr/bin/dash", "/usr/bin/busybox", "/sbin/ldconfig"):
        assert not wanted(shell)
    assert wanted("/usr/bin/python3.11")
    assert wanted("/usr/share/doc/libc6/copyright")


def test_a_suite_that_can_be_named_can_be_locked() -> None:
    assert get_args(DebianBase.__annotations__["debian"]) == tuple(SUITES)


def test_the_schema_is_the_one_that_ships() -> None:
    text = json.dumps(definition_schema(), indent=2, sort_keys=True) + "\n"
    assert data_path("images", "image.schema.json").read_text() == text


def test_the_schema_is_a_schema() -> None:
    schema = definition_schema()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("name", IMAGES)
def test_the_schema_takes_the_images_that_ship(name: str) -> None:
    path = data_path("images", name, "image.yaml")
    assert path.read_text().startswith("# yaml-language-server: $schema=../image.schema.json\n")
    found = parse_yaml(path.read_bytes(), file=name).data
    jsonschema.Draft202012Validator(definition_schema()).validate(found)


SCHEMA_REFUSES: dict[str, str] = {
    "an unknown key": DEBIAN + "package: []\n",
    "another version": DEBIAN.replace("schema: 1", "schema: 2"),
    "no base": DEBIAN.replace("base: {debian: bookworm}\n", ""),
    "two bases": DEBIAN.replace("{debian: bookworm}", "{debian: bookworm, image: x}"),
    "an unknown suite": DEBIAN.replace("bookworm", "bookwurm"),
    "no packages": DEBIAN.replace("packages: [libc6]\n", ""),
    "no way to configure": DEBIAN.replace("configure: declared\n", ""),
    "packages over an image": DERIVED + "packages: [a1]\n",
    "a mode that is a number": DERIVED + "directories: [{path: /a, mode: 493}]\n",
    "a relative path": DERIVED + "directories: [{path: a}]\n",
    "a name that cannot be": DEBIAN.replace("libc6", "Git"),
    "an unknown declaration": DEBIAN + "declare: [tmpp]\n",
    "a command in one word": DERIVED + "config: {command: ls}\n",
}


@pytest.mark.parametrize("text", SCHEMA_REFUSES.values(), ids=SCHEMA_REFUSES.keys())
def test_the_schema_refuses_what_loading_refuses(tmp_path: Path, text: str) -> None:
    found = parse_yaml(text, file="image.yaml").data
    assert not jsonschema.Draft202012Validator(definition_schema()).is_valid(found)
    refusal(tmp_path / "image", text)


FULL: dict[str, Any] = {
    "schema": 1,
    "description": "An image.",
    "base": {"debian": "bookworm"},
    "configure": "declared",
    "packages": ["libc6"],
    "without": {"dpkg": "why"},
    "exclude": ["/a/*"],
    "declare": ["tmp"],
    "accounts": {"users": [{"name": "a", "uid": 1, "gid": 1}], "groups": [{"name": "a", "gid": 1}]},
    "directories": [{"path": "/b", "mode": "0755", "user": "a"}],
    "files": [{"path": "/c", "content": "x"}],
    "links": [{"path": "/d", "target": "c"}],
    "config": {"user": "a", "environment": {"A": "b"}, "command": ["c"]},
    "platforms": ["linux/amd64"],
    "smoke": {"programs": [["a"]], "checks": [{"name": "n", "run": ["a"]}]},
    "layers": {"budget": 3},
}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["image", "/x", "a"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["image", "debian", "name", "path", "key"]), inner, max_size=3)
    ),
    max_leaves=5,
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from _places(inner, (*path, key))


@given(st.lists(st.tuples(st.sampled_from(list(_places(FULL))[1:]), ANYTHING), min_size=1, max_size=3))
def test_whatever_is_wrong_is_told_with_a_position(changes: list[tuple[tuple[Any, ...], Any]]) -> None:
    data = copy.deepcopy(FULL)
    for path, value in changes:
        with contextlib.suppress(KeyError, IndexError, TypeError):  # an earlier change removed the position
            functools.reduce(operator.getitem, path[:-1], data)[path[-1]] = value
    try:
        text = parse_yaml(json.dumps(data), file="image.yaml")
        decode(ImageDefinition, text)
    except DocumentError as error:
        assert error.problems  # noqa: PT017 - either outcome is right
        assert all(problem.message for problem in error.problems)  # noqa: PT017


def test_sections_are_frozen() -> None:
    for section in (Directory(path="/a"), ImageFile(path="/a", content=""), Link(path="/a", target="b")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            section.path = "/b"  # type: ignore[misc]
