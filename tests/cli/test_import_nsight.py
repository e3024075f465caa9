# SPDX-License-Identifier: Apache-2.0
"""Files of Nsight Systems, Nsight Compute and nvidia-smi in place of runs, and imported."""

import csv
import json
import pathlib
import sqlite3
import subprocess

from cli import (MOESCOPE, check, environment, equal, main, moescope, need, one_sentence,
                 test)

FIXTURES = pathlib.Path(__file__).resolve().parent.parent.parent.parent / "shared" / "fixtures"
PROCESS = 1 << 48 | 40 << 24
SMI = """timestamp, index, name, utilization.gpu [%], memory.used [MiB]
2026/11/15 00:45:02.409, 0, NVIDIA H200, 88 %, 4096 MiB
2026/11/15 00:45:03.411, 0, NVIDIA H200, [N/A], 4097 MiB
"""
NCU = '''"ID","Process ID","Kernel Name","Device","CC","dram__bytes.sum","sm__cycles"
"","","","","","byte","cycle"
"0","5","mul(float *)","0","9.0","1,000","2.5"
"1","5","mul(float *)","0","9.0","3,000","n/a"
'''


def export(path, kernels=3, process=PROCESS, start=0):
    """A small export of Nsight Systems; its kernels take 50 ns each."""
    db = sqlite3.connect(path)
    db.executescript("""
        create table StringIds (id integer primary key, value text);
        insert into StringIds values (1, 'cudaLaunchKernel_v7000'), (2, 'mul(float *)');
        create table META_DATA_EXPORT (name text, value text);
        create table CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId, correlationId,
                                                 globalPid, demangledName);
        create table CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, correlationId, nameId);
        create table SCHED_EVENTS (start, cpu);
        insert into SCHED_EVENTS values (1, 2);""")
    for i in range(kernels):
        db.execute("insert into CUPTI_ACTIVITY_KIND_KERNEL values (?, ?, 0, 7, ?, ?, 2)",
                   (start + 100 * i, start + 100 * i + 50, i + 1, process))
        db.execute("insert into CUPTI_ACTIVITY_KIND_RUNTIME values (?, ?, ?, ?, 1)",
                   (start + 100 * i - 20, start + 100 * i - 10, process + 41, i + 1))
    db.commit()
    db.close()


def asked(*words):
    r = moescope(*words, "--json")
    equal(r.status, 0, r)
    return json.loads(r.out)


@test
def tables_take_the_file_itself():
    export("a.sqlite")
    before = pathlib.Path("a.sqlite").read_bytes()
    row, = asked("kernels", "a.sqlite")["rows"]
    equal((row["name"], row["count"], row["time_ns"]), ("mul(float *)", 3, 150))
    row, = asked("api", "a.sqlite")["rows"]
    equal((row["name"], row["count"], row["time_ns"]), ("cudaLaunchKernel", 3, 30))
    equal(moescope("report", "a.sqlite").status, 0)
    equal(pathlib.Path("a.sqlite").read_bytes(), before)
    equal([p.name for p in pathlib.Path(".").iterdir()], ["a.sqlite"], "nothing is left behind")


@test
def processes_are_all_there_whatever_is_asked_for():
    export("a.sqlite")
    db = sqlite3.connect("a.sqlite")
    other = 1 << 48 | 50 << 24
    db.executescript(f"""
        insert into CUPTI_ACTIVITY_KIND_KERNEL values (10, 60, 1, 7, 90, {other}, 2);
        insert into StringIds values (3, 'main'), (4, 'H200');
        create table ThreadNames (nameId integer, priority integer, globalTid integer);
        insert into ThreadNames values (3, 0, {PROCESS + 41}), (3, 0, {other + 51});
        create table PROCESSES (globalPid integer, pid integer, name text);
        insert into PROCESSES values ({PROCESS}, 40, 'a'), ({other}, 50, 'b');
        create table TARGET_INFO_GPU (id integer, cuDevice integer, name text);
        insert into TARGET_INFO_GPU values (0, 0, 'H200');""")
    db.commit()
    db.close()
    equal(moescope("import", "a.sqlite", "-o", "a.mscope").status, 0)
    for table in ("threads", "devices", "facts", "kernels"):
        query = f"select distinct rank, pid from {table} order by 1"
        file, run = (asked("sql", path, query)["rows"] for path in ("a.sqlite", "a.mscope"))
        equal(file, run, table)
        equal(len(run), 2, table)


@test
def import_makes_a_run_and_tells_what_it_left_out():
    export("a.sqlite")
    r = moescope("import", "a.sqlite", "-o", "a.mscope")
    equal(r.status, 0, r)
    check("SCHED_EVENTS 1" in r.err, r)
    equal(asked("kernels", "a.mscope")["rows"], asked("kernels", "a.sqlite")["rows"])


