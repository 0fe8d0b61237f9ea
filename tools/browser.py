"""A headless Chromium that a test drives: pages are opened, scripts evaluated, what the console says is kept.

Speaks Chromium's DevTools protocol over a pipe (file descriptors 3 and 4 of the browser), so it needs nothing but the browser.
"""
import json
import os
import select
import shutil
import subprocess
import tempfile
from base64 import b64decode
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")
# A page that has not answered by then hangs.
PATIENCE_SECONDS = 120


class Browser:
    """One browser with one page. Use as a context; `said` has what the console said, errors of scripts among it."""

    def __init__(self):
        found = next((path for path in map(shutil.which, NAMES) if path), None)
        if found is None:
            raise SystemExit(f"no browser; allowed: one of {', '.join(NAMES)} (Debian: apt install chromium)")
        self.profile = tempfile.TemporaryDirectory(prefix="pellucid-browser-", ignore_cleanup_errors=True)
        to_browser, self.requests = os.pipe()
        self.answers, from_browser = os.pipe()
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe",
                   f"--user-data-dir={self.profile.name}", "about:blank"]
        # The two ends have the numbers 3 and 4 in the browser, wherever they are here.
        command = ["sh", "-c", f'exec "$0" "$@" 3<&{to_browser} 4>&{from_browser}', found, *options]
        self.process = subprocess.Popen(command, pass_fds=(to_browser, from_browser), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.number, self.session, self.rest = 0, None, b""
        self.said: list[str] = []
        self.loaded, self.name, self.saved = False, None, None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.requests)
        os.close(self.answers)
        self.process.kill()
        self.process.wait()
        self.profile.cleanup()

    def message(self) -> dict:
        """The next message of the browser; events are noted on the way."""
        while b"\0" not in self.rest:
            if not select.select([self.answers], [], [], PATIENCE_SECONDS)[0]:
                raise TimeoutError(f"the browser has said nothing for {PATIENCE_SECONDS} s")
            more = os.read(self.answers, 1 << 20)
            if not more:
                raise EOFError("the browser has ended")
            self.rest += more
        text, self.rest = self.rest.split(b"\0", 1)
        message = json.loads(text)
        parameters = message.get("params", {})
        match message.get("method"):
            case "Page.loadEventFired":
                self.loaded = True
            case "Browser.downloadWillBegin":
                self.name = parameters["suggestedFilename"]
            case "Browser.downloadProgress" if parameters["state"] == "completed":
                self.saved = self.name
            case "Runtime.exceptionThrown":
                details = parameters["exceptionDetails"]
                self.said.append(details.get("exception", {}).get("description", details["text"]))
            case "Runtime.consoleAPICalled" if parameters["type"] in ("error", "warning", "assert"):
                self.said.append(" ".join(str(one.get("value", one.get("description"))) for one in parameters["args"]))
            case "Log.entryAdded" if parameters["entry"]["level"] in ("error", "warning"):
                self.said.append(parameters["entry"]["text"])
        return message

    def call(self, method: str, **parameters):
        """Asks the browser, and waits for its answer."""
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.requests, json.dumps(request).encode() + b"\0")
        while True:
            message = self.message()
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']['message']}")
                return message["result"]

    def size(self, width: int, height: int, dark: bool = False):
        """Sets the size of the page in pixels, and its scheme of colours."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, address: str | Path):
        """Opens a page, and waits until it is loaded."""
        self.loaded = False
        self.call("Page.navigate", url="about:blank")
        while not self.loaded:
            self.message()
        self.loaded = False
        self.call("Page.navigate", url=str(address) if "://" in str(address) else Path(address).resolve().as_uri())
        while not self.loaded:
            self.message()

    def run(self, script: str):
        """The value of an expression in the page; a promise is awaited."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def drag(self, selector: str, start: float, end: float):
        """Drags the mouse over an element, from one share of its width to another."""
        box = self.run(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{ block: 'center' }});"
                       " const { left, top, width, height } = e.getBoundingClientRect(); return { left, top, width, height }; })()")
        y = box["top"] + box["height"] / 2
        steps = [("mouseMoved", start, "none"), ("mousePressed", start, "left"), ("mouseMoved", end, "left"), ("mouseReleased", end, "left")]
        for kind, share, button in steps:
            x = box["left"] + box["width"] * share
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, clickCount=int(kind != "mouseMoved"))

    def download(self, script: str, folder: Path) -> Path:
        """Runs a script that starts a download, and waits for its file."""
        page, self.session = self.session, None
        self.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder), eventsEnabled=True)
        self.session = page
        self.saved = None
        self.run(script)
        while self.saved is None:
            self.message()
        return folder / self.saved

    def picture(self, path: str | Path):
        """Writes a picture of the page (PNG)."""
        Path(path).write_bytes(b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
