"""Answers about a policy: the decision, the deciding rule, and the rule's line.

Tests of policy/explain.py.
"""

# A row of a table is a line, however long.
# ruff: noqa: E501

from __future__ import annotations

from pathlib import Path

import pytest

from sandwright.api import Policy
from sandwright.errors import UsageError
from sandwright.policy import load
from sandwright.policy.explain import explain
from sandwright.policy.facts import HostEntry, HostFacts

FACTS = HostFacts(
    os="linux",
    home="/home/u",
    project="/home/u/p",
    entries={
        "/var/run": HostEntry("symlink", "/run"),
        "/home/u/p/link": HostEntry("symlink", "/home/u/.ssh"),
    },
)
USER = "environment: {pass: ['LC_*', TERM]}\nnetwork:\n  mode: proxy\n"
PROJECT = """\
filesystem:
  read: [/usr]
  write: [$PROJECT]
  deny: [$PROJECT/secrets]
network:
  allow: [github.com, "*.example.org:8443", {host: mirror.corp.example, private: true}]
  unix_sockets: [/run/user/1000/agent]
  localhost: [5432]
  expose: [3000]
environment: {set: {CI: "1"}}
credentials:
  shims:
    gh: {secrets: {GH_TOKEN: "${SANDBOX_GH_TOKEN}"}, allow: []}
"""
POLICY = Policy.from_layers(
    [load.layer(USER, kind="user", file="u.yaml"), load.layer(PROJECT, kind="project", file="p.yaml")]
).resolve(FACTS)


@pytest.mark.parametrize(
    ("question", "subject", "answer"),
    [
        ("write", "~/.ssh/id_rsa", "write /home/u/.ssh/id_rsa: denied by deny ~/.ssh [/home/u/.ssh] (preset default presets/default.yaml:17:7)"),
        ("read", "$PROJECT/link/id", "read /home/u/.ssh/id: denied by deny ~/.ssh [/home/u/.ssh] (preset default presets/default.yaml:17:7)"),
        ("write", "/home/u/p/a", "write /home/u/p/a: allowed by write $PROJECT [/home/u/p] (project p.yaml:3:11)"),
        ("write", "a", "write /home/u/p/a: allowed by write $PROJECT [/home/u/p] (project p.yaml:3:11)"),
        ("read", "/home/u/p/secrets/x", "read /home/u/p/secrets/x: denied by deny $PROJECT/secrets [/home/u/p/secrets] (project p.yaml:4:10)"),
        ("write", "/usr/bin/env", "write /usr/bin/env: denied by read /usr (project p.yaml:2:10)"),
        ("read", "/srv", "read /srv: denied by no rule lists it, so it cannot be read (project p.yaml:2:9)"),
        ("read", "/etc/passwd", "read /etc/passwd: allowed by needed to start: /etc/passwd [names of users] (built-in)"),
        ("write", "/home/u/p/.git/hooks/x", "write /home/u/p/.git/hooks/x: denied by protect .git/hooks [/home/u/p/.git/hooks] (preset default presets/default.yaml:215:7)"),
        ("write", "/tmp/x", "write /tmp/x: allowed by the sandbox's own $TMP [/tmp; a private temporary directory] (built-in presets/built-in.yaml:10:8)"),
        ("read", "/var/run/docker.sock", "read /run/docker.sock: denied by deny always /run/docker.sock [Docker] (built-in)"),
        ("connect", "github.com:443", "connect github.com:443: allowed by allow github.com (project p.yaml:6:11)"),
        ("connect", "mirror.corp.example:443", "connect mirror.corp.example:443: allowed by allow mirror.corp.example, private (project p.yaml:6:45)"),
        ("connect", "GitHub.com.:443", "connect github.com:443: allowed by allow github.com (project p.yaml:6:11)"),
        ("connect", "a.example.org:8443", "connect a.example.org:8443: allowed by allow *.example.org:8443 (project p.yaml:6:23)"),
        ("connect", "github.com:22", "connect github.com:22: denied by allow, which does not list it (project p.yaml:6:10)"),
        ("connect", "[2001:db8::1]:443", "connect [2001:db8::1]:443: denied by allow, which does not list it (project p.yaml:6:10)"),
        ("connect", "localhost:5432", "connect localhost:5432: allowed by localhost 5432 (project p.yaml:8:15)"),
        ("listen", "3000", "listen 3000: allowed by expose 3000 (project p.yaml:9:12)"),
        ("listen", "5432", "listen 5432: denied by expose, which does not list it (project p.yaml:9:11)"),
        ("connect", "127.0.0.1:80", "connect localhost:80: denied by localhost, which does not list it (project p.yaml:8:14)"),
        ("connect", "[::1]:5432", "connect localhost:5432: allowed by localhost 5432 (project p.yaml:8:15)"),
        ("connect", "/var/run/user/1000/agent", "connect /run/user/1000/agent: allowed by unix_sockets /run/user/1000/agent (project p.yaml:7:18)"),
        ("connect", "/run/user/1000/bus", "connect /run/user/1000/bus: denied by unix_sockets, which does not list it (project p.yaml:7:17)"),
        ("connect", "/run/docker.sock", "connect /run/docker.sock: denied by deny always /run/docker.sock [Docker] (built-in)"),
        ("env", "CI", "env CI: allowed by set CI: 1 (project p.yaml:10:25)"),
        ("env", "LC_ALL", "env LC_ALL: allowed by pass LC_* (user u.yaml:1:22)"),
        ("env", "HOME", "env HOME: denied by pass, which does not list it (user u.yaml:1:21)"),
        ("env", "GH_TOKEN", "env GH_TOKEN: denied by credentials: it holds a secret of a shim (built-in)"),
        ("env", "SANDBOX_GH_TOKEN", "env SANDBOX_GH_TOKEN: denied by credentials: it holds a secret of a shim (built-in)"),
        ("env", "LD_PRELOAD", "env LD_PRELOAD: denied by it makes programs load code, and is never passed on (built-in)"),
    ],
)  # fmt: skip
def test_answers(question: str, subject: str, answer: str) -> None:
    assert str(explain(POLICY, question, subject)) == answer


