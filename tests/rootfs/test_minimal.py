"""The content of a minimal root, the reasons, and its questions: small roots whose files are all listed here.

Tests of rootfs/minimal/rules.py.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from sandwright.errors import ArchiveRefused, BuildError, UsageError
from sandwright.rootfs.bundles.assemble import bundle
from sandwright.rootfs.minimal.closure import DependencyClosure
from sandwright.rootfs.minimal.patterns import find, matches
from sandwright.rootfs.minimal.script import Script, read_script
from sandwright.rootfs.minimal.selection import Selection, path_text
from sandwright.rootfs.minimal.treecopy import copy_paths
from sandwright.rootfs.securejoin import Root
from support import elffiles, layouts, tars
from support.elffiles import RUNPATH

LOADER = "lib64/ld-linux-x86-64.so.2"
PLAIN: dict[str, bytes | str] = {
    LOADER: elffiles.library(b"ld-linux-x86-64.so.2"),
    "lib/libc.so.6": elffiles.library(b"libc.so.6", b"ld-linux-x86-64.so.2"),
}
"""A loader and a libc."""


def build(root: Path, files: dict[str, bytes | str], *, executable: bool = True) -> Path:
    """Files (bytes) and links (text), all executable; names with a final slash are directories."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            path.mkdir()
        elif isinstance(content, str):
            path.symlink_to(content)
        else:
            path.write_bytes(content)
            path.chmod(0o755 if executable else 0o644)
    return root


def select(root: Path, *programs: str, keep: tuple[str, ...] = (), **more: Any) -> Selection:
    with Root(root) as opened:
        closure = DependencyClosure(opened, search=[b"/usr/bin", b"/bin"], **more)
        for program in programs:
            closure.program(program.encode())
        for pattern in keep:
            closure.declared(pattern.encode(), "asked for by name")
        return closure.selection()


def kept(selection: Selection) -> set[str]:
    return {path.decode() for path in selection.kept}


def why(selection: Selection, path: bytes) -> list[str]:
    """The chain of reasons from a requested program to a kept path, one line a step."""
    lines, current = [], path
    while reasons := selection.kept.get(current):
        lines.append(f"{path_text(current)}: {reasons[0]}")
        current = reasons[0].parent or b""
    return lines


# ELF programs.


def test_program_with_its_loader_and_libraries(tmp_path: Path) -> None:
    root = build(
        tmp_path,
        {
            **PLAIN,
            "bin/p": elffiles.program(b"liba.so.1", b"libc.so.6"),
            "lib/liba.so.1": elffiles.library(b"liba.so.1", b"libb.so.1"),
            "lib/libb.so.1": elffiles.library(b"libb.so.1", b"libc.so.6"),
            "lib/libunused.so.1": elffiles.library(b"libunused.so.1"),
            "bin/other": elffiles.program(b"libunused.so.1"),
            "etc/anything": b"",
        },
    )
    chosen = select(root, "/bin/p")
    assert kept(chosen) == {"/bin/p", f"/{LOADER}", "/lib/libc.so.6", "/lib/liba.so.1", "/lib/libb.so.1"}
    assert chosen.missing == ()
    assert why(chosen, b"/lib/libb.so.1") == [
        "/lib/libb.so.1: needed by /lib/liba.so.1 (libb.so.1, the default directories)",
        "/lib/liba.so.1: needed by /bin/p (liba.so.1, the default directories)",
        "/bin/p: asked",
    ]
    assert why(chosen, b"/" + LOADER.encode()) == [f"/{LOADER}: interpreter by /bin/p", "/bin/p: asked"]
    assert not {b"/lib", b"/lib/libunused.so.1"} & chosen.kept.keys()
    assert b"/bin/other" not in chosen.left_out


