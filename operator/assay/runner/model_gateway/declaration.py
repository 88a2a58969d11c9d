"""What a variant declares of its models, and what a call uses beside it."""

from collections.abc import Sequence
from typing import Any

from assay.api.tryspec import ModelTarget

_BEHAVIOUR = frozenset(
    {
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "seed",
        "presence_penalty",
        "frequency_penalty",
        "repetition_penalty",
        "logit_bias",
        "reasoning",
        "thinking",
        "output_config",
        "verbosity",
        "service_tier",
        "reasoning_effort",
    }
)
"""Settings that change what a model answers. A bound on the answer's length counts only where declared."""

_EFFORT = frozenset({"reasoning", "thinking", "output_config"})
"""Forms in which a declared effort reaches a provider."""


def target_of(models: Sequence[ModelTarget], index: int, asked: str | None) -> int:
    """Index of the model that a call is for: the URL's, unless it names another one of the same API."""
    if asked is not None and not is_named(models[index], asked):
        for other, model in enumerate(models):
            if model.api == models[index].api and is_named(model, asked):
                return other
    return index


def is_named(model: ModelTarget, asked: str) -> bool:
    """Whether `asked` is this model's name, with or without the prefix that names its provider."""
    return asked in (model.name, model.name.partition("/")[2])


def answered_as_asked(asked: str, answered: str) -> bool:
    """Whether a model that answered is the one asked for: the same, or a dated snapshot of it."""
    short = asked.rpartition("/")[2]
    return answered.rpartition("/")[2].startswith(short)


def undeclared(
    model: ModelTarget, asked: str | None, answered: str | None, settings: dict[str, Any]
) -> list[str]:
    """Everything of a call that the variant does not declare, in words."""
    found = []
    if asked is not None and not is_named(model, asked):
        found.append(f"model {asked[:200]}")
    if asked is not None and answered is not None and not answered_as_asked(asked, answered):
        found.append(f"answered by {answered[:200]}")
    declared = _declared(model)
    for name, value in settings.items():
        if name in declared:
            if declared[name] != value:
                found.append(f"{name}={value!r:.100}, declared {declared[name]!r:.100}")
        elif name in _BEHAVIOUR and not (name in _EFFORT and model.reasoning_effort is not None):
            found.append(f"{name}={value!r:.100}")
    return found


def _declared(model: ModelTarget) -> dict[str, Any]:
    declared = dict(model.sampling)
    if model.reasoning_effort is not None:
        declared.setdefault("reasoning_effort", model.reasoning_effort)
    return declared
