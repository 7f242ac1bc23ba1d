"""Resolving with the real apt, against archives that the test makes and signs, and against Debian's.

Tests of image/apt.py: the Debian packages in a lock, and the signature of a package index.
Tests of image/aptsources.py.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sandwright import process
from sandwright.errors import FetchError, HostError, IntegrityError, LockError, SandwrightError, ToolMissing
from sandwright.image import apt
from sandwright.image.apt import lock_image
from sandwright.image.aptsources import debian_sources
from sandwright.image.definition import ImageDefinition, load_definition
from sandwright.image.lock import Lock, LockedPackage, checksum, load_lock, write_lock
from sandwright.image.mirrors import Mirrors, find_mirrors
from sandwright.resources import data_path
from support.thorough import representative

pytestmark = [pytest.mark.timeout(120), pytest.mark.needs("apt-get")]

SUITES = {"bookworm": "debian", "bookworm-updates": "debian", "bookworm-security": "debian-security"}
DATES = {
    "bookworm": "Sat, 11 Jul 2026 10:00:00 UTC",
    "bookworm-updates": "Fri, 20 Nov 2026 20:31:10 UTC",
    "bookworm-security": "Mon, 02 Feb 2026 02:02:02 UTC",
}
NEWEST = 1795206670


def stanza(name: str, version: str = "1.0-1", *, architecture: str = "amd64", **fields: str) -> str:
    """A paragraph of an index. The checksum is that of the package's name."""
    file_name = version.partition(":")[2] or version
    values = {
        "Package": name,
        "Version": version,
        "Architecture": architecture,
        "Maintainer": "nobody",
        "Description": "a package",
        "Installed-Size": "12",
        "Size": "34",
        "SHA256": hashlib.sha256(f"{name}{version}".encode()).hexdigest(),
        "Filename": f"pool/main/{name[0]}/{name}/{name}_{file_name}_{architecture}.deb",
    }
    values |= {key.replace("_", "-"): value for key, value in fields.items()}
    return "".join(f"{key}: {value}\n" for key, value in values.items()) + "\n"


@dataclass
class Archive:
    """Small versions of Debian's archive and its security archive."""

    root: Path
    gnupg: Path
    keyring: Path
    indices: dict[tuple[str, str], str] = field(default_factory=dict)
    suites: dict[str, str] = field(default_factory=SUITES.copy)
    user: str = "archive@example.invalid"

    def add(self, *stanzas: str, suite: str = "bookworm", architecture: str = "amd64") -> None:
        self.indices[suite, architecture] = self.indices.get((suite, architecture), "") + "".join(stanzas)

    def publish(self, *, signed: bool = True) -> Mirrors:
        for suite, archive in self.suites.items():
            dist = self.root / archive / "dists" / suite
            sums = []
            for architecture in ("amd64", "arm64"):
                name = f"main/binary-{architecture}/Packages"
                path = dist / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(self.indices.get((suite, architecture), ""))
                sums.append(f" {hashlib.sha256(path.read_bytes()).hexdigest()} {path.stat().st_size} {name}")
            release = (
                f"Origin: Debian\nLabel: Debian\nSuite: {suite}\nCodename: {suite}\n"
                f"Date: {DATES.get(suite, DATES['bookworm'])}\n"
                "Architectures: all amd64 arm64\nComponents: main\n"
                + ("NotAutomatic: yes\nButAutomaticUpgrades: yes\n" if "backports" in suite else "")
                + "SHA256:\n"
                + "".join(f"{line}\n" for line in sums)
            )
            (dist / "InRelease").unlink(missing_ok=True)
            (dist / "Release").write_text(release)
            if signed:
                self.sign(dist, user=self.user)
        return self.mirrors

    def sign(self, dist: Path, *, user: str = "archive@example.invalid") -> None:
        _gpg(
            self.gnupg, "--clearsign", "--local-user", user, "--output", dist / "InRelease", dist / "Release"
        )
        (dist / "Release").unlink()

    @property
    def mirrors(self) -> Mirrors:
        return Mirrors({archive: (f"file://{self.root}/{archive}",) for archive in set(SUITES.values())})


