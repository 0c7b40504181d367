"""Resources that a pool and its workers share: the shared file with its rings, the pipe of answers, eventfds, and the parent's poll."""

from __future__ import annotations

import fcntl
import os
import select

from .arguments import Settings
from .batches.slots import Slots
from .shared.calls import WORKERS, check_processes, memory
from .shared.control import END, NEVER, STOPPED, Control, Layout, Ring
from .shared.system import Descriptors, make_tokens
from .source import Source
from .worker.worker import WorkerSetup

PIPE_SIZE = 1 << 18


class Channels:
    """Made on the thread that starts the pool, with the pool's lock held. Its attributes never change, so they are read without the lock.

    memory: the shared file. `control` maps its first pages, `slots` lends the rest.
    results: the parent's end of the pipe of answers.
    rings: the general ring, then one for each worker that has streams. `ring_of`: worker -> number of its own ring.
    poll: waits for answers, for deaths, and for messages of the launcher.
    setup: the data that workers need.

    Each descriptor is added to the pool's `descriptors` as soon as it is open. If a later step fails, closing those leaves nothing behind.
    """

    def __init__(self, descriptors: Descriptors, settings: Settings, sources: list[Source], homes: dict[int, int]):
        name, workers = settings.name, settings.num_workers
        add = descriptors.add
        dedicated = sorted(set(homes.values()))
        self.ring_of = {worker: number for number, worker in enumerate(dedicated, 1)}
        layout = Layout(workers, len(sources), 1 + len(dedicated))
        check_processes(WORKERS)
        self.memory = add(memory(f"asyncdali-{name}", os.MFD_CLOEXEC, WORKERS))
        os.ftruncate(self.memory, layout.size)
        results, answers = os.pipe2(os.O_CLOEXEC)
        self.results, self._answers = add(results), add(answers)
        os.set_blocking(self.results, False)
        try:
            fcntl.fcntl(self._answers, 1031, PIPE_SIZE)  # F_SETPIPE_SZ
        except OSError:
            pass  # the default size is enough
        alive, held = os.pipe2(os.O_CLOEXEC)
        self._alive, self._held = add(alive), add(held)  # workers end when no process holds `held` any more
        tokens = [add(make_tokens()) for _ in range(1 + len(dedicated))]
        self.control = Control(self.memory, layout)
        self.control.header[END] = layout.size
        for block in self.control.streams:
            block[STOPPED] = NEVER
        self.rings = [Ring(self.control, number, token) for number, token in enumerate(tokens)]
        self.slots = Slots(self.control)
        self.poll = select.poll()
        self.poll.register(self.results, select.POLLIN)
        self.setup = WorkerSetup(
            memory=self.memory, results=self._answers, alive=self._alive, tokens=tokens, workers=workers, homes=homes,
            ring_of=self.ring_of, seed=settings.drawn_seed(), name=name, watched=settings.worker_timeout is not None, count=len(sources),
            sources=list(sources),
        )  # fmt: skip

    def ring_for(self, home: int | None) -> Ring:
        """The ring for tasks of a source: that of its only worker, or the general one."""
        return self.rings[0] if home is None else self.rings[self.ring_of[home]]
