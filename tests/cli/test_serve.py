# SPDX-License-Identifier: Apache-2.0
"""moescope serve: what it answers is what the commands print; what it refuses, it refuses in one
sentence; and no client, however it behaves, harms the others."""

import http.client
import json
import os
import pathlib
import resource
import shutil
import socket
import subprocess
import threading
import time

from cli import (MOESCOPE, PATIENCE_S, TINYMOE, Skip, check, environment, equal, main, moescope, need,
                 one_sentence, record, test)
from serving import serving, wait_for


@test
def answers_are_what_the_commands_print():
    record("a.mscope")
    with serving(".") as server:
        views = [path.split("/")[-1] for path in server.json("/api/openapi.json")["paths"]
                 if path.startswith("/api/runs/{run}/") and not path.endswith("/events") and "/timeline" not in path]
        check(len(views) >= 15, views)
        for view in views:
            if view.startswith("routing-"):
                continue  # a form of the command routing
            wanted = moescope(view, "a.mscope", "--json", *([] if view == "report" else ["--limit", "100"]))
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
    with serving("runs") as server:
        for target in ("/api/runs/../secret/steps", "/api/runs/..%2fsecret/steps",
                       "/api/runs/%2e%2e%2fsecret/steps", "/api/runs/linked/steps",
                       "/api/runs//steps", "/api/runs/a/../steps", "/../../etc/passwd",
                       "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/index.html/x", "/api", "/x",
                       "/metrics", "/api/runs/a.mscope/steps"):
            status, _, body = server.ask(target)
            check(status in (400, 404), target, status)
            check("root:" not in body and "tinymoe" not in body, target, body)
        server.refused("/api/runs/a%00b/steps", 400)
        server.refused("/api/runs/a%ff/steps", 400, "UTF-8")
        server.refused("/api/runs/a%/steps", 400)
        server.refused("/api/runs/a/steps?" + "x" * 3000, 400, "2048")
        server.refused("/api/runs/a/steps?" + "&".join(f"a{i}=1" for i in range(40)), 400)
        server.refused("/api/runs/a/nothing", 404, "no such view")
        server.refused("/api/runs/a/steps?limit=-1", 400, "'limit' wants")
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


@test
def metrics_are_openmetrics():
    record("a.mscope", 4)
    steps = json.loads(moescope("steps", "a.mscope", "--json").out)["total"]
    with serving(".", "--metrics") as server:
        status, headers, body = server.ask("/metrics")
        equal(status, 200)
        check(headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0"))
        check(body.endswith("\n# EOF\n"), body[-80:])
        samples, families = {}, []
        for line in body.splitlines():
            if line.startswith("# TYPE "):
                families.append(line.split()[2])
            elif not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                samples[name] = float(value)
        equal(len(families), len(set(families)))
        equal(samples['moescope_steps_steps{run="a"}'], float(steps["steps"]))
        check(len(samples) < 400, len(samples))
        equal(moescope("export", "a.mscope", "--to", "openmetrics", "-o", "-").out, body)
    with serving(".") as server:
        server.refused("/metrics", 404)


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


@test
def prometheus_scrapes_without_an_error():
    programs, examples = prometheus(), pathlib.Path(__file__).parents[2] / "examples/monitoring"
    scrapes = int(os.environ.get("MOESCOPE_SERVE_SCRAPES", "5"))
    record("a.mscope", 4)
    check(subprocess.run([programs / "promtool", "check", "rules", examples / "alerts.yml"],
                         stdout=subprocess.DEVNULL, check=False).returncode == 0, "alerts.yml")
    port = free_port()
    with serving(".", "--metrics", "--token", "abc") as server:
        body = server.ask("/metrics", Authorization="Bearer abc")[2]
        lint = subprocess.run([programs / "promtool", "check", "metrics"], input=body, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        equal((lint.returncode, lint.stdout), (0, ""))
        text = (examples / "prometheus.yml").read_text(encoding="utf-8")
        text = text.replace("15s", "1s").replace("127.0.0.1:7878", f"127.0.0.1:{server.port}")
        text = text.replace("    # auth", "    auth").replace("    #   cred", "      cred").replace("TOKEN", "abc")
        pathlib.Path("prometheus.yml").write_text(text, encoding="utf-8")
        shutil.copy(examples / "alerts.yml", "alerts.yml")
        process = subprocess.Popen([programs / "prometheus", "--config.file=prometheus.yml",
                                    "--storage.tsdb.path=data", f"--web.listen-address=127.0.0.1:{port}"],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)

        def query(expression):
            try:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
                connection.request("GET", f"/api/v1/query?query={expression}")
                results = json.loads(connection.getresponse().read())["data"]["result"]
            except (OSError, http.client.HTTPException, ValueError, KeyError):
                return None  # it is still starting
            return float(results[0]["value"][1]) if results else None

        try:
            wait_for(lambda: (query("count_over_time(up[1h])") or 0) >= scrapes, "scrapes")
            equal(query("min_over_time(up[1h])"), 1.0)
            equal(query("moescope_steps_steps"), 4.0)
            dashboard = json.loads((examples / "grafana.json").read_text(encoding="utf-8"))
            known = {line.split("{")[0] for line in body.splitlines() if not line.startswith("#")}
            for panel in dashboard["panels"]:
                for target in panel["targets"]:
                    check(target["expr"].split("{")[0] in known, target["expr"])
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


@test
def trouble_at_the_start_is_one_sentence():
    with serving(".") as server:
        one_sentence(moescope("serve", ".", "--port", server.port), 1, "cannot listen", str(server.port))
    one_sentence(moescope("serve", "nothing"), 1, "nothing")
    pathlib.Path("file").write_text("x", encoding="ascii")
    one_sentence(moescope("serve", "file"), 1, "neither a run nor a directory")
    one_sentence(moescope("serve", ".", "--address", "here"), 1, "'here' is no address")
    one_sentence(moescope("serve", ".", "--address", "203.0.113.1"), 1, "cannot listen")
    one_sentence(moescope("serve", ".", "--token", "a b"), 2, "--token")


main()
