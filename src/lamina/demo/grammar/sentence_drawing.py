"""Random sentences of one or two clauses."""

from __future__ import annotations

from dataclasses import replace

from lamina.demo.grammar import adverbials as adv
from lamina.demo.grammar import nouns as n
from lamina.demo.grammar import verbs as v
from lamina.demo.grammar.clause_drawing import ClauseDrawer
from lamina.demo.grammar.phrase_drawing import PERSONS
from lamina.demo.grammar.syntax import Clause, Name, Nominal, NounPhrase, Pronoun, Sentence
from lamina.demo.grammar.words import Tense, Verb

_CHILDREN = frozenset(n.CHILDREN)
_MAIN = (*v.ACTIONS, *(v.BE,) * 3)
_DOING = tuple(verb for verb in v.ACTIONS if verb.subjects[0] in PERSONS)
_CHOICES = tuple(verb for verb in _DOING if verb not in (v.LOSE, v.FIND, v.LIVE, v.NEED, v.FALL_ASLEEP))
_REASONS = (*(verb for verb in _DOING if verb is not v.FALL_ASLEEP), *(v.BE,) * 20, *(v.NEED,) * 4)
_CONDITIONS = (v.BE,) * 12 + (v.HELP, v.CALL, v.VISIT, v.SEE, v.WAIT, v.TALK, v.LISTEN_TO, v.SLEEP, v.WORK)
_EVENTS = (
    *(v.READ, v.WRITE, v.EAT, v.CARRY, v.CALL, v.VISIT, v.FETCH, v.OPEN, v.CLOSE, v.TIDY_UP, v.TRY_ON, v.HELP, v.THANK),
    *(v.GIVE, v.SHOW, v.BRING, v.EXPLAIN, v.TALK, v.SLEEP, v.WORK, v.DANCE, v.GO, v.DRIVE, v.LAY),
)
_PROCESSES = (
    *(v.READ, v.WRITE, v.EAT, v.LOOK_FOR, v.REPAIR, v.TIDY_UP, v.HELP, v.LISTEN_TO, v.WAIT, v.TALK),
    *(v.SLEEP, v.WORK, v.DANCE, v.SIT, v.EXPLAIN, v.CARRY),
)
_DOUBTING = (v.BELIEVE, v.KNOW)
_PRESENT: tuple[Tense, ...] = ("present",)
_CAUSES: tuple[Tense, ...] = ("perfect", "perfect", "must", "want")
_CONSEQUENCES: tuple[Tense, ...] = ("present", "can", "must", "want")


class SentenceDrawer(ClauseDrawer):
    """Draws random sentences."""

    def sentence(self) -> Sentence:
        """Draw a sentence."""
        self.begin()
        kind = self.draw()
        if kind < 0.5:
            return Sentence(self.clause(_MAIN, fronting=True))
        if kind < 0.63:
            return self._report()
        if kind < 0.79:
            return self._reason()
        if kind < 0.84:
            return self._condition()
        if kind < 0.88:
            return self._sequence()
        if kind < 0.92:
            return self._simultaneity()
        first = self.clause(v.ACTIONS, relatives=False)
        return Sentence(first, self.choose(adv.COORDINATING), self.clause(v.ACTIONS, relatives=False))

    def _report(self) -> Sentence:
        """Draw reported speech: somebody says, believes, hopes or knows that, or does not know whether."""
        main = self.clause(v.REPORTING, relatives=False, settled=True)
        if main.verb in _DOUBTING and self.chance(0.4):
            main = replace(main, negated=True)
        conjunction = adv.WHETHER if main.verb is v.KNOW and main.negated else adv.THAT
        return Sentence(main, conjunction, self.clause(_MAIN))

    def _reason(self) -> Sentence:
        """Draw a sentence with "because" or "although"."""
        main = self.clause(_CHOICES, settled=True)
        reason = self._related_clause(main, _REASONS, _CAUSES)
        if reason.verb is v.BE and isinstance(main.subject, NounPhrase):  # no "the hungry boy …, because he is hungry"
            main = replace(main, subject=replace(main.subject, adjectives=()))
        return Sentence(main, self.choose(adv.REASONS), reason, other_first=self.chance(0.4))

    def _condition(self) -> Sentence:
        subject = self.subject(n.GROWN_UPS, definite=True, plain=True)
        condition = self.clause(_CONDITIONS, subject=subject, tenses=_PRESENT, settled=True, relatives=False)
        main = self._related_clause(condition, _EVENTS, _CONSEQUENCES)
        return Sentence(main, adv.IF, condition, other_first=self.chance(0.6))

    def _sequence(self) -> Sentence:
        main = self.clause(_EVENTS, tenses=_PRESENT, settled=True)
        after = self._related_clause(main, _EVENTS, _PRESENT, settled=True)
        return Sentence(main, adv.BEFORE, after, other_first=self.chance(0.4))

    def _simultaneity(self) -> Sentence:
        main = self.clause(_PROCESSES, tenses=_PRESENT, settled=True)
        meanwhile = self.clause(_PROCESSES, tenses=_PRESENT, settled=True)
        return Sentence(main, adv.WHILE, meanwhile, other_first=self.chance(0.4))

    def _related_clause(
        self, other: Clause, verbs: tuple[Verb, ...], tenses: tuple[Tense, ...], *, settled: bool = False
    ) -> Clause:
        """Draw a clause whose subject usually is a pronoun for the subject of the other clause."""
        subject: Nominal | None = _pronoun_for(other.subject)
        if subject is None or self.chance(0.15):
            subject = self.subject(n.GROWN_UPS, definite=True, plain=True)
        elif isinstance(other.subject, NounPhrase) and other.subject.noun in _CHILDREN:
            verbs = tuple(verb for verb in verbs if frozenset(verb.subjects) >= _CHILDREN)
        return self.clause(verbs, subject=subject, tenses=tenses, settled=settled)


def _pronoun_for(nominal: Nominal | None) -> Pronoun | None:
    """Pronoun used by both languages; None for things, and for German neuters such as child and girl."""
    if isinstance(nominal, Pronoun):
        return nominal
    if isinstance(nominal, Name):
        return Pronoun("she" if nominal.gender == "f" else "he")
    if nominal is None or nominal.noun not in PERSONS:
        return None
    if nominal.plural:
        return Pronoun("they")
    return {"m": Pronoun("he"), "f": Pronoun("she"), "n": None}[nominal.noun.gender]
