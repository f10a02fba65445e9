"""Loggers in a configuration: which are taken, refused or remarked on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpcpod.config.loader import from_mapping
from hpcpod.config.resolved import Resolved
from hpcpod.errors import ConfigError
from hpcpod.run import remarks
from hpcpod.run.preflight import check
from tests.support.small_runs import mapping


def test_loggers_are_a_list_and_none_by_default() -> None:
    assert from_mapping(mapping()).metrics == ()
    both = from_mapping(mapping(metrics=["tensorboard", "my_pkg.mod:MyLogger"]))
    assert both.metrics == ("tensorboard", "my_pkg.mod:MyLogger")


def test_a_logger_that_nothing_answers_to_is_refused_before_a_run_is_made() -> None:
    config = from_mapping(mapping(metrics=["tensorbord"]))
    with pytest.raises(ConfigError, match=r"metrics: unknown logger 'tensorbord'; did you mean"):
        check(config, probe=False)


def test_loggers_need_curves() -> None:
    with pytest.raises(ConfigError, match=r"metrics gets the rows of curves, of which pod\.curve"):
        from_mapping(mapping(metrics=["wandb"], pod={"curve_rows": 0}))


def test_a_logger_of_a_user_s_is_code_that_only_the_owner_s_processes_run() -> None:
    resolved = check(from_mapping(mapping()), probe=False).resolved
    assert resolved.own_code() == []
    config = replace(resolved.config, metrics=("tensorboard", "mine:Logger"))
    assert Resolved(config, resolved.algorithms).own_code() == ["metrics: mine:Logger"]


def test_a_package_that_is_missing_here_is_remarked_on(monkeypatch: pytest.MonkeyPatch) -> None:
    config = from_mapping(mapping(metrics=["tensorboard", "trackio", "mine:Logger"]))
    monkeypatch.setattr(remarks, "find_spec", lambda name: None if name == "trackio" else name)
    said = [text for text in remarks.remarks(config, {}, None) if text.startswith("metrics")]
    assert len(said) == 1 and "trackio is not installed here" in said[0]
    assert said[0].endswith("-m pip install 'hpcpod[trackio]'")
