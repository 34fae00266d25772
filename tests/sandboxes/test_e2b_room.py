"""The `e2b` sandbox and a server that is full: it is asked again, not for ever, and then the outcome is unknown."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from elsewhere import KEY, e2b_server

e2b = pytest.importorskip("e2b")

from hostile import bwrap_reason  # noqa: E402

from noria.core.errors import SandboxError  # noqa: E402
from noria.sandboxes import e2b as client  # noqa: E402

pytestmark = pytest.mark.skipif(bwrap_reason() is not None, reason=str(bwrap_reason()))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with e2b_server(most=1, disk_mb=4) as address:
        yield address


@pytest.fixture
def held(url: str) -> Iterator[Any]:
    """The one sandbox that the server has room for."""
    made = e2b.Sandbox.create(timeout=120, api_key=KEY, api_url=url, sandbox_url=url, http_version="1.1", retries=0)
    yield made
    made.kill()


def sandbox(url: str, patch: pytest.MonkeyPatch, room_s: float) -> client.E2bSandbox:
    patch.setenv("NORIA_TEST_KEY", KEY)
    return client.build(client.Config(url=url, api_key_env="NORIA_TEST_KEY", servers=1, disk_mb=2, room_s=room_s))


def test_a_full_server_is_asked_again_until_it_has_room(url: str, held: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    create = e2b.Sandbox.create

    def counted(*given: Any, **named: Any) -> Any:
        asked.append("")
        if len(asked) == 3:  # it was refused twice by now
            held.kill()
        return create(*given, **named)

    monkeypatch.setattr(e2b.Sandbox, "create", counted)
    made = sandbox(url, monkeypatch, room_s=60.0)
    try:
        report = made.test({"test_a.py": "def test_a():\n    assert 1 + 1 == 2\n"}, "test_a.py", 5.0)
        assert report.passed and len(asked) >= 3
    finally:
        made.close()


@pytest.mark.parametrize("room_s", [0.0, 0.3])
def test_a_server_that_stays_full_is_a_fault_of_the_environment(
    url: str, held: Any, monkeypatch: pytest.MonkeyPatch, room_s: float
) -> None:
    made = sandbox(url, monkeypatch, room_s)
    before = threading.active_count()
    try:
        with pytest.raises(SandboxError, match=rf"no room for {room_s:g} s: 429.*there are 1 sandboxes already"):
            made.test({"test_a.py": "def test_a():\n    pass\n"}, "test_a.py", 5.0)
        assert threading.active_count() == before
    finally:
        made.close()
