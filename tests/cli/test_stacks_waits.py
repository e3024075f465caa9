# SPDX-License-Identifier: Apache-2.0
"""What threads wait for, in moescope stacks: against programs that know what they wait for and how long."""

import json
import re
import shutil

from cli import Skip, check, equal, main, moescope, test
from sampled import any_python, has_lock, pythons, record_stacks, stacks, write

TRIES = 3

# Each function waits in a thread of its own until the others have, too, and says for how long.
WAITS = """import fcntl, json, os, select, socket, subprocess, sys, threading, time

SECONDS = 1.5
spent = {}

def lock():
    held.acquire()

def condition():
    released.wait()

def file_lock():
    fcntl.flock(os.open("locked", os.O_RDWR), fcntl.LOCK_EX)

def sleep():
    time.sleep(SECONDS)

def select_nothing():
    select.select([], [], [], SECONDS)

def pipe():
    os.read(pipe_ends[0], 1)

def named_pipe():
    open("fifo").read()

def local_socket():
    pair[0].recv(1)

def network():
    accepted.recv(1)

def network_with_patience():
    client.settimeout(100 * SECONDS)  # by poll
    client.recv(1)

def poll():
    p = select.poll()
    p.register(quiet[0], select.POLLIN)
    p.register(listener, select.POLLIN)
    p.poll(SECONDS * 1000)

def epoll():
    p = select.epoll()
    p.register(quiet[0], select.EPOLLIN)
    p.poll(SECONDS)

def child():
    process.wait()

held, released = threading.Lock(), threading.Event()
held.acquire()
locked = os.open("locked", os.O_RDWR | os.O_CREAT)
fcntl.flock(locked, fcntl.LOCK_EX)
pipe_ends, quiet, pair = os.pipe(), os.pipe(), socket.socketpair()
listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname())
accepted, _ = listener.accept()
process = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
if not os.path.exists("fifo"):
    os.mkfifo("fifo")

def timed(function):
    start = time.monotonic()
    function()
    spent[function.__name__] = time.monotonic() - start

threads = [threading.Thread(target=timed, args=(f,)) for f in
           (lock, condition, file_lock, sleep, select_nothing, pipe, named_pipe, local_socket, network,
            network_with_patience, poll, epoll, child)]
for thread in threads:
    thread.start()
time.sleep(SECONDS)
held.release()
released.set()
fcntl.flock(locked, fcntl.LOCK_UN)
os.write(pipe_ends[1], b"x")
pair[1].send(b"x")
client.send(b"x")
accepted.send(b"x")
process.stdin.close()
open("fifo", "w").close()
for thread in threads:
    thread.join()
print(json.dumps(spent))
"""

CAUSES = {
    "lock": "lock", "condition": "lock", "file_lock": "lock", "sleep": "sleep", "select_nothing": "sleep",
    "pipe": "pipe", "named_pipe": "pipe", "local_socket": "pipe", "network": "network",
    "network_with_patience": "network", "poll": "poll", "epoll": "poll", "child": "child",
}


def stacks_told(run):
    """Those that could be read at all."""
    data = stacks(run, "--by-stack")
    if data["total"]["wait_unknown_ns"] > data["total"]["wait_ns"] / 2:
        raise Skip("the kernel does not show what threads wait for here")
    return data


@test
def each_cause_is_found():
    for python, (_, minor) in pythons():
        own = json.loads(record_stacks(python, write("waits.py", WAITS), name=f"{minor}.mscope"))
        equal(sorted(own), sorted(CAUSES))
        data = stacks_told(f"{minor}.mscope")
        for function, cause in CAUSES.items():
            found = sum(row[f"wait_{cause}_ns"] for row in data["rows"] if f";{function} (waits.py" in row["name"])
            ratio = found / 1e9 / own[function]
            # A thread is found within a tenth of a second.
            check(0.7 <= ratio <= 1.1, f"3.{minor}: {function} waited {own[function]:.2f} s for {cause}, "
                  f"of which {ratio:.0%} was found", [r for r in data["rows"] if function in r["name"]])


GIL = """import json, threading, time

def spin(own):
    start, cpu = time.monotonic(), time.thread_time()
    while time.monotonic() < start + 1.5:
        for i in range(1000):
            pass
    own.append(time.monotonic() - start - (time.thread_time() - cpu))

idle = []
threads = [threading.Thread(target=spin, args=(idle,)) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(json.dumps(idle))
"""


def waited_for_lock(python, minor):
    """By moescope and by the program itself, in seconds."""
    idle = sum(json.loads(record_stacks("env", "PYTHON_GIL=1", python, write("gil.py", GIL),
                                        name=f"{minor}.mscope")))
    rows = [row for row in stacks_told(f"{minor}.mscope")["rows"] if "spin (gil.py" in row["name"]]
    waited = sum(row["wait_gil_ns"] + row["ready_ns"] for row in rows) / 1e9
    print(f"# Python 3.{minor}: {waited:.2f} s for the lock or a processor, {idle:.2f} s by the program",
          flush=True)
    shutil.rmtree(f"{minor}.mscope")
    return waited, idle


