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

# Measured over 4.6 MB: to start, a helper takes 0.1 s of processor time, in which one process checks 250 kB of source.
BYTES_WORTH_A_WORKER = 600_000
MOST_PROCESSES = 16


def run_jobs(jobs: Sequence[Job], sizes: Sequence[int]) -> list[FileResult]:
    """The result of each job. `sizes`: of the files, in bytes, for an even share."""
    own, *others = _shares(sizes, _process_count(sum(sizes)))
    results: dict[int, FileResult] = {}
    workers: list[tuple[Worker, list[int]]] = []
    threads: list[threading.Thread] = []
    try:
        for share in others:
            try:
                worker = Worker([jobs[number] for number in share])
            except OSError:  # no more processes may be started
                own += share
                continue
            workers.append((worker, share))
            threads.append(threading.Thread(target=_collect, args=(worker, share, results), daemon=True))
            threads[-1].start()
        _check_here(jobs, own, results)
        for thread in threads:
            thread.join()
    finally:
        for worker, _ in workers:
            worker.end()
    for worker, share in workers:
        _finish(worker, jobs, share, results)
    return [results[number] for number in range(len(jobs))]


def _collect(worker: Worker, share: Sequence[int], results: dict[int, FileResult]) -> None:
    for number, result in zip(share, worker.results()):
        results[number] = result


def _check_here(jobs: Sequence[Job], share: Sequence[int], results: dict[int, FileResult]) -> None:
    for number, result in zip(share, check_jobs([jobs[number] for number in share])):
        results[number] = result


def _finish(worker: Worker, jobs: Sequence[Job], share: Sequence[int], results: dict[int, FileResult]) -> None:
    """Where a helper died, the file that it had in hand is told, and another helper goes on with the rest."""
    left = [number for number in share if number not in results]
    while left and worker.ready:
        results[left[0]] = FileResult(jobs[left[0]].shown, error="the process that checked it died; leave the file out")
        left = left[1:]
        if left:
            worker = Worker([jobs[number] for number in left])
            try:
                _collect(worker, left, results)
            finally:
                worker.end()
            left = [number for number in left if number not in results]
    _check_here(jobs, left, results)


def _process_count(size_bytes: int) -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, MOST_PROCESSES, 1 + size_bytes // BYTES_WORTH_A_WORKER))


def _shares(sizes: Sequence[int], count: int) -> list[list[int]]:
    """The numbers of the jobs in `count` shares of about the same size: the largest first, to who has the least."""
    shares: list[list[int]] = [[] for _ in range(count)]
    loads = [0] * count
    for number in sorted(range(len(sizes)), key=lambda number: -sizes[number]):
        least = loads.index(min(loads))
        shares[least].append(number)
        loads[least] += sizes[number]
    return [sorted(share) for share in shares]
