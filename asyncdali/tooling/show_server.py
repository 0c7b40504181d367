"""The server of ``asyncdali show --serve``: pages about steps for a browser on this machine.

It listens on the loopback address, on a port that the system chooses. Every address begins with a random token, so other users of the
machine and pages of other sites cannot ask for pages. Only GET is answered. Requests choose numbers of steps and samples, nothing else.
"""

from __future__ import annotations

import hmac
import html
import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

if TYPE_CHECKING:
    from ..provenance.replayed import ReplayedStep

_KEPT = 4
"""Steps that are kept. A batch of 64 pictures after ten operators takes about 500 MB."""
_SECONDS = 20
"""A browser that sends its request more slowly is cut off."""
_POLICY = (
    "default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
_NUMBER = re.compile(r"[0-9]{1,15}")


@dataclass(frozen=True)
class Wanted:
    """A request: a step, the sample that is shown first, and another step beside it."""

    step: int
    sample: int = 0
    compare: int | None = None


class PageServer:
    """Serves pages until it is interrupted.

    Args:
        make: makes a step.
        command: the command that makes a page again.
        first: the page that is shown first.
        grid: show no sample after every operator.
    """

    def __init__(self, make: Callable[[int | None], ReplayedStep], command: Callable[[Wanted], str], first: Wanted, grid: bool):
        self._make, self._command, self._first, self._grid = make, command, first, grid
        self._steps: OrderedDict[int, ReplayedStep] = OrderedDict()
        self._making = threading.Lock()
        self._token = secrets.token_urlsafe(18)
        self._http = _Http(("127.0.0.1", 0), _Handler)
        self._http.pages = self

    @property
    def address(self) -> str:
        """The address of the first page."""
        return f"http://127.0.0.1:{self._http.server_port}/{self._token}/"

    def keep(self, *steps: ReplayedStep) -> None:
        """Keep steps that were made already."""
        for step in steps:
            self._steps[step.provenance.step] = step
        while len(self._steps) > _KEPT:
            self._steps.popitem(last=False)

    def run(self, started: Callable[[str], None]) -> None:
        """Call ``started(address)``, and serve until Ctrl-C or :meth:`stop`."""
        try:
            started(self.address)
            self._http.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            pass
        finally:
            self._http.server_close()

    def stop(self) -> None:
        """End :meth:`run`, which runs in another thread."""
        self._http.shutdown()

    # --- answers

    def answer(self, target: str, host: str) -> tuple[int, str]:
        """Status and page for the target of a request, and the `host` that it names."""
        parts = urlsplit(target)
        known = hmac.compare_digest(parts.path.encode("utf-8", "replace"), f"/{self._token}/".encode())
        if not known or host != f"127.0.0.1:{self._http.server_port}":
            return 404, _message("There is no such page.")
        try:
            wanted = self._wanted(parts.query)
        except ValueError as error:
            return 400, _message(str(error))
        with self._making:
            try:
                return 200, self._page(wanted)
            except Exception as error:  # a step that cannot be made is no reason to end
                return 409, _message(f"{type(error).__name__}: {error}")

    def _wanted(self, query: str) -> Wanted:
        """ValueError for anything but numbers."""
        given = dict(parse_qsl(query, keep_blank_values=True, max_num_fields=8))
        unknown = given.keys() - {"step", "sample", "compare"}
        if unknown:
            raise ValueError(f"A page has no argument {', '.join(sorted(unknown))}; step, sample and compare are numbers.")
        numbers = {name: text for name, text in given.items() if text}
        for name, text in numbers.items():
            if not _NUMBER.fullmatch(text):
                raise ValueError(f"{name} is {text!r}; expected a number from 0.")
        if not given:
            return self._first
        compare = numbers.get("compare")
        return Wanted(int(numbers.get("step", self._first.step)), int(numbers.get("sample", 0)), None if compare is None else int(compare))

    def _page(self, wanted: Wanted) -> str:
        from ..provenance.page import page_of

        step = self._step(wanted.step)
        compared = None if wanted.compare is None else self._step(wanted.compare)
        return page_of(step, self._command(wanted), None, self._grid, compared=compared, first=wanted.sample, served=True).html

    def _step(self, number: int) -> ReplayedStep:
        if number not in self._steps:
            self.keep(self._make(number))
        self._steps.move_to_end(number)
        return self._steps[number]


class _Http(ThreadingHTTPServer):
    """A thread per connection: browsers open connections that they do not use."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = False
    pages: PageServer


class _Handler(BaseHTTPRequestHandler):
    timeout = _SECONDS
    server: _Http
    server_version, sys_version = "asyncdali", ""

    def do_GET(self) -> None:
        """Answer one request."""
        status, page = self.server.pages.answer(self.path, self.headers.get("Host", ""))
        body = page.encode("utf-8", "backslashreplace")
        self.send_response(status)
        for name, value in (
            ("Content-Type", "text/html; charset=utf-8"), ("Content-Length", str(len(body))), ("Cache-Control", "no-store"),
            ("Content-Security-Policy", _POLICY), ("Referrer-Policy", "no-referrer"), ("X-Content-Type-Options", "nosniff"),
        ):  # fmt: skip
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Write no log: the addresses have the token."""


def _message(text: str) -> str:
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        '<title>asyncdali show</title><link rel="icon" href="data:,"></head>'
        '<body style="font:16px/1.45 system-ui,sans-serif"><h1>asyncdali show</h1>'
        f'<pre style="white-space:pre-wrap">{html.escape(text)}</pre></body></html>\n'
    )
