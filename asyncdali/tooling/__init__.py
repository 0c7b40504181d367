"""Command line tools: ``asyncdali bench`` and ``asyncdali doctor``. Only the quick checks (:mod:`.quick_checks`) run unasked, in
``Pipeline.build()``.

    bench.py              ``asyncdali bench FILE.py:pipeline`` measures how fast a pipeline is and where the time goes, and advises what to
                          change
    bottleneck.py         Finds the bottleneck of a pipeline from its statistics alone, and says what to change
    doctor_checks.py      The checks of ``asyncdali doctor``
    commands.py           The type of the commands of a command line
    bench_consumer.py     Training steps beside which a pipeline is measured: a simulated one, or a function of the user
    doctor_decoders.py    Tries the JPEG decoders of a GPU, for ``asyncdali doctor``
    diff.py               ``asyncdali diff``: differences of checkpoints, stored graphs and pipelines
    doctor.py             ``asyncdali doctor [FILE.py:pipeline]`` checks the set-up
    verify_elsewhere.py   Another time and fresh globals, for ``asyncdali verify``
    engine.py             ``asyncdali engine``: makes iterations for trainers on any machine (docs/fleet.md)
    import_checkpoint.py  ``asyncdali import-checkpoint``: checkpoints of DALI
    interpreter.py        Measures how long Python's interpreter is needed
    cache.py              ``asyncdali cache`` shows the folder of compiled kernels and its size, removes kernels, and compiles those of a
                          pipeline
    machine.py            The parts of the machine that this process may use: processors, descriptors, memory
    measure.py            Measures one pipeline
    new.py                ``asyncdali new``: writes a small project
    show_server.py        The server of ``asyncdali show --serve``
    program.py            Loads the pipeline that a command names: ``FILE.py:pipeline``
    quick_checks.py       The quick checks of ``asyncdali doctor``, which every ``build()`` runs
    bench_report.py       The page that ``asyncdali bench --report`` writes
    engine_restart.py     ``asyncdali engine --restart``
    bench_rival.py        Runs a program for asyncdali on DALI, in a separate process that ``asyncdali bench --vs dali`` talks to
    settings.py           ``--set NAME=VALUE``: arguments of the function that makes a pipeline
    doctor_setup.py       The input of the checks of ``asyncdali doctor``
    sharing.py            How much of the processors other programs took while a pipeline was measured
    show.py               ``asyncdali show``: a page about one step
    skill.py              ``asyncdali skill``: one page about writing, porting, debugging and tuning
    top.py                ``asyncdali top``: live figures of a running job
    trace.py              Traces of a running pipeline, in the format of chrome://tracing and https://ui.perfetto.dev
    tune.py               ``asyncdali tune``: finds the fastest settings that do not change the stream
    verify.py             ``asyncdali verify``; verify_runs.py compares runs of a pipeline
    what_if.py            ``asyncdali bench --what-if``: predicts the rate with other settings

May import public names, statistics of `compiled`, the plan, and `workers`.
"""
