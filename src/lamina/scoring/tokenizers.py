"""Which of sacreBLEU's tokenizers BLEU uses: the one of the language, unless the user chooses."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from sacrebleu.metrics.bleu import BLEU

from lamina.errors import UsageError
from lamina.names import nearest

STANDARD = "13a"
WITHOUT_SPACES = {"th", "lo", "km", "my", "bo"}  # written without spaces between words; scored by character
MORPHEMES = {"ja": ("ja-mecab", "MeCab"), "ko": ("ko-mecab", "mecab_ko")}  # tokenizer, and the package it needs
LONG_WORD = 15  # characters; a text whose words are longer on average has no spaces between words


def language_tokenizer(language: str | None) -> str:
    """The tokenizer of a language; characters where sacreBLEU's morphological analyser is not installed."""
    code = (language or "").lower().replace("_", "-").split("-")[0]
    if code == "zh":
        return "zh"
    if code in MORPHEMES:
        name, package = MORPHEMES[code]
        return name if find_spec(package) else "char"
    return "char" if code in WITHOUT_SPACES else STANDARD


def choose_tokenizer(given: str | None, language: str | None, references: Sequence[Sequence[str]]) -> str:
    """The user's choice, or the language's; text without spaces is refused rather than scored as one word per line."""
    if given is not None:
        if given not in BLEU.TOKENIZERS:
            known = ", ".join(sorted(BLEU.TOKENIZERS))
            raise UsageError(f"Unknown tokenizer `{given}`.{nearest(given, BLEU.TOKENIZERS)} Tokenizers: {known}.")
        return given
    chosen = language_tokenizer(language)
    if chosen == STANDARD and has_no_spaces(references):
        raise UsageError(
            "The references have no spaces between words, which BLEU's standard tokenizer needs. Choose another with "
            "--tokenize, such as zh, ja-mecab or char."
        )
    return chosen


def has_no_spaces(references: Sequence[Sequence[str]]) -> bool:
    """Whether most of the text is in scripts beyond the alphabets, in words too long to be words."""
    text = "".join(f"{line}\n" for line in references[0][:200])
    words = text.split()
    letters = sum(map(len, words))
    foreign = sum(character >= "\u0e00" for character in text)  # Thai and everything after it: CJK among them
    return bool(words) and letters / len(words) > LONG_WORD and foreign > letters / 2
