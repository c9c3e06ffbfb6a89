"""Nouns, in groups used by verbs and places."""

from __future__ import annotations

from lamina.demo.grammar import adjectives as adj
from lamina.demo.grammar.words import Adjective, Gender, Noun

_GENDERS: dict[str, Gender] = {"der": "m", "die": "f", "das": "n"}


def _noun(
    english: str,
    german: str,
    adjectives: tuple[Adjective, ...],
    colours: tuple[Adjective, ...] = (),
    *,
    oblique: str = "",
    ownable: bool = True,
    relational: bool = False,
) -> Noun:
    """Make a noun: `_noun("man men", "der Mann Männer", …)`; without plurals it is used in the singular only."""
    singular, *plural = english.split()
    article, german_singular, *german_plural = german.split()
    return Noun(
        english=singular,
        english_plural="".join(plural),
        german=german_singular,
        gender=_GENDERS[article],
        german_plural="".join(german_plural),
        adjectives=adjectives,
        colours=colours,
        oblique=oblique or german_singular,
        ownable=ownable,
        relational=relational,
        has_plural=bool(plural),
    )


ADULTS = (
    _noun("man men", "der Mann Männer", adj.OF_ADULTS, ownable=False),
    _noun("woman women", "die Frau Frauen", adj.OF_ADULTS, ownable=False),
    _noun("teacher teachers", "der Lehrer Lehrer", adj.OF_ADULTS),
    _noun("doctor doctors", "der Arzt Ärzte", adj.OF_ADULTS),
    _noun("student students", "der Student Studenten", adj.OF_ADULTS, oblique="Studenten"),
    _noun("neighbour neighbours", "der Nachbar Nachbarn", adj.OF_ADULTS, oblique="Nachbarn"),
    _noun("colleague colleagues", "der Kollege Kollegen", adj.OF_ADULTS, oblique="Kollegen"),
    _noun("baker bakers", "der Bäcker Bäcker", adj.OF_ADULTS, ownable=False),
    _noun("farmer farmers", "der Bauer Bauern", adj.OF_ADULTS, oblique="Bauern", ownable=False),
    _noun("nurse nurses", "die Krankenschwester Krankenschwestern", adj.OF_ADULTS, ownable=False),
    _noun("waitress waitresses", "die Kellnerin Kellnerinnen", adj.OF_ADULTS, ownable=False),
    _noun("actress actresses", "die Schauspielerin Schauspielerinnen", adj.OF_ADULTS, ownable=False),
    _noun("friend friends", "der Freund Freunde", adj.OF_ADULTS, relational=True),
)
CHILDREN = (
    _noun("child children", "das Kind Kinder", adj.OF_CHILDREN),
    _noun("boy boys", "der Junge Jungen", adj.OF_CHILDREN, oblique="Jungen", ownable=False),
    _noun("girl girls", "das Mädchen Mädchen", adj.OF_CHILDREN, ownable=False),
)
RELATIVES = (
    _noun("mother", "die Mutter", adj.OF_RELATIVES, relational=True),
    _noun("father", "der Vater", adj.OF_RELATIVES, relational=True),
    _noun("grandmother", "die Großmutter", adj.OF_RELATIVES, relational=True),
    _noun("sister sisters", "die Schwester Schwestern", adj.OF_RELATIVES, relational=True),
    _noun("brother brothers", "der Bruder Brüder", adj.OF_RELATIVES, relational=True),
    _noun("daughter daughters", "die Tochter Töchter", adj.OF_RELATIVES, relational=True),
    _noun("son sons", "der Sohn Söhne", adj.OF_RELATIVES, relational=True),
    _noun("uncle uncles", "der Onkel Onkel", adj.OF_RELATIVES, relational=True),
)
GROWN_UPS = ADULTS + RELATIVES
PERSONS = GROWN_UPS + CHILDREN

