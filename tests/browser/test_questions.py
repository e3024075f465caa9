# SPDX-License-Identifier: Apache-2.0
"""Questions to the page that no single table answers, in a real browser: two runs beside each other, SQL, and the
flame graph."""

import json
import os
import shutil
import subprocess
import time

from browser import MOESCOPE, cells, fakes, page, quit_browser, serve, until, view
from cli import TINYMOE, check, environment, equal, main, moescope, need, record, test

COMPARED = """!document.querySelector("[aria-busy]")
    && document.querySelector(".compared:not([hidden]) .rows tbody tr[data-index]")"""
ROWS = """!document.querySelector("[aria-busy]") && document.querySelector(".sql .rows tbody tr[data-index]")"""
FLAME = """!document.querySelector("[aria-busy]") && document.querySelector(".flame figure:not([hidden]) canvas")?.width > 300"""


def wanted_figures():
    return json.loads(moescope("compare", "slow.mscope", "gpu.mscope", "--json").out)["comparisons"][0]


def write(tab, words):
    """In place of what the query is."""
    tab.ask("(() => { const box = document.querySelector('textarea'); box.focus(); box.select(); return true; })()")
    tab.type(words)


def press_control_enter(tab):
    for kind in ("rawKeyDown", "keyUp"):
        tab.send("Input.dispatchKeyEvent", type=kind, key="Enter", modifiers=2, windowsVirtualKeyCode=13)


@test
def a_series_of_one_step_is_a_point():
    """Beside one of several, which is a line."""
    record("one.mscope", 1)
    record("some.mscope", 4)
    with serve(".") as server, page(server.address + view("some", "compare", "?with=one"),
                                    expected=["willReadFrequently"]) as tab:
        # The colours of both series are in the picture, above the legend.
        tab.wait(COMPARED + """ && (() => {
            const canvas = document.querySelector(".compared figure:not([hidden]) canvas");
            if (!canvas) return false;
            const scale = canvas.width / canvas.clientWidth, style = getComputedStyle(document.documentElement);
            const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height - 18 * scale).data;
            const probe = document.createElement("canvas").getContext("2d");
            return ["--series-1", "--series-2"].every((name) => {
                probe.fillStyle = style.getPropertyValue(name).trim();
                probe.fillRect(0, 0, 1, 1);
                const [r, g, b] = probe.getImageData(0, 0, 1, 1).data;
                for (let i = 0; i < data.length; i += 4)
                    if (data[i] === r && data[i + 1] === g && data[i + 2] === b) return true;
                return false;
            });
        })()""")


@test
def two_runs_are_compared_from_the_list():
    fakes()
    with serve(".") as server, page(server.address) as tab:
        tab.wait("document.querySelectorAll('.runs tbody tr').length === 10")
        tab.click(".runs [data-key='compare gpu']")
        tab.wait("/Choose the run/.test(document.querySelector('.sentence')?.innerText)")
        equal(tab.ask("document.querySelector('select').options.length"), 10)
        tab.ask("(() => { const s = document.querySelector('select'); s.value = 'slow';"
                " s.dispatchEvent(new Event('change')); return true; })()")
        tab.wait(COMPARED)
        equal(tab.ask("location.hash"), "#/gpu/compare?with=slow")
        figures = wanted_figures()["figures"]
        # The same figures, with the same verdicts, as the command.
        equal(cells(tab, "metric"), [row["metric"] for row in figures])
        words = {"noise": "within noise", "same": "the same", "untested": "not tested", "absent": "unknown"}
        equal(cells(tab, "verdict"), [words.get(row["verdict"], row["verdict"]) for row in figures])
        whole = [row for row in figures if "of" not in row and row["value"] is not None]
        equal(tab.ask("document.querySelectorAll('.compared .tile').length"), len(whole))
        check("of the baseline against" in tab.ask("document.querySelector('.compared .tile').title"))
        tab.wait("document.querySelector('.compared figure:not([hidden]) canvas')")
        tab.picture("compare-light")
        # Turned around, the other run is the one that is looked at.
        tab.click(".choose button")
        tab.wait("location.hash === '#/slow/compare?with=gpu'"
                 " && document.querySelector('h1')?.innerText === 'slow against gpu'")
        tab.wait(COMPARED)


