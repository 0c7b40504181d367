"""``asyncdali top``: live figures of a running job: stages, queues, rates, and the slowest samples with their files."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
from typing import TYPE_CHECKING, Any

from ..runtime.counting import serving

if TYPE_CHECKING:
    import argparse

    from .commands import Commands

_PATIENCE = 10.0
"""Seconds for an answer. Engines of the job are asked, too."""

_ADVICE = f"Start the job with {serving.VARIABLE}=1, or call pipe.serve_metrics() in it"


class TopError(RuntimeError):
    """The process cannot be observed."""


def add_arguments(commands: Commands) -> None:
    """Add the command to the command line's parser."""
    parser = commands.add_parser("top", help="stages, queues, rates and slowest samples of a running job")
    parser.add_argument("pid", type=int, nargs="?", help=f"the job's process; it runs with {serving.VARIABLE}=1 (default: list all)")
    parser.add_argument("--interval", type=float, default=2.0, help="seconds between two reports")
    parser.add_argument("--once", action="store_true", help="one report of one interval")
    parser.add_argument("--json", action="store_true", help="reports as JSON, one per line")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command. The exit status is 1 if the process cannot be observed."""
    if not 0.05 <= options.interval <= 3600:
        print(f"asyncdali top: --interval is {options.interval}; it must be 0.05 to 3600 seconds", file=sys.stderr)
        return 1
    try:
        if options.pid is None:
            return _list(options.json)
        return _watch(options)
    except KeyboardInterrupt:
        return 0
    except (TopError, RuntimeError, OSError) as error:
        print(f"asyncdali top: {error}", file=sys.stderr)
        return 1


def _list(as_json: bool) -> int:
    found = processes()
    if as_json:
        print(json.dumps(found))
    else:
        print("\n".join(map(str, found)) if found else f"no process answers. {_ADVICE}.")
    return 0


def processes() -> list[int]:
    """The processes of this user that answer, in order. Sockets of dead processes are removed."""
    prefix = os.path.basename(serving.address_of(0)).partition("-")[0]
    where = serving.folder()
    try:
        serving.check_private(where)
        names = os.listdir(where)
    except (RuntimeError, OSError):
        return []
    found = []
    for name in names:
        space, _, number = name.removesuffix(".sock").partition("-")
        if space == prefix and number.isdecimal():
            if os.path.exists(f"/proc/{number}"):
                found.append(int(number))
            else:
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(where, name))
    return sorted(found)


def _watch(options: argparse.Namespace) -> int:
    earlier = ask(options.pid)
    while True:
        time.sleep(options.interval)
        try:
            later = ask(options.pid)
        except TopError as error:
            if options.once or os.path.exists(f"/proc/{options.pid}"):
                raise
            print(error)
            return 0
        report = compared(earlier, later)
        if options.json:
            print(json.dumps(report), flush=True)
        else:
            clear = "\x1b[H\x1b[J" if sys.stdout.isatty() and not options.once else ""
            print(clear + text(report), flush=True)
        if options.once:
            return 0
        earlier = later


def _address(pid: int) -> str:
    """The socket of a process. TopError: it has ended, or it belongs to another user."""
    try:
        return serving.address_of(pid)
    except OSError:
        raise TopError(_why_hidden(pid)) from None


def ask(pid: int) -> dict[str, Any]:
    """The report of a process. TopError says why there is none."""
    if not os.path.isdir(f"/proc/{pid}"):
        raise TopError(f"there is no process {pid}, or it has ended")
    path = _address(pid)
    if not os.path.exists(path):
        raise TopError(_why_silent(pid))
    serving.check_private(os.path.dirname(path))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(_PATIENCE)
        try:
            connection.connect(path)
            peer, user = serving.peer_of(connection)
            if peer != pid or user != os.geteuid():
                raise TopError(f"the socket of process {pid} belongs to process {peer} of user {user}. {_ADVICE}")
            connection.sendall(serving.QUESTION)
            data = _read(connection)
        except TimeoutError:
            raise TopError(f"process {pid} did not answer within {_PATIENCE:g} seconds. It may be stopped") from None
        except ConnectionError as error:
            raise TopError(f"process {pid} has ended, or it has no pipeline any more ({error})") from None
    try:
        found = json.loads(data)
        if not isinstance(found.get("pipelines"), list) or not isinstance(found.get("time"), float):
            raise ValueError(str(found.get("error", "it has no pipelines")))
    except (ValueError, AttributeError) as error:
        raise TopError(f"the answer of process {pid} cannot be used: {error or 'it is empty'}") from None
    return dict(found)


def _read(connection: socket.socket) -> bytes:
    data = bytearray()
    ends = time.monotonic() + _PATIENCE
    while part := connection.recv(1 << 16):
        data += part
        if len(data) > 2 * serving.MOST_BYTES or time.monotonic() > ends:
            raise TopError("the answer is too long")
    return bytes(data)


def _why_hidden(pid: int) -> str:
    """The reason why the namespace of a process is not known."""
    try:
        user = os.stat(f"/proc/{pid}").st_uid
        with open(f"/proc/{pid}/stat", "rb") as file:
            state = file.read().rpartition(b")")[2].split()[0]
    except (OSError, IndexError):
        state = b"Z"
    if state in (b"Z", b"X"):  # killed, and not waited for
        return f"process {pid} has ended"
    if user != os.geteuid():
        return f"process {pid} belongs to another user (number {user})"
    return f"process {pid} may not be looked at by this process (it may have more rights, or run in a container)"


def _why_silent(pid: int) -> str:
    """The reason why a process has no socket."""
    try:
        user = os.stat(f"/proc/{pid}").st_uid
        inner = serving.numbers_of(pid)
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            parent = next(int(line.split()[1]) for line in file if line.startswith("PPid:"))
    except (OSError, StopIteration, ValueError):
        return f"process {pid} has ended"
    if user != os.geteuid():
        return f"process {pid} belongs to another user (number {user})"
    if parent and os.path.exists(_address(parent)):
        return f"process {pid} is a child of process {parent}, which answers for it: asyncdali top {parent}"
    if len(inner) > 1:
        return (
            f"process {pid} is process {inner[-1]} of another PID namespace (a container), and its socket is not in {serving.folder()}. "
            f"Run asyncdali top {inner[-1]} there"
        )
    return f"process {pid} does not answer: it has no built pipeline of asyncdali, or was not asked to. {_ADVICE}"


# --- rates


def compared(earlier: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
    """The later report, with the `rates` of each pipeline since the earlier one."""
    seconds = max(1e-3, later["time"] - earlier["time"])
    before = {item.get("number"): item for item in earlier["pipelines"]}
    pipelines = [{**item, "rates": _rates(before.get(item.get("number"), {}), item, seconds)} for item in later["pipelines"]]
    return {**later, "seconds": seconds, "pipelines": pipelines}


def _rates(earlier: dict[str, Any], later: dict[str, Any], seconds: float) -> dict[str, Any]:
    new, old = later.get("statistics"), earlier.get("statistics")
    if "actor" in later or not new or not old:
        return {}

    def per_second(name: str) -> float:
        return float(max(0, new["consumer"][name] - old["consumer"][name]) / seconds)

    rates: dict[str, Any] = {name: per_second(name) for name in ("iterations", "samples", "failed")}
    rates["waiting"], rates["away"] = (per_second(name) for name in ("wait_seconds", "away_seconds"))
    for part, key, names in _PARTS:
        known = {item[key]: item for item in old[part]}
        rates[part] = {
            str(item[key]): {name: max(0.0, item[name] - known[item[key]][name]) / seconds for name in names}
            for item in new[part] if item[key] in known
        }  # fmt: skip
    return rates


_PARTS = (
    ("segments", "index", ("iterations", "planning_seconds", "pixels_busy_seconds", "wait_input_seconds", "wait_output_seconds")),
    ("operators", "name", ("samples", "planning_seconds", "prepare_seconds", "steps_seconds")),
    ("sources", "name", ("samples", "wait_seconds")),
    ("engines", "index", ("answered", "busy_seconds")),
)  # fmt: skip
"""Parts of statistics with rates, the name of an item, and what is counted."""


# --- text


def text(report: dict[str, Any], most: int = 12) -> str:
    """The report as text. `most`: operators and samples of each pipeline."""
    lines = [f"process {report['pid']}, asyncdali {report['asyncdali']}, {time.strftime('%H:%M:%S')}, the last {report['seconds']:.1f} s"]
    for item in report["pipelines"]:
        lines += ["", *_pipeline(item, most)]
    if report.get("more"):
        lines.append(f"and {report['more']} more pipelines")
    if not report["pipelines"]:
        lines.append("no pipeline is built")
    return "\n".join(map(_plain, lines))


def _plain(line: str) -> str:
    """Names come from the job and its data: no control characters reach the terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in line)