def test_every_link_on_the_way_is_kept(tmp_path: Path) -> None:
    root = build(
        tmp_path,
        {
            "usr/bin/real": elffiles.program(b"liba.so.1", interpreter=b"/lib64/ld.so"),
            "usr/bin/two": "real",
            "usr/bin/one": "../../usr/bin/two",
            "bin": "usr/bin",
            "usr/lib/liba.so.1.2": elffiles.library(b"liba.so.1"),
            "usr/lib/liba.so.1": "liba.so.1.2",
            "lib": "usr/lib",
            "usr/lib64/ld-2.so": elffiles.library(b"ld.so"),
            "usr/lib64/ld.so": "/usr/lib64/ld-2.so",
            "lib64": "usr/lib64",
        },
    )
    chosen = select(root, "/bin/one")
    assert kept(chosen) == {
        *("/bin", "/usr/bin/one", "/usr/bin/two", "/usr/bin/real"),
        *("/lib", "/usr/lib/liba.so.1", "/usr/lib/liba.so.1.2"),
        *("/lib64", "/usr/lib64/ld.so", "/usr/lib64/ld-2.so"),
        *("/usr/bin", "/usr/lib", "/usr/lib64"),  # the targets of the links
    }
    assert why(chosen, b"/usr/bin/real") == ["/usr/bin/real: link by /usr/bin/one", "/usr/bin/one: asked"]
    assert why(chosen, b"/bin")[0] == "/bin: link by /usr/bin/one (a directory on the way)"


def test_search_paths_of_the_file_are_followed(tmp_path: Path) -> None:
    root = build(
        tmp_path,
        {
            **PLAIN,
            "opt/app/bin/p": elffiles.program(b"liba.so.1", texts=[(RUNPATH, b"$ORIGIN/../lib")]),
            "opt/app/lib/liba.so.1": elffiles.library(b"liba.so.1"),
            "lib/liba.so.1": elffiles.library(b"liba.so.1"),
            "bin/p": "/opt/app/bin/p",
        },
    )
    assert "/opt/app/lib/liba.so.1" in kept(select(root, "/bin/p"))
    assert "/lib/liba.so.1" not in kept(select(root, "/bin/p"))


def test_program_linked_statically_needs_nothing(tmp_path: Path) -> None:
    root = build(tmp_path, {**PLAIN, "bin/p": elffiles.elf(dynamic=False)})
    assert kept(select(root, "/bin/p")) == {"/bin/p"}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"bin/p": elffiles.program(b"libgone.so")}, "/bin/p: the library 'libgone.so' is not found"),
        (
            {
                "bin/p": elffiles.program(b"liba.so"),
                "lib/liba.so": elffiles.library(b"liba.so", b"libgone.so"),
            },
            "/lib/liba.so: the library 'libgone.so' is not found",
        ),
        (
            {"bin/p": elffiles.program(interpreter=b"/none/ld.so")},
            "/bin/p: its interpreter '/none/ld.so' is not there",
        ),
        ({"bin/p": b"#!/none/sh\n"}, "/bin/p: its interpreter '/none/sh' is not there"),
        (
            {"bin/p": b"#!/bin/env none\n", "bin/env": elffiles.program()},
            "the program 'none', which env would start",
        ),
        (
            {"bin/p": b"#!/bin/sh\n", "bin/sh": elffiles.program(b"libgone.so")},
            "/bin/sh: the library 'libgone.so' is not found",
        ),
        ({"bin/p": elffiles.program(b"liba.so")[:200]}, "a broken ELF file"),
        (
            {
                "bin/p": elffiles.program(b"liba.so"),
                "opt/liba.so": elffiles.library(b"liba.so"),
                "etc/ld.so.conf": b"include /etc/ld.so.conf.d/*.conf\n",
                "etc/ld.so.conf.d/opt.conf": b"# ours\n/opt\n",
            },
            "it lies in /opt/liba.so, but not in ld.so.cache: run ldconfig",
        ),
    ],
    ids=[
        "library",
        "library of a library",
        "loader",
        "shell",
        "env",
        "library of the shell",
        "broken",
        "ldconfig",
    ],
)
def test_program_that_could_not_start_is_an_error(
    files: dict[str, bytes | str], message: str, tmp_path: Path
) -> None:
    root = build(tmp_path, {**PLAIN, **files})
    with pytest.raises(BuildError) as raised:
        select(root, "/bin/p")
    assert "'/bin/p' cannot start in this image: " in str(raised.value)
    assert message in str(raised.value)


def test_what_is_no_program(tmp_path: Path) -> None:
    root = build(tmp_path, {"bin/dir/": b"", "bin/gone": "nowhere"})
    build(root, {"bin/data": b"x"}, executable=False)
    for name, what in (("dir", "a directory"), ("gone", "nothing"), ("data", "a file"), ("none", "nothing")):
        with pytest.raises(BuildError, match=f"the image has no program '/bin/{name}': {what} is there"):
            select(root, f"/bin/{name}")


