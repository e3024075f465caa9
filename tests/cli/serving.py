# SPDX-License-Identifier: Apache-2.0
"""A running moescope serve, and what it answers: for the tests of it."""

import contextlib
import http.client
import json
import os
import socket
import subprocess
import time

from cli import MOESCOPE, PATIENCE_S, Skip, check, environment, equal


class Server:
    """A running server; `url` is what it printed."""

    def __init__(self, *words, user=None):
        self.process = subprocess.Popen([MOESCOPE, "serve", *map(str, words), "--port", "0"],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env=environment(), user=user)
        line = self.process.stdout.readline()
        if not line:
            error = self.process.stderr.read()
            self.process.wait(PATIENCE_S)
            if "without its web server" in error:
                raise Skip("built without libmicrohttpd")
            raise AssertionError(error)
        self.url = line.split(" at ")[1].strip()
        self.port = int(self.url.split(":")[-1].split("/")[0])

    def ask(self, target, method="GET", **headers):
        """Status, headers and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        connection.request(method, target, headers=headers)
        reply = connection.getresponse()
        body = reply.read().decode()
        connection.close()
        return reply.status, reply.headers, body

    def json(self, target, **headers):
        status, _, body = self.ask(target, **headers)
        equal(status, 200, target, body)
        return json.loads(body)

    def refused(self, target, status, *words, **headers):
        got, _, body = self.ask(target, **headers)
        equal(got, status, target, body)
        sentence = json.loads(body)["error"]
        for word in words:
            check(word in sentence, sentence)

    def raw(self, sent, half_closed=False):
        """What comes back for these bytes until the server closes; None: it keeps the line open."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S) as line:
            got = b""
            try:
                line.sendall(sent)
                if half_closed:
                    line.shutdown(socket.SHUT_WR)
                while chunk := line.recv(65536):
                    got += chunk
            except OSError:  # closed already
                pass
            return got

    def resident_bytes(self):
        with open(f"/proc/{self.process.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


@contextlib.contextmanager
def serving(*words, user=None):
    """A server that must live to the end; user: whose it is."""
    server = Server(*words, user=user)
    try:
        yield server
        check(server.process.poll() is None, "the server ended")
    finally:
        server.process.terminate()
        _, error = server.process.communicate(timeout=PATIENCE_S)
    equal(server.process.returncode, 0, error)
    equal(error, "")


def wait_for(condition, what):
    end = time.monotonic() + PATIENCE_S
    while not condition():
        check(time.monotonic() < end, f"not in time: {what}")
        time.sleep(0.02)
