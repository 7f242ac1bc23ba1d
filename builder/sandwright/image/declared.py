"""Replaces maintainer scripts: the declarations that `declare` can list.

Each function implements one declaration, and names the script that it replaces. The functions read the merged
tree of the packages, the files that `keeps` selects, and the ELF headers of libraries. They only add.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass

from sandwright.errors import BuildError
from sandwright.image import accounts, ldcache
from sandwright.image.alternatives import Alternative, AlternativeLink, read_alternatives
from sandwright.image.apk import database
from sandwright.image.lockfile import APK_ARCHITECTURES
from sandwright.image.overlay import Overlay
from sandwright.image.packages import MERGED
from sandwright.image.sections import ImageGroup, ImageUser
from sandwright.image.tree import PackageContents

CERTIFICATES = b"usr/share/ca-certificates/"
BUNDLE = b"etc/ssl/certs/ca-certificates.crt"
METADATA = b"var/lib/dpkg/status.d/"
APPLETS = b"etc/busybox-paths.d/"
BUSYBOX = b"bin/busybox"
_NSSWITCH = b"usr/share/libc-bin/nsswitch.conf"
_LINKER = b"etc/ld.so.conf"

_INSTALL_SCRIPTS = frozenset({"config", "postinst", "preinst", ".pre-install", ".post-install", ".trigger"})
"""The scripts that dpkg and debconf (Debian Policy 6.1), or apk, run when a package is installed."""

_MOUNT_POINTS = {b"dev": 0o755, b"proc": 0o555, b"sys": 0o555, b"run": 0o755}
_FROM_THE_RUNTIME = (b"etc/hostname", b"etc/hosts", b"etc/resolv.conf")

_NSSWITCH_WITHOUT_PACKAGE = b"passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\n"


@dataclass(frozen=True)
class Declared:
    """The input of a declaration. `wanted` decides whether a package's path belongs to the image."""

    architecture: str
    packages: Sequence[PackageContents]
    wanted: Callable[[str], bool]
    users: Sequence[ImageUser] = ()
    groups: Sequence[ImageGroup] = ()
    requested: Sequence[str] = ()
    """The packages that the definition names."""


def keeps(path: bytes) -> bool:
    """Whether a declaration needs the content of a file."""
    certificate = path.startswith(CERTIFICATES) and path.endswith(b".crt")
    configuration = path.startswith(_LINKER) and path.endswith(b".conf")
    return certificate or configuration or path == _NSSWITCH or path.startswith(APPLETS)


def declare(name: str, overlay: Overlay, facts: Declared) -> None:
    """Apply one declaration. Raise BuildError when no package has its input."""
    _DECLARATIONS[name](overlay, facts)


def mount_points(overlay: Overlay) -> None:
    """Create the mount points of runtimes in every image: nothing can be created in a read-only root.

    These are directories for /dev, /proc, /sys and /run, and empty files for the bind mounts of Docker,
    Podman and our bundles in /etc.
    """
    for path, mode in _MOUNT_POINTS.items():
        if overlay.missing(path):
            overlay.directory(path, mode=mode)
    for path in _FROM_THE_RUNTIME:
        overlay.file(path, b"")


def _merged_usr(overlay: Overlay, _facts: Declared) -> None:
    """`/bin`, `/sbin`, `/lib`, and `/lib64` where needed, as links into /usr, as usrmerge does.

    Package files below them were moved while they were read.
    """
    for name in MERGED:
        always = name in (b"bin", b"sbin", b"lib")
        if overlay.missing(b"usr/" + name):
            if not always:
                continue
            overlay.directory(b"usr/" + name)
        overlay.link(name, b"usr/" + name)


def _accounts(overlay: Overlay, facts: Declared) -> None:
    """`/etc/passwd` and `/etc/group` of exactly the accounts in the definition: base-passwd and adduser.

    There is no `/etc/shadow`: no program in such an image asks for a password.
    """
    for path, content in accounts.fresh(facts.users, facts.groups).items():
        overlay.file(path, content)


def _ca_bundle(overlay: Overlay, _facts: Declared) -> None:
    """All certificates in one file: update-ca-certificates, of ca-certificates.

    The order is that of their paths, which is also the order in its configuration file.
    """
    tree = overlay.tree
    found = sorted(path for path in tree.kept if path.startswith(CERTIFICATES) and path.endswith(b".crt"))
    if not found:
        raise BuildError("declare: ca-bundle: no package brings certificates; add ca-certificates")
    lines = (
        content if content.endswith(b"\n") else content + b"\n"
        for content in map(tree.kept.__getitem__, found)
    )
    overlay.file(BUNDLE, b"".join(lines))


def _alternatives(overlay: Overlay, facts: Declared) -> None:
    """The links of update-alternatives(1), as the packages' scripts install them: the highest priority wins.

    Of choices with the same priority, the first package's by name wins. Like update-alternatives, leave out
    links to files that are not there, and links in place of a file.
    """
    choices: dict[str, Alternative] = {}
    for package in sorted(facts.packages, key=lambda each: each.owner):
        for found in read_alternatives(package.control.get("postinst", b""))[0]:
            before = choices.get(found.choice.name)
            if overlay.missing(found.choice.path.encode()):
                continue
            if before is None or found.priority > before.priority:
                choices[found.choice.name] = found
    for _, chosen in sorted(choices.items()):
        for each in (chosen.choice, *chosen.slaves):
            _install_alternative(overlay, each)


