"""Abstract syntax of sentences, independent of the language."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lamina.demo.grammar.words import Adjective, Adverbial, Conjunction, Gender, Noun, Preposition, Tense, Verb

Determiner = Literal["the", "a", "bare", "my", "our", "his", "her", "no"]
Person = Literal["I", "we", "he", "she", "they"]
Agreement = Literal[0, 1, 2]  # ich, er/sie, plural: an index into `Verb.present`
Gap = Literal["nom", "acc", "dat", "place"]


@dataclass(frozen=True, slots=True)
class Pronoun:
    """A personal pronoun, as subject or object."""

    person: Person


@dataclass(frozen=True, slots=True)
class Name:
    """Name of a person or a city."""

    text: str
    gender: Gender = "n"


@dataclass(frozen=True, slots=True)
class NounPhrase:
    """A noun with its modifiers; a possessor replaces the determiner."""

    noun: Noun
    plural: bool
    determiner: Determiner
    number: int  # 0 if not counted
    adjectives: tuple[Adjective, ...]
    possessor: Name | NounPhrase | None = None
    relative: RelativeClause | None = None


Nominal = Pronoun | Name | NounPhrase


@dataclass(frozen=True, slots=True)
class PrepositionalPhrase:
    """A preposition and its object."""

    preposition: Preposition
    nominal: Nominal


@dataclass(frozen=True, slots=True)
class Clause:
    """A verb and its phrases. In a relative clause the phrase that the pronoun replaces is missing."""

    subject: Nominal | None
    agreement: Agreement
    verb: Verb
    tense: Tense
    negated: bool = False
    dative: Nominal | None = None
    accusative: Nominal | None = None
    complement: PrepositionalPhrase | None = None
    place: PrepositionalPhrase | None = None
    time: Adverbial | None = None
    frequency: Adverbial | None = None
    quality: Adjective | None = None
    intensified: bool = False
    fronted: Literal["time", "place"] | None = None


@dataclass(frozen=True, slots=True)
class RelativeClause:
    """A relative clause: `gap` is the role of the head noun in it, `preposition` precedes the relative pronoun."""

    gap: Gap
    clause: Clause
    preposition: Preposition | None = None


@dataclass(frozen=True, slots=True)
class Sentence:
    """One clause, or two joined by a conjunction."""

    main: Clause
    conjunction: Conjunction | None = None
    other: Clause | None = None
    other_first: bool = False
