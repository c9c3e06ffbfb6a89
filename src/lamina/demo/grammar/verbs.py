"""Verbs. English: base, third person, participle. German: infinitive, third person, participle. Then the frame."""

from __future__ import annotations

from typing import Any

from lamina.demo.grammar import nouns as n
from lamina.demo.grammar import places as p
from lamina.demo.grammar.words import Noun, Tense, Verb

NO_MODAL: tuple[Tense, ...] = ("present", "perfect")
PRESENT: tuple[Tense, ...] = ("present",)


def _verb(
    english: str,
    german: str,
    subjects: tuple[Noun, ...],
    *,
    particle: str = "",
    present: tuple[str, str, str] | None = None,
    **frame: Any,
) -> Verb:
    """Make a verb: `_verb("call calls called", "an|rufen ruft angerufen", …)`; `ist` marks a perfect with sein."""
    base, third, participle = (f"{form} {particle}".strip() for form in english.split())
    dictionary_form, german_third, *auxiliary, german_participle = german.split()
    prefix, _, infinitive = dictionary_form.rpartition("|")
    return Verb(
        english=base,
        english_third=third,
        english_participle=participle,
        prefix=prefix,
        infinitive=prefix + infinitive,
        present=present or (infinitive.removesuffix("n"), german_third, infinitive),
        participle=german_participle,
        with_sein=bool(auxiliary),
        subjects=subjects,
        **frame,
    )


BE = _verb(
    "be is been",
    "sein ist ist gewesen",
    n.PERSONS + n.TEXTS + n.FOOD + n.THINGS + n.VEHICLES + n.FURNITURE + n.PLACES,
    present=("bin", "ist", "sind"),
    timeless=True,
    tenses=PRESENT,
)

READ = _verb(
    "read reads read", "lesen liest gelesen", n.PERSONS, accusative=n.TEXTS, spots=p.AROUND, most=99, habitual=True
)
WRITE = _verb(
    "write writes written",
    "schreiben schreibt geschrieben",
    n.PERSONS,
    accusative=n.WRITINGS,
    spots=p.AROUND,
    makes=True,
    most=99,
)
EAT = _verb("eat eats eaten", "essen isst gegessen", n.PERSONS, accusative=n.FOOD, spots=p.AROUND, most=3)
BUY = _verb(
    "buy buys bought",
    "kaufen kauft gekauft",
    n.GROWN_UPS,
    accusative=n.THINGS + n.VEHICLES + n.FOOD + (n.BOOK, n.NEWSPAPER) + n.FURNITURE,
    spots=p.ON_SALE,
    most=99,
)
SELL = _verb(
    "sell sells sold",
    "verkaufen verkauft verkauft",
    n.GROWN_UPS,
    accusative=n.THINGS + n.VEHICLES + n.FOOD + (n.HORSE, n.BOOK) + n.FURNITURE,
    spots=p.ON_SALE,
    most=99,
)
NEED = _verb(
    "need needs needed",
    "brauchen braucht gebraucht",
    n.PERSONS,
    accusative=n.THINGS + n.VEHICLES + (n.KEY, n.BOOK) + n.FURNITURE + n.FOOD,
    most=99,
    tenses=PRESENT,
)
CARRY = _verb(
    "carry carries carried",
    "tragen trägt getragen",
    n.PERSONS,
    accusative=(n.SUITCASE, n.BAG, n.CHAIR, n.LAMP, n.PICTURE),
    spots=p.TOWARDS[:1],
    most=3,
)
SEE = _verb(
    "see sees seen",
    "sehen sieht gesehen",
    n.PERSONS + n.PETS,
    accusative=n.PERSONS + n.ANIMALS + n.VEHICLES + (n.BUS, n.TRAIN),
    spots=(p.IN_CITY, *p.IN_THE_WILD),
    most=99,
    habitual=True,
    tenses=("present", "perfect", "can"),
)
LOOK_FOR = _verb(
    "look looks looked",
    "suchen sucht gesucht",
    n.PERSONS,
    particle="for",
    accusative=n.PERSONS + n.PETS + n.LOSABLE + (n.BOOK, n.LETTER),
    spots=p.AROUND,
)
FIND = _verb(
    "find finds found",
    "finden findet gefunden",
    n.PERSONS,
    accusative=n.LOSABLE + n.PETS + (n.BOOK, n.LETTER),
    spots=p.AROUND + p.IN_THE_WILD,
    tenses=("present", "perfect", "can"),
)
LOSE = _verb(
    "lose loses lost",
    "verlieren verliert verloren",
    n.PERSONS,
    accusative=n.LOSABLE,
    spots=p.AROUND + p.IN_THE_WILD,
    most=3,
    tenses=NO_MODAL,
)
REPAIR = _verb("repair repairs repaired", "reparieren repariert repariert", n.GROWN_UPS, accusative=n.DEVICES)
CHASE = _verb(
    "chase chases chased",
    "jagen jagt gejagt",
    n.HUNTERS,
    accusative=n.PREY,
    spots=p.IN_THE_WILD[:1],
    habitual=True,
    tenses=NO_MODAL,
)
VISIT = _verb(
    "visit visits visited",
    "besuchen besucht besucht",
    n.PERSONS,
    accusative=(*n.PERSONS, n.MUSEUM, n.CHURCH, n.CITY, n.VILLAGE, n.LIBRARY, n.SCHOOL),
    habitual=True,
)

