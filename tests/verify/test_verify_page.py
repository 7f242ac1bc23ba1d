"""The report's page: its content, its quoting of foreign text, and the contrast of its colours."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from sandwright import process
from sandwright.policy.load import read_layer
from sandwright.session.request import RunRequest
from sandwright.verify import page as page_module
from sandwright.verify.about import PolicyOrigin, origin
from sandwright.verify.outcome import ProbeOutcome
from sandwright.verify.page import page
from sandwright.verify.probe import Family
from sandwright.verify.report import PolicyReport
from sandwright.verify.verdict import Verdict

PASS = ProbeOutcome("files/x", "bwrap", Family.FILES, Verdict.PASS, "EROFS", "EROFS", "evidence", "about")
FAIL = replace(PASS, probe="files/y", verdict=Verdict.FAIL, observed="ok")
HOSTILE = '</pre></style></script><script>alert("x")</script>&amp;\x00\x1b[31m\u202egnp.exe\u2028\ud800'


def _report(*outcomes: ProbeOutcome) -> PolicyReport:
    return PolicyReport(
        policy="sandbox.yaml",
        methods=tuple(dict.fromkeys(each.method for each in outcomes)),
        outcomes=outcomes,
        notes=("a <note>",),
        started="2026-01-01T00:00:00+00:00",
        seconds=1.0,
        host="a machine",
        origin=PolicyOrigin("/home/u/project", "0123abc", "schema: 1\n", ("network.mode=none",)),
    )


class _Page(HTMLParser):
    """Elements with their attributes, and all text outside style and script."""

    def __init__(self, html: bytes) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.inline: dict[str, str] = {}
        self.text = ""
        self._inside = ""
        self.feed(html.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002 - as HTMLParser has it
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside in ("style", "script"):
            self.inline[self._inside] = data
        else:
            self.text += data

    def of(self, tag: str, name: str = "") -> list[dict[str, str | None]]:
        """The attributes of elements with a tag and a class."""
        return [
            attributes
            for own, attributes in self.elements
            if own == tag and (not name or name in (attributes.get("class") or "").split())
        ]


def _page(report: PolicyReport) -> _Page:
    return _Page(page(report, report.faults()))


def test_it_obeys_no_text_of_others() -> None:
    hostile = replace(FAIL, probe=HOSTILE, about=HOSTILE, evidence=HOSTILE, note=HOSTILE, observed=HOSTILE)
    report = replace(
        _report(PASS, hostile),
        policy=HOSTILE,
        host=HOSTILE,
        notes=(HOSTILE,),
        weaker=(f"bwrap: {HOSTILE}",),
        origin=PolicyOrigin(HOSTILE, HOSTILE, HOSTILE, (HOSTILE,)),
    )
    read, plain = _page(report), _page(_report(PASS, FAIL))
    assert [tag for tag, _ in read.elements if tag in ("script", "style")] == ["style", "script"]
    assert read.inline == plain.inline
    assert r'<script>alert("x")</script>&amp;\x00\x1b[31m\u202egnp.exe\u2028\ud800' in read.text
    assert all(each.isprintable() or each == "\n" for each in read.text)


def test_nothing_is_loaded_and_only_its_own_script_runs() -> None:
    read = _page(_report(PASS, FAIL))
    targets = [
        attributes[name] or ""
        for _, attributes in read.elements
        for name in ("src", "href", "action", "srcset", "style", "onclick")
        if name in attributes
    ]
    assert targets
    assert all(target.startswith("#") for target in targets)
    csp = next(each["content"] for each in read.of("meta") if each.get("http-equiv"))
    digests = {
        kind: base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for kind, text in read.inline.items()
    }
    assert csp == (
        f"default-src 'none'; style-src 'sha256-{digests['style']}'; "
        f"script-src 'sha256-{digests['script']}'; base-uri 'none'; form-action 'none'"
    )


def test_all_can_be_read_without_a_script() -> None:
    read = _page(_report(PASS, FAIL))
    assert [tag for tag, attributes in read.elements if "hidden" in attributes] == ["form"]
    for text in ("files/x", "files/y", "evidence", "a <note>", "/home/u/project", "0123abc", "schema: 1"):
        assert text in read.text


def test_the_verdict_is_the_commands() -> None:
    green = _report(PASS)
    assert "proved: sandbox.yaml" in _page(green).text
    assert _page(green).of("span", "badge")[0]["class"] == "badge pass"
    red = _Page(page(green, ["skipped: bwrap: files/z: no reason (required)"]))
    assert red.of("span", "badge")[0]["class"] == "badge fail"
    assert "not proved: sandbox.yaml" in red.text
    assert "no reason (required)" in red.text


def test_what_weakens_the_verdict_is_beside_it() -> None:
    simulated = replace(PASS, method="seatbelt", simulated=True)
    skip = replace(PASS, method="gvisor", verdict=Verdict.SKIPPED, evidence="runsc is missing")
    report = replace(
        _report(PASS, simulated, skip),
        weaker=("bwrap: f is degraded: why; accepted: so", "oci: f is degraded: why; accepted: so"),
    )
    text = _page(report).text
    top = text[: text.index("Machine")]
    assert "bwrap, oci: f is degraded: why; accepted: so" in top
    assert "simulated: seatbelt" in top
    assert "nothing was proved of gvisor: runsc is missing" in top


def test_green_groups_are_folded_and_the_others_open() -> None:
    read = _page(_report(PASS, replace(FAIL, family=Family.NETWORK)))
    assert {each["id"]: "open" in each for each in read.of("details", "family")} == {
        "files": False,
        "network": True,
    }


@pytest.mark.parametrize(
    ("other", "differs"),
    [
        pytest.param(replace(PASS, method="oci"), False, id="the same"),
        pytest.param(replace(PASS, method="oci", observed="EACCES"), True, id="another answer"),
        pytest.param(replace(PASS, method="oci", verdict=Verdict.FAIL), True, id="another verdict"),
    ],
)
def test_where_methods_differ_is_marked(other: ProbeOutcome, differs: bool) -> None:
    assert ("data-differs" in _page(_report(PASS, other)).of("details", "probe")[0]) is differs


_SHEET = Path(page_module.__file__).with_name("page.css").read_text(encoding="utf-8")
_TEXTS = ("text", "quiet", "link", "pass", "fail", "inconclusive", "skipped")
_VERDICTS = _TEXTS[3:]


def _colours(theme: str) -> dict[str, str]:
    """The style sheet's colours by name, for light or dark."""
    dark = _SHEET.index("prefers-color-scheme: dark")
    part = _SHEET[:dark] if theme == "light" else _SHEET[dark : _SHEET.index("}\n}", dark)]
    return dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})\b", part))


