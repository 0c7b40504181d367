"""Debug mode: the pipeline function runs in every iteration, operator by operator.

    debug_pipeline.py    DebugPipeline, which `pipeline_def(debug=True)` makes
    definition.py        inside the pipeline function: operators run when they are called, and nodes hold data
    calls.py             calls of operators and of sources, which are matched from iteration to iteration

May import: what the pipeline may import.
"""
