# SPDX-License-Identifier: Apache-2.0
"""What the commands print as JSON is what docs/schema and docs/json.md say, key by key."""

import copy
import glob
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from cli import MOESCOPE, Skip, TINY, TINYMOE, check, equal, main, moescope, test
from experiments import grid
from json_schema import errors

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SCHEMA = json.loads((ROOT / "docs/schema/moescope.schema.json").read_text(encoding="utf-8"))
DEFS = SCHEMA["$defs"]
KERNELS_BY = ("name", "class", "range", "layer", "expert", "phase", "step", "stream", "device",
              "graph")
# Null by itself: there is nothing to say, or the reason is that of the figure beside it.
NO_REASON = {"gain_assumption", "fix", "caveats", "error"}


def schema_of(document):
    name, version = document["schema"].split("/")[1:]
    check(f"document_{name}" in DEFS, f"no schema for {document['schema']}")
    equal(DEFS[f"document_{name}"]["properties"]["schema"]["const"], f"moescope/{name}/{version}")
    return {"$ref": f"#/$defs/document_{name}"}


def reasons(value, place=""):
    """Absent values without a reason, and reasons without an absent value."""
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield from reasons(item, f"{place}[{i}]")
    if not isinstance(value, dict):
        return
    for key, item in value.items():
        here = f"{place}.{key}"
        if item is None and key not in NO_REASON and not value.get(f"{key}_reason"):
            yield f"{here} is null without a reason"
        if key.endswith("_reason") and value.get(key.removesuffix("_reason"), 0) is not None:
            yield f"{here} is the reason of nothing"
        yield from reasons(item, here)


def valid(document, what):
    found = list(errors(schema_of(document), document, DEFS)) + list(reasons(document))
    check(not found, what, *found[:5])


def commands():
    """Every document that a run can be asked for."""
    for table in ("report", "top", "ops", "steps", "routing", "memory", "api", "transfers",
                  "comm", "moe", "counters", "efficiency"):
        yield [table]
    yield ["ops", "--by-shape"]
    yield ["ops", "--by-stack"]
    yield from (["kernels", "--by", by] for by in KERNELS_BY)
    yield from (["routing", "--layer", "0"], ["routing", "--columns", "steps"],
                ["routing", "--columns", "experts"])


def one_valid(*words, status=(0,)):
    r = moescope(*words, "--json")
    check(r.status in status, r)
    document = json.loads(r.out)
    valid(document, " ".join(words))
    return document


def all_valid(run):
    for words in commands():
        one_valid(words[0], run, *words[1:])


@test
def documents_of_the_embedded_model():
    r = moescope("run", "-q", "--level", "full", "-o", "a.mscope", "--", TINYMOE, *TINY,
                 "--steps", "20")
    equal(r.status, 0, r)
    all_valid("a.mscope")
    r = moescope("run", "-q", "--level", "counts", "-o", "b.mscope", "--", TINYMOE, *TINY,
                 "--steps", "3")
    equal(r.status, 0, r)
    all_valid("b.mscope")
    for document in json.loads(moescope("report", "a.mscope", "b.mscope", "--json").out):
        valid(document, "several")


@test
def documents_of_a_recorded_gpu():
    shutil.copytree(ROOT / "tests/data/h200-windows", "h.mscope")
    all_valid("h.mscope")
    one_valid("dump", "h.mscope/0-423.mst")


@test
def documents_of_part_of_a_run():
    """Steps that do not exist: nearly every figure is absent, and its key is there."""
    shutil.copytree(ROOT / "tests/data/h200-windows", "h.mscope")
    for words in commands():
        if words[0] not in ("memory", "counters", "top"):  # always the whole run
            one_valid(words[0], "h.mscope", *words[1:], "--steps", "100000:")


@test
def documents_of_a_program_that_says_nothing():
    r = moescope("run", "-q", "-o", "empty.mscope", "--", "true")
    equal(r.status, 0, r)
    all_valid("empty.mscope")


@test
def documents_of_generation():
    # What a model of three steps writes is not always UTF-8.
    r = moescope("run", "-q", "-o", "g.mscope", "--", "sh", "-c", 'exec "$@" >/dev/null', "sh",
                 TINYMOE, *TINY, "--steps", "3", "--generate", "12")
    equal(r.status, 0, r)
    document = one_valid("report", "g.mscope")
    check(document["inference"]["rows"], "no requests")


@test
def documents_of_a_comparison():
    for name in ("a", "b"):
        r = moescope("run", "-q", "-o", f"{name}.mscope", "--", TINYMOE, *TINY, "--steps", "12")
        equal(r.status, 0, r)
    shutil.copytree(ROOT / "tests/data/h200-windows", "h.mscope")
    document = one_valid("compare", "a.mscope", "b.mscope", "--fail-if", "step_time > 1000%",
                         "--fail-if", "ttft > 5%", status=(0, 1))
    equal([c["of"] for c in document["conditions"]], [None, None])
    one_valid("compare", "a.mscope", "h.mscope")
    one_valid("compare", "h.mscope", "h.mscope")