def test_library_that_something_else_can_not_find_is_told_and_no_error(tmp_path: Path) -> None:
    root = build(
        tmp_path,
        {
            **PLAIN,
            "bin/p": elffiles.program(),
            "usr/lib/plugin.so": elffiles.library(b"plugin.so", b"libgone.so"),
        },
    )
    chosen = select(root, "/bin/p", keep=("/usr/lib/*.so",))
    assert chosen.missing == ("/usr/lib/plugin.so: the library 'libgone.so' is not found",)


def test_hostile_names_end_in_an_error_of_ours(tmp_path: Path) -> None:
    """NUL bytes, endless links and endless names in an image's own metadata."""
    files: dict[str, bytes | str] = {**PLAIN, "bin/p": elffiles.program(), "d/loop": "loop", "d/good": b""}
    root = build(tmp_path, files)
    chosen = select(root, "/bin/p", keep=("/d",))
    assert {"/d/loop", "/d/good"} <= kept(chosen)
    assert "/d/loop: it is a link that leads in a circle" in chosen.missing
    (root / "var/lib/dpkg/info").mkdir(parents=True)
    (root / "var/lib/dpkg/status").write_bytes(b"Package: p\n")
    (root / "var/lib/dpkg/info/p.list").write_bytes(b"/bin/p\n/\xff/x\n")
    assert "does not have it" in select(root, "/bin/p").left_out[b"/\xff/x"]
    late = elffiles.dlopen_note({"soname": ["lib\ud800.so"], "priority": "required"})
    build(root, {"bin/q": elffiles.program(notes=late)})
    assert "/bin/q" in kept(select(root, "/bin/q"))
    for line in (b"/bin/p\n/a\0b\n", b"/bin/p\n/" + b"x" * 5000 + b"/y\n"):
        build(root, {"var/lib/dpkg/status": b"Package: p\n"} if not (root / "var").exists() else {})
        (root / "var/lib/dpkg/info").mkdir(exist_ok=True)
        (root / "var/lib/dpkg/info/p.list").write_bytes(line)
        with pytest.raises(ArchiveRefused, match=r"holds a NUL byte|too long a name"):
            select(root, "/bin/p")


def test_things_that_many_files_miss_are_told_once(tmp_path: Path) -> None:
    scripts: dict[str, bytes | str] = {f"usr/share/x/{number}": b"#!/none/awk\n" for number in range(5)}
    root = build(tmp_path, {**PLAIN, "bin/p": elffiles.program(), **scripts})
    (line,) = select(root, "/bin/p", keep=("/usr/share/x",)).missing
    assert line.startswith("/usr/share/x/")
    assert line.endswith(" and 4 more: its interpreter '/none/awk' is not there")


def test_library_of_a_plugin_that_its_program_brings_is_not_missing(tmp_path: Path) -> None:
    root = build(
        tmp_path,
        {
            **PLAIN,
            "bin/p": elffiles.program(b"libcore.so", texts=[(elffiles.RPATH, b"/opt")]),
            "opt/libcore.so": elffiles.library(b"libcore.so"),
            "usr/lib/plugin.so": elffiles.library(b"plugin.so", b"libcore.so"),
        },
    )
    assert select(root, "/bin/p", keep=("/usr/lib/plugin.so",)).missing == ()


# Scripts.


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"#!/bin/sh\n", Script(b"/bin/sh")),
        (b"#! /bin/sh -e\n", Script(b"/bin/sh")),
        (b"#!\t/usr/bin/perl\t-w\r\n", Script(b"/usr/bin/perl")),
        (b"#!/bin/sh", Script(b"/bin/sh")),
        (b"#!/usr/bin/env python3\n", Script(b"/usr/bin/env", b"python3")),
        (b"#!/usr/bin/env -S python3 -u\n", Script(b"/usr/bin/env", b"python3")),
        (b"#!/usr/bin/env -S -i A=b LANG=C node --flag\n", Script(b"/usr/bin/env", b"node")),
        (b"#!/usr/bin/env -vS -u HOME awk -f\n", Script(b"/usr/bin/env", b"awk")),
        (b"#!/usr/bin/env --split-string=ruby -w\n", Script(b"/usr/bin/env", b"ruby")),
        (b"#!/usr/bin/env\n", Script(b"/usr/bin/env")),
        (b"#!\n", None),
        (b"#!  \n", None),
        (b"# !/bin/sh\n", None),
        (b"\x7fELF", None),
        (b"#!/bin/\0sh\n", None),
    ],
)
def test_first_line_of_a_script(line: bytes, expected: Script | None) -> None:
    assert read_script(line + b"rest") == expected if line.endswith(b"\n") else read_script(line) == expected


