"""Pictures and pages: correct positions of values, and no external resources."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from lamina.analysis.page import definitions, figure, page, paragraph, section, table
from lamina.figures.axes import Axis, tick_text
from lamina.figures.charts import BOTTOM, HEIGHT, LEFT, RIGHT, Bars, Series, bar_chart, line_chart
from lamina.figures.colours import ORDERED, RISING, SERIES, SERIES_ON_DARK, is_dark, ramp
from lamina.figures.maps import Labels, cell_text, heat_map
from lamina.figures.svg import FONT, LETTER, SMALLEST, WIDTH

SVG = "{http://www.w3.org/2000/svg}"


def elements(drawing: str, name: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(drawing).iter(SVG + name))


def words(drawing: str) -> list[str]:
    return [each.text or "" for each in elements(drawing, "text")]


def test_a_line_goes_through_its_points() -> None:
    drawing = line_chart([Series("a", [(0, 1), (10, 3)])], Axis("step", 0, 10), Axis("loss", 1, 3))
    (path,) = [each.get("points", "") for each in elements(drawing, "polyline")]
    (x1, y1), (x2, y2) = [tuple(map(float, point.split(","))) for point in path.split()]
    assert (x1, x2) == (LEFT, WIDTH - RIGHT)
    assert y1 == HEIGHT - BOTTOM
    assert 0 < y2 < y1
    assert {"step", "loss", "a"} <= set(words(drawing))


def test_non_finite_values_are_omitted() -> None:
    drawing = line_chart(
        [Series("a", [(0, 1), (1, math.nan), (2, 0), (3, 2)])], Axis("x", 0, 3), Axis("y", 1, 2, log=True)
    )
    assert elements(drawing, "polyline")[0].get("points", "").count(",") == 2


@pytest.mark.parametrize("count", [2, 6, 24, 72])
def test_every_series_has_its_own_colour(count: int) -> None:
    series = [Series(f"layer {layer}", [(0, layer + 1), (1, layer + 2)]) for layer in range(count)]
    drawing = line_chart(series, Axis("step", 0, 1), Axis("norm", 1, 80), "encoder layer")
    assert len({each.get("stroke") for each in elements(drawing, "polyline")}) == count
    assert ("encoder layer" in words(drawing)) == (count > len(SERIES))


def test_any_number_of_runs_has_a_legend() -> None:
    names = [f"run {number}" for number in range(8)]
    drawing = line_chart([Series(name, [(0, 1), (1, 2)]) for name in names], Axis("step", 0, 1), Axis("loss", 1, 2))
    assert set(names) <= set(words(drawing))
    looks = {(each.get("stroke"), each.get("stroke-dasharray")) for each in elements(drawing, "polyline")}
    assert len(looks) == len(names)


def test_bars_start_at_zero_in_both_directions() -> None:
    drawing = bar_chart(["easy", "hard"], [Bars("plain", [2.0, -1.0])], Axis("BLEU", -1, 2))
    up, down = elements(drawing, "rect")
    assert float(up.get("height", "")) == pytest.approx(2 * float(down.get("height", "")), rel=1e-3)
    assert float(up.get("y", "")) + float(up.get("height", "")) == pytest.approx(float(down.get("y", "")), abs=0.02)
    assert {"easy", "hard", "2", "-1"} <= set(words(drawing))


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([85.29, 4.0], ["85.3", "4.0"]),
        ([0.1002, -0.009], ["0.100", "-0.009"]),
        ([300.0, 0.3], ["300", "0.3"]),
        ([2e-9, 1e-9], ["2e-09", "1e-09"]),
        ([0.0, 0.0], ["0", "0"]),
    ],
)
def test_labels_of_bars_have_even_precision(values: list[float], labels: list[str]) -> None:
    drawing = bar_chart(["a", "b"], [Bars("x", values)], Axis.over("y", values, zero=True))
    found = [each.text for each in elements(drawing, "text") if each.get("text-anchor") == "middle"]
    assert [text for text in found if text not in ("a", "b", "y", None)] == labels


def test_intervals_are_drawn_around_the_ends_of_bars() -> None:
    drawing = bar_chart(["all"], [Bars("plain", [2.0], [(1.5, 3.0)])], Axis("BLEU", 0, 2))
    (bar,) = elements(drawing, "rect")
    upright = next(each for each in elements(drawing, "line") if each.get("class") == "interval")
    assert float(upright.get("y2", "")) < float(bar.get("y", "")) < float(upright.get("y1", ""))
    assert "95% interval 1.5 to 3" in (bar.findtext("{*}title") or "")


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (each / 12.92 if each <= 0.03928 else ((each + 0.055) / 1.055) ** 2.4 for each in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize(
    ("colours", "paper"),
    [(SERIES, "#ffffff"), (SERIES_ON_DARK, "#16181c"), (ORDERED, "#ffffff"), (ORDERED, "#16181c")],
)
def test_lines_have_enough_contrast(colours: tuple[str, ...], paper: str) -> None:
    for colour in colours:
        light, dark = sorted((luminance(colour), luminance(paper)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 3, colour


@pytest.mark.parametrize("columns", [4, 40])
def test_labels_are_never_shown_smaller_than_eleven_pixels(columns: int) -> None:
    labels = Labels(["a"], [f"token{column}" for column in range(columns)], "target", "source", "attention")
    root = ElementTree.fromstring(heat_map([[0.5] * columns], labels))
    least = float(re.search(r"min-width:(\d+)px", root.get("style", ""))[1])
    assert FONT * least / float(root.get("width", "")) == pytest.approx(SMALLEST, abs=0.05)
    assert "font-size" not in ElementTree.tostring(root, encoding="unicode")


def test_titles_and_the_label_of_the_colour_bar_are_not_clipped() -> None:
    title = "Aligned words are closer than random ones by 0.11 (plain), 0.12 (fused)"
    drawing = heat_map([[1.0]], Labels(["a"], ["b"], "row", "column", "attention"), title=title)
    width = float(ElementTree.fromstring(drawing).get("width", ""))
    lines = [each.text or "" for each in elements(drawing, "text") if each.get("class") == "title"]
    assert " ".join(lines) == title
    assert max(map(len, lines)) * 0.6 * FONT <= width - 8  # semi-bold letters of common fonts: up to 0.6 em
    (label,) = (each for each in elements(drawing, "text") if each.text == "attention")
    assert float(label.get("x", "")) + 0.8 * FONT <= width  # letters rise to the right of the baseline


def test_colours_start_at_zero_and_both_ends_are_labelled() -> None:
    labels = Labels(["1", "2"], ["1", "2"], "encoder layer", "decoder layer", "weight")
    drawing = heat_map([[0.18, 0.22], [0.2, 0.2]], labels, title="fused: weights")
    assert {"0", "0.22", "fused: weights"} <= set(words(drawing))
    fills = {each.get("fill") for each in elements(drawing, "rect") if "1, 1" in (each.findtext("{*}title") or "")}
    assert fills == {ramp(RISING, 0.18 / 0.22)}
    assert {"0", "1"} <= set(words(heat_map([[0.2]], Labels(["a"], ["b"], "", "", ""), full=1.0)))


def test_the_labels_of_72_bars_do_not_overlap() -> None:
    layers = [str(layer) for layer in range(1, 73)]
    drawing = bar_chart(
        layers, [Bars(name, [0.5] * 72) for name in ("score", "length", "loss")], Axis("change", 0, 0.8)
    )
    bars = [each for each in elements(drawing, "rect") if (each.findtext("{*}title") or "").endswith(": 0.5")]
    assert len(bars) == 3 * 72
    assert min(float(bar.get("width", "")) for bar in bars) > 1
    places = [float(each.get("x", "")) for each in elements(drawing, "text") if each.text in layers]
    assert min(after - before for before, after in pairwise(places)) > 2.5 * LETTER


def test_a_map_has_a_labelled_cell_for_every_value() -> None:
    labels = Labels(["the", "dog"], ["der", "Hund", "</s>"], "source", "target", "weight")
    drawing = heat_map([[0.1, 0.9, 0.0], [0.5, math.nan, 0.5]], labels)
    hints = [each.text for each in elements(drawing, "title")]
    assert "the, Hund: 0.9" in hints
    assert not any("nan" in (hint or "") for hint in hints)
    assert {"source", "target", "weight", "the", "Hund", "</s>"} <= set(words(drawing))


@pytest.mark.parametrize(
    ("value", "high", "words"),
    [(0.25, 1, "0.25"), (0.98, 0.98, "0.98"), (0.001, 1, ""), (-3.2, 40, "-3"), (12.5, 40, "12")],
)
def test_numbers_in_cells(value: float, high: float, words: str) -> None:
    assert cell_text(value, Axis("", 0, high)) == words


def test_labels_of_72_layers_do_not_overlap() -> None:
    labels = Labels([str(layer + 1) for layer in range(72)], ["100", "200"], "layer", "step", "norm")
    drawing = heat_map([[1.0, 2.0]] * 72, labels)
    heights = sorted(float(each.get("y", "")) for each in elements(drawing, "text") if each.get("text-anchor") == "end")
    assert len(heights) > 10
    assert min(b - a for a, b in pairwise(heights)) >= 12


@pytest.mark.parametrize(
    ("axis", "ticks"),
    [
        (Axis("x", 0, 900), [0, 200, 400, 600, 800]),
        (Axis("x", 0.1, 0.35), [0.1, 0.15, 0.2, 0.25, 0.3, 0.35]),
        (Axis("x", 1, 1000, log=True), [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]),
        (Axis("x", 1e-6, 1e3, log=True), [10.0**power for power in range(-6, 4)]),
    ],
)
def test_ticks_are_round(axis: Axis, ticks: list[float]) -> None:
    assert axis.ticks() == pytest.approx(ticks)


def test_ticks_can_be_the_data() -> None:
    assert Axis.at("encoder layers", [24, 4, 24]).ticks() == [4, 24]


def test_range_of_an_axis() -> None:
    assert Axis.over("x", [3, math.inf, 5]) == Axis("x", 3, 5)
    assert Axis.over("x", [3, 5], zero=True) == Axis("x", 0, 5)
    assert Axis.over("x", [2.0]) == Axis("x", 1.5, 2.5)
    assert Axis.over("x", [0.0, 2.0], log=True) == Axis("x", 1, 4, log=True)


@pytest.mark.parametrize(
    ("value", "words"), [(0, "0"), (1234.0, "1,234"), (0.25, "0.25"), (2e-5, "2e-5"), (3e6, "3e6"), (12.0, "12")]
)
def test_tick_text(value: float, words: str) -> None:
    assert tick_text(value) == words


def test_colours_between_anchors() -> None:
    assert ramp(("#000000", "#ffffff"), 0.5) == "#808080"
    assert ramp(("#000000", "#ffffff", "#ff0000"), 2.0) == "#ff0000"
    assert is_dark("#440154")
    assert not is_dark("#fde725")
    assert not is_dark("#249c88")  # 6.2:1 with black, 3.4:1 with white


def test_a_page_with_several_sections_has_a_table_of_contents() -> None:
    whole = page("T", [section(name) for name in "abcd"])
    assert '<li><a href="#part3">c</a></li>' in whole
    assert '<h2 id="part3">c</h2>' in whole
    assert "<nav" not in page("T", [section("a")])


def test_a_page_is_complete_and_self_contained() -> None:
    whole = page("T & <C>", [section("S", figure("<svg></svg>", "what it shows"), table(("a", "b"), [("x<y", "1.5")]))])
    assert whole.startswith("<!doctype html>")
    assert "<title>T &amp; &lt;C&gt;</title>" in whole
    assert '<td>x&lt;y</td><td class="number">1.5</td>' in whole
    assert not re.search(r"(?:src|href)=\"(?!data:|#)|@import|url\(", whole)
    assert "<dt>a&amp;b</dt><dd><b>c</b></dd>" in definitions([("a&b", "<b>c</b>")])


def test_paragraphs_mark_code() -> None:
    assert paragraph("`top` < `msc`", "soft") == '<p class="soft"><code>top</code> &lt; <code>msc</code></p>'
