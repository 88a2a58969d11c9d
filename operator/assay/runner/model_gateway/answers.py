"""What the two protocols have in common, as the rest of the model gateway sees it."""

from dataclasses import dataclass, field
from typing import Any, Protocol

from assay.api.evidence import TokenCounts
from assay.api.outcome import OutcomeClass


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model's answer says about itself."""

    model: str | None = None
    tokens: TokenCounts = field(default_factory=TokenCounts)
    stop_reason: str | None = None
    refusal: str | None = None


class StreamedAnswer(Protocol):
    """Puts a streamed answer together, into the form that it would have had unstreamed."""

    complete: bool
    """The protocol's own end was seen."""
    error: dict[str, Any] | None
    """An error event in the stream."""

    def feed(self, event: bytes) -> None: ...

    def response(self) -> dict[str, Any]: ...


class Dialect(Protocol):
    """One provider protocol."""

    content_fields: frozenset[str]
    """Top-level request fields that are no settings."""

    def read(self, response: dict[str, Any], request: dict[str, Any]) -> Answer: ...

    def streamed(self) -> StreamedAnswer: ...

    def hosted_tools(self, request: dict[str, Any]) -> list[str]: ...

    def forwarded(self, request: dict[str, Any]) -> dict[str, Any]: ...

    def hides(self, event: bytes, request: dict[str, Any]) -> bool: ...

    def error_body(self, code: str, message: str) -> dict[str, Any]: ...


def count(value: Any) -> int | None:
    """A token count that a provider reported; None unless it is a whole number from 0."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        return None
    return value


def text(value: Any) -> str | None:
    """A string that came from outside, bounded and encodable; None for anything else."""
    if not isinstance(value, str) or not value:
        return None
    return value[:500].encode("utf-8", "replace").decode()


def child(parent: Any, key: str) -> dict[str, Any]:
    """A nested object, empty where there is none."""
    value = parent.get(key) if isinstance(parent, dict) else None
    return value if isinstance(value, dict) else {}


_FUNDS = (
    "insufficient_quota",
    "credit balance is too low",
    "billing_hard_limit",
    "exceeded your current quota",
)
_CONTEXT = ("context_length_exceeded", "maximum context length", "prompt is too long", "context window")
_POLICY = ("content_policy_violation", "content_filter", "responsibleaipolicyviolation")
_OVERLOADED = frozenset({0, 408, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})


def provider_fault(status: int, message: str, declared_model: bool) -> OutcomeClass | None:
    """The class of a provider's refusal; None where the request itself was at fault.

    Args:
        message: The error's code, type and text.
        declared_model: False for a model the variant does not declare: asking for one is the agent's doing,
            and must not earn it a fresh try.
    """
    words = message.lower()
    if status == 402 or (status in (400, 403, 429) and any(each in words for each in _FUNDS)):
        return OutcomeClass.PROVIDER_FUNDS
    if status in _OVERLOADED:
        return OutcomeClass.PROVIDER_RATE_LIMITED
    if status in (400, 413) and any(each in words for each in _CONTEXT):
        return OutcomeClass.CONTEXT_EXCEEDED
    if status == 400 and any(each in words for each in _POLICY):
        return OutcomeClass.REFUSED_BLOCKED
    if not declared_model:
        return None
    if status in (401, 403):
        return OutcomeClass.PROVIDER_AUTH
    return OutcomeClass.SETUP_FAILED if status == 404 else None


_OWN_FAULTS = {
    "SecretMissing": OutcomeClass.PROVIDER_AUTH,
    "ProviderBusy": OutcomeClass.PROVIDER_RATE_LIMITED,
    "ProviderUnreachable": OutcomeClass.PROVIDER_RATE_LIMITED,
    "ProviderTimeout": OutcomeClass.PROVIDER_RATE_LIMITED,
    "BadRequest": None,
    "TooLarge": None,
}


def own_fault(code: str) -> OutcomeClass | None:
    """The class of an error that the gateway in the cluster made itself, by its `X-Assay-Error`.

    None where the agent's request was at fault.
    """
    return _OWN_FAULTS.get(code, OutcomeClass.INFRA_START)
