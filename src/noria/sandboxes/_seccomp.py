"""A filter that refuses the system calls which no ordinary program needs and which kernel attacks begin with.

The kernel's keyrings and POSIX message queues are among them for another reason: they would outlive a request.
"""

from __future__ import annotations

import platform
import struct

#: System call numbers by machine: (x86_64, aarch64).
_REFUSED = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "delete_module": (176, 106),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "mq_open": (240, 180),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pivot_root": (155, 41),
    "quotactl": (179, 60),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setns": (308, 268),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
}
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050001, 0x80000000  # refuse: errno 1, EPERM
_X32 = 0x40000000


def program(machine: str = "") -> bytes | None:
    """Classic BPF for bubblewrap's --seccomp; None for machines whose numbers are not listed."""
    found = _ARCHITECTURES.get(machine or platform.machine())
    if found is None:
        return None
    column, architecture = found
    numbers = sorted(pair[column] for pair in _REFUSED.values())
    # A foreign architecture's calls have other numbers, and so has the x32 set: neither is let through.
    lines = [(_LOAD, 0, 0, 4), (_JUMP_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, 0)]
    lines.append((_JUMP_AT_LEAST, len(numbers) + 1, 0, _X32))
    for done, number in enumerate(numbers):
        lines.append((_JUMP_EQUAL, len(numbers) - done, 0, number))
    lines += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _REFUSE)]
    return b"".join(struct.pack("HBBI", *line) for line in lines)