@pytest.mark.parametrize(
    ("mode", "answer"),
    [
        ("none", "connect github.com:443: denied by mode: none (project sandbox.yaml:1:17)"),
        ("host", "connect github.com:443: allowed by mode: host (project sandbox.yaml:1:17)"),
    ],
)
def test_modes_without_a_list(mode: str, answer: str) -> None:
    policy = Policy.from_text(f"network: {{mode: {mode}}}").resolve(FACTS)
    assert str(explain(policy, "connect", "github.com:443")) == answer
    assert explain(policy, "connect", "localhost:1").allowed is (mode == "host")
    assert explain(policy, "listen", "1").allowed is (mode == "host")


def test_what_is_weaker_is_told_too() -> None:
    answer = explain(POLICY, "write", "/home/u/p/secrets/x")
    assert [ground.text for ground in answer.others] == ["write $PROJECT [/home/u/p]"]
    answer = explain(POLICY, "connect", "github.com:443")
    assert [str(ground.source) for ground in answer.others] == ["user u.yaml:3:9"]


def test_data_for_json() -> None:
    assert explain(POLICY, "read", "/home/u/p/secrets").as_data() == {
        "question": "read",
        "subject": "/home/u/p/secrets",
        "decision": "deny",
        "rule": {
            "text": "deny $PROJECT/secrets [/home/u/p/secrets]",
            "layer": "project",
            "file": "p.yaml",
            "line": 4,
            "column": 10,
            "field": "filesystem.deny[0]",
        },
        "others": [
            {
                "text": "write $PROJECT [/home/u/p]",
                "layer": "project",
                "file": "p.yaml",
                "line": 3,
                "column": 11,
                "field": "filesystem.write[0]",
            }
        ],
    }


@pytest.mark.parametrize(
    ("question", "subject", "message"),
    [
        ("wirte", "/a", "'wirte' is no question; did you mean 'write'?"),
        ("read", "/a\0b", "'/a\\x00b': is no path"),
        ("connect", "github.com", "'github.com' has no port; write host:port"),
        ("connect", "localhost", "'localhost' has no port; write host:port"),
        ("listen", "localhost:3000", "'localhost:3000' is no port, 1 to 65535"),
        ("connect", "localhost:x", "must be a port, 1 to 65535"),
        ("connect", "127.1:80", "'127.1' is no address; write it in full, like 192.0.2.7 or [2001:db8::7]"),
        ("env", "A B", "'A B' cannot be the name of a variable: letters, digits and _, no digit first"),
    ],
)
def test_questions_that_make_no_sense(question: str, subject: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        explain(POLICY, question, subject)
    assert str(refused.value) == message


def test_a_policy_asks_this_host_itself(tmp_path: Path) -> None:
    (tmp_path / "sandbox.yaml").write_text("filesystem: {write: [$PROJECT], deny: [$PROJECT/secrets]}\n")
    (tmp_path / "alias").symlink_to("secrets")
    policy = Policy.load(tmp_path / "sandbox.yaml")
    assert policy.is_path_writable(f"{tmp_path}/new")
    assert policy.is_path_readable("/etc/passwd")
    assert not policy.is_path_readable(f"{tmp_path}/alias/x")
    assert not policy.is_path_writable("$PROJECT/sandbox.yaml")
    assert policy.explain("read", "$PROJECT/alias/x").subject == f"{tmp_path}/secrets/x"
    assert not policy.explain("connect", "github.com:443").allowed
    facts = HostFacts(os="linux", home="/home/u", project="/work/p")
    assert policy.is_path_writable("/work/p/new", facts)
    assert not policy.is_path_writable("/srv/p/new", facts)