CALL = _verb("call calls called", "an|rufen ruft angerufen", n.PERSONS, accusative=n.PERSONS, habitual=True)
INVITE = _verb("invite invites invited", "ein|laden lädt eingeladen", n.PERSONS, accusative=n.PERSONS, most=99)
FETCH = _verb(
    "fetch fetches fetched",
    "ab|holen holt abgeholt",
    n.GROWN_UPS,
    accusative=n.PERSONS,
    spots=p.ARRIVING[1:2],
    habitual=True,
)
OPEN = _verb(
    "open opens opened",
    "auf|machen macht aufgemacht",
    n.PERSONS,
    accusative=(n.DOOR, n.WINDOW, n.SUITCASE, n.BAG, n.LETTER, n.UMBRELLA),
    most=3,
)
CLOSE = _verb(
    "close closes closed",
    "zu|machen macht zugemacht",
    n.PERSONS,
    accusative=(n.DOOR, n.WINDOW, n.SUITCASE, n.BAG, n.UMBRELLA),
    most=3,
)
TIDY_UP = _verb(
    "tidy tidies tidied",
    "auf|räumen räumt aufgeräumt",
    n.PERSONS,
    particle="up",
    accusative=(n.ROOM, n.KITCHEN, n.OFFICE, n.HOUSE),
    most=4,
    habitual=True,
)
TRY_ON = _verb(
    "try tries tried",
    "an|probieren probiert anprobiert",
    n.PERSONS,
    particle="on",
    accusative=n.CLOTHES,
    most=12,
)

HELP = _verb("help helps helped", "helfen hilft geholfen", n.PERSONS, dative=n.PERSONS, spots=p.AT_WORK, habitual=True)
THANK = _verb("thank thanks thanked", "danken dankt gedankt", n.PERSONS, dative=n.PERSONS)
FOLLOW = _verb(
    "follow follows followed",
    "folgen folgt ist gefolgt",
    n.PERSONS + n.PETS,
    dative=n.PERSONS + n.PETS,
    spots=p.TOWARDS[:1],
    habitual=True,
    tenses=NO_MODAL,
)
LISTEN_TO = _verb(
    "listen listens listened",
    "zu|hören hört zugehört",
    n.PERSONS,
    particle="to",
    dative=n.PERSONS,
    habitual=True,
)
BELONG_TO = _verb(
    "belong belongs belonged",
    "gehören gehört gehört",
    n.THINGS + n.VEHICLES + n.FURNITURE + n.PETS + (n.HORSE, n.KEY, n.BOOK, n.HOUSE, n.GARDEN, n.HOTEL, n.RESTAURANT),
    particle="to",
    dative=n.PERSONS,
    timeless=True,
    tenses=PRESENT,
)

_GIFTS = n.THINGS + n.FOOD + (n.KEY, n.BOOK, n.LETTER, n.NEWSPAPER)
GIVE = _verb("give gives given", "geben gibt gegeben", n.PERSONS, accusative=_GIFTS, dative=n.PERSONS, most=20)
SHOW = _verb(
    "show shows shown",
    "zeigen zeigt gezeigt",
    n.PERSONS,
    accusative=n.THINGS + n.VEHICLES + n.TEXTS + n.PETS + (n.HORSE, n.HOUSE, n.GARDEN, n.ROOM),
    dative=n.PERSONS,
    most=30,
)
SEND = _verb(
    "send sends sent",
    "schicken schickt geschickt",
    n.GROWN_UPS,
    accusative=(*n.TEXTS, n.PICTURE, n.CAMERA, n.WATCH, n.SHIRT),
    dative=n.PERSONS,
    most=99,
)
BRING = _verb(
    "bring brings brought",
    "bringen bringt gebracht",
    n.PERSONS,
    accusative=(*_GIFTS, n.CHAIR),
    dative=n.PERSONS,
)
EXPLAIN = _verb(
    "explain explains explained",
    "erklären erklärt erklärt",
    n.GROWN_UPS,
    accusative=(*n.WRITINGS, n.PICTURE),
    dative=n.PERSONS,
    recipient_last=True,
)

