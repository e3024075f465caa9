#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SIGKILL at random moments: every run opens, and every record of a call that had returned is in
it, once. MOESCOPE_KILLS: how many (20); MOESCOPE_SEED: of the moments."""

import os
import random
import shutil
import signal
import subprocess
import tempfile
import time

from fault import MOESCOPE, PATIENCE_S, VICTIM, check, environment, finish, read, report

KILLS = int(os.environ.get("MOESCOPE_KILLS", "20"))
SEED = int(os.environ.get("MOESCOPE_SEED", "1"))


def parse_told(text):
    """The last number that each thread told of; -1: none. A line that the kill cut is not one."""
    last = [-1] * 4
    when = 0.0
    for line in text.split("\n")[:-1]:
        words = line.split(" ")
        if words[0] != "pid" and len(words) == 3:
            last[int(words[0])] = int(words[1])
            when = max(when, float(words[2]))
    return last, when


def drain(fd):
    """All that is in the pipe until its writers are gone."""
    parts = []
    while True:
        part = os.read(fd, 1 << 16)
        if not part:
            return b"".join(parts).decode()
        parts.append(part)


def kill_one(run, wait_s, under_run):
    """What the victim told before it was killed, when that was, and problems of doing it."""
    told_read, told_write = os.pipe()
    env = environment(VICTIM_FD=told_write)
    command = [VICTIM, "20"]
    if under_run:
        command = [MOESCOPE, "run", "-o", run, "--"] + command
    else:
        os.mkdir(run)
        env["MOESCOPE_RUN"] = run
    process = subprocess.Popen(command, env=env, pass_fds=(told_write,), stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    os.close(told_write)
    first = b""
    while not first.endswith(b"\n"):
        byte = os.read(told_read, 1)
        if not byte:
            return "", 0, [f"did not start: {process.communicate()[1].decode().strip()}"]
        first += byte
    pid = int(first.split()[1])
    # The pipe must not fill up while waiting for the moment: empty it as it comes.
    os.set_blocking(told_read, False)
    early = []
    end = time.monotonic() + wait_s
    while time.monotonic() < end:
        try:
            early.append(os.read(told_read, 1 << 16))
        except BlockingIOError:
            time.sleep(0.0005)
    os.kill(pid, signal.SIGKILL)
    killed_at = time.monotonic()
    os.set_blocking(told_read, True)
    text = b"".join(early).decode() + drain(told_read)
    os.close(told_read)
    stderr = process.communicate(timeout=PATIENCE_S)[1].decode()
    # `run` passes the signal on as its own status.
    expected = (-signal.SIGKILL, 128 + signal.SIGKILL) if under_run else (-signal.SIGKILL,)
    problems = []
    if process.returncode not in expected:
        problems.append(f"status {process.returncode}: {stderr.strip()}")
    return text, killed_at, problems


def judge(run, text):
    last, _ = parse_told(text)
    tables, problems = read(run)
    told, more = report(run)
    problems += more
    if not tables or not told:
        return problems, 0, 0
    loss = tables["loss"]
    if any(told["loss"][k] != loss[k] for k in told["loss"]):
        problems.append(f"the report says {told['loss']}, the tables {loss}")
    if tables["crashed"] != 1:
        problems.append(f"not seen as crashed: {tables}")
    if loss["dropped_ring_full"]:
        # A full buffer is a loss that is stated; what is there must still be there once.
        problems += [f"thread {t}: number twice" for t, n in enumerate(tables["threads"])
                     if n["twice"]]
    else:
        for t, numbers in enumerate(tables["threads"]):
            if numbers["missing"] <= last[t]:
                problems.append(f"thread {t} recorded {last[t]}, but {numbers['missing']} is "
                                f"missing")
            if numbers["n"] != numbers["missing"] or numbers["twice"]:
                problems.append(f"thread {t}: {numbers}")
            if not numbers["n"] <= numbers["ranges"] <= numbers["n"] + 1:
                problems.append(f"thread {t}: {numbers['ranges']} ranges, {numbers['n']} numbers")
    for what in ("corrupt_chunks", "cut_bytes", "bad_references", "unreadable_shards"):
        if loss[what]:
            problems.append(f"{what} {loss[what]}")
    if not loss["unfinished"] and sum(n["n"] for n in tables["threads"]) > 100:
        problems.append("no range or step is stated as cut")
    return problems, sum(n["n"] for n in tables["threads"]), loss["dropped_ring_full"]


def main():
    rng = random.Random(SEED)
    folder = tempfile.mkdtemp(prefix="moescope-kill-")
    totals = {"records": 0, "dropped": 0, "opened": 0, "exact": 0}
    worst_s = 0.0
    problems = []
    try:
        for i in range(KILLS):
            under_run = i % 2 == 0
            run = os.path.join(folder, f"{i}.mscope")
            wait_s = rng.choice((rng.uniform(0, 0.02), rng.uniform(0, 0.3), rng.uniform(0.2, 0.8)))
            text, killed_at, found = kill_one(run, wait_s, under_run)
            if not found:
                found, records, dropped = judge(run, text)
                totals["records"] += records
                totals["dropped"] += dropped
                totals["opened"] += not found
                totals["exact"] += not found and not dropped
                told_at = parse_told(text)[1]
                worst_s = max(worst_s, killed_at - told_at if told_at else 0)
            problems += [f"kill {i} after {wait_s:.3f} s{' under run' if under_run else ''}: {p}"
                         for p in found]
            shutil.rmtree(run, ignore_errors=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    # A machine too slow for the drain shows drops, which are counted; but not every time.
    if totals["exact"] * 2 < KILLS:
        problems.append(f"only {totals['exact']} of {KILLS} runs without a full buffer")
    print(f"{KILLS} kills: {totals['opened']} runs opened as they should, {totals['exact']} of them "
          f"with every single record; {totals['records']} numbers in them, {totals['dropped']} "
          f"records dropped and counted; the last call seen to return did so at most "
          f"{worst_s * 1000:.1f} ms before the kill")
    check(f"kill x{KILLS}", problems)
    finish()


main()