@test
def documents_of_experiments():
    document = one_valid("bench", "--max-tokens", "4", "--profile-mode", "trace",
                         "--experiment-name", "a")
    for name in ("summary", "metrics", "gpu_info"):
        with open(f"results/a/{name}.json", encoding="utf-8") as file:
            valid(json.load(file), name)
    equal(document["metrics"]["output_tokens"], 4)
    one_valid("bench", "--task", "training", "--steps", "2")
    one_valid("bench", "--engine", "command", "--command", "exit 3", status=(1,))
    one_valid("bench", "--engine", "command", "--command", "{batch}", status=(1,))
    one_valid("bench", "--list-parameters")


@test
def documents_of_a_batch():
    grid("a", batches=(1, 2, 4), failed={(2, 100, 2)}, price_per_hour=2)
    os.makedirs("a/points/broken")
    one_valid("summary", "a")
    grid("b", batches=(1, 2), parallel=(1,), failed={(1, 100, 1), (2, 100, 1)})
    one_valid("summary", "b")


@test
def documents_without_a_run():
    one_valid("doctor", status=(0, 1))
    one_valid("explain")
    one_valid("explain", "cv")
    equal(one_valid("explain", "dead-experts")["verdict"]["evidence"], "routing.dead")
    equal(one_valid("explain", "program-failed")["rows"], [])
    for words in ("kernels.time_ns", "kernels", "short_name", "device_state.power_w", "run.status",
                  "loss.salvaged", "verdict.gain_pct"):
        check(one_valid("explain", words)["fields"], words)


@test
def documents_of_hand_built_runs():
    paths = [path for path in sorted(glob.glob(str(ROOT / "tests/golden/*.json")))
             if not os.path.basename(path).startswith(("chrome", "csv-"))]
    check(len(paths) > 10, paths)
    for path in paths:
        with open(path, encoding="utf-8") as file:
            valid(json.load(file), os.path.basename(path))


@test
def what_is_wrong_is_found():
    """The check can fail: an unknown key, a missing one, a wrong type, a null without reason."""
    with open(ROOT / "tests/golden/report-gpu.json", encoding="utf-8") as file:
        good = json.load(file)

    def broken(change):
        document = copy.deepcopy(good)
        change(document)
        found = list(errors(schema_of(good), document, DEFS)) + list(reasons(document))
        check(found, "not found")
        return found[0]

    check("not in the schema" in broken(lambda d: d["kernels"]["rows"][0].update(colour=1)))
    check("missing" in broken(lambda d: d["steps"]["total"].pop("outliers")))
    check("is not integer" in broken(lambda d: d["loss"].update(salvaged="none")))
    check("without a reason" in broken(lambda d: d["memory"]["total"].pop("pools_reason")))
    check("is not 'moescope" in broken(lambda d: d.update(schema="moescope/report/2")))


@test
def every_key_is_described():
    for name, schema in DEFS.items():
        check(schema.get("description"), name)
        for key, value in schema.get("properties", {}).items():
            check(value.get("description"), f"{name}.{key} has no description")
    used = set()

    def walk(value):
        if isinstance(value, dict):
            used.add(value.get("$ref", "").removeprefix("#/$defs/"))
            value = list(value.values())
        if isinstance(value, list):
            for item in value:
                walk(item)

    walk(SCHEMA)
    equal(set(DEFS) - used, set(), "parts of the schema that nothing uses")


@test
def keys_of_the_code_are_in_the_schema():
    """Also those that no run of these tests makes. Those of fields are: the schema is made from them."""
    known = {key for schema in DEFS.values() for key in schema.get("properties", {})}
    known |= {key + "_reason" for key in known}
    written = re.compile(r'\.key = "(\w+)"|json, "(\w+)"|check_number\(check, "(\w+)"')
    seen = 0
    rooms = ("documents", "surfaces/json", "surfaces/plot", "surfaces/sheets", "surfaces/views", "cmd", "lab")
    for path in (path for room in rooms for path in ROOT.glob(f"src/{room}/**/*.c")):
        if path.name.startswith(("csv_", "completion", "dashboard", "schema.")):
            continue  # files with columns of their own, requests to servers, the schema itself
        for found in written.finditer(path.read_text(encoding="utf-8")):
            key = next(filter(None, found.groups()))
            check(key in known, f"{path.name}: '{key}' is not in the schema")
            seen += 1
    check(seen > 200, seen)


@test
def schema_and_page_are_current():
    r = subprocess.run([sys.executable, ROOT / "tools/json_doc.py", "--check", MOESCOPE], check=False,
                       capture_output=True, text=True)
    equal(r.returncode, 0, r.stderr)


@test
def schema_is_a_json_schema():
    """By the reference implementation, where it is installed."""
    try:
        from jsonschema import Draft202012Validator
    except ImportError as error:
        raise Skip("python's jsonschema is not installed") from error
    Draft202012Validator.check_schema(SCHEMA)
    with open(ROOT / "tests/golden/report-gpu.json", encoding="utf-8") as file:
        document = json.load(file)
    equal(list(Draft202012Validator(SCHEMA).iter_errors(document)), [])
    document["colour"] = 1
    check(list(Draft202012Validator(SCHEMA).iter_errors(document)))


if __name__ == "__main__":
    main()
