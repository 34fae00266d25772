"""A foreign harness in a sandbox: its folder goes in as files, and what it left comes back as files.

What comes back is laid into a folder of the host for the world to take; nothing of the harness runs by then.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from noria.core.files import Entry, lay_files, take_files
from noria.harnesses._process import Ended, remove
from noria.sandboxes._jail import ROOT as ROOT
from noria.sandboxes.guest import Guests

#: Where a harness finds its home inside: it is not carried back.
HOME = "/tmp/home"
_WORK, _ANSWER = "work", "answer.txt"


def run_guest(
    guests: Guests, argv: Sequence[str], own: Path, environment: Mapping[str, str], address: tuple[str, int],
    timeout_s: float, given_up: threading.Event, around: Sequence[tuple[str, str]] = (),
) -> Ended:  # fmt: skip
    """Run a command over the files of `own`, where `work` and the answer are afterwards as it left them.

    It sees `around`, (place inside, folder of the host), too.

    Where it left too many or too large files, there is no `work`.

    Raises:
        SandboxError: the sandbox failed.
    """
    files = {path: entry for path, entry in take_files(own).items() if not path.startswith("home/")}
    folders = [f"{ROOT}/{_WORK}", HOME]
    left = guests.run(files, argv, environment, folders, address, own / "door", timeout_s, given_up, around)
    remove(own / _WORK)
    if left.files is not None:
        back: dict[str, Entry] = {
            path: entry for path, entry in left.files.items() if path.partition("/")[0] in (_WORK, _ANSWER)
        }
        if _WORK not in back:
            (own / _WORK).mkdir()
        lay_files(back, own)
    log = left.log + ("\n[out of memory]" if left.out_of_memory else "")
    return Ended(left.code, left.timed_out, log)


def named(command: Sequence[str]) -> list[str]:
    """Files and folders that a command names by absolute paths."""
    return [word for word in command if word.startswith("/") and os.path.exists(word)]


def real_python() -> str:
    """This installation's interpreter by the path that it has inside: that of its packages, links in it resolved."""
    return os.path.join(os.path.realpath(os.path.dirname(sys.executable)), os.path.basename(sys.executable))
