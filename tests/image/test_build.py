"""Building images: their content, when they are built again, and errors by name.

Tests of image/assemble.py: files are shared out over layers.
Tests of image/build.py.
Tests of image/documents.py: manifest and configuration.
Tests of image/plan.py: when an image is built again.
Tests of image/publish.py: platforms that are up to date stay.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import sandwright
from sandwright.errors import BuildError, FetchError, HostError, IntegrityError, LockError, UsageError
from sandwright.image.assemble import share_out
from sandwright.image.definition import ImageDefinition
from sandwright.image.existing import read_layout
from sandwright.image.lock import Lock, PackageGone
from sandwright.image.packages import PackageSource
from sandwright.image.plan import builder_checksum, plan_build
from support.debs import Member, deb, folder, promise
from support.smallworld import EPOCH, World, contents, document, small_world

ARM = {"os": "linux", "architecture": "arm64", "variant": "v8"}
AMD = {"os": "linux", "architecture": "amd64"}
CREATED = "2020-09-14T16:13:20Z"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return small_world(tmp_path)


def inodes(path: Path) -> dict[str, tuple[int, int]]:
    return {str(each): (each.stat().st_ino, each.stat().st_mtime_ns) for each in path.rglob("*")}


def test_the_layout(world: World) -> None:
    built = world.build("base")["base"]
    layout = world.output / "images/base"
    assert (built.layout, built.changed, built.reason) == (layout, True, "it is not there")
    index = json.loads((layout / "index.json").read_bytes())
    assert index["mediaType"] == "application/vnd.oci.image.index.v1+json"
    named = {each["annotations"]["org.opencontainers.image.ref.name"]: each for each in index["manifests"]}
    assert list(named) == ["latest", "amd64", "arm64"]
    assert named["latest"]["mediaType"] == "application/vnd.oci.image.index.v1+json"
    assert named["latest"]["digest"] == built.digest
    assert [named[name]["platform"] for name in ("amd64", "arm64")] == [AMD, ARM]
    whole = document(layout, built.digest)
    assert [each["platform"] for each in whole["manifests"]] == [AMD, ARM]
    assert [each["digest"] for each in whole["manifests"]] == [
        named[name]["digest"] for name in ("amd64", "arm64")
    ]
    referenced = {built.digest} | {each["digest"] for each in whole["manifests"]}
    for each in whole["manifests"]:
        manifest = document(layout, each["digest"])
        referenced |= {manifest["config"]["digest"]} | {layer["digest"] for layer in manifest["layers"]}
    assert {f"sha256:{each.name}" for each in (layout / "blobs/sha256").iterdir()} == referenced


def test_manifest_and_config(world: World) -> None:
    built = world.build("base")["base"]
    image = built.images["linux/arm64"]
    manifest = document(built.layout, image.manifest.digest)
    assert manifest["annotations"] == {
        "dev.sandwright.layer.codec": manifest["annotations"]["dev.sandwright.layer.codec"],
        "org.opencontainers.image.created": CREATED,
        "org.opencontainers.image.description": "A small base.",
        "org.opencontainers.image.title": "base",
    }
    assert manifest["annotations"]["dev.sandwright.layer.codec"].startswith("gzip; deflate=")
    assert {layer["mediaType"] for layer in manifest["layers"]} == {
        "application/vnd.oci.image.layer.v1.tar+gzip"
    }
    config = document(built.layout, image.config.digest)
    assert {key: config[key] for key in ("os", "architecture", "variant", "created")} == {
        **ARM,
        "created": CREATED,
    }
    assert config["config"] == {
        "Cmd": ["/usr/bin/thing"],
        "Env": ["LANG=C.UTF-8", "PATH=/usr/bin"],
        "Labels": {
            "kind": "base",
            "org.opencontainers.image.description": "A small base.",
            "org.opencontainers.image.title": "base",
        },
    }
    assert [(each["created"], each["created_by"]) for each in config["history"]] == [
        (CREATED, "base-files_12"),
        (CREATED, "libthing1_1.0"),
        (CREATED, "sandwright: base"),
    ]


@pytest.mark.parametrize(
    ("platform", "triplet"), [("linux/amd64", "x86_64-linux-gnu"), ("linux/arm64", "aarch64-linux-gnu")]
)
def test_the_tree(world: World, platform: str, triplet: str) -> None:
    built = world.build("base")["base"]
    tree = contents(built.layout, built.images[platform].manifest.digest)
    assert sorted(path for path in tree if path.startswith("usr")) == [
        "usr",
        "usr/bin",
        "usr/bin/thing",
        "usr/bin/thing-too",
        "usr/lib",
        *sorted(
            [
                f"usr/lib/{triplet}",
                f"usr/lib/{triplet}/libthing.so.1",
                f"usr/lib/{triplet}/libthing.so.1.0",
                "usr/lib/os-release",
            ]
        ),
        "usr/sbin",
        "usr/share",
        "usr/share/ca-certificates",
        "usr/share/ca-certificates/test",
        "usr/share/ca-certificates/test/one.crt",
        "usr/share/doc",
        "usr/share/doc/libthing1",
        "usr/share/doc/libthing1/copyright",
    ]
    assert {path: tree[path].link for path in ("bin", "sbin", "lib")} == {
        "bin": "usr/bin",
        "sbin": "usr/sbin",
        "lib": "usr/lib",
    }
    assert tree["usr/bin/thing"].mode == 0o4755
    assert tree["usr/bin/thing-too"].link == "usr/bin/thing"
    assert (tree["var/mail"].mode, tree["var/mail"].gid) == (0o2775, 8)
    assert tree["tmp"].mode == tree["var/tmp"].mode == 0o1777
    assert tree["etc/passwd"].data == b"root:x:0:0::/root:/bin/sh\n"
    assert tree["etc/ssl/certs/ca-certificates.crt"].data == b"CERTIFICATE\n"
    assert f"/lib/{triplet}/libthing.so.1".encode() in tree["etc/ld.so.cache"].data
    assert tree["var/lib/dpkg/status.d/libthing1"].data.startswith(b"Package: libthing1\nVersion: 1.0\n")
    assert max(entry.mtime for entry in tree.values()) == EPOCH


def test_an_image_on_top(world: World) -> None:
    built = world.build("app")
    assert list(built) == ["base", "app"]
    base, app = built["base"], built["app"]
    for platform in ("linux/amd64", "linux/arm64"):
        below, image = base.images[platform], app.images[platform]
        assert image.layers[:-1] == below.layers
        assert image.diff_ids[:-1] == below.diff_ids
        for blob in below.layers:
            ours, theirs = (each.layout / "blobs/sha256" / blob.name for each in (app, base))
            assert ours.samefile(theirs)
    image = app.images["linux/amd64"]
    tree = contents(app.layout, image.manifest.digest)
    assert tree["etc/passwd"].data.endswith(b":/root:/bin/sh\napp:x:1000:1000::/home/app:/bin/sh\n")
    assert tree["etc/group"].data == b"root:x:0:\ntty:x:5:\napp:x:1000:\n"
    assert (tree["usr/bin/run"].mode, tree["usr/bin/run"].data) == (0o755, b"#!run\n")
    assert "bin/run" not in tree
    entry = tree["etc/app.conf"]
    assert (entry.mode, entry.uid, entry.gid) == (0o640, 1000, 5)
    assert (tree["home/app"].mode, tree["home/app"].uid, tree["home/app"].gid) == (0o750, 1000, 1000)
    manifest = document(app.layout, image.manifest.digest)
    # To regctl and others, the name `base` is an image of Docker Hub.
    assert "org.opencontainers.image.base.name" not in manifest["annotations"]
    assert manifest["annotations"]["org.opencontainers.image.base.digest"] == base.digest
    config = document(app.layout, image.config.digest)
    assert config["config"] == {
        "Entrypoint": ["/bin/run"],
        "Env": ["EXTRA=1", "LANG=C", "PATH=/usr/bin"],
        "Labels": {
            "kind": "app",
            "org.opencontainers.image.description": "A small image on top.",
            "org.opencontainers.image.title": "app",
        },
        "User": "1000",
    }
    assert config["history"][-1]["created_by"] == "sandwright: app"
    assert len(config["history"]) == len(image.layers)


def test_a_second_run_does_nothing(world: World) -> None:
    first = world.build()
    before = inodes(world.output)
    shutil.rmtree(world.cache.root)
    shutil.rmtree(world.mirror)
    second = world.build()
    assert inodes(world.output) == before
    assert {name: (each.changed, each.reason) for name, each in second.items()} == {
        "base": (False, ""),
        "app": (False, ""),
    }
    assert {name: each.digest for name, each in first.items()} == {
        name: each.digest for name, each in second.items()
    }
    assert second["app"].images == first["app"].images


def edit(world: World, name: str, old: str, new: str) -> None:
    path = world.images / name / "image.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def change_environment(world: World) -> None:
    edit(world, "base", "LANG: C.UTF-8", "LANG: C")


def change_description(world: World) -> None:
    edit(world, "base", "A small base.", "Another sentence.")


def change_exclusion(world: World) -> None:
    edit(world, "base", "keep: [/usr/share/doc/*/copyright]", "keep: []")


def change_lock(world: World) -> None:
    world.lock(world.catalogue["base"], world.packages(version="1.1"))


def change_epoch(world: World) -> None:
    world.lock(world.catalogue["base"], world.packages(), epoch=EPOCH + 1)


@pytest.mark.parametrize(
    "change",
    [change_environment, change_description, change_exclusion, change_lock, change_epoch],
    ids=lambda change: change.__name__,
)
def test_what_decides_about_an_image_builds_it_again(world: World, change: Callable[[World], None]) -> None:
    first = world.build()
    change(world)
    second = world.build()
    assert {name: (each.changed, each.reason) for name, each in second.items()} == {
        "base": (True, "it was made from something else"),
        "app": (True, "its base base is built"),
    }
    assert first["base"].digest != second["base"].digest
    assert second == {name: each for name, each in second.items() if read_layout(each.layout, verify=True)}


def change_source(world: World) -> None:
    (world.images / "app/files/run").write_text("#!other\n")


def change_link(world: World) -> None:
    edit(world, "app", "target: run", "target: thing")


@pytest.mark.parametrize("change", [change_source, change_link], ids=lambda change: change.__name__)
def test_a_change_on_top_leaves_the_base(world: World, change: Callable[[World], None]) -> None:
    world.build()
    change(world)
    second = world.build()
    assert (second["base"].reason, second["app"].reason) == ("", "it was made from something else")
    assert second["app"].changed


def test_all_code_that_decides_about_an_image_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each module of both rooms counts, in every folder: `rootfs/unpacking`, for one, merges a base."""
    read: set[Path] = set()
    read_bytes = Path.read_bytes

    def recorded(path: Path) -> bytes:
        read.add(path)
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", recorded)
    builder_checksum.__wrapped__()
    rooms = [Path(sandwright.__file__).parent / room for room in ("image", "rootfs")]
    assert read == {module for room in rooms for module in room.rglob("*.py")}


