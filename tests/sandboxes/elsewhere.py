"""Sandboxes that are not of this process: an E2B server of the house's own in a thread, and a stand-in for `docker`."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

KEY = "key-of-the-tests"


def no_e2b() -> str | None:
    """None where the SDK is installed, else why not."""
    try:
        import e2b  # noqa: F401
    except ImportError:
        return "needs the package e2b"
    return None


@contextmanager
def e2b_server(most: int = 4, memory_mb: int = 256, disk_mb: int = 8) -> Iterator[str]:
    """Its address; clients send `KEY`."""
    from noria.sandboxes.session import Limits
    from noria.server.e2b.run import make_server
    from noria.server.run import Address

    listener = Address("127.0.0.1", 0).bind()
    server = make_server(Limits(memory_mb=memory_mb, disk_mb=disk_mb), most, KEY)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    try:
        for _ in range(3000):
            if server.started:
                break
            time.sleep(0.01)
        assert server.started
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive()


def stand_in(folder: Path, patch: pytest.MonkeyPatch) -> Path:
    """Put `docker_stand_in.py` on PATH as `docker`; returns the file in which it notes what it was called with."""
    program = folder / "docker"
    text = Path(__file__).with_name("docker_stand_in.py").read_text()
    program.write_text(f"#!{sys.executable}\n{text}")
    program.chmod(0o755)
    patch.setenv("DOCKER_STAND_IN", str(folder))
    patch.setenv("PATH", str(folder), prepend=":")
    return folder / "calls"
