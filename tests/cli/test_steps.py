# SPDX-License-Identifier: Apache-2.0
"""Steps of traces that no program marked for us: ProfilerStep wherever it stands, iterations that
inference engines name, and those that are found by repetition. Counted again here, event by event."""

import json
import pathlib
import sqlite3

from cli import Skip, check, equal, main, moescope, test
from serving import serving


def event(category, name, start, duration, thread=1, **args):
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": thread, "ts": start,
            "dur": duration, "args": args}


def written(name, events):
    pathlib.Path(name).write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}),
                                  encoding="utf-8")
    return name


def steps(path):
    r = moescope("steps", path, "--json")
    equal(r.status, 0, r)
    return json.loads(r.out)


def rows(path, *keys):
    return [tuple(row.get(key) for key in keys) for row in steps(path)["rows"]]


def sql(run, query):
    r = moescope("sql", run, query, "--json")
    equal(r.status, 0, r)
    return json.loads(r.out)["rows"]


@test
def a_profiler_step_is_one_in_any_category():
    kernel = event("kernel", "k", 1, 1, 7, stream=7)
    for category in ("user_annotation", "cpu_op", "Operator", "something_new", None):
        marks = [event(category, f"ProfilerStep#{i}", 100 * i, 90) for i in (4, 5, 6)]
        for mark in marks:
            if category is None:
                del mark["cat"]
        path = written("a.json", [kernel, *marks])
        equal(rows(path, "step", "time_ns", "source"),
              [(i, 90000, "program") for i in (4, 5, 6)], category)
        equal(json.loads(moescope("ops", path, "--json").out)["loss"]["unknown_events"], 0, category)
    # The device's side counts where it stands alone, and once for its streams.
    gpu = [event("gpu_user_annotation", f"ProfilerStep#{i}", 100 * i + 30, 80, stream)
           for i in (4, 5) for stream in (7, 8)]
    equal(rows(written("b.json", [kernel, *gpu]), "step", "start_ns", "time_ns", "source"),
          [(4, 429000, 80000, "device_range"), (5, 529000, 80000, "device_range")])
    both = [*gpu, event("user_annotation", "ProfilerStep#4", 400, 90)]
    equal(rows(written("c.json", [kernel, *both]), "step", "time_ns"), [(4, 90000)])


@test
def iterations_of_engines_are_steps_with_their_batch():
    vllm = ["execute_context_2(300)_generation_0(0)", "execute_context_1(100)_generation_2(2)",
            "execute_context_0(0)_generation_3(3)"]
    path = written("vllm.json", [event("user_annotation", name, 1000 * i, 900)
                                 for i, name in enumerate(vllm)])
    equal(rows(path, "step", "stage", "batch", "tokens", "source"),
          [(0, "prefill", 2, 300, "range"), (1, "mixed", 3, 102, "range"),
           (2, "decode", 3, 3, "range")])
    text = moescope("steps", path).out
    check("1 prefill  1 decode  1 mixed" in text and "by the names" in text, text)
    # The ranges stay what they are.
    names = [row["name"] for row in json.loads(moescope("ops", path, "--json").out)["rows"]]
    equal(sorted(names), sorted(vllm))
    sglang = [event("user_annotation", name, start, duration) for name, start, duration in (
        ("execute_8_context_1(sq8sk8sqsq64sqsk64)_generation_0(sq0sk0sqsq0sqsk0)", 0, 100),
        ("step[EXTEND bs=1 toks=8]", 10, 80), ("step[DECODE bs=1]", 200, 90))]
    equal(rows(written("sglang.json", sglang), "step", "time_ns", "stage", "tokens"),
          [(0, 100000, "prefill", 8), (1, 90000, "decode", 1)])
    # As another run and back: who marked them goes with it.
    equal(moescope("import", "sglang.json", "-o", "sglang.mscope").status, 0)
    equal(moescope("export", "sglang.mscope", "--to", "chrome", "-o", "again.json").status, 0)
    for other in ("sglang.mscope", "again.json"):
        equal(rows(other, "step", "time_ns", "stage", "batch", "source"),
              rows("sglang.json", "step", "time_ns", "stage", "batch", "source"), other)


@test
def ranges_of_nvtx_are_steps_as_well():
    db = sqlite3.connect("a.sqlite")
    db.executescript("""
        create table StringIds(id integer primary key, value text);
        create table NVTX_EVENTS(start int, end int, eventType int, text text, globalTid int,
                                 endGlobalTid int, textId int, domainId int);
        create table CUPTI_ACTIVITY_KIND_KERNEL(start int, end int, deviceId int, contextId int,
            streamId int, correlationId int, globalPid int, demangledName int, shortName int);
        insert into StringIds values (1, 'kernel'), (2, 'step[DECODE bs=4]');
        insert into CUPTI_ACTIVITY_KIND_KERNEL values (10, 20, 0, 1, 7, 1, 16777216, 1, 1);
        insert into NVTX_EVENTS values (100, 190, 59, null, 16777217, null, 2, 0),
            (200, 290, 59, 'execute_context_0(0)_generation_4(4)', 16777217, null, null, 0),
            (300, 390, 59, 'ProfilerStep#7', 16777217, null, null, 0);""")
    db.commit()
    db.close()
    equal(rows("a.sqlite", "time_ns", "stage", "batch", "tokens"),
          [(90, "decode", 4, 4), (90, "decode", 4, 4), (90, None, None, None)])


