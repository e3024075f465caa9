#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same sweep locally, under a real Open MPI and under a real Slurm; and what Slurm can do to
it."""

import collections
import glob
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cli"))
# pylint: disable=wrong-import-position
from cli import MOESCOPE, Skip, check, environment, equal, main, moescope, test
import cluster as slurm

TINY = "--layers 2 --width 16 --heads 2 --experts 4 --top-k 2 --expert-width 16 --context 32 " \
       "--threads 1"
MPI_ARGS = "--allow-run-as-root --oversubscribe"
_cluster = []


def cluster():
    """One for all tests of this file."""
    absent = slurm.missing()
    if absent:
        raise Skip(f"{absent} is not installed; 'tools/deps.sh lab' does that")
    if not _cluster:
        _cluster.append(slurm.Cluster())
    return _cluster[0]


def slurm_environment():
    return dict(environment(), SLURM_CONF=cluster().config, PATH=slurm.PATH)


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def journal(directory):
    try:
        return [json.loads(line) for line in read(f"{directory}/journal.jsonl").split("\n")[:-1]]
    except FileNotFoundError:
        return []


def events(directory, event):
    return collections.Counter(line["point"] for line in journal(directory)
                               if line.get("event") == event)


def wait_until(condition, what, process, seconds=90):
    end = time.monotonic() + seconds
    while not condition():
        if process.poll() is not None:
            check(False, f"the sweep ended before {what}", process.communicate())
        check(time.monotonic() < end, f"waited in vain for {what}")
        time.sleep(0.02)


def results(directory):
    """What does not depend on the clock or on the launcher, by point name."""
    found = {}
    for folder in sorted(glob.glob(f"{directory}/points/*/")):
        one = json.loads(read(folder + "summary.json"))
        config = {k: v for k, v in one["config"].items()
                  if k not in ("output_dir", "launcher", "launcher_args", "processes")}
        found[os.path.basename(folder[:-1])] = (
            one["status"], one["error"], config, one["metrics"]["output_tokens"],
            one["metrics"]["requests"], read(folder + "generated_output.txt"))
    return found


def sweep(name, *args, env=None, values="batch_size:1,2;max_tokens:4,8;seed:1,2"):
    r = moescope("sweep", "--parameter-sweep", values, "--server-args", TINY, "--experiment-name",
                 name, *args, env=env, timeout=300)
    equal(r.status, 0, r)
    found = results(f"results/{name}")
    check(f"{len(found)} of {len(found)} points succeeded" in r.out, r)
    return found


@test
def mpirun_gives_the_same_summary():
    if not shutil.which("mpirun"):
        raise Skip("mpirun is not installed; 'tools/deps.sh lab' does that")
    wanted = sweep("here")
    equal(sweep("mpi", "--launcher", "mpirun", "--processes", "2", "--launcher-args", MPI_ARGS),
          wanted)
    # Two processes were there, and each wrote its own file.
    for folder in glob.glob("results/mpi/points/*/"):
        check("mpirun" in read(folder + "command.sh"), folder)
        check(os.path.exists(folder + "requests.jsonl.rank-1"), os.listdir(folder))


@test
def torchrun_gives_the_same_summary():
    """Two processes of PyTorch's launcher, from the environment of the Python tests."""
    made = subprocess.run([str(ROOT / "tools" / "python_env.sh")], stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.STDOUT, cwd=ROOT, check=False)
    equal(made.returncode, 0, made.stdout[-2000:])
    programs = os.path.join(made.stdout.strip().splitlines()[-1], "bin")
    env = environment(PATH=f"{programs}:{os.environ['PATH']}")
    values = "max_tokens:4,8"
    wanted = sweep("here", values=values)
    equal(sweep("torch", "--launcher", "torchrun", "--processes", "2", values=values, env=env),
          wanted)
    for folder in glob.glob("results/torch/points/*/"):
        check(os.path.exists(folder + "requests.jsonl.rank-1"), os.listdir(folder))


@test
def slurm_gives_the_same_summary():
    env = slurm_environment()
    wanted = sweep("here")
    equal(len(wanted), 8)
    equal(sweep("slurm", "--launcher", "slurm", env=env), wanted)
    lines = journal("results/slurm")
    equal(events("results/slurm", "end"), {n: 1 for n in range(1, 9)})
    # One array, not eight jobs.
    equal(len({line["job"] for line in lines if line.get("event") == "submit"}), 1)


@test
def points_with_other_needs_are_other_arrays():
    env = slurm_environment()
    r = moescope("sweep", "--engine", "command", "--command", "echo $SLURM_NTASKS >>tasks",
                 "--parameter-sweep", "nodes:1,2;processes:1,2", "--launcher", "slurm",
                 "--experiment-name", "needs", env=env)
    equal(r.status, 0, r)
    jobs = {line["point"]: line["job"] for line in journal("results/needs")
            if line.get("event") == "submit"}
    equal(len(set(jobs.values())), 4, jobs)
    # Every process of each point: 1 + 2 + 2 + 4.
    equal(collections.Counter(read("tasks").split()), {"1": 1, "2": 4, "4": 4})


