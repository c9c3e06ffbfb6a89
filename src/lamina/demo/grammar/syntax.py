"""Abstract sentences, before either language: what is said, not how."""

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
    """Somebody's name, or a city's."""

    text: str
    gender: Gender = "n"


@dataclass(frozen=True, slots=True)
class NounPhrase:
    """A noun with what stands around it; a possessor replaces the determiner."""

    noun: Noun
    plural: bool
    determiner: Determiner
    number: int  # 0: none is named
    adjectives: tuple[Adjective, ...]
    possessor: Name | NounPhrase | None = None
    relative: RelativeClause | None = None


Nominal = Pronoun | Name | NounPhrase


@dataclass(frozen=True, slots=True)
class PrepositionalPhrase:
    """A preposition and what it governs."""

    preposition: Preposition
    nominal: Nominal


@dataclass(frozen=True, slots=True)
class Clause:
    """A verb and its phrases. In a relative clause the phrase that the pronoun stands for is missing."""

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
    """A clause about a noun: `gap` is what the noun would be in it, `preposition` what would stand before it."""

    gap: Gap
    clause: Clause
    preposition: Preposition | None = None


@dataclass(frozen=True, slots=True)
class Sentence:
    """One clause, or two and how they are joined."""

    main: Clause
    conjunction: Conjunction | None = None
    other: Clause | None = None
    other_first: bool = False
