"""Host names that lead an account's programs through the proxy; root makes their file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandwright.api import Policy
from sandwright.egress import proxy
from sandwright.policy.collect import collect_facts
from support.netlab import WORLD, lab, placed_hosts_file
from support.ownedprojects import POLICY, Project
from support.rundocuments import launching, proxied

pytestmark = pytest.mark.needs("squid", "ip", "setpriv", "curl", "unshare")

CURL = "curl -sS --noproxy '*' --max-time 5 -o /dev/null -w '%{http_code}\\n'"


@pytest.fixture
def names() -> Iterator[Path]:
    """A file of host names that squid can read as another user."""
    with placed_hosts_file({WORLD: "web.example other.example"}) as path:
        yield path


def test_programs_that_know_of_no_proxy_reach_what_is_listed(project: Project, names: Path) -> None:
    text = POLICY.replace("network: {mode: none}", "network: {mode: proxy, allow: [web.example]}")
    policy = Policy.from_text(text)
    resolved = policy.resolve(collect_facts(policy, project=project.root, environ=project.environ))
    script = (
        f"grep -v '#' /etc/resolv.conf; {CURL} http://web.example/; {CURL} http://other.example/; "
        f"{CURL} http://{WORLD}/; {CURL} http://127.0.0.1/"
    )
    with lab() as world, proxy(resolved, hosts_file=names) as running:
        launcher = Path(launching(project.rendered(text), proxied(running)))
        done = project.run("sh", "-c", script, launcher=launcher, environ=running.environment)
        assert done.stdout.decode().split("\n")[:-1] == [
            "nameserver 127.0.0.1", "200", "000", "000", "000",
        ], done.stderr  # fmt: skip
        assert world.reached == [WORLD]
