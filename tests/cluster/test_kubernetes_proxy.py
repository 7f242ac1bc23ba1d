"""The proxy in a cluster: its manifests are valid and restricted, only the sandbox reaches it, and squid
runs.

Tests of builder/sandwright_kubernetes/proxy.py.
"""

from __future__ import annotations

import ipaddress
import json
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from cluster.podsecurity import violations
from sandwright import process
from sandwright.api import Policy
from sandwright.policy.facts import HostEntry, HostFacts
from sandwright_kubernetes.render import render_kubernetes

Json = dict[str, Any]
POLICY = "schema: 1\nmethod: kubernetes\nextends: []\nnetwork: {mode: proxy, allow: [github.com]}\n"


def _manifests(text: str = POLICY) -> dict[str, Json]:
    """The objects of every manifest by kind and name."""
    entries = dict.fromkeys(("/", "/home", "/home/u", "/home/u/p"), HostEntry("directory"))
    facts = HostFacts(os="linux", home="/home/u", project="/home/u/p", entries=entries)
    found = {}
    for artifact in render_kubernetes(Policy.from_text(text).resolve(facts)):
        if artifact.name.endswith(".yaml") and artifact.name not in ("kustomization.yaml", "pod.yaml"):
            document = yaml.safe_load(artifact.content)
            found[f"{document['kind']} {document['metadata']['name']}"] = document
    return found


def _of_proxy(text: str = POLICY) -> dict[str, Json]:
    return {name: each for name, each in _manifests(text).items() if name.endswith(" proxy")}


def test_its_objects_are_valid_and_restricted() -> None:
    objects = _of_proxy()
    assert set(objects) == {
        f"{kind} proxy" for kind in ("ConfigMap", "NetworkPolicy", "Service", "Deployment")
    }
    for document in objects.values():
        for version in ("1.29", kubernetes_validate.latest_version()):
            kubernetes_validate.validate(document, version, strict=True)
    pod = objects["Deployment proxy"]["spec"]["template"]["spec"]
    assert violations(pod) == []
    assert pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod["automountServiceAccountToken"] is False


@pytest.mark.parametrize("mode", ["none", "host"])
def test_there_is_none_where_nothing_is_filtered(mode: str) -> None:
    assert _of_proxy(f"schema: 1\nmethod: kubernetes\nextends: []\nnetwork: {{mode: {mode}}}\n") == {}