def _gpg(home: Path, *words: str | Path) -> None:
    options = ("--batch", "--yes", "--no-tty", "--passphrase", "", "--pinentry-mode", "loopback")
    process.run("gpg", "--homedir", home, *options, *words)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home of gpg with the key of an archive and that of a stranger."""
    home = tmp_path_factory.mktemp("k")  # short, as sockets of gpg-agent are in it
    home.chmod(0o700)
    for user in ("archive@example.invalid", "stranger@example.invalid"):
        _gpg(home, "--quick-generate-key", user, "ed25519", "sign", "never")
    yield home
    process.run("gpgconf", "--homedir", home, "--kill", "all")


@pytest.fixture
def archive(tmp_path: Path, keys: Path) -> Archive:
    keyring = tmp_path / "keys/archive.gpg"
    keyring.parent.mkdir(mode=0o755)
    _gpg(keys, "--export", "--output", keyring, "archive@example.invalid")
    keyring.chmod(0o644)
    return Archive(tmp_path / "mirror", keys, keyring)


def image(
    folder: Path,
    packages: Sequence[str],
    *,
    more: str = "",
    arm: bool = False,
    base: str = "debian: bookworm",
) -> ImageDefinition:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "image.yaml").write_text(
        f"schema: 1\ndescription: An image.\nbase: {{{base}}}\n"
        + ("" if "configure" in more else "configure: declared\n")
        + f"packages: [{', '.join(packages)}]\n"
        + f"platforms: [linux/amd64{', linux/arm64' if arm else ''}]\n{more}"
    )
    return load_definition(folder)


def resolve(archive: Archive, tmp_path: Path, *packages: str, more: str = "") -> dict[str, str]:
    """Names and versions of the packages of an image with these packages."""
    lock = lock_image(
        image(tmp_path / "small", packages, more=more),
        mirrors=archive.publish(),
        cache=tmp_path / "cache",
        keyring=archive.keyring,
    )
    return {package.name: package.version for package in lock.packages("linux/amd64")}


def refusal(
    kind: type[SandwrightError], archive: Archive, tmp_path: Path, *packages: str, more: str = ""
) -> str:
    with pytest.raises(kind) as caught:
        resolve(archive, tmp_path, *packages, more=more)
    prefix = "image 'small', linux/amd64: "
    assert str(caught.value).startswith(prefix)
    return str(caught.value).removeprefix(prefix)


@pytest.fixture
def vendor(tmp_path: Path, keys: Path) -> Archive:
    """An archive that is not Debian's, with another key."""
    keyring = tmp_path / "small/vendor.gpg"
    keyring.parent.mkdir()
    _gpg(keys, "--export", "--output", keyring, "stranger@example.invalid")
    root = tmp_path / "vendor"
    return Archive(root, keys, keyring, suites={"stable": "."}, user="stranger@example.invalid")


def locked(archive: Archive, tmp_path: Path, *packages: str, base: str) -> Lock:
    definition = image(tmp_path / "small", packages, base=base)
    return lock_image(
        definition, mirrors=archive.publish(), cache=tmp_path / "cache", keyring=archive.keyring
    )


