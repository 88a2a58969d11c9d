"""How a model misbehaves, chosen by its name: what providers do on a bad day, whenever a test asks for it."""

import hashlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus

from scripted_model.scripts import Message

SOLVER = "scripted/solver"
REFUSAL = "I can't help with that."


@dataclass(frozen=True)
class Behaviour:
    """What a model name stands for.

    `turns` is how many answers of a script it gives before it says that the task is complete; None is all,
    and 0 none. `status` (with `retry_after` seconds and `code`) is answered in place of a result: always,
    or with `once` only to the first call of a conversation's turn. `pause` is the time between two pieces
    of a stream in seconds, `cut` ends a stream in its middle, `refuses` gives a refusal, and `answers_as`
    is another model's name in the answer.
    """

    status: int = HTTPStatus.OK
    code: str = ""
    retry_after: int | None = None
    once: bool = False
    pause: float = 0.0
    cut: bool = False
    refuses: bool = False
    answers_as: str | None = None
    turns: int | None = None


BEHAVIOURS = {
    SOLVER: Behaviour(),
    "scripted/hasty": Behaviour(turns=1),
    "scripted/idle": Behaviour(turns=0),
    "scripted/ratelimited": Behaviour(HTTPStatus.TOO_MANY_REQUESTS, "rate_limit_exceeded", retry_after=1),
    "scripted/ratelimited-once": Behaviour(
        HTTPStatus.TOO_MANY_REQUESTS, "rate_limit_exceeded", retry_after=1, once=True
    ),
    "scripted/overloaded": Behaviour(HTTPStatus.SERVICE_UNAVAILABLE, "overloaded", retry_after=1),
    "scripted/nofunds": Behaviour(HTTPStatus.PAYMENT_REQUIRED, "insufficient_quota"),
    "scripted/forbidden": Behaviour(HTTPStatus.FORBIDDEN, "permission_denied"),
    "scripted/slow": Behaviour(pause=0.5),
    "scripted/cut": Behaviour(cut=True),
    "scripted/refusing": Behaviour(refuses=True),
    "scripted/fallback": Behaviour(answers_as="scripted/smaller"),
}


class Memory:
    """Which turns were answered with an error before; the only state that the server has."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()
        self._lock = threading.Lock()

    def is_first(self, model: str, conversation: Sequence[Message]) -> bool:
        """Whether this turn of this conversation is asked for the first time."""
        text = repr((model, [(message.role, message.text) for message in conversation]))
        digest = hashlib.sha256(text.encode()).digest()
        with self._lock:
            first = digest not in self._seen
            self._seen.add(digest)
        return first
