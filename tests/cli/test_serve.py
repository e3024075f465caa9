# SPDX-License-Identifier: Apache-2.0
"""moescope serve: what it answers is what the commands print; what it refuses, it refuses in one
sentence; and no client, however it behaves, harms the others."""

import contextlib
import http.client
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import sqlite3
import subprocess
import threading
import time
import urllib.parse

from cli import (MOESCOPE, PATIENCE_S, TINY, TINYMOE, Skip, check, environment, equal, main, moescope, need,
                 one_sentence, record, test)
from serving import Server, serving, wait_for

MONITORING = pathlib.Path(__file__).resolve().parents[2] / "examples/monitoring"
SAVE_FAKES = pathlib.Path(MOESCOPE).parent / "tests/save-fakes"
OTHER_ROUTES = ("events", "sql", "stacks")  # of a run, beside its views


# Tables that a flag of a command shows.
FLAGS = {f"counters-{by}s": ["counters", "--by", by] for by in ("kernel", "range", "layer", "expert", "stall", "line")}


@test
def answers_are_what_the_commands_print():
    record("a.mscope")
    with serving(".") as server:
        views = [path.split("/")[-1] for path in server.json("/api/openapi.json")["paths"]
                 if path.startswith("/api/runs/{run}/") and not path.endswith(OTHER_ROUTES) and "/timeline" not in path]
        check(len(views) >= 15, views)
        for view in views:
            if view.startswith(("routing-", "host-")):
                continue  # a form of the command routing or host
            words = FLAGS.get(view, [view])
            wanted = moescope(*words, "a.mscope", "--json", *([] if view == "report" else ["--limit", "100"]))
            equal(wanted.status, 0, view)
            equal(server.ask(f"/api/runs/a/{view}")[2], wanted.out, view)
        wanted = moescope("ops", "a.mscope", "--json", "--limit", "3", "--sort", "count", "--phase",
                          "forward", "--layer", "1", "--steps", "2:4")
        equal(server.ask("/api/runs/a/ops?limit=3&sort=count&phase=forward&layer=1&steps=2%3A4")[2],
              wanted.out)
        equal(server.ask("/api/runs/a/steps", method="HEAD")[2], "")


@test
def the_list_has_the_newest_run_first_and_nothing_else():
    record("a b.mscope", 2)
    record("c.mscope", 2)
    pathlib.Path("no-run.mscope").mkdir()
    pathlib.Path("other").mkdir()
    os.symlink("/etc", "link.mscope")
    with serving(".") as server:
        runs = server.json("/api/runs")["rows"]
        equal([run["name"] for run in runs], ["c", "a b"])
        equal(runs[0]["status"], "exited")
        check("tinymoe" in runs[0]["command"] and runs[0]["duration_ns"] > 0, runs)
        equal(server.json("/api/runs/a%20b/steps")["run"]["name"], "a b")
        server.refused("/api/runs/d/steps", 404, "no run 'd'", "'c'")
        # It appears, and vanishes.
        shutil.copytree("c.mscope", "d.mscope")
        wait_for(lambda: server.ask("/api/runs/d/steps")[0] == 200, "the new run")
        shutil.rmtree("d.mscope")
        wait_for(lambda: server.ask("/api/runs/d/steps")[0] == 404, "the run is gone")
    with serving("c.mscope") as server:
        equal([run["name"] for run in server.json("/api/runs")["rows"]], ["c"])
        server.refused("/api/runs/a%20b/steps", 404)


@test
def addresses_that_lead_out_or_nowhere_are_refused():
    pathlib.Path("runs").mkdir()
    record("runs/a.mscope", 2)
    shutil.copytree("runs/a.mscope", "secret.mscope")
    os.symlink("../secret.mscope", "runs/linked.mscope")
    # Directories of their own, with files from elsewhere.
    for name in ("json", "shard"):
        pathlib.Path(f"runs/{name}.mscope").mkdir()
        for source in pathlib.Path("secret.mscope").iterdir():
            target = f"runs/{name}.mscope/{source.name}"
            if (source.name == "run.json") == (name == "json"):
                os.symlink(f"../../{source}", target)
            else:
                shutil.copy(source, target)
    with serving("runs") as server:
        for target in ("/api/runs/../secret/steps", "/api/runs/..%2fsecret/steps",
                       "/api/runs/%2e%2e%2fsecret/steps", "/api/runs/linked/steps",
                       "/api/runs/json/steps", "/api/runs/shard/steps",
                       "/api/runs//steps", "/api/runs/a/../steps", "/../../etc/passwd",
                       "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/index.html/x", "/api", "/x",
                       "/metrics", "/api/runs/a.mscope/steps"):
            status, _, body = server.ask(target)
            check(status in (400, 404), target, status)
            check("root:" not in body and "tinymoe" not in body, target, body)
        server.refused("/api/runs/a%00b/steps", 400)
        server.refused("/api/runs/a%ff/steps", 400, "UTF-8")
        server.refused("/api/runs/a%/steps", 400)
        server.refused("/api/runs/a/steps?" + "x" * 9000, 400, "8192")
        server.refused("/api/runs/a/steps?" + "&".join(f"a{i}=1" for i in range(40)), 400)
        server.refused("/api/runs/a/nothing", 404, "no such view")
        server.refused("/api/runs/a/steps?limit=-1", 400, "'limit' needs")
        server.refused("/api/runs/a/kernels?classes=/etc/passwd", 400, "classes")
        server.refused("/api/runs/a/kernels?by=colour", 400, "by")
        server.refused("/api/runs/a/ops?steps=x", 400, "steps", "x")
        server.refused("/api/runs/a/steps?sort=nothing", 400, "nothing")
        server.refused("/api/runs/a/steps?colour=red", 400, "colour")
        server.refused("/api/runs/a/dashboard", 400)
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"):
            status, headers, _ = server.ask("/api/runs", method=method)
            equal((status, headers["Allow"]), (405, "GET, HEAD"), method)