def _luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.2)."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts]
    return sum(weight * each for weight, each in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def _contrast(one: str, other: str) -> float:
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_contrast_is_that_of_aa(theme: str) -> None:
    colours = _colours(theme)
    assert colours.keys() == _colours("light").keys()
    pairs = [(text, back) for text in _TEXTS for back in ("page", "raised")]
    pairs += [(verdict, f"{verdict}-back") for verdict in _VERDICTS]
    low = {
        pair: ratio
        for pair in pairs
        if (ratio := _contrast(colours[pair[0]], colours[pair[1]])) < 4.5  # WCAG 2.2, 1.4.3
    }
    assert low == {}
    assert _contrast(colours["line"], colours["page"]) >= 3  # borders of controls: 1.4.11


def test_every_colour_is_one_of_those() -> None:
    """No rule has another colour, and nothing is made paler, which the contrasts would not include."""
    rules = re.sub(r"--[a-z-]+: #[0-9a-f]{6};", "", _SHEET)
    assert re.findall(r"#[0-9a-f]{3,8}\b|rgba?\(|hsla?\(|opacity: (?!1)", rules) == []


def test_the_contrast_is_computed_right() -> None:
    assert round(_contrast("#ffffff", "#000000"), 1) == 21
    assert round(_contrast("#777777", "#ffffff"), 2) == 4.48  # the well-known grey just below AA


def _committed(project: Path) -> None:
    git = ("git", "-C", str(project), "-c", "user.name=x", "-c", "user.email=x@example.org")
    process.run(*git, "init", "--quiet")
    process.run(*git, "add", "sandbox.yaml")
    process.run(*git, "commit", "--quiet", "--message", "x")


@pytest.mark.needs("git")
def test_the_origin_has_the_commit_and_whether_the_policy_is_of_it(tmp_path: Path) -> None:
    file = tmp_path / "sandbox.yaml"
    file.write_text("schema: 1\n")
    assert origin([read_layer(file)], RunRequest([], policy=str(file))).commit == ""
    _committed(tmp_path)
    assert re.fullmatch(
        "[0-9a-f]{40,64}, which has this policy",
        origin([read_layer(file)], RunRequest([], policy=str(file))).commit,
    )
    file.write_text("schema: 1\nmethod: bwrap\n")
    assert "which has another policy" in origin([read_layer(file)], RunRequest([], policy=str(file))).commit


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        pytest.param("{A_TOKEN: hunter2, CI: '1'}", "{A_TOKEN: (not shown) CI: '1'}", id="flow"),
        pytest.param(
            "\n    A_TOKEN: hunter2\n    CI: '1'", "\n    A_TOKEN: (not shown)\n    CI: '1'", id="block"
        ),
        pytest.param(
            "\n    A_TOKEN: |\n      one\n      two\n    CI: '1'",
            "\n    A_TOKEN: (not shown)\n    CI: '1'",
            id="several lines",
        ),
        pytest.param(
            "\n    CI: &x hunter2\n    A_TOKEN: *x",
            "\n    CI: &x (not shown)\n    A_TOKEN: (not shown)",
            id="anchor",
        ),
    ],
)
def test_values_that_look_secret_are_not_shown(written: str, shown: str, tmp_path: Path) -> None:
    file = tmp_path / "sandbox.yaml"
    file.write_text(f"schema: 1\nenvironment:\n  set: {written}\n")
    settings = ["environment.set.B_TOKEN=x", "network.mode=none"]
    found = origin([read_layer(file)], RunRequest([], policy=str(file), settings=settings))
    assert found.text == f"schema: 1\nenvironment:\n  set: {shown}\n"
    assert found.settings == ("environment.set.B_TOKEN=(not shown)", "network.mode=none")
