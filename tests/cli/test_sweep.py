#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""moescope sweep with real points: kills, resumes, failures, signals."""

import collections
import glob
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import json_schema
from cli import MOESCOPE, check, environment, equal, main, moescope, one_sentence, test

SCHEMA = pathlib.Path(__file__).resolve().parents[2] / "docs/schema/moescope.schema.json"
# A model that answers in a blink.
TINY = "--layers 2 --width 16 --heads 2 --experts 4 --top-k 2 --expert-width 16 --context 32 " \
       "--threads 1"
GRID = "batch_size:1,2,3,4;max_tokens:200,300,400,500;seed:1,2,3"


def lines(path):
    """The whole lines of a journal, as objects."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in text.split("\n")[:-1]]


def wait_until(condition, what, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        check(time.monotonic() < end, f"waited in vain for {what}")
        time.sleep(0.005)


def start(*args):
    return subprocess.Popen([MOESCOPE, "sweep", *args], env=environment(), text=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE,
                            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))


def ends(directory):
    """How often each point has ended, by the journal."""
    return collections.Counter(line["point"] for line in lines(f"{directory}/journal.jsonl")
                               if line.get("event") == "end")


def summary(folder):
    with open(os.path.join(folder, "summary.json"), encoding="utf-8") as file:
        return json.load(file)


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def lives(pid):
    try:
        return read(f"/proc/{pid}/stat").rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def results(directory):
    """What does not depend on the clock: by the point's name."""
    found = {}
    for folder in sorted(glob.glob(f"{directory}/points/*/")):
        one = summary(folder)
        config = {k: v for k, v in one["config"].items() if k not in ("output_dir", "launcher",
                                                                       "launcher_args")}
        found[os.path.basename(folder[:-1])] = (
            one["status"], config, one["metrics"]["output_tokens"], one["metrics"]["requests"],
            read(folder + "generated_output.txt"))
    return found


@test
def killed_five_times_every_point_once():
    r = moescope("sweep", "--parameter-sweep", GRID, "--server-args", TINY, "--experiment-name",
                 "calm")
    equal(r.status, 0, r)
    wanted = results("results/calm")
    equal(len(wanted), 48)
    check(all(one[0] == "success" for one in wanted.values()))
    check(len({one[4] for one in wanted.values()}) > 10, "the texts do not differ")

    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    journal = "results/cut/journal.jsonl"
    process = start("--parameter-sweep", GRID, "--server-args", TINY, "--experiment-name", "cut")
    for kill in range(5):
        # Somewhere in the next points, at any place of one.
        target = len(lines(journal)) + chance.randrange(2, 14)
        wait_until(lambda: len(lines(journal)) >= target or process.poll() is not None,
                   "the journal to grow")
        check(process.poll() is None, f"ended before kill {kill + 1}, seed {seed}")
        wait_until(lambda end=time.monotonic() + chance.random() * 0.1: time.monotonic() > end,
                   "a moment")
        process.kill()
        process.communicate()
        process = start("--resume", "results/cut")
    out, err = process.communicate(timeout=300)
    equal(process.returncode, 0, f"seed {seed}", out, err)
    equal(ends("results/cut"), {n: 1 for n in range(1, 49)}, f"seed {seed}")
    equal(results("results/cut"), wanted, f"seed {seed}")
    for folder in glob.glob("results/cut/set-aside/*/summary.json"):
        check(summary(os.path.dirname(folder))["status"] != "success",
              f"{folder} was done and is done again; seed {seed}")
    again = moescope("sweep", "--resume", "results/cut")
    equal(again.status, 0, again)
    equal(sum(ends("results/cut").values()), 48)


