"""Adverbials of time and frequency by tense, and conjunctions."""

from __future__ import annotations

from lamina.demo.grammar.words import Adverbial, Conjunction, Tense

TODAY = Adverbial("today", "heute")
ON_SUNDAY = Adverbial("on Sunday", "am Sonntag")
HABITS = (
    Adverbial("every day", "jeden Tag"),
    Adverbial("every morning", "jeden Morgen"),
    Adverbial("in the evening", "am Abend"),
    Adverbial("in summer", "im Sommer"),
)
RECENT = (TODAY, Adverbial("this morning", "heute Morgen"), Adverbial("this week", "diese Woche"))
COMING = (TODAY, Adverbial("tomorrow", "morgen"), Adverbial("next week", "nächste Woche"), ON_SUNDAY)
TIMES: dict[Tense, tuple[Adverbial, ...]] = {
    "present": (TODAY,),
    "perfect": RECENT,
    "can": COMING,
    "must": COMING,
    "want": COMING,
}

NEVER = Adverbial("never", "nie")
OFTEN = Adverbial("often", "oft")
HABITUAL_FREQUENCIES = (OFTEN, NEVER, Adverbial("always", "immer"), Adverbial("rarely", "selten"))
PERFECT_FREQUENCIES = (NEVER, Adverbial("already", "schon"))
ADVERBIALS = (*HABITS, *RECENT, *COMING, *HABITUAL_FREQUENCIES, *PERFECT_FREQUENCIES)

THAT = Conjunction("that", "dass")
WHETHER = Conjunction("whether", "ob")
BECAUSE = Conjunction("because", "weil")
ALTHOUGH = Conjunction("although", "obwohl", english_comma=True)
IF = Conjunction("if", "wenn")
WHILE = Conjunction("while", "während")
BEFORE = Conjunction("before", "bevor")
BUT = Conjunction("but", "aber", english_comma=True)
AND = Conjunction("and", "und", german_comma=False)
REASONS = (BECAUSE, ALTHOUGH)
CIRCUMSTANCES = (IF, WHILE, BEFORE)
COORDINATING = (BUT, AND)
CONJUNCTIONS = (THAT, WHETHER, BECAUSE, ALTHOUGH, IF, WHILE, BEFORE, BUT, AND)
