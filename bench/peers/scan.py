# SPDX-License-Identifier: Apache-2.0
"""scan.py FILE.sqlite [TABLE…]: SQLite's own scan of tables: rows, and the time between start and
end.

Without a table: of all that have both. Only the system's SQLite library does work here; Python
waits.
"""
import sqlite3
import sys


def main():
    path, *tables = sys.argv[1:]
    base = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    if not tables:
        every = [row[0] for row in base.execute("select name from sqlite_master where type='table'")]
        for table in every:
            columns = {row[1] for row in base.execute(f'pragma table_info("{table}")')}
            if {"start", "end"} <= columns:
                tables.append(table)
    for table in tables:
        rows, ns = base.execute(f'select count(*), sum("end" - start) from "{table}"').fetchone()
        print(table, "rows", rows, "ns", ns)


if __name__ == "__main__":
    main()
