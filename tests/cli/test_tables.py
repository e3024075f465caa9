# SPDX-License-Identifier: Apache-2.0
"""report, ops, steps, routing, memory, export and dump on real runs and on what is none."""

import csv
import fcntl
import glob
import gzip
import io
import json
import math
import os
import pathlib
import pty
import re
import select
import signal
import time

from cli import (MOESCOPE, PATIENCE_S, TINY, TINYMOE, Skip, check, environment, equal, main,
                 moescope, one_sentence, record, test)
from serving import serving

TABLES = ("report", "kernels", "ops", "api", "steps", "routing", "transfers", "comm", "memory",
          "efficiency")


def on_terminal(*words, env=None):
    """What a command writes to a terminal of 80x24, and its status."""
    pid, master = pty.fork()
    if pid == 0:
        os.environ.clear()
        os.environ.update(env or environment(TERM="xterm"))
        os.execv(MOESCOPE, [MOESCOPE, *words])
    output = b""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if not select.select([master], [], [], 1)[0]:
            continue
        try:
            piece = os.read(master, 65536)
        except OSError:
            break
        if not piece:
            break
        output += piece
    os.close(master)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), output.decode()


@test
def text_of_all_tables():
    record()
    for table in TABLES:
        r = moescope(table, "a.mscope")
        equal(r.status, 0, r)
        equal(r.err, "", table)
        check(len(r.out) > 100, r)
        check("\033" not in r.out, f"{table}: colour without a terminal")
        check(max(map(len, r.out.splitlines())) <= 80, f"{table}: lines over 80 columns")


@test
def json_of_all_tables_parses():
    record()
    for table in TABLES:
        r = moescope(table, "a.mscope", "--json")
        equal(r.status, 0, r)
        data = json.loads(r.out)
        equal(data["schema"].split("/")[:2], ["moescope", table])
    for words in (["explain"], ["doctor"], ["dump", *glob.glob("a.mscope/[0-9]*.mst")]):
        data = json.loads(moescope(*words, "--json").out)
        equal(data["schema"].split("/")[:2], ["moescope", words[0]])


@test
def runs_without_a_gpu_say_so_in_one_sentence():
    record()
    for table in ("kernels", "api", "transfers", "comm"):
        r = moescope(table, "a.mscope")
        equal((r.status, r.err), (0, ""), r)
        check("no device records in this run" in r.out, r)
        equal(json.loads(moescope(table, "a.mscope", "--json").out)["rows"], [])
    data = json.loads(moescope("report", "a.mscope", "--json").out)
    equal((data["kernels"], data["timeline"]), (None, None))
    check(data["kernels_reason"] and data["timeline_reason"], data)


@test
def classes_files_are_checked():
    record()
    pathlib.Path("good").write_text("# mine\nfused\t^my_\n", encoding="utf-8")
    pathlib.Path("bad").write_text("fused\t^my_\nfused my_\n", encoding="utf-8")
    equal(moescope("kernels", "a.mscope", "--classes", "good", "--by", "class").status, 0)
    one_sentence(moescope("kernels", "a.mscope", "--classes", "bad"), 2, "line 2 of 'bad'", "tab")
    one_sentence(moescope("kernels", "a.mscope", "--classes", "none"), 1, "'none'")
    one_sentence(moescope("kernels", "a.mscope", "--by", "colour"), 2, "class", "range")


@test
def report_of_several_runs():
    record("a.mscope")
    record("b.mscope")
    data = json.loads(moescope("report", "a.mscope", "b.mscope", "--json").out)
    equal([report["run"]["name"] for report in data], ["a", "b"])
    r = moescope("report", "a.mscope", "missing.mscope")
    equal((r.status, "'missing.mscope'" in r.err), (1, True), r)


@test
def csv_has_the_rows():
    record()
    for table in ("ops", "steps", "routing"):
        rows = list(csv.DictReader(io.StringIO(moescope(table, "a.mscope", "--csv").out)))
        wanted = json.loads(moescope(table, "a.mscope", "--json").out)["rows"]
        equal(len(rows), len(wanted), table)


