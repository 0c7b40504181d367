"""Files behind URLs for tests: in fsspec's memory, and on a local HTTP server that fails, waits for other requests, or does not answer."""

from __future__ import annotations

import contextlib
import functools
import http.server
import threading
from collections import Counter


def moved(value, old, new):
    """`value` with paths below `old` replaced by paths below `new`."""
    if isinstance(value, str):
        return value.replace(str(old), new)
    return [moved(item, old, new) for item in value] if isinstance(value, list) else value


def upload(folder, url):
    """Copy all files. Paths in texts are replaced, too."""
    import fsspec

    memory = fsspec.filesystem("memory")
    for path in folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            if path.suffix in (".json", ".txt"):
                data = data.replace(str(folder).encode(), url.encode())
            memory.pipe_file(f"{url}/{path.relative_to(folder)}", data)


class _Listener(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256  # with the default of five, simultaneous connections are repeated after a second


class Server:
    """Files of a directory over HTTP. The first `failures` requests of each (method, path) get a 503. Ranges are honoured or ignored.

    No request is answered until `together` requests have arrived, or while `hold` is cleared. Every request releases `arrived` once.
    `requests` are counted by path, size requests separately in `sizes`.
    """

    def __init__(self, folder, failures=0, ranges=True, together=1):
        self.requests, self.sizes, self.failures, served = Counter(), Counter(), failures, self
        self.met = threading.Barrier(together)
        self.arrived, self.hold = threading.Semaphore(0), threading.Event()
        self.hold.set()

        class Handler(http.server.SimpleHTTPRequestHandler):
            def do_GET(self):
                served.requests[self.path] += 1
                served.arrived.release()
                served.hold.wait()
                with contextlib.suppress(threading.BrokenBarrierError):
                    served.met.wait(300)
                if served.requests[self.path] <= served.failures:
                    self.send_error(503, "come again")
                elif ranges and "Range" in self.headers:
                    self._part(*self.headers["Range"].removeprefix("bytes=").split("-"))
                else:
                    super().do_GET()

            def do_HEAD(self):
                served.sizes[self.path] += 1
                served.arrived.release()
                served.hold.wait()
                if served.sizes[self.path] <= served.failures:
                    self.send_error(503, "come again")
                else:
                    super().do_HEAD()

            def _part(self, first, last):
                with open(self.translate_path(self.path), "rb") as file:
                    whole = file.read()
                data = whole[int(first) : int(last) + 1]
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {first}-{int(first) + len(data) - 1}/{len(whole)}")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def handle(self):
                with contextlib.suppress(ConnectionError):  # the client has closed the connection
                    super().handle()

            def log_message(self, *_):
                pass

        self._server = _Listener(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder)))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.hold.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