WAIT = _verb(
    "wait waits waited",
    "warten wartet gewartet",
    n.PERSONS,
    preposition=p.FOR,
    complement=(*n.PERSONS, n.BUS, n.TRAIN, n.LETTER),
    spots=p.AROUND,
    habitual=True,
)
TALK = _verb(
    "talk talks talked",
    "sprechen spricht gesprochen",
    n.PERSONS,
    preposition=p.TO_SOMEBODY,
    complement=n.PERSONS,
    spots=p.AROUND,
    habitual=True,
)
DREAM = _verb(
    "dream dreams dreamt",
    "träumen träumt geträumt",
    n.PERSONS,
    preposition=p.OF,
    complement=n.VEHICLES + n.ANIMALS + (n.HOUSE, n.GARDEN, n.LAKE, n.FOREST, n.CITY, n.VILLAGE),
    habitual=True,
    tenses=NO_MODAL,
)

SLEEP = _verb("sleep sleeps slept", "schlafen schläft geschlafen", n.PERSONS + n.PETS, spots=p.AROUND, habitual=True)
WORK = _verb("work works worked", "arbeiten arbeitet gearbeitet", n.GROWN_UPS, spots=p.AT_WORK, habitual=True)
DANCE = _verb("dance dances danced", "tanzen tanzt getanzt", n.PERSONS, spots=p.AROUND, habitual=True)
FALL_ASLEEP = _verb(
    "fall falls fallen",
    "ein|schlafen schläft ist eingeschlafen",
    n.PERSONS + n.PETS,
    particle="asleep",
    spots=(*p.SEATS[:2], *p.AT_WORK[:1]),
    tenses=NO_MODAL,
)

GO = _verb("go goes gone", "gehen geht ist gegangen", n.PERSONS, spots=p.TOWARDS, spot_required=True, habitual=True)
DRIVE = _verb(
    "drive drives driven", "fahren fährt ist gefahren", n.GROWN_UPS, spots=p.DRIVING, spot_required=True, habitual=True
)
RUN = _verb(
    "run runs run",
    "laufen läuft ist gelaufen",
    (*n.CHILDREN, n.DOG, n.CAT, n.HORSE, n.FOX, n.HARE, n.MOUSE, n.MONKEY),
    spots=p.INTO_THE_WILD,
    spot_required=True,
    habitual=True,
    tenses=NO_MODAL,
)
ARRIVE = _verb(
    "arrive arrives arrived",
    "an|kommen kommt ist angekommen",
    (*n.PERSONS, n.BUS, n.TRAIN),
    spots=p.ARRIVING,
    spot_required=True,
    tenses=NO_MODAL,
)
LIVE = _verb(
    "live lives lived",
    "wohnen wohnt gewohnt",
    n.PERSONS,
    spots=p.AT_HOME,
    spot_required=True,
    timeless=True,
)
SIT = _verb(
    "sit sits sat", "sitzen sitzt gesessen", n.PERSONS + n.PETS, spots=p.SEATS, spot_required=True, habitual=True
)
LIE = _verb(
    "lie lies lain",
    "liegen liegt gelegen",
    n.FLAT + n.PETS,
    spots=p.RESTING,
    spot_required=True,
    tenses=PRESENT,
)
LAY = _verb(
    "lay lays laid", "legen legt gelegt", n.PERSONS, accusative=n.FLAT, spots=p.PUTTING, spot_required=True, most=4
)

SAY = _verb("say says said", "sagen sagt gesagt", n.PERSONS, tenses=NO_MODAL, timeless=True)
BELIEVE = _verb("believe believes believed", "glauben glaubt geglaubt", n.PERSONS, tenses=PRESENT, timeless=True)
HOPE = _verb("hope hopes hoped", "hoffen hofft gehofft", n.PERSONS, tenses=PRESENT, timeless=True)
KNOW = _verb(
    "know knows known",
    "wissen weiß gewusst",
    n.PERSONS,
    present=("weiß", "weiß", "wissen"),
    tenses=PRESENT,
    timeless=True,
)

TRANSITIVE = (
    *(READ, WRITE, EAT, BUY, SELL, NEED, CARRY, SEE, LOOK_FOR, FIND, LOSE, REPAIR, CHASE, VISIT),
    *(CALL, INVITE, FETCH, OPEN, CLOSE, TIDY_UP, TRY_ON),
)
ABOUT_PERSONS = (HELP, THANK, FOLLOW, LISTEN_TO, GIVE, SHOW, SEND, BRING, EXPLAIN, WAIT, TALK, DREAM)
WITHOUT_OBJECT = (SLEEP, WORK, DANCE, FALL_ASLEEP, GO, DRIVE, RUN, ARRIVE, LIVE, SIT, LIE)
ACTIONS = (*TRANSITIVE, *ABOUT_PERSONS, *WITHOUT_OBJECT, LAY, BELONG_TO)
REPORTING = (SAY, BELIEVE, HOPE, KNOW)
VERBS = (BE, *ACTIONS, *REPORTING)