def _pipeline(item: dict[str, Any], most: int) -> list[str]:
    if "error" in item:
        return [f"pipeline {item['number']}: {item['error']}"]
    if "actor" in item:
        return [f"engine {item['actor']}: {item['statistics'].get('iterations', 0)} iterations made", *_ranks(item["statistics"])]
    found, rates = item["statistics"], item["rates"]
    queue, buffers = found["queue"], found["buffers"]
    lines = [
        f"pipeline {item['number']}: batch {item['batch_size']}, {item['threads']} threads, {found['consumer']['iterations']} iterations, "
        f"{found['consumer']['failed']} failed",
        f"  {rates.get('iterations', 0):.1f} iterations/s, {rates.get('samples', 0):.0f} samples/s; the consumer waits "
        f"{_percent(rates.get('waiting'))} of the time, and is away {_percent(rates.get('away'))}",
        f"  queue: {queue['ready']} ready, {queue['in_flight']} in flight, depth {queue['depth']}; "
        f"memory: {_size(buffers['allocated_bytes'])}, {_size(buffers['free_bytes'])} free, {_size(buffers['held_bytes'])} in outputs",
        _row("stage", "iterations/s", "planning", "pixels", "no input", "no request", "operators"),
    ]
    for segment in found["segments"]:
        rate = rates.get("segments", {}).get(str(segment["index"]), {})
        shares = [_percent(rate.get(name)) for name in _PARTS[0][2][1:]]
        lines.append(_row(segment["stream"], f"{rate.get('iterations', 0):.1f}", *shares, ", ".join(segment["operators"])))
    lines += _operators(found, rates, most)
    for source in found["sources"]:
        rate = rates.get("sources", {}).get(source["name"], {})
        asked = _percent(rate.get("wait_seconds"))
        lines.append(f"  source {source['name']} ({source['kind']}): {rate.get('samples', 0):.0f} samples/s, asked {asked} of the time")
    for engine in found["engines"]:
        rate = rates.get("engines", {}).get(str(engine["index"]), {})
        where = engine["address"] or f"process {engine['pid']}"
        lines.append(
            f"  engine {engine['index']} ({where}): {rate.get('answered', 0):.1f} answers/s, {engine['outstanding']} outstanding, "
            f"{engine['restarts']} restarts"
        )
    slowest = sorted((tuple(one) for part in found["segments"] for one in part["slowest_samples"]), reverse=True)[:most]
    lines += ["  slowest samples:"] if slowest else []
    lines += [f"    {took * 1e3:9.2f} ms  iteration {iteration}, sample {sample}  {file}" for took, iteration, sample, file in slowest]
    return lines


def _operators(found: dict[str, Any], rates: dict[str, Any], most: int) -> list[str]:
    """The operators that took the most time."""
    known = rates.get("operators", {})
    rows = sorted(
        ((sum(known[item["name"]][name] for name in _PARTS[1][2][1:]), item) for item in found["operators"] if item["name"] in known),
        key=lambda row: -row[0],
    )  # fmt: skip
    lines = [_row("operator", "samples/s", "planning", "prepare", "steps", "threads", "kind")] if rows else []
    for busy, item in rows[:most]:
        rate = known[item["name"]]
        shares = [_percent(rate[name]) for name in _PARTS[1][2][1:]]
        lines.append(_row(item["name"], f"{rate['samples']:.0f}", *shares, f"{busy:.2f}", item["operator"]))
    return lines


def _ranks(statistics: dict[str, Any]) -> list[str]:
    return [f"  rank {rank}: {item['answered']} of {item['asked']} answered" for rank, item in statistics.get("ranks", {}).items()]


def _row(name: str, *cells: str) -> str:
    *numbers, last = cells
    return f"  {name[:28]:<28}{''.join(f'{cell:>13}' for cell in numbers)}  {last}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f} %"


def _size(count: float) -> str:
    return f"{count / 1e6:.1f} MB"
