# SPDX-License-Identifier: Apache-2.0
"""The web page in a real browser, on runs built by hand, runs recorded on a GPU and a run that grows.

MOESCOPE_BROWSER_PICTURES names a folder for pictures of every view, light and dark.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

from browser import BUILD, GOING, MOESCOPE, cells, fakes, frame_of, page, program, quit_browser, serve, until, view
from cli import TINY, TINYMOE, Skip, check, environment, equal, main, moescope, need, test

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
VIEWS = ("steps", "requests", "ops", "kernels", "api", "transfers", "efficiency", "counters",
         "counters-kernels", "counters-ranges", "counters-stalls", "counters-lines",
         "routing", "routing-steps", "routing-experts", "routing-pairs", "routing-k", "counters-experts", "moe", "memory", "comm")
# A view is painted: it has rows, or says that there are none.
PAINTED = """!document.querySelector("[aria-busy]")
    && (document.querySelector(".rows tbody tr[data-index]")
        || /Nothing to show/.test(document.querySelector(".count")?.innerText))"""
OVERVIEW = "!document.querySelector('main[aria-busy]') && document.querySelector('.verdicts li')"


@test
def every_view_of_every_run_is_painted():
    fakes()
    with serve(".") as server:
        for run in ("training", "gpu", "h200", "windows", "slow", "comm", "counters", "limits", "h200-windows"):
            with page(server.address + view(run, "overview")) as tab:
                tab.wait(OVERVIEW)
                for name in VIEWS:
                    tab.ask(f"location.hash = {json.dumps(view(run, name))}")
                    tab.wait(f"document.querySelector('nav [aria-current]')?.dataset.key === '{name}' && {PAINTED}")
                    told = json.loads(moescope(name, f"{run}.mscope", "--json", "--limit", "0").out or "{}")
                    if "-" not in name:
                        equal(tab.ask("Number(document.querySelector('.rows table').getAttribute('aria-rowcount')) - 1"),
                              len(told["rows"]), run, name)


@test
def pictures_are_drawn_in_both_themes():
    fakes()
    shown = {"overview": "comm", "steps": "slow", "kernels": "h200-windows", "routing": "training", "memory": "training",
             "comm": "comm", "ops": "training", "counters-kernels": "limits"}
    with serve(".") as server:
        for dark in (False, True):
            for name, run in shown.items():
                with page(server.address + view(run, name), dark=dark, expected=["willReadFrequently"]) as tab:
                    tab.wait(OVERVIEW if name == "overview" else PAINTED)
                    # Not empty, and in more than two colours.
                    tab.wait("""[...document.querySelectorAll("figure:not([hidden]) canvas")].every((canvas) => {
                        const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
                        return new Set(new Uint32Array(data.buffer)).size > 2;
                    }) && document.querySelector("figure:not([hidden])") !== null""")
                    equal(tab.ask("document.documentElement.dataset.theme"), "dark" if dark else "light")
                    tab.picture(f"{run}-{name}-{'dark' if dark else 'light'}")


@test
def it_fits_a_laptop_and_80_percent():
    fakes()
    with serve(".") as server, page(server.address + view("h200-windows", "overview")) as tab:
        for zoom in (1.0, 0.8, 1.5):
            tab.size(1280, 720, zoom)
            for name in ("overview", "kernels", "routing", "steps"):
                tab.ask(f"location.hash = {json.dumps(view('h200-windows', name))}")
                tab.wait(OVERVIEW if name == "overview" else PAINTED)
                equal(tab.ask("document.documentElement.scrollWidth <= innerWidth"
                              " && document.querySelector('main').scrollWidth <= document.querySelector('main').clientWidth"),
                      True, name, zoom)


@test
def the_list_of_runs_leads_to_them():
    fakes()
    with serve(".") as server, page(server.address) as tab:
        tab.wait("document.querySelectorAll('.runs tbody tr').length === 10"
                 " && document.querySelectorAll('.runs .status.exited').length === 10")
        check("./train --steps 12" in tab.text(".runs tbody"), tab.text(".runs tbody"))
        tab.picture("runs-light")
        tab.click(".runs [data-key=slow]")
        tab.wait(OVERVIEW)
        equal(tab.ask("location.hash"), "#/slow/overview")
        check("Nothing was lost" in tab.text(".run"), tab.text(".run"))
        tab.ask("history.back()")
        tab.wait("document.querySelectorAll('.runs tbody tr').length === 10")


@test
def a_server_of_one_run_shows_it():
    fakes()
    with serve("slow.mscope") as server, page(server.address) as tab:
        tab.wait(OVERVIEW)
        equal(tab.ask("location.hash"), "#/slow/overview")
        equal(tab.ask("document.querySelector('.home')"), None)


@test
def a_token_in_the_address_is_enough():
    fakes()
    with serve("slow.mscope", "--token", "secret") as server, page(server.address) as tab:
        tab.wait(OVERVIEW)
        equal(tab.ask("location.search"), "", "the token stays in the address")
        tab.ask("location.hash = '#/slow/steps'")
        tab.wait(PAINTED)


@test
def a_verdict_jumps_to_its_evidence():
    fakes()
    with serve(".") as server, page(server.address + view("slow", "overview")) as tab:
        tab.wait(OVERVIEW)
        first = json.loads(moescope("report", "slow.mscope", "--json").out)["verdicts"][0]
        check(first["title"] in tab.text(".verdicts li"), tab.text(".verdicts li"))
        tab.click("[data-key='verdict routing-imbalance']")
        tab.wait("document.querySelector('.rows tr[aria-selected=true]')")
        check(tab.ask("location.hash").startswith("#/slow/routing?"), tab.ask("location.hash"))
        tab.ask("history.back()")
        tab.wait(OVERVIEW)
        tab.click("[data-key='verdict step-variation']")
        tab.wait("/Why it was slow/.test(document.querySelector('.drawer')?.innerText)")
        check("grouped_gemm +2.00 ms" in tab.text(".drawer .slow"), tab.text(".drawer"))
        tab.picture("slow-step-light")


CURSOR = """document.querySelector('.live td') && document.querySelector('.live [role=status]').innerText"""


def live_then(run, time_ns):
    return json.loads(moescope("memory", f"{run}.mscope", "--at", f"{time_ns}ns", "--json").out)["rows"]


@test
def memory_at_the_cursor_is_told():
    fakes()
    row = json.loads(moescope("memory", "training.mscope", "--json").out)["rows"][0]
    times = [point["time_ns"] for point in row["series"]]
    with serve(".") as server:
        with page(server.address + view("training", "memory")) as tab:
            tab.wait(PAINTED)
            check("arrow keys" in tab.text(".live [role=status]"), tab.text(".live"))
            # By keys: the first mark, then the next one.
            tab.ask("document.querySelector('figure:not([hidden]) canvas').focus()")
            tab.press("ArrowRight")
            tab.wait(f"location.hash.includes('at={times[0]}')")
            tab.wait(CURSOR)
            if len(times) > 1:
                tab.press("ArrowRight")
                tab.wait(f"location.hash.includes('at={times[1]}')")
            here = times[min(1, len(times) - 1)]
            then = live_then("training", here)[0]["live_at"]
            equal(then["allocated_bytes"], row["series"][times.index(here)]["allocated_bytes"])
            words = f"in {then['blocks']} blocks"
            tab.wait(f"({CURSOR} || '').includes({json.dumps(words)})")
            uses = tab.ask("document.querySelectorAll('.live table')[0].querySelectorAll('tbody tr').length")
            equal(uses, len(then["composition"]))
            # By the pointer: at the right end is the last moment.
            box = tab.ask("((box) => [box.x, box.y, box.width, box.height])("
                          "document.querySelector('figure:not([hidden]) canvas').getBoundingClientRect())")
            tab.point(box[0] + box[2] - 10, box[1] + 60)
            tab.drag((box[0] + box[2] - 10, box[1] + 60), (box[0] + box[2] - 10, box[1] + 60))
            tab.wait(f"location.hash.includes('at={times[-1]}')")
            last = live_then("training", times[-1])[0]["live_at"]
            tab.wait(f"({CURSOR} || '').includes({json.dumps(str(last['blocks']) + ' blocks')})")
            told = tab.text(".live [role=status]")
            address = tab.ask("location.href")
        for dark in (False, True):  # a link restores it
            with page(address, dark=dark) as tab:
                tab.wait(PAINTED)
                tab.wait(f"({CURSOR} || '') === {json.dumps(told)}")
                tab.picture(f"memory-cursor-{'dark' if dark else 'light'}")
    equal(moescope("report", "training.mscope", "--html", "a.html").status, 0)
    with page(f"file://{os.getcwd()}/a.html{view('training', 'memory')}") as tab:
        tab.wait(PAINTED)
        tab.wait("/needs 'moescope serve'/.test(document.querySelector('figure:not([hidden]) .note').innerText)")
        equal(tab.ask("document.querySelector('.live').hidden"), True)


@test
def the_address_restores_order_search_and_row():
    fakes()
    with serve(".") as server:
        with page(server.address + view("h200-windows", "kernels")) as tab:
            tab.wait(PAINTED)
            tab.click(".rows [data-key=count]")
            tab.wait("document.querySelector('th[aria-sort=descending] [data-key=count]')")
            tab.click("input[type=search]")
            tab.type("gemm")
            tab.wait(f"/ of 110 rows/.test(document.querySelector('.count').innerText) && {PAINTED}")
            names = cells(tab, "short_name")
            counts = tab.ask("""[...document.querySelectorAll(".rows tr[data-index]")]
                .map((row) => Number(row.children[2].title || row.children[2].innerText))""")
            equal(counts, sorted(counts, reverse=True))
            tab.click(".rows tr[data-index='1']")
            tab.wait("document.querySelector('.drawer:not([hidden]) dl')")
            address = tab.wait("location.hash.includes('row=') && location.href")
        with page(address) as tab:
            tab.wait(f"{PAINTED} && document.querySelector('.rows tr[aria-selected=true]')")
            equal(cells(tab, "short_name"), names)
            equal(tab.ask("document.querySelector('.rows tr[aria-selected=true]').dataset.index"), "1")
            equal(tab.ask("document.querySelector('input[type=search]').value"), "gemm")
            check(names[1].split(" ")[0] in tab.text(".drawer"), tab.text(".drawer h2"), names[1])


@test
def the_keyboard_is_enough():
    fakes()
    with serve(".") as server, page(server.address + view("slow", "steps")) as tab:
        tab.wait(PAINTED)
        tab.press("/", "/")
        tab.wait("document.activeElement.type === 'search'")
        for _ in range(40):  # past the search and the heads of the columns
            tab.press("Tab")
            if tab.ask("document.activeElement.getAttribute('role')") == "grid":
                break
        equal(tab.ask("document.activeElement.getAttribute('role')"), "grid")
        tab.press("ArrowDown")
        tab.press("ArrowDown")
        tab.wait("document.querySelector('tr[aria-selected=true]').dataset.index === '1'")
        equal(tab.ask("document.activeElement.getAttribute('aria-activedescendant')"),
              tab.ask("document.querySelector('tr[aria-selected=true]').id"))
        for _ in range(300):  # more often than a browser lets the address change
            tab.press("ArrowUp")
            tab.press("ArrowDown")
        tab.press("End")
        tab.wait("document.querySelector('tr[aria-selected=true]').dataset.index === '19'")
        tab.press("Enter")
        tab.wait("!document.querySelector('.drawer').hidden")
        # The picture is read by arrow keys: down goes to the outlier, which Enter opens.
        tab.ask("document.querySelector('figure:not([hidden]) canvas').focus()")
        tab.press("ArrowRight")
        tab.press("ArrowDown")
        tab.wait("/step 13: 15.0 ms, an outlier/.test(document.querySelector('.tip:not([hidden])')?.innerText)")
        tab.press("Enter")
        tab.wait("/rank 0, step 13/.test(document.querySelector('.drawer h2').innerText)")


@test
def bars_of_counters_are_the_figures_of_the_command():
    fakes()
    keys = {"SM": "sm_pct", "tensor cores": "tensor_pct", "DRAM": "dram_pct", "L2": "l2_pct"}
    told = json.loads(moescope("counters", "limits.mscope", "--by", "kernel", "--json", "--limit", "0").out)["rows"]
    told = {row["short_name"]: row for row in told if any(row[key] is not None for key in keys.values())}
    with serve("limits.mscope") as server, page(server.address + view("limits", "counters-kernels")) as tab:
        tab.wait(PAINTED)
        tab.click("figure summary")
        tab.wait("document.querySelector('figure .wide tbody tr')")
        head, *rows = tab.ask("[...document.querySelectorAll('figure .wide tr')].map((row) => "
                              "[...row.cells].map((cell) => cell.innerText))")
        equal(len(rows), min(10, len(told)))
        check(len(head) > 2 and set(head[1:]) <= set(keys), head)
        for name, *shares in rows:
            for part, share in zip(head[1:], shares, strict=True):
                known = told[name][keys[part]]
                if known is None:
                    equal(share, "–", name, part)
                else:
                    check(abs(float(share.rstrip("%")) - known) <= 0.5, name, part, share, known)


@test
def figures_explain_themselves():
    fakes()
    with serve(".") as server, page(server.address + view("training", "ops")) as tab:
        tab.wait(PAINTED)
        check("operation" in tab.ask("document.querySelector('.rows [data-key=count]').title")
              or "count: " in tab.ask("document.querySelector('.rows [data-key=count]').title"))
        check("no value in this run" in tab.text(".absent"), tab.text(".absent"))
        tab.click(".absent summary")
        check("self gpu" in tab.text(".absent") and "device" in tab.text(".absent"), tab.text(".absent"))
        tab.click("figure summary")
        tab.wait("document.querySelector('figure .wide tbody tr')")


@test
def thousands_of_rows_are_few_in_the_document():
    fakes()
    need(TINYMOE)
    done = moescope("run", "-q", "-o", "long.mscope", "--", TINYMOE, *TINY, "--steps", 1500)
    equal(done.status, 0, done)
    with serve(".") as server, page(server.address + view("long", "routing-experts", "?all=1")) as tab:
        tab.wait(PAINTED)
        # Fewer than recorded where the machine is too busy to keep all.
        told = tab.ask("fetch('api/runs/long/routing-experts?limit=0').then((reply) => reply.json()).then((all) => all.rows)")
        check(len(told) > 5000, len(told))
        equal(tab.ask("Number(document.querySelector('.rows table').getAttribute('aria-rowcount'))"), len(told) + 1)
        check(tab.ask("document.querySelectorAll('.rows tr').length") < 100)
        tab.ask("document.querySelector('.rows').scrollTop = 1e9")
        tab.wait(f"document.querySelector('.rows tr[data-index=\"{len(told) - 1}\"]')")
        equal(cells(tab, "step")[-1], str(told[-1]["step"]))
        tab.ask("document.querySelector('.rows').scrollTop = 0")
        tab.click(".rows [data-key=tokens]")
        tab.wait("document.querySelector('th[aria-sort=descending]')")
        tokens = [int(word) for word in cells(tab, "tokens")]
        equal(tokens, sorted(tokens, reverse=True))


@test
def the_slider_moves_over_the_steps():
    fakes()
    with serve(".") as server, page(server.address + view("training", "routing")) as tab:
        tab.wait(f"{PAINTED} && !document.querySelector('.controls').hidden")
        equal(cells(tab, "steps"), ["12", "12"])
        tab.ask("document.querySelector('.controls input').focus()")
        tab.press("ArrowRight")
        tab.wait("location.hash.includes('steps=1%3A1')")
        tab.wait("document.querySelector('.rows tr[data-index=\"0\"]').children[2].innerText === '1'")
        check("step 1" in tab.text(".controls output"), tab.text(".controls output"))
        tab.click(".controls button")
        tab.wait("document.querySelector('.rows tr[data-index=\"0\"]').children[2].innerText === '12'")


@test
def pairs_of_experts_follow_the_layer():
    fakes()
    titles = "[...document.querySelectorAll('figure:not([hidden]) figcaption')].map((title) => title.innerText)"
    slider = "document.querySelector('[aria-label=\"Layer shown\"]')"

    def shown(*words):
        return f"(({titles}).join('|').includes({json.dumps(words[0])}) && {json.dumps(list(words))}"\
               f".every((word) => ({titles}).join('|').includes(word)))"

    with serve(".") as server, page(server.address + view("training", "routing", "?row=0%7Cforward")) as tab:
        tab.wait(shown("serve a token together, layer 0 forward", "Flow from layer 0 forward to layer 1"))
        told = tab.ask("fetch('api/runs/training/routing?layer=0').then((reply) => reply.json()).then((all) => all.rows[0])")
        figure = "[...document.querySelectorAll('figure')].find((each) => /^Flow/.test(each.innerText))"
        tab.wait(f"{figure}.querySelector('.note').innerText.includes('bits about the next one')")
        # The keyboard goes through the cells, which say share and lift.
        tab.ask(f"{figure}.querySelector('canvas').focus()")
        tab.press("ArrowRight")
        tip = tab.wait(f"{figure}.querySelector('.tip').innerText")
        check(tip.startswith("expert 0, to expert of layer 1 0: ") and "% " not in tip.split(":")[1][:3], tip)
        share = 100 * told["affinity"][0][0]
        check(f"{share:.2f}%" in tip or f"{share:.1f}%" in tip or f"{share:.0f}%" in tip, tip, share)
        # The same figures for those who do not see the picture.
        tab.ask(f"{figure}.querySelector('details').open = true")
        tab.wait(f"{figure}.querySelectorAll('tbody tr').length === {told['experts']}")
        # By times chance; the address keeps it, and the layer.
        tab.ask("""((select) => { select.value = 'lift'; select.dispatchEvent(new Event('change')); })(
            document.querySelector('[aria-label="Colour of pairs"]'))""")
        tab.wait(f"location.hash.includes('colour=lift') && /× chance/.test({figure}.querySelector('tbody').innerText)")
        tab.ask(f"{slider}.focus()")
        tab.press("ArrowRight")
        tab.wait(f"location.hash.includes('row=1%7Cforward') && {slider}.getAttribute('aria-valuetext') === 'layer 1 forward'")
        tab.wait(shown("serve a token together, layer 1 forward", "Flow from layer 1 forward to the next layer"))
        check("no MoE layer after this one" in tab.text("main"), tab.text("main"))
        check(tab.ask(f"document.activeElement === {slider}"), "the slider keeps the focus")
        check("Every token used 2 experts." in tab.text("main"), tab.text("main"))
        tab.picture("training-routing-layer")
        link = tab.ask("location.href")
    with serve(".") as server, page(server.address + link[link.index("#"):]) as tab:
        tab.wait(shown("serve a token together, layer 1 forward"))
        equal(tab.ask("document.querySelector('[aria-label=\"Colour of pairs\"]').value"), "lift")
    # Without the experts of tokens each says what to record.
    with serve(".") as server, page(server.address + view("slow", "routing")) as tab:
        tab.wait(f"{PAINTED} && (document.querySelector('main').innerText.match(/--level full/g) ?? []).length >= 2")


@test
def the_theme_can_be_switched():
    fakes()
    with serve(".") as server, page(server.address + view("slow", "overview")) as tab:
        tab.wait(OVERVIEW)
        paper = tab.ask("getComputedStyle(document.body).backgroundColor")
        tab.theme(True)
        tab.wait("document.documentElement.dataset.theme === 'dark'")
        check(tab.ask("getComputedStyle(document.body).backgroundColor") != paper)
        tab.click(".theme")
        tab.wait("document.documentElement.dataset.theme === 'light'"
                 " && /light/.test(document.querySelector('.theme').innerText)")
        tab.ask("localStorage.clear()")


@test
def a_run_that_grows_is_followed():
    program()
    need(TINYMOE)
    # It does not end by itself, and its steps are long enough for all to be shown.
    job = subprocess.Popen([MOESCOPE, "run", "-q", "-o", "grows.mscope", "--", TINYMOE, "--threads", "1",
                            "--steps", "1000000"], env=environment(), stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, start_new_session=True)
    steps = "Number(document.querySelector('.rows table').getAttribute('aria-rowcount'))"
    try:
        until(lambda: list(pathlib.Path(".").glob("grows.mscope/[0-9]*.mst")))
        with serve(".") as server, page(server.address + "#/grows/overview", height=400) as tab:
            tab.wait(OVERVIEW)
            tab.wait("document.querySelector('.status.running')")
            tab.ask("location.hash = '#/grows/steps?sort=-time_ns'")
            tab.wait("document.querySelector('.rows tr[data-index]')")
            before = tab.ask(steps)
            tab.ask("document.querySelector('.rows [data-key=time_ns]').focus()")
            tab.ask("document.querySelector('main').scrollTop = 40")
            tab.wait(f"{steps} > {before}")
            equal(tab.ask("document.activeElement.dataset.key"), "time_ns", "the focus is lost")
            check(tab.ask("document.querySelector('th[aria-sort=descending] [data-key=time_ns]') !== null"),
                  "the order is lost")
            check(tab.ask("document.querySelector('main').scrollTop") > 0, "the scroll position is lost")
            os.killpg(job.pid, 15)
            job.wait()
            tab.wait("document.querySelector('.run .status:not(.running)')")
    finally:
        if job.poll() is None:
            os.killpg(job.pid, 9)
            job.wait()


@test
def what_is_not_there_is_one_sentence():
    fakes()
    with serve(".") as server:
        with page(server.address + view("slowly", "overview"), expected=["404"]) as tab:
            tab.wait("/There is no run 'slowly' here; did you mean 'slow'/"
                     ".test(document.querySelector('.sentence')?.innerText)")
            check(not tab.ask("document.querySelector('.verdicts li, .tile') !== null"), "half of a page is shown")
        with page(server.address + view("slow", "nonsense")) as tab:
            tab.wait("/There is no view 'nonsense'/.test(document.querySelector('.sentence')?.innerText)")
        with page(server.address + "#/%E0%A4%A/overview", expected=["404"]) as tab:
            tab.wait("/There is no run/.test(document.querySelector('.sentence')?.innerText)")


@test
def a_run_that_vanishes_is_told():
    fakes()
    with serve(".") as server, page(server.address + view("slow", "steps"), expected=["404"]) as tab:
        tab.wait(PAINTED)
        shutil.rmtree("slow.mscope")
        tab.wait("/The run 'slow' is no longer there/.test(document.querySelector('.notice').innerText)")
        check(tab.ask("document.querySelectorAll('.rows tr[data-index]').length") > 0, "the last state is gone too")


@test
def a_server_that_is_gone_is_told_and_found_again():
    fakes()
    with serve("slow.mscope") as server, page(server.address, expected=GOING) as tab:
        tab.wait(OVERVIEW)
        address = server.address
        server.terminate()
        server.wait()
        tab.wait("/The server does not answer/.test(document.querySelector('.notice:not([hidden])')?.innerText)")
        port = address.rsplit(":", 1)[1].strip("/")
        again = subprocess.Popen([MOESCOPE, "serve", "slow.mscope", "--port", port], env=environment(),
                                 stdout=subprocess.DEVNULL)
        try:
            tab.wait("document.querySelector('.notice').hidden")
            tab.ask("location.hash = '#/slow/kernels'")
            tab.wait(PAINTED)
        finally:
            again.terminate()
            again.wait()


@test
def a_file_with_its_data_needs_no_server():
    fakes()
    for run in ("training", "gpu", "h200-windows"):
        r = moescope("report", f"{run}.mscope", "--html", f"{run}.html")
        equal((r.status, r.out), (0, ""), r)
        check(os.path.getsize(f"{run}.html") < 3 << 20, run)
        with page(f"file://{os.getcwd()}/{run}.html") as tab:
            tab.wait(OVERVIEW)
            for name in VIEWS:
                tab.ask(f"location.hash = {json.dumps(view(run, name))}")
                tab.wait(f"document.querySelector('nav [aria-current]')?.dataset.key === '{name}' && {PAINTED}")


@test
def it_works_in_the_frame_of_a_notebook():
    fakes()
    sys.path.insert(0, str(ROOT / "python"))
    import moescope as package
    os.environ["MOESCOPE_TOOL"] = str(MOESCOPE)
    frame = package.show("training.mscope")._repr_html_()
    pathlib.Path("notebook.html").write_text(f"<!doctype html><p>a cell</p>{frame}", encoding="utf-8")
    with page(f"file://{os.getcwd()}/notebook.html") as outer, frame_of(outer) as tab:
        tab.wait(OVERVIEW)
        tab.ask("document.querySelector('nav [data-key=steps]').click()")
        tab.wait(f"document.querySelector('nav [aria-current]')?.dataset.key === 'steps' && {PAINTED}")
        tab.ask("document.querySelector('.rows th [data-key=time_ns]').click()")
        equal(tab.wait("location.href.includes('sort') && location.href"),
              "about:srcdoc" + view("training", "steps", "?sort=-time_ns"))
        equal(outer.ask("document.querySelectorAll('iframe').length"), 1)


@test
def the_script_is_small():
    script = BUILD / "ui" / "page.js"
    if not script.exists():
        raise Skip("ui/page.js is not built")
    check(script.stat().st_size < 200_000, script.stat().st_size)


if __name__ == "__main__":
    try:
        main()
    finally:
        quit_browser()
