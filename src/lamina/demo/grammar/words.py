"""What the demo grammar knows about a word. Entries are compared by identity: a lexicon holds each of them once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Gender = Literal["m", "f", "n"]
Case = Literal["nom", "acc", "dat", "gen"]
Tense = Literal["present", "perfect", "can", "must", "want"]

ALL_TENSES: tuple[Tense, ...] = ("present", "perfect", "can", "must", "want")


@dataclass(frozen=True, eq=False)
class Adjective:
    """An adjective; `stem` is what German endings are added to (teuer, but teur-e)."""

    english: str
    german: str
    stem: str


@dataclass(frozen=True, eq=False)
class Noun:
    """A noun with the adjectives that suit it and the ways it may be determined."""

    english: str
    english_plural: str
    german: str
    gender: Gender
    german_plural: str
    adjectives: tuple[Adjective, ...]
    colours: tuple[Adjective, ...]
    oblique: str  # accusative and dative singular: den Studenten
    ownable: bool  # "my garden", but not "my forest"
    relational: bool  # only as somebody's: "my mother", "Anna's sister"
    has_plural: bool

    @cached_property
    def dative_plural(self) -> str:
        """Plural and -n, unless it ends in -n or -s already."""
        return self.german_plural if self.german_plural.endswith(("n", "s")) else self.german_plural + "n"

    @cached_property
    def genitive(self) -> str:
        """Singular: unchanged for feminines, like the accusative for weak masculines, otherwise -s or -es."""
        if self.gender == "f" or self.oblique != self.german:
            return self.oblique
        return self.german + ("s" if self.german.endswith(("er", "el", "en")) else "es")

    def form(self, case: Case, plural: bool) -> str:
        """The German noun in a case and number."""
        if plural:
            return self.dative_plural if case == "dat" else self.german_plural
        if case == "gen":
            return self.genitive
        return self.german if case == "nom" else self.oblique


@dataclass(frozen=True, eq=False)
class Preposition:
    """A preposition and the case it governs in one of its uses: `in` is here once for rest and once for motion."""

    english: str
    german: str
    case: Case


@dataclass(frozen=True, eq=False)
class Spot:
    """A preposition with the nouns, or the cities, that make a place with it."""

    preposition: Preposition
    nouns: tuple[Noun, ...] = ()
    cities: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Adverbial:
    """An adverb, or a fixed phrase used as one."""

    english: str
    german: str


@dataclass(frozen=True, eq=False)
class Conjunction:
    """What joins two clauses; English puts a comma before some of them, German before all but `und`."""

    english: str
    german: str
    english_comma: bool = False
    german_comma: bool = True


@dataclass(frozen=True, eq=False)
class Verb:
    """A verb with its forms and its frame: which nouns may fill which of its places."""

    english: str
    english_third: str
    english_participle: str
    prefix: str  # separable: "an" of anrufen
    infinitive: str  # as in a dictionary, and after modal verbs
    present: tuple[str, str, str]  # without the prefix: ich, er/sie, plural
    participle: str
    with_sein: bool
    subjects: tuple[Noun, ...]
    accusative: tuple[Noun, ...] = ()
    dative: tuple[Noun, ...] = ()
    recipient_last: bool = False  # English "explains the poem to the child"
    preposition: Preposition | None = None
    complement: tuple[Noun, ...] = ()  # of the preposition
    spots: tuple[Spot, ...] = ()
    spot_required: bool = False
    makes: bool = False  # its accusative is nobody's yet
    most: int = 12  # the largest number its accusative takes
    habitual: bool = False  # "every day", "often"
    timeless: bool = False  # no adverbial of time at all
    tenses: tuple[Tense, ...] = ALL_TENSES
