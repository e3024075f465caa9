# SPDX-License-Identifier: Apache-2.0
"""Small programs with one trouble each, all of the machine's side: what slows each down is known.

usage: host_problems.py NAME SECONDS [ARGUMENT]
"""

import contextlib
import hashlib
import mmap
import os
import random
import socket
import sys
import threading
import time

PIECE = bytes(1 << 20)


def busy(until):
    """Works in C, without Python's lock."""
    while time.monotonic() < until:
        hashlib.sha256(PIECE).digest()


def many(work, n, until):
    threads = [threading.Thread(target=work, args=(until,)) for _ in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def alone(until, _):
    busy(until)


def crowd(until, n):
    many(busy, int(n), until)


def pinned(until, _):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    many(busy, 4, until)


def reading(until, path):
    """Pages of a file in any order, around the page cache."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    pages = os.fstat(fd).st_size // 4096
    room = mmap.mmap(-1, 4096)
    while time.monotonic() < until:
        os.preadv(fd, [room], random.randrange(pages) * 4096)


def writing(until, path):
    """Each piece is waited for."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    while time.monotonic() < until:
        os.pwrite(fd, PIECE[:65536], 0)
        os.fsync(fd)


def leaking(until, _):
    kept = []
    while time.monotonic() < until:
        kept.append(bytearray(os.urandom(4096) * 512))
        time.sleep(0.02)


def full(until, size):
    """Holds that much memory from the beginning."""
    held = [bytearray(PIECE) for _ in range(int(size) >> 20)]
    time.sleep(until - time.monotonic())
    return held


def python_lock(until, _):
    def count(until):
        n = 0
        while time.monotonic() < until:
            for _ in range(10000):
                n += 1
    many(count, 4, until)


def sending(until, _):
    """As fast as the loopback goes, to another process."""
    server = socket.create_server(("127.0.0.1", 0))
    if os.fork() == 0:
        client = socket.create_connection(server.getsockname())
        room = bytearray(1 << 20)
        while client.recv_into(room):
            pass
        os._exit(0)
    connection, _ = server.accept()
    while time.monotonic() < until:
        connection.sendall(PIECE)
    connection.close()
    os.wait()


def sleeping_lock(until, _):
    lock = threading.Lock()

    def hold(until):
        while time.monotonic() < until:
            with lock:
                time.sleep(0.05)
    many(hold, 4, until)


if __name__ == "__main__":
    if sys.argv[1] != "alone":
        # Others may use the machine: they shall not be the trouble, where that can be had.
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, -15)
    globals()[sys.argv[1]](time.monotonic() + float(sys.argv[2]),
                           sys.argv[3] if len(sys.argv) > 3 else None)