@test
def every_reply_has_the_strict_headers():
    record("a.mscope", 2)
    with serving(".") as server:
        for target in ("/", "/page.js", "/page.css", "/api/runs", "/api/runs/a/steps", "/nothing"):
            _, headers, _ = server.ask(target)
            check("default-src 'none'" in headers["Content-Security-Policy"], target)
            equal(headers["X-Content-Type-Options"], "nosniff", target)
            equal(headers["Cross-Origin-Resource-Policy"], "same-origin", target)
            check("Access-Control-Allow-Origin" not in headers, target)
        # A name of somebody else's that leads here.
        server.refused("/api/runs", 421, "localhost", Host="evil.example")
        server.refused("/api/runs", 421, Host="localhost.evil.example")
        equal(server.ask("/api/runs", Host=f"localhost:{server.port}")[0], 200)


@test
def a_token_is_asked_for():
    record("a.mscope", 2)
    with serving(".", "--token", "abc-1") as server:
        check(server.url.endswith("/?token=abc-1"), server.url)
        for headers in ({}, {"Authorization": "Bearer abc-2"}, {"Authorization": "Bearer abc-11"},
                        {"Authorization": "Bearer "}, {"Authorization": "Basic abc-1"},
                        {"Cookie": "moescope_token=abc"}):
            for target in ("/", "/api/runs", "/api/runs/a/events", "/nothing"):
                server.refused(target, 401, "token", **headers)
        equal(server.ask("/api/runs", Authorization="Bearer abc-1")[0], 200)
        status, headers, _ = server.ask("/?token=abc-1")
        equal((status, headers["Location"]), (303, "/"))
        check("HttpOnly" in headers["Set-Cookie"] and "SameSite=Strict" in headers["Set-Cookie"])
        equal(server.ask("/", Cookie=headers["Set-Cookie"].split(";")[0])[0], 200)
        server.refused("/?token=abc", 401)
    # An address that others can reach gets one by itself.
    with serving(".", "--address", "0.0.0.0") as server:
        token = server.url.split("=")[1]
        equal(len(token), 32)
        server.refused("/api/runs", 401)
        equal(server.ask("/api/runs", Authorization=f"Bearer {token}")[0], 200)


@test
def a_comparison_is_what_the_command_prints():
    record("a.mscope", 12)
    record("b.mscope", 12)
    pathlib.Path("none.mscope").mkdir()
    here = os.getcwd()
    with serving(".") as server:
        for options, query in (([], ""), (["--limit", "2", "--sort", "difference"], "&limit=2&sort=difference"),
                               (["--steps", "3:9", "--limit", "0"], "&steps=3%3A9&limit=0")):
            wanted = moescope("compare", f"{here}/a.mscope", f"{here}/b.mscope", "--json",
                              *(options or ["--limit", "100"]))
            equal(wanted.status, 0, wanted)
            equal(server.ask(f"/api/compare?a=a&b=b{query}")[2], wanted.out, query)
        check("/api/compare" in server.json("/api/openapi.json")["paths"])
        server.refused("/api/compare?a=a", 400, "two runs")
        server.refused("/api/compare?a=a&b=c", 404, "no run 'c'")
        server.refused("/api/compare?a=none&b=a", 404, "no run 'none'")
        server.refused("/api/compare?a=..%2Fa&b=a", 404)
        server.refused("/api/compare?a=a&b=b&colour=red", 400, "colour")
        server.refused("/api/compare?a=a&b=b&limit=x", 400, "limit")
        server.refused("/api/compare?a=a&b=b&steps=x", 400, "steps")
        server.refused("/api/compare?a=a&b=b&sort=nothing", 400, "nothing")
        # A side that changes is compared anew.
        before = server.ask("/api/compare?a=a&b=b")[2]
        shutil.rmtree("b.mscope")
        shutil.copytree("a.mscope", "b.mscope")
        wait_for(lambda: server.ask("/api/compare?a=a&b=b")[2] != before, "the other run")


def query_of(text):
    return f"/api/runs/a/sql?query={urllib.parse.quote(text)}"


def has_sql():
    record("a.mscope", 4)
    if "no SQLite" in moescope("sql", "a.mscope", "SELECT 1").err:
        raise Skip("built without SQLite")


ENDLESS = "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) "