def test_script_keeps_who_runs_it(tmp_path: Path) -> None:
    root = build(
        tmp_path,
        {
            **PLAIN,
            "bin/script": b"#!/usr/bin/env -S tool -x\n",
            "usr/bin/env": elffiles.program(b"libc.so.6"),
            "usr/bin/tool": b"#!/bin/interp\n",
            "bin/tool": elffiles.program(),
            "bin/interp": "interp5",
            "bin/interp5": elffiles.program(b"libc.so.6"),
        },
    )
    chosen = select(root, "/bin/script")
    assert {"/usr/bin/env", "/usr/bin/tool", "/bin/interp", "/bin/interp5", "/lib/libc.so.6"} <= kept(chosen)
    assert "/bin/tool" not in kept(chosen)
    assert why(chosen, b"/bin/interp5")[-3:] == [
        "/bin/interp: script by /usr/bin/tool",
        "/usr/bin/tool: script by /bin/script (by env)",
        "/bin/script: asked",
    ]
    (question,) = (each for each in chosen.questions if each.about == "programs and files that scripts use")
    assert question.raised_by == (b"/bin/script", b"/usr/bin/tool")


def test_scripts_that_run_each_other(tmp_path: Path) -> None:
    root = build(tmp_path, {"bin/a": b"#!/bin/b\n", "bin/b": b"#!/bin/a\n"})
    assert kept(select(root, "/bin/a")) == {"/bin/a", "/bin/b"}


def test_script_that_can_not_be_run_is_data(tmp_path: Path) -> None:
    root = build(tmp_path, {**PLAIN, "bin/p": elffiles.program()})
    build(root, {"usr/share/x/example": b"#!/none\n"}, executable=False)
    assert select(root, "/bin/p", keep=("/usr/share/x",)).missing == ()


# Packages.

STATUS = """\
Package: app
Status: install ok installed
Architecture: amd64
Depends: app-data (= 1), libwhat | virtual-thing (>= 2),
 missing
Description: an app
 with a long text: Depends: nothing

Package: app-data
Architecture: all

Package: real-thing
Provides: virtual-thing (= 3)
"""
APP_FILES = """\
/.
/bin
/bin/app
/bin/app-admin
/usr
/usr/lib
/usr/lib/app
/usr/lib/app/plugin
/usr/lib/app/gone
/usr/share/doc/app/copyright
/usr/share/doc/app/README
/usr/share/man/man1/app.1
/var/lib/app
"""


def debian(root: Path) -> Path:
    """A root with dpkg's database, on a merged /usr whose database still contains /bin."""
    build(
        root,
        {
            **PLAIN,
            "usr/bin/app": elffiles.program(b"libc.so.6"),
            "usr/bin/app-admin": elffiles.program(),
            "bin": "usr/bin",
            "usr/lib/app/plugin": b"#!/bin/app\n",
            "usr/share/app-data/table": b"",
            "usr/share/thing/file": b"",
            "var/lib/dpkg/status": STATUS.encode(),
            "var/lib/dpkg/info/app.list": APP_FILES.encode(),
            "var/lib/dpkg/info/app-data.list": b"/usr\n/usr/share/app-data\n/usr/share/app-data/table\n",
            "var/lib/dpkg/info/real-thing:amd64.list": b"/usr\n/usr/share/thing/file\n",
            "var/lib/app/": b"",
        },
    )
    return build(
        root,
        {
            "usr/share/doc/app/copyright": b"",
            "usr/share/doc/app/README": b"",
            "usr/share/man/man1/app.1": b"",
        },
        executable=False,
    )


def test_data_of_the_package_that_owns_a_program(tmp_path: Path) -> None:
    chosen = select(debian(tmp_path), "/bin/app")
    assert kept(chosen) == {
        *("/bin", "/usr/bin", "/usr/bin/app", f"/{LOADER}", "/lib/libc.so.6"),
        *("/usr/lib/app/plugin", "/usr/share/doc/app/copyright", "/var/lib/app"),
    }
    assert why(chosen, b"/usr/lib/app/plugin") == [
        "/usr/lib/app/plugin: package by /usr/bin/app (app)",
        "/usr/bin/app: asked",
    ]
    assert chosen.left_out[b"/usr/bin/app-admin"] == "another program of package app"
    assert chosen.left_out[b"/usr/share/doc/app/README"] == "documentation of package app"
    assert "does not have it" in chosen.left_out[b"/usr/lib/app/gone"]


