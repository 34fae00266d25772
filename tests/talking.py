"""A model behind a real server on loopback that says what a test lets it say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from noria.engines.scripted import Answer, Reply, ScriptedServer


@dataclass
class Talker:
    """`says` is its answer always, or a list of answers; when they are used up it fails. `asked` holds the requests."""

    says: Answer | list[Answer] = ""
    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)

    def reply(self, request: Mapping[str, Any]) -> Answer:
        """The server's rule."""
        if isinstance(self.says, list):
            return self.says.pop(0) if self.says else Reply(status=400)
        return self.says


@contextmanager
def talking() -> Iterator[Talker]:
    """A talker whose server runs."""
    made = Talker()
    with ScriptedServer(made.reply) as server:
        made.url, made.asked = server.url, server.requests
        yield made
