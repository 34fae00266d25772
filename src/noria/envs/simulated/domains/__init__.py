"""The domains, one file each; `UNSEEN` are those that training never shows."""

from __future__ import annotations

from collections.abc import Mapping

from noria.envs.simulated.card import Domain
from noria.envs.simulated.domains import calendar, chat, home, lab, stock, tickets

DOMAINS: Mapping[str, Domain] = {
    "home": home.DOMAIN, "tickets": tickets.DOMAIN, "stock": stock.DOMAIN, "calendar": calendar.DOMAIN,
    "chat": chat.DOMAIN, "lab": lab.DOMAIN,
}  # fmt: skip
UNSEEN = ("lab",)

__all__ = ["DOMAINS", "UNSEEN"]
