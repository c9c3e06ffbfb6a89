"""Prepositions, and places that combine them with nouns and cities."""

from __future__ import annotations

from lamina.demo.grammar import nouns as n
from lamina.demo.grammar.names import CITIES
from lamina.demo.grammar.words import Preposition, Spot

FOR = Preposition("for", "auf", "acc")
TO_SOMEBODY = Preposition("to", "mit", "dat")
OF = Preposition("of", "von", "dat")

_IN = Preposition("in", "in", "dat")
_INTO = Preposition("into", "in", "acc")
_AT = Preposition("at", "an", "dat")
_TO = Preposition("to", "zu", "dat")
_TO_CITY = Preposition("to", "nach", "dat")
_ON = Preposition("on", "auf", "dat")
_ONTO = Preposition("on", "auf", "acc")
_UNDER = Preposition("under", "unter", "dat")
_PUT_UNDER = Preposition("under", "unter", "acc")
_BESIDE = Preposition("next to", "neben", "dat")
_PUT_BESIDE = Preposition("next to", "neben", "acc")
_IN_FRONT_OF = Preposition("in front of", "vor", "dat")
_BEHIND = Preposition("behind", "hinter", "dat")

_ENTERED = (n.GARDEN, n.PARK, n.KITCHEN, n.ROOM, n.OFFICE, n.LIBRARY, n.HOUSE, n.SCHOOL, n.CHURCH, n.MUSEUM, n.HOTEL)
_LANDMARKS = (n.HOUSE, n.SCHOOL, n.CHURCH, n.MUSEUM, n.HOTEL, n.RESTAURANT, n.STATION)

IN_CITY = Spot(_IN, cities=CITIES)
AT_STATION = Spot(_AT, (n.STATION, n.LAKE))
NEAR = (Spot(_IN_FRONT_OF, _LANDMARKS), Spot(_BEHIND, _LANDMARKS))
AROUND = (
    Spot(_IN, (*_ENTERED, n.RESTAURANT, n.VILLAGE, n.CITY)),
    Spot(_IN, (*_ENTERED, n.RESTAURANT, n.VILLAGE, n.CITY)),
    IN_CITY,
    AT_STATION,
    *NEAR,
)
IN_THE_WILD = (Spot(_IN, (n.FOREST, n.GARDEN, n.PARK, n.VILLAGE)), AT_STATION, *NEAR)
AT_WORK = (Spot(_IN, (*_ENTERED, n.RESTAURANT)), IN_CITY)
AT_HOME = (Spot(_IN, (n.HOUSE, n.VILLAGE, n.CITY, n.HOTEL)), IN_CITY)
ON_SALE = (IN_CITY, Spot(_IN, (n.CITY, n.VILLAGE)))
RESTING = (Spot(_ON, n.FURNITURE), Spot(_UNDER, (n.TABLE, n.BED, n.CHAIR)), Spot(_BESIDE, (n.BED, n.SOFA, n.CHAIR)))
SEATS = (Spot(_ON, (n.CHAIR, n.SOFA, n.BED)), Spot(_IN, (n.GARDEN, n.PARK, n.KITCHEN, n.LIBRARY, n.RESTAURANT)), *NEAR)
PUTTING = (
    Spot(_ONTO, n.FURNITURE),
    Spot(_PUT_UNDER, (n.TABLE, n.BED, n.CHAIR)),
    Spot(_PUT_BESIDE, (n.BED, n.SOFA, n.CHAIR)),
)
TOWARDS = (
    Spot(_INTO, (*_ENTERED, n.RESTAURANT, n.FOREST, n.CITY)),
    Spot(_TO, (*_LANDMARKS, n.LAKE)),
)
INTO_THE_WILD = (Spot(_INTO, (n.FOREST, n.GARDEN, n.PARK, n.VILLAGE)),)
DRIVING = (Spot(_TO_CITY, cities=CITIES), Spot(_TO, (*_LANDMARKS, n.LAKE)))
ARRIVING = (IN_CITY, Spot(_AT, (n.STATION,)), Spot(_IN, (n.VILLAGE, n.CITY)))