def test_the_sandbox_reaches_the_proxy_and_nobody_else_does() -> None:
    objects = _manifests()
    job = next(each for name, each in objects.items() if name.startswith("Job "))
    sandbox = job["spec"]["template"]["metadata"]["labels"].items()
    proxy = objects["Deployment proxy"]["spec"]["template"]["metadata"]["labels"].items()
    (way_in,) = objects["NetworkPolicy proxy"]["spec"]["ingress"]
    (way_out,) = objects["NetworkPolicy sandbox"]["spec"]["egress"]
    assert way_in["ports"] == way_out["ports"] == [{"protocol": "TCP", "port": 3128}]
    (client,), (target,) = way_in["from"], way_out["to"]
    assert client["podSelector"]["matchLabels"].items() <= sandbox
    assert target["podSelector"]["matchLabels"].items() <= proxy
    assert objects["NetworkPolicy proxy"]["spec"]["podSelector"]["matchLabels"].items() <= proxy
    assert objects["Service proxy"]["spec"]["selector"].items() <= proxy
    assert not client["podSelector"]["matchLabels"].items() <= proxy
    (port,) = objects["Service proxy"]["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (3128, 3128)


INSIDE = [
    "10.0.0.1",
    "169.254.169.254",
    "127.0.0.1",
    "192.168.1.1",
    "172.31.0.1",
    "100.64.0.1",
    "fd00:ec2::254",
    "168.63.129.16",
    "::1",
]
OUTSIDE = ["140.82.121.4", "1.1.1.1", "172.32.0.1", "2606:4700::1111"]


def _reaches(policy: Json, address: str) -> bool:
    """Whether an egress rule other than DNS permits an address."""
    where = ipaddress.ip_address(address)
    return any(
        where in ipaddress.ip_network(to["ipBlock"]["cidr"])
        and not any(where in ipaddress.ip_network(each) for each in to["ipBlock"]["except"])
        for rule in policy["spec"]["egress"]
        for to in rule.get("to", ())
    )


def test_it_reaches_what_is_outside_of_the_cluster() -> None:
    policy = _of_proxy()["NetworkPolicy proxy"]
    assert [address for address in INSIDE if _reaches(policy, address)] == []
    assert [address for address in OUTSIDE if not _reaches(policy, address)] == []
    dns = policy["spec"]["egress"][0]
    assert dns == {"ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]}
    for rule in policy["spec"]["egress"][1]["to"]:
        block = ipaddress.ip_network(rule["ipBlock"]["cidr"])
        assert all(ipaddress.ip_network(each).version == block.version for each in rule["ipBlock"]["except"])


def test_an_address_that_the_policy_lists() -> None:
    policy = _of_proxy(POLICY.replace("github.com", '"10.0.0.1"'))["NetworkPolicy proxy"]
    assert _reaches(policy, "10.0.0.1")
    assert not _reaches(policy, "10.0.0.2")


ASK = r"""
import json, socket, subprocess, sys, time
squid = subprocess.Popen(sys.argv[1:])
def ask(host):
    with socket.create_connection(("127.0.0.1", 3128), 40) as s:
        s.sendall(f"CONNECT {host} HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
        return b"".join(iter(lambda: s.recv(4096), b"")).decode()
for _ in range(100):
    try:
        answers = {host: ask(host) for host in ("github.com:443", "example.org:443", "10.0.0.1:443")}
        break
    except OSError:
        time.sleep(0.1)
squid.terminate()
squid.wait(10)
print(json.dumps(answers))
"""


@pytest.mark.needs("squid", "bwrap", "python3")
def test_squid_runs_with_it(tmp_path: Path) -> None:
    """squid starts as in the Deployment: its command, read-only files, no rights, and the uid of `nobody`."""
    objects = _of_proxy()
    folder = tmp_path / "configuration"
    folder.mkdir()
    for name, text in objects["ConfigMap proxy"]["data"].items():
        (folder / name).write_text(text)
    (tmp_path / "hosts").write_text("140.82.121.4 github.com\n")
    (container,) = objects["Deployment proxy"]["spec"]["template"]["spec"]["containers"]
    (mount,) = container["volumeMounts"]
    inside = ("--unshare-all", "--uid", "65532", "--gid", "65532", "--die-with-parent", "--cap-drop", "ALL")
    files = ("--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64")
    more = (
        "--dev",
        "/dev",
        "--proc",
        "/proc",
        "--ro-bind",
        folder,
        mount["mountPath"],
        "--ro-bind",
        tmp_path / "hosts",
        "/etc/hosts",
        "--remount-ro",
        "/",
    )
    asked = process.run(
        "bwrap", *inside, *files, *more, "/usr/bin/python3", "-c", ASK, *container["command"], timeout=60
    )
    *log, last = asked.text.splitlines()
    answers = json.loads(last)
    assert answers["github.com:443"].startswith("HTTP/1.1 503 ")  # allowed, but no server is there
    assert "sandwright: refused" not in answers["github.com:443"]
    assert answers["example.org:443"].startswith("HTTP/1.1 403")
    assert "sandwright: refused: host: example.org" in answers["example.org:443"]
    assert answers["10.0.0.1:443"].startswith("HTTP/1.1 403")
    decisions = [json.loads(line) for line in log if line.startswith("{")]
    assert [(each["host"], each["reason"]) for each in decisions] == [
        ("github.com", "-"),
        ("example.org", "host"),
        ("10.0.0.1", "host"),
    ]


def test_a_namespace_holds_one_run() -> None:
    for text, pods in (
        (POLICY, "2"),
        (POLICY.replace("mode: proxy, allow: [github.com]", "mode: none"), "1"),
    ):
        hard = _manifests(text)["ResourceQuota sandbox"]["spec"]["hard"]
        assert hard == {"pods": pods, "services.loadbalancers": "0", "services.nodeports": "0"}