def _install_alternative(overlay: Overlay, link: AlternativeLink) -> None:
    path, tree = link.link.lstrip("/").encode(), overlay.tree
    if overlay.missing(link.path.encode()) or not (overlay.missing(path) or tree.is_link(path)):
        return
    between = f"/etc/alternatives/{link.name}".encode()
    overlay.link(between.lstrip(b"/"), link.path.encode())
    overlay.link(path, between)


def _ld_cache(overlay: Overlay, facts: Declared) -> None:
    """`/etc/ld.so.cache`, and the links by which libraries are found: ldconfig, by libc-bin's trigger."""
    tree = overlay.tree
    configuration = {path: content for path, content in tree.kept.items() if path.startswith(_LINKER)}
    directories = ldcache.directories(configuration, facts.architecture)
    libraries, links = ldcache.scan(tree, tree.elves, directories, facts.architecture)
    for link in links:
        overlay.link(link.path, link.target)
    overlay.file(b"etc/ld.so.cache", ldcache.write(libraries))


def _package_metadata(overlay: Overlay, facts: Declared) -> None:
    """The installed packages, where scanners look in images without dpkg: a file each in `status.d`.

    The convention is that of Google's distroless images (PACKAGE_METADATA.md): `NAME` holds the package's
    control file, `NAME.md5sums` the checksums of its files, without files that the image leaves out.
    Alpine's packages are in apk's database instead, with which apk works in derived images.
    """
    if any(package.checksum for package in facts.packages):
        _apk_database(overlay, facts)
        return
    for package in facts.packages:
        name = METADATA + package.owner.encode()
        overlay.file(name, package.control["control"].rstrip(b"\n") + b"\n")
        sums = package.control.get("md5sums", b"").splitlines(keepends=True)
        overlay.file(name + b".md5sums", b"".join(line for line in sums if _is_wanted(line, facts.wanted)))


def _apk_database(overlay: Overlay, facts: Declared) -> None:
    packages = sorted(facts.packages, key=lambda each: each.owner)
    overlay.file(database.DIRECTORY + b"installed", database.installed(packages))
    overlay.file(database.DIRECTORY + b"scripts.tar", database.scripts(packages))
    overlay.file(database.DIRECTORY + b"triggers", database.triggers(packages))
    overlay.file(b"etc/apk/world", "".join(f"{each}\n" for each in sorted(facts.requested)).encode())
    overlay.file(b"etc/apk/arch", f"{APK_ARCHITECTURES[f'linux/{facts.architecture}']}\n".encode())


def _busybox_applets(overlay: Overlay, _facts: Declared) -> None:
    """Links to busybox for its applets where nothing else is, as `busybox --install -s` in its trigger."""
    lists = sorted(path for path in overlay.tree.kept if path.startswith(APPLETS))
    if not lists:
        raise BuildError("declare: busybox-applets: no package brings a list of applets; add busybox")
    for path in b"\n".join(map(overlay.tree.kept.__getitem__, lists)).split():
        if overlay.missing(path):
            overlay.link(path, b"/" + BUSYBOX)


def _is_wanted(line: bytes, wanted: Callable[[str], bool]) -> bool:
    _, _, path = line.rstrip(b"\n").partition(b"  ")
    return wanted("/" + path.decode("utf-8", "surrogateescape"))


def _os_release(overlay: Overlay, _facts: Declared) -> None:
    """`/etc/os-release`, a link to the file of base-files in /usr/lib."""
    if overlay.missing(b"usr/lib/os-release"):
        raise BuildError("declare: os-release: no package brings /usr/lib/os-release; add base-files")
    if overlay.missing(b"etc/os-release"):
        overlay.link(b"etc/os-release", b"../usr/lib/os-release")


def _tmp(overlay: Overlay, _facts: Declared) -> None:
    """`/tmp` and `/var/tmp`, writable by everyone and sticky, as base-files has them."""
    for path in (b"tmp", b"var/tmp"):
        overlay.directory(path, mode=0o1777)


def _nsswitch(overlay: Overlay, _facts: Declared) -> None:
    """`/etc/nsswitch.conf`: the default that libc-bin's script copies; without libc-bin, files and DNS."""
    content = overlay.tree.content(_NSSWITCH)
    overlay.file(b"etc/nsswitch.conf", _NSSWITCH_WITHOUT_PACKAGE if content is None else content)


def skipped_scripts(packages: Sequence[PackageContents], declared: Container[str]) -> tuple[str, ...]:
    """A line for the scripts of packages that dpkg would run at installation; none without such scripts.

    With `alternatives` declared, another line for those whose alternatives can't be read from the script.
    """
    found = sorted(each.owner for each in packages if _INSTALL_SCRIPTS & each.control.keys())
    unread = sorted(
        each.owner for each in packages if read_alternatives(each.control.get("postinst", b""))[1]
    )
    lines = []
    if found:
        lines.append(f"declared, so scripts of these packages are not run: {', '.join(found)}")
    if unread and "alternatives" in declared:
        lines.append(f"not all alternatives of these packages are declared; add 'links': {', '.join(unread)}")
    return tuple(lines)


_DECLARATIONS: Mapping[str, Callable[[Overlay, Declared], None]] = {
    "merged-usr": _merged_usr,
    "accounts": _accounts,
    "ca-bundle": _ca_bundle,
    "alternatives": _alternatives,
    "ld-cache": _ld_cache,
    "package-metadata": _package_metadata,
    "os-release": _os_release,
    "tmp": _tmp,
    "nsswitch": _nsswitch,
    "busybox-applets": _busybox_applets,
}
ORDER: Sequence[str] = tuple(_DECLARATIONS)
"""The order of declarations, independent of the definition's order: links into /usr come first.

Alternatives come before the linker's cache, because libraries can be alternatives.
"""