@test
def queries_are_answered_as_by_the_command():
    has_sql()
    with serving(".") as server:
        tables = {table["name"]: table["columns"] for table in server.json("/api/runs/a/sql")["tables"]}
        schema = moescope("sql", "--schema").out
        equal(list(tables), [line.split()[2].rstrip("(") for line in schema.splitlines() if line.startswith("CREATE")])
        check({"name": "duration_ns", "type": "INTEGER"} in tables["steps"], tables["steps"])
        for text in ("SELECT step, duration_ns FROM steps ORDER BY step",
                     "SELECT name,\n\tcount(*) -- of each\nFROM ranges GROUP BY name ORDER BY name",
                     "SELECT NULL, 1.5, 'ä\"', x'00ff'", "EXPLAIN SELECT 1"):
            wanted = json.loads(moescope("sql", "a.mscope", text, "--json").out)
            got = server.json(query_of(text))
            equal((got["columns"], got["rows"], got["more"]), (wanted["columns"], wanted["rows"], False), text)
            equal(got["limits"]["rows"], 10000)
        equal(server.json(query_of("SELECT 9007199254740992, 9007199254740993"))["rows"],
              [[9007199254740992, "9007199254740993"]])
        many = server.json(query_of(ENDLESS + "SELECT x FROM t"))
        equal((len(many["rows"]), many["more"]), (10000, True))
        large = server.json(query_of(ENDLESS + "SELECT hex(zeroblob(500000)) FROM t"))
        check(large["more"] and 10 < len(large["rows"]) < 100, len(large["rows"]))
        server.refused("/api/runs/b/sql?query=SELECT%201", 404, "no run 'b'")
        server.refused("/api/runs/b/sql", 404, "no run 'b'")
        server.refused("/api/runs/a/sql?limit=1", 400, "limit")
        server.refused(query_of("SELECT nothing FROM steps"), 400, "nothing", "column")
        server.refused(query_of("SELECT 1; SELECT 2"), 400, "one query")
        server.refused(query_of(" ; "), 400, "must be a SELECT")


@test
def hostile_queries_are_refused():
    has_sql()
    secret = pathlib.Path("secret.sqlite").resolve()
    with sqlite3.connect(secret) as database:
        database.execute("CREATE TABLE t(word)")
        database.execute("INSERT INTO t VALUES('hidden')")
    database.close()
    before = {path: path.stat().st_mtime_ns for path in pathlib.Path(".").rglob("*")}
    with serving(".") as server:
        for text in (f"ATTACH '{secret}' AS s", f"ATTACH 'file:{secret}?mode=ro' AS s", "DETACH main",
                     "SELECT load_extension('x')", "SELECT load_extension('x', 'y')", "PRAGMA journal_mode = wal",
                     "PRAGMA temp_store_directory = '.'", "PRAGMA writable_schema = 1", "PRAGMA trusted_schema = 1",
                     "SELECT * FROM pragma_journal_mode", "VACUUM", f"VACUUM INTO '{secret}-copy'",
                     "CREATE TABLE x(a)", "CREATE TEMP TABLE x(a)", "CREATE VIEW x AS SELECT 1",
                     "CREATE TEMP TRIGGER x AFTER INSERT ON steps BEGIN SELECT 1; END",
                     "CREATE VIRTUAL TABLE x USING fts5(a)", "CREATE VIRTUAL TABLE x USING csv(filename='/etc/passwd')",
                     "INSERT INTO steps(step) VALUES(1)", "UPDATE steps SET step = 1", "DELETE FROM steps",
                     "REPLACE INTO steps(step) VALUES(1)", "DROP TABLE steps", "ALTER TABLE steps RENAME TO x", "BEGIN",
                     "SAVEPOINT x", "REINDEX", "ANALYZE", "SELECT readfile('/etc/passwd')", "SELECT writefile('x', 'y')",
                     "SELECT * FROM fsdir('.')", "SELECT edit('x')", "INSERT INTO sqlite_master VALUES(1,2,3,4,5)",
                     "SELECT zeroblob(100000000)",
                     "SELECT 'a' LIKE '" + "%a" * 1000 + "'", "SELECT " + "(" * 2000 + "1" + ")" * 2000):
            status, _, body = server.ask(query_of(text))
            check(status in (400, 403), text, status, body)
            sentence = json.loads(body)["error"]
            check(sentence and "hidden" not in body and "root:" not in body, text, body)
        server.refused(query_of("SELECT load_extension('x')"), 403, "read-only")
        # Nothing is kept between queries, and nothing was written.
        equal(server.json(query_of("SELECT count(*) FROM steps"))["rows"], [[4]])
        equal({path: path.stat().st_mtime_ns for path in pathlib.Path(".").rglob("*")}, before)


