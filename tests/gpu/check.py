#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The GPU probe on a real device, against torch.profiler: check.py BUILD

Prints 'ok NAME', 'FAIL NAME: why' or 'skip NAME: why', and ends with 'N passed, N failed'.
"""
import collections
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build")
MOESCOPE = os.path.join(BUILD, "moescope")
PROGRAM = [sys.executable, os.path.join(HERE, "program.py")]
STEPS = 20
passed = failed = 0


def check(name, good, why=""):
    global passed, failed
    passed += bool(good)
    failed += not good
    print(f"ok {name}" if good else f"FAIL {name}: {why}", flush=True)


def run(*words, **kwargs):
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          **kwargs)


def table(command, path, *options):
    done = run(MOESCOPE, command, path, "--json", "--limit", "0", *options)
    if done.returncode != 0:
        sys.exit(f"moescope {command}: {done.stderr}")
    return json.loads(done.stdout)


def against_torch(folder):
    """Kernels of the same steps, by name and count, and their total time."""
    path = os.path.join(folder, "r.mscope")
    done = run(MOESCOPE, "run", "-q", "-o", path, "--", *PROGRAM, str(STEPS))
    plain = run(*PROGRAM, str(STEPS))
    check("the program is unharmed", done.returncode == 0 and done.stdout == plain.stdout,
          done.stderr[-500:])
    profile = os.path.join(folder, "torch.json")
    run(*PROGRAM, str(STEPS), profile)
    with open(profile) as f:
        events = [e for e in json.load(f) if not e[0].startswith("Mem")]
    theirs = collections.Counter(name for name, _ in events)
    everything = table("kernels", path)
    ours = {row["name"]: row for row in everything["rows"]}
    setup = {name: ours[name]["count"] - STEPS * (theirs[name] // STEPS)
             for name in theirs if name in ours}
    wrong = [name for name, rest in setup.items()
             if rest != 10 * (theirs[name] // STEPS) and theirs[name] >= STEPS]
    check("the same kernels by name", set(theirs) <= set(ours), set(theirs) - set(ours))
    check("the same counts a step", not wrong, wrong)
    per_step = sum(time for _, time in events) / STEPS * 1e3
    mine = sum(row["time_ns"] / row["count"] * theirs[row["name"]] / STEPS
               for row in everything["rows"] if row["name"] in theirs)
    check("total time a step within 2%", abs(mine / per_step - 1) < 0.02,
          f"{mine:.0f} against {per_step:.0f} ns")
    check("nothing lost", not any(everything["loss"].values()), everything["loss"])
    check("no kernel untimed", everything["total"]["untimed"] == 0)
    ranges = {row["range"]: row["count"] for row in table("kernels", path, "--by", "range")["rows"]
              if "range" in row}
    found = " ".join(str(r) for r in ranges)
    check("kernels belong to NVTX ranges", "forward" in found and "measured" in found, ranges)
    copies = table("transfers", path)["rows"]
    moved = {row["memory"]: row["bytes"] for row in copies if row["kind"] == "HtoD"}
    want = (STEPS + 10) * (16 << 20)
    check("bytes copied from pinned memory", moved.get("pinned", 0) >= want, moved)
    check("bytes copied from pageable memory", moved.get("pageable", 0) >= want, moved)


def killed(folder):
    """What CUPTI had delivered is there after a SIGKILL."""
    path = os.path.join(folder, "k.mscope")
    child = subprocess.Popen([MOESCOPE, "run", "-q", "-o", path, "--", *PROGRAM, "1000000"],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        done = run(MOESCOPE, "kernels", path, "--json", "--limit", "1")
        if done.returncode == 0 and (json.loads(done.stdout)["total"].get("count") or 0) > 20000:
            break
        time.sleep(0.5)
    workers = run("pgrep", "-P", str(child.pid)).stdout.split()
    for pid in workers:
        os.kill(int(pid), signal.SIGKILL)
    status = child.wait()
    check("run ends as the program did", status == -signal.SIGKILL, status)
    check("delivered kernels are kept", table("kernels", path)["total"]["count"] > 20000)


def main():
    if not os.path.exists("/dev/nvidia0"):
        print("skip gpu: no NVIDIA GPU on this machine (/dev/nvidia0 is not there)")
    elif run(sys.executable, "-c", "import torch; torch.zeros(1).cuda()").returncode != 0:
        print("skip gpu: python3 has no PyTorch that reaches the GPU")
    else:
        with tempfile.TemporaryDirectory() as folder:
            against_torch(folder)
            killed(folder)
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
