"""The rules over a recording: code and name of each. Where `check` sees the same in the source, both are one.

A code has a page, `docs/rules/CODE.md`.
"""

from __future__ import annotations

NAMES = {
    "FO101": "host-waits-for-gpu",
    "FO103": "synchronize-every-step",
    "FO104": "shape-depends-on-values",
    "FO107": "number-copied-every-step",
    "FO203": "copy-from-pageable-memory",
    "FO205": "blocking-copy-from-pinned",
    "FO303": "workers-restarted",
    "FO304": "batches-made-without-workers",
    "FO309": "too-few-workers",
    "FO413": "float32-products-off-tensor-cores",
    "FO414": "bfloat16-without-tensor-cores",
    "FO415": "products-in-32-bits",
    "FO501": "loss-kept-with-graph",
    "FO502": "evaluation-records-graph",
    "FO503": "retain-graph-in-loop",
    "FO504": "cache-emptied-every-step",
    "FO509": "hidden-state-kept-with-graph",
    "FO514": "memory-grows",
    "FO605": "optimizer-one-by-one",
    "FO606": "width-not-multiple-of-8",
    "FO609": "launch-bound",
    "FO610": "optimizer-not-fused",
    "FO611": "loss-in-many-passes",
    "FO612": "norm-written-out",
}
