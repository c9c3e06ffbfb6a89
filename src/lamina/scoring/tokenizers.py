"""Choice of sacreBLEU's tokenizer for BLEU: by language, unless the user sets it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from sacrebleu.metrics.bleu import BLEU

from lamina.errors import UsageError
from lamina.names import nearest

STANDARD = "13a"
WITHOUT_SPACES = {"th", "lo", "km", "my", "bo"}  # written without spaces between words; scored by character
MORPHEMES = {"ja": ("ja-mecab", "MeCab"), "ko": ("ko-mecab", "mecab_ko")}  # tokenizer and the package it requires
LONG_WORD, LONG_CJK_WORD = 15, 5  # mean word length above which a text has no spaces, the latter in Chinese or Japanese


def language_tokenizer(language: str | None) -> str:
    """Default tokenizer of a language; `char` if the required morphological analyser is not installed."""
    code = (language or "").lower().replace("_", "-").split("-")[0]
    if code == "zh":
        return "zh"
    if code in MORPHEMES:
        name, package = MORPHEMES[code]
        return name if find_spec(package) else "char"
    return "char" if code in WITHOUT_SPACES else STANDARD


def choose_tokenizer(given: str | None, language: str | None, references: Sequence[Sequence[str]]) -> str:
    """Return the given tokenizer or the language's; 13a is rejected for text without spaces between words."""
    if given is not None and given not in BLEU.TOKENIZERS:
        known = ", ".join(sorted(BLEU.TOKENIZERS))
        raise UsageError(f"Unknown tokenizer `{given}`.{nearest(given, BLEU.TOKENIZERS)} Tokenizers: {known}.")
    chosen = given or language_tokenizer(language)
    if chosen == STANDARD and has_no_spaces(references):
        raise UsageError(
            "The references have no spaces between words, which BLEU's standard tokenizer needs. Choose "
            "another tokenizer, such as zh, ja-mecab or char."
        )
    return chosen


def has_no_spaces(references: Sequence[Sequence[str]]) -> bool:
    """Whether the text is mostly in non-alphabetic scripts and its words are too long to be words.

    In Chinese and Japanese, lines of a single word are proof enough.
    """
    lines = [words for line in references[0][:200] if (words := line.split())]
    text = "".join(word for words in lines for word in words)
    foreign = sum(character >= "\u0e00" for character in text)  # Thai and all later blocks, including CJK
    cjk = sum("\u3040" <= character <= "\u9fff" for character in text)  # kana and ideographs
    if foreign <= len(text) / 2:
        return False
    mean = len(text) / sum(map(len, lines))
    if cjk <= len(text) / 2:
        return mean > LONG_WORD
    return mean > LONG_CJK_WORD or sum(len(words) == 1 for words in lines) > len(lines) / 2


def is_tokenised(lines: Sequence[str]) -> bool:
    """Whether most lines end in a full stop after a space."""
    return sum(line.rstrip().endswith(" .") for line in lines) > len(lines) / 2