def test_a_changed_builder_builds_again_and_keeps_the_digests(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = world.build()
    monkeypatch.setattr("sandwright.image.plan.builder_checksum", lambda: "another")
    second = world.build()
    assert second["base"].reason == "it was made from something else"
    assert [each.digest for each in second.values()] == [each.digest for each in first.values()]


def test_checks_decide_nothing_about_an_image(world: World) -> None:
    world.build()
    edit(world, "base", "smoke: {programs: [[thing]]}", "smoke: {programs: [[thing], [thing, again]]}")
    assert [each.reason for each in world.build().values()] == ["", ""]


def test_a_base_that_comes_out_the_same_changes_nothing_on_top(world: World) -> None:
    first = world.build()
    shutil.rmtree(world.output / "images/base")
    second = world.build()
    assert (second["base"].reason, second["app"].changed) == ("it is not there", False)
    assert second["app"].digest == first["app"].digest


def damage_cut(layout: Path) -> None:
    largest = max((layout / "blobs/sha256").iterdir(), key=lambda path: path.stat().st_size)
    os.truncate(largest, 10)


def damage_missing(layout: Path) -> None:
    smallest = min((layout / "blobs/sha256").iterdir(), key=lambda path: path.stat().st_size)
    smallest.unlink()


def damage_index(layout: Path) -> None:
    (layout / "index.json").write_text("{}")


def damage_document(layout: Path) -> None:
    digest = json.loads((layout / "index.json").read_bytes())["manifests"][1]["digest"]
    path = layout / "blobs/sha256" / digest.removeprefix("sha256:")
    path.write_bytes(path.read_bytes().replace(b"amd64", b"amd63").replace(b"small", b"SMALL"))


@pytest.mark.parametrize(
    "damage", [damage_cut, damage_missing, damage_index, damage_document], ids=lambda damage: damage.__name__
)
def test_a_damaged_layout_is_noticed_and_repaired(world: World, damage: Callable[[Path], None]) -> None:
    first = world.build("base")["base"]
    damage(first.layout)
    second = world.build("base")["base"]
    assert second.reason.startswith(f"it is damaged: {first.layout}")
    assert second.digest == first.digest
    assert read_layout(first.layout, verify=True).whole.digest == first.digest


def test_a_flipped_bit_is_noticed_when_asked_for(world: World) -> None:
    first = world.build("base")["base"]
    path = first.layout / "blobs/sha256" / first.images["linux/amd64"].layers[0].name
    raw = bytearray(path.read_bytes())
    raw[100] ^= 1
    path.write_bytes(raw)
    assert world.build("base")["base"].reason == ""
    assert "has the digest sha256:" in world.build("base", verify=True)["base"].reason
    assert read_layout(first.layout, verify=True)


def test_the_time_can_be_given(world: World) -> None:
    built = world.build(epoch=1_000_000_000)
    for each in built.values():
        image = each.images["linux/amd64"]
        assert document(each.layout, image.config.digest)["created"] == "2001-09-09T01:46:40Z"
        assert (
            max(entry.mtime for entry in contents(each.layout, image.manifest.digest).values())
            == 1_000_000_000
        )
    assert [each.reason for each in world.build(epoch=1_000_000_000).values()] == ["", ""]
    assert all(each.changed for each in world.build().values())


def test_one_platform(world: World) -> None:
    built = world.build("app", platforms=["linux/arm64"])
    assert [list(each.images) for each in built.values()] == [["linux/arm64"], ["linux/arm64"]]
    index = json.loads((built["app"].layout / "index.json").read_bytes())
    assert [each["annotations"]["org.opencontainers.image.ref.name"] for each in index["manifests"]] == [
        "latest",
        "arm64",
    ]


def platforms_in(layout: Path) -> list[str]:
    return list(read_layout(layout, verify=True).images)


def test_a_platform_asked_for_leaves_the_other(world: World) -> None:
    whole = world.build()
    before = {name: inodes(each.layout) for name, each in whole.items()}
    built = world.build(platforms=["linux/arm64"])
    assert {name: inodes(each.layout) for name, each in built.items()} == before
    assert [(each.digest == whole[name].digest, each.reason) for name, each in built.items()] == [
        (True, ""),
        (True, ""),
    ]
    assert [list(each.images) for each in built.values()] == [["linux/arm64"], ["linux/arm64"]]


@pytest.mark.parametrize("order", [["amd64", "arm64"], ["arm64", "amd64"]], ids=" ".join)
def test_one_platform_after_the_other_is_both_at_once(world: World, tmp_path: Path, order: list[str]) -> None:
    whole = world.build("base", output=tmp_path / "whole")["base"]
    world.build("base", platforms=[f"linux/{order[0]}"])
    kept = read_layout(world.output / "images/base").images[f"linux/{order[0]}"]
    config = world.output / "images/base/blobs/sha256" / kept.config.name
    written = config.stat().st_mtime_ns
    (world.mirror / "debian" / "pool").rename(world.root / "gone")  # layers that stay need no package again
    shutil.rmtree(world.cache.root)
    with pytest.raises(PackageGone, match=order[1]):
        world.build("base", platforms=list(whole.images))
    (world.root / "gone").rename(world.mirror / "debian" / "pool")
    built = world.build("base", platforms=[f"linux/{order[1]}"])["base"]
    assert built.reason == f"it is not there for linux/{order[1]}"
    assert built.digest == whole.digest
    assert platforms_in(built.layout) == ["linux/amd64", "linux/arm64"]
    assert config.stat().st_mtime_ns == written
    assert world.build("base")["base"].reason == ""


def test_a_platform_made_from_something_else_is_dropped_with_a_word(world: World) -> None:
    world.build()
    edit(world, "base", "kind: base", "kind: other")
    built = world.build(platforms=["linux/amd64"])
    assert [platforms_in(each.layout) for each in built.values()] == [["linux/amd64"]] * 2
    assert [note for note in world.notes if "dropped" in note] == [
        f"{name}: linux/arm64 is dropped: it was made from something else" for name in ("base", "app")
    ]


BUDGETS = {
    1: ["a b c d"],
    2: ["a b d", "c"],
    3: ["a d", "b", "c"],
    4: ["a", "b", "c", "d"],
    9: ["a", "b", "c", "d"],
}


@pytest.mark.parametrize(("budget", "expected"), BUDGETS.items())
def test_layers_are_shared_out(budget: int, expected: list[str]) -> None:
    sizes = {"a": 5, "b": 70, "c": 900, "d": 5}
    sources = [PackageSource(name, Path(), promise(b"x" * size)) for name, size in sizes.items()]
    assert [" ".join(each.name for each in group) for group in share_out(sources, budget)] == expected


def relock_with(world: World, version: str) -> tuple[Callable[[ImageDefinition], Lock], list[str]]:
    asked: list[str] = []

    def relock(definition: ImageDefinition) -> Lock:
        asked.append(definition.name)
        return world.lock(definition, world.packages(version=version))

    return relock, asked


def test_a_package_that_is_gone_has_the_image_locked_again(world: World) -> None:
    (world.mirror / "debian/pool/main/libthing1_1.0_arm64.deb").unlink()
    relock, asked = relock_with(world, "1.1")
    built = world.build("base", relock=relock)["base"]
    assert asked == ["base"]
    assert world.notes[0].startswith(
        f"base: no longer on file://{world.mirror}/debian: libthing1 1.0 (arm64)"
    )
    assert world.notes[0].endswith("; locking it again")
    tree = contents(built.layout, built.images["linux/arm64"].manifest.digest)
    assert tree["usr/bin/thing"].data == b"#!thing 1.1\n"
    assert world.build("base")["base"].reason == ""


@pytest.mark.parametrize("frozen", [True, False], ids=["frozen", "nobody to lock"])
def test_a_package_that_is_gone_is_an_error(world: World, frozen: bool) -> None:
    (world.mirror / "debian/pool/main/libthing1_1.0_arm64.deb").unlink()
    relock, asked = relock_with(world, "1.1")
    with pytest.raises(LockError, match=r"^no longer on .*: libthing1 1\.0 \(arm64\)"):
        world.build("base", frozen=frozen, relock=relock if frozen else None)
    assert asked == []
    assert not (world.output / "images/base").exists()


def lose_lock(world: World) -> None:
    (world.images / "base/lock.json").unlink()


def stale_lock(world: World) -> None:
    edit(world, "base", "packages: [base-files, libthing1]", "packages: [libthing1]")


LOCKS = {
    "missing": (lose_lock, "image 'base' is not locked"),
    "stale": (stale_lock, "image 'base': its definition has changed"),
}


@pytest.mark.parametrize(("change", "message"), LOCKS.values(), ids=list(LOCKS))
def test_a_lock_that_will_not_do(world: World, change: Callable[[World], None], message: str) -> None:
    change(world)
    with pytest.raises(LockError, match=f"^{message}"):
        world.build("base", frozen=True)
    assert not world.output.exists()
    with pytest.raises(LockError, match=f"^image 'base': it has to be locked: {message}"):
        world.build("base")
    relock, asked = relock_with(world, "1.0")
    built = world.build("base", relock=relock)["base"]
    assert asked == ["base"]
    assert built.reason.startswith(f"it has to be locked: {message}")
    assert world.notes == [f"base: {built.reason}; locking it again"]


def cached(world: World, name: str) -> Path:
    (package,) = (each for each in world.packages()["linux/amd64"] if each.name == name)
    return world.cache.path(package.sha256)


def test_a_damaged_cache_is_mended_from_the_mirror(world: World) -> None:
    first = world.build("base")["base"]
    path = cached(world, "libthing1")
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 4
    path.write_bytes(raw)
    shutil.rmtree(world.output)
    assert world.build("base")["base"].digest == first.digest


def test_a_mirror_that_swaps_a_package_is_found_out(world: World) -> None:
    """CVE-2026-42575: a package that was never compared with its promised checksum."""
    path = world.mirror / "debian/pool/main/libthing1_1.0_amd64.deb"
    path.write_bytes(path.read_bytes().replace(b"control.tar", b"control.taR", 1))
    with pytest.raises((IntegrityError, FetchError), match="libthing1"):
        world.build("base")
    assert not (world.output / "images/base").exists()


def test_a_package_damaged_while_it_is_read_names_itself(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package is damaged after the cache has reported it as whole."""
    world.build("base")
    shutil.rmtree(world.output)
    os.truncate(cached(world, "libthing1"), 300)
    monkeypatch.setattr(type(world.cache), "has", lambda *_, **__: True)
    with pytest.raises(
        IntegrityError, match=r"^package libthing1 1\.0 \(amd64\): 300 bytes, the lock says \d+$"
    ):
        world.build("base")
    assert list((world.output / "images").iterdir()) == []


def test_a_failure_leaves_the_image_that_was_there(world: World) -> None:
    first = world.build("base")["base"]
    before = inodes(world.output)
    edit(world, "base", "os-release, ", "")
    edit(world, "base", "layers:", "links: [{path: /usr, target: x}]\nlayers:")
    with pytest.raises(BuildError, match="cannot create 'usr': it is a directory of base-files"):
        world.build("base")
    assert {name: state for name, state in inodes(world.output).items() if "/base" in name} == {
        name: state for name, state in before.items() if "/base" in name
    }
    assert read_layout(first.layout, verify=True).whole.digest == first.digest


UNKNOWN = {
    "image": (["bse"], None, "there is no image 'bse'; there is base, app"),
    "platform": (
        ["app"],
        ["linux/riscv64"],
        "image 'base' is not made for linux/riscv64, only for linux/amd64, linux/arm64",
    ),
}


@pytest.mark.parametrize(("names", "platforms", "message"), UNKNOWN.values(), ids=list(UNKNOWN))
def test_unknown(world: World, names: list[str], platforms: list[str] | None, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        world.build(*names, platforms=platforms)
    assert str(caught.value) == message


def test_the_plan_says_what_will_be_done_and_touches_nothing(world: World) -> None:
    lines = plan_build(world.catalogue, [], output=world.output).describe()
    assert lines[0].startswith(
        "base: build for linux/amd64, linux/arm64 of 4 packages (0.0 MB), configured by declaration, "
    )
    assert lines[0].endswith("because it is not there")
    assert lines[1] == "app: build for linux/amd64, linux/arm64 on top of base, because it is not there"
    assert not world.output.exists()
    world.build("base")
    plan = plan_build(world.catalogue, ["app"], output=world.output)
    assert plan.describe()[0] == "base: nothing to do"
    assert not plan.is_empty


def test_a_user_that_is_not_there(world: World) -> None:
    edit(world, "app", "user: app, group: tty", "user: app, group: nogroup")
    with pytest.raises(BuildError, match="group 'nogroup' is not in the image's etc/group"):
        world.build("app")
    assert (world.output / "images/base").is_dir()
    assert not (world.output / "images/app").exists()


@pytest.mark.parametrize(
    ("user", "written"),
    [("app:tty", "1000:5"), ("1000:tty", "1000:5"), ("app:7", "1000:7"), ("4711", "4711"), ("root", "0")],
)
def test_the_user_is_written_as_numbers(world: World, user: str, written: str) -> None:
    edit(world, "app", "user: app\n  env", f"user: '{user}'\n  env")
    app = world.build("app")["app"]
    config = document(app.layout, app.images["linux/amd64"].config.digest)
    assert config["config"]["User"] == written


def test_ports_volumes_and_health(world: World) -> None:
    edit(world, "base", "config:\n", "config:\n  ports: ['80']\n  volumes: [/srv]\n")
    check = "healthcheck: {command: [/bin/run, --check], interval: 5, start-period: 2}"
    edit(world, "app", "config:\n", f"config:\n  ports: ['80', 53/udp]\n  volumes: [/data]\n  {check}\n")
    app = world.build("app")["app"]
    config = document(app.layout, app.images["linux/amd64"].config.digest)["config"]
    assert config["ExposedPorts"] == {"80/tcp": {}, "53/udp": {}}
    assert config["Volumes"] == {"/srv": {}, "/data": {}}
    assert config["Healthcheck"] == {
        "Test": ["CMD", "/bin/run", "--check"],
        "Interval": 5_000_000_000,
        "Timeout": 30_000_000_000,
        "StartPeriod": 2_000_000_000,
        "Retries": 3,
    }


def test_a_user_of_the_base_is_written_as_a_number(world: World) -> None:
    edit(world, "base", "config:\n", "config:\n  user: root\n")
    edit(world, "app", "user: app\n  env", "env")
    world.lock(world.catalogue["base"], world.packages())
    app = world.build("app")["app"]
    config = document(app.layout, app.images["linux/amd64"].config.digest)
    assert config["config"]["User"] == "0"


def test_a_user_that_runs_and_is_not_there(world: World) -> None:
    edit(world, "app", "user: app\n  env", "user: nobody\n  env")
    with pytest.raises(BuildError, match="user 'nobody' is not in the image's etc/passwd"):
        world.build("app")


def test_packages_whose_scripts_are_not_run_are_named(world: World) -> None:
    scripts = {"postinst": "#!/bin/sh\n", "prerm": "#!/bin/sh\n"}
    offered = world.packages()
    for architecture in ("amd64", "arm64"):
        members = [folder("./"), Member("./usr/bin/more", "x", mode=0o755)]
        raw = deb(members, name="more", version="1", architecture=architecture, files=scripts)
        package = world.offer(raw, name="more", version="1", architecture=architecture)
        offered[f"linux/{architecture}"].append(package)
    world.lock(world.catalogue["base"], offered)
    world.build("base")
    assert world.notes == ["base: declared, so scripts of these packages are not run: more"]


def test_an_output_that_can_not_be_made(world: World) -> None:
    blocked = world.root / "file"
    blocked.write_text("")
    with pytest.raises(HostError, match=r"cannot write .*/file/images: Not a directory"):
        world.build("base", output=blocked)
