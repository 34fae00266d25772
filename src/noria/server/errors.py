"""What a client is told when its request cannot be served, in the form of the OpenAI API."""

from __future__ import annotations

from typing import Any

from noria.core.errors import NoriaError

INVALID = "invalid_request_error"


class ApiError(NoriaError):
    """A refusal: HTTP status, message, the parameter at fault, a code for programs, when to come again."""

    def __init__(
        self, status: int, message: str, param: str | None = None, code: str | None = None, retry_s: int | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.code, self.retry_s = status, message, param, code, retry_s

    def body(self) -> dict[str, Any]:
        """The answer's JSON."""
        kinds = {401: "authentication_error", 429: "rate_limit_error", 500: "server_error", 503: "server_error"}
        return {
            "error": {
                "message": self.message,
                "type": kinds.get(self.status, INVALID),
                "param": self.param,
                "code": self.code,
            }
        }

    @property
    def headers(self) -> dict[str, str]:
        """`Retry-After` where coming again helps."""
        return {} if self.retry_s is None else {"retry-after": str(self.retry_s)}


def wrong(param: str, message: str, code: str | None = "invalid_value") -> ApiError:
    """A parameter that cannot be served."""
    return ApiError(400, message, param, code)


def stopping() -> ApiError:
    """The server takes nothing new."""
    return ApiError(503, "the server is stopping: ask another one, or come again", code="stopping", retry_s=5)
