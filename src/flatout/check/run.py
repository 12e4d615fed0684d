"""A whole check: paths in, results out, in the same order whatever did the work.

check_paths(Request(paths=("src",))) -> Checked(result, jobs)
check_text(Request(...), data, "train.py") -> Checked         one text that is in no file, as from standard input
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from flatout.check.asking import check_data
from flatout.check.batch import digest, steady_interpreter
from flatout.check.cache import Cache
from flatout.check.files import SourceFile, find_files, kind_of, source_file
from flatout.check.jobs import Job, rule_set
from flatout.check.projects import Projects
from flatout.check.registry import all_rules
from flatout.check.result import CheckResult, FileResult
from flatout.check.settings import Settings
from flatout.check.sharing import run_jobs

# Below this a check takes less time than it would take to be surprised by a folder that was not there before.
BYTES_WORTH_A_CACHE = 256 * 1024


class Request(NamedTuple):
    """What is wanted. `overrides`: the settings of the command line."""

    paths: tuple[str, ...] = (".",)
    overrides: Settings = Settings()
    isolated: bool = False
    force_exclude: bool = False
    use_cache: bool = True


class Checked(NamedTuple):
    """The result, and the job of each file that has something to say, to be done again after a fix."""

    result: CheckResult
    jobs: dict[str, Job]


def check_paths(request: Request) -> Checked:
    """Check all that the paths mean. Raises UsageError where the settings are wrong, for nothing else."""
    projects = Projects(request.overrides, isolated=request.isolated)
    home = projects.of(os.getcwd())
    _ = home.settings.rules, home.settings.unfixed  # a wrong selector is told even where there is nothing to check
    with_text = any(rule.reads == "text" for rule in all_rules())
    found = find_files(request.paths, projects, with_text=with_text, force_exclude=request.force_exclude)
    jobs = [job for file in found.files if (job := _job(file)).kind != "text" or rule_set(job.rules, job.is_test).text]
    results = [FileResult(path, error=reason) for path, reason in found.missing]
    results += _results(jobs, Path(found.files[0].project.root) if found.files else None, request)
    return _checked(results, jobs)


def check_text(request: Request, data: bytes, name: str) -> Checked:
    """Check `data` as if it were the file `name`, which need not exist. Raises UsageError as `check_paths` does."""
    projects = Projects(request.overrides, isolated=request.isolated)
    path = os.path.abspath(name)
    project = projects.of(os.path.dirname(path))
    job = _job(source_file(path, name, kind_of(os.path.basename(path)) or "python", project))
    if request.force_exclude and project.settings.excluded.match(path):
        return _checked([], [])
    with steady_interpreter():
        return _checked([check_data(job, data)], [job])


def _job(file: SourceFile) -> Job:
    settings = file.project.settings
    rules = settings.rules_for(file.path)
    unfixed = tuple(sorted(settings.unfixed.intersection(rules)))
    return Job(file.path, file.shown, file.kind, file.is_test, file.project.torch, rules, unfixed)


def _checked(results: Sequence[FileResult], jobs: Sequence[Job]) -> Checked:
    versions = {job.torch for job in jobs}
    told = tuple(sorted((one for one in results if one.diagnoses or one.error), key=lambda one: one.file))
    names = {result.file for result in told}
    result = CheckResult(files_checked=len(jobs), torch=versions.pop() if len(versions) == 1 else None, files=told)
    return Checked(result, {job.shown: job for job in jobs if job.shown in names})


def _results(jobs: Sequence[Job], root: Path | None, request: Request) -> list[FileResult]:
    """The result of each job: known from an earlier time, clear at a glance, or worked out."""
    sizes = [_size(job.path) for job in jobs]
    cache = None
    if request.use_cache and root is not None and sum(sizes) >= BYTES_WORTH_A_CACHE:
        cache = Cache.open(root)
    results: dict[int, FileResult] = {}
    pending: list[int] = []
    for number, job in enumerate(jobs):
        try:
            data = Path(job.path).read_bytes()
        except OSError:
            pending.append(number)  # and is told so there
            continue
        mark = digest(job, data)
        known = cache.get(mark, job.shown) if cache is not None else None
        if known is not None:
            results[number] = known
        elif rule_set(job.rules, job.is_test).concern(data, job.kind):
            pending.append(number)
        else:
            results[number] = FileResult(job.shown, digest=mark)
    done = run_jobs([jobs[number] for number in pending], [sizes[number] for number in pending]) if pending else []
    results.update(zip(pending, done))
    ordered = [results[number] for number in range(len(jobs))]
    if cache is not None and (pending or len(cache) < len(jobs)):
        cache.save(ordered)
    return ordered


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