@test
def a_name_says_nothing():
    export("trace.json")
    equal(asked("kernels", "trace.json")["rows"][0]["count"], 3)


@test
def a_directory_of_exports_is_a_run_of_ranks():
    pathlib.Path("ranks").mkdir()
    for rank in range(2):
        export(f"ranks/rank{rank}.sqlite", kernels=2 + rank)
    document = asked("kernels", "ranks")
    equal(document["run"]["ranks"], [0, 1])
    equal(document["rows"][0]["count"], 5)


@test
def other_databases_are_refused_in_a_sentence():
    db = sqlite3.connect("cats.sqlite")
    db.execute("create table cats (name)")
    db.commit()
    db.close()
    one_sentence(moescope("kernels", "cats.sqlite"), 1, "not an export of Nsight Systems")
    pathlib.Path("broken").write_bytes(b"SQLite format 3\0" + bytes(84) + b"x" * 5000)
    one_sentence(moescope("import", "broken", "-o", "b.mscope"), 1, "SQLite")
    check(not pathlib.Path("b.mscope").exists())


@test
def an_export_that_was_killed_says_what_to_do():
    export("a.sqlite")
    db = sqlite3.connect("a.sqlite", isolation_level=None)
    db.execute("pragma cache_size = 2")
    db.execute("begin")
    for i in range(20000):
        db.execute("insert into SCHED_EVENTS values (?, 0)", (i,))
    for name in ("a.sqlite", "a.sqlite-journal"):
        pathlib.Path("killed" + name[1:]).write_bytes(pathlib.Path(name).read_bytes())
    db.close()
    one_sentence(moescope("kernels", "killed.sqlite"), 1, "journal next to it")
    sqlite3.connect("killed.sqlite").execute("select * from SCHED_EVENTS").fetchall()
    equal(asked("kernels", "killed.sqlite")["rows"][0]["count"], 3)


