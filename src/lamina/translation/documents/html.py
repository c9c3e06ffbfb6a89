"""HTML: translates text nodes; tags, attributes, comments, scripts and untranslatable elements are kept verbatim."""

from __future__ import annotations

import re
from collections import Counter
from html import escape, unescape

from lamina.translation.documents.document import Passage, Splitter, has_words, make_passages

TOKEN = re.compile(
    r"<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|<[!?][^>]*(?:>|\Z)"  # comments, declarations
    r"|<(?P<close>/?)(?P<name>[a-zA-Z][^\s<>/]{0,99}+)"
    r"(?P<attributes>(?:[^<>=\"']{1,2000}+|=\s{0,9}+(?:\"[^\"]{0,9000}+\"|'[^']{0,9000}+')|[=\"']){0,400}+)>",
    re.DOTALL,
)  # every repetition is bounded or possessive: no catastrophic backtracking; as in browsers, only `=` opens quotes
KEPT = frozenset({"script", "style", "pre", "code", "textarea", "kbd", "samp", "var", "svg", "math", "template"})
RAW = frozenset({"script", "style", "textarea"})  # `<` does not open a tag inside them
VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"}
)
NO = re.compile(r"""(?:^|\s)translate\s*=\s*["']?no(?![\w-])|class\s*=\s*["'][^"']*\bnotranslate\b""", re.IGNORECASE)
YES = re.compile(r"""(?:^|\s)translate\s*=\s*["']?(?:yes(?![\w-])|["'])""", re.IGNORECASE)
SPACES = re.compile(r"\s+")
SPACE_BEFORE = re.compile(r"(?:\s|&(?:nbsp|#160|#xa0|emsp|ensp|thinsp);)*+", re.IGNORECASE)
SPACE_ENTITY = re.compile(r"&(?:nbsp|#160|#xa0|emsp|ensp|thinsp);\Z", re.IGNORECASE)


def read_html(text: str, split: Splitter) -> list[str | Passage]:
    """Turn text nodes into passages, except inside elements marked as not translatable."""
    pieces: list[str | Passage] = []
    position = 0
    open_elements: list[tuple[str, bool]] = []  # (name, whether the enclosing text is translated)
    names: Counter[str] = Counter()  # how many of each are open
    translated = True
    while match := TOKEN.search(text, position):
        pieces += read_text(text[position : match.start()], split, translated)
        pieces.append(match.group())
        position = match.end()
        name = (match["name"] or "").lower()
        if not name or name in VOID:
            continue
        if match["close"]:
            translated = close_element(open_elements, names, name, translated)
            continue
        attributes = match["attributes"]
        if attributes.rstrip().endswith("/"):
            continue
        open_elements.append((name, translated))
        names[name] += 1
        if name in KEPT or NO.search(attributes):
            translated = False
        elif YES.search(attributes):
            translated = True
        if name in RAW:
            end = re.compile(f"</{name}", re.IGNORECASE).search(text, position)
            stop = end.start() if end else len(text)
            pieces.append(text[position:stop])
            position = stop
    pieces += read_text(text[position:], split, translated)
    return [piece for piece in pieces if piece != ""]


def close_element(open_elements: list[tuple[str, bool]], names: Counter[str], name: str, translated: bool) -> bool:
    """Close an element and its unclosed children; ignore a stray end tag."""
    while names[name]:
        closed, translated = open_elements.pop()
        names[closed] -= 1
        if closed == name:
            break
    return translated


def read_text(text: str, split: Splitter, translated: bool) -> list[str | Passage]:
    """Parse a text node; entities are unescaped for the model and escaped again on output."""
    if not translated or not has_words(unescape(text)):
        return [text]
    before, core, after = outer_space(text)

    def split_node(node: str) -> list[str]:
        return split(SPACES.sub(" ", node))

    inner = make_passages(unescape(core), split_node, write_text)
    return [before, *inner, after]


def outer_space(text: str) -> tuple[str, str, str]:
    """Split a text node into leading space, core and trailing space; space entities count as space."""
    first = SPACE_BEFORE.match(text)
    start, end = first.end() if first else 0, len(text)
    while end > start:
        entity = SPACE_ENTITY.search(text, max(start, end - 8), end)
        shorter = entity.start() if entity else len(text[:end].rstrip()) if text[end - 1].isspace() else end
        if shorter == end:
            break
        end = max(start, shorter)
    return text[:start], text[start:end], text[end:]


def write_text(text: str) -> str:
    """Escape a translation for a text node."""
    return escape(text, quote=False).replace("\xa0", "&nbsp;")
