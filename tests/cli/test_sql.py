# SPDX-License-Identifier: Apache-2.0
"""sql and the exports to SQLite and CSV on a recorded run: what is printed, and what is refused."""

import csv
import json
import os
import pathlib
import pty
import shutil
import signal
import sqlite3
import subprocess

from cli import (MOESCOPE, PATIENCE_S, Skip, check, environment, equal, main, moescope,
                 one_sentence, test)
from json_schema import errors

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SUMMARY = "select class, count(*) as n, sum(duration_ns) from kernels group by class order by 3 desc"
DEFS = json.loads((ROOT / "docs/schema/moescope.schema.json").read_text(encoding="utf-8"))["$defs"]


def need_sqlite():
    if "no SQLite" in moescope("sql", "--schema").err:
        raise Skip("built without SQLite")


def recorded(*names):
    need_sqlite()
    for name in names:
        shutil.copytree(ROOT / "tests/data/h200-windows", name)


def query(*words):
    r = moescope("sql", *words, "--json")
    equal(r.status, 0, r)
    document = json.loads(r.out)
    found = list(errors({"$ref": "#/$defs/document_sql"}, document, DEFS))
    check(not found, *found)
    return document


@test
def rows_are_those_of_the_view():
    recorded("a.mscope")
    view = json.loads(moescope("kernels", "a.mscope", "--by", "class", "--json").out)["rows"]
    document = query("a.mscope", SUMMARY)
    equal(document["columns"], ["class", "n", "sum(duration_ns)"])
    equal(sorted(document["rows"]),
          sorted([row["class"], row["count"], row["time_ns"]] for row in view))
    names = json.loads(moescope("kernels", "a.mscope", "--json").out)["rows"]
    rows = query("a.mscope", "select name, count, p50_ns from kernel_summary")["rows"]
    equal(rows, [[row["name"], row["count"], row["p50_ns"]] for row in names])


@test
def places_are_those_of_the_view():
    recorded("a.mscope")
    for by, column in (("step", "step"), ("range", "range"), ("layer", "layer")):
        view = json.loads(moescope("kernels", "a.mscope", "--by", by, "--json").out)["rows"]
        # Work of steps that were not recorded is in no row of the view.
        wanted = {row[column]: row["count"] for row in view if row[column] is not None}
        rows = dict(query("a.mscope", f"select {column}, count(*) from kernels where {column} is "
                                      f"not null group by {column}")["rows"])
        if by != "range":
            wanted = {key: n for key, n in wanted.items() if key != -1}
        equal({key: rows.get(key) for key in wanted}, wanted, by)


@test
def text_json_and_csv_say_the_same():
    recorded("a.mscope")
    document = query("a.mscope", SUMMARY)
    text = moescope("sql", "a.mscope", SUMMARY).out.splitlines()
    equal([line.split() for line in text], [document["columns"]] +
          [[str(value) for value in row] for row in document["rows"]])
    rows = list(csv.reader(moescope("sql", "a.mscope", SUMMARY, "--csv").out.splitlines()))
    equal(rows, [document["columns"]] + [[str(v) for v in row] for row in document["rows"]])
    equal(moescope("sql", "a.mscope", "select null, 1.5, 'a,\"b'").out,
          'null  1.5  \'a,"b\'\nNULL  1.5  a,"b\n')
    equal(moescope("sql", "a.mscope", "select null as a, 1.5 as b, 'a,\"b' as c", "--csv").out,
          'a,b,c\n,1.5,"a,""b"\n')
    equal(query("a.mscope", "select null, 1.5, 'x'")["rows"], [[None, 1.5, "x"]])


