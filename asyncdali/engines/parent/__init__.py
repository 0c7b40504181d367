"""The training process: it starts, watches and replaces engines, and asks them for iterations.

    pool.py                    engines are started, watched and replaced
    engine_process.py          one engine: its socket, and the parts of its memory that are used here
    starting.py                the time limit of an engine that starts
    ordered.py                 requests and answers in the order of iterations
    loader.py                  the same for engines of this machine; its parts are
    sending.py, answers.py       which engine gets a request; messages of engines
    faults.py, search.py         engines that die, stop or hang; the search for the sample at which they end
    sources.py                   sources that engines call,
    source_requests.py           and the requests for these calls
    places.py                    facts about each request in flight, and about each engine
    receiver.py                the thread that talks to engines beside a GPU
    engine_statistics.py       counters of engines

May import: what the room may import; ``wire``, and ``child.server`` for the layout of its status.
"""
