"""Synthetic errors in clean text, to make pairs for training grammatical error correction.

Every word of a line may get one error: a misspelling, a confused word, a wrong ending, an omission, an extra word, a
swap with its neighbour, wrong case or missing punctuation. The errors depend only on the line, its number, the seed and
the settings.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Annotated

from pydantic import Field

from lamina.base.reading import read_lines
from lamina.base.settings import Rate, Settings
from lamina.corpus.error_tables import TABLES, ErrorTable
from lamina.corpus.m2_format import Words, stream_m2
from lamina.errors import DataError

Weight = Annotated[float, Field(ge=0)]
TRIES = 4  # kinds of error that are tried at a word before it is left unchanged


class ErrorMix(Settings):
    """Relative frequency of each kind of error."""

    confusion: Weight = 4  # a confused word or phrase, from an .m2 file or the language's table
    spelling: Weight = 3  # another spelling of the same sound, or a missing, doubled, wrong or misplaced letter
    ending: Weight = 2  # another ending
    omission: Weight = 2  # a missing function word
    addition: Weight = 1  # an extra function word
    swap: Weight = 0.5  # two words in the wrong order
    case: Weight = 0.5  # a wrong case of the first letter
    punctuation: Weight = 1  # a missing punctuation mark


class ErrorSettings(Settings):
    """A file for `lamina noise --errors`."""

    rate: Rate = 0.12  # fraction of words with an error
    mix: ErrorMix = Field(default_factory=ErrorMix)
    confusions: str | None = None  # an .m2 file whose corrections are undone; relative to this file


@dataclass
class Confusions:
    """Annotators' corrections, reversed: from correct words to the errors that they replaced."""

    errors: dict[Words, Counter[Words]] = field(default_factory=lambda: defaultdict(Counter))

    @classmethod
    def learn(cls, path: Path) -> Confusions:
        """Learn from the edits of every annotator in an .m2 file."""
        learned = cls()
        for sentence in stream_m2(read_lines(path), str(path)):
            for edits in sentence.annotators.values():
                for edit in edits:
                    wrong = sentence.words[edit.start : edit.end]
                    for correct in edit.corrections:
                        if correct and correct != wrong and len(correct) <= 2 and len(wrong) <= 2:
                            learned.errors[correct][wrong] += 1
        if not learned.errors:
            raise DataError(f"{path}: has no edits to learn confusions from.")
        return learned

    def add_sets(self, table: ErrorTable) -> None:
        """Every word of a set may replace every other."""
        for words in table.sets:
            for word in words:
                self.errors[(word,)].update({(other,): 1 for other in words if other != word})


