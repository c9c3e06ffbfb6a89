"""Declension of German noun phrases, relative pronouns and prepositional phrases."""

from __future__ import annotations

from lamina.demo.grammar.numerals import GERMAN_NUMERALS
from lamina.demo.grammar.syntax import Determiner, Name, Nominal, NounPhrase, PrepositionalPhrase, Pronoun
from lamina.demo.grammar.words import Case, Noun

_CASES: tuple[Case, ...] = ("nom", "acc", "dat", "gen")
_COLUMNS = ("m", "f", "n", "plural")


def _table(rows: str) -> dict[tuple[Case, str], str]:
    """Parse a table with a row per case and a column per gender and for the plural; `-` is an empty ending."""
    return {
        (case, column): ending.replace("-", "")
        for case, row in zip(_CASES, rows.strip().splitlines(), strict=True)
        for column, ending in zip(_COLUMNS, row.split(), strict=True)
    }


_THE = _table("""
    der die das die
    den die das die
    dem der dem den
    des der des der
""")
_EIN_WORD = _table("""
    -  e  -  e
    en e  -  e
    em er em en
    es er es er
""")
_STRONG = _table("""
    er e  es e
    en e  es e
    em er em en
    en er en er
""")
_WEAK = _table("""
    e  e  e  en
    en e  e  en
    en en en en
    en en en en
""")
_MIXED = _table("""
    er e  es en
    en e  es en
    en en en en
    en en en en
""")
_RELATIVE = {key: form for key, form in _THE.items() if key[0] != "gen"} | {("dat", "plural"): "denen"}

_EIN_WORDS: dict[Determiner, str] = {
    "a": "ein",
    "my": "mein",
    "our": "unser",
    "his": "sein",
    "her": "ihr",
    "no": "kein",
}
_PRONOUNS: dict[Case, dict[str, str]] = {
    "nom": {"I": "ich", "we": "wir", "he": "er", "she": "sie", "they": "sie"},
    "acc": {"I": "mich", "we": "uns", "he": "ihn"},  # not she and they: both are "sie"
    "dat": {"I": "mir", "we": "uns", "he": "ihm", "she": "ihr", "they": "ihnen"},
}
_CONTRACTIONS = {"in dem": "im", "in das": "ins", "an dem": "am", "zu dem": "zum", "zu der": "zur", "von dem": "vom"}


def decline(nominal: Nominal, case: Case) -> str:
    """Decline a pronoun, name or noun phrase, without its relative clause."""
    if isinstance(nominal, Pronoun):
        return _PRONOUNS[case][nominal.person]
    if isinstance(nominal, Name):
        return nominal.text
    determiner, endings = _determine(nominal, case)
    key = (case, "plural" if nominal.plural else nominal.noun.gender)
    words = [determiner] if determiner else []
    if nominal.number:
        words.append(GERMAN_NUMERALS[nominal.number])
    if nominal.adjectives:
        ending = endings[key]
        words.extend(adjective.stem + ending for adjective in nominal.adjectives)
    words.append(nominal.noun.form(case, nominal.plural))
    if isinstance(nominal.possessor, NounPhrase):
        words.append(decline(nominal.possessor, "gen"))
    return " ".join(words)


def _determine(phrase: NounPhrase, case: Case) -> tuple[str, dict[tuple[Case, str], str]]:
    """Return the determiner and its adjective endings; a noun followed by a genitive is definite."""
    key = (case, "plural" if phrase.plural else phrase.noun.gender)
    if isinstance(phrase.possessor, Name):
        return f"{phrase.possessor.text}s", _STRONG
    if phrase.possessor is not None or phrase.determiner == "the":
        return _THE[key], _WEAK
    if phrase.determiner == "bare":
        return "", _STRONG
    return _EIN_WORDS[phrase.determiner] + _EIN_WORD[key], _MIXED


def relative_pronoun(head: Noun, plural: bool, case: Case) -> str:
    """Relative pronoun with the gender and number of the head and the case of the gap."""
    return _RELATIVE[case, "plural" if plural else head.gender]


def govern(phrase: PrepositionalPhrase) -> str:
    """Write a prepositional phrase, contracted except before a relative clause: "in dem Haus, das …"."""
    preposition, nominal = phrase.preposition, phrase.nominal
    text = f"{preposition.german} {decline(nominal, preposition.case)}"
    if isinstance(nominal, NounPhrase) and nominal.relative is None and not nominal.plural:
        first, article, *_ = text.split(" ", 2)
        contraction = _CONTRACTIONS.get(f"{first} {article}")
        if contraction is not None:
            return contraction + text[len(first) + 1 + len(article) :]
    return text
