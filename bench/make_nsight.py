# SPDX-License-Identifier: Apache-2.0
"""make_nsight.py DATA_DIR OUT.sqlite BYTES: a file as Nsight Systems exports it (schema 3.25).

Repeats the recorded kernels of two training steps (DATA_DIR), each with the call that launched it,
a push/pop range every eight of them, a copy and a set every hundred. SQLite itself multiplies the
rows. Prints the number of kernels and their total time.
"""
import os
import sqlite3
import sys

PID = 281476838981632
TID = PID + 111
TABLES = """
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);
CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT,
    systemClockNs INTEGER);
CREATE TABLE ANALYSIS_DETAILS (globalVid INTEGER NOT NULL, duration INTEGER NOT NULL,
    startTime INTEGER NOT NULL, stopTime INTEGER NOT NULL);
CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);
CREATE TABLE ThreadNames (nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL,
    deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, greenContextId INTEGER,
    streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
    demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER,
    launchType INTEGER, cacheConfig INTEGER, registersPerThread INTEGER NOT NULL,
    gridX INTEGER NOT NULL, gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL,
    blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL,
    staticSharedMemory INTEGER NOT NULL, dynamicSharedMemory INTEGER NOT NULL,
    localMemoryPerThread INTEGER NOT NULL, localMemoryTotal INTEGER NOT NULL,
    gridId INTEGER NOT NULL, sharedMemoryExecuted INTEGER, graphNodeId INTEGER,
    sharedMemoryLimitConfig INTEGER, qmdBulkReleaseDone INTEGER, qmdPreexitDone INTEGER,
    qmdLastCtaDone INTEGER, graphId INTEGER, clusterX INTEGER, clusterY INTEGER,
    clusterZ INTEGER, clusterSchedulingPolicy INTEGER, maxPotentialClusterSize INTEGER,
    maxActiveClusters INTEGER, sharedMemoryRequestedPercentage INTEGER,
    tensorSizeMinusOneElements TEXT NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL,
    eventClass INTEGER NOT NULL, globalTid INTEGER, correlationId INTEGER,
    nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL,
    deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, greenContextId INTEGER,
    streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL,
    copyKind INTEGER NOT NULL, deprecatedSrcId INTEGER, srcKind INTEGER, dstKind INTEGER,
    srcDeviceId INTEGER, srcContextId INTEGER, dstDeviceId INTEGER, dstContextId INTEGER,
    migrationCause INTEGER, graphNodeId INTEGER, virtualAddress INTEGER, copyCount INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER NOT NULL, end INTEGER NOT NULL,
    deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, greenContextId INTEGER,
    streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, value INTEGER NOT NULL,
    bytes INTEGER NOT NULL, graphNodeId INTEGER, memKind INTEGER);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL,
    rangeId INTEGER, category INTEGER, color INTEGER, text TEXT, globalTid INTEGER,
    endGlobalTid INTEGER, textId INTEGER, domainId INTEGER, uint64Value INTEGER,
    int64Value INTEGER, doubleValue REAL, uint32Value INTEGER, int32Value INTEGER,
    floatValue REAL, jsonTextId INTEGER, jsonText TEXT, binaryData TEXT);
"""
# Of one step, at its own zero; number: its place in the step.
SEED = """
CREATE TEMP TABLE seed (number INTEGER PRIMARY KEY, start INTEGER, ns INTEGER, called INTEGER,
    name INTEGER, short INTEGER, grid_x INTEGER, grid_y INTEGER, grid_z INTEGER, block_x INTEGER,
    block_y INTEGER, block_z INTEGER, registers INTEGER, shared INTEGER);
CREATE TEMP TABLE step (number INTEGER PRIMARY KEY);
CREATE TEMP TABLE about (period INTEGER, n INTEGER, begin INTEGER);
"""
# Kernels vary between steps by some multiples of the device's 32 ns, downwards.
FROM = "FROM step CROSS JOIN seed CROSS JOIN about"
WHEN = "about.begin + step.number * about.period"
ID = "step.number * about.n + seed.number + 1000"
SHORTER = "seed.ns / 512 * 32 * ((step.number * 7 + seed.number) % 5)"
FILL = f"""
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT {WHEN} + seed.start,
    {WHEN} + seed.start + seed.ns - {SHORTER}, 0, 1, 0, 7, {ID}, {PID}, seed.name, seed.short, NULL,
    1, 1, seed.registers, grid_x, grid_y, grid_z, block_x, block_y, block_z, seed.shared, 0, 0,
    250871808, {ID}, 32768, NULL, 0, NULL, NULL, NULL, NULL, 0, 0, 0, 1, 0, 0, NULL, '[]' {FROM};
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME SELECT {WHEN} + seed.called,
    {WHEN} + seed.called + 3000 + (step.number * 31 + seed.number * 17) % 900, 0, {TID}, {ID}, 1, 0,
    NULL {FROM};
INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY SELECT {WHEN} + seed.start + seed.ns + 10,
    {WHEN} + seed.start + seed.ns + 400, 0, 1, 0, 7, {ID}, {PID}, 65536, 8, NULL, 2, 2, NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, 1 {FROM} WHERE seed.number % 100 = 50;
INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET SELECT {WHEN} + seed.start + seed.ns + 10,
    {WHEN} + seed.start + seed.ns + 300, 0, 1, 0, 7, {ID}, {PID}, 0, 4096, NULL, 2 {FROM}
    WHERE seed.number % 100 = 75;
INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, domainId)
    SELECT {WHEN} + seed.called - 500, {WHEN} + seed.called + 30000, 59,
    'aten::linear, op_id = ' || ({ID}), {TID}, 0 {FROM} WHERE seed.number % 8 = 0;
"""
BYTES_A_KERNEL = 140  # including everything that comes with it; measured


