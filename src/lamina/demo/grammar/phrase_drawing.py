"""Random words and noun phrases: chosen by semantic class, without repeating a word in a sentence."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

from lamina.demo.grammar import nouns as n
from lamina.demo.grammar.names import MEN, WOMEN
from lamina.demo.grammar.syntax import Agreement, Determiner, Name, Nominal, NounPhrase, Person, Pronoun
from lamina.demo.grammar.words import Adjective, Case, Noun

T = TypeVar("T")

PERSONS = frozenset(n.PERSONS)
_POSSESSIVES: tuple[Determiner, ...] = ("my", "our", "his", "her")
_PERSONS_IN_CASE: dict[Case, tuple[Person, ...]] = {
    "nom": ("I", "we", "he", "she", "they"),
    "acc": ("I", "we", "he"),  # German "sie" is both her and them
    "dat": ("I", "we", "he", "she", "they"),
}
_SPEAKERS = frozenset({"I", "we"})
_GROWN_OWNERS = tuple(noun for noun in n.ADULTS if not noun.relational)
_OWNERS = _GROWN_OWNERS + n.CHILDREN
_FEW = 12


def agreement(nominal: Nominal) -> Agreement:
    """Verb form that agrees with a subject."""
    if isinstance(nominal, Pronoun):
        return 0 if nominal.person == "I" else 1 if nominal.person in ("he", "she") else 2
    return 2 if isinstance(nominal, NounPhrase) and nominal.plural else 1


class PhraseDrawer:
    """Draws random nominals and tracks the words used in the current sentence."""

    def __init__(self, rng: random.Random) -> None:
        self.draw = rng.random  # uniform in [0, 1); the only source of randomness here
        self.used: set[object] = set()
        self.names_are_clear = True

    def begin(self) -> None:
        """Start a new sentence."""
        self.used.clear()

    def once(self, mark: object) -> bool:
        """Return True for the first call with this mark in a sentence."""
        if mark in self.used:
            return False
        self.used.add(mark)
        return True

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.draw() < probability

    def choose(self, options: Sequence[T]) -> T:
        """Choose an option uniformly."""
        return options[int(self.draw() * len(options))]

    def choose_fresh(self, options: Sequence[T]) -> T:
        """Choose an option not yet used in the sentence, if one is found in a few tries."""
        for _ in range(9):
            option = self.choose(options)
            if option not in self.used:
                break
        self.used.add(option)
        return option

    def name(self) -> Name:
        """Draw a first name; it rules out possessor names in the clause, as in "weil Anna Peters Hund sieht"."""
        self.names_are_clear = False
        return Name(self.choose_fresh(WOMEN), "f") if self.chance(0.5) else Name(self.choose_fresh(MEN), "m")

    def subject(
        self, nouns: Sequence[Noun], *, definite: bool = False, plain: bool = False, owned: bool = True
    ) -> Nominal:
        """Draw a subject: one of the nouns, or a pronoun or name if they are persons."""
        noun = self.choose(nouns)
        if noun in PERSONS:
            if self.chance(0.22):
                return Pronoun(self.choose(_PERSONS_IN_CASE["nom"]))
            if self.chance(0.28):
                return self.name()
        return self.phrase(self.choose_fresh(nouns), definite=definite, plain=plain, owned=owned)

    def object(
        self,
        nouns: Sequence[Noun],
        case: Case,
        subject: Nominal | None,
        *,
        definite: bool,
        owned: bool = True,
        most: int = _FEW,
    ) -> Nominal:
        """Draw an object, avoiding "I help me" and a name that would seem to name the subject."""
        noun = self.choose_fresh(nouns)
        if noun in PERSONS:
            if self.chance(0.12):
                person = self.choose(_PERSONS_IN_CASE[case])
                if not isinstance(subject, Pronoun) or not _same_person(person, subject.person):
                    return Pronoun(person)
            if _allows_name_after(subject) and self.chance(0.4):
                return self.name()
        return self.phrase(noun, definite=definite, owned=owned, most=most)

    def phrase(
        self,
        noun: Noun,
        *,
        definite: bool = False,
        plain: bool = False,
        singular: bool = False,
        owned: bool = True,
        most: int = _FEW,
    ) -> NounPhrase:
        """Draw a noun phrase with determiner, number and adjectives; `plain` omits adjectives and possessors."""
        many = most > _FEW
        plural = not singular and noun.has_plural and self.chance(0.5 if many else 0.3)
        adjectives = () if plain else self._adjectives(noun)
        if noun.relational or (owned and noun.ownable and self.chance(0.3)):
            number = self._number(4) if plural and self.chance(0.2) else 0
            if plain or self.chance(0.5):
                return NounPhrase(noun, plural, self.choose(_POSSESSIVES), number, adjectives)
            return NounPhrase(noun, plural, "the", 0, adjectives, possessor=self._possessor(noun))
        if definite or self.chance(0.3 if many else 0.55):
            number = self._number(min(most, _FEW)) if plural and self.chance(0.15) else 0
            return NounPhrase(noun, plural, "the", number, adjectives)
        if not plural:
            return NounPhrase(noun, False, "a", 0, adjectives)
        number = self._number(most) if self.chance(0.7) or (noun in PERSONS and not adjectives) else 0
        return NounPhrase(noun, True, "bare", number, adjectives)

    def _possessor(self, owned: Noun) -> Name | NounPhrase:
        if self.names_are_clear and self.chance(0.6):
            name = self.name()
            self.names_are_clear = True
            return name
        noun = self.choose_fresh(_GROWN_OWNERS if owned.relational else _OWNERS)  # avoids "the child's daughter"
        adjectives = (self.choose(noun.adjectives),) if self.chance(0.2) else ()
        determiner = self.choose(_POSSESSIVES) if noun.ownable and self.chance(0.4) else "the"
        return NounPhrase(noun, self.chance(0.25), determiner, 0, adjectives)

    def _adjectives(self, noun: Noun) -> tuple[Adjective, ...]:
        draw = self.draw()
        if draw < 0.55:
            return ()
        if not noun.colours or draw < 0.8:
            return (self.choose(noun.adjectives),)
        colour = self.choose(noun.colours)
        return (colour,) if draw < 0.93 else (self.choose(noun.adjectives), colour)

    def _number(self, most: int) -> int:
        return 2 + int(self.draw() * (most - 1))


def _allows_name_after(subject: Nominal | None) -> bool:
    """Whether a name may follow the subject: not in "weil sein Onkel Oskar hilft"."""
    if isinstance(subject, NounPhrase):
        return subject.plural and subject.possessor is None
    return not isinstance(subject, Name)


def _same_person(one: Person, other: Person) -> bool:
    return one == other or (one in _SPEAKERS and other in _SPEAKERS)
