# SPDX-License-Identifier: Apache-2.0
"""The timeline in a real browser. What it shows is compared with what the server answers.

MOESCOPE_BROWSER_PICTURES names a folder for pictures, light and dark.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import urllib.parse
import urllib.request

from browser import GOING, MOESCOPE, fakes, page, program, quit_browser, serve, until
from cli import TINYMOE, check, environment, equal, main, moescope, need, test

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
RUN = "h200-windows"
PAINTED = "performance.getEntriesByName('timeline-painted').length && !document.querySelector('[aria-busy]')"
# What Chromium says of WebGL2 without a graphics device.
SOFTWARE = ("software WebGL", "GPU stall", "GL Driver")
SLOW_MS = 50  # of the processor for a frame; far above what it takes


def recording():
    program()
    shutil.copytree(DATA / RUN, f"{RUN}.mscope")


def timeline(run=RUN, **options):
    return f"#/{run}/timeline?{urllib.parse.urlencode(options)}"


def opened(server, expected=(), run=RUN, **options):
    size = {key: options.pop(key) for key in ("dark", "width", "height") if key in options}
    return page(server.address + timeline(run, **options), expected=[*SOFTWARE, *expected], **size)


def asked(server, what="", run=RUN, **options):
    """What the server answers."""
    query = urllib.parse.urlencode(options)
    with urllib.request.urlopen(f"{server.address}api/runs/{run}/timeline{what}{'?' if query else ''}{query}") as reply:
        return json.load(reply)


def place(tab):
    """The options in the address."""
    query = tab.ask("location.hash").partition("?")[2]
    return {key: values[0] for key, values in urllib.parse.parse_qs(query).items()}


def stage(tab):
    return tab.ask("((box) => [box.x, box.y, box.width, box.height])("
                   "document.querySelector('.stage').getBoundingClientRect())")


def middle(tab, lane):
    """The height of the middle of a lane's row on the screen."""
    return tab.ask(f"""(() => {{
        const names = [...document.querySelectorAll(".lane-names > :not(.group)")];
        const box = names.find((name) => name.title.startsWith({json.dumps(lane["title"])})
            && name.title.endsWith({json.dumps(lane["kind"])})).getBoundingClientRect();
        return box.y + box.height / 2;
    }})()""")


def busiest(about, kind):
    return max((lane for lane in about["lanes"] if lane["kind"] == kind and not lane["depth"]),
               key=lambda lane: lane["events"])


def an_event(server, kind):
    """A lane of a kind and one of its events, from the middle: start, duration, name."""
    about = asked(server)
    lane = busiest(about, kind)
    start, end = 0, about["end_ns"]
    while True:
        answer = asked(server, "/boxes", **{"from": start, "to": end, "width": 64, "lanes": lane["lane"]})
        boxes = answer["lanes"][0]
        at = len(boxes["start"]) // 2
        begin = answer["from"] + boxes["start"][at]
        if boxes["merged"][at] == 1:
            return lane, (begin, boxes["duration"][at], answer["names"][str(boxes["name"][at])])
        start, end = begin, begin + max(1, boxes["duration"][at])


def near(event):
    """Options that show an event in the middle, a third of the width."""
    start, duration, _ = event
    return {"from": max(0, start - max(duration, 50)), "to": max(0, start - max(duration, 50)) + 3 * max(duration, 50)}


@test
def every_back_end_paints_it_in_both_themes():
    recording()
    with serve(".") as server:
        for backend in ("webgl2", "raster", "canvas", ""):
            for dark in (False, True):
                with opened(server, dark=dark, height=800, backend=backend) as tab:
                    tab.wait(PAINTED)
                    used = tab.ask("document.querySelector('.stage canvas').dataset.backend")
                    equal(used if not backend else "raster", "raster", "the tests' browser has no graphics device")
                    words = tab.text(".timeline .count:not([hidden])")
                    check(f"drawn by {used}" in words, words)
                    check(backend in ("", used) or f"this browser has no '{backend}'" in words, backend, words)
                    check(tab.colours(".stage") > 8, backend, tab.colours(".stage"))
                    tab.picture(f"timeline-{backend or 'chosen'}-{'dark' if dark else 'light'}")


