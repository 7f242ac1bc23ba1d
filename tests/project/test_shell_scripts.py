"""The shellcheck run of `invoke style` finds faults, and scripts have further checks that it lacks."""

from __future__ import annotations

from pathlib import Path

from sandwright.methods.noop.render import render_noop
from sandwright.resources import data_path
from support.goldens import case_policy, write_artifacts
from support.shellscripts import faults, variable_faults


def test_a_fault_beside_good_variables_is_found(tmp_path: Path) -> None:
    launch = write_artifacts(tmp_path / "made", render_noop(case_policy("hostile-names"))) / "launch"
    assert (faults([launch]), variable_faults([launch])) == ("", "")
    launch.write_text(f'{launch.read_text()}rm -r $sw_reason/\nprintf %s "$sw_reasons"\n')
    assert [line.split("[")[1] for line in faults([launch]).splitlines()] == ["SC2115]", "SC2154]"]


def test_a_function_has_one_text() -> None:
    """Scripts share no file, so that each can be read alone; their common functions stay identical."""
    texts = {
        "seatbelt": data_path("seatbelt", "launch.sh").read_text(),
        "alcless": data_path("oci", "account", "alcless.sh").read_text(),
        "kubernetes": data_path("oci", "kubernetes", "launch.sh").read_text(),
    }
    for function, holders in {
        "refuse": texts,
        "below": ("seatbelt", "alcless"),
        "matches": ("seatbelt", "alcless"),
    }.items():
        found = {texts[each].split(f"\n{function}() {{")[1].split("\n}\n")[0] for each in holders}
        assert len(found) == 1, function
