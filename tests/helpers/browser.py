"""A Chromium that tests drive: its DevTools protocol over a pair of pipes, so nothing else is installed.

Debian and Ubuntu: ``apt-get install chromium``. ``ASYNCDALI_CHROMIUM`` names another executable.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars", "--mute-audio",
    "--remote-debugging-pipe",
)  # fmt: skip
_LIMIT = 60
"""Seconds that an answer may take. A busy machine starts a browser in 10."""


def executable():
    """The path of a Chromium; None: there is none."""
    return os.environ.get("ASYNCDALI_CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)


class Browser:
    """One process of Chromium with one page. Use it in a ``with``."""

    def __init__(self):
        self._ids = itertools.count(1)
        self._events = []
        self._rest = b""
        self._folder = tempfile.TemporaryDirectory(prefix="asyncdali-browser-", ignore_cleanup_errors=True)
        self._session = None

    def __enter__(self):
        to_read, self._writer = os.pipe()
        self._reader, to_write = os.pipe()
        words = [executable(), *_FLAGS, f"--user-data-dir={self._folder.name}", "about:blank"]
        # Chromium reads from descriptor 3 and writes to 4: a shell moves the pipes there.
        script = f'exec "$@" 3<&{to_read} 4>&{to_write}'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "chromium", *words], pass_fds=(to_read, to_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(to_read)
        os.close(to_write)
        try:
            pages = [target for target in self._call("Target.getTargets")["targetInfos"] if target["type"] == "page"]
            found = pages[0] if pages else self._call("Target.createTarget", url="about:blank")
            self._session = self._call("Target.attachToTarget", targetId=found["targetId"], flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self._call(f"{domain}.enable")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        with contextlib.suppress(Exception):
            self._session = None
            self._call("Browser.close", limit=5)
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        os.close(self._reader)
        os.close(self._writer)
        self._folder.cleanup()

    # --- pages

    def visit(self, address):
        """Open an address, and wait for the page. ``errors()`` begins again."""
        self._events.clear()
        failed = self._call("Page.navigate", url=address).get("errorText")
        assert not failed, f"{address}: {failed}"
        self.loaded()

    def loaded(self):
        """Wait until the next page is loaded."""
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")

    def run(self, expression):
        """The value of an expression of JavaScript."""
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, expression):
        """Wait until an expression is true. Navigation in between is no error."""
        end = time.monotonic() + _LIMIT
        while True:
            with contextlib.suppress(_Refused):
                if self.run(f"Boolean({expression})"):
                    return
            assert time.monotonic() < end, f"{expression} did not become true in {_LIMIT} s"
            select.select([], [], [], 0.02)

    def press(self, key):
        """Press and release a key: a letter, or a name such as ArrowRight."""
        text = {"text": key} if len(key) == 1 else {}
        self._call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self._call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def size(self, width, height, phone=False):
        """The size of the window in pixels of CSS."""
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)

    def screenshot(self, whole=False):
        """The content of the window, or the whole page, as PNG."""
        given = {}
        if whole:
            size = self._call("Page.getLayoutMetrics")["cssContentSize"]
            given = {"captureBeyondViewport": True, "clip": {**size, "scale": 1}}
        return base64.b64decode(self._call("Page.captureScreenshot", format="png", **given)["data"])

    def errors(self):
        """Errors of the console, exceptions of scripts, and requests that failed, since the last visit."""
        self.run("0")  # what happened before has arrived
        found = []
        for event in self._events:
            given = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(given["exceptionDetails"].get("text", "exception"))
            elif event["method"] == "Log.entryAdded" and given["entry"]["level"] in ("error", "warning"):
                found.append(given["entry"]["text"])
            elif event["method"] == "Runtime.consoleAPICalled" and given["type"] in ("error", "warning", "assert"):
                found.append(str(given["args"]))
            elif event["method"] == "Network.loadingFailed" and not given.get("canceled"):
                found.append(given["errorText"])
        return found

    def requests(self):
        """Addresses that were asked for since the last visit, without data URIs."""
        self.run("0")
        sent = [event["params"]["request"]["url"] for event in self._events if event["method"] == "Network.requestWillBeSent"]
        return [address for address in sent if not address.startswith("data:")]

    # --- protocol

    def _call(self, method, limit=_LIMIT, **params):
        number = next(self._ids)
        request = {"id": number, "method": method, "params": params}
        if self._session is not None:
            request["sessionId"] = self._session
        os.write(self._writer, json.dumps(request).encode() + b"\0")
        end = time.monotonic() + limit
        while True:
            message = self._receive(end)
            if message.get("id") == number:
                if "error" in message:
                    raise _Refused(f"{method}: {message['error']}")
                return message["result"]
            if "method" in message:
                self._events.append(message)

    def _receive(self, end):
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._reader], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise TimeoutError("Chromium did not answer")
            data = os.read(self._reader, 1 << 20)
            if not data:
                raise EOFError("Chromium has ended")
            self._rest += data
        text, _, self._rest = self._rest.partition(b"\0")
        return json.loads(text)


class _Refused(Exception):
    """Chromium refused a call."""
