"""A process for which the kernel refuses some system calls, as a filesystem that lacks them does.

``python refusing.py CALL=ERROR ... -- COMMAND``: what the command starts is refused them too.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

NUMBERS = {
    "x86_64": {"link": 86, "linkat": 265, "flock": 73},
    "aarch64": {"linkat": 37, "flock": 32},
}
NO_NEW_PRIVILEGES, SECCOMP, FILTER = 38, 22, 2
LOAD, JUMP_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000


def refuse(calls: dict[str, int]) -> None:
    """Have the kernel answer these calls with these errors from now on (seccomp)."""
    known = NUMBERS[platform.machine()]
    program = [struct.pack("HBBI", LOAD, 0, 0, 0)]  # the number of the call
    for name, number in known.items():
        if name in calls:
            program.append(struct.pack("HBBI", JUMP_EQUAL, 0, 1, number))
            program.append(struct.pack("HBBI", RETURN, 0, 0, ERRNO | calls[name]))
    program.append(struct.pack("HBBI", RETURN, 0, 0, ALLOW))
    text = ctypes.create_string_buffer(b"".join(program))
    head = struct.pack("HxxxxxxP", len(program), ctypes.addressof(text))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    if libc.prctl(SECCOMP, FILTER, ctypes.create_string_buffer(head), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp is refused")


if __name__ == "__main__":
    end = sys.argv.index("--")
    wanted = dict(word.split("=") for word in sys.argv[1:end])
    refuse({name: getattr(errno, error) for name, error in wanted.items()})
    os.execvp(sys.argv[end + 1], sys.argv[end + 1 :])
