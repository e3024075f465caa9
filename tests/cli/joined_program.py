# SPDX-License-Identifier: Apache-2.0
"""A program that is joined while it runs (test_join.py), and counts whatever could go wrong for it.

    joined_program.py MODE [signals] [plain]

Its main thread does what MODE says until SIGTERM; then it prints one JSON object: how often it did that, and
in `wrong` what it should not have seen. With `signals` a timer interrupts it a thousand times a second. SIGINT is
counted by a handler, SIGUSR1 by one that raises; both answer with a byte on the descriptor in
JOINED_ANSWERS. `scripts` are those that Python took from outside. With `plain` it has no handlers, and ends when the descriptor in JOINED_END does. Every Python
from 3.9 on.
"""
import asyncio
import ctypes
import errno
import json
import os
import random
import select
import signal
import sys
import threading
import time

HERE_S = 0.02  # how long it waits at a time
counts = {"turns": 0, "alarms": 0, "interrupts": 0, "raised": 0, "scripts": 0}
wrong = []
going = True
answers, end = int(os.environ["JOINED_ANSWERS"]), int(os.environ["JOINED_END"])
libc = ctypes.CDLL(None, use_errno=True)


class Raised(Exception):
    pass


def on_alarm(*_):
    counts["alarms"] += 1


def on_interrupt(*_):
    counts["interrupts"] += 1
    os.write(answers, b"i")


def on_user(*_):
    raise Raised


def on_end(*_):
    global going
    going = False


def look(condition, *words):
    if not condition and len(wrong) < 10:
        wrong.append(" ".join(map(str, words)))


def lasted(start, what):
    took = time.monotonic() - start
    look(took >= HERE_S * 0.999, what, "ended after", took)


def busy():
    numbers = [i * 3 for i in range(2000)]
    look(sum(numbers) == 5997000, "sum")
    look(sum(float(n) * 0.5 for n in numbers) == 2998500.0, "float sum")


def sleep():
    start = time.monotonic()
    time.sleep(HERE_S)
    lasted(start, "sleep")


async def wait_for_timers():
    start = time.monotonic()
    await asyncio.gather(*(asyncio.sleep(HERE_S) for _ in range(5)))
    lasted(start, "asyncio")


def epoll():
    asyncio.run(wait_for_timers())


def lock():
    held = threading.Lock()
    held.acquire()
    timer = threading.Timer(HERE_S, held.release)
    timer.start()
    held.acquire()
    timer.join()
    start = time.monotonic()
    look(not held.acquire(timeout=HERE_S), "lock")
    lasted(start, "lock")


def stdin():
    """A pipe that another thread writes to."""
    wanted = b"%d\n" % random.randrange(10**9)
    threading.Timer(HERE_S, os.write, (to_pipe, wanted)).start()
    look(os.read(from_pipe, 100) == wanted, "read")


def waitpid():
    child = os.fork()
    if child == 0:
        signal.setitimer(signal.ITIMER_REAL, 0, 0)
        time.sleep(HERE_S)
        os._exit(7)
    look(os.waitpid(child, 0) == (child, 7 << 8), "waitpid")


def c_calls():
    """Waits in C, which must neither end early nor with EINTR."""
    for name, call in (("usleep", lambda: libc.usleep(int(HERE_S * 1e6))),
                       ("poll", lambda: libc.poll(None, 0, int(HERE_S * 1000)))):
        start = time.monotonic()
        result = call()
        if going and not signals:  # else a handler of the program's own has ended it
            look(result == 0, name, result, errno.errorcode.get(ctypes.get_errno()))
            lasted(start, name)


def endless_epoll():
    """Without a limit, ended by another thread."""
    with select.epoll() as poller:
        poller.register(from_pipe, select.EPOLLIN)
        threading.Timer(HERE_S, os.write, (to_pipe, b"x")).start()
        look(poller.poll() == [(from_pipe, select.EPOLLIN)], "epoll")
        os.read(from_pipe, 1)


def numpy_like():
    """Floating-point registers in C loops."""
    values = (ctypes.c_double * 20000)(*[0.25] * 20000)
    look(sum(values) == 5000.0, "doubles")
    look(sorted(range(20000, 0, -1))[:2] == [1, 2], "sorted")


def kernels():
    """By the scripted driver, which has CUPTI deliver them."""
    ctypes.CDLL("libcuda.so.1").fake_driver_launch(3)
    time.sleep(HERE_S)


def contended():
    """Threads that want the global lock all the time."""
    def count(to):
        for _ in range(5000):
            to[0] += 1

    sums = [[0] for _ in range(3)]
    threads = [threading.Thread(target=count, args=(one,)) for one in sums[1:]]
    for thread in threads:
        thread.start()
    count(sums[0])
    for thread in threads:
        thread.join()
    look(sums == [[5000]] * 3, "sums", sums)


def in_c():
    """Does not come back to Python."""
    libc.pause()


def in_c_to_the_end():
    """Likewise, up to the end."""
    libc.read(end, ctypes.create_string_buffer(1), 1)


def on_audit(event, _):
    if event == "cpython.remote_debugger_script":
        counts["scripts"] += 1


mode, signals, plain = sys.argv[1], "signals" in sys.argv, "plain" in sys.argv
for library in filter(None, os.environ.get("JOINED_LIBRARIES", "").split(":")):
    ctypes.CDLL(library)
sys.addaudithook(on_audit)
if sys.argv[1] == "contended":
    sys.setswitchinterval(1e-5)
from_pipe, to_pipe = os.pipe()
if not plain:
    signal.signal(signal.SIGALRM, on_alarm)
    signal.signal(signal.SIGINT, on_interrupt)
    signal.signal(signal.SIGUSR1, on_user)
    signal.signal(signal.SIGTERM, on_end)
state = random.getstate()
names = sorted(globals())
if signals:
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
turn = globals()[mode]
answer = False


def work():
    """The caller catches: Python 3.13 may jump back in a loop outside of the try around it."""
    global answer
    if not counts["turns"] + counts["raised"]:
        print("ready", flush=True)
    while going:
        if answer:  # the next one comes after it, so not outside of here
            answer = False
            os.write(answers, b"u")
        turn()
        counts["turns"] += 1
        if plain and select.select([end], [], [], 0)[0]:
            on_end()


while going:
    try:
        work()
    except Raised:
        counts["raised"] += 1
        answer = True
signal.setitimer(signal.ITIMER_REAL, 0)
if mode != "stdin":
    look(random.getstate() == state, "random state")
new = sorted(set(globals()) - set(names) - {"__warningregistry__", "answer", "names", "turn", "work"})
look(not new, "names in __main__:", new)
print(json.dumps(dict(counts, wrong=wrong)))
