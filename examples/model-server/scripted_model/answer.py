"""From a conversation to an answer, before any protocol."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scripted_model.behaviours import REFUSAL, Behaviour
from scripted_model.scripts import Message, Turn, next_turn, render
from scripted_model.usage import Usage, usage_of


class BadRequest(Exception):
    """A request that cannot be answered; the message names the field."""


@dataclass(frozen=True)
class Answer:
    """What the model says: a text, or a refusal in its place."""

    model: str
    text: str
    refusal: str | None
    usage: Usage


def answer_to(
    conversation: Sequence[Message],
    model: str,
    behaviour: Behaviour,
    scripts: Mapping[str, tuple[Turn, ...]],
) -> Answer:
    """The scripted answer; the same for the same conversation and model."""
    turn = next_turn(scripts, conversation, behaviour.turns)
    text = REFUSAL if behaviour.refuses else render(turn, conversation)
    reasoning = "" if behaviour.refuses else f"{turn.analysis} {turn.plan}"
    return Answer(
        model=behaviour.answers_as or model,
        text="" if behaviour.refuses else text,
        refusal=REFUSAL if behaviour.refuses else None,
        usage=usage_of(conversation, text, reasoning),
    )
