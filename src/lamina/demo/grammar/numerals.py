"""Numerals from two to ninety-nine."""

from __future__ import annotations

_ENGLISH = """
    zero one two three four five six seven eight nine ten
    eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen
"""
_ENGLISH_TENS = "zero ten twenty thirty forty fifty sixty seventy eighty ninety"
_GERMAN = """
    null ein zwei drei vier fünf sechs sieben acht neun zehn
    elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn
"""
_GERMAN_TENS = "null zehn zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig"


def _english(number: int) -> str:
    small, tens = _ENGLISH.split(), _ENGLISH_TENS.split()
    if number < len(small):
        return small[number]
    return f"{tens[number // 10]}-{small[number % 10]}" if number % 10 else tens[number // 10]


def _german(number: int) -> str:
    small, tens = _GERMAN.split(), _GERMAN_TENS.split()
    if number < len(small):
        return small[number]
    return f"{small[number % 10]}und{tens[number // 10]}" if number % 10 else tens[number // 10]


ENGLISH_NUMERALS = {number: _english(number) for number in range(2, 100)}
GERMAN_NUMERALS = {number: _german(number) for number in range(2, 100)}
