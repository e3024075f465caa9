# SPDX-License-Identifier: Apache-2.0
"""Input that is unusual or made to do harm: the tool answers or refuses, and never hangs."""

import csv
import json
import os
import pathlib
import resource
import shutil
import sqlite3

from cli import Skip, check, equal, main, moescope, one_sentence, record, test


def few_descriptors():
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))


def shards_of(run):
    return sorted(pathlib.Path(run).glob("*.mst"))


def many_shards(run, n):
    """Copies of the one shard of a run, as of so many processes."""
    shard = shards_of(run)[0]
    for i in range(1, n):
        shutil.copyfile(shard, pathlib.Path(run) / f"{i}-{100000 + i}.mst")


@test
def more_shards_than_descriptors():
    record("a.mscope")
    many_shards("a.mscope", 200)
    for command in ("report", "steps", "ops"):
        done = moescope(command, "a.mscope", preexec_fn=few_descriptors)
        equal(done.status, 0, done.err)
        check("cannot open" not in done.out, done.out[:500])
    done = moescope("steps", "a.mscope", "--json", preexec_fn=few_descriptors)
    run = json.loads(done.out)
    equal(len(run["rows"]), 200 * 6)
    check(not any(run["loss"].values()), run["loss"])


@test
def notes_of_one_kind_are_summed():
    record("a.mscope")
    for i in range(300):
        pathlib.Path("a.mscope", f"{i}-{100000 + i}.mst").write_bytes(b"no shard")
    done = moescope("steps", "a.mscope")
    equal(done.status, 0, done.err)
    equal(done.out.count("not a moescope shard"), 8, done.out[:2000])
    check("and 292 more processes" in done.out, done.out[:4000])


def fifo(path):
    """A pipe that nobody writes to: whoever opens it waits."""
    os.mkfifo(path)
    return path


@test
def pipes_in_place_of_files():
    fifo("pipe")
    for command in (["report"], ["import"], ["compare", "pipe"], ["dump"], ["export"], ["sql"],
                    ["smi"]):
        done = moescope(command[0], *command[1:], "pipe",
                        *(["select 1"] if command[0] == "sql" else []),
                        *(["-o", "x"] if command[0] in ("export", "import") else []))
        check(done.status != 0, command, done)
        check("not a regular file" in done.err, command, done.err)


@test
def pipes_inside_of_a_run():
    record("a.mscope")
    fifo("a.mscope/9-9.mst")
    done = moescope("steps", "a.mscope")
    equal(done.status, 0, done.err)
    check("not a regular file" in done.out, done.out)
    os.rename("a.mscope/9-9.mst", shards_of("a.mscope")[0].with_suffix(".ring"))
    done = moescope("steps", "a.mscope")
    equal(done.status, 0, done.err)
    os.remove("a.mscope/run.json")
    fifo("a.mscope/run.json")
    one_sentence(moescope("steps", "a.mscope"), 1, "not a regular file")


@test
def pipes_among_traces():
    os.mkdir("traces")
    fifo("traces/rank1.json")
    pathlib.Path("traces/rank0.json").write_text(json.dumps(trace("k")))
    done = moescope("kernels", "traces")
    equal(done.status, 0, done.err)


def trace(*names):
    """A Kineto trace with a kernel of each name."""
    return {"schemaVersion": 1, "traceEvents": [
        {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": 10 + i, "dur": 1,
         "args": {"device": 0, "stream": 7, "correlation": i + 1}}
        for i, name in enumerate(names)]}


ENDLESS = "with recursive n(i) as (select 1 union all select i + 1 from n) select"


@test
def views_without_end():
    need_sqlite()
    file = sqlite3.connect("a.sqlite")
    file.executescript("create table META_DATA_EXPORT (name, value);"
                       "create table StringIds (id integer primary key, value text);"
                       "insert into StringIds values (1, 'k');"
                       f"create view CUPTI_ACTIVITY_KIND_KERNEL as {ENDLESS} i as start, i + 1 as "
                       "end, 0 as deviceId, 7 as streamId, i as correlationId, 1 as demangledName, "
                       "1 as shortName from n;")
    file.close()
    done = moescope("kernels", "a.sqlite", cpu_s=60)
    check("has no end" in done.out + done.err, done)
    file = sqlite3.connect("b.sqlite")
    file.executescript("create table MOESCOPE_RUN (key, value);"
                       f"create view MOESCOPE_STRING as {ENDLESS} i as id, 'x' as text from n;")
    file.close()
    one_sentence(moescope("kernels", "b.sqlite", cpu_s=60), 1)


