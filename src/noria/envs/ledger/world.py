"""The world `ledger`: a stateful service behind typed tools, judged by its final state alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from noria.bases.advice import MALFORMED, act
from noria.bases.turn import carried_out
from noria.bases.world import ScriptedWorld
from noria.core.config import Checked
from noria.core.protocols import Policy, Sandbox
from noria.core.types import Observation, Outcome, Split, Task
from noria.envs.ledger import forgeries
from noria.envs.ledger.habits import EXPERTS, HABITS, make_policy
from noria.envs.ledger.instances import NAME, SPLITS, accounts_of, draw_tasks, named_in, required
from noria.envs.ledger.service import SUBMIT, Account, Ledger, check_arguments
from noria.tokens.calls import Call

ADVICE: Mapping[str, tuple[str, ...]] = {
    "get": (
        "Read the accounts before you act.",
        "First read each account, then act.",
        "Read each account first and again at the end.",
    ),
    "list": (
        "List the accounts before you act.",
        "First call list, then act.",
        "See all accounts first with one list.",
    ),
    "transfer": (
        "Move the right money once, from source to target.",
        "Transfer once, in the right direction.",
        "Check the direction, then transfer only once.",
    ),
    "withdraw": (
        "Withdraw the money first, then deposit it.",
        "Pay the money out, then pay it in.",
        "After each withdraw comes a deposit.",
    ),
    "deposit": (
        "Read the balance, then deposit what is missing.",
        "Deposit only what is missing.",
        "Do not guess a deposit, read the balance.",
    ),
    "freeze": (
        "Freeze again what you had to unfreeze.",
        "An account that was frozen must end frozen.",
        "Leave frozen accounts frozen in the end.",
    ),
    "unfreeze": (
        "When a call is refused, mend it and go on.",
        "After an error do what it says.",
        "If an account is frozen, unfreeze it first.",
    ),
    "open": (
        "Open a closed account before you pay into it.",
        "First open it, then move the money.",
        "A closed account must be opened first.",
    ),
    "close": (
        "Empty the account, then close it.",
        "Move all its money before you close it.",
        "Close it only when it holds nothing.",
    ),
    "set_limit": (
        "Set the limit first, then move the money.",
        "The limit comes before the money.",
        "Do not forget the limit.",
    ),
    "submit": (
        "Finish every part before you submit.",
        "Do all that is asked, then submit.",
        "Submit only when all parts are done.",
    ),
    "answer": act("Act with tools, then submit."),
    "malformed": MALFORMED,
}


class Config(Checked):
    """A small bank: accounts with a balance, a status and a limit."""

    type: Literal["ledger"] = "ledger"
    tasks: int = Field(default=256, ge=1, le=10**6, description="training tasks of a round")
    frozen_share: float = Field(
        default=0.7, ge=0.0, le=1.0, description="share of tasks where an account that takes part is frozen"
    )


class LedgerEpisode:
    """One task being worked on; `grade` looks at nothing but the accounts."""

    def __init__(self, task: Task, ledger: Ledger, goal: Mapping[str, Account], done: bool = False) -> None:
        self._task = task
        self._ledger = ledger
        self._goal = goal
        self._done = done

    @property
    def accounts(self) -> dict[str, Account]:
        """The accounts as they are now."""
        return dict(self._ledger.accounts)

    def act(self, message: str) -> Observation:
        """Run the calls of a message in order; `submit` ends the episode, later calls are not run."""
        if self._done:
            return Observation("", done=True)
        lines = carried_out(message, self._call, lambda: self._done, "no call; call a tool, end with submit")
        return Observation("" if self._done else "\n".join(lines), self._done)

    def grade(self) -> Outcome:
        """Reward 1 iff every account is as required; parts tell named and other accounts apart."""
        now = self._ledger.accounts
        wrong = [name for name in self._goal if now[name] != self._goal[name]]
        named = set(named_in(self._task.data["goals"]))
        parts = {
            "named": float(not any(name in named for name in wrong)),
            "others": float(all(name in named for name in wrong)),
        }
        if not wrong:
            return Outcome(1.0, parts, "all accounts as required")
        name = wrong[0]
        return Outcome(0.0, parts, f"{name} is {_text(now[name])}, required {_text(self._goal[name])}")

    def fork(self) -> LedgerEpisode:
        """An independent episode in the same state."""
        return LedgerEpisode(self._task, self._ledger.copy(), self._goal, self._done)

    def close(self) -> None:
        """Nothing is held."""

    def _call(self, call: Call) -> str:
        if call.name == SUBMIT and not call.args:
            self._done = True
            return ""
        return self._ledger.call(call.name, call.args)


class LedgerWorld(ScriptedWorld):
    """Tasks, transitions, verifier, reference solution and scripted policies of the ledger."""

    name, habits, experts, splits = NAME, HABITS, EXPERTS, SPLITS
    advice = ADVICE
    remedies: Mapping[str, str] = dict.fromkeys(("deposit", "withdraw", "transfer"), "get")
    max_turns = 16

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config

    def tasks(self, split: Split, n: int, seed: int) -> list[Task]:
        """`n` distinct tasks of "train", "heldout" or "unseen" (combinations that training never shows)."""
        return draw_tasks(split, n, seed, self.config.frozen_share)

    def open(self, task: Task) -> LedgerEpisode:
        """A fresh episode."""
        accounts = accounts_of(task)
        return LedgerEpisode(task, Ledger(accounts), required(accounts, task.data["goals"]))

    def policy(self, task: Task, strategy: str, seed: int) -> Policy:
        """A scripted policy; see `habits.HABITS`."""
        return make_policy(task, strategy, seed)

    def kind_of(self, call: Call) -> str:
        """The tool; PolicyError: unknown, or with wrong arguments."""
        check_arguments(call.name, call.args)
        return call.name

    def forgeries(self, task: Task) -> list[list[str]]:
        """See `forgeries.forged`."""
        return forgeries.forged(task, self.reference(task))

    def secrets(self, task: Task) -> list[str]:
        """See `forgeries.secrets`."""
        return forgeries.secrets(task, self.reference(task))


def build(config: Config, sandbox: Sandbox | None) -> LedgerWorld:
    """The world of a config; it needs no sandbox."""
    return LedgerWorld(config)


def _text(account: Account) -> str:
    return f"{account.balance} {account.status} limit {account.limit}"
