"""Runs inside an image, under its own Python: makes the attempts and reports their outcomes, without judging.

`attempts.py` hands this file to the interpreter as an argument (`python3 -c`), so that nothing has to be
mounted, and one more: a literal dict of the attempts. Each attempt is printed as a line: a word that is
nowhere in the arguments as such, and the repr of the attempt's name and outcome. It keeps to modules that a
cut-down Python has (Debian's python3-minimal has no json), imports the others where they are tried, and uses
only features of Python 3.7. Emulated, each import costs a tenth of a second.
"""

# ruff: noqa: ANN401, ARG001, PLC0415, S108, UP022
# ruff: noqa: PTH108, PTH109, PTH112, PTH113, PTH115, PTH116, PTH118, PTH123, PTH208

from __future__ import annotations

import ast
import errno
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable  # noqa: UP035 - Python 3.7

CACHE = "/tmp/.sandwright-pycache"


def outcome(action: Callable[[], object]) -> str:
    """Call a function; return `done`, the name of its errno, or its error."""
    try:
        action()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    except Exception as error:  # noqa: BLE001 - any error is evidence
        return type(error).__name__ + ": " + str(error)
    return "done"


def surroundings(settings: dict[str, Any]) -> dict[str, Any]:
    """The surroundings: namespaces, kernel, architecture of the machine and of this interpreter."""
    with open(sys.executable, "rb") as file:
        header = file.read(20)
    namespaces = {}
    for name in ("mnt", "pid", "net"):
        try:
            namespaces[name] = os.readlink("/proc/self/ns/" + name)
        except OSError as error:
            namespaces[name] = errno.errorcode.get(error.errno or 0, "?")
    system = os.uname()
    return {
        "namespaces": namespaces,
        "kernel": system.release,
        "machine": system.machine,
        "elf": int.from_bytes(header[18:20], "little") if header[:4] == b"\x7fELF" else None,
        "pid": os.getpid(),
    }


def identity(settings: dict[str, Any]) -> dict[str, Any]:
    """The IDs and names of this process."""
    import pwd

    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = ""
    return {
        "uid": [os.getuid(), os.geteuid()],
        "gid": [os.getgid(), os.getegid()],
        "groups": sorted(os.getgroups()),
        "name": name,
    }


def privileges(settings: dict[str, Any]) -> dict[str, Any]:
    """Capabilities and no_new_privs, as far as this kernel shows them."""
    with open("/proc/self/status") as file:
        lines = dict(line.split(":", 1) for line in file if ":" in line)
    return {
        name: lines[name].strip() for name in ("CapEff", "CapPrm", "CapBnd", "NoNewPrivs") if name in lines
    }


def create(directory: str, name: str) -> str:
    """Try to create a file in a directory, and remove it again."""
    path = os.path.join(directory, name)
    result = outcome(lambda: os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)))
    if result == "done":
        os.unlink(path)
    return result


def root(settings: dict[str, Any]) -> dict[str, Any]:
    """Try to create files on the root file system: in world-writable directories, and in the user's."""
    device = os.stat("/").st_dev
    places = ["/", "/etc", "/usr", "/var/tmp", os.environ.get("HOME", "/"), os.getcwd()]
    return {
        mount_point: create(mount_point, settings["first"])
        for mount_point in sorted(set(places))
        if os.path.isdir(mount_point) and os.stat(mount_point).st_dev == device
    }


def temporary(settings: dict[str, Any]) -> dict[str, Any]:
    """Write a file in /tmp and read it back."""

    def there_and_back() -> None:
        path = "/tmp/" + settings["first"]
        with open(path, "xb+") as file:
            os.unlink(path)
            file.write(b"written")
            file.seek(0)
            if file.read() != b"written":
                raise ValueError("read back something else")

    return {"mode": oct(os.stat("/tmp").st_mode & 0o7777), "write": outcome(there_and_back)}


def network(settings: dict[str, Any]) -> dict[str, Any]:
    """Look for ways out of the network. Also use the loopback, which shows that sockets work at all."""
    import socket

    def own_loopback() -> None:
        with socket.socket() as server, socket.socket() as client:
            server.bind(("127.0.0.1", 0))
            server.listen(1)
            client.settimeout(5)
            client.connect(server.getsockname())
            accepted, _ = server.accept()
            with accepted:
                accepted.sendall(b"x")
                if client.recv(1) != b"x":
                    raise ValueError("received something else")

    def listener() -> None:
        with socket.socket() as client:
            client.settimeout(5)
            client.connect(tuple(settings["listener"]))
            client.sendall(settings["first"].encode())

    def route() -> None:
        # Connecting a datagram socket sends nothing; it only asks for a route. TEST-NET-1 is RFC 5737's.
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.connect(("192.0.2.1", 9))

    return {
        "interfaces": sorted(name for _, name in socket.if_nameindex()),
        "loopback": outcome(own_loopback),
        "listener": outcome(listener),
        "route": outcome(route),
    }