@test
def it_fits_a_laptop_and_80_percent():
    recording()
    with serve(".") as server, opened(server) as tab:
        tab.wait(PAINTED)
        for zoom in (0.8, 1.5, 1.0):
            tab.size(1280, 720, zoom)
            tab.wait(f"""Math.abs(document.querySelector(".stage canvas").width
                - document.querySelector(".stage").clientWidth * {zoom}) <= 1""")
            equal(tab.ask("document.documentElement.scrollWidth <= innerWidth"
                          " && document.querySelector('main').scrollWidth <= document.querySelector('main').clientWidth"
                          " && document.querySelector('main').scrollHeight <= document.querySelector('main').clientHeight"),
                  True, zoom)
            check(tab.colours(".stage") > 8, zoom)


@test
def it_moves_by_pointer_and_by_keys():
    recording()
    with serve(".") as server, opened(server) as tab:
        end = asked(server)["end_ns"]
        tab.wait(PAINTED)
        check("from" not in place(tab), place(tab))
        x, y, width, height = stage(tab)
        tab.wheel(x + width / 2, y + height / 2, -400)
        tab.wait("location.hash.includes('from=')")
        first = place(tab)
        length = int(first["to"]) - int(first["from"])
        check(length < end * 0.6, first)
        # Around the pointer, which is in the middle.
        check(abs(int(first["from"]) + int(first["to"]) - end) < end * 0.02, first, end)
        tab.drag((x + width * 0.5, y + 60), (x + width * 0.3, y + 60))
        # It follows the pointer, so the address may say where it was on its way.
        tab.wait(f"""Math.abs(Number(new URLSearchParams(location.hash.split("?")[1]).get("from"))
            - {int(first["from"]) + 0.2 * length}) < {0.02 * length}""")
        for key, sign in (("a", -1), ("d", 1)):
            before = place(tab)
            tab.press(key, key)
            tab.wait(f"!location.hash.includes('from={before['from']}&')")
            check((int(place(tab)["from"]) - int(before["from"])) * sign > 0, key, before, place(tab))
        for key, sign in (("w", -1), ("s", 1)):
            before = place(tab)
            tab.press(key, key)
            tab.wait(f"!location.hash.includes('to={before['to']}')")
            now = place(tab)
            check((int(now["to"]) - int(now["from"]) - int(before["to"]) + int(before["from"])) * sign > 0, key, before, now)
        tab.press("Home")
        tab.wait("!location.hash.includes('from=')")
        check(f"{end / 1e9:.9f}".rstrip("0") in tab.text(".timeline .count:not([hidden])"), tab.text(".timeline"), end)


@test
def a_click_tells_of_an_event():
    recording()
    with serve(".") as server:
        for kind, table in (("kernels", "kernels"), ("steps", "steps")):
            lane, event = an_event(server, kind)
            with opened(server, **near(event)) as tab:
                tab.wait(PAINTED)
                x, _, width, _ = stage(tab)
                tab.wait("document.querySelector('.lane-names > :not(.group)')")
                row = middle(tab, lane)
                tab.point(x + width / 2, row)
                tab.wait(f"document.querySelector('.tip:not([hidden])')?.innerText.startsWith({json.dumps(event[2][:100])})")
                tab.drag((x + width / 2, row), (x + width / 2, row))
                tab.wait(f"[...document.querySelectorAll('.drawer:not([hidden]) dd')].some("
                         f"(each) => each.textContent === {json.dumps(event[2])})")
                check(lane["title"] in tab.text(".drawer") and lane["group"] in tab.text(".drawer"), tab.text(".drawer"))
                equal(place(tab)["event"], f"{lane['lane']}:{event[0]}:{event[1]}")
                check(event[2][:100] in tab.text(".told"), tab.text(".told"))
                tab.click(".drawer [data-key=row]")
                tab.wait(f"document.querySelector('nav [aria-current]')?.dataset.key === '{table}'"
                         " && document.querySelector('.rows tr[data-index]')")
                check(tab.ask("document.querySelectorAll('.rows tr[data-index]').length") > 0, table)


@test
def a_step_of_the_table_is_shown_in_it():
    recording()
    with serve(".") as server, page(f"{server.address}#/{RUN}/steps?row=0|7", expected=SOFTWARE) as tab:
        tab.click(".drawer [data-key=timeline]")
        tab.wait(f"{PAINTED} && location.hash.includes('event=')")
        check(tab.text(".told").startswith("step 7: "), tab.text(".told"))
        check("step=" not in tab.ask("location.hash"), tab.ask("location.hash"))