def test_data_of_the_packages_it_depends_on(tmp_path: Path) -> None:
    root = debian(tmp_path)
    assert not {"/usr/share/app-data/table", "/usr/share/thing/file"} & kept(select(root, "/bin/app"))
    chosen = select(root, "/bin/app", dependencies=True)
    assert {"/usr/share/app-data/table", "/usr/share/thing/file"} <= kept(chosen)
    assert why(chosen, b"/usr/share/thing/file")[0].endswith("package by /usr/bin/app (real-thing)")


def test_interpreter_of_a_script_brings_its_package_too(tmp_path: Path) -> None:
    root = debian(tmp_path)
    build(root, {"usr/local/bin/mine": b"#!/usr/bin/app\n"})
    assert "/usr/lib/app/plugin" in kept(select(root, "/usr/local/bin/mine"))


def test_database_of_distroless(tmp_path: Path) -> None:
    root = build(
        tmp_path,
        {
            **PLAIN,
            "usr/bin/app": elffiles.program(),
            "usr/lib/app/data": b"",
            "var/lib/dpkg/status.d/app": b"Package: app\nVersion: 1\n",
            "var/lib/dpkg/status.d/app.md5sums": b"0123  usr/bin/app\n4567  usr/lib/app/data\n",
        },
    )
    assert "/usr/lib/app/data" in kept(select(root, "/usr/bin/app"))


def test_database_of_alpine(tmp_path: Path) -> None:
    app = b"P:app\nV:1\nD:so:libc.musl so:x lib>=1\nF:bin\nR:app\na:0:0:755\nF:usr/share/app\nR:data\n\n"
    text = app + b"P:lib\nF:l\nR:f\n\n"
    root = build(
        tmp_path,
        {
            **PLAIN,
            "bin/app": elffiles.program(),
            "usr/share/app/data": b"",
            "l/f": b"",
            "lib/apk/db/installed": text,
        },
    )
    assert {"/usr/share/app/data"} <= kept(select(root, "/bin/app"))
    assert "/l/f" in kept(select(root, "/bin/app", dependencies=True))


def test_image_without_a_database_says_so(tmp_path: Path) -> None:
    root = build(tmp_path, {**PLAIN, "bin/p": elffiles.program()})
    questions = [each.about for each in select(root, "/bin/p").questions]
    assert "package data: the image has no package database" in questions
    assert not [
        each for each in select(debian(tmp_path / "other"), "/bin/app").questions if "database" in each.about
    ]


# Shipped rules and open questions.


def test_python_brings_its_standard_library(tmp_path: Path) -> None:
    root = build(
        tmp_path,
        {
            **PLAIN,
            "usr/bin/python3": "python3.11",
            "usr/bin/python3.11": elffiles.program(b"libc.so.6", imports=[b"dlopen"]),
            "usr/lib/python3.11/os.py": b"",
            "usr/lib/python3.11/lib-dynload/_ssl.so": elffiles.library(b"", b"libssl.so.3"),
            "usr/lib/python3.10/os.py": b"",
            "usr/lib/python3/dist-packages/yaml/__init__.py": b"",
            "lib/libssl.so.3": elffiles.library(b"libssl.so.3"),
            "etc/ssl/openssl.cnf": b"",
            "etc/ssl/certs/ca.pem": "/usr/share/ca/ca.crt",
            "usr/share/ca/ca.crt": b"",
            "lib/ossl-modules/legacy.so": elffiles.library(b"legacy.so"),
        },
    )
    chosen = select(root, "/usr/bin/python3")
    assert {
        "/usr/lib/python3.11/os.py",
        "/usr/lib/python3.11/lib-dynload/_ssl.so",
        "/lib/libssl.so.3",
        "/etc/ssl/openssl.cnf",
        "/etc/ssl/certs/ca.pem",
        "/usr/share/ca/ca.crt",
    } <= kept(chosen)
    assert not [
        path for path in kept(chosen) if "3.10" in path or "dist-packages" in path or "legacy" in path
    ]
    about = {each.about: each.raised_by for each in chosen.questions}
    assert about["Python modules of packages in /usr/lib/python3/dist-packages"] == (b"/usr/bin/python3.11",)
    assert about["OpenSSL's providers (old ciphers) in /lib/ossl-modules"] == (b"/lib/libssl.so.3",)
    assert about["libraries loaded at run time (dlopen)"] == (b"/usr/bin/python3.11",)
    assert why(chosen, b"/usr/lib/python3.11/os.py")[0].endswith(
        "rule by /usr/bin/python3.11 (python-library)"
    )