def loop(turns, layers=6, calls=True):
    """Decoding: a launch of 1 us and a kernel of 3 us each, 40 us of the host between the turns."""
    events, now, correlation = [], 0, 0
    begins = []
    for _ in range(turns):
        now += 40
        begins.append(now)
        names = ["embed", *["norm", "qkv", "attn_core", "proj", "mlp"] * layers, "head", "argmax"]
        for name in names:
            correlation += 1
            if calls:
                events.append(event("cuda_runtime", "cudaLaunchKernel", now, 1,
                                    correlation=correlation))
            events.append(event("kernel", name, now + 10, 3, 7, stream=7, device=0,
                                correlation=correlation))
            now += 4
    return events, begins


@test
def repetition_is_found_and_said():
    events, begins = loop(9)
    path = written("a.json", events)
    document = steps(path)
    equal([(row["step"], row["time_ns"], row["source"]) for row in document["rows"]],
          [(i, 1000 * (b - a), "repetition") for i, (a, b) in enumerate(zip(begins, begins[1:]))])
    equal(document["total"]["source"], "repetition")
    equal(document["total"]["found_by"], "repetition of embed, 33 kernels each")
    for command in ("steps", "report"):
        text = moescope(command, path).out
        check("est.: nobody marks steps; found by repetition of embed, 33 kernels each" in text, text)
    # Kernels belong to them by their launches.
    table = json.loads(moescope("kernels", path, "--by", "step", "--json").out)["rows"]
    equal(sorted((row["step"], row["count"]) for row in table if row["step"] is not None),
          [(i, 33) for i in range(8)])
    # What is marked is not looked for.
    marked = events + [event("user_annotation", "ProfilerStep#3", 0, 500)]
    equal(rows(written("b.json", marked), "step", "source"), [(3, "program")])


@test
def the_timeline_shows_what_was_found():
    events, begins = loop(9)
    for name, more in (("found", []), ("marked", [event("user_annotation", "ProfilerStep#3", 0, 500)])):
        r = moescope("import", written(f"{name}.json", events + more))
        equal(r.status, 0, r)
    events, _ = loop(3)  # too few turns
    equal(moescope("import", written("none.json", events)).status, 0)
    with serving(".") as server:
        about = server.json("/api/runs/found/timeline")
        lanes = [lane for lane in about["lanes"] if lane["kind"] == "steps"]
        equal([(lane["title"], lane["rank"], lane["events"]) for lane in lanes], [("steps found by repetition", 0, 8)])
        boxes = server.json(f"/api/runs/found/timeline/boxes?from=0&to={about['end_ns'] + 1}&width=8000"
                            f"&lanes={lanes[0]['lane']}")
        shown = [(boxes["names"][str(n)], start + about["since_start_ns"], duration) for n, start, duration in
                 zip(*(boxes["lanes"][0][key] for key in ("name", "start", "duration")))]
        equal(shown, [(f"step {row['step']}", row["start_ns"], row["time_ns"])
                      for row in server.json("/api/runs/found/steps")["rows"]])
        check("steps_absent" not in about, about)
        about = server.json("/api/runs/marked/timeline")
        equal([lane["title"] for lane in about["lanes"] if lane["kind"] == "steps"], ["steps"])
        about = server.json("/api/runs/none/timeline")
        equal([lane for lane in about["lanes"] if lane["kind"] == "steps"], [])
        check("none were found by repetition" in about["steps_absent"], about)


@test
def sql_has_the_same_steps_whatever_else_it_reads():
    if "no SQLite" in moescope("sql", "--schema").err:
        raise Skip("built without SQLite")
    path = written("a.json", loop(9)[0])
    equal(moescope("import", path, "-o", "a.mscope").status, 0)
    count = "(select count(*) from {})"
    others = ["kernels", "api_calls", "ranges", "operations", "step_times"]
    by_step = "select step, count(*) from {} where step is not null group by step order by step"
    for run in (path, "a.mscope"):
        wanted = rows(run, "step", "time_ns")
        equal(len(wanted), 8)
        for more in ("", *others, ", ".join(map(count.format, others[:3]))):
            more = more and ", " + (more if "select" in more else count.format(more))
            equal([tuple(row[:2]) for row in sql(run, f"select step, duration_ns{more} from steps "
                                                      "order by step")], wanted, more)
        for table, n in (("kernels", 33), ("api_calls", 33)):
            equal(sql(run, by_step.format(table)), [[i, n] for i in range(8)], (run, table))


@test
def what_may_be_layers_is_no_step():
    events, _ = loop(1, layers=40)
    document = steps(written("a.json", events))
    equal((document["rows"], document["total"]["source"]), ([], "none"))
    check("no kernels repeat clearly enough" in moescope("steps", "a.json").out)


if __name__ == "__main__":
    main()