@test
def a_verdict_is_shown_in_it():
    fakes()
    with serve(".") as server:
        shown = set()
        for run in ("slow", "h200", "gpu", "comm"):
            about = asked(server, run=run)
            for verdict in json.loads(moescope("report", f"{run}.mscope", "--json").out)["verdicts"]:
                when = verdict["when"]
                if not when or when["lane"] in shown:
                    continue
                shown.add(when["lane"])
                start, end = (when[key] - about["since_start_ns"] for key in ("start_ns", "end_ns"))
                with page(f"{server.address}#/{run}/overview", expected=SOFTWARE) as tab:
                    link = f"[data-key='when {verdict['id']}']"
                    tab.wait(f"document.querySelector({json.dumps(link)})")
                    check(when["what"] in tab.text(link), tab.text(link))
                    tab.click(link)
                    tab.wait(f"{PAINTED} && /(event|area)=/.test(location.hash)")
                    seen = place(tab)
                    check("span" not in seen, seen)
                    if when["lane"] == "kernels":
                        first = seen["area"].split(":")
                        equal([int(first[0]), int(first[1])], [start, max(start + 1, end)], run, verdict)
                    else:
                        lane, begin, length = map(int, seen["event"].split(":"))
                        equal((about["lanes"][lane]["kind"], begin, length), (when["lane"], start, end - start), run, verdict)
                    if end > start and "from" in seen:
                        check(int(seen["from"]) <= start and end <= int(seen["to"]), seen, start, end)
                    tab.picture(f"verdict-{when['lane']}-light")
                    address, told = tab.ask("location.href"), tab.text(".timeline .count:not([hidden])")
                with page(address, expected=SOFTWARE) as tab:  # the link holds what is seen
                    tab.wait(f"{PAINTED} && document.querySelector('.drawer:not([hidden])')")
                    equal(tab.text(".timeline .count:not([hidden])"), told)
        check({"steps", "kernels"} <= shown, shown)
        with page(f"{server.address}#/slow/timeline?span=1:2:9:steps:", expected=SOFTWARE) as tab:
            tab.wait("/no lane for steps of rank 9/.test(document.querySelector('.told')?.innerText)")
        with page(f"{server.address}#/slow/timeline?span=what", expected=SOFTWARE) as tab:
            tab.wait("/no lane for 'what'/.test(document.querySelector('.told')?.innerText)")


def loop(turns):
    """A trace without marks: kernels that repeat."""
    events, now = [], 0
    for _ in range(turns):
        now += 40
        for name in ["embed", *["norm", "qkv", "attn_core", "proj", "mlp"] * 6, "head"]:
            events.append({"ph": "X", "cat": "kernel", "name": name, "pid": 1, "tid": 7, "ts": now, "dur": 3,
                           "args": {"stream": 7, "device": 0, "correlation": len(events) + 1}})
            now += 4
    return {"schemaVersion": 1, "traceEvents": events}


@test
def steps_found_by_repetition_have_their_lane():
    program()
    for turns in (9, 3):
        pathlib.Path(f"t{turns}.json").write_text(json.dumps(loop(turns)), encoding="utf-8")
        equal(moescope("import", f"t{turns}.json").status, 0)
    with serve(".") as server:
        with opened(server, run="t9") as tab:
            tab.wait(PAINTED)
            check("steps found by repetition" in tab.text(".lane-names"), tab.text(".lane-names"))
            tab.picture("found-steps-light")
        with page(f"{server.address}#/t9/steps?row=0|3", expected=SOFTWARE) as tab:
            tab.click(".drawer [data-key=timeline]")
            tab.wait(f"{PAINTED} && location.hash.includes('event=')")
            check("step 3: " in tab.text(".told") and "found by repetition" in tab.text(".told"), tab.text(".told"))
        with opened(server, run="t3") as tab:
            tab.wait(PAINTED)
            check("none were found by repetition" in tab.text(".timeline .count:not([hidden])"), tab.text(".timeline"))


