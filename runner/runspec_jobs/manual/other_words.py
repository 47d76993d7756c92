"""Words of other tools and of the field, for which runspec has others: what `runspec explain` says of them."""

from __future__ import annotations

# The words, what to write here, and the page about it.
OTHER_WORDS = (
    (
        "CUDA, cuDNN, NCCL",
        "a part of the image or of the packages; drivers come with machines",
        "gpus",
    ),
    ("gang scheduling, all-or-nothing", "`nodes`: no node starts before all are there", "gpus"),
    (
        "DDP, FSDP, distributed training, world size",
        "`nodes` and `gpus` of `cluster`, with `launch: torchrun`",
        "gpus",
    ),
    ("cron, cronjob, schedule, timetable", "runspec has none: have cron call runspec", "after"),
    ("preemptible, low priority, interruptible", "`capacity: spot`", "spot"),
    (
        "checkpointing, auto-resume",
        "write checkpoints into an output with `sync`: a later attempt finds them there",
        "resume",
    ),
    ("requeue on failure, restart policy, max retries", "`retry: {attempts: 3}`", "spot"),
    ("walltime, time limit", "`timeout`", "reference"),
    ("hyperparameter, hpo, grid search, trial", "a sweep, whose tasks are the trials", "params"),
    ("DAG, pipeline, workflow", "several jobs in one file, a chain", "chains"),
    ("notebook, Jupyter", "`runspec.load(...)` and `apply` in a cell", "python"),
)