@test
def failures_do_not_end_a_sweep():
    with open("work.sh", "w", encoding="utf-8") as file:
        file.write("echo point $1 begins\n"
                   "case $1 in\n"
                   "1) kill -SEGV $$;;\n"
                   "2) sleep 1000;;\n"
                   "3) ulimit -v 200000; exec python3 -c 'bytearray(1 << 30)';;\n"
                   "4) kill -KILL $$;;\n"
                   "5) exit 7;;\n"
                   "6) kill -KILL $PPID; sleep 1000;;\n"
                   "esac\n")
    r = moescope("sweep", "--engine", "command", "--command", "sh work.sh {steps}",
                 "--time-limit-s", "10", "--parameter-sweep", "steps:1,2,3,4,5,6,7",
                 "--experiment-name", "bad")
    equal(r.status, 1, r)
    wanted = {1: ("failed", "signal 11"), 2: ("timeout", "10 s"), 3: ("failed", "MemoryError"),
              4: ("failed", "killed"), 5: ("failed", "status 7"), 6: ("failed", "killed"),
              7: ("success", None)}
    for n, (status, words) in wanted.items():
        folder = f"results/bad/points/00{n}-steps={n}"
        one = summary(folder)
        equal(one["status"], status, one["error"])
        if words:
            check(words in one["error"], one["error"])
        check(f"point {n} begins" in read(f"{folder}/experiment.log"), folder)
        equal(one["config"]["steps"], n)
    check("6 of 7 points failed" in r.err, r)
    check("--resume" in r.err and "--retry-failed" in r.err, r)
    check("results/bad/points/005-steps=5/experiment.log" in r.out, r)
    with open("results/bad/batch_summary.json", encoding="utf-8") as file:
        batch = json.load(file)
    equal((batch["total_experiments"], batch["successful"]), (7, 1))

    with open("work.sh", "w", encoding="utf-8") as file:
        file.write("exit 0\n")
    r = moescope("sweep", "--resume", "results/bad")
    equal(r.status, 1, r)
    equal(sum(ends("results/bad").values()), 7)
    r = moescope("sweep", "--resume", "results/bad", "--retry-failed", "--list")
    equal(r.status, 0, r)
    equal([row.split()[-1] for row in r.out.splitlines()],
          ["state", "failed", "timeout", "failed", "failed", "failed", "failed", "success"])
    r = moescope("sweep", "--resume", "results/bad", "--retry-failed")
    equal(r.status, 0, r)
    equal(ends("results/bad"), {1: 2, 2: 2, 3: 2, 4: 2, 5: 2, 6: 2, 7: 1})
    equal(len(os.listdir("results/bad/set-aside")), 6)
    with open(SCHEMA, encoding="utf-8") as file:
        defs = json.load(file)["$defs"]
    for number, line in enumerate(lines("results/bad/journal.jsonl")):
        what = defs["sweep_event" if number else "document_sweep"]
        equal(list(json_schema.errors(what, line, defs)), [], line)


@test
def missing_model_fails_its_points_alone():
    r = moescope("sweep", "--parameter-sweep", "model:tinymoe,/nonexistent/model.bin;max_tokens:2",
                 "--server-args", TINY, "--experiment-name", "models")
    equal(r.status, 1, r)
    points = sorted(glob.glob("results/models/points/*"))
    equal([summary(p)["status"] for p in points], ["success", "failed"])
    check("/nonexistent/model.bin" in summary(points[1])["error"])
    equal([summary(p)["model"] for p in points], ["tinymoe", "model.bin"])


@test
def interrupted_sweep_goes_on():
    with open("work.sh", "w", encoding="utf-8") as file:
        file.write("if [ $1 = 2 ] && ! [ -e once ]; then : >once; echo $$ >pid; exec sleep 1000; "
                   "fi\n")
    process = start("--engine", "command", "--command", "sh work.sh {steps}", "--parameter-sweep",
                    "steps:1,2,3", "--experiment-name", "int")
    try:
        wait_until(lambda: os.path.exists("pid") and read("pid").strip(), "point 2")
        one_sentence(moescope("sweep", "--resume", "results/int"), 1, "another process is working on")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    equal(process.returncode, 130, out, err)
    check("1 of 3 points done" in err and "moescope sweep --resume " in err, err)
    wait_until(lambda: not lives(int(read("pid"))), "the end of the point's program")
    r = moescope("sweep", "--resume", err.split("--resume ")[1].strip())
    equal(r.status, 0, r)
    equal(ends("results/int"), {1: 1, 2: 1, 3: 1})
    equal(len(os.listdir("results/int/set-aside")), 1)


