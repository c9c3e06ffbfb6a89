"""Realisation of abstract sentences in German, with its word order."""

from __future__ import annotations

from lamina.demo.grammar.german_phrases import decline, govern, relative_pronoun
from lamina.demo.grammar.syntax import Clause, Name, Nominal, NounPhrase, Pronoun, Sentence
from lamina.demo.grammar.words import Case

_HABEN = ("habe", "hat", "haben")
_SEIN = ("bin", "ist", "sind")
_MODALS = {
    "can": ("kann", "kann", "können"),
    "must": ("muss", "muss", "müssen"),
    "want": ("will", "will", "wollen"),
}
_COORDINATING = frozenset({"und", "aber"})
_INDEFINITE = frozenset({"a", "bare", "no"})


def write_german(sentence: Sentence) -> str:
    """Write a sentence in German."""
    conjunction, other = sentence.conjunction, sentence.other
    if conjunction is None or other is None:
        text = _verb_second(sentence.main)
    elif conjunction.german in _COORDINATING:
        comma = "," if conjunction.german_comma else ""
        text = f"{_verb_second(sentence.main)}{comma} {conjunction.german} {_verb_second(other)}"
    elif sentence.other_first:
        text = f"{conjunction.german} {_verb_final(other)}, {_verb_second(sentence.main, fronted=True)}"
    else:
        text = f"{_verb_second(sentence.main)}, {conjunction.german} {_verb_final(other)}"
    text = text.replace(",,", ",").removesuffix(",")
    return f"{text[0].upper()}{text[1:]}."


def _verb_second(clause: Clause, fronted: bool = False) -> str:
    """Write a main clause (verb-second); `fronted` if a subordinate clause already fills the first position."""
    finite, infinite = _verb_parts(clause)
    if fronted:
        parts = [finite, *_subject_and_pronouns(clause)]
    elif clause.fronted == "time" and clause.time is not None:
        parts = [clause.time.german, finite, *_subject_and_pronouns(clause)]
    elif clause.fronted == "place" and clause.place is not None:
        parts = [govern(clause.place), finite, *_subject_and_pronouns(clause)]
    else:
        parts = [*_subject(clause), finite, *_pronouns(clause)]
    parts.extend(_middle(clause))
    if infinite:
        parts.append(infinite)
    return " ".join(parts) + _extraposed(clause)


def _verb_final(clause: Clause) -> str:
    """Write a subordinate clause (verb-final), without its conjunction or relative pronoun."""
    finite, infinite = _verb_parts(clause)
    verb = infinite + finite if clause.tense == "present" else f"{infinite} {finite}"
    return " ".join([*_subject_and_pronouns(clause), *_middle(clause), verb]) + _extraposed(clause)


def _verb_parts(clause: Clause) -> tuple[str, str]:
    """Return the finite verb and the final part of a main clause: separable prefix, participle or infinitive."""
    verb, tense, agreement = clause.verb, clause.tense, clause.agreement
    if tense == "present":
        return verb.present[agreement], verb.prefix
    if tense == "perfect":
        return (_SEIN if verb.with_sein else _HABEN)[agreement], verb.participle
    return _MODALS[tense][agreement], verb.infinitive


def _subject(clause: Clause) -> list[str]:
    if clause.subject is None:
        return []
    text = decline(clause.subject, "nom")
    relative = _relative_clause(clause.subject)
    return [f"{text}{relative},"] if relative else [text]


def _pronouns(clause: Clause) -> list[str]:
    return [decline(nominal, case) for case, nominal in _objects(clause) if isinstance(nominal, Pronoun)]


def _subject_and_pronouns(clause: Clause) -> list[str]:
    """Write subject and pronouns after a finite verb or conjunction; pronouns precede an indefinite subject."""
    subject, pronouns = _subject(clause), _pronouns(clause)
    return pronouns + subject if pronouns and _is_indefinite(clause.subject) else subject + pronouns


def _middle(clause: Clause) -> list[str]:
    """Write the middle field after the pronouns: a location follows definite objects and precedes indefinite ones."""
    nominals = [(case, nominal) for case, nominal in _objects(clause) if not isinstance(nominal, Pronoun)]
    early = [decline(nominal, case) for case, nominal in nominals if _is_early(case, nominal)]
    late = [decline(nominal, case) for case, nominal in nominals if not _is_early(case, nominal)]
    indefinite = any(_is_indefinite(nominal) for _, nominal in nominals)
    time = [clause.time.german] if clause.time is not None and clause.fronted != "time" else []
    place = [govern(clause.place)] if clause.place is not None and clause.fronted != "place" else []
    complement = [govern(clause.complement)] if clause.complement is not None else []
    if clause.negated and not _has_kein(clause.accusative):
        parts = [*early, *late, *time, "nicht", *place]
    else:
        often = [clause.frequency.german] if clause.frequency is not None else []
        if not indefinite:
            parts = [*early, *time, *late, *often, *place]
        elif clause.place is not None and clause.place.preposition.case == "dat":
            parts = [*early, *time, *often, *place, *late]
        else:
            parts = [*early, *time, *often, *late, *place]
    quality = []
    if clause.quality is not None:
        quality = ["sehr", clause.quality.german] if clause.intensified else [clause.quality.german]
    return parts + complement + quality


def _objects(clause: Clause) -> list[tuple[Case, Nominal]]:
    """Objects, dative before accusative."""
    cases: tuple[tuple[Case, Nominal | None], ...] = (("dat", clause.dative), ("acc", clause.accusative))
    return [(case, nominal) for case, nominal in cases if nominal is not None]


def _is_early(case: Case, nominal: Nominal) -> bool:
    """Whether an object precedes the time: names and definite datives do."""
    return isinstance(nominal, Name) or (case == "dat" and not _is_indefinite(nominal))


def _is_indefinite(nominal: Nominal | None) -> bool:
    return isinstance(nominal, NounPhrase) and nominal.possessor is None and nominal.determiner in _INDEFINITE


def _has_kein(nominal: Nominal | None) -> bool:
    return isinstance(nominal, NounPhrase) and nominal.determiner == "no"


def _extraposed(clause: Clause) -> str:
    """Write the relative clause of the last object or place, which follows the verb in German."""
    for phrase in (clause.place, clause.complement):
        if phrase is not None and (relative := _relative_clause(phrase.nominal)):
            return f"{relative},"
    for nominal in (clause.accusative, clause.dative):
        if nominal is not None and (relative := _relative_clause(nominal)):
            return f"{relative},"
    return ""


def _relative_clause(nominal: Nominal) -> str:
    if not isinstance(nominal, NounPhrase) or nominal.relative is None:
        return ""
    relative = nominal.relative
    case: Case = "dat" if relative.gap == "place" else relative.gap
    pronoun = relative_pronoun(nominal.noun, nominal.plural, case)
    preposition = f"{relative.preposition.german} " if relative.preposition is not None else ""
    return f", {preposition}{pronoun} {_verb_final(relative.clause)}"
