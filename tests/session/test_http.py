"""Sessions with `network.http` and `credentials.http`: the host's key arrives upstream and is not inside.

A canary in a separate network namespace records each request, and echoes it.

Tests of session/http_secrets.py.
Tests of egress/inspection_plan.py.
Tests of egress/inspection.py.
Tests of egress/certificates.py.
Tests of render/haproxy.py.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from sandwright import process
from sandwright.session.http_secrets import placeholder
from support.canary import Canary
from support.companyproxy import company_proxy
from support.httpsessions import HTTP_METHODS, HttpSession, http_policy, http_session
from support.netlab import WORLD, World, hosts_file
from support.thorough import representative

pytestmark = [
    pytest.mark.needs("haproxy", "squid", "ip", "curl", "unshare", "openssl"),
]

KEY = "sk-ant-api03-REALrealREALrealREALreal0123456789"
ANSWER = re.compile(r"^status ([0-9]{3})", re.MULTILINE)
JAVA = Path("/etc/ssl/certs/java/cacerts")


@pytest.fixture
def setup(tmp_path: Path, upstream: Canary) -> HttpSession:
    found = http_session(tmp_path, upstream, {WORLD: "api.example"})
    found.environment["API_KEY"] = KEY
    return found


GOOD, OTHER = "https://api.example:444/repos/acme/tool", "https://api.example:444/user"

SWEEP = """
printf 'inside %s\\n' "$API_KEY"
for file in /proc/[0-9]*/environ /proc/[0-9]*/cmdline; do
    tr '\\0' '\\n' < "$file" 2>/dev/null
