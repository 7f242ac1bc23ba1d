"""Keys and features by the names of the last release: each gives a warning, and means the same as the new
name.

Tests of policy/retired_keys.py.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from sandwright import process
from sandwright.api import Policy
from sandwright.documents.document import Path as FieldPath
from sandwright.documents.document import field_name
from sandwright.errors import DocumentError, RetiredNameWarning
from sandwright.policy import load
from sandwright.policy.facts import HostFacts
from sandwright.policy.layers import FIELDS, MergedSettings
from sandwright.policy.loosening import Loosening, loosenings
from sandwright.policy.merged import MergedPolicy
from sandwright.policy.names import FEATURES
from sandwright.policy.provenance import BUILT_IN
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.retired_keys import RETIRED_FEATURES, RETIRED_KEYS
from support.standby import COMMAND as SANDWRIGHT

PAGE = Path(__file__).parents[2] / "docs/policy.md"
FACTS = HostFacts(os="linux", home="/home/u", project="/home/u/p")
SAMPLES: Mapping[str, tuple[str, str]] = {
    "degrade": ("[{feature: image, method: bwrap, reason: x}]", "[]"),
    "outer": ("docker", "podman"),
    "prefer": ("[gvisor, docker]", "[docker]"),
    "process.privileged": ("true", "false"),
}
"""Two values of each key; a managed policy with the second one refuses the first."""

KEYS = pytest.mark.parametrize(("old", "new"), RETIRED_KEYS.items(), ids=map(field_name, RETIRED_KEYS))
FEATURE = pytest.mark.parametrize(("old", "new"), RETIRED_FEATURES.items())


def _text(path: FieldPath, value: str) -> str:
    """A value at a path, as YAML."""
    *sections, key = map(str, path)
    text = f"{key}: {value}"
    for section in reversed(sections):
        text = f"{section}: {{{text}}}"
    return f"{text}\n"


def _now(old: str, new: str) -> str:
    return f"`{old}` is now `{new}`; the old name works for one more release"


def _warned(text: str) -> tuple[ResolvedPolicy, list[str]]:
    """A policy on a host, and each warning about it."""
    with warnings.catch_warnings(record=True) as found:
        resolved = Policy.from_text(text, file="p").resolve(FACTS)
    assert all(issubclass(each.category, RetiredNameWarning) for each in found)
    return resolved, [str(each.message) for each in found]


def _settled(policy: ResolvedPolicy) -> ResolvedPolicy:
    """A policy without the positions of its rules, because their columns differ."""
    gaps = tuple(replace(each, source=BUILT_IN) for each in policy.accept_gaps)
    return replace(policy, accept_gaps=gaps, settings=MergedSettings())


def _loosened(policy: ResolvedPolicy) -> tuple[Loosening, ...]:
    return loosenings(policy, Policy.from_text("schema: 1").resolve(FACTS), remote=(), image_root=frozenset())


def test_there_are_some_and_each_leads_somewhere() -> None:
    assert {field_name(old) for old in RETIRED_KEYS} == SAMPLES.keys()
    assert {field_name(new) for new in RETIRED_KEYS.values()} <= FIELDS.keys()
    assert not {field_name(old) for old in RETIRED_KEYS} & FIELDS.keys()
    assert set(RETIRED_FEATURES.values()) <= FEATURES.keys()
    assert not RETIRED_FEATURES.keys() & FEATURES.keys()
    assert len(RETIRED_KEYS) > 3
    assert len(RETIRED_FEATURES) > 1


@KEYS
def test_a_key_warns_once_and_says_the_same(old: FieldPath, new: FieldPath) -> None:
    names = field_name(old), field_name(new)
    for value in SAMPLES[names[0]]:
        (before, warned), (now, silent) = (_warned(f"schema: 1\n{_text(each, value)}") for each in (old, new))
        assert warned == [f"p:2:{11 if len(old) > 1 else 1}: {_now(*names)}"]
        assert silent == []
        assert _settled(before) == _settled(now)
        one, other = (load.layer(_text(each, value)) for each in (old, new))
        assert (one.policy, one.document.data) == (other.policy, other.document.data), "digests are of these"
        assert _loosened(before) == _loosened(now), "as much approval is needed"


def test_what_needs_approval_needs_it_by_the_old_name() -> None:
    texts = [_text(old, SAMPLES[field_name(old)][0]) for old in RETIRED_KEYS]
    loosened = {str(each) for text in texts for each in _loosened(_warned(text)[0])}
    assert loosened == {
        "does without image under bwrap",
        "lets programs gain rights: process.sandbox_root",
    }


@FEATURE
def test_a_feature_warns_once_and_says_the_same(old: str, new: str) -> None:
    text = (
        "accept_gaps:\n"
        + "- {feature: %s, method: bwrap, reason: x}\n- {feature: %s, method: vm, reason: y}\n"
    )
    before, warned = _warned(text % (old, old))
    now, silent = _warned(text % (new, new))
    assert (warned, silent) == ([f"p:2:13: {_now(old, new)}"], [])
    assert _settled(before) == _settled(now)
    assert [each.feature for each in now.accept_gaps] == [new, new]


@KEYS
def test_both_names_are_refused(old: FieldPath, new: FieldPath) -> None:
    names = field_name(old), field_name(new)
    value, other = SAMPLES[names[0]]
    fault = f"{names[0]}: is the former name of {names[1]}, which is given too; leave {names[0]} out"
    text = _text(new, other) + _text(old, value)
    if old[0] == new[0]:
        text = f"{old[0]}:\n  {new[-1]}: {other}\n  {old[-1]}: {value}\n"
    with pytest.raises(DocumentError) as raised:
        load.layer(text, file="p")
    assert str(raised.value) == f"p:{'3:3' if old[0] == new[0] else '2:1'}: {fault}"
    with pytest.raises(DocumentError) as raised:
        load.run_layer([f"{names[0]}={value}", f"{names[1]}={other}"])
    assert str(raised.value) == f"the command line: {fault}"


@KEYS
def test_a_setting_of_a_run(old: FieldPath, new: FieldPath) -> None:
    names = field_name(old), field_name(new)
    value = SAMPLES[names[0]][0]
    given, other = (load.run_layer([f"{name}={value}"]) for name in names)
    assert given
    assert other
    assert (given.policy, other.retired) == (other.policy, ())
    assert [each.render("the command line") for each in given.retired] == [
        f"the command line: {_now(*names)}"
    ]


@KEYS
@pytest.mark.filterwarnings("ignore::sandwright.errors.RetiredNameWarning")
def test_a_managed_policy_holds_by_either_name(old: FieldPath, new: FieldPath) -> None:
    wide, narrow = SAMPLES[field_name(old)]
    for floor, project in ((old, new), (new, old), (old, old)):
        layers = [
            load.layer(_text(floor, narrow), kind="floor", file="f"),
            load.layer(_text(project, wide), file="p"),
        ]
        with pytest.raises(DocumentError, match=f"^p:.*{re.escape(field_name(new))}.*floor's"):
            MergedPolicy.from_layers(layers)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "degrade: [{feature: imag, method: bwrap, reason: x}]",
            f"p:1:1: {_now('degrade', 'accept_gaps')}\n"
            "p:1:21: accept_gaps[0].feature: 'imag' is no feature; did you mean 'image'?",
        ),
        (
            "outer: [x]",
            f"p:1:1: {_now('outer', 'gvisor.engine')}\n"
            "p:1:8: gvisor.engine: must be one of none, docker, podman, not a list",
        ),
        (
            "outer: docker\ngvisor: 3",
            f"p:1:1: {_now('outer', 'gvisor.engine')}\np:2:9: gvisor: must be a mapping, not 3",
        ),
        (
            "outer:",
            f"p:1:1: {_now('outer', 'gvisor.engine')}\n"
            "p:1:7: gvisor.engine: has no value; leave the key out, or write [] for an empty list",
        ),
        (
            "method: bwrap\nprefer: [docker]",
            "p:2:1: methods: excludes method; name one method, or several in order\n"
            f"p:2:1: {_now('prefer', 'methods')}",
        ),
        (
            "process: {privileged: 1}",
            f"p:1:11: {_now('process.privileged', 'process.sandbox_root')}\n"
            "p:1:23: process.sandbox_root: must be true or false, not 1",
        ),
        (
            "degrade: 3",
            f"p:1:1: {_now('degrade', 'accept_gaps')}\np:1:10: accept_gaps: must be a list, not 3",
        ),
        ("process: 3", "p:1:10: process: must be a mapping, not 3"),
        ("accept_gaps: [3]", "p:1:15: accept_gaps[0]: must be a mapping, not 3"),
    ],
)
def test_faults_have_the_new_name_where_the_old_one_is(text: str, message: str) -> None:
    with pytest.raises(DocumentError) as raised:
        load.layer(text, file="p")
    assert sorted(str(raised.value).split("\n")) == sorted(message.split("\n"))


def test_a_section_that_has_other_keys_keeps_them() -> None:
    policy, _ = _warned("process: {privileged: true, seccomp: strict}\ngvisor: {}\nouter: docker\n")
    assert (policy.process.sandbox_root, policy.process.seccomp) == (True, "strict")
    assert policy.gvisor_engine == "docker"


@pytest.mark.parametrize(
    "words",
    [
        ("lint",),
        ("explain", "read", "/etc/passwd"),
        ("render", "--check"),
        ("diff", "sandbox.yaml", "sandbox.yaml"),
    ],
)
def test_a_command_shows_one_line(tmp_path: Path, words: tuple[str, ...]) -> None:
    """The command reads the file several times; `lint` lists the warning among its findings."""
    (tmp_path / "sandbox.yaml").write_text("schema: 1\nmethod: bwrap\nprocess: {privileged: false}\n")
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path / "home"), "XDG_RUNTIME_DIR": str(tmp_path)}
    ended = process.run(*SANDWRIGHT, *words, cwd=tmp_path, env=environment, check=False)
    lines = [line for line in f"{ended.text}{ended.stderr}".splitlines() if "is now" in line]
    begin = "" if words == ("lint",) else "sandwright: "
    assert lines == [f"{begin}sandbox.yaml:3:11: {_now('process.privileged', 'process.sandbox_root')}"]


def test_the_page_lists_them() -> None:
    listed = re.findall(r"^\| (?:key|feature) \| `(\S+)` \| `(\S+)` \|$", PAGE.read_text(), re.MULTILINE)
    keys = {(field_name(old), field_name(new)) for old, new in RETIRED_KEYS.items()}
    assert set(listed) == keys | set(RETIRED_FEATURES.items())
