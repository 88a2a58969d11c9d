"""Conditions: how a resource tells its story, in the form that `kubectl wait` understands."""

from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, PlainSerializer, StringConstraints

from assay.api.base import Record

MESSAGE_LIMIT = 512
"""Characters of a condition's message; a run has a handful of conditions, so its status stays small."""

ConditionStatus = Literal["True", "False", "Unknown"]


def _whole_seconds(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


Timestamp = Annotated[AwareDatetime, PlainSerializer(_whole_seconds, return_type=str, when_used="json")]
"""A moment; JSON has whole seconds in UTC, as Kubernetes writes them."""

Reason = Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Za-z0-9]*$", max_length=64)]


class Condition(Record):
    """One observation about a resource. The list is keyed by `type`."""

    type: Reason = Field(description="type names the condition, unique in the list.")
    status: ConditionStatus = Field(description="status is True, False or Unknown.")
    observed_generation: Annotated[int, Field(ge=0)] = Field(
        description="observedGeneration is the metadata.generation that this condition was computed from."
    )
    last_transition_time: Timestamp = Field(
        description="lastTransitionTime is when the status last flipped; a new reason or message leaves it."
    )
    reason: Reason = Field(description="reason is the cause, one word in PascalCase that programs may test.")
    message: str = Field(
        default="", max_length=MESSAGE_LIMIT, description="message says the cause in words, for people."
    )


def truncated(text: str, limit: int) -> str:
    """`text`, cut to `limit` characters with an ellipsis as the last where something was cut."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def with_condition(
    conditions: Sequence[Condition],
    type_: StrEnum,
    status: ConditionStatus | bool,
    reason: StrEnum,
    message: str = "",
    *,
    generation: int,
    now: datetime,
) -> tuple[list[Condition], bool]:
    """The conditions with one set, and whether anything but `observedGeneration` changed.

    `lastTransitionTime` moves only when `status` flips. The order of the list is kept, so that repeating the
    call writes the same bytes. `now` must be aware of its time zone.
    """
    wanted: ConditionStatus = status if isinstance(status, str) else ("True" if status else "False")
    old = find_condition(conditions, type_)
    new = Condition(
        type=type_.value,
        status=wanted,
        observed_generation=generation,
        last_transition_time=(
            old.last_transition_time if old and old.status == wanted else now.replace(microsecond=0)
        ),
        reason=reason.value,
        message=truncated(message, MESSAGE_LIMIT),
    )
    if old is None:
        return [*conditions, new], True
    changed = (old.status, old.reason, old.message) != (new.status, new.reason, new.message)
    return [new if condition is old else condition for condition in conditions], changed


def find_condition(conditions: Sequence[Condition], type_: str) -> Condition | None:
    """The condition of that type, or None."""
    return next((condition for condition in conditions if condition.type == type_), None)


def is_true(conditions: Sequence[Condition], type_: str) -> bool:
    """Whether the condition exists with status True."""
    found = find_condition(conditions, type_)
    return found is not None and found.status == "True"