@test
def merged_events_say_so():
    recording()
    with serve(".") as server, opened(server) as tab:
        about = asked(server)
        tab.wait(PAINTED)
        lane = busiest(about, "kernels")
        x, _, width, _ = stage(tab)
        answer = asked(server, "/boxes", **{"from": 0, "to": about["end_ns"], "width": int(width), "lanes": lane["lane"]})
        boxes = answer["lanes"][0]
        at = max(range(len(boxes["merged"])), key=lambda i: boxes["merged"][i])
        check(boxes["merged"][at] > 1, "nothing is merged")
        tab.point(x + (boxes["start"][at] + boxes["duration"][at] / 2) / about["end_ns"] * width, middle(tab, lane))
        words = tab.wait("document.querySelector('.tip:not([hidden])')?.innerText")
        check(re.match(r"[\d.]+ k?\s?events merged here, the longest ", words), words)


@test
def an_area_is_added_up():
    recording()
    with serve(".") as server, opened(server) as tab:
        tab.wait(PAINTED)
        x, y, width, _ = stage(tab)
        tab.drag((x + width * 0.25, y + 40), (x + width * 0.75, y + 90), shift=True)
        tab.wait("/Selected/.test(document.querySelector('.drawer:not([hidden])')?.innerText)")
        start, end, first, last = place(tab)["area"].split(":")
        sums = asked(server, "/sums", **{"from": start, "to": end, "lanes": f"{first}-{last}"})
        check(sums["events"] > 0, sums)
        told = tab.ask("""[...document.querySelectorAll(".sums")].map((table) => [...table.querySelectorAll("tbody tr")]
            .map((row) => [row.children[0].innerText, Number(row.children[1].innerText)]))""")
        equal([row[1] for row in told[0]], [lane["events"] for lane in sums["lanes"]])
        if "by_name_absent" not in sums:
            equal([row[1] for row in told[1]], [name["events"] for name in sums["by_name"]])
            equal(told[1][0][0], re.sub(r"\s+", " ", sums["by_name"][0]["name"]))
        tab.picture("timeline-area-light")
        with page(tab.ask("location.href"), expected=SOFTWARE) as other:
            other.wait("document.querySelector('.drawer:not([hidden]) .sums')")
            equal(other.text(".drawer"), tab.text(".drawer"))
        tab.press("Escape")
        tab.wait("document.querySelector('.drawer').hidden && !location.hash.includes('area=')")


@test
def a_name_is_searched_and_its_events_gone_through():
    recording()
    with serve(".") as server, opened(server) as tab:
        tab.wait(PAINTED)
        name = an_event(server, "kernels")[1][2]
        word = name[:24].upper()
        found = asked(server, "/search", text=word)["names"]
        check(any(each["name"] == name for each in found), name, found)
        tab.press("/", "/")
        tab.wait("document.activeElement.type === 'search'")
        tab.type(word)
        tab.wait("/names? with/.test(document.querySelector('.told').innerText)")
        equal(tab.ask("document.querySelectorAll('.found button').length"), len(found))
        tab.picture("timeline-search-light")
        tab.press("Enter")
        tab.wait("location.hash.includes('event=')")
        first = asked(server, "/find", name=found[0]["name"], after=-1)["found"]
        equal(place(tab)["event"], f"{first['lane']}:{first['start']}:{first['duration']}")
        tab.press("Escape")
        tab.wait("document.activeElement.tagName === 'CANVAS'")
        tab.press("n", "n")
        second = asked(server, "/find", name=found[0]["name"], after=first["start"])["found"]
        hoped = f"{second['lane']}:{second['start']}:{second['duration']}".replace(":", "%3A")
        tab.wait(f"location.hash.includes('event={hoped}')")
        check(int(place(tab)["from"]) <= second["start"] <= int(place(tab)["to"]), place(tab), second)
        tab.ask("document.querySelector('input[type=search]').focus()")
        tab.ask("document.querySelector('input[type=search]').select()")
        tab.type("no such name")
        tab.wait("/No name has 'no such name'/.test(document.querySelector('.told').innerText)")


