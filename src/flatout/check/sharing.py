"""Work shared among processes where it is worth their start.

run_jobs(jobs, sizes) -> list[FileResult]      in the order of the jobs, whoever did them
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence

from flatout.check.batch import check_jobs
from flatout.check.jobs import Job
from flatout.check.result import FileResult
from flatout.check.worker import Worker

# Measured on 2 cores: a helper is up in 0.15 s, in which one process checks about 300 kB of source.
BYTES_WORTH_A_WORKER = 600_000
MOST_PROCESSES = 16


def run_jobs(jobs: Sequence[Job], sizes: Sequence[int]) -> list[FileResult]:
    """The result of each job. `sizes`: of the files, in bytes, for an even share."""
    shares = _shares(sizes, _process_count(sum(sizes)))
    results: list[FileResult | None] = [None] * len(jobs)
    try:
        workers = [Worker([jobs[number] for number in share]) for share in shares[1:]]
    except OSError:  # no more processes may be started
        workers = []
        shares = [range(len(jobs))]
    threads = [
        threading.Thread(target=_collect, args=(worker, share, results), daemon=True)
        for worker, share in zip(workers, shares[1:])
    ]
    try:
        for thread in threads:
            thread.start()
        for number, result in zip(shares[0], check_jobs([jobs[number] for number in shares[0]])):
            results[number] = result
        for thread in threads:
            thread.join()
    finally:
        for worker in workers:
            worker.__exit__()
    _finish(jobs, list(shares[1:]), results)
    return [result for result in results if result is not None]


def _collect(worker: Worker, share: Sequence[int], results: list[FileResult | None]) -> None:
    for number, result in zip(share, worker.results()):
        results[number] = result


def _finish(jobs: Sequence[Job], shares: Sequence[Sequence[int]], results: list[FileResult | None]) -> None:
    """Where a helper died, the file that it had in hand is told, and the rest of its share is checked here."""
    for share in shares:
        left = [number for number in share if results[number] is None]
        if left:
            results[left[0]] = FileResult(jobs[left[0]].shown, error="the process that checked it died; leave it out")
            for number, result in zip(left[1:], check_jobs([jobs[number] for number in left[1:]])):
                results[number] = result


def _process_count(size_bytes: int) -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, MOST_PROCESSES, 1 + size_bytes // BYTES_WORTH_A_WORKER))


def _shares(sizes: Sequence[int], count: int) -> list[Sequence[int]]:
    """The numbers of the jobs in `count` shares of about the same size: the largest first, to who has the least."""
    shares: list[list[int]] = [[] for _ in range(count)]
    loads = [0] * count
    for number in sorted(range(len(sizes)), key=lambda number: -sizes[number]):
        least = loads.index(min(loads))
        shares[least].append(number)
        loads[least] += sizes[number]
    return [sorted(share) for share in shares]