def environment(settings: dict[str, Any]) -> dict[str, Any]:
    """The environment, and where the word appears that was planted in the runtime's environment."""
    leaks = []
    for path in ("/proc/self/environ", "/proc/1/environ"):
        try:
            with open(path, "rb") as file:
                if settings["canary"].encode() in file.read():
                    leaks.append(path)
        except OSError:
            pass
    return {"variables": dict(os.environ), "leaks": leaks}


def program(argv: list[str], limit: float, variables: dict[str, str]) -> dict[str, Any]:
    """Run a program to its end."""
    import subprocess

    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=limit,
            check=False,
            env=variables,
        )
    except subprocess.TimeoutExpired:
        return {"error": "did not end within " + str(limit) + " s"}
    except OSError as error:
        return {"error": errno.errorcode.get(error.errno or 0, str(error))}
    output = done.stdout[-65536:].decode("utf-8", "replace")
    return {
        "status": done.returncode,
        "stdout": output,
        "stderr": done.stderr[-500:].decode("utf-8", "replace"),
    }


def programs(settings: dict[str, Any]) -> list[Any]:
    """Run the programs that the definition names, in order.

    Emulated, Python spends most of its time on compiling its own library, since images bring no byte code
    and are read-only; there the programs share the compiled code.
    """
    variables = dict(os.environ)
    if settings["emulated"]:
        variables.setdefault("PYTHONPYCACHEPREFIX", CACHE)
    return [program(argv, settings["limit"], variables) for argv in settings["programs"]]


def tls(settings: dict[str, Any]) -> dict[str, Any]:
    """Import ssl, count the authorities it trusts, shake hands with a server of an authority of our own."""
    import ssl
    import tempfile

    name = settings["server"]
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        paths = {}
        for role in ("authority", "certificate", "key"):
            paths[role] = os.path.join(directory, role)
            with open(paths[role], "w") as file:
                file.write(settings[role])

        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(paths["certificate"], paths["key"])
        ours = ssl.create_default_context(cafile=paths["authority"])
        default = ssl.create_default_context()
        return {
            "library": ssl.OPENSSL_VERSION,
            "authorities": authorities(default),
            "trusted": handshake(ours, server, name),
            "untrusted": handshake(default, server, name),
            "misnamed": handshake(ours, server, "other." + name),
        }


def handshake(client: Any, server: Any, host: str) -> str:
    """Shake hands in memory. Give `done`, or the reason for which the client refused the certificate."""
    import ssl

    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(20):
        for end in list(ends):
            try:
                end.do_handshake()
                ends.remove(end)
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError as error:
                return "refused " + str(error.verify_code)
            except ssl.SSLError as error:
                return "failed: " + str(error)
        if not ends:
            return "done"
    return "did not end"


def authorities(default: Any) -> dict[str, int]:
    """The number of authorities trusted by default: read at once, or looked up by hash when needed."""
    import ssl

    paths = ssl.get_default_verify_paths()
    hashed = os.listdir(paths.capath) if paths.capath else []
    return {
        "file": default.cert_store_stats()["x509_ca"],
        "directory": len([name for name in hashed if os.path.isfile(os.path.join(paths.capath, name))]),
    }


ATTEMPTS = (surroundings, identity, privileges, root, temporary, network, environment)
OF_THE_IMAGE = (programs, tls)
"""The checks that depend on the image alone, and not on the engine or runtime that started it."""


def main() -> int:
    """Make all attempts. Each is reported at once, so that the first missing one is the one that hangs."""
    settings = ast.literal_eval(sys.argv[1])
    word = settings["second"] + settings["first"]
    if settings["emulated"]:
        sys.pycache_prefix, sys.dont_write_bytecode = CACHE, False

    def notify(name: str, value: object) -> None:
        sys.stdout.write(word + " " + repr((name, value)) + "\n")
        sys.stdout.flush()

    notify("begin", sys.version)
    for attempt in (*ATTEMPTS, *(OF_THE_IMAGE if settings["whole"] else ())):
        try:
            notify(attempt.__name__, attempt(settings))
        except Exception as error:  # noqa: BLE001 - an attempt that can't be made is evidence too
            notify(attempt.__name__, {"broken": type(error).__name__ + ": " + str(error)})
    notify("end", settings["status"])
    status: int = settings["status"]
    return status


if __name__ == "__main__":
    raise SystemExit(main())