@test
def resume_works_from_another_folder():
    with open("work.sh", "w", encoding="utf-8") as file:
        file.write("[ -e ok ]\n")
    r = moescope("sweep", "--engine", "command", "--command", "sh work.sh", "--parameter-sweep",
                 "steps:1,2", "--experiment-name", "here")
    equal(r.status, 1, r)
    with open("ok", "w", encoding="utf-8"):
        pass
    os.mkdir("elsewhere")
    r = moescope("sweep", "--resume", "../results/here", "--retry-failed", cwd="elsewhere")
    equal(r.status, 0, r)


@test
def list_shows_points_and_runs_nothing():
    r = moescope("sweep", "--preset", "scaling", "--engine", "command", "--command", "false",
                 "--list")
    equal(r.status, 0, r)
    rows = r.out.splitlines()
    equal(len(rows), 16, r)
    check(rows[15].split()[:6] == ["15", "batch_size", "16,", "tensor_parallel_size", "4", "4"],
          rows[15])
    check(not os.path.exists("results"), os.listdir("."))


@test
def json_alone_on_standard_output():
    done = moescope("sweep", "--command", "test {batch_size} = 1", "--engine", "command", "--json",
                    "--parameter-sweep", "batch_size:1,2", "--experiment-name", "s")
    equal(done.status, 1, done)
    document = json.loads(done.out)
    defs = json.loads(SCHEMA.read_text(encoding="utf-8"))["$defs"]
    equal(list(json_schema.errors(defs["document_batch"], document, defs)), [])
    equal([(e["name"], e["status"]) for e in document["experiments"]],
          [("001-batch_size=1", "success"), ("002-batch_size=2", "failed")])
    equal(done.out, read("results/s/batch_summary.json"))
    place = os.path.abspath("results/s")
    for words in (f"2 points into {place}\n", "[1/2] batch_size 1: success", "[2/2] batch_size 2: failed",
                  f"1 of 2 points succeeded. Results: {place}\n", "log of point 2, failed: "):
        check(words in done.err, (words, done.err))
    again = moescope("sweep", "--resume", "results/s", "--json")
    equal(json.loads(again.out)["experiments"], document["experiments"])
    done = moescope("sweep", "--list", "--json", "--preset", "quick")
    one_sentence(done, 2)
    equal(done.out, "")


@test
def values_of_a_sweep_may_be_what_the_rest_needs():
    r = moescope("sweep", "--engine", "openai", "--url", "http://127.0.0.1:1", "--arrival",
                 "poisson", "--parameter-sweep", "request_rate:1,2", "--list")
    if "no engine 'openai'" in r.err:
        r = moescope("sweep", "--arrival", "poisson", "--parameter-sweep", "request_rate:1,2",
                     "--list")
    equal(r.status, 0, r)
    equal(len(r.out.splitlines()), 3, r)


@test
def mistakes_are_found_before_anything_starts():
    for args, words in (
            ([], "--preset quick"),
            (["--parameter-sweep", "batchsize:1"], "did you mean 'batch_size'?"),
            (["--parameter-sweep", "batch_size:1,x"], "batch_size"),
            (["--parameter-sweep", "batch_size:1,1"], "twice"),
            (["--preset", "quik"], "quick"),
            (["--preset", "quick", "--launcher", "slrm"], "slurm"),
            (["--preset", "quick", "--api-key", "secret"], "$OPENAI_API_KEY"),
            (["--retry-failed"], "--resume"),
            (["--resume", "x", "--batch-size", "2"], "omit --batch-size")):
        one_sentence(moescope("sweep", *args), 2, words)
    one_sentence(moescope("sweep", "--resume", "nowhere"), 1, "nowhere", "sweep.yaml")
    check(not os.path.exists("results"), os.listdir("."))
    r = moescope("sweep", "--preset", "quick", "--launcher", "slurm",
                 env=environment(PATH="/nonexistent"))
    one_sentence(r, 1, "needs 'sbatch'", "apt-get install slurm-client")
    check(not os.path.exists("results"), os.listdir("."))


if __name__ == "__main__":
    sys.exit(main())
