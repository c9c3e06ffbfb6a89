"""The demo corpus, checked on its surface: German text against separately written endings, verb forms and numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from itertools import islice, pairwise
from math import sqrt
from pathlib import Path

import pytest
import sacrebleu

from lamina.demo.grammar import adjectives, adverbials, demo_pairs, names, nouns, places, verbs
from lamina.demo.grammar.words import Adjective, Noun, Spot
from lamina.errors import UsageError

Pair = tuple[str, str]
DOCUMENT = Path(__file__).parents[2] / "docs" / "demo-corpus.md"
FIRST_THOUSAND = "88e489e079d905463c46f14c4c5705c7"

ADJECTIVES = [value for value in vars(adjectives).values() if isinstance(value, Adjective)]
SPOTS = [spot for verb in verbs.VERBS for spot in verb.spots]
SUBORDINATING = ("dass", "ob", "weil", "obwohl", "wenn", "während", "bevor")
HABEN, SEIN = {"habe", "hat", "haben"}, {"bin", "ist", "sind"}
MODALS = {"kann", "können", "muss", "müssen", "will", "wollen"}


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    return list(demo_pairs("train", 20_000))


@cache
def tokens(text: str) -> list[str]:
    """Words and commas; the first word is lower-cased unless it is a name or a noun."""
    words = re.findall(r"[\w'-]+|,", text)
    is_noun = words[0] in NOUN_FORMS and words[0].lower() not in INFLECTED
    is_name = words[0] in NAMES or words[0].removesuffix("s") in NAMES
    return words if is_noun or is_name else [words[0].lower(), *words[1:]]


# ---- the corpus as a whole


@pytest.mark.slow
def test_german_is_an_injective_function_of_english(pairs: list[Pair]) -> None:
    german_of, english_of = dict[str, str](), dict[str, str]()
    for english, german in [*pairs, *demo_pairs("train", 10_000, seed=2)]:
        assert german_of.setdefault(english, german) == german
        assert english_of.setdefault(german, english) == english


def test_splits_share_no_sentence_on_either_side(pairs: list[Pair]) -> None:
    splits = [pairs, list(demo_pairs("valid", 400)), list(demo_pairs("test", 400))]
    for side in (0, 1):
        texts = [{pair[side] for pair in split} for split in splits]
        assert [len(text) for text in texts] == [len(split) for split in splits]
        assert len(set.union(*texts)) == sum(map(len, splits))


def test_pairs_are_reproducible_and_longer_requests_extend_shorter_ones(pairs: list[Pair]) -> None:
    thousand = list(demo_pairs("train", 1000))
    assert thousand == pairs[:1000]
    assert list(islice(demo_pairs("train", 10**9), 10)) == thousand[:10]
    assert list(demo_pairs("train", 10, seed=3)) != thousand[:10]
    text = "".join(f"{english}\t{german}\n" for english, german in thousand)
    assert blake2b(text.encode(), digest_size=16).hexdigest() == FIRST_THOUSAND


def test_impossible_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(demo_pairs("test", 0)) == []
    with pytest.raises(UsageError, match="split: must be one of train, valid, test, but is `dev` instead"):
        demo_pairs("dev", 1)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="count: must not be negative, but is -1 instead"):
        demo_pairs("train", -1)
    monkeypatch.setattr("lamina.demo.grammar.pairs._MAX_DRAWS", 1)
    message = r"split `test` yields only [\d,]+ distinct pairs \(1 draws produced no others\)"
    with pytest.raises(UsageError, match=message):
        list(demo_pairs("test", 100))


def test_every_word_is_used(pairs: list[Pair]) -> None:
    text = " ".join(re.sub("[.,]", "", f"{english} {english[0].lower()}{english[1:]}") for english, _ in pairs)
    words = set(text.split())
    words |= {word.removesuffix("'s") for word in words}
    wanted = [noun.english for noun in nouns.NOUNS] + [noun.english_plural for noun in nouns.NOUNS if noun.has_plural]
    wanted += [adjective.english for adjective in ADJECTIVES] + [*names.WOMEN, *names.MEN, *names.CITIES]
    wanted += [conjunction.english for conjunction in adverbials.CONJUNCTIONS]
    assert set(wanted) <= words
    phrases = {spot.preposition.english for spot in SPOTS} | {verb.english for verb in verbs.VERBS} - {"be"}
    phrases |= {verb.english_participle for verb in verbs.VERBS if "perfect" in verb.tenses}
    phrases |= {adverbial.english for adverbial in adverbials.ADVERBIALS}
    assert [phrase for phrase in phrases if f" {phrase} " not in text] == []
    assert set(SPOTS) >= {spot for value in vars(places).values() for spot in spots_in(value)} - {places.IN_CITY}


def spots_in(value: object) -> Iterable[Spot]:
    parts = value if isinstance(value, tuple) else (value,)
    return [part for part in parts if isinstance(part, Spot)]


def test_sentences_are_well_formed(pairs: list[Pair]) -> None:
    for pair in pairs:
        for text in pair:
            assert re.fullmatch(r"[A-ZÄÖÜ][\w'-]*(,? [\w'-]+)+\.", text), text
            assert 4 <= len(text.split()) <= 25, text
            repeated = {found[1] for found in re.finditer(r"\b(\w+) \1\b", text)}
            assert repeated <= {"her", "ihr", "die", "der", "das"}, text  # "der Arzt, der der Frau hilft"


def test_nearest_neighbour_translation_scores_low(pairs: list[Pair]) -> None:
    memory = [(grams(english), german) for english, german in pairs[:4000]]
    test = list(demo_pairs("test", 150))
    found = [nearest(grams(english), memory) for english, _ in test]
    assert sacrebleu.corpus_bleu(found, [[german for _, german in test]]).score < 50


def grams(text: str) -> frozenset[object]:
    words = re.findall(r"[\w'-]+", text.lower())
    return frozenset([*words, *pairwise(words)])


def nearest(source: frozenset[object], memory: list[tuple[frozenset[object], str]]) -> str:
    return max(memory, key=lambda entry: len(source & entry[0]) / sqrt(len(entry[0])))[1]


def test_the_page_shows_the_first_pairs() -> None:
    rows = re.findall(r"^\| (.+\.) \| (.+\.) \|$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == list(demo_pairs("train", 40))


# ---- agreement: a cell is case and gender, `p` for the plural: "nm" is the nominative masculine

DEFINITE = {
    "der": "nm df gf gp", "die": "nf af np ap", "das": "nn an", "den": "am dp", "dem": "dm dn", "des": "gm gn",
    "im": "dm dn", "am": "dm dn", "zum": "dm dn", "vom": "dm dn", "zur": "df", "ins": "an",
}  # fmt: skip
EIN = {"": "nm nn an", "e": "nf af np ap", "en": "am dp", "em": "dm dn", "er": "df gf gp", "es": "gm gn"}
EIN_WORDS = {
    stem + ending: {cell for cell in cells.split() if stem != "ein" or cell[1] != "p"}
    for stem in ("ein", "kein", "mein", "sein", "ihr", "unser")
    for ending, cells in EIN.items()
}
ALL_CELLS = {case + gender for case in "nadg" for gender in "mfnp"}
WEAK = {cell: "e" if cell in ("nm", "nf", "nn", "af", "an") else "en" for cell in ALL_CELLS}
MIXED = WEAK | {"nm": "er", "nn": "es", "an": "es"}
STRONG = {
    "nm": "er", "am": "en", "dm": "em", "nf": "e", "af": "e", "df": "er",
    "nn": "es", "an": "es", "dn": "em", "np": "e", "ap": "e", "dp": "en",
}  # fmt: skip
INFLECTED = {adjective.stem + ending: ending for adjective in ADJECTIVES for ending in ("e", "en", "em", "er", "es")}
NAMES = {*names.WOMEN, *names.MEN}


def noun_cells(noun: Noun) -> dict[str, set[str]]:
    """Possible cells of each noun form; genitives only for nouns that can be possessors."""
    gender = noun.gender
    forms = [(noun.german, "n"), (noun.oblique, "a"), (noun.oblique, "d")]
    if noun.gender == "f" or noun.oblique != noun.german:
        forms.append((noun.oblique, "g"))
    else:
        forms += [(noun.german + "s", "g"), (noun.german + "es", "g")]
    cells = [(form, case + gender) for form, case in forms]
    if noun.has_plural:
        plural = noun.german_plural
        cells += [(plural, "np"), (plural, "ap"), (plural, "gp")]
        cells.append((plural if plural[-1] in "ns" else f"{plural}n", "dp"))
    return {form: {cell for other, cell in cells if other == form} for form, _ in cells}


NOUN_FORMS: dict[str, set[str]] = {}
for _noun in nouns.NOUNS:
    for _form, _cells in noun_cells(_noun).items():
        NOUN_FORMS[_form] = NOUN_FORMS.get(_form, set()) | _cells


def agrees(words: list[str], end: int) -> bool:
    """Whether the noun at `end`, its adjectives and its determiner agree in some case and gender."""
    start = end
    while start > 0 and words[start - 1] in INFLECTED:
        start -= 1
    endings = {INFLECTED[word] for word in words[start:end]}
    if start > 0 and words[start - 1] in NUMERALS:
        start -= 1
    counted = words[start] in NUMERALS
    cells = {cell for cell in NOUN_FORMS[words[end]] if not counted or cell[1] == "p"}
    determiner = words[start - 1] if start > 0 else ""
    bare = any(endings <= {STRONG[cell]} for cell in cells & STRONG.keys())
    if determiner in DEFINITE:
        fits = any(endings <= {WEAK[cell]} for cell in cells & set(DEFINITE[determiner].split()))
        return fits or (bare and "," in words[max(0, start - 3) : start - 1])  # or a relative pronoun
    if determiner in EIN_WORDS:
        fits = any(endings <= {MIXED[cell]} for cell in cells & EIN_WORDS[determiner])
        return fits or (bare and determiner == "ihr")  # or the pronoun: "gibt ihr Bücher"
    is_determined = determiner.removesuffix("s") in NAMES and determiner.endswith("s")
    return bare and (is_determined or any(cell[1] == "p" for cell in cells))


def test_determiners_adjectives_and_nouns_agree(pairs: list[Pair]) -> None:
    checked = 0
    for english, german in pairs:
        words = tokens(german)
        for position, word in enumerate(words):
            if word in NOUN_FORMS:
                checked += 1
                assert agrees(words, position), (word, english, german)
    assert checked > 30_000


def test_the_agreement_test_notices_disagreement() -> None:
    for wrong in ("Ich sehe den Student", "Ich helfe dem alter Mann", "Ich sehe ein alte Haus", "Annas alten Haus"):
        words = tokens(wrong)
        assert not agrees(words, len(words) - 1), wrong
    assert not agrees(tokens("Ich helfe den Kinder"), 3)
    assert agrees(tokens("Ich helfe den klugen Studenten"), 4)


@pytest.mark.parametrize("preposition", ["mit", "von", "zu"])
def test_the_dative_plural_ends_in_n_or_s(pairs: list[Pair], preposition: str) -> None:
    plurals = {noun.german_plural for noun in nouns.NOUNS if noun.has_plural and noun.german_plural[-1] not in "ns"}
    for _, german in pairs:
        found = re.search(rf"\b{preposition} (?:den|meinen|unseren|seinen|ihren|\w+s) (?:[a-zäöüß]+en )?(\w+)", german)
        assert found is None or found[1] not in plurals - {noun.german for noun in nouns.NOUNS}, german


def test_two_way_prepositions_take_both_cases(pairs: list[Pair]) -> None:
    text = " ".join(german for _, german in pairs)
    for phrase in ("auf dem Tisch", "auf den Tisch", "im Garten", "in den Garten", "in die Küche", "in der Küche"):
        assert phrase in text
    assert not re.search(r"\blegt \w+ \w+ auf dem\b", text)
    for _, german in pairs:
        assert "," in german or not re.search(r"\b(?:in dem|in das|an dem|zu dem|zu der|von dem)\b", german), german


# ---- word order

PRESENT = {verb: set(verb.present) for verb in verbs.VERBS}
FINAL_FINITE = {verb.prefix + form for verb in verbs.VERBS for form in verb.present} | HABEN | SEIN | MODALS
FIRST_FINITE = {form for verb in verbs.VERBS for form in verb.present} | HABEN | SEIN | MODALS
PARTICIPLES = {verb.participle: SEIN if verb.with_sein else HABEN for verb in verbs.VERBS}
INFINITIVES = {verb.infinitive for verb in verbs.VERBS}
QUALITIES = {adjective.german for adjective in ADJECTIVES}
SEPARABLE = {
    form: {verb.prefix for verb in verbs.VERBS if verb.prefix and form in verb.present}
    for verb in verbs.VERBS
    if verb.prefix
    for form in verb.present
}
AMBIGUOUS = {form for verb in verbs.VERBS if not verb.prefix for form in verb.present} & SEPARABLE.keys()


def assert_verb_final(words: list[str], german: str) -> None:
    assert words[-1] in FINAL_FINITE, german
    if words[-1] in MODALS:
        assert words[-2] in INFINITIVES, german
    elif words[-1] in HABEN | SEIN:
        assert words[-2] in QUALITIES or words[-1] in PARTICIPLES[words[-2]], german


def segments(german: str) -> list[list[str]]:
    return [tokens(part) for part in german.split(", ")]


def test_subordinate_clauses_end_in_their_verb_and_follow_a_comma(pairs: list[Pair]) -> None:
    checked = 0
    for _, german in pairs:
        words = tokens(german)
        for position, word in enumerate(words):
            assert word not in SUBORDINATING or position == 0 or words[position - 1] == ",", german
        parts = segments(german)
        if len(parts) == 2 and parts[0][0] in SUBORDINATING:
            assert_verb_final(parts[0], german)
            assert parts[1][0] in FIRST_FINITE, german  # verb second: the clause is the first phrase
        elif len(parts) == 2 and parts[1][0] in SUBORDINATING:
            assert_verb_final(parts[1], german)
        else:
            continue
        checked += 1
    assert checked > 3000


def test_relative_clauses_end_in_their_verb_between_commas(pairs: list[Pair]) -> None:
    pronouns = ("der", "die", "das", "den", "dem", "denen")
    checked = 0
    for english, german in pairs:
        pronoun_count = len(re.findall(r"\b(?:who|whom|which)\b", english))
        assert german.count(",") >= pronoun_count, german
        parts = segments(german)
        for position, part in enumerate(parts[1:], start=1):
            is_relative = part[0] in pronouns or (part[0] == "in" and part[1] in pronouns)
            if not is_relative or len(parts) > 3 or any(other[0] in SUBORDINATING for other in parts):
                continue
            if position == 1:
                assert_verb_final(part, german)
                checked += 1
    assert checked > 500


def test_main_clauses_have_the_finite_verb_second_and_the_other_part_last(pairs: list[Pair]) -> None:
    endings = dict.fromkeys(("prefix", "participle", "infinitive"), 0)
    for _, german in pairs:
        words = tokens(german)
        if "," in words or "und" in words:
            continue
        finite = next(word for word in words if word in FIRST_FINITE)
        if finite in SEPARABLE and finite not in AMBIGUOUS:
            assert words[-1] in SEPARABLE[finite], german
            endings["prefix"] += 1
        elif finite in MODALS:
            assert words[-1] in INFINITIVES, german
            endings["infinitive"] += 1
        elif finite in HABEN | SEIN and words[-1] not in QUALITIES:
            assert finite in PARTICIPLES[words[-1]], german
            endings["participle"] += 1
    assert min(endings.values()) > 300


def test_a_fronted_adverbial_is_followed_by_the_verb(pairs: list[Pair]) -> None:
    fronted = re.compile(r"(?:Heute(?: Morgen)?|Morgen|Am Sonntag|Am Abend|Im Sommer|Jeden Tag|Diese Woche) (\w+)")
    verbs_found = [found[1] for _, german in pairs if (found := fronted.match(german))]
    assert len(verbs_found) > 1000
    assert set(verbs_found) <= FIRST_FINITE


def test_negation(pairs: list[Pair]) -> None:
    for english, german in pairs:
        denied = len(re.findall(r"\b(?:not|cannot)\b|\b[Nn]o\b", english))
        assert len(re.findall(r"\bnicht\b|\b[Kk]ein", german)) == denied, (english, german)
        assert not re.search(r"\bnicht (?:eine|einen|einem|einer)\b", german), german


# ---- numbers

ONES = "eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf"
TEENS = {"dreizehn": 13, "sechzehn": 16, "siebzehn": 17}
TENS = {
    "zwanzig": 20,
    "dreißig": 30,
    "vierzig": 40,
    "fünfzig": 50,
    "sechzig": 60,
    "siebzig": 70,
    "achtzig": 80,
    "neunzig": 90,
}
ENGLISH_ONES = "one two three four five six seven eight nine ten eleven twelve"
ENGLISH_TENS = {
    "twenty": 20,
    "thirty": 30,
    "forty": 40,
    "fifty": 50,
    "sixty": 60,
    "seventy": 70,
    "eighty": 80,
    "ninety": 90,
}
ENGLISH_TEENS = {"thirteen": 13, "fifteen": 15, "eighteen": 18}


def read_german_number(word: str) -> int:
    ones = {name: value for value, name in enumerate(ONES.split(), start=1)}
    if word in ones or word in TENS or word in TEENS:
        return (ones | TENS | TEENS)[word]
    if word.endswith("zehn"):
        return 10 + ones[word.removesuffix("zehn")]
    one, ten = word.split("und")
    return TENS[ten] + (1 if one == "ein" else ones[one])


def read_english_number(word: str) -> int:
    ones = {name: value for value, name in enumerate(ENGLISH_ONES.split(), start=1)}
    known = ones | ENGLISH_TENS | ENGLISH_TEENS
    if word in known:
        return known[word]
    if word.endswith("teen"):
        return 10 + ones[word.removesuffix("teen")]
    ten, one = word.split("-")
    return ENGLISH_TENS[ten] + ones[one]


def numbers_in(texts: list[str], read: Callable[[str], int]) -> list[list[int]]:
    """Numbers in each text; words that are not numbers are skipped."""
    words_of = [re.findall(r"[\w-]+", text.lower()) for text in texts]
    values = dict[str, int]()
    for word in {word for words in words_of for word in words} - {"one", "eins"}:
        with suppress(KeyError, ValueError):
            values[word] = read(word)
    return [sorted(values[word] for word in words if word in values) for words in words_of]


def test_numbers_two_to_ninety_nine_are_the_same_in_both_languages(pairs: list[Pair]) -> None:
    expected = numbers_in([english for english, _ in pairs], read_english_number)
    assert numbers_in([german for _, german in pairs], read_german_number) == expected
    assert {number for numbers in expected for number in numbers} == set(range(2, 100))


NUMERALS = {
    *(ONES.split()[1:]),
    *TEENS,
    *TENS,
    *(f"{one}zehn" for one in ("vier", "fünf", "acht", "neun")),
    *(f"{one}und{ten}" for one in ["ein", *ONES.split()[1:9]] for ten in TENS),
}