def test_question_is_answered_by_keeping_what_it_asks_about(tmp_path: Path) -> None:
    root = build(
        tmp_path,
        {
            **PLAIN,
            "bin/p": elffiles.program(imports=[b"localtime", b"iconv_open"]),
            "usr/share/zoneinfo/UTC": b"",
        },
    )
    zones = "time zones in /usr/share/zoneinfo"
    before = {each.about: each.raised_by for each in select(root, "/bin/p").questions}
    assert before[zones] == (b"/bin/p",)
    assert not [about for about in before if "iconv" in about], "the image has no character sets"
    assert zones not in {
        each.about for each in select(root, "/bin/p", keep=("/usr/share/zoneinfo",)).questions
    }


def test_libraries_that_a_file_says_it_loads_late(tmp_path: Path) -> None:
    notes = elffiles.dlopen_note(
        {"soname": ["liblz4.so.1"], "feature": "lz4", "priority": "recommended"},
        {"soname": ["libqr.so.4", "libqr.so.3"], "feature": "qr", "priority": "suggested"},
    )
    root = build(
        tmp_path,
        {
            **PLAIN,
            "bin/p": elffiles.program(notes=notes),
            "lib/liblz4.so.1": elffiles.library(b"liblz4.so.1"),
            "lib/libqr.so.4": elffiles.library(b"libqr.so.4"),
        },
    )
    chosen = select(root, "/bin/p")
    assert "/lib/liblz4.so.1" in kept(chosen)
    assert "/lib/libqr.so.4" not in kept(chosen)
    assert chosen.loaded_late == (b"/lib/liblz4.so.1",)
    assert any("qr, suggested: libqr.so.4 or libqr.so.3" in each.about for each in chosen.questions)


def test_both_names_of_a_merged_usr_are_kept(tmp_path: Path) -> None:
    """Programs contain /bin/sh and /lib64/ld-linux-x86-64.so.2, so both names stay for any request."""
    files: dict[str, bytes | str] = {
        "usr/bin/p": elffiles.program(),
        "usr/lib64/ld-linux-x86-64.so.2": elffiles.library(b"ld-linux-x86-64.so.2"),
        "usr/sbin/unused": b"",
        "usr/bin/unused": b"",
        "bin": "usr/bin",
        "sbin": "usr/sbin",
        "lib64": "usr/lib64",
    }
    chosen = select(build(tmp_path, files), "/usr/bin/p")
    assert {"/bin", "/lib64"} <= kept(chosen)
    assert not {"/sbin", "/usr/bin/unused", "/usr/sbin/unused"} & kept(chosen)
    assert why(chosen, b"/bin") == ["/bin: rule by /usr/bin/p (merged-usr)", "/usr/bin/p: asked"]


# Declared and dropped.

TREE: dict[str, bytes | str] = {
    "a/x.txt": b"",
    "a/y.bin": b"",
    "a/b/z.txt": b"",
    "a/b/c/w.txt": b"",
    "a/empty/": b"",
    "link": "a/b",
    "file": b"",
}


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("/file", {"/file"}),
        ("/a/b", {"/a/b", "/a/b/z.txt", "/a/b/c/w.txt"}),
        ("/link", {"/link", "/a/b/z.txt", "/a/b/c/w.txt"}),
        ("/link/z.txt", {"/a/b/z.txt"}),
        ("/a/*.txt", {"/a/x.txt"}),
        ("/a/?.bin", {"/a/y.bin"}),
        ("/a/**/*.txt", {"/a/b/z.txt", "/a/b/c/w.txt"}),
        ("/a/**.txt", {"/a/x.txt", "/a/b/z.txt", "/a/b/c/w.txt"}),
        ("/a/e*", {"/a/empty"}),
        ("/a/*", {"/a/x.txt", "/a/y.bin", "/a/b/z.txt", "/a/b/c/w.txt", "/a/empty"}),
        ("/*/b/z.txt", {"/a/b/z.txt"}),
        ("/none", set()),
        ("/a/none*", set()),
        ("/file/*", set()),
        ("/../../file", {"/file"}),
    ],
)
def test_pattern_finds(pattern: str, expected: set[str], tmp_path: Path) -> None:
    with Root(build(tmp_path, TREE)) as root:
        assert {path.decode() for path in find(root, pattern.encode())} == expected