@test
def half_a_file_is_read_as_far_as_it_goes():
    export("a.sqlite", kernels=20000)
    whole = pathlib.Path("a.sqlite").read_bytes()
    pathlib.Path("half.sqlite").write_bytes(whole[:len(whole) // 2])
    document = asked("kernels", "half.sqlite")
    count = document["rows"][0]["count"]
    check(1000 < count < 20000, count)
    check("cut off" in moescope("kernels", "half.sqlite").out)


@test
def counters_of_nsight_compute():
    pathlib.Path("ncu.csv").write_text("==PROF== Connected\n" + NCU, encoding="utf-8")
    document = asked("counters", "ncu.csv")
    equal(document["total"], {"kernels": 1, "launches": 2, "values": 4})
    rows = {row["metric"]: row for row in document["rows"]}
    row = rows["dram__bytes.sum"]
    equal((row["kernel"], row["unit"], row["mean"], row["min"], row["max"], row["text"]),
          ("mul(float *)", "byte", 2000, 1000, 3000, None))
    equal((rows["sm__cycles"]["mean"], rows["sm__cycles"]["text"]), (2.5, "n/a"))
    lines = moescope("counters", "ncu.csv", "--csv").out.splitlines()
    equal(lines[0], "kernel,short_name,metric,unit,launches,mean,min,max,text,section,doubt")
    equal(lines[1], "mul(float *),mul,dram__bytes.sum,byte,2,2000,1000,3000,,,")
    text = moescope("counters", "ncu.csv").out
    check("dram__bytes.sum" in text and "2.00 k" in text, text)


LONG = ('"ID","Process ID","Process Name","Host Name","Kernel Name",{}"Context","Stream",{}"Section Name","Metric Name",'
        '"Metric Unit","Metric Value"{}\n')
SIZES, OF_LAUNCH = '"Block Size","Grid Size","Device","CC",', '"(32, 1, 1)","(64, 1, 1)","0","9.0",'


@test
def shapes_of_nsight_compute_in_the_wild():
    """What the program printed before, units and decimal commas of other settings, columns of older versions, rows cut short."""
    def mean_ns(text):
        pathlib.Path("ncu.csv").write_text(text, encoding="utf-8")
        (row,) = asked("counters", "ncu.csv", "--by", "kernel")["rows"]
        return row["mean_ns"]

    def line(unit, value, before="", sizes=OF_LAUNCH, end="", name="gpu__time_duration.sum"):
        return f'"0","1","p","h","k",{before}"1","7",{sizes}"s","{name}","{unit}","{value}"{end}\n'

    header = LONG.format("", SIZES, "")
    equal(mean_ns("  ==PROF== Connected\n2208    2048   0   358.15\ndevice: H200 (sm_90), 132 SMs\n" + header + line("us", "1,205.50")),
          1205500)
    equal(mean_ns(header + line("usecond", "12.5")), 12500)
    equal(mean_ns(LONG.format('"Kernel Time",', "", "") + line("nsecond", "152192", '"2024-Nov-13 18:14:36",', "")), 152192)
    rules = ',"Rule Name","Rule Type","Rule Description","Estimated Speedup Type","Estimated Speedup"'
    equal(mean_ns(LONG.format("", SIZES, rules) + line("ns", "406240", end=",", name="Duration")), 406240)
    share = line("%", "65,77", name="sm__throughput.avg.pct_of_peak_sustained_elapsed")
    equal(mean_ns(header + line("ns", "117.344") + share), 117344)
    for summary in ('"Process ID","Kernel Name","Invocations","Metric Name","Metric Unit","Minimum","Maximum","Average"\n',
                    '"Process ID","Device","Invocations","Section Name","Metric Name","Metric Unit","Minimum","Maximum","Average"\n'):
        pathlib.Path("ncu.csv").write_text("==PROF== Connected\n" + summary, encoding="utf-8")
        one_sentence(moescope("counters", "ncu.csv"), 1, "has no launches", "--page raw")


@test
def what_bounds_kernels_by_nsight_compute():
    metrics = {"gpu__time_duration.sum": ("usecond", 100, 300), "dram__bytes_read.sum": ("Mbyte", 100, 500),
               "dram__bytes_write.sum": ("Mbyte", 40, 60),
               "dram__throughput.avg.pct_of_peak_sustained_elapsed": ("%", 70, 80),
               "lts__throughput.avg.pct_of_peak_sustained_elapsed": ("%", 30, 40),
               "sm__ops_path_tensor_src_fp16.sum": ("", 3e9, 4e9),
               "sm__ops_path_tensor_src_fp16_dst_fp32.sum": ("", 1e9, 2e9),
               "sm__ops_path_tensor_src_int8.sum": ("", 5e8, 5e8)}
    name = "void " + "deep::" * 20 + "copy(float *)"
    lines = [["ID", "Process ID", "Kernel Name", "Device", "CC", *metrics],
             ["", "", "", "", "", *(unit for unit, _, _ in metrics.values())],
             *([str(i), "5", name, "0", "9.0", *(str(int(of[1 + i])) for of in metrics.values())] for i in range(2))]
    with open("ncu.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows(lines)
    document = asked("counters", "ncu.csv", "--by", "kernel")
    equal((document["schema"], document["total"]), ("moescope/counters-kernels/1", {"kernels": 1, "launches": 2}))
    row, = document["rows"]
    equal((row["kernel"], row["launches"], row["mean_ns"], row["dram_bytes"]), (name, 2, 200000, 350e6))
    equal((row["tensor_ops"], row["bound_by"], row["because"]), (4e9, "memory", "DRAM at 75% of the peak"))
    for key, wanted in (("dram_bytes_per_s", 350e6 / 200e-6), ("tensor_ops_per_s", 4e9 / 200e-6),
                        ("ops_per_byte", 4e9 / 350e6)):
        check(abs(row[key] / wanted - 1) < 1e-12, key, row[key])
    equal((row["sm_pct"], row["sm_pct_reason"]), (None, "sm__throughput was not counted"))
    text = moescope("counters", "ncu.csv", "--by", "kernel", "--width", "80").out
    check(max(map(len, text.splitlines())) <= 80, text)
    check("DRAM at 75% of the peak" in text, text)
    equal(moescope("sql", "ncu.csv", "select bound_by from kernel_limits", "--csv").out.split(), ["bound_by", "memory"])


@test
def counters_of_other_runs_are_none():
    export("a.sqlite")
    r = moescope("counters", "a.sqlite")
    equal(r.status, 0, r)
    check("no counters of kernels" in r.out, r)
    equal(asked("counters", "a.sqlite")["rows"], [])


@test
def a_log_of_nvidia_smi_comes_back_as_it_was():
    pathlib.Path("log.csv").write_text(SMI, encoding="utf-8")
    env = environment(TZ="Europe/Berlin")
    equal(moescope("import", "log.csv", "-o", "a.mscope", env=env).status, 0)
    r = moescope("smi", "a.mscope", "--columns",
                 "timestamp,index,name,utilization.gpu,memory.used", env=env)
    equal((r.status, r.out), (0, SMI), r)


@test
def a_log_without_names_is_refused_in_a_sentence():
    pathlib.Path("log.csv").write_text("".join(SMI.splitlines(True)[1:]), encoding="utf-8")
    one_sentence(moescope("report", "log.csv"), 1, "noheader")


@test
def real_logs_come_back_as_they_were():
    log = FIXTURES / "nvidia-smi.csv"
    need(log)
    equal(subprocess.run([MOESCOPE, "smi", log], stdout=subprocess.PIPE, text=True,
                         check=True).stdout, log.read_text(encoding="utf-8"))


main()
