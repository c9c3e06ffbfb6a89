"""Conversion of a text pipeline to tokenizer files of Hugging Face transformers, independent of SentencePiece."""

from __future__ import annotations

import base64
import re
from typing import Any

from lamina.interop.huggingface.protobuf import find_field
from lamina.text.normalise import BLANK
from lamina.text.pipeline import TextPipeline
from lamina.text.subwords import MarianPieces, SentencePiece
from lamina.text.vocabulary import BOS, EOS, PAD, SPECIALS, UNK

SPACE = "▁"  # SentencePiece's space symbol
DOTTED_I, UNUSED = "İ", "\ufdd0"  # a noncharacter, which text does not contain


def describe_tokenizer(text: TextPipeline, longest: int) -> dict[str, dict[str, Any]]:
    """Content of the tokenizer files, by name."""
    subwords = text.source.subwords
    if isinstance(subwords, MarianPieces):
        return describe_marian(text, longest)
    parts = describe_pieces(subwords) if isinstance(subwords, SentencePiece) else describe_words(text)
    special = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    ending = {"SpecialToken": {"id": SPECIALS[EOS], "type_id": 0}}
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": index, "content": symbol, **special} for index, symbol in enumerate(SPECIALS)],
        "normalizer": {"type": "Sequence", "normalizers": describe_normalisers(text)},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"Sequence": {"id": "A", "type_id": 0}}, ending],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}, ending],
            "special_tokens": {SPECIALS[EOS]: {"id": SPECIALS[EOS], "ids": [EOS], "tokens": [SPECIALS[EOS]]}},
        },
        **parts,
    }
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": SPECIALS[BOS],
        "pad_token": SPECIALS[PAD],
        "eos_token": SPECIALS[EOS],
        "unk_token": SPECIALS[UNK],
        "model_max_length": longest,
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "attention_mask"],
    }
    return {"tokenizer.json": tokenizer, "tokenizer_config.json": settings}


def describe_normalisers(text: TextPipeline) -> list[dict[str, Any]]:
    """Normalisation by Lamina and, for lower-cased text, by its SentencePiece model.

    Unlike SentencePiece, `Precompiled` loses combining marks after a character that it maps. NFKC and lowercasing
    therefore come first and leave it little to map (such as `ß` to `ss`); `İ`, which SentencePiece keeps, is hidden
    from them.
    """
    # characters instead of escapes: their regular expressions read \x80 as a byte
    blank = re.sub(r"\\x(..)|\\u(....)", lambda code: chr(int(code[1] or code[2], 16)), BLANK.pattern)
    strip = {"type": "Strip", "strip_left": True, "strip_right": True}
    charsmap = read_charsmap(text)
    if not charsmap:
        return [replace({"Regex": blank}, " "), {"type": "NFC"}, strip]
    return [
        replace({"Regex": blank}, " "),
        {"type": "NFKC"},
        replace({"String": DOTTED_I}, UNUSED),
        {"type": "Lowercase"},
        {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode("ascii")},
        replace({"String": UNUSED}, DOTTED_I),
        replace({"Regex": " +"}, " "),
        strip,
    ]


def read_charsmap(text: TextPipeline) -> bytes:
    """The rules by which the SentencePiece model normalises text; empty unless it was learned with `--lowercase`."""
    subwords = text.source.subwords
    if not isinstance(subwords, SentencePiece):
        return b""
    normaliser = find_field(subwords.processor.serialized_model_proto(), 3)  # ModelProto.normalizer_spec
    return find_field(normaliser, 2)  # NormalizerSpec.precompiled_charsmap


def replace(pattern: dict[str, str], content: str) -> dict[str, Any]:
    """A normaliser that replaces a string or a regular expression."""
    return {"type": "Replace", "pattern": pattern, "content": content}


def describe_marian(text: TextPipeline, longest: int) -> dict[str, dict[str, Any]]:
    """Content of Marian's tokenizer files; `export` also writes the SentencePiece models."""
    return {
        "vocab.json": text.source.vocabulary.ids,
        "tokenizer_config.json": {
            "tokenizer_class": "MarianTokenizer",
            "source_lang": text.source.language,
            "target_lang": text.target.language,
            "separate_vocabs": False,
            "model_max_length": longest,
        },
    }


def describe_pieces(subwords: SentencePiece) -> dict[str, Any]:
    """Tokenizer parts of a unigram model with byte fallback."""
    processor = subwords.processor
    scores = [[symbol, processor.get_score(index)] for index, symbol in enumerate(subwords.vocabulary.symbols)]
    return {
        "model": {"type": "Unigram", "unk_id": UNK, "vocab": scores, "byte_fallback": True},
        "pre_tokenizer": {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "always", "split": True},
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0},
            ],
        },
    }


def describe_words(text: TextPipeline) -> dict[str, Any]:
    """Tokenizer parts for space-separated tokens."""
    return {
        "model": {"type": "WordLevel", "vocab": text.source.vocabulary.ids, "unk_token": SPECIALS[UNK]},
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "decoder": None,
    }
