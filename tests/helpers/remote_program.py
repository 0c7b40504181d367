"""A program: a reader waits for a server that does not answer, and the program ends. Arguments: how it ends, URL of a file.

Prints "waiting" while the program waits, and continues when a line arrives on its input.
"""

from __future__ import annotations

import sys
import threading

from asyncdali import Pipeline, fn


def main(how: str, url: str) -> None:
    pipe = Pipeline(batch_size=2, num_threads=1, device_id=None)
    with pipe:
        pipe.set_outputs(fn.readers.file(files=[url] * 8, prefetch_queue_depth=3)[0])
    pipe.build()
    if how == "exit":
        pipe.schedule_run()
        sys.stdin.readline()
    elif how == "interrupt":
        try:
            pipe.run()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        pipe.close()
        left = [thread.name for thread in threading.enumerate() if thread.name.startswith("asyncdali-") and thread.name != "asyncdali-loop"]
        print(left, flush=True)
    else:
        pipe.run()  # the traceback of an interrupt ends the program


if __name__ == "__main__":
    main(*sys.argv[1:])