@test
def statements_come_from_a_file_or_standard_input():
    recorded("a.mscope")
    pathlib.Path("q.sql").write_text("-- one\nselect 1 as a;\nselect 2 as b;\n", encoding="utf-8")
    for r in (moescope("sql", "a.mscope", "--file", "q.sql"), moescope("sql", "a.mscope", "-f", "-",
              stdin="select 1 as a; select 2 as b"), moescope("sql", "a.mscope",
              stdin="select 1 as a; select 2 as b;")):
        equal((r.status, r.out), (0, "a\n1\n\nb\n2\n"), r)
    equal(json.loads(moescope("sql", "a.mscope", "-f", "q.sql", "--json").out),
          [{"schema": "moescope/sql/1", "columns": ["a"], "rows": [[1]]},
           {"schema": "moescope/sql/1", "columns": ["b"], "rows": [[2]]}])
    one_sentence(moescope("sql", "a.mscope", "-f", "none.sql"), 1, "none.sql")
    one_sentence(moescope("sql", "a.mscope", "select 1", "-f", "q.sql"), 2, "--file")


@test
def several_runs_have_names():
    recorded("a.mscope", "b.mscope", "d/a.mscope")
    rows = query("a", "b", "d/a", "select run, count(*) from steps group by run")["rows"]
    equal([row[0] for row in rows], ["a", "a-2", "b"])
    equal(len({row[1] for row in rows}), 1)


@test
def limits():
    recorded("a.mscope")
    r = moescope("sql", "a.mscope", "select start_ns from kernels", "--limit", "3")
    equal((r.status, len(r.out.splitlines())), (0, 4), r)
    check("more than 3 rows" in r.err, r)
    r = moescope("sql", "a.mscope", "select start_ns from kernels")
    equal(len(r.out.splitlines()), 1001)
    r = moescope("sql", "a.mscope", "select 1", "--limit", "1")
    equal((r.out, r.err), ("1\n1\n", ""), r)


@test
def mistakes_are_one_sentence():
    recorded("a.mscope")
    one_sentence(moescope("sql", "a.mscope", "select nme from kernels"), 1, "no such column: nme")
    one_sentence(moescope("sql", "a.mscope", "selct 1"), 1, "column 1 of the query")
    one_sentence(moescope("sql", "a.mscope", "drop table kernels"), 1, "read-only")
    one_sentence(moescope("sql", "a.mscope", "attach 'x' as y"), 1, "read-only")
    one_sentence(moescope("sql", "none", "select count(*) from steps"), 1, "none")
    one_sentence(moescope("sql", "a.mscope", "selct"), 1, "no run or file 'selct'")
    one_sentence(moescope("sql", "a.mscope", "select 1", "--json", "--csv"), 2, "--json")
    equal(sorted(os.listdir(".")), ["a.mscope"])


