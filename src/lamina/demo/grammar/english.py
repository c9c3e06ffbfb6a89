"""Realisation of abstract sentences in English."""

from __future__ import annotations

from lamina.demo.grammar.nouns import PERSONS
from lamina.demo.grammar.numerals import ENGLISH_NUMERALS
from lamina.demo.grammar.syntax import (
    Clause,
    Name,
    Nominal,
    NounPhrase,
    PrepositionalPhrase,
    Pronoun,
    RelativeClause,
    Sentence,
)
from lamina.demo.grammar.verbs import BE
from lamina.demo.grammar.words import Noun

_PERSONS = frozenset(PERSONS)
_OBJECT_PRONOUNS = {"I": "me", "we": "us", "he": "him", "she": "her", "they": "them"}
_BE = ("am", "is", "are")
_HAVE = ("have", "has", "have")
_DO_NOT = ("do not", "does not", "do not")
_WANT_TO = ("want to", "wants to", "want to")


def write_english(sentence: Sentence) -> str:
    """Write a sentence in English."""
    text = _clause(sentence.main)
    if sentence.conjunction is not None and sentence.other is not None:
        joined = f"{sentence.conjunction.english} {_clause(sentence.other)}"
        if sentence.other_first:
            text = f"{joined}, {text}"
        else:
            text += f", {joined}" if sentence.conjunction.english_comma else f" {joined}"
    return f"{text[0].upper()}{text[1:]}."


def _clause(clause: Clause) -> str:
    fronted = clause.fronted
    parts = []
    if fronted == "time" and clause.time is not None:
        parts.append(clause.time.english)
    elif fronted == "place" and clause.place is not None:
        parts.append(_prepositional_phrase(clause.place))
    if clause.subject is not None:
        parts.append(clause.subject.person if isinstance(clause.subject, Pronoun) else _nominal(clause.subject, "no"))
    parts.append(_verb_group(clause))
    parts.extend(_objects(clause))
    if clause.quality is not None:
        parts.append(f"very {clause.quality.english}" if clause.intensified else clause.quality.english)
    if clause.complement is not None:
        parts.append(_prepositional_phrase(clause.complement))
    if clause.place is not None and fronted != "place":
        parts.append(_prepositional_phrase(clause.place))
    if clause.time is not None and fronted != "time":
        parts.append(clause.time.english)
    return " ".join(parts)


def _verb_group(clause: Clause) -> str:
    """Write auxiliaries, `not`, the adverb of frequency and the verb."""
    verb, tense, agreement = clause.verb, clause.tense, clause.agreement
    adverb = f"{clause.frequency.english} " if clause.frequency is not None else ""
    negation = "not " if clause.negated else ""
    if verb is BE:
        return f"{_BE[agreement]} {negation}".rstrip()
    if tense == "perfect":
        return f"{_HAVE[agreement]} {negation}{adverb}{verb.english_participle}"
    if tense == "can":
        return f"{'cannot' if clause.negated else 'can'} {verb.english}"
    if tense == "must":
        return f"must {verb.english}"
    if tense == "want":
        return f"{_DO_NOT[agreement] + ' want to' if clause.negated else _WANT_TO[agreement]} {verb.english}"
    if clause.negated:
        return f"{_DO_NOT[agreement]} {verb.english}"
    return adverb + (verb.english_third if agreement == 1 else verb.english)


def _objects(clause: Clause) -> list[str]:
    accusative = [_object(clause.accusative)] if clause.accusative is not None else []
    dative = [_object(clause.dative)] if clause.dative is not None else []
    if clause.verb.recipient_last:
        return accusative + [f"to {recipient}" for recipient in dative]
    return dative + accusative


def _object(nominal: Nominal) -> str:
    if isinstance(nominal, Pronoun):
        return _OBJECT_PRONOUNS[nominal.person]
    return _nominal(nominal, "any" if isinstance(nominal, NounPhrase) and nominal.plural else "a")


def _prepositional_phrase(phrase: PrepositionalPhrase) -> str:
    return f"{phrase.preposition.english} {_object(phrase.nominal)}"


def _nominal(nominal: Name | NounPhrase, no: str) -> str:
    """Write a name or noun phrase; `no` is the negative determiner: "no", or "a" or "any" after a negated verb."""
    if isinstance(nominal, Name):
        return nominal.text
    words = [adjective.english for adjective in nominal.adjectives]
    words.append(nominal.noun.english_plural if nominal.plural else nominal.noun.english)
    if nominal.number:
        words.insert(0, ENGLISH_NUMERALS[nominal.number])
    determiner = no if nominal.determiner == "no" else nominal.determiner
    if nominal.possessor is not None:
        words.insert(0, _possessive(nominal.possessor))
    elif determiner == "a":
        words.insert(0, "an" if words[0][0] in "aeiou" else "a")
    elif determiner != "bare":
        words.insert(0, determiner)
    if nominal.relative is not None:
        words.append(_relative_clause(nominal.noun, nominal.relative))
    return " ".join(words)


def _possessive(possessor: Name | NounPhrase) -> str:
    text = _nominal(possessor, "no")
    ends_in_plural_s = isinstance(possessor, NounPhrase) and possessor.plural and text.endswith("s")
    return text + ("'" if ends_in_plural_s else "'s")


def _relative_clause(head: Noun, relative: RelativeClause) -> str:
    if relative.preposition is not None:
        pronoun = f"{relative.preposition.english} which"
    elif head in _PERSONS:
        pronoun = "who" if relative.gap == "nom" else "whom"
    else:
        pronoun = "that"
    return f"{pronoun} {_clause(relative.clause)}"