@test
def the_address_restores_a_comparison():
    fakes()
    address = view("gpu", "compare", "?with=slow&by=host&sort=-difference&find=forward")
    with serve(".") as server, page(server.address + address, dark=True) as tab:
        tab.wait(COMPARED)
        host = [row for row in wanted_figures()["host"] if "forward" in row["of"]]
        equal(sorted(cells(tab, "of")), sorted(row["of"] for row in host))
        equal(tab.ask("document.querySelector('.compared [aria-pressed=true]').dataset.key"), "host")
        equal(tab.ask("document.querySelector('.rows th[aria-sort=descending] button').dataset.key"), "difference")
        # By keyboard alone: the first row, its details, out again, the next table.
        tab.ask("document.querySelector('.rows [role=grid]').focus()")
        tab.press("ArrowDown")
        tab.press("Enter")
        tab.wait("!document.querySelector('.drawer').hidden")
        check("of the baseline against" in tab.text(".drawer"), tab.text(".drawer"))
        check("row=" in tab.wait("/row=/.test(location.hash) && location.hash"))
        tab.ask("document.querySelector('.drawer button').focus()")
        tab.press("Escape")
        tab.wait("document.querySelector('.drawer').hidden")
        tab.ask("document.querySelector('.compared [data-key=figures]').focus()")
        tab.press("Enter")
        tab.wait("/by=figures/.test(location.hash)")
        equal(tab.ask("document.activeElement.dataset.key"), "figures")
        tab.picture("compare-dark")


@test
def a_baseline_that_is_missing_is_one_sentence():
    fakes()
    with serve(".") as server, page(server.address + view("gpu", "compare", "?with=nothing"), expected=["404"]) as tab:
        tab.wait("/There is no run 'nothing'/.test(document.querySelector('.view > .sentence')?.innerText)")
        equal(tab.ask("document.querySelector('.notice').hidden"), True)
        tab.ask("location.hash = '#/gpu/compare?with=slow'")
        tab.wait(COMPARED)
        # And one that goes while it is looked at.
        shutil.rmtree("slow.mscope")
        tab.ask("location.hash = '#/gpu/compare?with=slow&find=x'")
        tab.wait("/There is no run 'slow'/.test(document.querySelector('.view > .sentence')?.innerText)")
    with serve("gpu.mscope") as server, page(server.address + view("gpu", "compare")) as tab:
        tab.wait("/no other run/.test(document.querySelector('.view > .sentence')?.innerText)")


@test
def a_query_is_asked_by_keyboard_and_restored():
    fakes()
    query = "SELECT short_name, count(*) AS n,\n 1 AS n -- twice\nFROM kernels GROUP BY 1 ORDER BY 2 DESC, 1"
    with serve(".") as server, page(server.address + view("gpu", "sql")) as tab:
        tab.wait("document.querySelectorAll('.tables details').length > 20")
        check("10,000 rows" in tab.text(".sql .count"), tab.text(".sql .count"))
        write(tab, query)
        tab.press("/", "/")
        tab.press("/", "/")
        equal(tab.ask("document.activeElement.tagName"), "TEXTAREA")
        write(tab, query)
        press_control_enter(tab)
        tab.wait(ROWS)
        told = json.loads(moescope("sql", "gpu.mscope", query, "--json").out)["rows"]
        equal(cells(tab, "short_name"), [row[0] for row in told])
        equal(cells(tab, "n (2)"), ["1"] * len(told))
        address = tab.ask("location.href")
        tab.picture("sql-light")
        # Its rows in a file.
        tab.ask("URL.createObjectURL = (blob) => { window.saved = blob; return 'data:,'; }")
        tab.click(".sql .choices button:nth-child(2)")
        saved = tab.wait("window.saved && window.saved.text()")
        equal(saved.split("\r\n")[0], "short_name,n,n (2)")
        equal(len(saved.split("\r\n")), len(told) + 2)
    with serve(".") as server, page(server.address + address[address.index("#"):], dark=True) as tab:
        tab.wait(ROWS)
        equal(tab.ask("document.querySelector('textarea').value"), query)
        tab.click(".tables details summary")
        tab.click(".tables li button")
        check(tab.ask("document.querySelector('textarea').value").endswith("run"))
        tab.ask("document.querySelector('.rows [role=grid]').focus()")
        tab.press("ArrowDown")
        tab.press("Enter")
        tab.wait("/Row 1/.test(document.querySelector('.drawer:not([hidden])')?.innerText)")
        tab.picture("sql-dark")