@pytest.mark.needs("gpg")
class TestOtherSources:
    def test_another_archive(self, archive: Archive, vendor: Archive, tmp_path: Path) -> None:
        archive.add(stanza("base-thing"))
        vendor.add(
            stanza("tool", Depends="base-thing", Filename="deb/t/tool_1.0-1_amd64.deb"), suite="stable"
        )
        vendor.publish()
        base = f"debian: bookworm, sources: [{{url: 'file://{vendor.root}', suite: stable, key: vendor.gpg}}]"
        lock = locked(archive, tmp_path, "tool", base=base)
        thing, tool = lock.packages("linux/amd64")
        assert (thing.archive, tool.archive) == ("debian", f"file://{vendor.root}")
        assert tool.path == "deb/t/tool_1.0-1_amd64.deb"
        assert archive.mirrors.bases(tool.archive) == (tool.archive,)
        write_lock(tmp_path / "small", lock)
        assert load_lock(tmp_path / "small") == lock

    def test_another_archive_with_a_key_that_is_not_its_own(
        self, archive: Archive, vendor: Archive, tmp_path: Path
    ) -> None:
        vendor.add(stanza("tool"), suite="stable")
        vendor.publish()
        shutil.copy(archive.keyring, vendor.keyring)
        base = f"debian: bookworm, sources: [{{url: 'file://{vendor.root}', suite: stable, key: vendor.gpg}}]"
        with pytest.raises(IntegrityError, match="an archive does not match its signature"):
            locked(archive, tmp_path, "tool", base=base)

    def test_backports_are_for_packages_that_say_so(self, archive: Archive, tmp_path: Path) -> None:
        archive.suites["bookworm-backports"] = "debian"
        archive.add(stanza("one"), stanza("two"))
        archive.add(
            stanza("one", "2.0-1~bpo12+1"), stanza("two", "2.0-1~bpo12+1"), suite="bookworm-backports"
        )
        base = "debian: bookworm, backports: true"
        lock = locked(archive, tmp_path, "one/bookworm-backports", "two", base=base)
        versions = {each.name: each.version for each in lock.packages("linux/amd64")}
        assert versions == {"one": "2.0-1~bpo12+1", "two": "1.0-1"}

    def test_a_version(self, archive: Archive, tmp_path: Path) -> None:
        archive.add(stanza("one", "1.0-1"))
        archive.add(stanza("one", "1.5-1"), suite="bookworm-updates")
        assert resolve(archive, tmp_path, "one") == {"one": "1.5-1"}
        assert resolve(archive, tmp_path, "one=1.0-1") == {"one": "1.0-1"}
        assert "Version '3*' for 'one' was not found" in refusal(LockError, archive, tmp_path, "one=3*")

    def test_usual_sources_have_the_checksum_that_they_had(self, tmp_path: Path) -> None:
        plain = image(tmp_path / "one", ["one"])
        told = image(tmp_path / "two", ["one"], base="debian: bookworm, components: [main], backports: false")
        other = image(tmp_path / "three", ["one"], base="debian: bookworm, components: [main, contrib]")
        assert checksum(plain) == checksum(told) != checksum(other)