def ask_endlessly(server, answers, enough):
    """Endless queries, until it is enough or the server is gone; those that had to wait do not count."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        while not (enough.is_set() and answers):
            status, _, body = server.ask(query_of(ENDLESS + f"SELECT count(*) + {len(answers)} FROM t"))
            if status != 503:
                answers.append((status, json.loads(body)["error"]))


@contextlib.contextmanager
def endless(server):
    """Answers to endless queries, one of which runs."""
    answers, enough, other = [], threading.Event(), []
    thread = threading.Thread(target=ask_endlessly, args=(server, answers, enough))
    thread.start()

    def told():
        other[:] = server.ask(query_of(f"SELECT {time.monotonic_ns()}"))
        return other[0] == 503

    try:
        wait_for(told, "the endless query runs")
        check("another query is running" in json.loads(other[2])["error"], other)
        yield answers
    finally:
        enough.set()
        thread.join(PATIENCE_S)


@test
def an_endless_query_is_stopped_and_takes_nothing_from_others():
    has_sql()
    with serving(".") as server:
        with endless(server) as answers:
            equal(server.ask("/api/runs/a/steps")[0], 200)
        equal(answers[0][0], 400)
        check("stopped after 10 seconds" in answers[0][1], answers)
        equal(server.json(query_of("SELECT 'after'"))["rows"], [["after"]])
    # The end of the server ends it.
    server = Server(".")
    with endless(server):
        server.process.terminate()
        equal(server.process.communicate(timeout=PATIENCE_S)[1], "")
        equal(server.process.returncode, 0)


def folded(run, form):
    return sum(int(line.rsplit(" ", 1)[1])
               for line in moescope("export", run, "--to", form, "-o", "-").out.splitlines())


@test
def stacks_are_those_of_the_export():
    record("a.mscope", 6)
    with serving(".") as server:
        for query, form in (("", "folded-host"), ("?of=host", "folded-host"), ("?of=device", "folded")):
            tree = server.json(f"/api/runs/a/stacks{query}")
            nodes = tree["nodes"]
            n = len(nodes["parent"])
            equal({len(column) for column in nodes.values()}, {n})
            equal(tree["total_ns"], folded("a.mscope", form), query)
            equal(sum(nodes["self_ns"]) + tree["merged_ns"], tree["total_ns"], query)
            equal((sum(nodes["merged"]), sum(nodes["merged_ns"])), (tree["merged"], tree["merged_ns"]))
            for i in range(1, n):
                check(nodes["parent"][i] < i, i)
                check(nodes["total_ns"][i] >= tree["least_ns"] and tree["names"][nodes["name"][i]], i)
                inside = sum(nodes["total_ns"][k] for k in range(n) if nodes["parent"][k] == i)
                equal(nodes["self_ns"][i] + inside + nodes["merged_ns"][i], nodes["total_ns"][i], i)
        check(len(server.json("/api/runs/a/stacks")["nodes"]["parent"]) > 10)
        server.refused("/api/runs/a/stacks?of=both", 400, "'of'")
        server.refused("/api/runs/a/stacks?steps=1", 400, "steps")
        server.refused("/api/runs/b/stacks", 404, "no run 'b'")


def events(server, run, seen, ready):
    """Follows a run and notes the events with their times."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    connection.request("GET", f"/api/runs/{run}/events")
    reply = connection.getresponse()
    ready()
    while line := reply.readline():
        if line.startswith(b"event: "):
            seen.append((line[7:].strip().decode(), time.monotonic()))
    connection.close()


@test
def events_tell_of_a_run_that_grows_and_goes():
    record("a.mscope", 2)
    with serving(".") as server:
        seen, started = [], threading.Event()
        thread = threading.Thread(target=events, args=(server, "a", seen, started.set))
        thread.start()
        check(started.wait(PATIENCE_S))
        wait_for(lambda: len(seen) == 1, "the first event")
        pathlib.Path("a.mscope/more").write_text("x", encoding="ascii")
        wait_for(lambda: len(seen) == 2, "the second event")
        shutil.rmtree("a.mscope")
        wait_for(lambda: seen[-1][0] == "gone", "the last event")
        thread.join(PATIENCE_S)
        equal(sorted({name for name, _ in seen}), ["changed", "gone"])
        server.refused("/api/runs/a/events", 404)