@test
def every_example_of_sql_is_answered():
    fakes()
    with serve(".") as server:
        for run in ("gpu", "training"):
            with page(server.address + view(run, "sql")) as tab:
                tab.wait("document.querySelectorAll('.tables details').length > 20")
                n = tab.ask("document.querySelectorAll('.sql .choices button').length")
                check(n >= 6, n)
                for i in range(3, n + 1):
                    before = tab.ask("location.hash")
                    tab.ask(f"document.querySelectorAll('.sql .choices button')[{i - 1}].click()")
                    tab.wait(f"location.hash !== {json.dumps(before)}"
                             " && / rows? in /.test(document.querySelector('.sql .count').innerText)")


@test
def what_is_wrong_with_a_query_is_one_sentence():
    fakes()
    with serve(".") as server, page(server.address + view("gpu", "sql", "?query=SELEC"), expected=["40"]) as tab:
        tab.wait("/syntax error, at line 1, column 1/.test(document.querySelector('.wrong')?.innerText)")
        write(tab, "CREATE TEMP TABLE x AS SELECT 1")
        press_control_enter(tab)
        tab.wait("/read-only/.test(document.querySelector('.wrong')?.innerText)")
        write(tab, "SELECT 1 AS one")
        press_control_enter(tab)
        tab.wait(ROWS)
        equal(tab.ask("document.querySelector('.wrong')"), None)
        # No rows beside an error: they would be those of another query.
        write(tab, "SELECT x")
        press_control_enter(tab)
        tab.wait("/No such column/.test(document.querySelector('.wrong')?.innerText)")
        equal(tab.ask("document.querySelectorAll('.sql .rows').length"), 0)
        equal(tab.ask("document.querySelector('.sql .choices button:nth-child(2)').disabled"), True)


@test
def a_query_waits_for_another():
    fakes()
    endless = "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) SELECT count(*) FROM t"
    with serve(".") as server, page(server.address + view("gpu", "sql"), expected=["503", "400"]) as tab:
        tab.wait("document.querySelectorAll('.tables details').length > 20")
        write(tab, endless)
        press_control_enter(tab)
        tab.wait("document.querySelector('.sql .count').innerText === 'Running…'")
        until(lambda: tab.ask(f"fetch('api/runs/gpu/sql?query=SELECT+{time.monotonic_ns()}').then((r) => r.status)") == 503)
        write(tab, "SELECT 'after' AS word")
        press_control_enter(tab)
        tab.wait("/Another query is running/.test(document.querySelector('.wrong')?.innerText)"
                 f" || {ROWS}")
        tab.wait(ROWS)
        equal(cells(tab, "word"), ["after"])


def boxes(tab):
    """All stacks of the flame graph, from its table."""
    tab.ask("document.querySelector('.flame details').open = true")
    return tab.wait("""(() => { const rows = [...document.querySelectorAll(".flame .wide tbody tr")];
        return rows.length && rows.map((row) => [...row.children].map((cell) => cell.innerText)); })()""")


