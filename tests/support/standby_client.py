"""Pass a command line, its environment, directory and open files to the waiting process of `standby`.

Started as `python -ISs standby_client.py SOCKET PROGRAM WORDS…`. It imports only built-in modules.
"""

import _socket
import marshal
import posix
import sys

_, path, *argv = sys.argv
server = _socket.socket(_socket.AF_UNIX)
server.connect(path)
directory = posix.open(".", posix.O_PATH)  # its name may lead to another directory, or to none
request = marshal.dumps((argv, dict(posix.environ)))
descriptors = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2, directory))
server.sendmsg([len(request).to_bytes(8, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptors)])
server.sendall(request)
status = server.recv(1)
posix._exit(status[0] if status else 70)