class Noise:
    """Generates errors in text of a language."""

    def __init__(self, language: str, settings: ErrorSettings, seed: int, confusions: Confusions | None = None) -> None:
        self.settings, self.seed = settings, seed
        self.table = TABLES.get(language, ErrorTable())
        self.confusions = confusions or Confusions()
        self.confusions.add_sets(self.table)
        self.kinds: dict[str, Callable[[list[str], int, Random], int]] = {
            "confusion": self.confuse,
            "spelling": self.misspell,
            "ending": self.change_ending,
            "omission": self.omit,
            "addition": self.add,
            "swap": self.swap,
            "case": self.change_case,
            "punctuation": self.lose_punctuation,
        }
        self.weights = [getattr(settings.mix, kind) for kind in self.kinds]
        self.made: Counter[str] = Counter()  # errors so far, by kind

    def pairs(self, lines: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Pairs of a noisy line and its clean original."""
        for number, line in enumerate(lines, start=1):
            clean = " ".join(line.split())
            yield self.line(clean, number), clean

    def line(self, clean: str, number: int) -> str:
        """Add errors to a line; its number is part of the seed."""
        random = Random(f"{self.seed} {number}")
        words, at = clean.split(), 0
        while at < len(words):
            step = 1
            if random.random() < self.settings.rate and any(self.weights):
                for kind in random.choices(list(self.kinds), self.weights, k=TRIES):
                    if (done := self.kinds[kind](words, at, random)) >= 0:
                        step = done
                        self.made[kind] += 1
                        break
            at += step
        return " ".join(words)

    # Each of these changes the words at `at` and returns the number of words to advance, or −1 if it does not apply.

    def confuse(self, words: list[str], at: int, random: Random) -> int:
        """Replace a phrase by an error that was corrected to it; longer phrases first."""
        for length in (2, 1):
            correct = tuple(words[at : at + length])
            lowered = tuple(word.lower() for word in correct)
            for known in (correct, lowered):
                if len(correct) == length and known in self.confusions.errors:
                    errors = self.confusions.errors[known]
                    wrong = list(random.choices(list(errors), list(errors.values()))[0])
                    if known != correct and wrong and correct[0][:1].isupper():
                        wrong[0] = wrong[0][:1].upper() + wrong[0][1:]
                    words[at : at + length] = wrong
                    return len(wrong)
        return -1

    def misspell(self, words: list[str], at: int, random: Random) -> int:
        """Misspell by sound, if the language has a table, or by one letter."""
        word = words[at]
        if random.random() < 0.6 and (sounded := self.spell_by_sound(word, random)) is not None:
            words[at] = sounded
            return 1
        letters = [index for index, letter in enumerate(word) if letter.isalpha()]
        if len(letters) < 3:
            return -1
        place = random.choice(letters[1:])
        alphabet = self.table.letters or "".join(sorted({letter for each in words for letter in each.lower()}))
        kind = random.randrange(4)
        if kind == 0:
            words[at] = word[:place] + word[place + 1 :]
        elif kind == 1:
            words[at] = word[:place] + random.choice((word[place], random.choice(alphabet))) + word[place:]
        elif kind == 2:
            words[at] = word[:place] + random.choice(alphabet) + word[place + 1 :]
        else:
            words[at] = word[: place - 1] + word[place] + word[place - 1] + word[place + 1 :]
        return 1

    def spell_by_sound(self, word: str, random: Random) -> str | None:
        """Respell a sound after the first letter; None if the table has no other spelling."""
        fitting = [
            (place, sound, other)
            for sounds in self.table.sounds
            for sound in sounds
            if sound
            for place in range(1, len(word))
            if word.startswith(sound, place)
            for other in sounds
            if other != sound
        ]
        if len(word) < 4 or not fitting:
            return None
        place, sound, other = random.choice(fitting)
        return word[:place] + other + word[place + len(sound) :]

    def change_ending(self, words: list[str], at: int, random: Random) -> int:
        """Replace an ending by another of its kind."""
        word = words[at]
        fitting = [
            (ending, other)
            for endings in self.table.endings
            for ending in endings
            if word.isalpha() and word.endswith(ending) and len(word) - len(ending) >= 3
            for other in endings
            if other != ending
        ]
        if not fitting:
            return -1
        longest = max(len(ending) for ending, _ in fitting)
        ending, other = random.choice([pair for pair in fitting if len(pair[0]) == longest])
        words[at] = word[: len(word) - len(ending)] + other
        return 1

    def omit(self, words: list[str], at: int, random: Random) -> int:
        """Omit a small word."""
        if words[at].lower() not in self.table.omitted or len(words) < 2:
            return -1
        del words[at]
        return 0

    def add(self, words: list[str], at: int, random: Random) -> int:
        """Insert a small word before this one."""
        if not self.table.omitted or not words[at].isalpha():
            return -1
        words.insert(at, random.choice(sorted(self.table.omitted)))
        return 2

    def swap(self, words: list[str], at: int, random: Random) -> int:
        """Swap the word with the next one."""
        if at + 1 >= len(words) or not (words[at].isalpha() and words[at + 1].isalpha()):
            return -1
        words[at], words[at + 1] = words[at + 1], words[at]
        return 2

    def change_case(self, words: list[str], at: int, random: Random) -> int:
        """Change the case of the first letter."""
        first = words[at][:1]
        if first.lower() == first.upper():
            return -1
        words[at] = first.swapcase() + words[at][1:]
        return 1

    def lose_punctuation(self, words: list[str], at: int, random: Random) -> int:
        """Remove a punctuation mark that is a token or ends a word."""
        word = words[at]
        if word in {",", ";", ":", "—", "–", "'"} and len(words) > 1:
            del words[at]
            return 0
        if len(word) > 2 and word[-1] in ",;:" and word[-2].isalpha():
            words[at] = word[:-1]
            return 1
        return -1