done | grep -c "$1"
grep -rls "$1" "$PWD" "$HOME" /tmp /run /etc /dev/shm 2>/dev/null | wc -l
"""


@pytest.mark.parametrize("method", representative(HTTP_METHODS, "bwrap", "landlock"))
def test_the_key_arrives_and_is_not_inside(setup: HttpSession, method: str) -> None:
    (setup.project / "sandbox.yaml").write_text(http_policy(method))
    script = setup.curl(f"-o /dev/null {GOOD}", f'-o /dev/null -H "x-api-key: $API_KEY" {GOOD}')
    sweep = ["sh", "-c", f"{script[2]}\n{SWEEP}", "sh", "[R]EALrealREAL"]
    done = setup.run(sweep)
    assert done.returncode == 0, done.stderr
    assert [each.header("x-api-key") for each in setup.upstream.arrived] == [[KEY], [KEY]]
    assert ANSWER.findall(done.stdout) == ["200", "200"]
    inside = done.stdout.partition("inside ")[2].split()
    assert inside[0] != KEY
    assert (inside[0][:13], len(inside[0])) == (KEY[:13], len(KEY))
    assert inside[1:] == ["0", "0"], "the key was found in an environment, an argument or a file"


def test_the_sweep_finds_what_is_there(setup: HttpSession) -> None:
    """The control: with the variable passed, the same search finds it."""
    (setup.project / "sandbox.yaml").write_text("schema: 1\nmethod: bwrap\nenvironment: {pass: [API_KEY]}\n")
    done = setup.run(["sh", "-c", SWEEP, "sh", "[R]EALrealREAL"])
    assert done.stdout.split()[1] == KEY
    assert done.stdout.split()[2] != "0"


@pytest.mark.needs("bwrap")
def test_what_no_rule_allows_is_refused_and_reported(setup: HttpSession) -> None:
    (setup.project / "sandbox.yaml").write_text(http_policy("bwrap"))
    denials, audit = setup.base / "denials", setup.base / "audit"
    script = setup.curl(
        GOOD, OTHER, f"-d a=b {GOOD}", f"-H 'x-api-key: of-somebody-else' {GOOD}?secret=query"
    )
    done = setup.run(script, "--denials", str(denials), "--audit", str(audit))
    assert ANSWER.findall(done.stdout) == ["200", "403", "403", "403"]
    assert "no rule of network.http allows this method and path" in done.stdout
    assert len(setup.upstream.arrived) == 1, done.stdout + done.stderr
    assert "refused: the request GET https://api.example:444/user, once: network.http" in done.stderr
    assert "{http: [..., {host: 'api.example:444', methods: [GET], paths: ['/user']}]}" in done.stderr
    lines = [json.loads(line) for line in denials.read_text().splitlines()]
    found = [each for each in lines if each["kind"] == "request"]
    assert [each["field"] for each in found] == ["network.http", "network.http", "credentials.http"]
    assert "query" not in denials.read_text() + audit.read_text() + done.stderr
    events = [each for each in map(json.loads, audit.read_text().splitlines()) if each.get("by") == "proxy"]
    assert sorted(each["event"] for each in events) == ["refused", "refused", "refused", "request"]


@pytest.mark.needs("bwrap")
def test_a_refused_path_that_is_a_pattern_is_not_proposed(setup: HttpSession) -> None:
    (setup.project / "sandbox.yaml").write_text(http_policy("bwrap"))
    done = setup.run(setup.curl("-X DELETE 'https://api.example:444/**'"))
    assert "no rule of network.http allows this method and path" in done.stdout
    assert "to allow it" not in done.stdout
    assert "allow it with" not in done.stderr


@pytest.mark.needs("bwrap")
def test_a_program_that_trusts_other_authorities_is_named(setup: HttpSession) -> None:
    (setup.project / "sandbox.yaml").write_text(http_policy("bwrap"))
    (setup.project / "other.pem").write_text(setup.upstream.authority)
    done = setup.run(setup.curl(f"--cacert other.pem {GOOD}"))
    assert ANSWER.findall(done.stdout) == ["000"]
    assert "it may not trust the run's authority" in done.stderr
    assert "list api.example:444 in network.allow: a tunnel" in done.stderr


@pytest.mark.needs("bwrap")
def test_a_host_is_reached_by_its_proxy_alone(setup: HttpSession) -> None:
    """It is reached neither by name without the variables, nor by a tunnel, unencrypted, or by address."""
    (setup.project / "sandbox.yaml").write_text(http_policy("bwrap"))
    proxy = "-x http://127.0.0.1:3128"
    script = setup.curl(
        f"-o /dev/null --noproxy '*' {GOOD}",
        f"-o /dev/null {proxy} http://api.example/repos/acme/tool",
        f"-o /dev/null {proxy} -p http://api.example:444/repos/acme/tool",
        f"-o /dev/null {proxy} -k --connect-to ::{WORLD}:444 {GOOD}",
    )
    done = setup.run(script)
    assert len(setup.upstream.arrived) == 1, done.stdout + done.stderr
    assert ANSWER.findall(done.stdout)[:2] == ["200", "403"]


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("env:NOT_SET", "none of NOT_SET, NOT_SET_FILE and NOT_SET_COMMAND is set"),
        ("file:$PROJECT", "can be read by the sandbox"),
        ("file:/none/such", "/none/such"),
        ("cmd:false", "has failed"),
        ("cmd:no-such-program-here", "is not installed"),
        ("cmd:echo two words", "no secret"),
    ],
)
def test_nothing_starts_without_the_secret(setup: HttpSession, source: str, message: str) -> None:
    (setup.project / "secret").write_text(KEY)
    source = source.replace("$PROJECT", str(setup.project / "secret"))
    (setup.project / "sandbox.yaml").write_text(http_policy("bwrap", source, ", variable: API_KEY"))
    done = setup.run(["sh", "-c", "echo started"])
    assert done.returncode == 125
    assert message in done.stderr
    assert KEY not in done.stderr
    assert "started" not in done.stdout


@pytest.mark.needs("bwrap")
@pytest.mark.skipif(not JAVA.is_file(), reason="no key store of Java's here")
def test_javas_key_store_has_the_authority_of_the_run(setup: HttpSession) -> None:
    (setup.project / "sandbox.yaml").write_text(http_policy("bwrap"))
    done = setup.run(["cp", str(JAVA), "store"])
    assert done.returncode == 0, done.stderr
    assert b"sandwright, for one run" in (setup.project / "store").read_bytes()


@pytest.mark.needs("bwrap")
def test_nothing_starts_with_authorities_that_the_sandbox_writes(setup: HttpSession) -> None:
    """Otherwise the file would name an authority for the proxy, which would get the key of the next run."""
    (setup.project / "sandbox.yaml").write_text(http_policy("bwrap"))
    shutil.copy(setup.environment["SSL_CERT_FILE"], setup.project / "bundle.pem")
    setup.environment["SSL_CERT_FILE"] = str(setup.project / "bundle.pem")
    done = setup.run(setup.curl(GOOD))
    assert done.returncode not in (0, 7), done.stderr
    assert "bundle.pem may be written by the sandbox" in done.stderr
    assert setup.upstream.arrived == []


@pytest.mark.needs("bwrap")
def test_a_secret_changes_while_a_run_goes_on(setup: HttpSession) -> None:
    file = setup.base / "config/key"
    file.write_text(KEY)
    (setup.project / "sandbox.yaml").write_text(
        http_policy("bwrap", f"file:{file}", ", lifetime: 1s, scheme: Bearer").replace(
            "x-api-key", "authorization"
        )
    )
    (setup.upstream.arrived).clear()
    script = f"curl -sS -m 20 {GOOD}; echo first; until [ -e go ]; do sleep 0.1; done; curl -sS -m 20 {GOOD}"
    with subprocess.Popen(
        setup.command(["sh", "-c", script]), cwd=setup.project, env=setup.environment, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True,
    ) as running:  # fmt: skip
        try:
            assert running.stdout is not None
            assert any("first" in line for line in iter(running.stdout.readline, ""))
            file.write_text("another-secret-of-the-host")
            time.sleep(3)
            (setup.project / "go").touch()
            assert running.wait(60) == 0
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
    found = [each.header("authorization") for each in setup.upstream.arrived]
    assert found == [[f"Bearer {KEY}"], ["Bearer another-secret-of-the-host"]]


@pytest.mark.needs("bwrap")
def test_learn_proposes_the_requests_that_were_sent(setup: HttpSession) -> None:
    """Neither the refused request nor another method of the host with the key is proposed."""
    policy = setup.project / "sandbox.yaml"
    policy.write_text(http_policy("bwrap").replace("methods: [GET], ", "").replace("acme/*", "**"))
    script = setup.curl(f"-f {GOOD}/issues/17", f"-f {GOOD}/issues/4", OTHER)
    done = setup.run(script, "--write", verb="learn")
    assert done.returncode == 0, done.stderr
    assert "request GET https://api.example:444/user: no rule of network.http" in done.stderr
    network = yaml.safe_load(policy.read_text())["network"]
    rule = {"host": "api.example:444", "methods": ["GET"], "paths": ["/repos/acme/tool/issues/*"]}
    assert (network["mode"], network["allow"], network["http"]) == ("proxy", [], [rule])
    again = setup.run(setup.curl(f"{GOOD}/issues/18", f"-X DELETE {GOOD}/issues/18", f"{GOOD}/pulls/1"))
    assert ANSWER.findall(again.stdout) == ["200", "403", "403"]


PASSWORD = "the-companys-password"


@pytest.mark.needs("bwrap")
def test_a_company_proxy_is_the_way_out(setup: HttpSession, world: World) -> None:
    """The host's own proxy resolves the name. Its password is not inside; refused requests don't reach it."""
    (setup.project / "sandbox.yaml").write_text(http_policy("bwrap"))
    (setup.base / "hosts").write_text(hosts_file({}))
    with contextlib.ExitStack() as stack:
        with world.inside():
            running = company_proxy({"api.example": WORLD}, namespace=world.inside, address=WORLD)
            company = stack.enter_context(running)
        setup.environment["HTTPS_PROXY"] = f"http://me:{PASSWORD}@{WORLD}:{company.port}"
        script = setup.curl(f"-o /dev/null {GOOD}", f"-o /dev/null {OTHER}")
        done = setup.run(["sh", "-c", f"{script[2]}\n{SWEEP}", "sh", "[t]he-companys"])
        assert done.returncode == 0, done.stderr
        assert ANSWER.findall(done.stdout) == ["200", "403"]
        assert company.asked == ["CONNECT api.example:444 HTTP/1.1"]
        assert company.logins == [f"Basic {base64.b64encode(f'me:{PASSWORD}'.encode()).decode()}"]
        assert [each.header("x-api-key") for each in setup.upstream.arrived] == [[KEY]]
        assert done.stdout.partition("inside ")[2].split()[1:] == ["0", "0"]


@pytest.mark.needs("bwrap")
def test_nothing_of_it_stays_on_the_host(setup: HttpSession) -> None:
    (setup.project / "sandbox.yaml").write_text(http_policy("bwrap"))
    log = setup.base / "audit"
    done = setup.run(setup.curl(GOOD, OTHER), "--audit", str(log))
    assert done.returncode == 0, done.stderr
    bundle = setup.base / "bundle.pem"
    bundle.unlink()
    files = [each for each in setup.base.rglob("*") if each.is_file()]
    assert len(files) > 5
    holding = [str(each) for each in files if KEY.encode() in each.read_bytes()]
    assert holding == []
    keys = [str(each) for each in files if b"PRIVATE KEY" in each.read_bytes()]
    assert keys == []
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    refused = [each for each in entries if each.get("event") == "refused"]
    assert [(each["method"], each["path"], each["reason"]) for each in refused] == [("GET", "/user", "rule")]


@pytest.mark.parametrize(
    ("secret", "kept"),
    [
        ("sk-ant-api03-AbCdEfGh0123456789", "sk-ant-api03-"),
        ("ghp_0123456789abcdefABCDEF0123456789abcd", "ghp_"),
        ("123e4567-e89b-12d3-a456-426614174000", ""),
        ("abcd-efgh-ijkl", ""),
        ("plainsecretwithoutanyprefix", ""),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJlLW9mLXRoZS10b2tlbg", "eyJhbGciOiJIUzI1NiJ9."),
    ],
)
def test_a_placeholder_has_the_shape_and_nothing_of_the_secret(secret: str, kept: str) -> None:
    one, other = placeholder(secret), placeholder(secret)
    assert one != other
    assert secret not in (one, other)
    assert len(one) == len(secret)
    assert one.startswith(kept)
    rest = secret.rpartition(".")[2] if "." in secret else secret[len(kept) :]
    assert one[-len(rest) :] != rest
    same = sum(a == b for a, b in zip(one[-len(rest) :], rest, strict=True))
    assert same <= len(rest) // 2 + rest.count("-")


def test_the_programs_are_here() -> None:
    """The tests above have no effect without these programs, where they are required."""
    assert all(map(process.find, ("haproxy", "squid", "openssl")))