@test
def markdown_has_the_rows():
    record()
    for table in TABLES:
        r = moescope(table, "a.mscope", "--markdown", "--color", "always")
        equal((r.status, r.err), (0, ""), r)
        check("\033" not in r.out, f"{table}: colour in Markdown")
    lines = moescope("ops", "a.mscope", "--markdown", "--limit", "3").out.splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line[:1] == "|"]
    equal(rows[1], ["---" if title in ("name", "kind") else "---:" for title in rows[0]])
    wanted = json.loads(moescope("ops", "a.mscope", "--json", "--limit", "3").out)["rows"]
    equal([row[0].replace("\\", "") for row in rows[2:]], [row["name"] for row in wanted])
    check(any("more rows (--limit 0 shows all)" in line for line in lines), lines)


@test
def requests_of_generation():
    r = moescope("run", "-q", "-o", "g.mscope", "--", "sh", "-c", 'exec "$@" >/dev/null', "sh",
                 TINYMOE, *TINY, "--steps", "3", "--generate", "12")
    equal(r.status, 0, r)
    data = json.loads(moescope("requests", "g.mscope", "--json").out)
    equal((data["total"]["requests"], data["total"]["tokens"]), (1, 12))
    equal([row["tokens"] for row in data["rows"]], [12])
    text = moescope("requests", "g.mscope").out
    check("1 request (1 finished)" in text and "  TTFT  p50 " in text, text)
    rows = list(csv.DictReader(io.StringIO(moescope("requests", "g.mscope", "--csv").out)))
    equal(list(rows[0]), [key for key in data["rows"][0] if not key.endswith("_reason")])
    r = moescope("sql", "g.mscope", "select request, tokens from request_times", "--csv")
    if "no SQLite" not in r.err:
        equal(r.out.splitlines()[1:], [f"{rows[0]['request']},12"], r)
    one_sentence(moescope("requests", "g.mscope", "--sort", "colour"), 2, "colour", "ttft_ns")


@test
def runs_without_requests_say_so():
    record()
    check("no requests in this run" in moescope("requests", "a.mscope").out)
    equal(json.loads(moescope("requests", "a.mscope", "--json").out)["rows"], [])


@test
def limit_and_sort():
    record()
    for table in ("ops", "steps"):
        rows = json.loads(moescope(table, "a.mscope", "--json", "--limit", "2").out)["rows"]
        equal(len(rows), 2, table)
    counts = [row["count"] for row in json.loads(
        moescope("ops", "a.mscope", "--json", "--sort", "count").out)["rows"]]
    equal(counts, sorted(counts, reverse=True))
    check(len(counts) > 20, "all rows without --limit")
    one_sentence(moescope("ops", "a.mscope", "--sort", "colour"), 2, "colour", "count")


@test
def windows_choose_steps():
    record()
    for window, wanted in (("2", [2]), ("2:3", [2, 3]), ("4:", [4, 5]), (":1", [0, 1])):
        rows = json.loads(moescope("steps", "a.mscope", "--json", "--steps", window).out)["rows"]
        equal([row["step"] for row in rows], wanted, window)


@test
def layers_and_phases_choose_rows():
    record()
    rows = json.loads(moescope("routing", "a.mscope", "--json", "--layer", "1").out)["rows"]
    equal({row["layer"] for row in rows}, {1})
    everything = json.loads(moescope("ops", "a.mscope", "--json").out)["rows"]
    backward = json.loads(moescope("ops", "a.mscope", "--json", "--phase", "backward").out)["rows"]
    check(0 < len(backward) < len(everything), len(backward), len(everything))


@test
def dashboard_fits_a_screen():
    record()
    r = moescope("report", "a.mscope", "--dashboard")
    equal(r.status, 0, r)
    lines = r.out.splitlines()
    check(5 < len(lines) <= 24 and max(map(len, lines)) <= 80, r.out)


