"""Adjectives, grouped by the kinds of nouns they modify."""

from __future__ import annotations

from lamina.demo.grammar.words import Adjective


def _adjective(english: str, german: str, stem: str = "") -> Adjective:
    return Adjective(english, german, stem or german)


OLD = _adjective("old", "alt")
NEW = _adjective("new", "neu")
YOUNG = _adjective("young", "jung")
BIG = _adjective("big", "groß")
SMALL = _adjective("small", "klein")
LONG = _adjective("long", "lang")
SHORT = _adjective("short", "kurz")
BEAUTIFUL = _adjective("beautiful", "schön")
EXPENSIVE = _adjective("expensive", "teuer", "teur")
CHEAP = _adjective("cheap", "billig")
MODERN = _adjective("modern", "modern")
DARK = _adjective("dark", "dunkel", "dunkl")
QUIET = _adjective("quiet", "ruhig")
FAST = _adjective("fast", "schnell")
SLOW = _adjective("slow", "langsam")
RED = _adjective("red", "rot")
BLUE = _adjective("blue", "blau")
GREEN = _adjective("green", "grün")
WHITE = _adjective("white", "weiß")
BLACK = _adjective("black", "schwarz")
FRIENDLY = _adjective("friendly", "freundlich")
TIRED = _adjective("tired", "müde", "müd")
HUNGRY = _adjective("hungry", "hungrig")
HAPPY = _adjective("happy", "glücklich")
SAD = _adjective("sad", "traurig")
CLEVER = _adjective("clever", "klug")
FAMOUS = _adjective("famous", "berühmt")
RICH = _adjective("rich", "reich")
POOR = _adjective("poor", "arm")
POLITE = _adjective("polite", "höflich")
FRESH = _adjective("fresh", "frisch")
DELICIOUS = _adjective("delicious", "lecker")
INTERESTING = _adjective("interesting", "interessant")
BORING = _adjective("boring", "langweilig")
IMPORTANT = _adjective("important", "wichtig")
FUNNY = _adjective("funny", "lustig")

COLOURS = (RED, BLUE, GREEN, WHITE, BLACK)
COATS = (WHITE, BLACK)
MOODS: tuple[Adjective, ...] = (TIRED, HUNGRY, HAPPY, SAD)

OF_ADULTS = (OLD, YOUNG, FRIENDLY, TIRED, HUNGRY, HAPPY, SAD, CLEVER, FAMOUS, RICH, POOR, POLITE)
OF_CHILDREN = (SMALL, FRIENDLY, TIRED, HUNGRY, HAPPY, SAD, CLEVER, POLITE)
OF_RELATIVES = (FRIENDLY, TIRED, HUNGRY, HAPPY, SAD, CLEVER, FAMOUS, POLITE)
OF_ANIMALS = (OLD, YOUNG, BIG, SMALL, HUNGRY, TIRED, BEAUTIFUL)
OF_TEXTS = (OLD, NEW, LONG, SHORT, INTERESTING, BORING, IMPORTANT, FUNNY)
OF_FOOD = (BIG, SMALL, FRESH, DELICIOUS, EXPENSIVE, CHEAP)
OF_THINGS = (OLD, NEW, BIG, SMALL, BEAUTIFUL, EXPENSIVE, CHEAP)
OF_VEHICLES = (OLD, NEW, BIG, SMALL, FAST, SLOW, MODERN, EXPENSIVE)
OF_BUILDINGS = (OLD, NEW, BIG, SMALL, BEAUTIFUL, MODERN, FAMOUS)
OF_ROOMS = (OLD, NEW, BIG, SMALL, BEAUTIFUL, DARK, QUIET)
OF_OUTDOORS = (OLD, BIG, SMALL, BEAUTIFUL, QUIET)
