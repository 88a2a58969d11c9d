"""Token counts of one call, deterministic, with the details that providers report."""

from collections.abc import Sequence
from dataclasses import dataclass

from scripted_model.scripts import Message, count_tokens

_PER_MESSAGE = 4
# Providers cache prefixes in blocks; the remainder of a block is never read from the cache.
_CACHE_BLOCK = 64


@dataclass(frozen=True)
class Usage:
    """Tokens of one call: `cache_read` and `cache_write` are in `prompt`, `reasoning` in `completion`."""

    prompt: int
    cache_read: int
    cache_write: int
    completion: int
    reasoning: int


def usage_of(conversation: Sequence[Message], answer: str, reasoning: str) -> Usage:
    """Counts a call: all up to the last answer was sent before, and so comes from the cache."""
    sizes = [count_tokens(message.text) + _PER_MESSAGE for message in conversation]
    answered = [index for index, message in enumerate(conversation) if message.role == "assistant"]
    # The call before this one sent what precedes the last answer.
    seen_before = _whole_blocks(sum(sizes[: answered[-1]])) if answered else 0
    prompt = sum(sizes)
    thought = count_tokens(reasoning)
    return Usage(
        prompt=prompt,
        cache_read=seen_before,
        cache_write=_whole_blocks(prompt) - seen_before,
        completion=count_tokens(answer) + thought,
        reasoning=thought,
    )


def _whole_blocks(tokens: int) -> int:
    return tokens // _CACHE_BLOCK * _CACHE_BLOCK