DOG = _noun("dog dogs", "der Hund Hunde", adj.OF_ANIMALS, adj.COATS)
CAT = _noun("cat cats", "die Katze Katzen", adj.OF_ANIMALS, adj.COATS)
HORSE = _noun("horse horses", "das Pferd Pferde", adj.OF_ANIMALS, adj.COATS)
BIRD = _noun("bird birds", "der Vogel Vögel", adj.OF_ANIMALS, adj.COLOURS, ownable=False)
MOUSE = _noun("mouse mice", "die Maus Mäuse", adj.OF_ANIMALS, adj.COATS, ownable=False)
HARE = _noun("hare hares", "der Hase Hasen", adj.OF_ANIMALS, oblique="Hasen", ownable=False)
MONKEY = _noun("monkey monkeys", "der Affe Affen", adj.OF_ANIMALS, oblique="Affen", ownable=False)
FOX = _noun("fox foxes", "der Fuchs Füchse", adj.OF_ANIMALS, ownable=False)
PETS = (DOG, CAT)
HUNTERS = (DOG, CAT, FOX)
PREY = (MOUSE, HARE, BIRD)
ANIMALS = (DOG, CAT, HORSE, BIRD, MOUSE, HARE, MONKEY, FOX)

BOOK = _noun("book books", "das Buch Bücher", adj.OF_TEXTS)
LETTER = _noun("letter letters", "der Brief Briefe", adj.OF_TEXTS)
NEWSPAPER = _noun("newspaper newspapers", "die Zeitung Zeitungen", adj.OF_TEXTS)
WRITINGS = (
    BOOK,
    LETTER,
    _noun("poem poems", "das Gedicht Gedichte", adj.OF_TEXTS),
    _noun("report reports", "der Bericht Berichte", adj.OF_TEXTS),
    _noun("story stories", "die Geschichte Geschichten", adj.OF_TEXTS),
)
TEXTS = (*WRITINGS, NEWSPAPER)

FOOD = (
    _noun("apple apples", "der Apfel Äpfel", adj.OF_FOOD),
    _noun("cake cakes", "der Kuchen Kuchen", adj.OF_FOOD),
    _noun("egg eggs", "das Ei Eier", adj.OF_FOOD),
    _noun("tomato tomatoes", "die Tomate Tomaten", adj.OF_FOOD),
    _noun("banana bananas", "die Banane Bananen", adj.OF_FOOD),
    _noun("potato potatoes", "die Kartoffel Kartoffeln", adj.OF_FOOD),
)

COAT = _noun("coat coats", "der Mantel Mäntel", adj.OF_THINGS, adj.COLOURS)
HAT = _noun("hat hats", "der Hut Hüte", adj.OF_THINGS, adj.COLOURS)
SHIRT = _noun("shirt shirts", "das Hemd Hemden", adj.OF_THINGS, adj.COLOURS)
CLOTHES = (COAT, HAT, SHIRT)
KEY = _noun("key keys", "der Schlüssel Schlüssel", (adj.OLD, adj.NEW, adj.BIG, adj.SMALL))
BAG = _noun("bag bags", "die Tasche Taschen", adj.OF_THINGS, adj.COLOURS)
WATCH = _noun("watch watches", "die Uhr Uhren", adj.OF_THINGS)
CAMERA = _noun("camera cameras", "die Kamera Kameras", adj.OF_THINGS)
UMBRELLA = _noun("umbrella umbrellas", "der Regenschirm Regenschirme", adj.OF_THINGS, adj.COLOURS)
PICTURE = _noun("picture pictures", "das Bild Bilder", adj.OF_THINGS)
CUP = _noun("cup cups", "die Tasse Tassen", adj.OF_THINGS, adj.COLOURS)
LAMP = _noun("lamp lamps", "die Lampe Lampen", adj.OF_THINGS, adj.COLOURS)
SUITCASE = _noun("suitcase suitcases", "der Koffer Koffer", adj.OF_THINGS, adj.COLOURS)
THINGS = (*CLOTHES, BAG, WATCH, CAMERA, UMBRELLA, PICTURE, CUP, LAMP, SUITCASE)
LOSABLE = (KEY, BAG, WATCH, CAMERA, UMBRELLA, HAT, SUITCASE)
FLAT = (BOOK, LETTER, NEWSPAPER, KEY, BAG, WATCH, CAMERA, PICTURE, HAT)

