"""The rules of which tokens a hypothesis may write next, and when it ends.

They are plain functions over numbers and arrays, which search calls in Python and the CPU engine compiles.
"""

from __future__ import annotations

from typing import Any

from lamina.text.vocabulary import EOS

Array = Any  # a numpy array, in Python or in compiled code
FREE = -1  # no token is forced


def forced_token(position: int, limit: int, prefix: Array, start: int, length: int) -> int:
    """The forced token at a position: that of `prefix[start : start + length]`, eos at the limit, or else `FREE`.

    A prefix may be longer than the limit, and takes precedence over every other rule.
    """
    if position < length:
        return int(prefix[start + position])
    return EOS if position >= limit else FREE


def repeated_tokens(written: Array, length: int, size: int, banned: Array) -> int:
    """Fill `banned` with the tokens that would repeat an n-gram of `written[:length]` (Paulus et al. 2018); return
    their number.
    """
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
    sums: Array, tokens: Array, width: int, free: int, lowest: float, ended: Array, kept: Array
) -> tuple[int, int]:
    """Split 2·`width` candidates, best first, into ranks that end and that continue; return the number of each.

    An eos among the first `width` ends a hypothesis, for at most `free` of them. The first `width` others continue, so
    that the beam does not shrink. Candidates with a sum of at most `lowest` never end.
    """
    ending = continuing = 0
    for rank in range(len(sums)):
        if tokens[rank] == EOS:
            if rank < width and ending < free and sums[rank] > lowest:
                ended[ending] = rank
                ending += 1
        elif continuing < width:
            kept[continuing] = rank
            continuing += 1
    return ending, continuing
