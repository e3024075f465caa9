# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven over the DevTools protocol through pipes, and a server for it to look at.

Nothing sleeps for a fixed time: wait() looks until a condition holds or its patience ends. What the browser
complains about (exceptions, errors on the console, violations of the content policy) is collected, and
Page.close() fails on it.
"""

import base64
import contextlib
import fcntl
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
from cli import MOESCOPE, Skip, environment, moescope  # noqa: E402

PATIENCE_S = 120
# What the browser says of a server that goes: it refuses what it is asked while it ends, then it is gone.
GOING = ("503", "ERR_")
BUILD = pathlib.Path(os.environ.get("MOESCOPE_BUILD", pathlib.Path(MOESCOPE).parent))
DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
NAMES = ("chromium", "chromium-browser", "google-chrome")
# A folder for pictures of the page, for people to look at.
PICTURES = os.environ.get("MOESCOPE_BROWSER_PICTURES")


def program():
    found = next((shutil.which(name) for name in NAMES if shutil.which(name)), None)
    if not found:
        raise Skip("Chromium is not installed; 'tools/deps.sh test' installs it")
    if "unknown command" in moescope("serve", "--help").err:
        raise Skip("this moescope is built without its server")
    return found


def fakes():
    """The runs built by hand, and recordings, in the current directory."""
    program()
    maker = BUILD / "tests" / "save-fakes"
    if not maker.exists():
        raise Skip("tests/save-fakes is not built")
    subprocess.run([maker, "."], check=True)
    for name in ("h200-windows", "h200-jax"):
        shutil.copytree(DATA / name, f"{name}.mscope")


def view(run, name, query=""):
    return f"#/{run}/{name}{query}"


def cells(tab, column):
    """The texts of a column in the rows that are in the document."""
    return tab.ask(f"""(() => {{
        const heads = [...document.querySelectorAll(".rows th button")].map((head) => head.dataset.key);
        const at = heads.indexOf({json.dumps(column)});
        return [...document.querySelectorAll(".rows tbody tr[data-index]")].map((row) => row.children[at].innerText);
    }})()""")


@contextlib.contextmanager
def serve(path, *options):
    """'moescope serve' on a free port: its process, with the address."""
    process = subprocess.Popen([MOESCOPE, "serve", str(path), "--port", "0", *options], env=environment(),
                               stdout=subprocess.PIPE, text=True)
    try:
        process.address = process.stdout.readline().split()[-1]
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        process.wait(timeout=PATIENCE_S)
        process.stdout.close()


def until(condition, patience_s=PATIENCE_S):
    """Until a function returns something true, which is returned."""
    end = time.monotonic() + patience_s
    while not (found := condition()):
        if time.monotonic() > end:
            raise AssertionError("it does not happen")
        time.sleep(0.02)
    return found


class Browser:
    def __init__(self):
        self.profile = tempfile.mkdtemp(prefix="moescope-browser-")
        commands, self.commands = os.pipe()
        self.events, events = os.pipe()
        # Above 3 and 4, which the browser wants them to be.
        far = [fcntl.fcntl(fd, fcntl.F_DUPFD, 50) for fd in (commands, events)]

        def place():
            os.dup2(far[0], 3)
            os.dup2(far[1], 4)

        self.process = subprocess.Popen(
            [program(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
             "--remote-debugging-pipe", f"--user-data-dir={self.profile}"],
            preexec_fn=place, pass_fds=(3, 4), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for fd in (commands, events, *far):
            os.close(fd)
        self.changed = threading.Condition()
        self.replies = {}
        self.listeners = {}
        self.number = 0
        self.ended = False
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        with os.fdopen(self.events, "rb") as stream:
            rest = b""
            while chunk := stream.read1(65536):
                *messages, rest = (rest + chunk).split(b"\0")
                for message in map(json.loads, messages):
                    with self.changed:
                        if "id" in message:
                            self.replies[message["id"]] = message
                        elif message.get("sessionId") in self.listeners:
                            self.listeners[message["sessionId"]](message)
                        self.changed.notify_all()
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def send(self, method, session=None, **params):
        with self.changed:
            self.number += 1
            number = self.number
            message = {"id": number, "method": method, "params": params}
            if session:
                message["sessionId"] = session
            os.write(self.commands, json.dumps(message).encode() + b"\0")
            self.changed.wait_for(lambda: number in self.replies or self.ended, PATIENCE_S)
            reply = self.replies.pop(number, None)
        if reply is None:
            raise AssertionError(f"the browser does not answer {method}")
        if "error" in reply:
            raise AssertionError(f"{method}: {reply['error']['message']}")
        return reply["result"]

    def close(self):
        with contextlib.suppress(AssertionError, OSError):
            self.send("Browser.close")
        os.close(self.commands)
        self.process.wait(timeout=PATIENCE_S)
        self.reader.join(timeout=PATIENCE_S)
        shutil.rmtree(self.profile, ignore_errors=True)


class Page:
    """A tab. Complaints are sentences of the browser; those with a word of `expected` are none."""

    def __init__(self, browser, width=1280, height=720, dark=False):
        self.attach(browser, browser.send("Target.createTarget", url="about:blank")["targetId"])
        self.send("Page.enable")
        self.size(width, height)
        self.theme(dark)

    def attach(self, browser, target):
        self.browser, self.target = browser, target
        self.session = browser.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.complaints = []
        self.expected = []
        browser.listeners[self.session] = self._hear
        for domain in ("Runtime", "Log"):
            self.send(f"{domain}.enable")

    def _hear(self, message):
        params = message["params"]
        if message["method"] == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description", details["text"]))
        elif message["method"] == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.complaints.append(" ".join(str(arg.get("value")) for arg in params["args"]))
        elif message["method"] == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")

    def send(self, method, **params):
        return self.browser.send(method, self.session, **params)

    def size(self, width, height, zoom=1.0):
        self.send("Emulation.setDeviceMetricsOverride", width=int(width / zoom), height=int(height / zoom),
                  deviceScaleFactor=zoom, mobile=False)

    def theme(self, dark):
        self.send("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def open(self, address):
        self.send("Page.navigate", url=address)

    def ask(self, expression):
        """The value of a JavaScript expression; None while the page is between two documents."""
        reply = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in reply:
            details = reply["exceptionDetails"]
            raise AssertionError(f"{expression}: {details.get('exception', {}).get('description', details['text'])}")
        return reply["result"].get("value")

    def wait(self, expression, patience_s=PATIENCE_S):
        """Until the expression is true; returns its value."""
        until = time.monotonic() + patience_s
        while True:
            try:
                value = self.ask(f"((found) => (found instanceof Node ? true : found))({expression})")
            except AssertionError:
                value = None
            if value:
                return value
            if time.monotonic() > until:
                shown = self.ask("document.body.innerText")
                raise AssertionError(f"still not: {expression}; the page shows: {shown[:1500]!r}; "
                                     f"complaints: {self.complaints}")
            time.sleep(0.02)

    def text(self, selector):
        return self.ask(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")

    def click(self, selector):
        """As a person does: the pointer goes there, once it stands still, and the button goes down and up."""
        box = self.wait(f"""(() => {{
            const found = document.querySelector({json.dumps(selector)});
            found?.scrollIntoView({{ block: "center" }});
            const box = found?.getBoundingClientRect();
            const at = box && box.width > 0 && [box.x + box.width / 2, box.y + box.height / 2];
            const still = at && String(at) === window.clickAt;
            window.clickAt = String(at);
            return still && at;
        }})()""")
        self.point(*box)
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def point(self, x, y):
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def drag(self, start, end, shift=False):
        """From one point to another, by way of the middle."""
        keys = {"modifiers": 8 if shift else 0, "button": "left"}
        middle = [(a + b) / 2 for a, b in zip(start, end)]
        self.send("Input.dispatchMouseEvent", type="mousePressed", x=start[0], y=start[1], clickCount=1, **keys)
        for x, y in (middle, end):
            self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y, buttons=1, **keys)
        self.send("Input.dispatchMouseEvent", type="mouseReleased", x=end[0], y=end[1], clickCount=1, **keys)

    def wheel(self, x, y, dy):
        self.send("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=dy)

    def press(self, key, text="", shift=False):
        codes = {"Enter": 13, "Escape": 27, "Tab": 9, "ArrowUp": 38, "ArrowDown": 40, "ArrowLeft": 37, "ArrowRight": 39,
                 "Home": 36, "End": 35}
        text = "\r" if key == "Enter" else text
        self.send("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", key=key, text=text,
                  windowsVirtualKeyCode=codes.get(key, 0), modifiers=8 if shift else 0)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=codes.get(key, 0))

    def type(self, text):
        self.send("Input.insertText", text=text)

    def picture(self, name):
        """Of what is in sight, where somebody wants to see it; pictures are painted between two frames."""
        if not PICTURES:
            return
        self.ask("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")
        data = base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"])
        pathlib.Path(PICTURES).mkdir(parents=True, exist_ok=True)
        (pathlib.Path(PICTURES) / f"{name}.png").write_bytes(data)

    def colours(self, selector):
        """How many colours an element has on the screen, however it was drawn."""
        x, y, width, height = self.ask(f"""((box) => [box.x, box.y, box.width, box.height])(
            document.querySelector({json.dumps(selector)}).getBoundingClientRect())""")
        data = self.send("Page.captureScreenshot", format="png",
                         clip={"x": x, "y": y, "width": width, "height": height, "scale": 1})["data"]
        return self.ask(f"""new Promise((done) => {{
            const image = new Image();
            image.onload = () => {{
                const canvas = Object.assign(document.createElement("canvas"), {{ width: image.width, height: image.height }});
                const ctx = canvas.getContext("2d", {{ willReadFrequently: true }});
                ctx.drawImage(image, 0, 0);
                done(new Set(new Uint32Array(ctx.getImageData(0, 0, image.width, image.height).data.buffer)).size);
            }};
            image.src = "data:image/png;base64,{data}";
        }})""")

    def close(self):
        self.browser.send("Target.closeTarget", targetId=self.target)
        self.check()

    def check(self):
        left = [c for c in self.complaints if not any(word in c for word in self.expected)]
        if left:
            raise AssertionError(f"the browser complains: {left}")


_browser = None


@contextlib.contextmanager
def page(address, *, expected=(), **options):
    """A tab at an address, in the one browser of this process."""
    global _browser
    if _browser is None:
        _browser = Browser()
    tab = Page(_browser, **options)
    tab.expected = list(expected)
    tab.open(address)
    yield tab
    tab.close()


@contextlib.contextmanager
def frame_of(tab):
    """The frame in a page that has a process of its own, because it is sandboxed."""
    def found():
        return [target["targetId"] for target in tab.browser.send("Target.getTargets")["targetInfos"]
                if target["type"] == "iframe" and target.get("parentId") == tab.target]

    frame = Page.__new__(Page)
    frame.attach(tab.browser, until(found)[0])
    yield frame
    frame.check()


def quit_browser():
    if _browser is not None:
        _browser.close()