DOOR = _noun("door doors", "die Tür Türen", adj.OF_THINGS[:5], adj.COLOURS, ownable=False)
WINDOW = _noun("window windows", "das Fenster Fenster", adj.OF_THINGS[:4], ownable=False)

CAR = _noun("car cars", "das Auto Autos", adj.OF_VEHICLES, adj.COLOURS)
BICYCLE = _noun("bicycle bicycles", "das Fahrrad Fahrräder", adj.OF_VEHICLES, adj.COLOURS)
BOAT = _noun("boat boats", "das Boot Boote", adj.OF_VEHICLES, adj.COLOURS)
BUS = _noun("bus buses", "der Bus Busse", adj.OF_VEHICLES[:4], ownable=False)
TRAIN = _noun("train trains", "der Zug Züge", adj.OF_VEHICLES[:4], ownable=False)
VEHICLES = (CAR, BICYCLE, BOAT)
DEVICES = (CAR, BICYCLE, BOAT, WATCH, CAMERA, LAMP)

TABLE = _noun("table tables", "der Tisch Tische", adj.OF_THINGS)
CHAIR = _noun("chair chairs", "der Stuhl Stühle", adj.OF_THINGS)
BED = _noun("bed beds", "das Bett Betten", adj.OF_THINGS)
SOFA = _noun("sofa sofas", "das Sofa Sofas", adj.OF_THINGS, adj.COLOURS)
FURNITURE = (TABLE, CHAIR, BED, SOFA)

GARDEN = _noun("garden gardens", "der Garten Gärten", adj.OF_OUTDOORS)
PARK = _noun("park parks", "der Park Parks", adj.OF_OUTDOORS, ownable=False)
FOREST = _noun("forest forests", "der Wald Wälder", (*adj.OF_OUTDOORS, adj.DARK), ownable=False)
LAKE = _noun("lake lakes", "der See Seen", adj.OF_OUTDOORS[1:], ownable=False)
VILLAGE = _noun("village villages", "das Dorf Dörfer", adj.OF_OUTDOORS, ownable=False)
CITY = _noun("city cities", "die Stadt Städte", adj.OF_BUILDINGS, ownable=False)
KITCHEN = _noun("kitchen kitchens", "die Küche Küchen", adj.OF_ROOMS)
ROOM = _noun("room rooms", "das Zimmer Zimmer", adj.OF_ROOMS)
OFFICE = _noun("office offices", "das Büro Büros", adj.OF_ROOMS)
LIBRARY = _noun("library libraries", "die Bibliothek Bibliotheken", adj.OF_BUILDINGS, ownable=False)
HOUSE = _noun("house houses", "das Haus Häuser", adj.OF_ROOMS)
SCHOOL = _noun("school schools", "die Schule Schulen", adj.OF_BUILDINGS, ownable=False)
CHURCH = _noun("church churches", "die Kirche Kirchen", adj.OF_BUILDINGS, ownable=False)
MUSEUM = _noun("museum museums", "das Museum Museen", adj.OF_BUILDINGS, ownable=False)
HOTEL = _noun("hotel hotels", "das Hotel Hotels", adj.OF_BUILDINGS, ownable=False)
RESTAURANT = _noun("restaurant restaurants", "das Restaurant Restaurants", adj.OF_BUILDINGS, ownable=False)
STATION = _noun("station stations", "der Bahnhof Bahnhöfe", adj.OF_BUILDINGS[:4], ownable=False)
PLACES = (
    *(GARDEN, PARK, FOREST, LAKE, VILLAGE, CITY, KITCHEN, ROOM, OFFICE),
    *(LIBRARY, HOUSE, SCHOOL, CHURCH, MUSEUM, HOTEL, RESTAURANT, STATION),
)

NOUNS = (
    *(*PERSONS, *ANIMALS, *TEXTS, *FOOD, *THINGS, KEY, DOOR, WINDOW),
    *(*VEHICLES, BUS, TRAIN, *FURNITURE, *PLACES),
)
