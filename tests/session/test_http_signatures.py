"""Sessions that send requests to AWS: programs sign with a placeholder, and the host's key is not inside.

Tests of session/aws_keys.py.
"""

from __future__ import annotations

import datetime
import json
import re
import textwrap
import time
from pathlib import Path

import pytest

from sandwright.bridge.secret import Reach
from sandwright.errors import UsageError
from sandwright.policy.http_credentials import SIGNATURE, HttpCredential
from sandwright.policy.provenance import PolicySource
from sandwright.session.aws_keys import key_of_process
from sandwright.session.http_secrets import HttpSecrets
from support import agents
from support.canary import Canary
from support.httpsessions import HTTP_METHODS, HttpSession, http_gaps, http_session
from support.netlab import WORLD
from support.sigv4 import Key, verified
from support.thorough import covering

pytestmark = pytest.mark.needs("haproxy", "squid", "ip", "curl", "unshare", "openssl", "bwrap")

REAL = Key(
    "AKIAREALREALREALREAL", "real/secret+0123456789abcdefghijklmnopqr", "real-token/ABCDEFGH0123456789=="
)
STATUS = re.compile(r"^status ([0-9]{3})", re.MULTILINE)
SIGN = (
    "curl -sS -m 20 -w '\\nstatus %{http_code}\\n' --aws-sigv4 aws:amz:eu-central-1:s3"
    " --user $AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY"
)
GOOD = "https://api.example:444/bucket/name"


@pytest.fixture(scope="module")
def aws() -> Path:
    """The command line. Its test is the first, because it can't be installed while the lab exists."""
    return agents.require("aws") / "aws"


@pytest.fixture
def setup(tmp_path: Path, upstream: Canary) -> HttpSession:
    found = http_session(tmp_path, upstream, {WORLD: "api.example"})
    found.environment |= {"AWS_ACCESS_KEY_ID": REAL.name, "AWS_SECRET_ACCESS_KEY": REAL.secret}
    return found


def write_policy(
    setup: HttpSession, source: str = "env:AWS_SECRET_ACCESS_KEY", more: str = "", method: str = "bwrap"
) -> None:
    (setup.project / "sandbox.yaml").write_text(
        textwrap.dedent(f"""\
            schema: 1
            method: {method}
            network:
              mode: proxy
              http:
                - {{host: 'api.example:444', methods: [GET, PUT, POST], paths: ['/bucket/**', '/']}}
            credentials:
              http:
                - host: api.example:444
                  header: authorization
                  scheme: AWS4-HMAC-SHA256
                  from: '{source}'{more}
            """)
        + http_gaps(method)
    )


AWS = {
    "s3api put-object --bucket bucket --key a+b/x.txt --body sandbox.yaml": ("PUT", "s3"),
    "s3api list-objects-v2 --bucket bucket --prefix 'a b/c+d'": ("GET", "s3"),
    "dynamodb list-tables": ("POST", "dynamodb"),
    "sts get-caller-identity": ("POST", "sts"),
    "bedrock-runtime invoke-model --model-id anthropic.claude-v1:0 --body '{}' out": ("POST", "bedrock"),
}


def test_the_aws_command_line(aws: Path, setup: HttpSession) -> None:
    """Services with and without the digest of a body in a header, and with paths that are escaped twice."""
    setup.environment["AWS_SESSION_TOKEN"] = REAL.token
    write_policy(setup)
    policy = setup.project / "sandbox.yaml"
    policy.write_text(policy.read_text().replace("'/']", "'/', '/bucket', '/model/*/invoke']"))
    options = "--endpoint-url https://api.example:444 --region eu-central-1 --cli-read-timeout 10"
    script = "\n".join(f"AWS_MAX_ATTEMPTS=1 {aws} {options} {each}" for each in AWS)
    done = setup.run(["sh", "-c", script])
    found = [(each.line.split(" ")[0], each.header("authorization")[0]) for each in setup.upstream.arrived]
    expected = [(method, service) for method, service in AWS.values()]
    assert [(method, given.split("/")[3]) for method, given in found] == expected, done.stdout + done.stderr
    assert all(verified(each, REAL) for each in setup.upstream.arrived)


SWEEP = """
env | grep ^AWS_ | sort
for file in /proc/[0-9]*/environ /proc/[0-9]*/cmdline; do
    tr '\\0' '\\n' < "$file" 2>/dev/null
done | grep -c -e '[r]eal/secret' -e '[A]KIAREAL' -e '[r]eal-token'
grep -rls -e '[r]eal/secret' -e '[A]KIAREAL' -e '[r]eal-token' "$PWD" "$HOME" /tmp /run /etc | wc -l
"""


