# SPDX-License-Identifier: Apache-2.0
"""summary: experiments whose truth is known, and every figure counted again from their files."""

import csv
import itertools
import json
import math
import os
import pathlib
import re
import statistics
import unicodedata

from cli import TINYMOE, check, equal, main, moescope, need, one_sentence, test
from experiments import experiment, figures, grid

METRICS = ["tokens_per_second", "tokens_per_second_per_gpu", "inference_time", "ttft_p50_ms",
           "ttft_p99_ms", "tpot_p50_ms", "tpot_p99_ms", "itl_p50_ms", "itl_p99_ms", "e2el_p50_ms",
           "e2el_p99_ms", "peak_memory_bytes", "cost_per_million_output_tokens"]
HIGHER = set(METRICS[:2])
RESOURCES = {"tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size",
             "batch_size", "concurrency", "processes", "nodes", "threads"}


def summary(directory, *options, status=0):
    r = moescope("summary", directory, "--json", *options)
    equal(r.status, status, r)
    document = json.loads(r.out)
    equal(json.loads(pathlib.Path(directory, "batch_summary.json").read_text(encoding="utf-8")),
          document)
    return document


def close(got, wanted, *context, by=1e-9):
    check(got is not None and math.isclose(got, wanted, rel_tol=by, abs_tol=1e-12),
          f"got {got}, wanted {wanted}", *context)


# Student's t without anybody's library: with t = sqrt(df) tan(a) its density is cos(a)^(df - 1).

