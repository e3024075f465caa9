# SPDX-License-Identifier: Apache-2.0
"""The timeline of moescope serve: what it counts is what SQL counts; its index is made once, noticed when
it is stale or damaged, and not needed on disk; what makes no sense is refused in one sentence."""

import json
import os
import pathlib
import shutil
import subprocess
import threading
import urllib.parse

from cli import MOESCOPE, TINYMOE, Skip, check, environment, equal, main, moescope, record, test
from serving import serving, wait_for

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
API = "/api/runs/a/timeline"
KINDS = {"steps": "steps", "kernels": "kernels", "copies": "copies", "sets": "copies", "ranges": "ranges",
         "operations": "ranges", "api_calls": "api", "syncs": "api"}
EVERYTHING = "from=0&to=4000000000000000000"


def recording():
    """A recording from a GPU, as a run of the current directory."""
    shutil.copytree(DATA / "h200-windows", "a.mscope")


def sql(query):
    """The first row."""
    result = moescope("sql", "a.mscope", query, "--json")
    if "without SQLite" in result.err:
        raise Skip("built without SQLite")
    equal(result.status, 0, result.err)
    return json.loads(result.out)["rows"][0]


def counts_by_kind(lanes):
    counts = {}
    for lane in lanes:
        counts[lane["kind"]] = counts.get(lane["kind"], 0) + lane["events"]
    return counts


def counts_of_sql(tables):
    """Timed rows of each kind of lane."""
    counts = {}
    for table in tables:
        where = " WHERE NOT untimed" if table in ("kernels", "copies", "sets") else ""
        n = sql(f"SELECT count(*) FROM {table}{where}")[0]
        if n:
            counts[KINDS[table]] = counts.get(KINDS[table], 0) + n
    return counts


@test
def counts_are_those_of_sql():
    recording()
    with serving(".") as server:
        facts = server.json(API)
        equal(counts_by_kind(facts["lanes"]), counts_of_sql(KINDS))
        equal([lane["lane"] for lane in facts["lanes"]], list(range(len(facts["lanes"]))))
        equal(facts["events"], sum(lane["events"] for lane in facts["lanes"]))
        equal(facts["left_out"], sum(sql(f"SELECT count(*) FROM {table} WHERE untimed")[0]
                                     for table in ("kernels", "copies", "sets")))
        sums = server.json(f"{API}/sums?{EVERYTHING}")
        equal(sums["events"], facts["events"])
        equal(sums["busy_ns"], sum(lane["busy_ns"] for lane in sums["lanes"]))
        kernels = [lane["lane"] for lane in facts["lanes"] if lane["kind"] == "kernels"]
        busy = server.json(f"{API}/sums?{EVERYTHING}&lanes={','.join(map(str, kernels))}")
        equal(busy["busy_ns"], sql("SELECT sum(duration_ns) FROM kernels WHERE NOT untimed")[0])
        equal(sum(row["events"] for row in busy["by_name"]) <= busy["events"], True)
        # A part of the time, and of the lanes.
        lane, middle = kernels[0], facts["end_ns"] // 2
        first = server.json(f"{API}/sums?from=0&to={middle}&lanes={lane}")
        last = server.json(f"{API}/sums?from={middle}&to={facts['end_ns'] + 1}&lanes={lane}")
        check(0 <= first["events"] + last["events"] - facts["lanes"][lane]["events"] <= 1, first, last)
        equal(first["busy_ns"] + last["busy_ns"],
              server.json(f"{API}/sums?{EVERYTHING}&lanes={lane}")["busy_ns"])


