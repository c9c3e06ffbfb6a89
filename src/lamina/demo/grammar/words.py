"""Lexicon entries of the demo grammar, compared by identity."""

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
    """An adjective; German endings are added to `stem` (teuer, but teur-e)."""

    english: str
    german: str
    stem: str


@dataclass(frozen=True, eq=False)
class Noun:
    """A noun with its forms, suitable adjectives and possible determiners."""

    english: str
    english_plural: str
    german: str
    gender: Gender
    german_plural: str
    adjectives: tuple[Adjective, ...]
    colours: tuple[Adjective, ...]
    oblique: str  # accusative and dative singular: den Studenten
    ownable: bool  # "my garden", but not "my forest"
    relational: bool  # always possessed: "my mother", "Anna's sister"
    has_plural: bool

    @cached_property
    def dative_plural(self) -> str:
        """Plural with -n, unless it already ends in -n or -s."""
        return self.german_plural if self.german_plural.endswith(("n", "s")) else self.german_plural + "n"

    @cached_property
    def genitive(self) -> str:
        """Genitive singular: unchanged for feminines, like the accusative for weak masculines, otherwise -s or -es."""
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
    """A preposition and the case it governs in one use: `in` has one entry for location and one for motion."""

    english: str
    german: str
    case: Case


@dataclass(frozen=True, eq=False)
class Spot:
    """A preposition with the nouns or cities that form a place with it."""

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
    """A conjunction; English has a comma before some, German before all but `und`."""

    english: str
    german: str
    english_comma: bool = False
    german_comma: bool = True


@dataclass(frozen=True, eq=False)
class Verb:
    """A verb with its forms and its frame: the nouns that may fill each role."""

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
    makes: bool = False  # creates its accusative, which has no owner yet
    most: int = 12  # largest number of its accusative
    habitual: bool = False  # "every day", "often"
    timeless: bool = False  # takes no adverbial of time
    tenses: tuple[Tense, ...] = ALL_TENSES
