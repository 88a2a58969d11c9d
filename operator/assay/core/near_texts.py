"""Finds all pairs of near-identical texts without comparing every pair.

Texts of ten tokens and more are near where the Jaccard index of their token 3-grams is at least 0.8; shorter
ones where their sorted tokens, as one text, are at least 90 % alike by insertions and deletions (rapidfuzz's
token_sort_ratio). Both are exact: a pair that passes has to share one of each text's rarest grams
(prefix filter), so only those pairs are compared.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

MIN_TOKENS = 10
JACCARD = 0.8
RATIO = 0.9
_GRAM = 3
_BAG_BITS = 64

Gram = tuple[object, int]
"""A gram and which occurrence of it in the text this is, so that a text is a set."""


@dataclass(frozen=True, slots=True)
class NearPair:
    """Two texts by their keys, the smaller first, and how alike they are (0 to 1)."""

    one: str
    other: str
    likeness: float


def near_pairs(texts: Mapping[str, str]) -> Iterator[NearPair]:
    """All near pairs. Equal texts are joined in a chain, so that n equal ones are n - 1 pairs."""
    keys_of: dict[str, list[str]] = defaultdict(list)
    for key in sorted(texts):
        keys_of[texts[key]].append(key)
    for same in keys_of.values():
        yield from (NearPair(one, other, 1.0) for one, other in pairwise(same))
    distinct = sorted((keys[0], text.split()) for text, keys in keys_of.items())
    yield from _long_pairs([one for one in distinct if len(one[1]) >= MIN_TOKENS])
    yield from _short_pairs(
        [(key, " ".join(sorted(words))) for key, words in distinct if len(words) < MIN_TOKENS]
    )


def _long_pairs(texts: Sequence[tuple[str, list[str]]]) -> Iterator[NearPair]:
    def likeness(one: frozenset[int], other: frozenset[int]) -> float:
        common = len(one & other)
        return common / (len(one) + len(other) - common)

    keys = [key for key, _ in texts]
    grams = _numbered([_grams(words) for _, words in texts])
    prefixes = [ordered[: len(ordered) - math.ceil(JACCARD * len(ordered)) + 1] for ordered in grams]
    sets = [frozenset(ordered) for ordered in grams]
    for i, j in _candidates(prefixes, lambda i, j: len(sets[i]) >= JACCARD * len(sets[j])):
        if (found := likeness(sets[i], sets[j])) >= JACCARD:
            yield _pair(keys[i], keys[j], found)


def _short_pairs(texts: Sequence[tuple[str, str]]) -> Iterator[NearPair]:
    sizes = [len(text) for _, text in texts]
    # Padding gives a text of any length at least one gram for each character.
    grams = _numbered([_grams(f"\0\0{text}\0\0") for _, text in texts])
    prefixes = [ordered[: _most_lost(size) + 1] for ordered, size in zip(grams, sizes, strict=True)]
    sets = [frozenset(ordered) for ordered in grams]
    bags = [_bag(text) for _, text in texts]

    def plausible(i: int, j: int) -> bool:
        edits = _edits(sizes[i], sizes[j])
        # Every character that only one of the two has is an edit of its own.
        if (bags[i] ^ bags[j]).bit_count() > edits:
            return False
        return len(sets[i] & sets[j]) >= len(sets[j]) - _lost(sizes[j], sizes[i], edits)

    for i, j in _candidates(prefixes, plausible):
        if (found := alike(texts[i][1], texts[j][1])) >= RATIO:
            yield _pair(texts[i][0], texts[j][0], found)


def _edits(one: int, other: int) -> int:
    """Insertions and deletions that two near texts of these lengths may differ by."""
    return math.floor((1 - RATIO) * (one + other) + 1e-9)


def _lost(size: int, other: int, edits: int) -> int:
    """Grams of a text that so many edits to one of length `other` can take: three a deletion, else two."""
    deletions = (edits + size - other) // 2
    return _GRAM * deletions + (_GRAM - 1) * (edits - deletions)


def _most_lost(size: int) -> int:
    """The most grams that any near text of any length can lack."""
    shortest = math.floor(size * RATIO / (2 - RATIO))
    longest = math.ceil(size * (2 - RATIO) / RATIO)
    return max(_lost(size, other, _edits(size, other)) for other in range(shortest, longest + 1))


def _bag(text: str) -> int:
    """How often each character occurs, as bits: those of two bags that differ are the characters that do."""
    bag = 0
    for character, count in Counter(text).items():
        bag |= ((1 << count) - 1) << (_BAG_BITS * (ord(character) % 128))
    return bag


def alike(one: str, other: str) -> float:
    """Twice the longest common subsequence over both lengths: 1 for equal texts."""
    if not one or not other:
        return float(one == other)
    # Bits of `row` that are 0 mark where the common subsequence grows (Hyyrö 2004).
    full = (1 << len(one)) - 1
    places: dict[str, int] = defaultdict(int)
    for place, character in enumerate(one):
        places[character] |= 1 << place
    row = full
    for character in other:
        match = row & places.get(character, 0)
        row = ((row + match) | (row - match)) & full
    common = len(one) - row.bit_count()
    return 2 * common / (len(one) + len(other))


def _grams(sequence: Sequence[str]) -> list[Gram]:
    counts: Counter[object] = Counter()
    found: list[Gram] = []
    for start in range(max(1, len(sequence) - _GRAM + 1)):
        gram = tuple(sequence[start : start + _GRAM])
        found.append((gram, counts[gram]))
        counts[gram] += 1
    return found


def _numbered(texts: Sequence[list[Gram]]) -> list[list[int]]:
    """Each text's grams as numbers, the rarest first; one order for all texts."""
    frequency = Counter(gram for text in texts for gram in text)
    rank = {
        gram: number
        for number, gram in enumerate(sorted(frequency, key=lambda one: (frequency[one], repr(one))))
    }
    return [sorted(rank[gram] for gram in text) for text in texts]


def _candidates(
    prefixes: Sequence[Sequence[int]], plausible: Callable[[int, int], bool]
) -> Iterator[tuple[int, int]]:
    """Pairs that share a gram of their prefixes and are plausible, each once; the shorter is first."""
    index: dict[int, list[int]] = defaultdict(list)
    for j in sorted(range(len(prefixes)), key=lambda one: len(prefixes[one])):
        seen: set[int] = set()
        for gram in prefixes[j]:
            for i in index[gram]:
                if i not in seen:
                    seen.add(i)
                    if plausible(i, j):
                        yield i, j
            index[gram].append(j)


def _pair(one: str, other: str, likeness: float) -> NearPair:
    return NearPair(min(one, other), max(one, other), likeness)