@test
def the_keyboard_is_enough():
    recording()
    with serve(".") as server, opened(server) as tab:
        tab.wait(PAINTED)
        for _ in range(60):
            tab.press("Tab")
            if tab.ask("document.activeElement.tagName") == "CANVAS":
                break
        equal(tab.ask("[document.activeElement.getAttribute('role'), document.activeElement.ariaLabel.slice(0, 8)]"),
              ["application", "Timeline"])
        tab.press("ArrowDown")
        first = tab.wait("document.querySelector('.told').innerText")
        tab.press("ArrowRight")
        second = tab.wait(f"((told) => told !== {json.dumps(first)} && told)(document.querySelector('.told').innerText)")
        tab.press("ArrowDown")
        tab.wait(f"document.querySelector('.told').innerText !== {json.dumps(second)}")
        if "merged" in tab.text(".told"):
            tab.press("Enter")
            tab.wait("!/merged/.test(document.querySelector('.told').innerText)")
        tab.press("Enter")
        tab.wait("document.querySelector('.drawer:not([hidden]) dl')")
        tab.press("ArrowRight", shift=True)
        tab.press("ArrowDown", shift=True)
        tab.wait("/Selected: .* 2 lanes/.test(document.querySelector('.told').innerText)")
        tab.press("Escape")
        tab.wait("document.querySelector('.drawer').hidden")
        rows = tab.ask("document.querySelectorAll('.lane-names > *').length")
        tab.ask("document.querySelector('.lane-names button').focus()")
        tab.press("Enter")
        tab.wait(f"document.querySelectorAll('.lane-names > *').length < {rows} && location.hash.includes('folded=')")
        equal(tab.ask("document.activeElement.ariaExpanded"), "false", "the focus is lost")


@test
def a_link_restores_it():
    recording()
    with serve(".") as server:
        lane, event = an_event(server, "kernels")
        about = asked(server)
        with opened(server, **near(event)) as tab:
            tab.wait(PAINTED)
            x, _, width, _ = stage(tab)
            row = middle(tab, lane)
            tab.drag((x + width / 2, row), (x + width / 2, row))
            tab.wait("location.hash.includes('event=')")
            folds = tab.ask("[...document.querySelectorAll('.lane-names button:not(.group)')].map((each) => each.dataset.key)")
            if folds:
                tab.click(f"[data-key={json.dumps(folds[-1])}]")
                tab.wait("location.hash.includes('folded=')")
            shown = tab.text(".timeline .count:not([hidden])"), tab.text(".drawer"), tab.text(".lane-names")
            address = tab.ask("location.href")
        with page(address, expected=SOFTWARE) as tab:
            tab.wait(f"{PAINTED} && document.querySelector('.drawer:not([hidden])')")
            equal((tab.text(".timeline .count:not([hidden])"), tab.text(".drawer"), tab.text(".lane-names")), shown)
        # What nobody can have meant is as if it were not there.
        with opened(server, **{"from": "x", "to": -1, "area": "5:1:9", "event": "99999:a", "folded": "|||",
                               "backend": "abacus"}) as tab:
            tab.wait(PAINTED)
            check(f"{about['end_ns'] / 1e9:.9f}".rstrip("0") in tab.text(".timeline .count:not([hidden])"))


@test
def boxes_stay_while_new_ones_are_awaited():
    recording()
    with serve(".") as server, opened(server) as tab:
        tab.wait(PAINTED)
        x, y, width, _ = stage(tab)
        server.send_signal(signal.SIGSTOP)
        for _ in range(4):
            tab.wheel(x + width / 2, y + 80, -300)
        tab.wait("location.hash.includes('from=')")
        check(tab.colours(".stage") > 8, "the picture is empty", tab.colours(".stage"))
        before = tab.ask("performance.getEntriesByType('resource').filter((each) => /boxes/.test(each.name)).length")
        server.send_signal(signal.SIGCONT)
        tab.wait("performance.getEntriesByType('resource').filter((each) => /boxes/.test(each.name)).length"
                 f" > {before}")


@test
def what_takes_long_is_told():
    recording()
    with serve(".") as server, page(f"{server.address}#/{RUN}/overview", expected=SOFTWARE) as tab:
        tab.wait("document.querySelector('.verdicts li')"
                 " && document.querySelector('nav [data-key=timeline]')?.checkVisibility()")
        server.send_signal(signal.SIGSTOP)
        tab.click("nav [data-key=timeline]")
        tab.wait("/The server prepares the timeline/.test(document.querySelector('.timeline .count').innerText)")
        server.send_signal(signal.SIGCONT)
        tab.wait(f"{PAINTED} && document.querySelector('.timeline .count').hidden")


