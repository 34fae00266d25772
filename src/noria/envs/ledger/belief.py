"""What a conversation has shown: balances, statuses and limits, read off calls and their one-line answers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from noria.bases.turn import answered
from noria.core.types import Message
from noria.tokens.calls import Call

#: "A3 45 open limit 50", "A3 is frozen", "A3 holds only 20", "A3 has limit 50", "A3 limit 80".
_FACT = re.compile(
    r"([A-Z][0-9])(?: is| holds| has)?(?: only)?(?: ([0-9]+))?(?: (open|frozen|closed))?(?: limit ([0-9]+))?"
)
#: Status before a status call that went through.
_BEFORE: Mapping[str, str] = {"freeze": "open", "unfreeze": "frozen", "open": "closed", "close": "open"}
READS = ("get", "list")
PAYMENTS = ("deposit", "withdraw", "transfer")


@dataclass(slots=True)
class Belief:
    """`log` holds each executed call with its answer, `first` the first known status of an account."""

    log: list[tuple[Call, str]] = field(default_factory=list)
    balances: dict[str, int] = field(default_factory=dict)
    statuses: dict[str, str] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)
    first: dict[str, str] = field(default_factory=dict)

    def note(self, call: Call, line: str) -> None:
        """Take in one call and its answer."""
        self.log.append((call, line))
        for name, balance, status, limit in _facts(line):
            if balance:
                self.balances[name] = int(balance)
            if limit:
                self.limits[name] = int(limit)
            if status:
                before = _BEFORE.get(call.name, status) if line.startswith("ok") else status
                self.first.setdefault(name, before)
                self.statuses[name] = status

    def done(self, name: str, **args: object) -> bool:
        """Whether a call of this tool with (at least) these arguments went through."""
        wanted = {key: str(value) for key, value in args.items()}
        return any(
            call.name == name and wanted.items() <= call.args.items() and line.startswith("ok")
            for call, line in self.log
        )

    def refusals(self, call: Call) -> int:
        """How often this very call was refused."""
        return sum(1 for past, line in self.log if past == call and line.startswith("error:"))

    @property
    def refused(self) -> bool:
        """Whether any call was refused."""
        return any(line.startswith("error:") for _, line in self.log)

    @property
    def payments(self) -> list[Call]:
        """Payments that went through, in order."""
        return [call for call, line in self.log if call.name in PAYMENTS and line.startswith("ok")]

    @property
    def paid_once(self) -> Call | None:
        """The first payment that went through, unless it was called again since."""
        for at, (call, line) in enumerate(self.log):
            if call.name in PAYMENTS and line.startswith("ok"):
                return None if any(later == call for later, _ in self.log[at + 1 :]) else call
        return None

    @property
    def in_hand(self) -> int:
        """Money paid out and not yet paid in."""
        sign = {"withdraw": 1, "deposit": -1, "transfer": 0}
        return sum(sign[call.name] * int(call.args["amount"]) for call in self.payments)

    @property
    def read_since_change(self) -> bool:
        """Whether the last thing that went through was a read."""
        went = [call.name for call, line in self.log if not line.startswith("error:")]
        return bool(went) and went[-1] in READS


def believe(messages: Sequence[Message]) -> Belief:
    """Read a conversation after the prompt: assistant messages and the tool messages that answer them."""
    belief = Belief()
    for said, heard in zip(messages[::2], messages[1::2], strict=False):
        for call, line in answered(said.content, heard.content):
            belief.note(call, line)
    return belief


# A policy reads the whole conversation again at each turn, and lines repeat across episodes.
@lru_cache(maxsize=4096)
def _facts(line: str) -> tuple[tuple[str, str, str, str], ...]:
    """(id, balance, status, limit) as a line tells them, "" for what it does not tell."""
    return tuple(_FACT.findall(line))
