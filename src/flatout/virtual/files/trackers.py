"""Experiment trackers and model hubs hear nothing of a dry run: its losses are invented.

Each is told by its own switch where it has one, and by replacing the call that a script can use to overrule the
switch. Downloads are left alone: a model in the local cache must still load.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flatout.virtual.files.patches import AfterImport, Patches

VARIABLES = {
    "WANDB_MODE": "disabled",
    "WANDB_SILENT": "true",
    "NEPTUNE_MODE": "offline",
    "CLEARML_OFFLINE_MODE": "1",
    "SWANLAB_MODE": "disabled",
}
UPLOADS = (
    "create_commit",
    "upload_file",
    "upload_folder",
    "upload_large_folder",
    "create_repo",
    "delete_repo",
    "move_repo",
    "delete_file",
    "delete_files",
    "delete_folder",
    "create_branch",
    "delete_branch",
    "create_tag",
    "delete_tag",
    "create_pull_request",
    "create_discussion",
    "super_squash_history",
    "update_repo_settings",
    "update_repo_visibility",
    "preupload_lfs_files",
)


def switch_off(patches: Patches, after: AfterImport, folder: str) -> None:
    """Switch off the trackers. What they insist on writing goes to `folder`, an existing temporary directory."""
    for name, value in VARIABLES.items():
        patches.put_variable(name, value)
    patches.put_variable("MLFLOW_TRACKING_URI", Path(folder, "mlruns").as_uri())
    patches.put_variable("MLFLOW_REGISTRY_URI", Path(folder, "mlruns").as_uri())
    patches.put_variable("COMET_OFFLINE_DIRECTORY", os.path.join(folder, "comet"))
    patches.put_variable("NEPTUNE_LOG_DIRECTORY", os.path.join(folder, "neptune"))
    after.add("wandb", lambda module: _force(module, "init", patches, mode="disabled"))
    after.add("swanlab", lambda module: _force(module, "init", patches, mode="disabled"))
    after.add("neptune", lambda module: _force(module, "init_run", patches, mode="offline"))
    after.add("comet_ml", lambda module: _comet(module, patches))
    after.add("mlflow", lambda module: _mlflow(module, patches))
    after.add("huggingface_hub.hf_api", lambda module: _hub(module, patches))


def _force(module: Any, name: str, patches: Patches, **forced: Any) -> None:
    original = getattr(module, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def call(*arguments: Any, **options: Any) -> Any:
        return original(*arguments, **{**options, **forced})

    patches.put(module, name, call)


def _comet(module: Any, patches: Patches) -> None:
    _force(module, "start", patches, online=False)
    offline = getattr(module, "OfflineExperiment", None)
    if offline is not None:

        def experiment(api_key: str | None = None, *arguments: Any, **options: Any) -> Any:
            return offline(*arguments, **options)

        patches.put(module, "Experiment", experiment)


def _mlflow(module: Any, patches: Patches) -> None:
    for name in ("set_tracking_uri", "set_registry_uri"):
        original = getattr(module, name, None)
        if original is not None:
            patches.put(module, name, functools.wraps(original)(lambda uri: None))


def _hub(module: Any, patches: Patches) -> None:
    """`module` is huggingface_hub.hf_api: its class, and the functions that it offers beside it."""
    for name in UPLOADS:
        answer = _answer(module, name)
        if name in vars(module.HfApi):
            patches.put(module.HfApi, name, answer)
        if name in vars(module):
            patches.put(module, name, functools.partial(answer, None))


def _answer(module: Any, name: str) -> Callable[..., Any]:
    def withheld(_: Any, *arguments: Any, **options: Any) -> Any:
        """Answers as if the upload had happened."""
        given = options.get("repo_id") or (arguments[0] if arguments and isinstance(arguments[0], str) else "dry-run")
        repository = given if "/" in given else f"dry-run/{given}"
        if name == "create_repo":
            return module.RepoUrl(f"https://huggingface.co/{repository}")
        if name in ("create_commit", "upload_file", "upload_folder"):
            address = f"https://huggingface.co/{repository}/commit/{'0' * 40}"
            return module.CommitInfo(
                commit_url=address, commit_message="withheld: dry run", commit_description="", oid="0" * 40
            )
        return None

    return withheld
