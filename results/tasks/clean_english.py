"""Clean English, tokenised as JFLEG is.

python clean_english.py aeslc/train.jsonl multi30k/train.en enja/train.en > clean.txt

Sentences of e-mails, image captions and example sentences. The last are lower-cased, so their words get the case that
they mostly have in the e-mails.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random

from lamina.base.reading import read_lines
from lamina.text.sentences import split_sentences

MARKS = re.compile(r"([.,!?;:()\"]|\.{3})(?=\s|$|[\"')])|(?<=\s)([(\"])|^([(\"])")
CLITICS = re.compile(r"(?<=\w)('(?:s|m|re|ve|ll|d))\b", re.IGNORECASE)
NOT = re.compile(r"(\w+?)(n't)\b", re.IGNORECASE)
PLAIN = re.compile(r"[A-Za-z][A-Za-z' -]*|[0-9]+|n't|'\w+|[.,!?;:]")
ENDS = {".", "!", "?"}
FURTHER = (0, 0, 0, 1, 2, 3)  # sentences on the same line


def tokenise(line: str) -> list[str]:
    """As in the Penn Treebank: `do n't`, `it 's`, marks of their own."""
    line = MARKS.sub(r" \1\2\3 ", line)
    return NOT.sub(r"\1 \2", CLITICS.sub(r" \1", line)).split()


def is_clean(words: list[str]) -> bool:
    """A sentence of 4 to 30 plain words and a mark at its end."""
    return 4 <= len(words) <= 30 and words[-1] in ENDS and words[0][:1].isupper() and all(map(PLAIN.fullmatch, words))


def mails(path: str) -> Iterator[list[str]]:
    """Sentences of the bodies."""
    for line in read_lines(Path(path)):
        for sentence in split_sentences(json.loads(line)["body"]):
            yield tokenise(sentence)


def examples(path: str, cases: Counter[str]) -> Iterator[list[str]]:
    """Lower-cased and tokenised in another way: `can 't`, `don 't`."""
    usual: dict[str, str] = {}
    for word, _ in reversed(cases.most_common()):
        usual[word.lower()] = word
    for line in read_lines(Path(path)):
        words = re.sub(r"(\w+)n 't\b", r"\1 n't", line).split()
        words = ["I" if word == "i" else usual.get(word, word) for word in words]
        yield [words[0][:1].upper() + words[0][1:], *words[1:]] if words else []


def main(bodies: str, captions: str, sentences: str) -> None:
    """Print every sentence once; half of the lines have several, because JFLEG's are longer than these."""
    clean = [words for words in mails(bodies) if is_clean(words)]
    cases = Counter(word for words in clean for word in words[1:])
    clean += [words for words in map(tokenise, read_lines(Path(captions))) if is_clean(words)][::3]
    clean += [words for words in examples(sentences, cases) if is_clean(words)]
    draw, lines = Random(1), iter(dict.fromkeys(" ".join(words) for words in clean))
    for line in lines:
        print(line, *islice(lines, draw.choice(FURTHER)))


main(*sys.argv[1:4])