@test
def boxes_hold_every_event_once():
    recording()
    with serving(".") as server:
        facts = server.json(API)
        end = facts["end_ns"] + 1
        for width in (1, 7, 1500, 8192):
            boxes = server.json(f"{API}/boxes?from=0&to={end}&width={width}")
            equal(len(boxes["lanes"]), len(facts["lanes"]))
            for lane, its in zip(facts["lanes"], boxes["lanes"]):
                equal(sum(its["merged"]), lane["events"], width, lane)
                check(len(its["start"]) <= 2 * width, width, lane)
                columns = [start * width // end for start in its["start"]]
                check(all(columns[i] != columns[i + 2] for i in range(len(columns) - 2)), width, lane)
                check(all(str(name) in boxes["names"] for name in its["name"]), width)
                for start, duration, merged in zip(its["start"], its["duration"], its["merged"]):
                    check(merged == 1 or duration * width <= end, start, duration, merged)
        some = server.json(f"{API}/boxes?from=0&to={end}&width=10&lanes=1,0,1-2")
        equal([lane["lane"] for lane in some["lanes"]], [0, 1, 2])


@test
def names_are_searched_and_found():
    recording()
    with serving(".") as server:
        found = server.json(f"{API}/search?text=ELEMENTWISE")["names"]
        check(found and all("elementwise" in row["name"].lower() for row in found), found)
        equal(found, sorted(found, key=lambda row: -row["busy_ns"]))
        equal(server.json(f"{API}/search?text=no+such+name")["names"], [])
        row = min(found, key=lambda row: row["events"])
        starts, at = [], -1
        for _ in range(row["events"] + 1):
            event = server.json(f"{API}/find?after={at}&id={row['id']}")["found"]
            starts.append(event["start"])
            at = event["start"]
        short = min(found, key=lambda row: len(row["name"]))
        event = server.json(f"{API}/find?after=-1&name={urllib.parse.quote(short['name'])}")["found"]
        equal(event, short["first"])
        equal(starts[0], row["first"]["start"])
        equal(starts[-1], starts[0], "behind the last comes the first")
        equal(sorted(starts[:-1]), starts[:-1])
        equal(server.json(f"{API}/find?name=nothing&after=0"), {"found": None})


@test
def a_program_without_a_gpu_has_steps_and_ranges():
    record("a.mscope", 3)
    with serving("a.mscope") as server:
        facts = server.json(API)
        equal(facts["lanes"][0]["kind"], "steps")
        equal(facts["lanes"][0]["events"], 3)
        equal(counts_by_kind(facts["lanes"]), counts_of_sql(KINDS))
        check({lane["group"] for lane in facts["lanes"]} == {"rank 0"}, facts["lanes"])
        steps = server.json(f"{API}/boxes?from=0&to={facts['end_ns'] + 1}&width=8000&lanes=0")
        words = [steps["names"][str(name)] for name in steps["lanes"][0]["name"]]
        equal(", ".join(words), sql("SELECT group_concat('step ' || step, ', ') FROM (SELECT step FROM steps ORDER BY start_ns)")[0])


@test
def the_index_is_made_once_and_anew_when_it_must_be():
    recording()
    index = pathlib.Path("a.mscope/timeline.lod")
    with serving(".") as server:
        facts = server.json(API)
        before = index.stat()
        server.json(f"{API}/boxes?{EVERYTHING}&width=10")
    with serving(".") as server:
        equal(server.json(API), facts)
        equal(index.stat().st_ino, before.st_ino, "made again")
    # Damage, in what a checksum covers and in the size.
    for damage in (lambda data: b"x" + data[1:], lambda data: data[:-5], lambda data: b"",
                   lambda data: data[:-2000] + bytes(1000) + data[-1000:]):
        index.write_bytes(damage(index.read_bytes()))
        with serving(".") as server:
            equal(server.json(API), facts)
    # A link is not followed, but replaced.
    shutil.copy(index, "elsewhere")
    pathlib.Path("elsewhere").write_bytes(b"not to be read")
    index.unlink()
    os.symlink("../elsewhere", index)
    with serving(".") as server:
        equal(server.json(API), facts)
        check(not index.is_symlink())
    equal(pathlib.Path("elsewhere").read_bytes(), b"not to be read")
    # Another shard in the run, while a server has it open.
    with serving(".") as server:
        equal(server.json(API), facts)
        shutil.copy("a.mscope/0-423.mst", "a.mscope/1-424.mst")
        wait_for(lambda: server.json(API)["events"] == 2 * facts["events"], "the new shard")
    equal([path.name for path in pathlib.Path("a.mscope").glob("*.tmp")], [])


@test
def a_run_that_cannot_be_written_has_a_timeline():
    recording()
    with serving(".") as server:
        facts = server.json(API)
    os.unlink("a.mscope/timeline.lod")
    os.chmod(".", 0o755)
    os.chmod("a.mscope", 0o555)
    try:
        # Permissions do not stop root.
        with serving(".", user="nobody" if os.getuid() == 0 else None) as server:
            equal(server.json(API), facts)
            check(server.json(f"{API}/boxes?{EVERYTHING}&width=9")["lanes"])
            equal(sorted(os.listdir("a.mscope")), ["0-423.mst", "run.json"])
    finally:
        os.chmod("a.mscope", 0o755)


@test
def many_ask_while_it_is_made():
    recording()
    with serving(".") as server:
        got = []
        threads = [threading.Thread(target=lambda i=i: got.append(
            server.ask(f"{API}/boxes?from={i}&to=9000000000&width=100")[0])) for i in range(20)]
        for thread in threads:
            thread.start()
        equal(server.ask("/api/runs/a/steps")[0], 200)
        for thread in threads:
            thread.join()
        equal(got, [200] * 20)


@test
def a_run_that_grows():
    with subprocess.Popen([MOESCOPE, "run", "-q", "-o", "a.mscope", "--", TINYMOE, "--quiet", "--steps", "100000"],
                          stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment()) as program:
        try:
            wait_for(lambda: list(pathlib.Path(".").glob("a.mscope/[0-9]*.mst")), "the run")
            with serving(".") as server:
                wait_for(lambda: server.ask(API)[0] == 200 and server.json(API)["events"] > 0, "events")
                some = server.json(API)["events"]
                wait_for(lambda: server.json(API)["events"] > some, "more of them")
                program.terminate()
                program.wait()
                wanted = sum(counts_of_sql(KINDS).values())
                wait_for(lambda: server.json(API)["events"] == wanted, "all of them")
        finally:
            program.kill()


@test
def a_run_is_replaced_with_its_index():
    record("a.mscope", 2)
    with serving(".") as server:
        equal(server.json(API)["lanes"][0]["events"], 2)
        check(pathlib.Path("a.mscope/timeline.lod").exists())
        equal(moescope("run", "-q", "--force", "-o", "a.mscope", "--", TINYMOE, "--quiet", "--steps", "3").status, 0)
        check(not pathlib.Path("a.mscope/timeline.lod").exists())
        wait_for(lambda: server.json(API)["lanes"][0]["events"] == 3, "the new run")


@test
def an_import_indexes_what_is_large():
    for n, name in ((1000, "small"), (1000001, "large")):
        with open(f"{name}.json", "w", encoding="ascii") as file:
            file.write('{"traceEvents":[')
            file.write(",".join('{"ph":"X","cat":"cpu_op","name":"mm","pid":1,"tid":1,"ts":%d,"dur":5}' % (i * 10)
                                for i in range(n)))
            file.write("]}")
        result = moescope("import", f"{name}.json")
        equal(result.status, 0, result.err)
        equal(pathlib.Path(f"{name}.mscope/timeline.lod").exists(), name == "large")
    index = pathlib.Path("large.mscope/timeline.lod")
    before = index.stat()
    with serving(".") as server:
        equal(server.json("/api/runs/large/timeline")["events"], 1000001)
        equal(index.stat().st_ino, before.st_ino, "made again")


@test
def what_makes_no_sense_is_refused():
    recording()
    with serving(".") as server:
        for query, words in {
                "boxes?from=5&to=5&width=10": ["before"],
                "boxes?from=6&to=5&width=10": ["before"],
                "boxes?from=0&to=5&width=0": ["'width'", "8192"],
                "boxes?from=0&to=5&width=8193": ["'width'"],
                "boxes?from=0&to=5": ["'width' is missing"],
                "boxes?to=5&width=7": ["'from' is missing"],
                "boxes?from=0&to=99999999999999999999&width=7": ["'to'"],
                "boxes?from=-9223372036854775808&to=5&width=7": ["'from'"],
                "boxes?from=+1&to=5&width=7": ["'from'"],
                "boxes?from=1e3&to=5&width=7": ["'from'"],
                "boxes?from=0x1&to=5&width=7": ["'from'"],
                "boxes?from=-&to=5&width=7": ["'from'"],
                "boxes?from=0&to=5&width=7&lanes=99": ["no lane 99"],
                "boxes?from=0&to=5&width=7&lanes=2-1": ["backwards"],
                "boxes?from=0&to=5&width=7&lanes=": ["needs lane numbers"],
                "boxes?from=0&to=5&width=7&lanes=1,": ["needs lane numbers"],
                "boxes?from=0&to=5&width=7&lanes=0x1": ["needs lane numbers"],
                "boxes?from=0&to=5&width=7&lanes=0-99999999999999999999": ["no lane"],
                "boxes?from=0&to=5&width=7&colour=red": ["colour"],
                "boxes?from=0&to=5&width=7&lane=1": ["did you mean 'lanes'"],
                "sums?from=1": ["'to' is missing"],
                "search": ["'text' is missing"],
                "search?text=": ["'text' is missing"],
                "find?name=x": ["'after' is missing"],
                "find?after=1&id=99999": ["'id'"],
                "find?after=1&id=1&name=x": ["not both"],
                "find?after=1": ["'name' is missing"]}.items():
            server.refused(f"{API}/{query}", 400, *words)
        server.refused(f"{API}?x=1", 400, "x")
        server.refused(f"{API}/nothing", 404, "openapi")
        server.refused(f"{API}/boxes/x", 404)
        server.refused("/api/runs/b/timeline", 404, "no run 'b'")
        # The far ends of what may be asked.
        far = 2 ** 62
        equal(sum(map(len, (lane["start"] for lane in server.json(
            f"{API}/boxes?from={-far}&to={-far + 1}&width=8192")["lanes"]))), 0)
        check(server.json(f"{API}/boxes?from={-far}&to={far}&width=8192")["lanes"])
        paths = server.json("/api/openapi.json")["paths"]
        check("/api/runs/{run}/timeline/boxes" in paths, paths.keys())


@test
def a_run_without_events_says_so():
    record("a.mscope", 2)
    for shard in pathlib.Path("a.mscope").glob("*.mst"):
        shard.unlink()
    with serving(".") as server:
        facts = server.json(API)
        equal((facts["events"], facts["lanes"]), (0, []))
        check("absent" in facts, facts)


main()