def within(t, df, steps=4000):
    """P(|T| <= t)."""
    def area(end):
        h = end / steps
        weights = itertools.chain([1], *([4, 2] for _ in range(steps // 2 - 1)), [4, 1])
        return h / 3 * sum(w * math.cos(i * h) ** (df - 1) for i, w in enumerate(weights))
    norm = math.sqrt(math.pi) / 2 * math.exp(math.lgamma(df / 2) - math.lgamma((df + 1) / 2))
    return area(math.atan(t / math.sqrt(df))) / norm


def t_quantile(df):
    low, high = 0, 1000
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if within(middle, df, 800) < 0.95 else (low, middle)
    return low


T = {n: t_quantile(n - 1) for n in (3, 4, 5)}


def value(document, metrics, key):
    rate = metrics["tokens_per_second"]
    config = document["config"]
    if key == "tokens_per_second_per_gpu":
        gpus = (config["tensor_parallel_size"] * config.get("pipeline_parallel_size", 1) *
                config.get("data_parallel_size", 1))
        return rate / max(gpus, config.get("nodes", 1) * config.get("processes", 1))
    if key == "cost_per_million_output_tokens":
        price = config["price_per_hour"]
        return price / 3600 / rate * 1e6 if price else None
    if key == "peak_memory_bytes":
        return metrics.get("memory", {}).get("measured_peak_bytes")
    found = re.fullmatch(r"(\w+)_(p\d\d)_ms", key)
    if found:
        of = metrics["serving"]["vllm"][found[1] + "_ms"]
        return of and of[found[2]]
    return metrics[key]


def recount(directory, parameters):
    """{values: {metric: figures}} of the configurations, from the files."""
    groups = {}
    for path in sorted(pathlib.Path(directory).glob("**/summary.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        key = tuple(document["config"][p] for p in parameters)
        groups.setdefault(key, []).append(document)
    found = {}
    for key, documents in groups.items():
        good = [d for d in documents if d["status"] == "success"]
        found[key] = {}
        for metric in METRICS:
            x = [value(d, d["metrics"], metric) for d in good]
            if len(good) == 1:
                parts = [value(good[0], r, metric) for r in good[0]["metrics"]["repeats"]]
                if sum(v is not None for v in parts) > 1:
                    x = parts
            found[key][metric] = [v for v in x if v is not None]
    return found


def check_figure(figure, x, *context):
    equal(figure["n"], len(x), *context)
    if not x:
        check(figure["mean"] is None and figure["mean_reason"], figure, *context)
        return
    close(figure["mean"], statistics.mean(x), *context)
    if len(x) > 1:
        check(abs(figure["std_sample"] - statistics.stdev(x)) <= 1e-9 * abs(figure["mean"]), figure)
    if len(x) < 3:
        check(figure["low"] is None and figure["high"] is None and figure["low_reason"], figure)
        return
    half = T[len(x)] * statistics.stdev(x) / math.sqrt(len(x))
    close(figure["low"], figure["mean"] - half, *context, by=1e-7)
    close(figure["high"], figure["mean"] + half, *context, by=1e-7)


def welch(a, b):
    """p, and the interval of b in percent of a by Fieller's theorem."""
    ea, eb = statistics.variance(a) / len(a), statistics.variance(b) / len(b)
    if ea + eb == 0:
        return None, None, None
    df = (ea + eb) ** 2 / (ea ** 2 / (len(a) - 1) + eb ** 2 / (len(b) - 1))
    ma, mb = statistics.mean(a), statistics.mean(b)
    p = 1 - within(abs(mb - ma) / math.sqrt(ea + eb), df)
    t = t_quantile(df)
    g = t * t * ea / ma ** 2
    half = t / ma * math.sqrt(eb * (1 - g) + (mb / ma) ** 2 * ea)
    return (p, *(100 * ((mb / ma + s * half) / (1 - g) - 1) for s in (-1, 1)))


def check_best(document, found, metric):
    means = {k: statistics.mean(v[metric]) for k, v in found.items() if v[metric]}
    if not means:
        check(metric not in document["best"])
        return
    best = (max if metric in HIGHER else min)(means, key=means.get)
    rows = {tuple(c["parameters"].values()): c for c in document["configurations"]}
    close(document["best"][metric]["mean"], means[best], metric, by=1e-12)
    best = next(k for k, c in rows.items()  # of equal ones the first
                if c["label"] == document["best"][metric]["configuration"])
    tests, noise = {}, []
    for key, mean in means.items():
        if key == best:
            check(metric not in rows[key]["against_best"])
            continue
        row = rows[key]["against_best"][metric]
        close(row["pct"], 100 * (mean - means[best]) / means[best], metric, key, by=1e-6)
        a, b = found[best][metric], found[key][metric]
        if min(len(a), len(b)) < 3:
            equal((row["verdict"], row["p_adjusted"]), ("untested", None), metric, key)
        elif statistics.stdev(a) + statistics.stdev(b) > 0:
            tests[key] = welch(a, b)
    ordered = sorted(tests, key=lambda k: tests[k][0])
    smallest = 1
    for i in range(len(ordered), 0, -1):  # Benjamini and Hochberg
        key = ordered[i - 1]
        p, low, high = tests[key]
        smallest = min(smallest, p * len(ordered) / i)
        row = rows[key]["against_best"][metric]
        check(abs(row["p_adjusted"] - smallest) < 1e-6, metric, key, row, smallest)
        close(row["low_pct"], low, metric, key, by=1e-5)
        close(row["high_pct"], high, metric, key, by=1e-5)
        clear = (low > 0 or high < 0) and smallest <= 0.05 and abs(row["pct"]) > 0.5
        equal(row["verdict"], "worse" if clear else "noise", metric, key)
        if not clear:
            noise.append(rows[key]["label"])
    named = document["best"][metric]["within_noise"]
    check(set(noise) <= set(named), metric, noise, named)
    for label in set(named) - set(noise):
        row = next(c for c in document["configurations"] if c["label"] == label)
        equal(row["against_best"][metric]["verdict"], "same", metric, label)


def check_front(document, found):
    latency = document["pareto_latency"]
    means = {k: (statistics.mean(v["tokens_per_second"]), statistics.mean(v[latency]))
             for k, v in found.items() if v["tokens_per_second"] and v[latency]}
    front = {k for k, (rate, late) in means.items()
             if not any(r >= rate and l <= late and (r > rate or l < late)
                        for r, l in means.values())}
    rows = {tuple(c["parameters"].values()): c for c in document["configurations"]}
    equal({k for k, c in rows.items() if c["pareto"]}, front)
    equal([p["configuration"] for p in document["pareto"]],
          [rows[k]["label"] for k in sorted(front, key=lambda k: means[k][1])])


def check_scaling(document, found):
    parameters = document["parameters"]
    rows = {tuple(c["parameters"].values()): c for c in document["configurations"]}
    laws = {(s["parameter"], s["metric"], s["where"]): s for s in document["scaling"]}
    seen = 0
    for i, parameter in enumerate(parameters):
        lines = {}
        for key in found:
            lines.setdefault(key[:i] + key[i + 1:], []).append(key)
        for others, keys in lines.items():
            keys.sort(key=lambda k: k[i])
            rates = {k: statistics.mean(found[k]["tokens_per_second"]) for k in keys
                     if found[k]["tokens_per_second"]}
            for key in keys if parameter in RESOURCES else ():
                row = next(e for e in rows[key]["efficiency"] if e["parameter"] == parameter)
                if key not in rates:
                    check(row["efficiency_pct"] is None and row["efficiency_pct_reason"], row)
                    continue
                first = min(rates, key=lambda k: k[i])
                close(row["efficiency_pct"],
                      100 * (rates[key] / key[i]) / (rates[first] / first[i]))
                equal(row["relative_to"], str(first[i]))
            where = ", ".join(f"{p} {v}" for p, v in
                              zip(parameters[:i] + parameters[i + 1:], others))
            for metric in METRICS:
                points = [(math.log(k[i]), math.log(statistics.mean(found[k][metric])))
                          for k in keys if found[k][metric]]
                law = laws.get((parameter, metric, where))
                equal(law is not None, len(points) >= 3, parameter, metric, where)
                if law:
                    slope, _ = statistics.linear_regression(*zip(*points))
                    check(abs(law["exponent"] - slope) < 1e-9, law, slope)
                    seen += 1
    equal(seen, len(laws))


def check_all(directory, document):
    found = recount(directory, document["parameters"])
    equal(len(document["configurations"]), len(found))
    for row in document["configurations"]:
        x = found[tuple(row["parameters"].values())]
        for metric in METRICS:
            check_figure(row["figures"][metric], x[metric], row["label"], metric)
    for metric in METRICS:
        check_best(document, found, metric)
    check_front(document, found)
    check_scaling(document, found)


@test
def every_figure_counted_again():
    grid("a", failed={(16, 100, 1), (8, 100, 1)}, price_per_hour=12.5)
    document = summary("a")
    equal([document[k] for k in ("total_experiments", "successful", "failed", "timeout",
                                 "unreadable")], [15, 13, 2, 0, 0])
    equal(document["parameters"], ["batch_size", "tensor_parallel_size"])
    check_all("a", document)


@test
def throughput_per_gpu_counts_all_of_them():
    for name, sizes in (("1", {}), ("2", {"pipeline_parallel_size": 2}),
                        ("12", {"tensor_parallel_size": 2, "pipeline_parallel_size": 2,
                                "data_parallel_size": 3}),
                        ("16", {"nodes": 2, "processes": 8}),
                        ("8", {"nodes": 2, "processes": 4, "tensor_parallel_size": 8})):
        ones = {"pipeline_parallel_size": 1, "data_parallel_size": 1, "nodes": 1, "processes": 1}
        experiment(f"a/gpus-{name}", {**ones, **sizes}, [figures(2400 + int(name), 1.5 / int(name))])
    document = summary("a")
    check_all("a", document)
    rates = {c["experiments"][0]: c["figures"]["tokens_per_second_per_gpu"]["mean"]
             for c in document["configurations"]}
    equal(rates, {f"gpus-{n}": (2400 + n) / n for n in (1, 2, 8, 12, 16)})
    table = pathlib.Path("a/batch_summary.md").read_text(encoding="utf-8")
    check("tokens/s per GPU" in table, "the table has them")


@test
def noisy_repeats_counted_again():
    grid("a", batches=(1, 8, 9), tokens=(50, 100), parallel=(1,), repeats=4, spread=0.1)
    document = summary("a")
    check_all("a", document)
    verdicts = {c["against_best"]["tokens_per_second"]["verdict"]
                for c in document["configurations"] if "tokens_per_second" in c["against_best"]}
    equal(verdicts, {"noise", "worse"})
    equal(summary("a"), document, "the second time gives the same")


@test
def power_law_and_front_are_found():
    grid("a", spread=0, repeats=1)
    document = summary("a")
    check_all("a", document)
    laws = [(s["parameter"], s["metric"], s["exponent"], s["r2"]) for s in document["scaling"]]
    for parameter, metric, wanted in (("batch_size", "tokens_per_second", 0.8),
                                      ("tensor_parallel_size", "tokens_per_second", 0.6),
                                      ("batch_size", "tpot_p50_ms", 0.35),
                                      ("tensor_parallel_size", "tpot_p50_ms", -0.4)):
        mine = [law for law in laws if law[:2] == (parameter, metric)]
        check(mine, parameter, metric)
        for law in mine:
            check(abs(law[2] - wanted) < 1e-12 and abs(law[3] - 1) < 1e-9, law)
    # More GPUs are better in both, a larger batch in throughput alone.
    equal([p["configuration"] for p in document["pareto"]],
          [f"batch_size {b}, tensor_parallel_size 4" for b in (1, 2, 4, 8, 16)])


@test
def planted_front():
    """Two on the front are equal, one has the same throughput and more latency."""
    for i, (rate, late) in enumerate([(100, 10), (200, 20), (200, 20), (200, 25), (150, 30),
                                      (300, 40), (90, 9), (80, 9.5)]):
        experiment(f"a/{i}", {"prompt": f"p{i}"}, [figures(rate, 1, tpot=(late, late))])
    document = summary("a")
    equal([p["configuration"] for p in document["pareto"]],
          [f"prompt p{i}" for i in (6, 0, 1, 2, 5)])
    equal(document["pareto_latency"], "tpot_p50_ms")
    equal(document["scaling"], [])


@test
def latency_is_one_that_most_have():
    for i, late in enumerate([{"e2el": (5, 6)}, {"e2el": (7, 8)},
                              {"e2el": (9, 9), "tpot": (1, 1)}]):
        experiment(f"a/{i}", {"max_tokens": i + 1}, [figures(100 + i, 1, **late)])
    equal(summary("a")["pareto_latency"], "e2el_p50_ms")
    experiment("b/0", {}, [figures(10, 2)])
    equal(summary("b")["pareto_latency"], "inference_time")


@test
def failures_have_no_figures():
    grid("a", batches=(1, 2), parallel=(1,), failed={(2, 100, 1)})
    experiment("a/points/late", {"batch_size": 4}, [figures(1e6, 1)], "timeout", "after 5 s")
    document = summary("a")
    equal([document[k] for k in ("total_experiments", "successful", "failed", "timeout")],
          [3, 1, 1, 1])
    rows = {e["name"]: e for e in document["experiments"]}
    for name, why in (("001-b2-t100-p1", "out of memory: CUDA error | 2"), ("late", "after 5 s")):
        check("metrics" not in rows[name], rows[name])
        equal(rows[name]["error"], why)
    for row in document["configurations"][1:]:
        check(all(f["mean"] is None and f["n"] == 0 for f in row["figures"].values()), row)
    text = pathlib.Path("a/batch_summary.md").read_text(encoding="utf-8")
    check("| 001-b2-t100-p1 | failed | out of memory: CUDA error \\| 2 |" in text, text)
    check("1000000" not in text, "a figure of an experiment that did not succeed")
    r = moescope("summary", "a")
    equal(r.status, 0, r)
    check("failed 001-b2-t100-p1: out of memory" in r.out and "timeout late: after 5 s" in r.out, r)


@test
def all_failed():
    grid("a", batches=(1, 2), parallel=(1,), failed={(1, 100, 1), (2, 100, 1)})
    document = summary("a")
    equal((document["best"], document["pareto"], document["successful"]), ({}, [], 0))
    check(not os.path.exists("a/visualization"), "nothing to plot")
    check("nothing to plot" in moescope("summary", "a").err)


@test
def single_runs_say_so():
    grid("a", repeats=1, parallel=(1,))
    document = summary("a")
    check_all("a", document)
    for row in document["configurations"]:
        figure = row["figures"]["tokens_per_second"]
        equal((figure["n"], figure["low"], figure["low_reason"]), (1, None, "n = 1"))
    text = pathlib.Path("a/batch_summary.md").read_text(encoding="utf-8")
    check("(untested)" in text and not re.search(r"\d ± \d", text), text)
    check("n = 1" in pathlib.Path("a/visualization/scaling_batch_size.svg").read_text("utf-8"))


@test
def experiments_again_are_figures():
    """Runs that differ in their seed and name alone."""
    for i, rate in enumerate((100, 104, 102, 110)):
        experiment(f"a/run{i}", {"seed": i, "experiment_name": f"run{i}", "gpus": [str(i)]},
                   [figures(rate, 1), figures(rate + 1, 1)])
    experiment("a/run9", {"seed": 9}, None, "failed", "no")
    document = summary("a")
    equal(document["parameters"], [])
    row, = document["configurations"]
    equal((row["n_of"], row["successful"], len(row["experiments"])), ("experiments", 4, 5))
    check_all("a", document)


@test
def model_is_named_once():
    for i, name in enumerate(("one", "two")):
        experiment(f"a/{i}", {"model": f"m/{name}", "model_path": f"m/{name}", "model_name": name},
                   [figures(10 + i, 1)])
    equal(summary("a")["parameters"], ["model_name"])
    experiment("a/2", {"model": "n/two", "model_path": "n/two", "model_name": "two"},
               [figures(30, 1)])
    document = summary("a")
    equal(len(document["configurations"]), 3, "two models of one name are two")


@test
def hardware_is_told():
    gpus = {"schema": "moescope/gpus/1", "gpus": [{"name": "H200"}] * 2 + [{"name": "L4|"}]}
    for i in range(2):
        experiment(f"a/{i}", {"batch_size": i + 1}, [figures(10, 1)])
    equal(summary("a")["hardware_reason"], "no experiment names a GPU")
    pathlib.Path("a/0/gpu_info.json").write_text(json.dumps(gpus), encoding="utf-8")
    equal(summary("a")["hardware_reason"], "some experiments do not say")
    pathlib.Path("a/1/gpu_info.json").write_text(json.dumps(gpus), encoding="utf-8")
    equal(summary("a")["hardware"], "2 x H200, 1 x L4|")
    check("Hardware: 2 x H200, 1 x L4\\|." in
          pathlib.Path("a/batch_summary.md").read_text(encoding="utf-8"))
    pathlib.Path("a/1/gpu_info.json").write_text('{"gpus": [{"name": "B200"}]}', encoding="utf-8")
    document = summary("a")
    equal(document["hardware_reason"], "not the same in all experiments")
    equal([e["hardware"] for e in document["experiments"]], ["2 x H200, 1 x L4|", "1 x B200"])
    pathlib.Path("a/1/gpu_info.json").write_text("{broken", encoding="utf-8")
    equal(summary("a")["successful"], 2)


@test
def cost_needs_a_price():
    experiment("a/0", {"price_per_hour": 36}, [figures(1000, 1)])
    experiment("a/1", {"price_per_hour": 36, "task": "training"}, [figures(1000, 1)])
    experiment("a/2", {"price_per_hour": 0}, [figures(1000, 1)])
    rows = [e["metrics"] for e in summary("a")["experiments"]]
    close(rows[0]["cost_per_million_output_tokens"], 10)
    for row, why in ((rows[1], "training"), (rows[2], "price_per_hour")):
        equal(row["cost_per_million_output_tokens"], None)
        check(why in row["cost_per_million_output_tokens_reason"], row)


@test
def unreadable_ones_are_named_and_counted():
    grid("a", batches=(1, 2, 4), parallel=(1,), repeats=3)
    clean = summary("a")
    good = json.loads(pathlib.Path("a/points/000-b1-t100-p1/summary.json").read_text("utf-8"))
    bad = {"cut": json.dumps(good)[:-20], "empty": "", "list": "[]", "schema": json.dumps(
               {**good, "schema": "moescope/experiment/2"}), "foreign": '{"hello": 1}',
           "status": json.dumps({**good, "status": "splendid"}), "binary": "\x00\x01\x02",
           "config": json.dumps({**good, "config": 3}), "deep": "[" * 100000}
    for name, text in bad.items():
        os.makedirs(f"a/points/{name}")
        pathlib.Path(f"a/points/{name}/summary.json").write_text(text, encoding="utf-8")
    os.makedirs("a/points/nothing")
    os.makedirs("a/points/pipe")
    os.mkfifo("a/points/pipe/summary.json")
    os.makedirs("a/points/folder/summary.json")
    os.symlink("nowhere", "a/points/dangling")
    document = summary("a")
    names = {*bad, "nothing", "pipe", "folder"}
    equal({e["name"] for e in document["experiments"] if e["status"] == "unreadable"}, names)
    equal((document["unreadable"], document["total_experiments"]), (len(names), 3 + len(names)))
    for e in document["experiments"]:
        check(e["status"] == "success" or len(e["error"]) > 10, e)
    equal(document["configurations"], clean["configurations"], "the others stay as they were")
    check("'splendid'" in next(e["error"] for e in document["experiments"]
                               if e["name"] == "status"))


@test
def odd_figures_are_left_out():
    """Types, signs and sizes that make no sense; the rest of the experiment counts."""
    for i, rate in enumerate((-5, "fast", None, True, [1])):
        experiment(f"a/{i}", {"batch_size": i + 1}, [figures(10, 2)])
        path = pathlib.Path(f"a/{i}/summary.json")
        document = json.loads(path.read_text(encoding="utf-8"))
        document["metrics"]["tokens_per_second"] = rate
        document["metrics"]["repeats"] = {"not": "a list"}
        path.write_text(json.dumps(document), encoding="utf-8")
    text = pathlib.Path("a/0/summary.json").read_text(encoding="utf-8")
    os.makedirs("a/huge")
    pathlib.Path("a/huge/summary.json").write_text(
        text.replace('"tokens_per_second": -5', '"tokens_per_second": 1e999'), encoding="utf-8")
    os.makedirs("a/tiny")
    pathlib.Path("a/tiny/summary.json").write_text(
        text.replace('"tokens_per_second": -5', '"tokens_per_second": 1e-320').replace(
            '"price_per_hour": 0', '"price_per_hour": 1e300').replace(
            '"batch_size": 1', '"batch_size": 77'), encoding="utf-8")
    document = summary("a")
    for e in document["experiments"]:
        check(e["name"] == "tiny" or e["metrics"]["tokens_per_second"] is None, e)
        equal(e["metrics"]["inference_time"], 2)
        for key, got in e["metrics"].items():
            check(got is not None or e["metrics"].get(key + "_reason"), key, e)
    svg = pathlib.Path("a/visualization/scaling_batch_size.svg").read_text(encoding="utf-8")
    check("nan" not in svg and "inf\"" not in svg)


@test
def hostile_names_stay_texts():
    experiment("a/x\x1b[31m<b>|`", {"../../evil/p\x07": 1, "prompt": "=cmd()|<script>\n![x](y)"},
               [figures(5, 1, tpot=(1, 2))])
    experiment("a/y", {"../../evil/p\x07": 2, "prompt": "\x1b]0;title\x07"},
               [figures(6, 1, tpot=(2, 2))])
    r = moescope("summary", "a", "--width", "200")
    equal(r.status, 0, r)
    check("\x1b" not in r.out and "\x07" not in r.out, r)
    equal(sorted({p.name for p in pathlib.Path("a").rglob("*evil*")}),
          [f"{kind}_.._.._evil_p_.{form}".replace("..", "__") for kind in ("scaling",)
           for form in ("png", "svg")])
    equal(os.listdir("."), ["a"])
    text = pathlib.Path("a/batch_summary.md").read_text(encoding="utf-8")
    check("<" not in text.replace("&lt;", ""), text)
    check(not any(unicodedata.category(c) == "Cc" and c != "\n" for c in text), "control")
    check("![x]" not in text, text)
    with open("a/batch_summary.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    check(all(not cell.startswith("=") for row in rows for cell in row.values()), rows)


@test
def csv_has_what_json_has():
    grid("a", batches=(1, 2), parallel=(1, 2), failed={(2, 100, 2)}, price_per_hour=1)
    document = summary("a")
    with open("a/batch_summary.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    equal([r["name"] for r in rows], [e["name"] for e in document["experiments"]])
    for row, e in zip(rows, document["experiments"]):
        equal((row["status"], row["error"]), (e["status"], e.get("error", "")))
        for key, wanted in e["parameters"].items():
            equal(float(row[key]), wanted)
        for key in METRICS:
            wanted = e["metrics"][key] if "metrics" in e else None
            equal(float(row[key]) if row[key] else None, wanted, key)


@test
def tables_of_markdown_are_whole():
    grid("a", failed={(4, 100, 2)}, price_per_hour=2)
    summary("a")
    text = pathlib.Path("a/batch_summary.md").read_text(encoding="utf-8")
    tables = re.findall(r"(?:^\|.*\n)+", text, re.M)
    check(len(tables) >= 7, tables)
    for table in tables:
        widths = {len(re.sub(r"\\\|", "", line).split("|")) for line in table.splitlines()}
        equal(len(widths), 1, table)
    for link in re.findall(r"\]\((.*?)\)", text):
        check(os.path.exists(os.path.join("a", link)), link)
    check("price_per_hour / 3600 / tokens_per_second" in text and "first chunk - sent" in text)


@test
def plots_are_there_in_both_forms():
    grid("a", batches=(1, 2, 4), tokens=(50, 100), parallel=(1, 2), failed={(4, 50, 1)})
    summary("a")
    names = {f"{kind}_{parameter}" for kind, parameter in itertools.product(
        ("scaling", "efficiency"), ("batch_size", "tensor_parallel_size"))}
    names |= {"scaling_max_tokens", "pareto"}
    equal({p.name for p in pathlib.Path("a/visualization").iterdir()},
          {f"{name}.{form}" for name in names for form in ("png", "svg")})
    for name in names:
        check(pathlib.Path(f"a/visualization/{name}.png").read_bytes().startswith(b"\x89PNG\r\n"))
    svg = pathlib.Path("a/visualization/scaling_batch_size.svg").read_text(encoding="utf-8")
    for word in (">tokens/s<", ">TPOT p50 (ms)<", ">no figure<", "batch_size",
                 ">max_tokens 50, tensor_parallel_size 1<", ">mean and its 95% interval, n = 5<"):
        check(word in svg, word)
    svg = pathlib.Path("a/visualization/pareto.svg").read_text(encoding="utf-8")
    check(">Pareto front<" in svg and "50 / 4 / 2<" in svg, svg)


@test
def more_lines_than_colours():
    """Small multiples; what has no room there is said."""
    grid("a", batches=(1, 2), tokens=(1, 2, 3, 4), parallel=(1, 2, 4, 8), repeats=1)
    summary("a")
    svg = pathlib.Path("a/visualization/scaling_batch_size.svg").read_text(encoding="utf-8")
    equal(svg.count(">tensor_parallel_size 8<"), 2, "a panel of throughput and one of latency")
    check("left out" not in svg)
    grid("b", batches=(1, 2), tokens=range(1, 13), parallel=(1,), repeats=1)
    summary("b")
    svg = pathlib.Path("b/visualization/scaling_batch_size.svg").read_text(encoding="utf-8")
    check("4 lines are left out" in svg)


@test
def table_fits_the_terminal():
    grid("a", tokens=(100, 200), price_per_hour=3, failed={(4, 200, 2)})
    for width in (80, 100, 140, 200):
        r = moescope("summary", "a", "--width", width)
        lines = r.out.split("\n\n")[1].splitlines()
        check(max(map(len, lines)) <= width, width, lines[:2])
        check("tokens/s" in lines[0], lines[0])
        equal(len(lines), 1 + 30)


@test
def files_go_where_they_are_told():
    grid("a", batches=(1, 2), parallel=(1,))
    before = sorted(os.listdir("a"))
    r = moescope("summary", "a", "-o", "out")
    equal(r.status, 0, r)
    equal(sorted(os.listdir("a")), before)
    equal(sorted(os.listdir("out")),
          ["batch_summary.csv", "batch_summary.json", "batch_summary.md", "visualization"])
    pathlib.Path("file").write_text("", encoding="utf-8")
    one_sentence(moescope("summary", "a", "-o", "file"), 1, "file")


@test
def other_folders_are_not_experiments():
    experiment("a/one", {}, [figures(10, 1)])
    os.makedirs("a/notes")
    os.makedirs("a/unfinished")
    pathlib.Path("a/unfinished/config.yaml").write_text("engine: builtin\n", encoding="utf-8")
    document = summary("a")
    equal([(e["name"], e["status"]) for e in document["experiments"]],
          [("one", "success"), ("unfinished", "unreadable")])
    document = summary("a")
    equal(document["total_experiments"], 2, "its own files are not experiments")


def percentile(values, share):
    """Linear between order statistics."""
    values = sorted(values)
    at = (len(values) - 1) * share
    low = math.floor(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (at - low)


@test
def real_experiments_counted_again():
    """What bench measures of the embedded model, from the times of its tokens to the comparison."""
    need(TINYMOE)
    for batch, repeats in ((1, 4), (3, 4), (2, 1)):
        r = moescope("bench", "--batch-size", batch, "--max-tokens", 6, "--repeats", repeats,
                     "--threads", 1, "--output-dir", "r", "--experiment-name", f"b{batch}")
        equal(r.status, 0, r)
    r = moescope("bench", "--engine", "command", "--command", "echo no >&2; exit 3",
                 "--output-dir", "r", "--experiment-name", "bad")
    equal(r.status, 1, r)
    document = summary("r")
    equal((document["successful"], document["failed"], document["unreadable"]), (3, 1, 0))
    rows = {c["experiments"][0]: c for c in document["configurations"]}
    equal(rows["bad"]["successful"], 0)
    for batch, repeats in ((1, 4), (3, 4), (2, 1)):
        with open(f"r/b{batch}/requests.jsonl", encoding="utf-8") as file:
            requests = [json.loads(line) for line in file]
        requests = [q for q in requests if q.get("warmup") is False]
        equal(len(requests), batch * repeats)
        parts = [requests[i:i + batch] for i in range(0, len(requests), batch)]
        times = [(max(q["end_ns"] for q in part) - min(q["sent_ns"] for q in part)) / 1e9
                 for part in parts]
        tokens = [sum(q["output_tokens"] for q in part) for part in parts]
        latencies = {
            "ttft": lambda q: q["pieces_ns"][0] - q["sent_ns"],
            "tpot": lambda q: (q["pieces_ns"][-1] - q["pieces_ns"][0]) / (q["output_tokens"] - 1),
            "e2el": lambda q: q["pieces_ns"][-1] - q["sent_ns"]}
        wanted = {"inference_time": times,
                  "tokens_per_second": [n / t for n, t in zip(tokens, times)]}
        for name, of in latencies.items():
            for share in (50, 99):
                wanted[f"{name}_p{share}_ms"] = [percentile(map(of, part), share / 100) / 1e6
                                                 for part in parts]
        got = rows[f"b{batch}"]["figures"]
        for metric, x in wanted.items():
            equal(got[metric]["n"], repeats, metric)
            close(got[metric]["mean"], statistics.mean(x), batch, metric)
            if repeats >= 3:
                half = T[repeats] * statistics.stdev(x) / math.sqrt(repeats)
                close(got[metric]["high"], statistics.mean(x) + half, batch, metric, by=1e-6)


@test
def nothing_to_compare():
    os.makedirs("a/b")
    one_sentence(moescope("summary", "a"), 1, "no experiments", "moescope bench")
    one_sentence(moescope("summary", "nowhere"), 1, "nowhere")
    equal(moescope("summary").status, 2)


if __name__ == "__main__":
    main()
