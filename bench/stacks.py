#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""moescope stacks beside other profilers of Python programs, which it installs (bench/peers/stacks.txt).

    bench/stacks.py shares [--tool build/moescope] [--python PYTHON] [--seconds N]
    bench/stacks.py cost [--tool build/moescope] [--python PYTHON] [--seconds N] [--rounds N]

shares: one program whose functions have known shares of its time, sampled by moescope and py-spy at once, against
each other and against the program's own clock. 'chance' is what two samples of this size differ by in one of
twenty comparisons of the function with the most noise.
cost: work done by a program of 32 threads, one of them busy, in turns bare and under each profiler, and the
processor time and rate of moescope's sampler.
"""

import argparse
import collections
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
RATE = 100
# Percent of the time; no two of the ten largest are closer than the noise of a minute's samples.
WEIGHTS = (20, 16, 13, 11, 9, 8, 7, 6, 4.5, 3.5, 1, 1)
THREADS, DEPTH = 32, 20

SHARES = """import json, sys, time
took = {{}}
{functions}
def step():
    for name, function in FUNCTIONS:
        start = time.thread_time_ns()
        function()
        took[name] = took.get(name, 0) + time.thread_time_ns() - start
def deeper(n):
    step() if n == 0 else deeper(n - 1)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    deeper(8)
json.dump(took, open(sys.argv[2], "w"))
"""
FUNCTION = """def part_{i}():
    total = 0
    for i in range({loops}):
        total += i
    return total
"""
COST = f"""import sys, threading, time
never = threading.Event()
def wait(n):
    wait(n - 1) if n else never.wait()
for _ in range({THREADS - 1}):
    threading.Thread(target=wait, args=({DEPTH},), daemon=True).start()
def work(n):
    return sum(i * i for i in range(n)) if n < 2000 else work(n - 1000) + work(1000)
end, done = time.monotonic() + float(sys.argv[1]), 0
while time.monotonic() < end:
    work(5000)
    done += 1