@pytest.mark.parametrize(
    ("method", "token"),
    covering(HTTP_METHODS, [pytest.param("", id="lasting"), pytest.param(REAL.token, id="temporary")]),
)
def test_curl_signs_with_the_placeholder(setup: HttpSession, method: str, token: str) -> None:
    write_policy(setup, method=method)
    digested = "-H 'x-amz-content-sha256: UNSIGNED-PAYLOAD'"
    sign = f"{SIGN} -o body"
    if token:
        setup.environment["AWS_SESSION_TOKEN"] = token
        sign += ' -H "x-amz-security-token: $AWS_SESSION_TOKEN"'
    script = f"{sign} {digested} {GOOD}\n{sign} {digested} -T sandbox.yaml {GOOD}\n{sign} -d a=b {GOOD}"
    done = setup.run(["sh", "-c", f"{script}\n{SWEEP}"])
    assert done.returncode == 0, done.stderr
    assert STATUS.findall(done.stdout) == ["200", "200", "200"], done.stdout + done.stderr
    real = Key(REAL.name, REAL.secret, token)
    assert [verified(each, real) for each in setup.upstream.arrived] == [True, True, True]
    variables = dict(line.split("=", 1) for line in done.stdout.splitlines() if line.startswith("AWS_"))
    names = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", *(["AWS_SESSION_TOKEN"] if token else [])}
    assert names <= set(variables)
    assert not {REAL.name, REAL.secret, REAL.token} & set(variables.values())
    assert done.stdout.splitlines()[-2:] == ["0", "0"]


def test_another_key_and_no_key_are_refused_and_reported(setup: HttpSession) -> None:
    write_policy(setup)
    other = SIGN.replace("$AWS_ACCESS_KEY_ID", "AKIAOFSOMEBODYELSEXX")
    done = setup.run(["sh", "-c", f"{other} {GOOD}\n{SIGN.partition(' --aws')[0]} {GOOD}\n{SIGN} {GOOD}"])
    assert STATUS.findall(done.stdout) == ["403", "403", "200"]
    assert len(setup.upstream.arrived) == 1
    assert "GET https://api.example:444/bucket/name" in done.stderr
    assert ", 2 times: credentials.http" in done.stderr
    assert (
        "no header has an AWS4-HMAC-SHA256 signature of the whole request by the placeholder" in done.stderr
    )


def exported(**more: str) -> str:
    key = {"Version": 1, "AccessKeyId": REAL.name, "SecretAccessKey": REAL.secret, "SessionToken": REAL.token}
    return json.dumps({**key, **more}, indent=2)


@pytest.mark.parametrize("kind", ["file", "cmd"])
def test_the_key_of_a_credential_process(setup: HttpSession, kind: str) -> None:
    """`aws configure export-credentials` prints this form."""
    file = setup.base / "config/key.json"
    file.write_text(exported(Expiration="2999-01-01T00:00:00+00:00"))
    write_policy(setup, f"file:{file}" if kind == "file" else f"cmd:cat {file}")
    done = setup.run(["sh", "-c", f'{SIGN} -H "x-amz-security-token: $AWS_SESSION_TOKEN" -o body {GOOD}'])
    assert STATUS.findall(done.stdout) == ["200"], done.stdout + done.stderr
    assert [verified(each, REAL) for each in setup.upstream.arrived] == [True]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no JSON",
        "[]",
        '{"AccessKeyId": "AKIAREALREALREALREAL"}',
        exported(AccessKeyId="a b"),
        exported(AccessKeyId="short-one"),
        exported(SecretAccessKey="a b c d e f"),
        exported(Expiration="tomorrow"),
    ],
)
def test_what_is_no_key_is_not_repeated(text: str) -> None:
    with pytest.raises(UsageError, match=r"place: no (key of AWS|secret)|place: the ID") as raised:
        key_of_process(text, "place")
    assert REAL.secret not in str(raised.value)


def test_the_end_of_a_temporary_key() -> None:
    assert key_of_process(exported(Expiration="2026-11-30T00:00:00Z"), "").expires == 1795996800
    assert key_of_process(exported(), "").expires is None


@pytest.mark.parametrize(
    ("left", "wait"),
    [(600, 300), (86_400, 3600), (10, 30), (-5, 30)],
    ids=["soon", "late", "at once", "past"],
)
def test_a_temporary_key_is_read_again_before_its_end(tmp_path: Path, left: int, wait: int) -> None:
    """It is read five minutes before, at most once in 30 seconds, and at least after its lifetime."""
    end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=left)
    file = tmp_path / "key.json"
    file.write_text(exported(Expiration=end.isoformat()))
    source = PolicySource("project", "sandbox.yaml")
    words = ("api.example", 443, "authorization", SIGNATURE, "file", str(file), "", 3600)
    credential = HttpCredential(*words, source)
    secrets = HttpSecrets([credential], tmp_path, {}, Reach(lambda _: False, lambda _: False), print)
    assert secrets._read_secret(credential).split() == [REAL.name, REAL.secret, REAL.token]
    assert secrets._due(credential) - time.monotonic() == pytest.approx(wait, abs=5)
