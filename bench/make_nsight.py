#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes an SQLite file as Nsight Systems exports them (schema 3.20), of any size.

usage: make_nsight.py FILE [--megabytes N] [--processes N] [--seed N]

The mix of rows is that of a training program: each launch has its call and its kernel, one in ten
launches a copy, one in three a pushed range; 300 kernel names and launch sizes.
"""
import argparse
import random
import sqlite3

KERNEL = """start end deviceId contextId greenContextId streamId correlationId globalPid demangledName
shortName mangledName launchType cacheConfig registersPerThread gridX gridY gridZ blockX blockY blockZ
staticSharedMemory dynamicSharedMemory localMemoryPerThread localMemoryTotal gridId
sharedMemoryExecuted graphNodeId sharedMemoryLimitConfig""".split()
RUNTIME = "start end eventClass globalTid correlationId nameId returnValue callchainId".split()
MEMCPY = """start end deviceId contextId greenContextId streamId correlationId globalPid bytes copyKind
deprecatedSrcId srcKind dstKind srcDeviceId srcContextId dstDeviceId dstContextId migrationCause
graphNodeId virtualAddress copyCount""".split()
NVTX = """start end eventType rangeId category color text globalTid endGlobalTid textId domainId
uint64Value int64Value doubleValue uint32Value int32Value floatValue jsonTextId jsonText
binaryData""".split()
BYTES_PER_LAUNCH = 146.4  # of all four tables, measured
NAMES = 300


def create(db, table, columns):
    text = {"text", "jsonText", "binaryData"}
    real = {"doubleValue", "floatValue"}
    kinds = ", ".join(f"{c} {'TEXT' if c in text else 'REAL' if c in real else 'INTEGER'}"
                      for c in columns)
    db.execute(f"create table {table} ({kinds})")
    return f"insert into {table} values ({', '.join('?' * len(columns))})"


def launches(first, n, processes, rng):
    """Rows of n launches for the four tables."""
    kernels, calls, copies, ranges = [], [], [], []
    for i in range(first, first + n):
        which = i % processes
        pid = (1 << 48) | ((1000 + which) << 24)
        tid = pid | (1000 + which)
        name = rng.randrange(NAMES)
        start = 1_000_000 + i * 5_000
        duration = 1_000 + (name * 37) % 3_000 // 32 * 32
        calls.append((start, start + 2_500, 0, tid, i + 1, 900 + i % 3, 0, None))
        kernels.append((start + 4_000, start + 4_000 + duration, which, 1, 0, 7 + i % 2, i + 1, pid,
                        name, NAMES + name, 2 * NAMES + name, 1, 1, 32 + name % 96,
                        1 + name % 1000, 1, 1, 128, 1, 1, 0, (name % 4) * 16384, 0, 23592960, i,
                        32768, None, 0))
        if i % 10 == 0:
            copies.append((start, start + 800, which, 1, 0, 7, i + 1, pid, 4096 * (1 + i % 64), 1,
                           None, 1, 2, None, None, None, None, None, None, None, 1))
        if i % 3 == 0:
            ranges.append((start - 100, start + 2_900, 59, None, None, 255, None, tid, None,
                           950 + i % 20, 0, None, None, None, None, None, None, None, None, None))
    return kernels, calls, copies, ranges


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("file")
    parser.add_argument("--megabytes", type=float, default=1000)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    db = sqlite3.connect(args.file, isolation_level=None)
    db.execute("pragma page_size = 4096")
    db.execute("pragma journal_mode = off")
    db.execute("pragma synchronous = off")
    db.execute("begin")
    db.execute("create table StringIds (id INTEGER PRIMARY KEY, value TEXT)")
    db.execute("create table META_DATA_EXPORT (name TEXT, value TEXT)")
    db.executemany("insert into META_DATA_EXPORT values (?, ?)",
                   [("EXPORT_PRODUCT_NAME", "made for measurements"),
                    ("EXPORT_SCHEMA_VERSION", "3.20.2")])
    db.executemany("insert into StringIds values (?, ?)",
                   [(i, f"void kernel_{i % NAMES}<float, {i}>(float *, int, Parameters<{i * 7}>)")
                    for i in range(3 * NAMES)] +
                   [(900 + i, f"cuda{what}_v7000")
                    for i, what in enumerate(("LaunchKernel", "MemcpyAsync", "LaunchKernelExC"))] +
                   [(950 + i, f"range_{i}") for i in range(20)])
    tables = [create(db, "CUPTI_ACTIVITY_KIND_" + name, columns)
              for name, columns in (("KERNEL", KERNEL), ("RUNTIME", RUNTIME), ("MEMCPY", MEMCPY))]
    tables.append(create(db, "NVTX_EVENTS", NVTX))
    left, first = int(args.megabytes * 1e6 / BYTES_PER_LAUNCH), 0
    while left:
        n = min(left, 50_000)
        for insert, rows in zip(tables, launches(first, n, args.processes, rng)):
            db.executemany(insert, rows)
        first += n
        left -= n
    db.execute("commit")
    db.close()


if __name__ == "__main__":
    main()