@test
def a_run_that_grows_is_followed():
    program()
    need(TINYMOE)
    job = subprocess.Popen([MOESCOPE, "run", "-q", "-o", "grows.mscope", "--", TINYMOE, "--threads", "1",
                            "--steps", "1000000"], env=environment(), stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        until(lambda: list(pathlib.Path(".").glob("grows.mscope/[0-9]*.mst")))
        with serve(".") as server, opened(server, run="grows") as tab:
            shown = tab.wait(f"{PAINTED} && document.querySelector('.timeline-body .count').innerText")
            tab.wait(f"document.querySelector('.timeline-body .count').innerText !== {json.dumps(shown)}")
    finally:
        os.killpg(job.pid, 9)
        job.wait()


@test
def what_it_cannot_show_is_one_sentence():
    recording()
    equal(moescope("run", "-q", "-o", "idle.mscope", "--", "true").status, 0)
    r = moescope("report", f"{RUN}.mscope", "--html", "page.html")
    equal((r.status, r.out), (0, ""), r)
    with page(f"file://{os.getcwd()}/page.html{timeline()}") as tab:
        tab.wait("/A timeline needs 'moescope serve'/.test(document.querySelector('.timeline').innerText)")
        equal(tab.ask("document.querySelector('.timeline canvas')"), None)
    with serve(".") as server:
        with opened(server, run="nothing", expected=["404"]) as tab:
            tab.wait("/There is no run 'nothing'/.test(document.querySelector('.sentence')?.innerText)")
        with opened(server, run="idle") as tab:
            sentence = tab.wait("!document.querySelector('[aria-busy]') && document.querySelector('.timeline .count').innerText")
            equal(sentence, asked(server, run="idle")["absent"])
            equal(tab.ask("document.querySelector('.timeline canvas').checkVisibility()"), False)
        with opened(server) as tab:
            tab.wait(PAINTED)
            tab.ask("""(() => {
                const real = window.fetch;
                window.fetch = (address) => (/boxes/.test(address)
                    ? Promise.resolve(new Response('{"error": "not these boxes."}', { status: 400 })) : real(address));
            })()""")
            tab.press("w", "w")
            tab.press("w", "w")
            tab.wait("document.querySelector('.told').innerText === 'Not these boxes.'")
            check(tab.colours(".stage") > 8, "the last picture is gone")
        with opened(server, expected=GOING) as tab:
            tab.wait(PAINTED)
            server.terminate()
            server.wait()
            tab.wait("/The server does not answer/.test(document.querySelector('.notice:not([hidden])')?.innerText)")
            check(tab.colours(".stage") > 8, "the last picture is gone")


# Zooms in, moves on, zooms out and moves back, one step a frame; the times between frames in milliseconds.
MOVES = """new Promise((done) => {
    const place = document.querySelector(".stage"), box = place.getBoundingClientRect(), times = [];
    let [n, last] = [0, 0];
    const move = (now) => {
        if (last) times.push(now - last);
        last = now;
        if (n === 240) return done(times);
        const [deltaX, deltaY] = [[0, -40], [25, 0], [0, 40], [-25, 0]][Math.floor(n++ / 60)];
        place.dispatchEvent(new WheelEvent("wheel", { bubbles: true, cancelable: true, deltaX, deltaY,
            clientX: box.x + box.width * 0.4, clientY: box.y + 60 }));
        requestAnimationFrame(move);
    };
    requestAnimationFrame(move);
})"""


@test
def frames_are_cheap():
    """How long they take depends on the machine and is only told; what they cost the processor is checked."""
    recording()
    with serve(".") as server, opened(server, height=800, backend="raster") as tab:
        tab.wait(PAINTED)
        first = tab.ask("performance.getEntriesByName('timeline-painted')[0].startTime")
        tab.send("Performance.enable", timeDomain="threadTicks")

        def spent():
            return next(m["value"] for m in tab.send("Performance.getMetrics")["metrics"] if m["name"] == "TaskDuration")

        before = spent()
        times = sorted(tab.ask(MOVES))
        cost = (spent() - before) / len(times) * 1000
        print(f"first picture {first:.0f} ms after the page opened; frames: median {times[len(times) // 2]:.1f} ms, "
              f"p95 {times[int(len(times) * 0.95)]:.1f} ms, {cost:.1f} ms of the processor each")
        check(cost < SLOW_MS, cost)


if __name__ == "__main__":
    try:
        main()
    finally:
        quit_browser()
