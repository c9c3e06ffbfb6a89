"""Random clauses: a verb with its arguments, and at most one relative clause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from lamina.demo.grammar import adjectives as adj
from lamina.demo.grammar import adverbials as adv
from lamina.demo.grammar import verbs as v
from lamina.demo.grammar.nouns import NOUNS
from lamina.demo.grammar.phrase_drawing import PERSONS, PhraseDrawer, agreement
from lamina.demo.grammar.syntax import Clause, Gap, Name, Nominal, NounPhrase, PrepositionalPhrase, RelativeClause
from lamina.demo.grammar.words import Adverbial, Noun, Preposition, Tense, Verb

_TENSE_WEIGHTS: dict[Tense, int] = {"present": 6, "perfect": 5, "can": 1, "must": 1, "want": 1}
_TENSES: dict[Verb, tuple[Tense, ...]] = {
    verb: tuple(tense for tense in verb.tenses for _ in range(_TENSE_WEIGHTS[tense])) for verb in v.VERBS
}
_OF_SOMEBODY = (*adj.MOODS, adj.FRIENDLY, adj.POLITE, adj.FAMOUS, adj.CLEVER)
_RELATIVE_VERBS = tuple(verb for verb in v.ACTIONS if verb not in (v.SLEEP, v.FALL_ASLEEP, v.NEED))
_Objects = tuple[Nominal | None, Nominal | None, PrepositionalPhrase | None, PrepositionalPhrase | None]
_RelativeFrame = tuple[Gap, Verb, Preposition | None]


def _relative_frames(noun: Noun) -> tuple[_RelativeFrame, ...]:
    """List the relative clauses that a noun can have.

    Animate nouns are never accusative gaps: in "die Frau, die das Kind sieht" the woman could be subject or object.
    """
    frames: list[_RelativeFrame] = [("nom", verb, None) for verb in _RELATIVE_VERBS if noun in verb.subjects]
    if noun in PERSONS:
        frames += [("dat", verb, None) for verb in (v.HELP, v.THANK, v.LISTEN_TO, v.FOLLOW) * 3]
    elif all(verb in (v.BELONG_TO, v.LIE) for _, verb, _ in frames):
        frames += [("acc", verb, None) for verb in v.TRANSITIVE if noun in verb.accusative]
        frames += [
            ("place", verb, spot.preposition)
            for verb in (v.LIVE, v.WORK, v.DANCE)
            for spot in verb.spots[:1]
            if noun in spot.nouns
        ]
    return tuple(frames)


_RELATIVE_FRAMES = {noun: _relative_frames(noun) for noun in NOUNS}


class ClauseDrawer(PhraseDrawer):
    """Draws random clauses whose phrases fit the verb."""

    def clause(
        self,
        verbs: Sequence[Verb],
        *,
        subject: Nominal | None = None,
        tenses: Sequence[Tense] = (),
        fronting: bool = False,
        relatives: bool = True,
        settled: bool = False,
    ) -> Clause:
        """Draw a clause with one of the verbs and the given subject, if any; `settled` excludes negation and time."""
        verb = self.choose_fresh(verbs)
        self.names_are_clear = not isinstance(subject, Name)
        if verb is v.BE:
            return self._description(subject)
        tense = self.choose([tense for tense in tenses if tense in verb.tenses] or _TENSES[verb])
        negated = not settled and tense != "must" and self.chance(0.16)
        owned = verb is not v.BELONG_TO  # avoids "my car belongs to Anna"
        subject = subject or self.subject(verb.subjects, definite=negated, owned=owned)
        if isinstance(subject, NounPhrase):
            if subject.noun not in PERSONS and tense not in v.NO_MODAL:
                tense = "present"
            if relatives and self.chance(0.12):
                subject, relatives = self._with_relative(subject), False
            elif fronting and not negated and subject.determiner == "a" and self.chance(0.2):
                subject, relatives, settled = replace(subject, determiner="no"), False, True
        frame = (subject, agreement(subject), verb, tense, negated)
        objects = self._objects(verb, subject, negated)
        if relatives and self.chance(0.14):
            return Clause(*frame, *self._relate_last(verb, objects))
        return self._modified(Clause(*frame, *objects), fronting, settled)

    def _description(self, subject: Nominal | None) -> Clause:
        """Draw a predicative clause ("the book is old"); a given subject gets a mood ("he is tired")."""
        qualities = adj.MOODS if subject is not None else _OF_SOMEBODY
        subject = subject or self.subject(v.BE.subjects, definite=True, plain=True)
        if isinstance(subject, NounPhrase) and subject.noun not in PERSONS:
            qualities = subject.noun.adjectives
        return Clause(
            *(subject, agreement(subject), v.BE, "present"),
            negated=self.chance(0.15),
            quality=self.choose(qualities),
            intensified=self.chance(0.3),
        )

    def _objects(self, verb: Verb, subject: Nominal | None, negated: bool, gap: Gap | None = None) -> _Objects:
        """Draw dative, accusative, complement and required place of a verb, except the gap."""
        dative = accusative = complement = place = None
        if verb.dative and gap != "dat":
            dative = self.object(verb.dative, "dat", subject, definite=negated)
        if verb.accusative and gap != "acc":
            owned, most = not verb.makes, verb.most
            accusative = self.object(verb.accusative, "acc", subject, definite=False, owned=owned, most=most)
            if negated and isinstance(accusative, NounPhrase):
                accusative = _negate(accusative)
        if verb.preposition is not None and not (verb.spots and self.chance(0.2)):
            nominal = self.object(verb.complement, verb.preposition.case, subject, definite=negated)
            complement = PrepositionalPhrase(verb.preposition, nominal)
        if verb.spot_required and gap != "place":
            place = self._place(verb, definite=negated)
        return dative, accusative, complement, place

    def _place(self, verb: Verb, *, definite: bool = False) -> PrepositionalPhrase:
        spot = self.choose(verb.spots)
        if spot.cities:
            return PrepositionalPhrase(spot.preposition, Name(self.choose_fresh(spot.cities)))
        phrase = self.phrase(self.choose_fresh(spot.nouns), definite=definite, singular=True)
        if phrase.determiner == "a" and not phrase.adjectives:
            phrase = replace(phrase, determiner="the")
        return PrepositionalPhrase(spot.preposition, phrase)

    def _modified(self, clause: Clause, fronting: bool, settled: bool) -> Clause:
        """Add a place, a time or a frequency to a clause, possibly fronted."""
        verb = clause.verb
        place, time, frequency = clause.place, None, None
        fronted: Literal["time", "place"] | None = None
        if verb.spots and place is None and not clause.negated and self.chance(0.3):
            place = self._place(verb)
            if fronting and place.preposition.case == "dat" and self.chance(0.35):
                fronted = "place"
        if fronted is None and not settled and not verb.timeless:
            time, frequency = self._when(clause)
            if time is not None and fronting and self.chance(0.6):
                fronted = "time"
        if place is clause.place and time is None and frequency is None:
            return clause
        return replace(clause, place=place, time=time, frequency=frequency, fronted=fronted)

    def _when(self, clause: Clause) -> tuple[Adverbial | None, Adverbial | None]:
        """Draw a time or a frequency, at most one per sentence."""
        verb, tense = clause.verb, clause.tense
        if self.chance(0.45) or not self.once("when"):
            return None, None
        habitual = verb.habitual and tense == "present"
        if self.chance(0.6):
            return self.choose(adv.TIMES[tense] + adv.HABITS if habitual else adv.TIMES[tense]), None
        if clause.negated or (verb.dative and verb.accusative):
            return None, None
        if habitual:
            return None, self.choose(adv.HABITUAL_FREQUENCIES)
        if tense == "perfect" and not _counted(clause.accusative):
            return None, self.choose(adv.PERFECT_FREQUENCIES)
        return None, None

    def _relate_last(self, verb: Verb, objects: _Objects) -> _Objects:
        """Add a relative clause to the last object, if it is last in both languages."""
        dative, accusative, complement, place = objects
        if place is not None:
            place = self._relate_governed(place)
        elif complement is not None:
            complement = self._relate_governed(complement)
        elif verb.recipient_last:
            pass
        elif isinstance(accusative, NounPhrase):
            accusative = self._with_relative(accusative)
        elif isinstance(dative, NounPhrase) and accusative is None:
            dative = self._with_relative(dative)
        return dative, accusative, complement, place

    def _relate_governed(self, phrase: PrepositionalPhrase) -> PrepositionalPhrase:
        if isinstance(phrase.nominal, NounPhrase):
            return PrepositionalPhrase(phrase.preposition, self._with_relative(phrase.nominal))
        return phrase

    def _with_relative(self, head: NounPhrase) -> NounPhrase:
        """Add a relative clause to a phrase, if its determiner and noun allow one."""
        frames = [frame for frame in _RELATIVE_FRAMES[head.noun] if frame[1] not in self.used]
        if head.possessor is not None or head.determiner not in ("the", "a") or head.number or not frames:
            return head
        gap, verb, preposition = self.choose(frames)
        self.used.add(verb)
        tense = self.choose(_TENSES[verb])
        if gap == "acc" and "perfect" in verb.tenses and self.chance(0.6):
            tense = "perfect"
        if head.noun not in PERSONS and gap == "nom" and tense not in v.NO_MODAL:
            tense = "present"
        negated = tense != "must" and self.chance(0.1)
        subject = None if gap == "nom" else self.subject(verb.subjects, definite=True, plain=True)
        number = agreement(head if subject is None else subject)
        objects = self._objects(verb, subject, negated, gap)
        return replace(
            head, relative=RelativeClause(gap, Clause(subject, number, verb, tense, negated, *objects), preposition)
        )


def _negate(phrase: NounPhrase) -> NounPhrase:
    """Negate an indefinite phrase with "kein"; make a counted one definite."""
    if phrase.possessor is not None or phrase.determiner not in ("a", "bare"):
        return phrase
    return replace(phrase, determiner="the" if phrase.number else "no", number=0)


def _counted(nominal: Nominal | None) -> bool:
    return isinstance(nominal, NounPhrase) and nominal.number > 0