def test_pattern_with_the_characters_of_regular_expressions() -> None:
    assert matches(b"/a+(b).[c]", b"/a+(b).[c]")
    assert not matches(b"/a.b", b"/aXb")
    assert not matches(b"/a*b", b"/a/b")
    assert matches(b"/a**b", b"/a/x\n/b")


def test_declared_path_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    root = build(tmp_path, {**PLAIN, "bin/p": elffiles.program()})
    with pytest.raises(BuildError, match="the image has nothing at '/usr/share/none/\\*' to keep"):
        select(root, "/bin/p", keep=("/usr/share/none/*",))


def test_dropped_paths_are_told(tmp_path: Path) -> None:
    root = build(
        tmp_path,
        {**PLAIN, "bin/p": b"#!/bin/sh\n", "bin/sh": elffiles.program(), "d/keep": b"", "d/drop.log": b""},
    )
    chosen = select(root, "/bin/p", keep=("/d",), drop=[b"/d/*.log"])
    assert "/d/keep" in kept(chosen)
    assert "/d/drop.log" not in kept(chosen)
    assert chosen.left_out[b"/d/drop.log"].startswith("dropped as asked, although wanted: declared")


# The copy.


def test_copy_keeps_what_inodes_say(tmp_path: Path) -> None:
    source = build(tmp_path / "source", {"d/a": b"content", "d/s": "a", "e/x": b"", "other": b""})
    os.link(source / "d/a", source / "e/hard")
    (source / "d/a").chmod(0o4750)
    (source / "d").chmod(0o1770)
    os.mkfifo(source / "e/fifo", 0o640)
    if os.geteuid() == 0:
        os.chown(source / "d/a", 5, 6)
        (source / "d/a").chmod(0o4750)
        os.chown(source / "d/s", 7, 8, follow_symlinks=False)
        os.setxattr(source / "d/a", "trusted.test", b"value")
    for path in (source / "d/a", source / "e/x", source / "d", source / "e", source):
        os.utime(path, ns=(1_000_000_001, 1_000_000_002))
    target = tmp_path / "target"
    with Root(source) as root:
        done = copy_paths(root, [b"/d/a", b"/d/s", b"/e/hard", b"/e/fifo"], target)
    assert (done.files, done.bytes) == (4, 7)
    assert sorted(str(path.relative_to(target)) for path in target.rglob("*")) == [
        "d",
        "d/a",
        "d/s",
        "e",
        "e/fifo",
        "e/hard",
    ]
    for name in ("", "d", "d/a", "d/s", "e", "e/fifo"):
        old, new = (source / name).lstat(), (target / name).lstat()
        assert (old.st_mode, old.st_uid, old.st_gid) == (new.st_mode, new.st_uid, new.st_gid), name
        assert name in ("d/s", "e/fifo") or new.st_mtime_ns == 1_000_000_002, name
    assert (target / "d/a").samefile(target / "e/hard")
    assert (target / "d/s").readlink() == Path("a")
    assert stat.S_ISFIFO((target / "e/fifo").stat().st_mode)
    if os.geteuid() == 0:
        assert os.getxattr(target / "d/a", "trusted.test") == b"value"


def test_copy_where_the_kernel_can_not_copy_ranges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> int:
        raise OSError(errno.ENOSYS, "Function not implemented")

    content = os.urandom(3_000_000)
    source = build(tmp_path / "source", {"big": content, "empty": b""})
    monkeypatch.setattr(os, "copy_file_range", missing)
    with Root(source) as root:
        copy_paths(root, [b"/big", b"/empty"], tmp_path / "target")
    assert (tmp_path / "target/big").read_bytes() == content
    assert (tmp_path / "target/empty").read_bytes() == b""


# Everything together, without a runtime.


