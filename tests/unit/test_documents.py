"""Document translation keeps everything but the sentences byte for byte."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.translation.documents import FORMATS, Format, format_of_file, read_document
from lamina.translation.documents.sentences import locate, split_by_rules, split_sentences

TIMING = re.compile(r"\d\d:\d\d:\d\d[.,]\d{3} --> .*")

TAGS = ["<p>", "</p>", "<a href='x>y'>", "</a>", "<br/>", '<b title="a<b">', "<!-- a > b -->"]


def shout(text: str, form: Format | None) -> str:
    """A fake translation that keeps words recognisable."""
    document = read_document(text, form, "en")
    return document.render(sentence.upper() for sentence in document.sentences)


@pytest.mark.parametrize("form", [None, *FORMATS])
@given(text=st.text(alphabet=st.sampled_from("ab .!\n\r\t<>/&;-:0123=\"'p{}é。"), max_size=80))
def test_untouched_sentences_give_the_same_document(form: Format | None, text: str) -> None:
    document = read_document(text, form, "en")
    written = document.render(document.sentences)
    if form in (None, "text"):
        assert written == text
    elif form == "html":
        assert read_document(written, form, "en").sentences == document.sentences
    else:
        assert written.split("\n\n")[0].count("\n") <= text.split("\n\n")[0].count("\n")


@given(text=st.lists(st.sampled_from([*TAGS, *"<>&;'\" \nab.é"]), max_size=20).map("".join))
def test_tags_are_kept(text: str) -> None:
    document, tag = read_document(text, "html", "en"), re.compile(r"</?[a-z][^<>]*>")
    assert tag.findall(document.render(document.sentences)) == tag.findall(text)


def test_only_an_equals_sign_opens_quotes() -> None:
    assert (
        shout("""<a b="x>y" c = 'z>' d' ">one <b">two</a>""", "html") == """<a b="x>y" c = 'z>' d' ">ONE <b">TWO</a>"""
    )


@given(st.text(max_size=200))
def test_sentences_joined_are_the_text(text: str) -> None:
    assert "".join(split_by_rules(text)) == text
    assert "".join(split_sentences(text, "en")) == text
    assert "".join(locate(text, text.split(". "))) == text


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("A dog runs. A cat sleeps.", 2),
        ("Dr. Smith met J. R. Brown. They talked.", 2),
        ("“Really?” she said. Yes!", 2),
        ("He paid 3. 5 were left", 1),
        ("今日は。元気ですか？はい。", 3),
        ("no end", 1),
        ("Wait... what? Nothing.", 2),
    ],
)
def test_built_in_rules_split_sentences(text: str, count: int) -> None:
    assert len(split_by_rules(text)) == count


def test_plain_text_keeps_paragraphs_and_indentation() -> None:
    text = "  First one. Second one!\r\n\r\n\t* a list\n---\n\n\nlast"
    assert shout(text, "text") == "  FIRST ONE. SECOND ONE!\r\n\r\n\t* A LIST\n---\n\n\nLAST"
    assert read_document("a. B c.", None, "en").sentences == ["a. B c."]


def test_html_keeps_everything_but_text() -> None:
    text = (
        "<!doctype html>\n<html lang=en><head><title>One dog</title><style>p{a:b}</style>"
        "<script>if (a < b) x('<p>no</p>')</script></head>\n<body><!-- a comment -->"
        '<p title="a > b" class=x>Cats &amp; dogs &lt;3.&nbsp;</p><p translate="no">Lamina</p>'
        "<pre>  as it is </pre><ul><li>one<li>two</ul><img src=a.png><br/>end</body></html>"
    )
    expected = (
        text.replace("One dog", "ONE DOG")
        .replace("Cats &amp; dogs &lt;3.", "CATS &amp; DOGS &lt;3.")
        .replace("<li>one<li>two", "<li>ONE<li>TWO")
        .replace("<br/>end", "<br/>END")
    )
    assert shout(text, "html") == expected


def test_markup_in_a_translation_is_escaped() -> None:
    document = read_document("<p>x</p>", "html", "en")
    assert document.render(["<script>&"]) == "<p>&lt;script&gt;&amp;</p>"


def test_srt_keeps_numbers_timings_and_line_counts() -> None:
    text = (
        "\ufeff1\r\n00:00:01,000 --> 00:00:02,500\r\nThe dog runs\r\nand the cat sleeps.\r\n\r\n"
        "2\r\n00:00:03,000 --> 00:00:04,000\r\n<i>Hello</i> {\\an8}there\r\n\r\n\r\n"
        "3\r\n00:00:05,000 --> 00:00:06,000\r\n- Yes.\r\n- No.\r\n"
    )
    written = shout(text, "srt")
    assert written == (
        "\ufeff1\r\n00:00:01,000 --> 00:00:02,500\r\nTHE DOG RUNS\r\nAND THE CAT SLEEPS.\r\n\r\n"
        "2\r\n00:00:03,000 --> 00:00:04,000\r\n<i>HELLO</i> {\\an8}THERE\r\n\r\n\r\n"
        "3\r\n00:00:05,000 --> 00:00:06,000\r\n- YES.\r\n- NO.\r\n"
    )


def test_a_long_cue_is_wrapped_and_cannot_end_early() -> None:
    text = "1\n00:00:01,000 --> 00:00:02,000\none two\nthree four\n\n"
    document = read_document(text, "srt", "en")
    written = document.render(["a b c d e f g\n\nh --> i"])
    head, *lines, blank, last = written.split("\n")[1:]
    assert TIMING.match(head)
    assert len(lines) == 2
    assert all(lines)
    assert (blank, last) == ("", "")
    assert "-->" not in "".join(lines)


def test_a_translation_with_fewer_words_than_lines_leaves_no_empty_line() -> None:
    text = "1\n00:00:01,000 --> 00:00:02,000\none\ntwo\nthree\n\n2\n00:00:03,000 --> 00:00:04,000\nfour\n"
    written = read_document(text, "srt", "en").render(["Hallo Welt", "vier"])
    assert written == "1\n00:00:01,000 --> 00:00:02,000\nHallo\nWelt\n\n2\n00:00:03,000 --> 00:00:04,000\nvier\n"


def test_vtt_keeps_notes_and_settings() -> None:
    text = (
        "WEBVTT - a title\n\nNOTE do not translate\n\nSTYLE\n::cue {color: red}\n\n"
        "intro\n00:01.000 --> 00:02.000 align:start\n<v Ann>Hello dog\n"
    )
    assert shout(text, "vtt") == text.replace("Hello dog", "HELLO DOG")


def test_long_samples_keep_their_structure() -> None:
    html = "\n".join(
        f'<div id="d{n}"><p>The dog <b>number {n}</b> runs. It sleeps.</p>\n  <!-- {n} -->\n</div>' for n in range(100)
    )
    tags = re.compile(r"<[^>]*>")
    written = read_document(html, "html", "en")
    changed = written.render(f"Satz {len(each)}" for each in written.sentences)
    assert tags.findall(changed) == tags.findall(html)
    assert changed.count("\n") == html.count("\n") == 299
    srt = "".join(
        f"{n}\n00:{n % 60:02}:01,000 --> 00:{n % 60:02}:02,000\nLine {n} one\nand two\n\n" for n in range(300)
    )
    subtitles = read_document(srt, "srt", "en")
    changed = subtitles.render("eins zwei drei vier" for _ in subtitles.sentences)
    assert TIMING.findall(changed) == TIMING.findall(srt)
    assert [not line for line in changed.split("\n")] == [not line for line in srt.split("\n")]


def test_formats_of_files() -> None:
    found = [format_of_file(name) for name in ("a.txt", "b.HTML", "c.srt", "d.vtt", "e.pdf")]
    assert found == ["text", "html", "srt", "vtt", None]


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("html", "<a " * 30_000),
        ("html", "<a '" * 30_000),
        ("html", "a" + " " * 60_000 + "b"),
        ("html", "<p>" * 20_000 + "</x>" * 20_000),
        ("text", "." * 60_000),
        ("text", "日本。" * 20_000),
        ("srt", "1\n00:00:01,000 --> 00:00:02,000\n" + "- <" * 20_000),
    ],
    ids=lambda value: value[:8].strip(),
)
def test_no_file_takes_quadratic_time(form: Format, text: str) -> None:
    started = time.process_time()
    read_document(text, form, "en")
    assert time.process_time() - started < 2