print(done)
"""


def moescope_run(options, run, program, *words):
    return subprocess.Popen([options.tool, "run", "-q", "-f", "-o", run, "--stacks", "--stacks-rate", str(RATE),
                             "--no-auto", "--no-host", "--", options.python, program, *words],
                            stdout=subprocess.PIPE, text=True)


def by_moescope(options, run):
    """Percent of the processor time by function, and the number of looks."""
    rows = json.loads(subprocess.run([options.tool, "stacks", run, "--json", "--limit", "0"], check=True,
                                     stdout=subprocess.PIPE).stdout)["rows"]
    # Native functions that a part calls are its own time here.
    cpu = {row["name"].split(" ")[0]: row["total_cpu_ns"] for row in rows}
    looks = sum(row["samples"] for row in rows if row["cpu_ns"])
    return cpu, looks


def by_py_spy(path):
    counts = collections.Counter()
    for line in path.read_text(encoding="utf-8").splitlines():
        stack, _, count = line.rpartition(" ")
        counts[re.sub(r" .*", "", stack.split(";")[-1])] += int(count)
    return dict(counts), sum(counts.values())


def shares_of(parts):
    """Percent, of the functions that the program has timed."""
    parts = {name: value for name, value in parts.items() if name.startswith("part_")}
    whole = sum(parts.values())
    return {name: 100 * value / whole for name, value in parts.items()}


def compare(name, one, other, n_one, n_other):
    largest = [sorted(shares, key=shares.get, reverse=True)[:10] for shares in (one, other)]
    apart = max(abs(one.get(part, 0) - other.get(part, 0)) for part in set(largest[0] + largest[1]))
    spread = max(share / 100 * (1 - share / 100) for share in other.values())
    chance = 196 * math.sqrt(spread * ((1 / n_one) + (1 / n_other if n_other else 0)))
    print(f"{name}: {len(set(largest[0]) & set(largest[1]))} of the ten largest in common, in the same order: "
          f"{'yes' if largest[0] == largest[1] else 'no'}, at most {apart:.2f} points apart (chance {chance:.2f})")


def child_of(pid):
    """The program, once moescope has started it and it runs Python."""
    while True:
        found = subprocess.run(["pgrep", "-P", str(pid)], check=False, text=True, stdout=subprocess.PIPE).stdout.split()
        if found and "python" in os.readlink(f"/proc/{found[0]}/exe"):
            return found[0]
        time.sleep(0.05)


def shares(options, peer):
    functions = "".join(FUNCTION.format(i=i, loops=int(1000 * weight)) for i, weight in enumerate(WEIGHTS))
    functions += "FUNCTIONS = [" + ", ".join(f'("part_{i}", part_{i})' for i in range(len(WEIGHTS))) + "]\n"
    pathlib.Path("shares.py").write_text(SHARES.format(functions=functions), encoding="utf-8")
    recorded = moescope_run(options, "shares.mscope", "shares.py", str(options.seconds), "took.json")
    program = child_of(recorded.pid)
    # It ends before the program does: else it looks for Python in what is no process any more.
    subprocess.run([os.path.join(os.path.dirname(peer), "py-spy"), "record", "-f", "raw", "-r", str(RATE), "-d",
                    str(options.seconds - 5), "-o", "py-spy.txt", "--pid", program], check=True,
                   stdout=subprocess.DEVNULL)
    recorded.wait()
    ours, n_ours = by_moescope(options, "shares.mscope")
    theirs, n_theirs = by_py_spy(pathlib.Path("py-spy.txt"))
    with open("took.json", encoding="utf-8") as file:
        own = shares_of(json.load(file))
    ours, theirs = shares_of(ours), shares_of(theirs)
    print(f"{'function':10} {'own clock':>9} {'moescope':>9} {'py-spy':>9}")
    for part in sorted(own, key=own.get, reverse=True):
        print(f"{part:10} {own[part]:9.2f} {ours.get(part, 0):9.2f} {theirs.get(part, 0):9.2f}")
    compare(f"moescope ({n_ours} looks) and py-spy ({n_theirs})", ours, theirs, n_ours, n_theirs)
    compare("moescope and the program's clock", ours, own, n_ours, 0)
    compare("py-spy and the program's clock", theirs, own, n_theirs, 0)


def sampler_of(pid):
    """Processor time of the busiest thread that moescope has started, which samples."""
    spent = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="utf-8") as file:
            if int(thread) != pid:
                spent.append(int(file.read().split()[0]))
    return max(spent)


def cost(options, peer):
    pathlib.Path("cost.py").write_text(COST, encoding="utf-8")
    seconds, own = str(options.seconds), os.path.join(os.path.dirname(peer), "py-spy")
    program = [options.python, "cost.py", seconds]
    ways = {"bare": program,
            "py-spy": [own, "record", "-f", "raw", "-r", str(RATE), "-o", "cost.txt", "--", *program],
            "memray": [peer, "-m", "memray", "run", "-q", "-f", "-o", "cost.bin", "cost.py", seconds]}
    done, took = collections.defaultdict(list), []
    for _ in range(options.rounds):
        for name, words in ways.items():
            out = subprocess.run(words, check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
            done[name].append(int(re.findall(r"^\d+$", out, re.M)[-1]))
        recorded = moescope_run(options, "cost.mscope", "cost.py", seconds)
        time.sleep(options.seconds * 0.9)
        spent_ns, at = sampler_of(recorded.pid), options.seconds * 0.9
        done["moescope"].append(int(recorded.communicate()[0]))
        samples = subprocess.run([options.tool, "sql", "cost.mscope", "--json",
                                  "select sum(samples) from stack_samples"], check=True, stdout=subprocess.PIPE).stdout
        looks = json.loads(samples)["rows"][0][0] / THREADS / options.seconds
        took.append((looks, spent_ns / at / 1e7))
    for name, values in done.items():
        ratios = [value / bare for value, bare in zip(values, done["bare"])]
        print(f"{name:9} work done {', '.join(f'{v:,}' for v in values)}; of bare in the same round, median "
              f"{100 * statistics.median(ratios):.1f}%")
    for looks, pct in took:
        print(f"moescope: {looks:.1f} looks a second at each of {THREADS} threads, {pct:.2f}% of a processor")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("shares", "cost"))
    parser.add_argument("--tool", default=os.path.join(HERE, "..", "build", "moescope"))
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    options.tool = os.path.abspath(options.tool)
    peer = subprocess.run([os.path.join(HERE, "peers", "env.sh"), "stacks"], check=True, text=True,
                          stdout=subprocess.PIPE).stdout.strip()
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        (shares if options.what == "shares" else cost)(options, peer)


if __name__ == "__main__":
    main()
