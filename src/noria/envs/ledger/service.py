"""The service itself: accounts, ten tools, deterministic transitions, and refusals that say what to do.

A transition never raises on a model's input: what cannot be done comes back as a line that starts with
"error:". Every tool answers with exactly one line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from noria.core.errors import PolicyError
from noria.core.types import Tool

#: Highest balance and highest limit: amounts keep to two digits.
MAX_AMOUNT = 99
SUBMIT = "submit"

_ID = ("string", "account")
_AMOUNT = ("integer", "positive amount")
_NUMBER = re.compile(r"[0-9]{1,6}")
_SHOWN_CHARS = 12

TOOLS: tuple[Tool, ...] = (
    Tool("list", "all accounts"),
    Tool("get", "read one account", {"id": _ID}),
    Tool("deposit", "pay money in", {"id": _ID, "amount": _AMOUNT}),
    Tool("withdraw", "pay money out", {"id": _ID, "amount": _AMOUNT}),
    Tool("transfer", "move money", {"src": _ID, "dst": _ID, "amount": _AMOUNT}),
    Tool("freeze", "freeze an account", {"id": _ID}),
    Tool("unfreeze", "unfreeze an account", {"id": _ID}),
    Tool("open", "open a closed account", {"id": _ID}),
    Tool("close", "close an empty account", {"id": _ID}),
    Tool("set_limit", "set the limit of one payment", {"id": _ID, "amount": _AMOUNT}),
    Tool(SUBMIT, "end the work"),
)
#: Tool name -> its parameters in order.
PARAMETERS: Mapping[str, tuple[str, ...]] = {tool.name: tuple(tool.parameters) for tool in TOOLS}


@dataclass(frozen=True, slots=True)
class Account:
    """One account. `balance` and `limit` are whole units of money; `limit` caps one payment out of it."""

    balance: int
    status: str = "open"
    limit: int = MAX_AMOUNT


class Ledger:
    """The accounts and the tools that change them. Accounts are immutable, so a copy is a shallow one."""

    def __init__(self, accounts: Mapping[str, Account]) -> None:
        self.accounts = dict(accounts)

    def copy(self) -> Ledger:
        """An independent ledger in the same state."""
        return Ledger(self.accounts)

    def call(self, name: str, args: Mapping[str, str]) -> str:
        """Run one tool (all but submit) and return its one line; a refusal starts with "error:"."""
        try:
            check_arguments(name, args)
            return _RUN[name](self, args)
        except PolicyError as refusal:
            return f"error: {refusal}"

    def _find(self, args: Mapping[str, str], key: str = "id") -> tuple[str, Account]:
        name = args[key].strip()
        if name not in self.accounts:
            raise PolicyError(f"no account {_shown(name)}; call list")
        return name, self.accounts[name]

    def _active(self, args: Mapping[str, str], key: str = "id") -> tuple[str, Account]:
        """An account that may be changed: neither frozen nor closed."""
        name, account = self._find(args, key)
        if account.status == "frozen":
            raise PolicyError(f"{name} is frozen; unfreeze it first")
        if account.status == "closed":
            raise PolicyError(f"{name} is closed; open it first")
        return name, account

    def _list(self, args: Mapping[str, str]) -> str:
        return "; ".join(f"{name} {a.balance} {a.status}" for name, a in self.accounts.items())

    def _get(self, args: Mapping[str, str]) -> str:
        name, account = self._find(args)
        return f"{name} {account.balance} {account.status} limit {account.limit}"

    def _deposit(self, args: Mapping[str, str]) -> str:
        name, account = self._active(args)
        new = account.balance + _amount(args)
        _check_room(name, account, new)
        self.accounts[name] = replace(account, balance=new)
        return f"ok {name} {new}"

    def _withdraw(self, args: Mapping[str, str]) -> str:
        name, account = self._active(args)
        amount = _amount(args)
        _check_payment(name, account, amount)
        self.accounts[name] = replace(account, balance=account.balance - amount)
        return f"ok {name} {account.balance - amount}"

    def _transfer(self, args: Mapping[str, str]) -> str:
        source, giver = self._active(args, "src")
        target, taker = self._active(args, "dst")
        if source == target:
            raise PolicyError("src and dst must differ")
        amount = _amount(args)
        _check_payment(source, giver, amount)
        _check_room(target, taker, taker.balance + amount)
        self.accounts[source] = replace(giver, balance=giver.balance - amount)
        self.accounts[target] = replace(taker, balance=taker.balance + amount)
        return f"ok {source} {giver.balance - amount}, {target} {taker.balance + amount}"

    def _freeze(self, args: Mapping[str, str]) -> str:
        name, account = self._find(args)
        if account.status != "open":
            raise PolicyError(f"{name} is {account.status}, not open")
        return self._set_status(name, "frozen")

    def _unfreeze(self, args: Mapping[str, str]) -> str:
        name, account = self._find(args)
        if account.status != "frozen":
            raise PolicyError(f"{name} is {account.status}, not frozen")
        return self._set_status(name, "open")

    def _open(self, args: Mapping[str, str]) -> str:
        name, account = self._find(args)
        if account.status != "closed":
            raise PolicyError(f"{name} is {account.status}, not closed")
        return self._set_status(name, "open")

    def _close(self, args: Mapping[str, str]) -> str:
        name, account = self._active(args)
        if account.balance:
            raise PolicyError(f"{name} holds {account.balance}; move it first")
        return self._set_status(name, "closed")

    def _set_limit(self, args: Mapping[str, str]) -> str:
        name, account = self._active(args)
        amount = _amount(args)
        if amount > MAX_AMOUNT:
            raise PolicyError(f"limit must be at most {MAX_AMOUNT}")
        self.accounts[name] = replace(account, limit=amount)
        return f"ok {name} limit {amount}"

    def _set_status(self, name: str, status: str) -> str:
        self.accounts[name] = replace(self.accounts[name], status=status)
        return f"ok {name} {status}"


_RUN: Mapping[str, Callable[[Ledger, Mapping[str, str]], str]] = {
    "list": Ledger._list,
    "get": Ledger._get,
    "deposit": Ledger._deposit,
    "withdraw": Ledger._withdraw,
    "transfer": Ledger._transfer,
    "freeze": Ledger._freeze,
    "unfreeze": Ledger._unfreeze,
    "open": Ledger._open,
    "close": Ledger._close,
    "set_limit": Ledger._set_limit,
}


def check_arguments(name: str, args: Mapping[str, str]) -> None:
    """Refuse an unknown tool and missing or surplus arguments.

    Raises:
        PolicyError: with the tools, or the arguments of this tool, in the text.
    """
    if name not in PARAMETERS:
        raise PolicyError(f"no tool {_shown(name)}; use one of {', '.join(PARAMETERS)}")
    wanted = PARAMETERS[name]
    if set(args) != set(wanted):
        raise PolicyError(f"{name} takes {', '.join(wanted) or 'no argument'}")


def _amount(args: Mapping[str, str]) -> int:
    text = args["amount"].strip()
    if not _NUMBER.fullmatch(text) or int(text) == 0:
        raise PolicyError(f"amount must be a positive integer, got {_shown(text)}")
    return int(text)


def _check_payment(name: str, account: Account, amount: int) -> None:
    if amount > account.balance:
        raise PolicyError(f"{name} holds only {account.balance}")
    if amount > account.limit:
        raise PolicyError(f"{name} has limit {account.limit}; set it higher first")


def _check_room(name: str, account: Account, new: int) -> None:
    if new > MAX_AMOUNT:
        raise PolicyError(f"{name} holds {account.balance} of at most {MAX_AMOUNT}")


def _shown(text: str) -> str:
    """A model's own text in a message: ASCII, quoted, short."""
    return ascii(text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "...")
