"""Typical errors by language: small words, endings, letters. Other languages get the letters of their text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ErrorTable:
    """A language's typical errors, from which synthetic ones are drawn."""

    letters: str = ""  # for misspellings; empty: those of the line
    sets: tuple[tuple[str, ...], ...] = ()  # words that are confused with each other
    omitted: frozenset[str] = frozenset()  # words that are left out or inserted by mistake
    endings: tuple[tuple[str, ...], ...] = ()  # endings that are confused with each other
    sounds: tuple[tuple[str, ...], ...] = ()  # spellings that sound alike


ENGLISH = ErrorTable(
    "abcdefghijklmnopqrstuvwxyz",
    (
        ("a", "an", "the"),
        ("in", "on", "at", "to", "for", "of", "by", "with", "from", "into", "about"),
        ("is", "are", "was", "were", "be", "been", "being"),
        ("has", "have", "had", "having"),
        ("do", "does", "did", "doing", "done"),
        ("this", "that", "these", "those"),
        ("much", "many", "more", "most"),
        ("there", "their", "they", "them"),
        ("its", "it", "it's"),
        ("who", "which", "that", "whom"),
        ("than", "then"),
        ("can", "could", "will", "would", "may", "might", "should"),
        ("other", "another", "others"),
        ("he", "him", "his"),
        ("she", "her", "hers"),
        ("we", "us", "our"),
        ("i", "me", "my"),
        ("your", "you"),
        ("some", "any"),
        ("good", "well"),
        ("become", "became"),
        ("lose", "loose"),
        ("effect", "affect"),
        ("advice", "advise"),
        ("because", "becouse", "becuase"),
        ("so", "such"),
        ("also", "too"),
        ("every", "each", "all"),
    ),
    frozenset({"a", "an", "the", "of", "to", "in", "for", "that", "is", "are", "on", ",", "and", "have", "will", "it"}),
    (("ing", "ed", "s", ""), ("ies", "y"), ("tion", "te"), ("ly", ""), ("er", "est"), ("ful", "full")),
    (
        ("a", "e", "i", "o", "u"),
        ("ie", "ei", "i", "e"),
        ("ea", "ee", "e"),
        ("ou", "o", "u"),
        ("ai", "ay", "ei"),
        ("au", "o"),
        ("y", "i"),
        ("c", "k", "s", "ck"),
        ("sc", "s", "c"),
        ("ch", "tch", "sh"),
        ("ph", "f", "gh"),
        ("kn", "n"),
        ("wh", "w"),
        ("gh", "g", ""),
        ("ght", "t"),
        ("tion", "sion", "cion"),
        ("th", "t", "d"),
        ("v", "b", "w"),
        ("z", "s"),
        ("g", "j"),
        ("qu", "q"),
        ("ll", "l"),
        ("ss", "s"),
        ("mm", "m"),
        ("nn", "n"),
        ("pp", "p"),
        ("rr", "r"),
        ("tt", "t"),
        ("cc", "c"),
        ("dd", "d"),
        ("ff", "f"),
        ("le", "el"),
        ("ence", "ance"),
        ("ent", "ant"),
        ("er", "or", "ar"),
        ("able", "ible"),
        ("e", ""),
    ),
)
UKRAINIAN = ErrorTable(
    "абвгґдеєжзиіїйклмнопрстуфхцчшщьюя’",
    (
        ("у", "в", "во"),
        ("і", "й", "та", "и"),
        ("з", "із", "зі", "с"),
        ("що", "шо", "щоб", "який"),
        ("який", "яка", "яке", "які"),
        ("цей", "ця", "це", "ці"),
        ("його", "її", "їх", "їхній"),
        ("на", "по", "за", "до", "від", "про"),
        ("але", "а", "та"),
        ("також", "теж"),
        ("був", "була", "було", "були"),
        ("о", "об"),
        ("–", "-", "—"),
        ('"', "«", "»"),
        ("би", "б"),
        ("же", "ж"),
        ("або", "чи"),
        ("дуже", "сильно"),
    ),
    frozenset({",", ":", "—", "-", "і", "в", "у", "на", "це", "що", "та", "з", "ж", "є", "."}),
    (
        ("ого", "ому", "ий", "им", "их"),
        ("ами", "ах", "ам", "и", "а"),
        ("ою", "у", "а", "і"),
        ("ів", "и", "і"),
        ("ться", "тся", "тися"),
        ("ння", "ня"),
        ("ть", "т"),
        ("ї", "і"),
    ),
    (
        ("и", "і", "е", "ы"),
        ("ї", "і"),
        ("є", "е", "э"),
        ("о", "а"),
        ("г", "ґ"),
        ("щ", "шч", "ш"),
        ("нн", "н"),
        ("сс", "с"),
        ("ь", ""),
        ("’", "", "'"),
        ("з", "с"),
        ("дж", "ж"),
        ("йо", "ьо"),
        ("у", "в"),
        ("ться", "тся"),
    ),
)
TABLES: dict[str, ErrorTable] = {"en": ENGLISH, "uk": UKRAINIAN}