@test
def a_statement_can_be_interrupted():
    recorded("a.mscope")
    process = subprocess.Popen(
        [MOESCOPE, "sql", "a.mscope", "-f", "-", "--csv"], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    try:
        interrupt(process)
    finally:
        process.kill()


def interrupt(process):
    process.stdin.write("with recursive t(n) as (select 1 union all select n + 1 from t) "
                        "select count(*) from t;")
    process.stdin.close()
    process.stdin = None
    # It catches the signal when it is in the statement.
    while "SigCgt:\t0000000000000000" in status(process.pid) or not caught(process.pid):
        check(process.poll() is None, "ended by itself")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    equal((process.returncode, out), (1, ""), err)
    check("interrupted" in err, err)


def status(pid):
    return pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")


def caught(pid):
    line = next(line for line in status(pid).splitlines() if line.startswith("SigCgt:"))
    return int(line.split()[1], 16) >> (signal.SIGINT - 1) & 1


@test
def prompt():
    recorded("a.mscope")
    master, slave = pty.openpty()
    process = subprocess.Popen([MOESCOPE, "sql", "a.mscope"], stdin=slave, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env=environment())
    os.close(slave)
    os.write(master, b".tables\n.schema loss\nselect 40 +\n2 as a;\nselect nope;\n.help\n"
                     b"select 7 as b;\n.quit\n")
    out, err = process.communicate(timeout=PATIENCE_S)
    os.close(master)
    equal(process.returncode, 0, err)
    for words in ("kernels\n", "CREATE TABLE loss(", "a\n42\n", ".quit", "b\n7\n"):
        check(words in out, words, out)
    check("no such column: nope" in err and "moescope> " in err and "...> " in err, err)


@test
def the_document_has_the_schema():
    need_sqlite()
    page = (ROOT / "docs/sql.md").read_text(encoding="utf-8")
    printed = moescope("sql", "--schema").out
    check(f"```sql\n{printed}```\n" in page, "docs/sql.md is not what 'sql --schema' prints: run tools/sql_doc.py")


@test
def examples_of_the_document_run():
    recorded("before.mscope", "after.mscope")
    page = (ROOT / "docs/sql.md").read_text(encoding="utf-8").split("## The SQLite file")[0]
    examples = [block.split("```")[0] for block in page.split("```sql\n")[1:]]
    check(len(examples) > 3)
    for example in examples:
        r = moescope("sql", "before", "after", "-f", "-", stdin=example)
        equal(r.status, 0, example, r)


@test
def export_to_sqlite():
    recorded("a.mscope")
    r = moescope("export", "a.mscope", "--to", "sqlite")
    equal((r.status, r.out), (0, ""), r)
    rows = query("a.mscope", "select name, count(*), sum(duration_ns) from kernels where not "
                             "untimed group by name order by 3 desc, 1")["rows"]
    with sqlite3.connect("a.sqlite") as db:
        equal([list(row) for row in db.execute(
            "select value, count(*), sum(end - start) from CUPTI_ACTIVITY_KIND_KERNEL join "
            "StringIds on id = demangledName group by value order by 3 desc, 1")], rows)
        for table, kind in (("kernels", "KERNEL"), ("api_calls", "API"), ("steps", "STEP"),
                            ("samples", "SAMPLE"), ("ranges", "RANGE")):
            wanted = query("a.mscope", f"select count(*) from {table}")["rows"][0][0]
            has = db.execute("select count(*) from sqlite_master where name = ?",
                             (f"MOESCOPE_{kind}",)).fetchone()[0]
            got = db.execute(f"select count(*) from MOESCOPE_{kind}").fetchone()[0] if has else 0
            equal(got, wanted, table)
    equal(sorted(os.listdir(".")), ["a.mscope", "a.sqlite"])
    one_sentence(moescope("export", "a.mscope", "--to", "sqlite", "-o", "-"), 1, "--output")
    one_sentence(moescope("export", "a.mscope", "--to", "sqlite", "-o", "no/x"), 1, "no/x")


@test
def the_sqlite_file_is_a_run_again():
    recorded("a.mscope")
    equal(moescope("export", "a.mscope", "--to", "sqlite").status, 0)
    r = moescope("import", "a.sqlite", "-o", "b.mscope")
    if r.status and not os.path.exists("b.mscope"):
        raise Skip("this build does not import SQLite files: " + r.err.strip())
    equal(r.status, 0, r)
    for words in (["kernels"], ["ops"], ["api"], ["steps"], ["transfers"], ["memory"]):
        one, two = (json.loads(moescope(words[0], run, *words[1:], "--json").out)["rows"]
                    for run in ("a.mscope", "b.mscope"))
        check(two == one, words)


@test
def export_to_csv():
    recorded("a.mscope")
    r = moescope("export", "a.mscope", "--to", "csv")
    equal((r.status, r.out), (0, ""), r)
    tables = {name.removesuffix(".csv") for name in os.listdir("a.csv")} - {"columns"}
    with open("a.csv/columns.csv", encoding="utf-8", newline="") as file:
        described = {(row["file"], row["column"]) for row in csv.DictReader(file)}
    for table in tables:
        with open(f"a.csv/{table}.csv", encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
        document = query("a.mscope", f"select * from {table} limit 50")
        equal(rows[0], document["columns"])
        check(all((f"{table}.csv", column) in described for column in rows[0]), table)
        for got, wanted in zip(rows[1:51], document["rows"]):
            equal(got[3:], ["" if value is None else value if isinstance(value, str) else
                            repr(value) if isinstance(value, float) and value % 1 else
                            str(int(value)) for value in wanted][3:], table)
    check("kernels" in tables and "steps" in tables, tables)
    one_sentence(moescope("export", "a.mscope", "--to", "csv"), 1, "a.csv")


if __name__ == "__main__":
    main()