def start(*args):
    return subprocess.Popen([MOESCOPE, "sweep", *args], env=slurm_environment(), text=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE,
                            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))


def start_waiting(name, points="1,2,3", args=()):
    """Points that record their node and then wait for the file 'go'."""
    with open("work.sh", "w", encoding="utf-8") as file:
        file.write("echo $SLURMD_NODENAME >>at-$1\n"
                   "while ! [ -e go ]; do sleep 0.1; done\n")
    return start("--engine", "command", "--command", "sh work.sh {steps}", "--parameter-sweep",
                 f"steps:{points}", "--launcher", "slurm", "--experiment-name", name, *args)


def started(*points):
    return all(os.path.exists(f"at-{p}") and read(f"at-{p}").strip() for p in points)


def go():
    with open("go", "w", encoding="utf-8"):
        pass


@test
def interrupt_cancels_the_jobs():
    process = start_waiting("int")
    try:
        wait_until(lambda: started(1, 2, 3), "the tasks", process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=90)
    finally:
        process.kill()
    equal(process.returncode, 130, out, err)
    equal(cluster().live(), [])
    check("moescope sweep --resume " in err, err)
    go()
    r = moescope("sweep", "--resume", "results/int", env=slurm_environment())
    equal(r.status, 0, r)
    equal(events("results/int", "end"), {1: 1, 2: 1, 3: 1})


@test
def killed_sweep_finds_its_tasks_again():
    process = start_waiting("cut", points="1,2,3,4,5,6,7,8")
    try:
        wait_until(lambda: started(1, 2, 3), "the tasks", process)
        wait_until(lambda: len(events("results/cut", "submit")) == 8, "the journal", process)
    finally:
        process.kill()
        process.communicate()
    check(cluster().live(), "the tasks are gone with the sweep")
    # As if it had been killed before it recorded what it had submitted.
    with open("results/cut/journal.jsonl", "r+", encoding="utf-8") as file:
        lines = file.read().splitlines(keepends=True)
        file.seek(0)
        file.truncate()
        file.writelines(lines[:3])
    go()
    r = moescope("sweep", "--resume", "results/cut", env=slurm_environment())
    equal(r.status, 0, r)
    equal(events("results/cut", "end"), {n: 1 for n in range(1, 9)})
    for n in range(1, 9):
        equal(len(read(f"at-{n}").split()), 1, f"point {n} ran again")


@test
def dead_node_is_tried_again_and_named():
    process = start_waiting("dead", args=("--launcher-args", "--exclusive"))
    try:
        wait_until(lambda: started(1, 2, 3), "the tasks", process)
        node = read("at-2").strip()
        check(cluster().kill_node(node) > 0, "nothing ran there")
        wait_until(lambda: events("results/dead", "submit")[2] == 2, "the second try", process)
        go()
        out, err = process.communicate(timeout=90)
    finally:
        process.kill()
        if len(cluster().nodes) < len(slurm.NODES):
            cluster().start_node(node)
            cluster().wait(lambda: len(cluster().idle()) == len(slurm.NODES), "the node")
    equal(process.returncode, 0, out, err)
    equal([(line["point"], line["node"]) for line in journal("results/dead")
           if line.get("event") == "node died"], [(2, node)])
    check(f"node {node} died during point 2" in err, err)
    check(f"Point 2 (steps 2) was run twice: node {node} died" in out, out)
    places = read("at-2").split()
    equal(len(places), 2, places)
    check(places[1] != node, places)
    equal({n: len(read(f"at-{n}").split()) for n in (1, 3)}, {1: 1, 3: 1})
    equal(events("results/dead", "end"), {1: 1, 2: 1, 3: 1})
    name = "results/dead/points/002-steps=2"
    check(any(node in note for note in json.loads(read(f"{name}/summary.json"))["notes"]), name)
    batch = json.loads(read("results/dead/batch_summary.json"))
    equal([e["name"] for e in batch["experiments"]
           if any(f"Node {node} died" in note for note in e.get("notes", []))], ["002-steps=2"])
    check(f"Node {node} died" in read("results/dead/batch_summary.md"))


@test
def failed_task_is_a_failed_point():
    env = slurm_environment()
    with open("work.sh", "w", encoding="utf-8") as file:
        file.write("case $1 in 1) kill -KILL $PPID; sleep 100;; 2) echo words; exit 3;; esac\n")
    r = moescope("sweep", "--engine", "command", "--command", "sh work.sh {steps}",
                 "--parameter-sweep", "steps:1,2,3", "--launcher", "slurm", "--experiment-name",
                 "bad", env=env)
    equal(r.status, 1, r)
    found = {p: json.loads(read(f"results/bad/points/00{p}-steps={p}/summary.json"))
             for p in (1, 2, 3)}
    equal([found[p]["status"] for p in (1, 2, 3)], ["failed", "failed", "success"])
    check("words" in read("results/bad/points/002-steps=2/experiment.log"))
    check("2 of 3 points failed" in r.err, r)


if __name__ == "__main__":
    try:
        main()
    finally:
        for one in _cluster:
            one.stop()
