# SPDX-License-Identifier: Apache-2.0
"""A run in a notebook, as IPython's own formatter asks for it: figures, verdicts, and names that would be
mark-up or script in it."""
import json
import re
import subprocess
from ctypes import addressof, byref, c_int32
from html.parser import HTMLParser

import pytest
from loggers import need

import moescope
from moescope import _library as lib
from moescope import notebook

NASTY = "<img src=x onerror=alert(1)> | *a* `b` \u202e & 'q\""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Ten steps whose tokens all go to one of four experts."""
    path = tmp_path_factory.mktemp("runs") / f"{NASTY}.mscope"
    moescope.start(str(path))
    chosen = (c_int32 * 1000)()
    for _ in range(10):
        lib.load().moescope_route(byref(lib.Routing(
            layer=2, experts=4, k=1, tokens=1000, indices=addressof(chosen), indices_type=lib.I32)))
        moescope.step(tokens=1000)
    moescope.stop()
    return str(path)


def shown(thing):
    """{type: text} of the last line of a cell."""
    need("IPython")
    from IPython.core.formatters import DisplayFormatter
    return DisplayFormatter().format(thing)[0]


class Parsed(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.cells, self.words = set(), [], [], ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes.append(dict(attributes))
        if tag in ("th", "td"):
            self.cells.append("")

    def handle_data(self, data):
        self.words += data
        if self.cells:
            self.cells[-1] += data


def test_html_has_figures_and_verdicts_and_no_script(run):
    page = Parsed(shown(moescope.Run(run))["text/html"])
    figures = dict(zip(page.cells[::2], page.cells[1::2]))
    report = json.loads(lib.run_tool("report", run, "--json"))
    assert figures["steps"] == "10" and figures["MoE layers"] == "1"
    assert "layer 2" in figures["most uneven layer"] and "4.00 times the mean" in figures["most uneven layer"]
    assert figures["tokens per second"] == f"{report['steps']['total']['tokens_per_s']:,.0f}"
    assert page.tags == {"div", "p", "b", "table", "tbody", "tr", "th", "td", "ul", "li", "br", "small"}
    assert {key for one in page.attributes for key in one} == {"style"}
    name = NASTY.replace("\u202e", "?")
    assert name in page.words and "\u202e" not in page.words
    asked = [v for v in report["verdicts"] if v["severity"] != "ok"]
    assert any(v["id"] == "router-collapsed" for v in asked)
    for verdict in asked[:5]:
        assert verdict["title"] in page.words and verdict["advice"] in page.words


def test_markdown_has_the_same_and_nothing_of_it_is_mark_up(run):
    text = shown(moescope.Run(run))["text/markdown"]
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert "| steps | 10 |" in rows and {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {3}
    (head, *_) = text.splitlines()
    assert r"&lt;img src=x onerror=alert\(1\)&gt; \| \*a\* \`b\` ? &amp;" in head
    assert re.search(r"^- \*\*critical\*\* collapsed router: layer 2 sends 100% of its work", text, re.M)


def luminance(colour):
    parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_colours_are_readable_in_light_and_dark_notebooks():
    for colour in notebook.COLOURS.values():
        for paper in ("#ffffff", "#111111"):
            light, dark = sorted((luminance(colour), luminance(paper)), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 3, (colour, paper)


def test_show_has_the_whole_page_in_a_frame_that_reaches_nothing(run, tmp_path):
    for what in (run, moescope.Run(run)):
        page = Parsed(shown(moescope.show(what, height=333))["text/html"])
        assert page.tags == {"iframe"}
        (frame,) = page.attributes
        assert "height:333px" in frame["style"] and frame["title"] == "moescope"
        assert "allow-scripts" in frame["sandbox"] and "same-origin" not in frame["sandbox"]
        subprocess.run([lib.tool_path(), "report", run, "--html", tmp_path / "a.html"], check=True)
        expected = (tmp_path / "a.html").read_text(encoding="utf-8")
        assert frame["srcdoc"].replace('\n<base href="about:srcdoc">', "") == expected


def test_a_run_without_steps_and_one_that_is_not_there(tmp_path):
    path = str(tmp_path / "empty.mscope")
    moescope.start(path)
    moescope.stop()
    page = Parsed(shown(moescope.Run(path))["text/html"])
    assert "duration" in page.cells and "steps" not in page.cells
    assert repr(moescope.Run(path)) == f"moescope.Run({path!r})"
    with pytest.raises(moescope.ToolError, match="no-such"):
        moescope.Run("no-such.mscope").report
    with pytest.raises(ValueError, match="height is -1; give 0 or more"):
        moescope.show(path, height=-1)