@test
def python_threads_wait_for_their_lock():
    for python, (_, minor) in pythons():
        # Where others take the processors, a thread is found late now and then.
        tries = (waited_for_lock(python, minor) for _ in range(TRIES))
        check(any(0.75 * idle <= waited <= 1.1 * idle for waited, idle in tries), f"3.{minor}")


BUSY = """import json, os, subprocess, sys, time

def account():
    own = open(f"/proc/self/task/{os.getpid()}/schedstat").read().split()
    return time.monotonic(), int(own[0]) / 1e9, int(own[1]) / 1e9

def compute():
    while time.monotonic() < begin[0] + 2:
        sum(range(1000))

others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * os.cpu_count())]
begin = account()
compute()
end = account()
for other in others:
    other.kill()
print(json.dumps([b - a for a, b in zip(begin, end)]))
"""


@test
def being_kept_from_a_processor_is_no_waiting():
    wall, run, ready = json.loads(record_stacks(any_python(), write("busy.py", BUSY)))
    if ready < 0.3:
        raise Skip(f"there are processors for everybody here: ready for {ready:.2f} s")
    rows = [row for row in stacks_told("a.mscope")["rows"] if ";compute (busy.py" in row["name"]]
    found = {key: sum(row[f"{key}_ns"] for row in rows) / 1e9 for key in ("cpu", "ready", "wait")}
    # What the hypervisor took is in neither.
    check(found["wait"] < wall - run - ready + 0.05 * wall, found, (wall, run, ready))
    check(abs(found["ready"] - ready) < 0.1 * wall, found, (wall, run, ready))


@test
def a_python_without_its_lock_does_not_wait_for_it():
    python = next((python for python, _ in pythons() if not has_lock(python)), None)
    if not python:
        raise Skip("no free-threaded Python is here")
    record_stacks(python, write("gil.py", GIL))
    rows = stacks_told("a.mscope")["rows"]
    check(any("spin (gil.py" in row["name"] for row in rows), rows)
    equal([row for row in rows if row["wait_gil_ns"]], [])


FILE = """import json, os, time

def store():
    idle = 0
    with open("data", "wb") as file:
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            file.write(bytes(1 << 20))
            file.flush()
            start, cpu = time.monotonic(), time.thread_time()
            os.fsync(file.fileno())
            idle += time.monotonic() - start - (time.thread_time() - cpu)
            file.seek(0)
    return idle

print(json.dumps(store()))
"""


@test
def a_disk_is_waited_for():
    idle = json.loads(record_stacks(any_python(), write("file.py", FILE)))
    if idle < 0.3:
        raise Skip(f"the disk here takes no time: {idle:.3f} s")
    data = stacks_told("a.mscope")
    # What of it was waiting for a processor, nobody knows but the kernel.
    found = sum(row["wait_file_ns"] + row["ready_ns"] for row in data["rows"] if ";store (file.py" in row["name"])
    check(0.7 <= found / 1e9 / idle <= 1.3, f"{found / 1e9:.2f} of {idle:.2f} s", data["rows"])


@test
def a_program_that_only_waits():
    record_stacks("sleep", "1.5")
    rows = [row for row in stacks_told("a.mscope")["rows"] if row["wait_sleep_ns"] > 1e9]
    equal(len(rows), 1, rows)
    # The function that it waits in, by a name or a number.
    check(re.fullmatch(r"\S+ \(\S+\)", rows[0]["name"].split(";")[-1]), rows)


@test
def causes_add_up():
    record_stacks(any_python(), write("gil.py", GIL))
    data = stacks("a.mscope")
    causes = [key for key in data["total"] if key.startswith("wait_") and key != "wait_ns"]
    equal(sum(data["total"][key] for key in causes), data["total"]["wait_ns"])
    for key in causes:
        equal(sum(row[key] for row in data["rows"]), data["total"][key], key)
    by_wait = {row["name"]: row for row in stacks("a.mscope", "--by-wait")["rows"]}
    for key in causes:
        row = by_wait.get(key[len("wait_"):-len("_ns")])
        equal(row["wait_ns"] if row else 0, data["total"][key], key)
        equal(row["cpu_ns"] if row else 0, 0, key)
    r = moescope("sql", "a.mscope", "--json",
                 "select wait, sum(duration_ns - cpu_ns - ready_ns) from stack_samples group by wait")
    if r.status == 0: # else there is no SQLite
        told = {row[0]: row[1] for row in json.loads(r.out)["rows"]}
        for name, ns in told.items():
            equal(ns, by_wait[name]["wait_ns"] if name in by_wait else 0, name)
    r = moescope("stacks", "a.mscope", "--by-wait")
    check("waiting: " in r.out and "with callees" not in r.out, r)


main()