def image(tmp_path: Path) -> Path:
    """An image with two programs; the second is its own command."""
    root = build(
        tmp_path / "root",
        {
            **PLAIN,
            "bin/one": elffiles.program(b"libc.so.6"),
            "bin/two": elffiles.program(b"libtwo.so"),
            "lib/libtwo.so": elffiles.library(b"libtwo.so"),
            "etc/passwd": b"root:x:0:0::/root:/\napp:x:5:5::/home/app:/\n",
            "etc/os-release": b"ID=test\n",
            "home/app/": b"",
            "srv/": b"",
        },
    )
    members = []
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root)).encode()
        if path.is_dir():
            members.append(tars.folder(name, 0o750 if name == b"home/app" else 0o755))
        else:
            members.append(tars.file(name, path.read_bytes(), mode=0o755))
    config = {"Cmd": ["two"], "User": "app", "WorkingDir": "/srv", "Env": ["PATH=/bin"]}
    return layouts.simple(tmp_path / "image", tars.archive(*members), config=config)


def test_minimal_bundle(tmp_path: Path) -> None:
    source = image(tmp_path)
    report = bundle(source, tmp_path / "bundle", store=tmp_path / "store", minimal=["one"])
    files = {str(path.relative_to(report.rootfs)) for path in report.rootfs.rglob("*") if not path.is_dir()}
    assert files == {
        *("bin/one", "lib/libc.so.6", LOADER, "etc/os-release"),
        *("etc/passwd", "etc/group", "etc/hosts", "etc/hostname", "etc/resolv.conf"),
    }
    for name, mode in {"proc": 0o555, "dev": 0o755, "tmp": 0o1777, "srv": 0o755, "home/app": 0o750}.items():
        assert stat.S_IMODE((report.rootfs / name).stat().st_mode) == mode, name
    assert report.command == ("/bin/one",)
    assert any("the image starts two, which is not kept" in note for note in report.notes)
    assert report.sizes is not None
    full, minimal = report.sizes
    assert (minimal.files, full.files) == (9, 11)
    assert minimal.bytes < full.bytes
    why = json.loads((report.bundle / "why.json").read_text())
    assert why["programs"] == ["/bin/one"]
    assert why["kept"]["/lib/libc.so.6"][0] == {
        "kind": "needed",
        "by": "/bin/one",
        "detail": "libc.so.6, the default directories",
    }
    assert set(why["kept"]) >= {f"/{name}" for name in files}


def test_minimal_bundle_again_does_nothing(tmp_path: Path) -> None:
    source = image(tmp_path)
    first, second = (
        bundle(source, tmp_path / "bundle", store=tmp_path / "store", minimal=["one"]) for _ in range(2)
    )
    assert (first.changed, second.changed) == (True, False)
    other = bundle(source, tmp_path / "other", store=tmp_path / "store", minimal=["/bin/one"])
    assert other.rootfs == first.rootfs, "the same choice is the same root"
    both = bundle(source, tmp_path / "both", store=tmp_path / "store", minimal=["one", "two"])
    assert both.rootfs != first.rootfs
    assert both.command == ("two",)


def test_whole_bundle_in_its_place_has_no_reasons(tmp_path: Path) -> None:
    source = image(tmp_path)
    bundle(source, tmp_path / "bundle", store=tmp_path / "store", minimal=["one"])
    report = bundle(source, tmp_path / "bundle", store=tmp_path / "store")
    assert report.changed
    assert [path.name for path in report.bundle.iterdir()] == ["config.json"]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"minimal": ["three"]}, BuildError, "the image has no program 'three' in its PATH"),
        ({"minimal": ["/bin/three"]}, BuildError, "the image has no program '/bin/three'"),
        ({"minimal": ["bin/one"]}, UsageError, "give an absolute path, or a name"),
        ({"minimal": ["one"], "keep": ["etc"]}, UsageError, "'etc' to keep: not an absolute path"),
        ({"minimal": ["one"], "keep": ["/none"]}, BuildError, "nothing at '/none' to keep"),
        ({"minimal": ["one"], "command": ["/bin/two"]}, BuildError, "/bin/two, which is not kept: name it"),
        ({"minimal": ["one"], "command": ["/bin/six"]}, BuildError, "the image has no program '/bin/six'"),
    ],
)
def test_minimal_bundle_that_can_not_be(
    arguments: dict[str, Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        bundle(image(tmp_path), tmp_path / "bundle", store=tmp_path / "store", **arguments)
    assert not (tmp_path / "bundle").exists()
