"""Axes with round ticks, and figures whose coordinates are worked by hand."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree

import pytest

from hpcpod.report.axes import Axis, axis_of, nice_step, number, seconds_axis
from hpcpod.report.page import picture
from hpcpod.report.plot import Plot, table

X, Y = Axis("steps", 0.0, 100.0), Axis("return", -50.0, 150.0)


def plot(**fields: object) -> Plot:
    return Plot("a title", "a description", X, Y, 200, **fields)  # type: ignore[arg-type]


def paths(drawn: Plot) -> list[tuple[str, str]]:
    return re.findall(r'<path class="([^"]*)" d="([^"]*)"', drawn.markup().text)


@pytest.mark.parametrize(
    ("low", "high", "step"),
    [(0, 1, 0.2), (0, 9, 2), (0, 500, 100), (-1e-4, 2e-4, 1e-4), (3, 4, 0.2)],
)
def test_steps_are_round(low: float, high: float, step: float) -> None:
    assert nice_step(low, high) == pytest.approx(step)


def test_ticks_are_round_values_inside_the_range() -> None:
    assert Axis("", -3.0, 21.0).ticks() == [(0.0, "0"), (5.0, "5"), (10.0, "10"), (15.0, "15"),
                                            (20.0, "20")]  # fmt: skip
    assert [text for _, text in Axis("", 0.0, 0.5).ticks()] == [
        "0",
        "0.1",
        "0.2",
        "0.3",
        "0.4",
        "0.5",
    ]
    log = Axis("", 5e-6, 2e-2, log=True)
    assert [text for _, text in log.ticks()] == ["1e-5", "1e-4", "0.001", "0.01"]
    assert [value for value, _ in log.ticks()] == pytest.approx([1e-5, 1e-4, 1e-3, 1e-2])
    assert Axis("", 2.0, 7.0, log=True).ticks() == [(2.0, "2"), (5.0, "5")]


def test_times_are_in_the_unit_that_fits() -> None:
    minutes = seconds_axis("time", [600.0, math.nan])
    assert (minutes.suffix, minutes.unit) == ("min", 60.0)
    assert minutes.ticks()[1] == (120.0, "2")
    assert seconds_axis("time", [90.0, math.nan]).suffix == "s"
    assert seconds_axis("time", [8000.0, math.nan]).suffix == "h"
    assert seconds_axis("time", [9e5, math.nan]).suffix == "d"


def test_places_are_linear_or_logarithmic_and_stop_at_the_ends() -> None:
    assert [Y.place(value) for value in (-50.0, 0.0, 150.0, 1e9)] == [0.0, 0.25, 1.0, 1.0]
    assert Axis("", 1.0, 100.0, log=True).place(10.0) == pytest.approx(0.5)


def test_an_axis_ignores_what_is_no_number_and_has_a_width() -> None:
    assert axis_of("", [math.nan, math.inf, -math.inf, 1e308]) is None
    one = axis_of("", [3.0, math.nan])
    assert one is not None
    assert one.low < 3.0 < one.high
    zero = axis_of("", [0.0, 0.0])
    assert zero is not None and zero.low < zero.high
    assert zero.ticks()


def test_numbers_have_few_characters() -> None:
    said = [number(v) for v in (0.0, 5.05e-6, 0.0123, 12.346, -143.25, 1234.0, 322_100.0, math.nan)]
    assert said == ["0", "5.05e-6", "0.0123", "12.3", "-143.2", "1234", "322k", "nan"]


def test_a_line_goes_through_its_points() -> None:
    drawn = plot()
    # a grid of 4000: x 0, 50, 100 of 100; y -50 is the bottom (4000), 150 the top (0), 50 half way
    drawn.line([(0.0, -50.0), (50.0, 50.0), (math.nan, 1.0), (100.0, 150.0)], "k0", "p0001")
    drawn.dots([(50.0, 0.0), (1.0, math.inf)], "k1")
    drawn.band([(0.0, 0.0, 50.0), (100.0, 50.0, 100.0)], "k2")
    drawn.bars([(25.0, 75.0, 50.0)], "k3", 100.0)
    drawn.line([(100.0, 150.0)], "k4")
    assert paths(drawn) == [
        ("line k0", "M0 4000L2000 2000L4000 0"),
        ("dots k1", "M2000 3000h0"),
        ("band k2", "M0 3000L4000 2000L4000 1000L0 2000z"),
        ("bar k3", "M1000 1000H3000V3000H1000z"),
        ("line k4", "M4000 0h0"),
    ]


def test_nothing_that_can_be_drawn_is_no_path() -> None:
    drawn = plot()
    drawn.line([(math.nan, 1.0)], "k0")
    drawn.dots([], "k0")
    drawn.band([(1.0, 2.0, 3.0)], "k0")
    drawn.level(1e9, "beyond")
    drawn.label(math.nan, "p", "k0")
    assert paths(drawn) == []
    assert "beyond" not in drawn.markup().text


def test_labels_that_would_lie_on_another_are_counted() -> None:
    drawn = plot()
    for y, name in ((100.0, "p0001"), (99.0, "p0002"), (0.0, "p0003")):  # 1 of 200 px apart
        drawn.label(y, name, "k0")
    assert re.findall(r'<text class="end k0"[^>]*>([^<]*)', drawn.markup().text) == [
        "p0001 +1", "p0003",
    ]  # fmt: skip


def test_a_note_that_would_lie_on_another_is_left_out() -> None:
    drawn = plot()
    for x, y, name in ((50.0, 0.0, "p0001"), (52.0, 1.0, "p0002"), (52.0, 90.0, "p0003")):
        drawn.note(x, y, name)
    assert re.findall(r'class="note"[^>]*>([^<]*)', drawn.markup().text) == ["p0001", "p0003"]


def test_a_figure_has_a_name_and_a_description_for_who_does_not_see_it() -> None:
    text = plot().markup().text
    [marks] = re.findall(r'role="img" aria-labelledby="([^"]*)"', text)
    title, description = marks.split()
    assert f'<title id="{title}">a title</title><desc id="{description}">a description' in text


def test_a_picture_is_xml_of_its_own() -> None:
    drawn = plot()
    drawn.line([(0.0, 0.0), (100.0, 100.0)], "k0 win", "<script>")
    root = ElementTree.fromstring(picture(drawn))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    [path] = root.iter("{http://www.w3.org/2000/svg}path")
    assert path.get("data-pod") == "<script>"
    assert not list(root.iter("{http://www.w3.org/2000/svg}script"))


def test_numbers_in_a_table_stand_to_the_right() -> None:
    text = table(["a", "b"], [["p0001", "12.5"], ["x", None]], "what it is").text
    assert '<td>p0001</td><td class="n">12.5</td>' in text
    assert 'aria-label="what it is"' in text