@test
def color_only_on_a_terminal():
    record()
    check("\033[" in moescope("report", "a.mscope", "--color", "always").out)
    status, text = on_terminal("report", "a.mscope")
    equal(status, 0)
    check("\033[" in text, "a terminal gets colour")
    for env in (environment(TERM="xterm", NO_COLOR="1"), environment(TERM="dumb")):
        check("\033[" not in on_terminal("report", "a.mscope", env=env)[1], env.get("TERM"))
    check("\033[" in on_terminal("report", "a.mscope", "--color", "always",
                                 env=environment(TERM="xterm", NO_COLOR="1"))[1])
    check("\033[" not in on_terminal("report", "a.mscope", "--color", "never")[1])


@test
def ascii_locales_get_ascii():
    record()
    for table in TABLES:
        moescope(table, "a.mscope", env=environment(LC_ALL="C")).out.encode("ascii")


@test
def newest_run_by_default():
    record("old.mscope")
    record("new.mscope")
    os.utime("old.mscope/run.json", (1, 1))
    for table in TABLES:
        r = moescope(table)
        equal(r.status, 0, r)
        equal(r.err, "moescope: the newest run here is new.mscope.\n")
    os.utime("new.mscope/run.json", (0, 0))
    equal(moescope("ops").err, "moescope: the newest run here is old.mscope.\n")
    equal(moescope("ops", "new").out, moescope("ops", "new.mscope").out)


@test
def what_is_no_run():
    pathlib.Path("file.mscope").write_text("just text\n" * 100, encoding="ascii")
    pathlib.Path("empty").write_text("", encoding="ascii")
    os.mkdir("dir.mscope")
    os.mkdir("runs")
    for command in (*TABLES, "export"):
        one_sentence(moescope(command, cwd="runs"), 1, "moescope run", "moescope demo")
        one_sentence(moescope(command, "missing.mscope"), 1, "'missing.mscope'", "moescope run")
        one_sentence(moescope(command, "file.mscope"), 1, "file.mscope")
        one_sentence(moescope(command, "empty"), 1, "empty")
        one_sentence(moescope(command, "dir.mscope"), 1, "'dir.mscope'", "moescope run")
        one_sentence(moescope(command, "file.mscope/x"), 1, "file.mscope/x")
    one_sentence(moescope("dump", "file.mscope"), 1, "file.mscope")
    one_sentence(moescope("dump", "missing.mst"), 1, "missing.mst")


@test
def directory_of_runs_names_the_run():
    record()
    os.mkdir("runs")
    os.rename("a.mscope", "runs/a.mscope")
    one_sentence(moescope("ops", "runs"), 1, "'runs/a.mscope'")
    one_sentence(moescope("ops", "runs/"), 1, "'runs/a.mscope'")


@test
def newer_run_is_refused():
    record()
    path = pathlib.Path("a.mscope/run.json")
    text = path.read_text(encoding="utf-8")
    path.write_text(re.sub(r'"format": \d+', '"format": 99', text), encoding="utf-8")
    one_sentence(moescope("report", "a.mscope"), 1, "newer")