@test
def pages_that_refer_to_each_other():
    """Inner pages whose children are all the same page: a few kB that are billions of rows."""
    need_sqlite()
    file = sqlite3.connect("a.sqlite")
    file.executescript("pragma page_size = 512; pragma journal_mode = off;"
                       "create table MOESCOPE_RUN (key, value);"
                       "create table MOESCOPE_STRING (id integer primary key, text);"
                       "with recursive n(i) as (select 1 union all select i + 1 from n where i < "
                       "20000) insert into MOESCOPE_STRING select i, 'abcdefgh' || i from n;")
    root = file.execute("select rootpage from sqlite_master where name = 'MOESCOPE_STRING'")
    root = root.fetchone()[0]
    file.close()
    data = bytearray(pathlib.Path("a.sqlite").read_bytes())

    def page(number):
        return (number - 1) * 512

    # A chain of inner pages, each with all of its children the next one, and a leaf at its end.
    inner = [n for n in range(2, len(data) // 512 + 1) if data[page(n)] == 5]
    leaf = next(n for n in range(root, len(data) // 512 + 1) if data[page(n)] == 13)
    inner.remove(root)
    chain = [root, *inner[:10], leaf]
    check(len(chain) > 8, chain)
    for number, child in zip(chain, chain[1:]):
        cells = int.from_bytes(data[page(number) + 3:page(number) + 5], "big")
        child = child.to_bytes(4, "big")
        data[page(number) + 8:page(number) + 12] = child
        for cell in range(cells):
            at = page(number) + 12 + 2 * cell
            at = page(number) + int.from_bytes(data[at:at + 2], "big")
            data[at:at + 4] = child
    pathlib.Path("a.sqlite").write_bytes(data)
    one_sentence(moescope("kernels", "a.sqlite", cpu_s=60), 1, "has no end")


HARM = ("\x1b", "\x9b", "\u202e")
EVIL = "=1+2\x1b[2J\x9b2J\u202eexe"


def harmless(text, *context):
    for harm in HARM:
        check(harm not in text, f"{harm!r} in {text[:2000]!r}", *context)


@test
def evil_words_of_a_run():
    """The command, the host and the notes are what run.json says."""
    record("a.mscope")
    record("b.mscope")
    path = pathlib.Path("a.mscope/run.json")
    about = json.loads(path.read_text())
    about.update(command=EVIL, host=EVIL, cpu=EVIL, notes=EVIL + "\n" + EVIL, level=EVIL,
                 version=EVIL, status=EVIL, schedule=EVIL)
    path.write_text(json.dumps(about))
    os.rename("a.mscope", EVIL + ".mscope")
    run = EVIL + ".mscope"
    for arguments in (["report", run], ["report", run, "--json"], ["steps", run], ["ops", run],
                      ["steps", run, "--csv"], ["compare", run, "b.mscope"],
                      ["compare", run, "b.mscope", "--csv"], ["memory", run],
                      ["compare", run, "b.mscope", "--json"],
                      ["export", run, "--to", "chrome", "-o", "-"],
                      ["export", run, "--to", "folded", "-o", "-"]):
        done = moescope(*arguments)
        check(done.status == 0, arguments, done.err)
        harmless(done.out + done.err, arguments)
        for line in done.out.splitlines() if "--csv" in arguments else ():
            check(not any(cell.startswith("=") for cell in line.split(",")), arguments, line)


@test
def evil_names_of_a_trace():
    pathlib.Path("t.json").write_text(json.dumps(trace(EVIL, "@x", "-y", "-1")))
    for arguments in (["kernels"], ["kernels", "--csv"], ["kernels", "--json"], ["report"]):
        done = moescope(arguments[0], "t.json", *arguments[1:])
        equal(done.status, 0, done.err)
        harmless(done.out + done.err, arguments)
    done = moescope("kernels", "t.json", "--csv")
    rows = {row["name"] for row in csv.DictReader(done.out.splitlines())}
    check({"'@x", "'-y", "-1"} <= rows, rows)
    check(any(name.startswith("'=1+2") for name in rows), rows)
    done = moescope("export", "t.json", "--to", "csv", "-o", "tables")
    equal(done.status, 0, done.err)
    text = pathlib.Path("tables/kernels.csv").read_text()
    check("'@x" in text and ",@x" not in text, text)


@test
def evil_words_in_errors():
    for arguments in (["report", EVIL], ["import", EVIL, "-o", "x"], [EVIL], ["report", "--" + EVIL],
                      ["kernels", "--sort", EVIL, "t.json"], ["sql", "t.json", EVIL]):
        pathlib.Path("t.json").write_text(json.dumps(trace("k")))
        done = moescope(*arguments)
        check(done.status != 0, arguments, done)
        harmless(done.err, arguments)
    pathlib.Path(EVIL).write_bytes(b"not a trace")
    done = moescope("report", EVIL)
    equal(done.status, 1)
    harmless(done.err)


def need_sqlite():
    done = moescope("sql", "--help")
    if "without SQLite" in done.err + done.out:
        raise Skip("built without SQLite")


if __name__ == "__main__":
    main()