@pytest.mark.needs("gpg")
class TestAnArchiveOfOurOwn:
    def test_a_package_as_the_lock_has_it(self, archive: Archive, tmp_path: Path) -> None:
        archive.add(
            stanza(
                "libfoo",
                "1:2.0+dfsg~rc1-1+b2",
                Source="foo (1:2.0+dfsg~rc1-1)",
                Installed_Size="345",
                Size="678",
            )
        )
        lock = lock_image(
            image(tmp_path / "small", ["libfoo"]),
            mirrors=archive.publish(),
            cache=tmp_path / "cache",
            keyring=archive.keyring,
        )
        assert lock == Lock(
            checksum(image(tmp_path / "small", ["libfoo"])),
            "bookworm",
            NEWEST,
            {
                "linux/amd64": (
                    LockedPackage(
                        name="libfoo",
                        version="1:2.0+dfsg~rc1-1+b2",
                        architecture="amd64",
                        size=678,
                        sha256=hashlib.sha256(b"libfoo1:2.0+dfsg~rc1-1+b2").hexdigest(),
                        archive="debian",
                        path="pool/main/l/libfoo/libfoo_2.0+dfsg~rc1-1+b2_amd64.deb",
                        source="foo",
                        source_version="1:2.0+dfsg~rc1-1",
                        installed=345,
                    ),
                )
            },
        )

    def test_dependencies_come_and_recommendations_do_not(self, archive: Archive, tmp_path: Path) -> None:
        archive.add(
            stanza("a1", Depends="b1, c1 | d1", Recommends="e1", Suggests="f1"),
            stanza("b1", Pre_Depends="g1 (>= 1)"),
            *(stanza(name) for name in ("c1", "d1", "e1", "f1", "g1", "h1")),
        )
        assert resolve(archive, tmp_path, "a1") == dict.fromkeys(("a1", "b1", "c1", "g1"), "1.0-1")

    def test_the_newest_version_of_all_suites(self, archive: Archive, tmp_path: Path) -> None:
        archive.add(stanza("a1", "1"), stanza("b1", "2"), stanza("c1", "3~rc1"))
        archive.add(stanza("a1", "1+deb12u1"), suite="bookworm-updates")
        archive.add(stanza("b1", "2~"), stanza("c1", "3"), suite="bookworm-security")
        assert resolve(archive, tmp_path, "a1", "b1", "c1") == {"a1": "1+deb12u1", "b1": "2", "c1": "3"}

    def test_the_archive_a_package_is_from(self, archive: Archive, tmp_path: Path) -> None:
        archive.add(stanza("a1"), stanza("b1", "1"))
        archive.add(
            stanza("b1", "2", Filename="pool/updates/main/b/b1/b1_2_amd64.deb"), suite="bookworm-security"
        )
        lock = lock_image(
            image(tmp_path / "small", ["a1", "b1"]),
            mirrors=archive.publish(),
            cache=tmp_path / "cache",
            keyring=archive.keyring,
        )
        assert [(package.archive, package.path) for package in lock.packages("linux/amd64")] == [
            ("debian", "pool/main/a/a1/a1_1.0-1_amd64.deb"),
            ("debian-security", "pool/updates/main/b/b1/b1_2_amd64.deb"),
        ]

    def test_each_platform_has_its_own(self, archive: Archive, tmp_path: Path) -> None:
        archive.add(stanza("a1"), stanza("data1", architecture="all"))
        archive.add(
            stanza("a1", "1.0-1+b1", architecture="arm64", Depends="data1"),
            stanza("data1", architecture="all"),
            architecture="arm64",
        )
        lock = lock_image(
            image(tmp_path / "small", ["a1"], arm=True),
            mirrors=archive.publish(),
            cache=tmp_path / "cache",
            keyring=archive.keyring,
        )
        assert {name: [str(package) for package in found] for name, found in lock.platforms.items()} == {
            "linux/amd64": ["a1 1.0-1 (amd64)"],
            "linux/arm64": ["a1 1.0-1+b1 (arm64)", "data1 1.0-1 (all)"],
        }

    def test_what_is_left_out_satisfies_but_is_not_there(self, archive: Archive, tmp_path: Path) -> None:
        archive.add(
            stanza("a1", Depends="tool1 (>= 2), virtual1, tool3 (= 1.0-1)"),
            stanza("tool1", "2.5", Depends="heavy1"),
            stanza("tool2", Provides="virtual1", Depends="heavy1"),
            stanza("tool3", Depends="heavy1"),
            stanza("heavy1"),
        )
        without = "without: {tool1: not needed, tool2: not needed, tool3: not needed}\n"
        assert set(resolve(archive, tmp_path, "a1")) == {"a1", "heavy1", "tool1", "tool2", "tool3"}
        assert set(resolve(archive, tmp_path, "a1", more=without)) == {"a1"}
        assert set(resolve(archive, tmp_path, "a1")) == {"a1", "heavy1", "tool1", "tool2", "tool3"}

    def test_scripts_bring_what_is_essential(self, archive: Archive, tmp_path: Path) -> None:
        archive.add(
            stanza("a1"),
            stanza("base1", Essential="yes", Depends="lib1"),
            stanza("lib1"),
            stanza("required1", Priority="required"),
            stanza("apt"),
        )
        assert set(resolve(archive, tmp_path, "a1")) == {"a1"}
        assert set(resolve(archive, tmp_path, "a1", more="configure: scripts\n")) == {"a1", "base1", "lib1"}

    def test_a_package_there_is_not(self, archive: Archive, tmp_path: Path) -> None:
        archive.add(stanza("a1"))
        assert refusal(LockError, archive, tmp_path, "a1", "b1") == (
            "apt cannot resolve the packages:\nE: Unable to locate package b1"
        )

    @pytest.mark.parametrize("name", ["a.", "a1+", "a1-", "b."])
    def test_a_name_is_not_a_pattern(self, archive: Archive, tmp_path: Path, name: str) -> None:
        archive.add(stanza("a1"), stanza("a2"), stanza("bb"))
        refusal(LockError, archive, tmp_path, "a2", name)

    def test_a_name_may_look_like_a_request(self, archive: Archive, tmp_path: Path) -> None:
        archive.add(stanza("g++"), stanza("lib-"))
        assert set(resolve(archive, tmp_path, "g++")) == {"g++"}

    def test_a_dependency_that_can_not_be(self, archive: Archive, tmp_path: Path) -> None:
        archive.add(stanza("a1", Depends="b1 (>= 2)"), stanza("b1", "1"))
        assert refusal(LockError, archive, tmp_path, "a1").startswith(
            "apt cannot resolve the packages:\n a1 : Depends: b1 (>= 2) but "
        )

    def test_packages_that_exclude_each_other(self, archive: Archive, tmp_path: Path) -> None:
        archive.add(stanza("a1", Conflicts="b1"), stanza("b1"))
        assert "apt cannot resolve the packages:\n" in refusal(LockError, archive, tmp_path, "a1", "b1")

    def test_leaving_out_what_there_is_not(self, archive: Archive, tmp_path: Path) -> None:
        archive.add(stanza("a1"))
        message = refusal(LockError, archive, tmp_path, "a1", more="without: {b1: why, c1: why}\n")
        assert message == "bookworm has no package b1, c1, which 'without' names"

    def test_the_epoch_stays_while_the_packages_do(self, archive: Archive, tmp_path: Path) -> None:
        archive.add(stanza("a1"))

        def lock(previous: Lock | None) -> Lock:
            return lock_image(
                image(tmp_path / "small", ["a1"]),
                mirrors=archive.publish(),
                cache=tmp_path / "cache",
                previous=previous,
                keyring=archive.keyring,
            )

        first = lock(None)
        assert first.epoch == NEWEST
        old = dataclasses.replace(first, epoch=1700000000)
        assert lock(old) == old
        archive.add(stanza("a1", "2"), suite="bookworm-updates")
        assert lock(old).epoch == NEWEST

    def test_two_at_once_wait_for_each_other(self, archive: Archive, tmp_path: Path) -> None:
        archive.add(*(stanza(f"a{n}") for n in range(4)))
        mirrors = archive.publish()
        found: dict[int, set[str]] = {}

        def lock(number: int) -> None:
            made = lock_image(
                image(tmp_path / f"image{number}", [f"a{number}"]),
                mirrors=mirrors,
                cache=tmp_path / "cache",
                keyring=archive.keyring,
            )
            found[number] = {package.name for package in made.packages("linux/amd64")}

        threads = [threading.Thread(target=lock, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == {number: {f"a{number}"} for number in range(4)}


@pytest.mark.needs("gpg")
class TestWhatIsNotSigned:
    """Each way to forge an archive; each follows the true archive, so that old indices exist."""

    @pytest.fixture
    def seen(self, archive: Archive, tmp_path: Path) -> Archive:
        archive.add(stanza("a1"))
        assert set(resolve(archive, tmp_path, "a1")) == {"a1"}
        return archive

    def lock(self, seen: Archive, tmp_path: Path) -> Lock:
        return lock_image(
            image(tmp_path / "small", ["a1"]),
            mirrors=seen.mirrors,
            cache=tmp_path / "cache",
            keyring=seen.keyring,
        )

    def refused(self, seen: Archive, tmp_path: Path, kind: type[SandwrightError] = IntegrityError) -> str:
        with pytest.raises(kind) as caught:
            self.lock(seen, tmp_path)
        return str(caught.value)

    def test_the_true_archive_is_taken(self, seen: Archive, tmp_path: Path) -> None:
        assert len(self.lock(seen, tmp_path).packages("linux/amd64")) == 1

    def test_no_signature(self, seen: Archive, tmp_path: Path) -> None:
        seen.publish(signed=False)
        message = self.refused(seen, tmp_path)
        assert message.startswith("image 'small', linux/amd64: an archive does not match its signature:\n")
        assert "is not signed" in message or "no longer signed" in message

    def test_a_stranger_s_signature(self, seen: Archive, tmp_path: Path) -> None:
        seen.publish(signed=False)
        for suite, archive in SUITES.items():
            seen.sign(seen.root / archive / "dists" / suite, user="stranger@example.invalid")
        assert "NO_PUBKEY" in self.refused(seen, tmp_path)

    def test_a_release_that_was_changed(self, seen: Archive, tmp_path: Path) -> None:
        path = seen.root / "debian/dists/bookworm/InRelease"
        path.write_text(path.read_text().replace("Origin: Debian", "Origin: Debiam"))
        assert "BADSIG" in self.refused(seen, tmp_path)

    def test_an_index_that_was_changed(self, seen: Archive, tmp_path: Path) -> None:
        seen.add(stanza("b1"))
        seen.publish()
        path = seen.root / "debian/dists/bookworm/main/binary-amd64/Packages"
        path.write_text(path.read_text().replace("Package: a1", "Package: z1"))
        assert "Hash Sum mismatch" in self.refused(seen, tmp_path)

    def test_an_index_that_grew(self, seen: Archive, tmp_path: Path) -> None:
        seen.add(stanza("b1"))
        seen.publish()
        with (seen.root / "debian/dists/bookworm/main/binary-amd64/Packages").open("a") as index:
            index.write(stanza("z1"))
        self.refused(seen, tmp_path)

    def test_an_empty_keyring(self, seen: Archive, tmp_path: Path) -> None:
        empty = tmp_path / "keys/empty.gpg"
        empty.write_bytes(b"")
        self.refused(dataclasses.replace(seen, keyring=empty), tmp_path)

    def test_settings_of_the_machine_that_let_it_in(
        self, seen: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        settings = tmp_path / "apt.conf"
        settings.write_text(
            'Acquire::AllowInsecureRepositories "true";\nAPT::Get::AllowUnauthenticated "true";\n'
            'Acquire::AllowDowngradeToInsecureRepositories "true";\n'
        )
        monkeypatch.setenv("APT_CONFIG", str(settings))
        seen.publish(signed=False)
        self.refused(seen, tmp_path)

    def test_a_suite_that_is_not_there(self, seen: Archive, tmp_path: Path) -> None:
        shutil.rmtree(seen.root / "debian/dists/bookworm-updates")
        message = self.refused(seen, tmp_path, SandwrightError)
        assert "bookworm-updates" in message

    def test_no_server(self, seen: Archive, tmp_path: Path) -> None:
        with pytest.raises(FetchError) as caught:
            lock_image(
                image(tmp_path / "small", ["a1"]),
                mirrors=Mirrors(
                    dict.fromkeys(("debian", "debian-security"), ("http://me:secret@127.0.0.1:9/x",))
                ),
                cache=tmp_path / "cache",
                keyring=seen.keyring,
            )
        assert str(caught.value).startswith(
            "image 'small', linux/amd64: cannot fetch the indices of an archive:\n"
        )
        assert "secret" not in str(caught.value)


def system_state() -> dict[str, tuple[int, int, int, int]]:
    """All files of apt and dpkg on this machine, with the properties that a write changes."""
    found = {}
    for root in ("/var/lib/apt", "/var/cache/apt", "/var/lib/dpkg", "/etc/apt", "/var/log/apt"):
        for path in [Path(root), *sorted(Path(root).rglob("*"))]:
            if path.exists():
                status = path.lstat()
                found[str(path)] = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return found


@pytest.mark.needs("gpg")
def test_the_machine_s_settings_do_not_reach_it(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = tmp_path / "ran"
    settings = tmp_path / "apt.conf"
    settings.write_text(
        f'APT::Update::Pre-Invoke {{ "touch {marker}"; }};\n'
        f'APT::Update::Post-Invoke {{ "touch {marker}"; }};\n'
        'APT::Install-Recommends "true";\nAPT::Default-Release "sid";\nAcquire::Languages { "de"; };\n'
        'Acquire::http::Timeout "7";\nAcquire::Retries "2";\n'
    )
    monkeypatch.setenv("APT_CONFIG", str(settings))
    archive.add(stanza("a1", Recommends="b1"), stanza("b1"))
    assert set(resolve(archive, tmp_path, "a1")) == {"a1"}
    assert not marker.exists()
    written = (tmp_path / "cache/apt/bookworm-amd64/apt.conf").read_text()
    assert 'Acquire::http::Timeout "7";\n' in written
    assert 'Acquire::Retries "2";\n' in written
    assert "Invoke" not in written


@pytest.mark.needs("gpg")
def test_indices_that_changed_are_parsed_again(archive: Archive, tmp_path: Path) -> None:
    """This also holds for the same size and time, as on a mirror whose files all have one time."""
    sizes = []
    for needed in ("b1", "c1"):
        archive.indices.clear()
        archive.add(stanza("a1", Depends=needed), stanza("b1"), stanza("c1"))
        archive.publish()
        files = [path for path in archive.root.rglob("*") if path.is_file()]
        for path in files:
            os.utime(path, (NEWEST, NEWEST))
        sizes.append({path: path.stat().st_size for path in files})
        definition, cache = image(tmp_path / "small", ["a1"]), tmp_path / "cache"
        lock = lock_image(definition, mirrors=archive.mirrors, cache=cache, keyring=archive.keyring)
        assert [each.name for each in lock.packages("linux/amd64")] == ["a1", needed]
    assert sizes[0] == sizes[1]


@pytest.mark.needs("gpg")
def test_indices_are_fetched_once_for_several_images(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive.add(stanza("a1"), stanza("a2"))
    updated: list[Path] = []
    update = apt.PrivateApt.update

    def counted(each: apt.PrivateApt) -> None:
        updated.append(each.root)
        update(each)

    monkeypatch.setattr(apt.PrivateApt, "update", counted)
    fresh: set[Path] = set()
    for name in ("a1", "a2"):
        lock = lock_image(
            image(tmp_path / name, [name]),
            mirrors=archive.publish(),
            cache=tmp_path / "cache",
            keyring=archive.keyring,
            fresh=fresh,
        )
        assert [each.name for each in lock.packages("linux/amd64")] == [name]
    assert updated == [tmp_path / "cache/apt/bookworm-amd64"] == list(fresh)


@pytest.mark.timeout(30)
def test_a_lock_of_apts_directory_is_not_waited_for_without_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that can read the lock's file can hold the lock; so can a sandbox."""
    monkeypatch.setattr(apt, "WAITING", 0.3, raising=False)
    mirrors = Mirrors(dict.fromkeys(("debian", "debian-security"), ("http://192.0.2.1/debian",)))
    own, other = (
        apt.PrivateApt(
            tmp_path / "own", "bookworm", "amd64", mirrors, tmp_path / "keys", debian_sources("bookworm")
        )
        for _ in range(2)
    )
    said = "own is locked by another process, and stays so"
    with own.opened(), pytest.raises(HostError, match=said), other.opened():
        pytest.fail("two at once")
    with other.opened():
        pass


def test_an_image_over_another_has_no_lock(tmp_path: Path) -> None:
    folder = tmp_path / "above"
    folder.mkdir()
    (folder / "image.yaml").write_text("schema: 1\ndescription: An image.\nbase: {image: below}\n")
    with pytest.raises(LockError, match=r"^image 'above' has no lock: its packages are those of 'below'$"):
        lock_image(load_definition(folder), mirrors=Mirrors({}), cache=tmp_path)


def test_without_apt_it_is_told_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "find", lambda _: None)
    with pytest.raises(ToolMissing) as caught:
        lock_image(image(tmp_path / "small", ["a1"]), mirrors=Mirrors({}), cache=tmp_path)
    assert str(caught.value) == (
        "apt-get is not installed; locks are made by apt; elsewhere than on Debian and its kin, "
        "use the locks that are there"
    )


def test_a_directory_that_apt_can_not_be_told_of(tmp_path: Path) -> None:
    root = tmp_path / 'a "b"'
    with pytest.raises(HostError, match=r"^apt cannot work with such a path: "):
        lock_image(
            image(tmp_path / "small", ["a1"]),
            mirrors=Mirrors({"debian": ("http://127.0.0.1:9",)}),
            cache=root,
            keyring=tmp_path / "k",
        )


@pytest.mark.parametrize("name", representative(["distroless", "debian"], "distroless"))
def test_debian_s_archives(name: str, tmp_path: Path) -> None:
    """The mirrors of this machine serve both platforms, and no file of this machine is changed."""
    image = load_definition(data_path("images", name))
    before = system_state()
    lock = lock_image(image, mirrors=find_mirrors(None, os.environ), cache=tmp_path)
    assert system_state() == before
    assert list(lock.platforms) == ["linux/amd64", "linux/arm64"]
    assert lock.epoch > 1750000000
    for platform, packages in lock.platforms.items():
        names = {package.name for package in packages}
        assert {*image.packages} <= names
        assert not names & {*image.without, "apt", "usrmerge"}
        assert {"libc6", "libssl3", "python3.11-minimal"} <= names
        assert {package.architecture for package in packages} == {platform.removeprefix("linux/"), "all"}
        assert all(package.size > 1000 and len(package.sha256) == 64 for package in packages)
        assert ({"bash", "coreutils", "perl-base"} <= names) is (image.configure == "scripts")
