"""Trackers and hubs hear nothing."""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from flatout.virtual.files import FileGuard, FileOptions, install

pytest.importorskip("huggingface_hub")


def test_switches_are_set_and_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "online")
    guard = install(FileOptions())
    assert os.environ["WANDB_MODE"] == "disabled"
    assert os.environ["MLFLOW_TRACKING_URI"].startswith("file:")
    assert "HF_HUB_OFFLINE" not in os.environ or os.environ["HF_HUB_OFFLINE"] != "1"
    guard.uninstall()
    assert os.environ["WANDB_MODE"] == "online"
    assert "MLFLOW_TRACKING_URI" not in os.environ


def test_uploads_are_withheld(guard: FileGuard, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("an upload reached the network")

    monkeypatch.setattr("socket.create_connection", refuse)
    monkeypatch.setattr("socket.socket.connect", refuse)
    repository = huggingface_hub.create_repo("me/model")
    assert repository.repo_id == "me/model"
    assert huggingface_hub.create_repo(repo_id="model").repo_id.endswith("/model")
    commit = huggingface_hub.HfApi().upload_folder(repo_id="me/model", folder_path=".")
    assert commit.oid == "0" * 40
    assert huggingface_hub.upload_file(path_or_fileobj=b"x", path_in_repo="x", repo_id="me/model").oid == "0" * 40
    assert huggingface_hub.HfApi().create_commit("me/model", operations=[], commit_message="x").oid == "0" * 40


def test_a_script_that_insists_is_overruled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wandb.py").write_text("def init(project=None, mode='online', **rest):\n    return mode\n")
    (tmp_path / "mlflow.py").write_text("seen = []\ndef set_tracking_uri(uri):\n    seen.append(uri)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    guard = install(FileOptions())
    try:
        import mlflow
        import wandb

        assert isinstance(wandb, types.ModuleType)
        assert wandb.init(project="x", mode="online") == "disabled"
        mlflow.set_tracking_uri("https://tracking.example")
        assert mlflow.seen == []
    finally:
        guard.uninstall()
        for name in ("wandb", "mlflow"):
            sys.modules.pop(name, None)
