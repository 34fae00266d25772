"""Which texts are not judged at all: no language, copied, or addressed to whoever judges.

A text that begs for a mark, gives itself one or tells a judge what to do is worth nothing; no model is asked about it.
"""

from __future__ import annotations

import re
import unicodedata

from noria.graders import prose

_BEGS = re.compile(
    r"\b(?:judges?|graders?|rubrics?|criteri(?:on|a)|full marks?|top marks?|(?:full|high|top|perfect|maximum) score|"
    r"score (?:of|is|this|it)|rewards?|verdict is|system prompt|as an ai|you are (?:now )?an? (?:assistant|evaluator)|"
    r"(?:ignore|forget|disregard) (?:all|any|the|these|previous|prior|your|what)\b[^.]{0,40}"
    r"(?:instructions?|prompts?|rules|above|before|told)|(?:previous|prior|above) instructions?)\b|"
    r"[\"'](?:scores?|verdict|better|rating)[\"']\s*:|\b(?:score|rating|verdict|grade)\s*[:=]|</?(?:answer|text|system)>"
)


def refused(rules: prose.Rules, text: str, prompt: str) -> str:
    """Why a text is not judged, "" where it is."""
    return prose.fault(rules, text, prompt) or begging(text)


def begging(text: str) -> str:
    """Whether a text speaks to its judge; in words."""
    found = _BEGS.search(" ".join(unicodedata.normalize("NFKC", text).lower().split()))
    return f"speaks to its judge: {found[0][:40]!r}" if found else ""
