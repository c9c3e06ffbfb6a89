"""What a hypothesis may write next, and when it ends.

Plain functions over numbers and arrays, so that the search in Python (any device, any stepper) calls them as they are
and the CPU engine compiles them: the rules exist once.
"""

from __future__ import annotations

from typing import Any

from lamina.text.vocabulary import EOS

Array = Any  # a sequence of numbers that can be written: a numpy array, in Python or compiled
FREE = -1


def forced_token(position: int, limit: int, prefix: Array, start: int, length: int) -> int:
    """The token that must be written at a position: the prefix's (`prefix[start : start + length]`), at the limit eos.

    `FREE` if there is a choice. A prefix may be longer than the limit, and wins over every other rule.
    """
    if position < length:
        return int(prefix[start + position])
    return EOS if position >= limit else FREE


def repeated_tokens(written: Array, length: int, size: int, banned: Array) -> int:
    """Tokens that would repeat an n-gram of this size in `written[:length]` (Paulus et al. 2018); fills `banned`."""
    count = 0
    for end in range(size - 1, length):
        same = True
        for back in range(1, size):
            if written[end - back] != written[length - back]:
                same = False
                break
        if same:
            banned[count] = written[end]
            count += 1
    return count


def split_candidates(
    sums: Array, tokens: Array, width: int, room: int, lowest: float, ended: Array, going: Array
) -> tuple[int, int]:
    """Ranks of 2·`width` candidates, best first, that end and that continue; returns how many of each.

    An eos among the first `width` ends a hypothesis while there is room. The first `width` others continue,
    so that the beam does not shrink. A sum of at most `lowest` is impossible.
    """
    ending = continuing = 0
    for rank in range(len(sums)):
        if tokens[rank] == EOS:
            if rank < width and ending < room and sums[rank] > lowest:
                ended[ending] = rank
                ending += 1
        elif continuing < width:
            going[continuing] = rank
            continuing += 1
    return ending, continuing