@test
def a_run_is_followed_while_it_is_recorded():
    need(TINYMOE)
    with serving(".") as server:
        equal(server.json("/api/runs")["rows"], [])
        program = subprocess.Popen([MOESCOPE, "run", "-q", "-o", "a.mscope", "--", TINYMOE, "--steps",
                                    "100000"], env=environment(), stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            counts = set()

            def grows():
                status, _, body = server.ask("/api/runs/a/steps?limit=1")
                if status == 200:
                    counts.add(json.loads(body)["total"]["steps"])
                return len(counts) > 3

            wait_for(grows, "steps are added")
            equal(server.json("/api/runs")["rows"][0]["status"], "running")
        finally:
            os.killpg(program.pid, 9)
            program.wait(PATIENCE_S)
        wait_for(lambda: server.json("/api/runs")["rows"][0]["status"] != "running", "its end")
        equal(server.json("/api/runs/a/steps?limit=1")["run"]["status"], "abandoned")


@test
def broken_requests_are_refused_and_harm_nobody():
    record("a.mscope", 2)
    with serving(".") as server:
        before = server.descriptors()
        for sent in (b"\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01" * 50,
                     b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
                     b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello",
                     b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                     b"GET / HTTP/1.1\r\nNo colon\r\n\r\n",
                     b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n\r\n",
                     b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 100000 + b"\r\n\r\n",
                     b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20000 + b"\r\n",
                     b"GET relative HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
                     b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nExpect: 100-continue\r\n\r\n"):
            got = server.raw(sent, half_closed=True)
            status = int(got.split()[1]) if got.startswith(b"HTTP/") else None
            check(status in (None, 100, 200) or 400 <= status < 600, sent[:60], got[:100])
            equal(server.ask("/api/runs")[0], 200, sent[:60])
        # Clients that go away in the middle of an answer, or of their question.
        for _ in range(50):
            with socket.create_connection(("127.0.0.1", server.port)) as line:
                line.sendall(b"GET /api/runs/a/report HTTP/1.1\r\nHost: localhost\r\n\r\n")
            with socket.create_connection(("127.0.0.1", server.port)) as line:
                line.sendall(b"GET /api/runs/a/rep")
        wait_for(lambda: server.descriptors() <= before + 2, "connections are closed")


@test
def slow_clients_are_left_behind():
    record("a.mscope", 2)
    with serving(".") as server:
        # They say nothing more, or read nothing, and others are answered meanwhile.
        silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(50)]
        for line in silent:
            line.sendall(b"GET /api/runs HTTP/1.1\r\nHost: local")
        deaf = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(50)]
        for line in deaf:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            line.sendall(b"GET /api/runs/a/report HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20)
        equal(server.ask("/api/runs/a/steps")[0], 200)
        for line in silent:
            line.settimeout(PATIENCE_S)
            check(line.recv(100)[:12] in (b"", b"HTTP/1.1 408"))
        for line in silent + deaf:
            line.close()


def ask_often(server, targets, times, statuses):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    for i in range(times):
        connection.request("GET", targets[i % len(targets)])
        reply = connection.getresponse()
        reply.read()
        statuses.append(reply.status)
    connection.close()


@test
def many_requests_leave_nothing_behind():
    record("a.mscope", 2)
    targets = ["/api/runs", "/api/runs/a/steps", "/", "/nothing", "/api/runs/b/steps", "/api/runs/a/ops?limit=1"]
    with serving(".", "--metrics") as server:
        def storm(times):
            statuses = []
            threads = [threading.Thread(target=ask_often, args=(server, targets, times, statuses))
                       for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(PATIENCE_S)
            equal((len(statuses), set(statuses)), (4 * times, {200, 404}))

        storm(300)
        descriptors, resident = server.descriptors(), server.resident_bytes()
        storm(int(os.environ.get("MOESCOPE_SERVE_REQUESTS", "8000")) // 4)
        wait_for(lambda: server.descriptors() <= descriptors, "connections are closed")
        check(server.resident_bytes() < resident + (8 << 20), resident, server.resident_bytes())


@test
def many_viewers_are_told_in_time():
    record("a.mscope", 2)
    viewers = 200
    resource.setrlimit(resource.RLIMIT_NOFILE, (2048, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    with serving(".") as server:
        seen = [[] for _ in range(viewers)]
        started = threading.Semaphore(0)
        threads = [threading.Thread(target=events, args=(server, "a", mine, started.release))
                   for mine in seen]
        for thread in threads:
            thread.start()
        for _ in threads:
            check(started.acquire(timeout=PATIENCE_S))
        wait_for(lambda: all(seen), "all have begun")
        for i in range(3):
            counts = [len(mine) for mine in seen]
            pathlib.Path("a.mscope/more").write_text("x" * i, encoding="ascii")
            wait_for(lambda: all(len(mine) > n for mine, n in zip(seen, counts)), "all are told")
        shutil.rmtree("a.mscope")
        for thread in threads:
            thread.join(PATIENCE_S)


def samples_of(body):
    """Values by series; checks what OpenMetrics asks of a body."""
    check(body.endswith("\n# EOF\n"), body[-80:])
    samples, kinds, current = {}, {}, None
    for line in body.splitlines():
        words = line.split(" ", 3)
        if line.startswith("# TYPE "):
            current = words[2]
            check(current not in kinds, line)
            kinds[current] = words[3]
        elif line.startswith("# HELP "):
            equal(words[2], current)
        elif not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            check(name not in samples, line)
            equal(name.split("{")[0], current + ("_total" if kinds[current] == "counter" else ""))
            samples[name] = float(value)
    return samples


@test
def metrics_are_openmetrics():
    record("a.mscope", 4)
    steps = json.loads(moescope("steps", "a.mscope", "--json").out)["total"]
    with serving(".", "--metrics") as server:
        status, headers, body = server.ask("/metrics")
        equal(status, 200)
        check(headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0"))
        samples = samples_of(body)
        equal(samples['moescope_steps_steps{run="a"}'], float(steps["steps"]))
        check(len(samples) < 400, len(samples))
        equal(moescope("export", "a.mscope", "--to", "openmetrics", "-o", "-").out, body)
    with serving(".") as server:
        server.refused("/metrics", 404)


@test
def metrics_of_recorded_gpus_are_what_export_writes():
    """The server loads less of a run, and tells the same."""
    recordings = sorted((pathlib.Path(__file__).resolve().parents[1] / "data").glob("h200-*"))
    check(len(recordings) >= 4, recordings)
    for recording in recordings:
        with serving(recording, "--metrics") as server:
            status, _, body = server.ask("/metrics")
            equal(status, 200, body)
            check("moescope_kernels_time_seconds_total" in "".join(samples_of(body)), recording)
            equal(moescope("export", recording, "--to", "openmetrics", "-o", "-").out, body, recording)


@test
def layers_and_their_extreme_experts_have_series():
    record("a.mscope", 4)
    rows = json.loads(moescope("routing", "a.mscope", "--json").out)["rows"]
    with serving(".", "--metrics") as server:
        samples = samples_of(server.ask("/metrics")[2])
    check(len(rows) >= 2, rows)
    for row in rows:
        labels = f'run="a",layer="{row["layer"]}",phase="{row["phase"]}",experts="{row["experts"]}"'
        for key, series in (("imbalance", ""), ("entropy_norm", ""), ("tokens", "_total"), ("dropped", "_total")):
            equal(samples[f"moescope_routing_layer_{key}{series}{{{labels}}}"], float(row[key]), key)
        told = {int(name.rsplit('"', 2)[1]): value for name, value in samples.items()
                if name.startswith(f"moescope_routing_expert_assignments_total{{{labels},expert=")}
        order = sorted(range(row["experts"]), key=lambda e, load=row["load"]: (-load[e], e))
        k = row["hot_experts"]
        equal(told, {e: float(row["load"][e]) for e in set(order[:k] + order[-k:])})
        check(len(told) <= 2 * k, told)


@test
def what_a_run_has_no_records_of_has_no_series():
    need(SAVE_FAKES)
    record("a.mscope", 2)
    subprocess.run([SAVE_FAKES, "."], check=True)
    sections = ("kernels", "api", "transfers", "comm", "moe")

    def told(run):
        names = samples_of(moescope("export", f"{run}.mscope", "--to", "openmetrics", "-o", "-").out)
        return {section for section in sections for name in names if name.startswith(f"moescope_{section}_")}

    equal(told("a"), set())
    equal(told("gpu"), set(sections))


def prometheus():
    """The folder of the programs prometheus and promtool: the system's, or those of Debian's package,
    which is unpacked, not installed: installing it would start a service."""
    installed = shutil.which("promtool")
    if installed and shutil.which("prometheus"):
        return pathlib.Path(installed).parent
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    folder = cache / "moescope-tests" / "prometheus"
    if not (folder / "usr/bin/promtool").exists():
        folder.mkdir(parents=True, exist_ok=True)
        for command in (["apt-get", "download", "prometheus"], ["sh", "-c", "dpkg -x prometheus_*.deb ."]):
            if subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              check=False).returncode:
                raise Skip("Debian's package prometheus cannot be had here")
    return folder / "usr/bin"


def free_port():
    with socket.socket() as line:
        line.bind(("127.0.0.1", 0))
        return line.getsockname()[1]


def older_format(body):
    """promtool lints the older text format, where a family of a counter has the name of its samples."""
    counters = {line.split()[2] for line in body.splitlines() if line.startswith("# TYPE ") and line.endswith(" counter")}

    def renamed(line):
        words = line.split(" ", 3)
        if line.startswith("# ") and len(words) > 2 and words[2] in counters:
            words[2] += "_total"
        return " ".join(words)

    return "".join(renamed(line) + "\n" for line in body.splitlines())


ALERTS = r"""
rule_files: [alerts.yml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'moescope_routing_expert_load_ratio{run="a",layer="3",expert="7"}', values: '3.5x30'}
      - {series: 'moescope_routing_expert_load_ratio{run="a",layer="3",expert="1"}', values: '1.5x30'}
      - {series: 'moescope_routing_layer_imbalance{run="a",layer="2"}', values: '2.5x30'}
      - {series: 'moescope_routing_layer_imbalance_floor{run="a",layer="2"}', values: '1.1x30'}
      - {series: 'moescope_routing_layer_imbalance{run="a",layer="3"}', values: '2.5x30'}
      - {series: 'moescope_routing_layer_imbalance_floor{run="a",layer="3"}', values: '1.6x30'}
      - {series: 'moescope_routing_layer_dropped_total{run="a",layer="2"}', values: '0+3x30'}
      - {series: 'moescope_routing_layer_assignments_total{run="a",layer="2"}', values: '0+200x30'}
      - {series: 'moescope_routing_layer_dropped_total{run="a",layer="3"}', values: '0+1x30'}
      - {series: 'moescope_routing_layer_assignments_total{run="a",layer="3"}', values: '0+200x30'}
    alert_rule_test:
      - {alertname: ExpertHot, eval_time: 9m, exp_alerts: []}
      - {alertname: ExpertHot, eval_time: 20m, exp_alerts: [{exp_labels: {run: a, layer: 3, expert: 7}}]}
      - {alertname: LayerImbalanced, eval_time: 20m, exp_alerts: [{exp_labels: {run: a, layer: 2}}]}
      - {alertname: TokensDropped, eval_time: 25m, exp_alerts: [{exp_labels: {run: a, layer: 2}}]}
"""


@test
def alerts_fire_for_what_they_name():
    programs = prometheus()
    check(subprocess.run([programs / "promtool", "check", "rules", MONITORING / "alerts.yml"],
                         stdout=subprocess.DEVNULL, check=False).returncode == 0, "alerts.yml")
    # Their words are not a matter of this test.
    rules = "".join(line for line in (MONITORING / "alerts.yml").read_text(encoding="utf-8").splitlines(True)
                    if "annotations:" not in line and "summary:" not in line)
    pathlib.Path("alerts.yml").write_text(rules, encoding="utf-8")
    pathlib.Path("test.yml").write_text(ALERTS, encoding="utf-8")
    r = subprocess.run([programs / "promtool", "test", "rules", "test.yml"], stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, text=True, check=False)
    equal(r.returncode, 0, r.stdout)


def scraped(server, scrapes, programs):
    """Prometheus with the example's configuration and this many scrapes of the server: a function that
    queries it, as a context."""
    port = free_port()
    text = (MONITORING / "prometheus.yml").read_text(encoding="utf-8")
    text = text.replace("15s", "1s").replace("127.0.0.1:7878", f"127.0.0.1:{server.port}")
    text = text.replace("    # auth", "    auth").replace("    #   cred", "      cred").replace("TOKEN", "abc")
    pathlib.Path("prometheus.yml").write_text(text, encoding="utf-8")
    shutil.copy(MONITORING / "alerts.yml", "alerts.yml")
    process = subprocess.Popen([programs / "prometheus", "--config.file=prometheus.yml",
                                "--storage.tsdb.path=data", f"--web.listen-address=127.0.0.1:{port}"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def query(expression):
        """All values; None: it is still starting, or does not understand."""
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
            connection.request("GET", f"/api/v1/query?query={urllib.parse.quote(expression)}")
            results = json.loads(connection.getresponse().read())["data"]["result"]
        except (OSError, http.client.HTTPException, ValueError, KeyError):
            return None
        return [float(result["value"][1]) for result in results]

    @contextlib.contextmanager
    def running():
        try:
            wait_for(lambda: max(query("count_over_time(up[1h])") or [0]) >= scrapes, "scrapes")
            yield query
        finally:
            process.terminate()
            process.wait(PATIENCE_S)

    return running()


@test
def prometheus_scrapes_without_an_error():
    programs = prometheus()
    record("a.mscope", 4)
    with serving(".", "--metrics", "--token", "abc") as server:
        body = server.ask("/metrics", Authorization="Bearer abc")[2]
        lint = subprocess.run([programs / "promtool", "check", "metrics"], input=older_format(body), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        equal((lint.returncode, lint.stdout), (0, ""))
        with scraped(server, int(os.environ.get("MOESCOPE_SERVE_SCRAPES", "5")), programs) as query:
            equal(query("min_over_time(up[1h])"), [1.0])
            equal(query("moescope_steps_steps"), [4.0])


@test
def the_dashboard_shows_what_there_is():
    """Every figure is in a scrape, of a run of the host or of one with device records, and every expression is
    one that Prometheus understands."""
    programs = prometheus()
    need(SAVE_FAKES)
    os.mkdir("runs")
    subprocess.run([SAVE_FAKES, "runs"], check=True)
    known = set()
    for run in ("training", "gpu"):
        body = moescope("export", f"runs/{run}.mscope", "--to", "openmetrics", "-o", "-").out
        known |= {name.split("{")[0] for name in samples_of(body)}
    dashboard = json.loads((MONITORING / "grafana.json").read_text(encoding="utf-8"))
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    rules = (MONITORING / "alerts.yml").read_text(encoding="utf-8")
    for text in expressions + [rules]:
        for name in re.findall(r"moescope_\w+", text):
            check(name in known, name, text)
    with serving("runs/training.mscope", "--metrics", "--token", "abc") as server, scraped(server, 2, programs) as query:
        for expression in expressions:
            values = query(expression.replace("$run", ".*").replace("$__rate_interval", "1m"))
            check(values is not None, expression)
            if not re.search("kernels|transfers", expression):
                check(values, expression)


class Watched(Server):
    """moescope run --metrics, with a server beside the program until that ends."""

    def __init__(self, metrics, *words, program, **variables):  # pylint: disable=super-init-not-called
        self.process = subprocess.Popen([MOESCOPE, "run", "-o", "a.mscope", "--metrics", metrics, *words, "--",
                                         *map(str, program)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env=environment(**variables),
                                        start_new_session=True)
        self.said = self.process.stderr.readline()
        if "without its web server" in self.said:
            self.process.wait(PATIENCE_S)
            raise Skip("built without libmicrohttpd")
        check(self.said.startswith("moescope: metrics at http://"), self.said)
        self.port = int(self.said.split("://")[1].split("/")[0].split(":")[-1])

    def end(self):
        """The exit status and what the program printed."""
        out, _ = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, out


# Says that it runs, and ends with the status in the file that it waits for.
WAITS = ["sh", "-c", "echo begun; while ! [ -s status ]; do sleep 0.05; done; exit $(cat status)"]


@test
def run_serves_the_metrics_of_the_growing_run():
    need(TINYMOE)
    # Nobody reads what it prints: on a fast machine it would soon wait for that.
    server = Watched("0", program=["sh", "-c", 'exec "$0" "$@" > /dev/null', TINYMOE, *TINY, "--steps", "100000000"])
    try:
        counts = set()

        def grows():
            status, headers, body = server.ask("/metrics")
            equal(status, 200, body)
            check(headers["Content-Type"].startswith("application/openmetrics-text"))
            samples = samples_of(body)
            check(any('status="running"' in name for name in samples), body)
            counts.add(samples.get('moescope_steps_steps{run="a"}', 0))
            return len(counts) > 3

        wait_for(grows, "steps are added")
        for target in ("/", "/api/runs", "/api/runs/a/steps", "/api/runs/a/events", "/page.js", "/?token=x"):
            server.refused(target, 404, "/metrics")
        server.refused("/metrics", 421, Host="evil.example")
        # The program's end is the end of both, and as without us.
        os.kill(server.process.pid, signal.SIGTERM)
        equal(server.end()[0], -signal.SIGTERM)
    finally:
        if server.process.poll() is None:
            os.killpg(server.process.pid, signal.SIGKILL)
    with socket.socket() as line:
        check(line.connect_ex(("127.0.0.1", server.port)) != 0, "the port is still open")
    equal(json.loads(moescope("steps", "a.mscope", "--json").out)["run"]["status"], "killed")


@test
def clients_do_not_hold_up_the_end_of_the_program():
    server = Watched("0", "-q", program=WAITS)
    lines = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(20)]
    for i, line in enumerate(lines):
        line.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n" + (b"\r\n" if i % 2 else b""))
    pathlib.Path("status").write_text("7", encoding="ascii")
    equal(server.end(), (7, "begun\n"))
    for line in lines:
        line.close()


@test
def the_program_of_a_served_run_is_as_without():
    """It has the same descriptors, and of the server nothing in its environment."""
    program = ["sh", "-c", "ls -1 /proc/self/fd; env | sort | grep -v ^MOESCOPE_RUN="]
    plain = moescope("run", "-q", "-o", "b.mscope", "--", *program)
    equal(plain.status, 0, plain)
    equal(Watched("0", "-q", "--token", "abc", program=program).end(), (0, plain.out))


@test
def others_need_a_token_for_the_metrics_of_a_run():
    for words, length in (([], 32), (["--token", "abc"], 3)):
        shutil.rmtree("a.mscope", ignore_errors=True)
        pathlib.Path("status").unlink(missing_ok=True)
        server = Watched("0.0.0.0:0", *words, program=WAITS)
        token = server.said.split("Bearer ")[1].strip("'\n")
        equal(len(token), length, server.said)
        server.refused("/metrics", 401, "token")
        equal(server.ask("/metrics", Authorization=f"Bearer {token}")[0], 200)
        pathlib.Path("status").write_text("0", encoding="ascii")
        equal(server.end()[0], 0)


@test
def trouble_with_the_port_comes_before_the_program():
    record("a.mscope", 2)
    before = sorted(os.listdir("a.mscope"))
    with serving(".") as server:
        r = moescope("run", "-f", "-o", "a.mscope", "--metrics", server.port, "--", "touch", "ran")
        one_sentence(r, 1, "cannot listen", str(server.port))
    one_sentence(moescope("run", "--metrics", "203.0.113.1:0", "--token", "x", "--", "touch", "ran"), 1, "cannot listen")
    one_sentence(moescope("run", "--metrics", "here:0", "--", "touch", "ran"), 1, "'here' is not an address")
    for text in ("", "x", "65536", "-1", "::1", "::1:9100", "127.0.0.1:", ":9100", "[]:9100", "1 2", "9100/"):
        one_sentence(moescope("run", f"--metrics={text}", "--", "touch", "ran"), 2, "--metrics")
    one_sentence(moescope("run", "--metrics", "0", "--token", "a b", "--", "touch", "ran"), 2, "--token")
    one_sentence(moescope("run", "--token", "abc", "--", "touch", "ran"), 2, "--metrics")
    check(not os.path.exists("ran"), "the program has run")
    equal(sorted(os.listdir("a.mscope")), before)
    equal(os.listdir("."), ["a.mscope"])


@test
def without_a_run_there_are_no_metrics_and_the_program_runs():
    r = moescope("run", "-o", "nowhere/a.mscope", "--metrics", "0", "--", "touch", "ran",
                 env=environment(TMPDIR="/nowhere"))
    if "without its web server" in r.err:
        raise Skip("built without libmicrohttpd")
    equal(r.status, 0, r)
    check("'--metrics' is left out" in r.err, r.err)
    check(os.path.exists("ran"), r)


@test
def trouble_at_the_start_is_one_sentence():
    with serving(".") as server:
        one_sentence(moescope("serve", ".", "--port", server.port), 1, "cannot listen", str(server.port))
    one_sentence(moescope("serve", "nothing"), 1, "nothing")
    pathlib.Path("file").write_text("x", encoding="ascii")
    one_sentence(moescope("serve", "file"), 1, "neither a run nor a directory")
    one_sentence(moescope("serve", ".", "--address", "here"), 1, "'here' is not an address")
    one_sentence(moescope("serve", ".", "--address", "203.0.113.1"), 1, "cannot listen")
    one_sentence(moescope("serve", ".", "--token", "a b"), 2, "--token")


main()