@test
def the_flame_graph_zooms_searches_and_is_restored():
    fakes()
    with serve(".") as server, page(server.address + view("gpu", "flame")) as tab:
        tab.wait(FLAME)
        stacks = [row[0] for row in boxes(tab)]
        folded = moescope("export", "gpu.mscope", "--to", "folded-host", "-o", "-").out.splitlines()
        for stack in (line.rsplit(" ", 1)[0] for line in folded):
            check(stack in stacks or any("smaller" in each for each in stacks), stack)
        # The keyboard: the root, the thread, its largest range, into that.
        tab.ask("document.querySelector('.flame canvas').focus()")
        for _ in range(3):
            tab.press("ArrowDown")
        tab.wait("/forward: .* of all; itself .* times/.test(document.querySelector('.flame .tip').innerText)")
        tab.press("Enter")
        tab.wait("/zoom=thread\\+1%3Bforward/.test(location.hash)")
        tab.wait("/all › thread 1 › forward/.test(document.querySelector('.way').innerText)")
        check(all(row[0].startswith("thread 1;forward") for row in boxes(tab)), boxes(tab))
        tab.press("Backspace")
        tab.wait("/zoom=thread\\+1(&|$)/.test(location.hash)")
        # A click on the box below the root's.
        tab.ask("location.hash = '#/gpu/flame?find=block'")
        tab.wait("/1 box matches: .* of the time/.test(document.querySelector('.flame .count').innerText)")
        box = tab.ask("(() => { const b = document.querySelector('.flame canvas').getBoundingClientRect();"
                      " return [b.x + 40, b.y + 30]; })()")
        tab.point(*box)
        tab.wait("/thread 1: /.test(document.querySelector('.flame .tip').innerText)")
        for kind in ("mousePressed", "mouseReleased"):
            tab.send("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)
        tab.wait("/zoom=thread\\+1/.test(location.hash) && /find=block/.test(location.hash)")
        tab.ask("history.back()")
        tab.wait("!/zoom/.test(location.hash) && document.querySelector('.way').hidden")
        tab.picture("flame-light")
    address = view("gpu", "flame", "?of=device&zoom=thread+1%3Bforward&find=flash")
    with serve(".") as server, page(server.address + address, dark=True) as tab:
        tab.wait(FLAME)
        equal(tab.ask("document.querySelector('.flame [aria-pressed=true]').innerText"), "Device time")
        check(all(row[0].startswith("thread 1;forward") for row in boxes(tab)), boxes(tab))
        tab.wait("/1 box matches/.test(document.querySelector('.flame .count').innerText)")
        tab.picture("flame-dark")


@test
def a_run_that_grows_stays_where_one_looks():
    fakes()
    need(TINYMOE)
    job = subprocess.Popen([MOESCOPE, "run", "-q", "-o", "grows.mscope", "--", TINYMOE, "--threads", "1", "--steps",
                            "1000000"], env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                           start_new_session=True)
    try:
        until(lambda: json.loads(moescope("steps", "grows.mscope", "--json").out or '{"rows": []}')["rows"][5:])
        with serve(".") as server, page(server.address + view("grows", "flame", "?find=expert")) as tab:
            tab.wait(FLAME)
            tab.ask("document.querySelector('.flame canvas').focus()")
            tab.press("ArrowDown")
            tab.press("ArrowDown")
            tab.press("Enter")
            zoomed = tab.wait("/zoom=/.test(location.hash) && location.hash")
            for _ in range(2):
                told = tab.text(".flame .count")
                tab.wait(f"document.querySelector('.flame .count').innerText !== {json.dumps(told)}")
            equal(tab.ask("location.hash"), zoomed)
            equal(tab.ask("document.querySelector('.way').hidden"), False)
            equal(tab.ask("document.activeElement.tagName"), "CANVAS")
            # A comparison: the figures follow, a closed row stays closed.
            tab.ask("location.hash = '#/grows/compare?with=training'")
            tab.wait(COMPARED)
            tab.ask("document.querySelector('.rows [role=grid]').focus()")
            tab.press("ArrowDown")
            tab.press("Enter")
            tab.wait("!document.querySelector('.drawer').hidden")
            tab.click(".drawer button")
            told = tab.text(".compared .tiles")
            tab.wait(f"document.querySelector('.compared .tiles').innerText !== {json.dumps(told)}")
            equal(tab.ask("document.querySelector('.drawer').hidden"), True)
    finally:
        os.killpg(job.pid, 15)
        job.wait()


@test
def a_run_without_a_device_says_so():
    record("cpu.mscope", 2)
    fakes()
    with serve(".") as server, page(server.address + view("cpu", "flame", "?of=device")) as tab:
        tab.wait("/Nothing to show: .*kernels/.test(document.querySelector('.flame .count').innerText)")
        tab.click(".flame [data-key=host]")
        tab.wait(FLAME)


@test
def a_file_with_its_data_says_what_needs_a_server():
    fakes()
    equal(moescope("report", "gpu.mscope", "--html", "gpu.html").status, 0)
    with page(f"file://{os.getcwd()}/gpu.html") as tab:
        for name, words in (("compare", "about one run"), ("sql", "no queries"), ("flame", "not in this file")):
            tab.ask(f"location.hash = '#/gpu/{name}'")
            tab.wait(f"/{words}/.test(document.querySelector('main .sentence')?.innerText)")


@test
def the_three_fit_a_laptop():
    fakes()
    with serve(".") as server, page(server.address + view("gpu", "compare", "?with=slow&by=kernels")) as tab:
        for name, painted in (("compare?with=slow&by=kernels", COMPARED), ("sql?query=SELECT+*+FROM+kernels", ROWS),
                              ("flame", FLAME)):
            tab.ask(f"location.hash = '#/gpu/{name}'")
            tab.wait(painted)
            for zoom in (1.0, 0.8, 1.5):
                tab.size(1280, 720, zoom)
                tab.wait("document.documentElement.scrollWidth <= innerWidth"
                         " && document.querySelector('main').scrollWidth <= document.querySelector('main').clientWidth")


if __name__ == "__main__":
    try:
        main()
    finally:
        quit_browser()