@test
def export_to_chrome():
    record()
    r = moescope("export", "a.mscope", "--to", "chrome")
    equal(r.status, 0, r)
    written = next(name for name in os.listdir(".") if ".pt.trace.json" in name)
    # Compressed where the build can do that.
    with (gzip.open if written.endswith(".gz") else open)(written, "rt", encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    names = {event["name"] for event in events}
    check(len(events) > 100 and any("expert" in name for name in names), sorted(names)[:20])
    check(written in ("a.pt.trace.json", "a.pt.trace.json.gz"), written)
    equal(sorted(os.listdir(".")), ["a.mscope", written])
    equal(json.loads(moescope("export", "a.mscope", "-o", "-").out)["traceEvents"], events)
    equal(moescope("export", "a.mscope", "-o", "x.json").status, 0)
    equal(os.stat("x.json").st_mode & 0o777, 0o666 & ~_umask())


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


@test
def failed_export_leaves_nothing():
    record()
    os.mkdir("d")
    one_sentence(moescope("export", "a.mscope", "-o", "no/such/dir.json"), 1, "no/such/dir.json")
    one_sentence(moescope("export", "a.mscope", "-o", "d"), 1, "'d'")
    one_sentence(moescope("export", "a.mscope", "--to", "chorme"), 2, "'chrome'")
    equal(sorted(os.listdir(".")), ["a.mscope", "d"])
    with open("/dev/full", "w", encoding="ascii") as full:
        r = moescope("export", "a.mscope", "-o", "-", stdout=full)
    equal(r.status, 1, r)
    check("No space left" in r.err and len(r.err.splitlines()) == 1, r)


@test
def dump_lists_chunks():
    record()
    shard = glob.glob("a.mscope/[0-9]*.mst")[0]
    r = moescope("dump", shard)
    equal(r.status, 0, r)
    for word in ("step", "routing", "range", "duration_ns", "closed"):
        check(word in r.out, word)
    data = json.loads(moescope("dump", shard, "--json").out)
    steps = sum(row["records"] for row in data["rows"] if row["kind"] == "step")
    equal(steps, 6)
    equal(data["file_bytes"], os.path.getsize(shard))


@test
def progress_on_a_terminal_when_it_takes_long():
    record()
    # A lease on run.json keeps the reader waiting until it is given up; the holder gets SIGIO.
    lease = os.open("a.mscope/run.json", os.O_RDWR)
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)
    try:
        fcntl.fcntl(lease, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except OSError as error:
        raise Skip(f"no leases here: {error}") from error
    pid, master = pty.fork()
    if pid == 0:
        os.environ.clear()
        os.environ.update(environment(TERM="xterm"))
        os.execv(MOESCOPE, [MOESCOPE, "steps", "a.mscope", "--json"])
    output = b""
    while b"reading a.mscope (1 s)" not in output:
        check(select.select([master], [], [], 30)[0], output)
        output += os.read(master, 4096)
    fcntl.fcntl(lease, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    os.close(lease)
    signal.signal(signal.SIGIO, before)
    while True:
        try:
            output += os.read(master, 65536)
        except OSError:
            break
    os.close(master)
    equal(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0, output)
    check(b"\r\x1b[K{" in output, output[:300])


@test
def schedule_and_level_reach_the_recording():
    record("b.mscope", 10, "--schedule", "wait=2,warmup=1,active=2,repeat=1")
    rows = json.loads(moescope("routing", "b.mscope", "--json").out)["rows"]
    equal({row["steps"] for row in rows}, {2})
    record("c.mscope", 6, "--level", "counts")
    equal(json.loads(moescope("ops", "c.mscope", "--json").out)["rows"], [])
    check(json.loads(moescope("routing", "c.mscope", "--json").out)["rows"])


@test
def routing_equals_the_models_own_counts():
    r = moescope("run", "-q", "-o", "a.mscope", "--", TINYMOE, *TINY, "--steps", "5",
                 "--counts", "counts.csv")
    equal(r.status, 0, r)
    wanted = {}
    with open("counts.csv", encoding="ascii") as file:
        for row in csv.DictReader(file):
            key = (int(row["step"]), int(row["layer"]))
            wanted.setdefault(key, {})[int(row["expert"])] = int(row["count"])
    check(len(wanted) == 10, len(wanted))
    for (step, layer), counts in wanted.items():
        rows = json.loads(moescope("routing", "a.mscope", "--json", "--steps", step,
                                   "--layer", layer, "--phase", "forward").out)["rows"]
        equal(len(rows), 1)
        equal(rows[0]["load"], [counts[e] for e in sorted(counts)], step, layer)


@test
def routing_by_step_has_the_columns_of_router_profilers():
    record()
    rows = list(csv.DictReader(io.StringIO(moescope(
        "routing", "a.mscope", "--columns", "steps", "--csv", "--phase", "forward").out)))
    equal(list(rows[0])[:12], ["step", "flops_total", "flops_router", "flops_expert",
                               "active_experts", "k_avg", "latency_ms", "router_conf",
                               "memory_mb", "timestamp", "device", "layer"])
    layers = json.loads(moescope("routing", "a.mscope", "--json", "--phase",
                                 "forward").out)["rows"]
    equal(len(rows), sum(layer["steps"] for layer in layers))
    for layer in layers:
        mine = [row for row in rows if row["layer"] == str(layer["layer"])]
        equal(sum(int(row["tokens"]) for row in mine), layer["tokens"])
        equal(sum(float(row["flops_expert"]) for row in mine), layer["flops_expert"])
        check(all(float(row["latency_ms"]) > 0 for row in mine), mine)
        check(all(row["memory_mb"] == row["device"] == "" for row in mine), "absent, not zero")
    experts = list(csv.DictReader(io.StringIO(moescope(
        "routing", "a.mscope", "--columns", "experts", "--csv", "--phase", "forward",
        "--layer", "1").out)))
    for expert, load in enumerate(layers[1]["load"]):
        equal(sum(int(row["tokens"]) for row in experts if row["expert"] == str(expert)), load)


@test
def routing_at_several_capacities_and_steps():
    record()
    words = ("routing", "a.mscope", "--json", "--layer", "1", "--phase", "forward")
    row = json.loads(moescope(*words, "--step", "2:3", "--capacity-factor", "1,1.5,2").out)
    row = row["rows"][0]
    equal(row, json.loads(moescope(*words, "--steps", "2:3", "--capacity-factor",
                                   "1,1.5,2").out)["rows"][0])
    equal([step["step"] for step in row["series"]], [2, 3])
    equal([case["factor"] for case in row["capacity"]], [1, 1.5, 2])
    equal((row["capacity_factor"], row["drop_rate"]), (1, row["capacity"][0]["drop_rate"]))
    drops = [case["drop_rate"] for case in row["capacity"]]
    check(drops == sorted(drops, reverse=True) and drops[0] > 0, drops)
    for step in row["series"]:
        equal(sum(step["load"]), sum(k * n for k, n in enumerate(step["k_hist"])))


@test
def routing_pairs_need_the_experts_of_every_token():
    r = moescope("run", "-q", "--level", "full", "-o", "full.mscope", "--", TINYMOE, *TINY,
                 "--steps", "4")
    equal(r.status, 0, r)
    row = json.loads(moescope("routing", "full.mscope", "--json", "--layer", "0", "--phase",
                              "forward").out)["rows"][0]
    equal(row["affinity_layer"], 1)
    for pair in row["coactivation_pairs"]:
        equal(pair["share"], row["coactivation"][pair["from"]][pair["to"]])
        check(pair["share"] > pair["chance"] > 0, pair)
    text = moescope("routing", "full.mscope", "--layer", "0", "--width", "80").out
    check("experts chosen together" in text and "on to layer 1" in text, text)
    check("about the next expert" in text and "by every token" in text, text)
    check("self-check: ok" in text, text)
    check(max(map(len, text.splitlines())) <= 80, text)


def rows_of_sql(run, query):
    r = moescope("sql", run, "--json", "--limit", "0", query)
    if "has no SQLite" in r.err:
        raise Skip("built without SQLite")
    return json.loads(r.out)["rows"]


def replayed(events, time_ns):
    """Blocks that are live at a moment by the events alone: of several at that moment the most, as in the series."""
    live, best, best_time = {}, {}, None
    for time_, event, address, bytes_, use, site in events:
        if time_ > time_ns:
            break
        live.pop(address, None)
        if event == 0:
            live[address] = (bytes_, use, site)
        total = sum(block[0] for block in live.values())
        if time_ < time_ns or best_time != time_ns or total >= sum(block[0] for block in best.values()):
            best, best_time = dict(live), time_
    return list(best.values())


@test
def memory_at_a_moment_is_what_a_replay_finds():
    record()
    plain = json.loads(moescope("memory", "a.mscope", "--json").out)["rows"]
    check(plain and all("live_at" not in row for row in plain), plain)
    events = sorted(rows_of_sql("a.mscope", "SELECT time_ns, event, address, bytes, use, site, device "
                                "FROM memory_events WHERE event < 2"),
                    key=lambda event: event[0])  # stable, as the file has them
    row = plain[0]
    # SQL has the host's clock, tables the time since the start of the run.
    begin = min(step["start_ns"] for step in json.loads(moescope("steps", "a.mscope", "--json", "--limit", "0").out)["rows"])
    begin = json.loads(moescope("sql", "a.mscope", "SELECT min(start_ns) FROM steps", "--json").out)["rows"][0][0] - begin
    own = [(event[0] - begin, *event[1:6]) for event in events if event[6] == row["device"]]
    series = {point["time_ns"]: point["allocated_bytes"] for point in row["series"]}
    times = sorted(series)
    moments = [*times[::max(1, len(times) // 8)], times[-1], row["peak_ns"], 0, (times[0] + times[-1]) // 2]
    for time_ns in moments:
        r = moescope("memory", "a.mscope", "--at", f"{time_ns}ns", "--json")
        equal(r.status, 0, r)
        then = json.loads(r.out)["rows"][0]["live_at"]
        blocks = replayed(own, time_ns)
        equal(then["time_ns"], time_ns)
        equal(then["allocated_bytes"], sum(block[0] for block in blocks), time_ns)
        equal(then["allocated_bytes"], series.get(time_ns, then["allocated_bytes"]), "the curve", time_ns)
        equal(then["blocks"], len(blocks), time_ns)
        uses = {}
        for bytes_, use, _ in blocks:
            uses[use] = uses.get(use, 0) + bytes_
        equal(then["composition"], {use: n for use, n in uses.items() if n}, time_ns)
        equal(sorted(block["bytes"] for block in then["largest_blocks"]),
              sorted(sorted((block[0] for block in blocks), reverse=True)[:64]), time_ns)
        if then["allocated_bytes"]:
            equal(round(sum(then["composition_pct"].values()), 6), 100, time_ns)
    equal(then["time_ns"], moments[-1])
    with serving("a.mscope") as server:
        told = server.json(f"/api/runs/a/memory?at={row['peak_ns']}ns")["rows"]
        equal(told, json.loads(moescope("memory", "a.mscope", "--at", f"{row['peak_ns']}ns", "--json").out)["rows"])
        equal(told[0]["live_at"]["allocated_bytes"], row["peak_allocated_bytes"])
        equal(told[0]["live_at"]["composition"], row["composition_at_peak"])
        server.refused("/api/runs/a/memory?at=noon", 400, "'at'", "noon")
    text = moescope("memory", "a.mscope", "--at", f"{row['peak_ns']}ns").out
    check("largest blocks" in text and "by place" in text, text)
    late = json.loads(moescope("memory", "a.mscope", "--at", "100000s", "--json").out)["rows"][0]
    equal((late["live_at"], late["live_at_reason"]), (None, "the run had ended by then"))
    check("the run had ended by then" in moescope("memory", "a.mscope", "--at", "100000").out)
    for wrong in ("noon", "-1s", "1h", "0x10", " 1", "inf", "1e30"):
        one_sentence(moescope("memory", "a.mscope", f"--at={wrong}"), 2, "1.5s", wrong)


def experts_of_tokens(run, layer, k):
    """[{experts}] of the tokens of a layer's forward pass, as SQL has them."""
    slots = rows_of_sql(run, "select step, first, slot, expert from routed_slots "
                        f"where layer = {layer} and phase = 'forward'")
    tokens = {}
    for step, first, slot, expert in slots:
        tokens.setdefault((step, first + slot // k), set()).add(expert)
    return [tokens[place] for place in sorted(tokens)]


@test
def routing_of_tokens_is_recounted():
    r = moescope("run", "-q", "--level", "full", "-o", "full.mscope", "--", TINYMOE, *TINY, "--steps", "4")
    equal(r.status, 0, r)
    row = json.loads(moescope("routing", "full.mscope", "--json", "--layer", "0", "--phase", "forward").out)["rows"][0]
    here, there = (experts_of_tokens("full.mscope", layer, row["k_max"]) for layer in (0, 1))
    equal((len(here), len(there)), (row["tokens"], row["tokens"]))
    equal([sum(len(token) == k for token in here) for k in range(len(row["k_hist"]))], row["k_hist"])
    experts = range(row["experts"])
    load = [sum(e in token for token in here) for e in experts]
    together = [[sum({i, j} <= token for token in here) for j in experts] for i in experts]
    flow = [[sum(i in a and j in b for a, b in zip(here, there)) for j in experts] for i in experts]
    total = sum(map(sum, flow))
    into = [sum(line[j] for line in flow) for j in experts]

    def near(told, counted, *what):
        check(abs(told - counted) < 1e-9 * max(1, abs(counted)), told, counted, *what)

    for i in experts:
        for j in experts:
            near(row["coactivation"][i][j], together[i][j] / load[i], i, j)
            near(row["affinity"][i][j], flow[i][j] / sum(flow[i]), i, j)
            near(row["affinity_lift"][i][j], flow[i][j] * total / sum(flow[i]) / into[j], i, j)
            chance = (sum(load) / len(here) - 1) * load[j] / (sum(load) - load[i])
            if i == j:
                equal(row["coactivation_lift"][i][j], None)
            else:
                near(row["coactivation_lift"][i][j], together[i][j] / load[i] / min(1, chance), i, j)
    near(row["affinity_bits"], sum(n / total * math.log2(n * total / sum(line) / into[j])
                                   for line in flow for j, n in enumerate(line) if n))
    near(row["affinity_bits_most"], -sum(n / total * math.log2(n / total) for n in into if n)
         - math.log2(row["k_max"]))
    check(0 < row["affinity_bits_floor"] <= row["affinity_bits_most"], row["affinity_bits_floor"])
    equal(row["affinity_tokens"], len(here))
    pairs = list(csv.DictReader(io.StringIO(moescope("routing", "full.mscope", "--columns", "pairs", "--csv", "--layer",
                                                     "0", "--phase", "forward").out)))
    for pair in pairs:
        counted = together if pair["to_layer"] == "0" else flow
        equal(int(pair["tokens"]), counted[int(pair["from"])][int(pair["to"])], pair)
        check(float(pair["lift"]) > 1, pair)
    equal({pair["to_layer"] for pair in pairs}, {"0", "1"})
    slots = list(csv.DictReader(io.StringIO(moescope("routing", "full.mscope", "--columns", "k", "--csv", "--layer", "0",
                                                     "--phase", "forward").out)))
    equal([(int(each["k"]), int(each["tokens"])) for each in slots],
          [(k, n) for k, n in enumerate(row["k_hist"]) if n])


@test
def routing_without_tokens_says_what_to_record():
    record()
    row = json.loads(moescope("routing", "a.mscope", "--json", "--layer", "0").out)["rows"][0]
    for key in ("coactivation", "coactivation_lift", "affinity", "affinity_lift", "affinity_bits"):
        equal(row[key], None)
        check("--level full" in row[f"{key}_reason"], row)
    r = moescope("routing", "a.mscope", "--columns", "pairs")
    equal((r.status, r.err), (0, ""), r)
    check("--level full" in r.out, r)


@test
def a_page_in_one_file():
    record("a.mscope", 6)
    r = moescope("report", "a.mscope", "--html", "a.html")
    if r.status and "without its web page" in r.err:
        one_sentence(r, 1, "esbuild")
        check(not os.path.exists("a.html"))
        return
    equal((r.status, r.out, r.err), (0, "", ""), r)
    text = pathlib.Path("a.html").read_text(encoding="utf-8")
    data = text.split('<script type="application/json" id="data">')[1].split("</script>")[0]
    check("<" not in data)
    data = json.loads(data)
    equal((data["run"], data["left_out"]), ("a", {}))
    for view in ("report", "steps", "ops", "routing"):
        equal(data["views"][view], json.loads(moescope(view, "a.mscope", "--json").out), view)
    # Fewer rows where there are too many.
    equal(moescope("report", "a.mscope", "--html", "b.html", "--limit", "2").status, 0)
    text = pathlib.Path("b.html").read_text(encoding="utf-8")
    data = json.loads(text.split('id="data">')[1].split("</script>")[0])
    equal((len(data["views"]["steps"]["rows"]), data["left_out"]["steps"]), (2, 4))
    one_sentence(moescope("report", "a.mscope", "--html", "no/a.html"), 1, "no/a.html")
    one_sentence(moescope("report", "a.mscope", "--html", "a.html", "--json"), 2, "--html")
    one_sentence(moescope("report", "a.mscope", "a.mscope", "--html", "a.html"), 2, "--html")


if __name__ == "__main__":
    main()