def lines(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return [line.rstrip("\n").split(",") for line in file if not line.startswith("#")]


def add_seed(base, folder):
    """The recorded kernels; returns how many, and their total time."""
    launches = lines(folder, "h200-launches.csv")
    base.execute("INSERT INTO StringIds VALUES (1, 'cudaLaunchKernel_v7000'), (2, 'python3')")
    ids = {}
    for name in (launch[0].replace(";", ",") for launch in launches):
        if name not in ids:
            ids[name] = 10 + 2 * len(ids)
            short = name.split("<")[0].split("(")[0].split(" ")[-1].split("::")[-1]
            base.execute("INSERT INTO StringIds VALUES (?, ?), (?, ?)",
                         (ids[name], name, ids[name] + 1, short or name))
    now = called = number = 0
    for number, (launch, gap, ns, _) in enumerate(lines(folder, "h200-kernels.csv")):
        name, *sizes = launches[int(launch)]
        name = ids[name.replace(";", ",")]
        called += 4500
        now = max(now + int(gap) % 20000 + 500, called + 5000)
        base.execute(f"INSERT INTO seed VALUES ({','.join('?' * 14)})",
                     (number, now, int(ns), called, name, name + 1, *map(int, sizes)))
        now += int(ns)
    return number + 1, now + 100000


def main():
    folder, path, wanted = sys.argv[1:]
    if os.path.exists(path):
        os.remove(path)
    base = sqlite3.connect(path, isolation_level=None)
    base.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
                       "PRAGMA page_size = 4096;" + TABLES + SEED)
    kernels, period = add_seed(base, folder)
    steps = max(1, int(wanted) // (kernels * BYTES_A_KERNEL))
    base.executemany("INSERT INTO step VALUES (?)", ((n,) for n in range(steps)))
    base.execute("INSERT INTO about VALUES (?, ?, 155360295935)", (period, kernels))
    base.executemany("INSERT INTO META_DATA_EXPORT VALUES (?, ?)",
                     [("EXPORT_PRODUCT_NAME", "NVIDIA Nsight Systems"),
                      ("EXPORT_SCHEMA_VERSION", "3.25.0"), ("EXPORT_SCHEMA_VERSION_MAJOR", "3"),
                      ("EXPORT_SCHEMA_VERSION_MINOR", "25"), ("EXPORT_SCHEMA_VERSION_MICRO", "0")])
    base.execute("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1790857026000000000, "
                 "'2026-10-01 12:57:06', '2026-10-01 12:57:06', 155000000000)")
    base.execute("INSERT INTO ANALYSIS_DETAILS VALUES (0, ?, 0, ?)",
                 (155360295935 + steps * period, 155360295935 + steps * period))
    base.execute(f"INSERT INTO PROCESSES VALUES ({PID}, {PID >> 24 & 0xFFFFFF}, 'python3')")
    base.execute(f"INSERT INTO ThreadNames VALUES (2, 20, {TID})")
    base.executescript("BEGIN;" + FILL + "COMMIT;")
    rows, ns = base.execute(
        'SELECT count(*), sum("end" - start) FROM CUPTI_ACTIVITY_KIND_KERNEL').fetchone()
    base.close()
    print("kernels", rows, "kernel_ns", ns, "steps", steps, "bytes", os.path.getsize(path))


if __name__ == "__main__":
    main()
