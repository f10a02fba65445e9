"""The pages on trading and continuous training: from a CSV to a promoted policy, and back, by their
own commands."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from tests.docs.pages import block, blocks, page, run_script, said_here, write_files

PAGE, WALK = page("continuous-training.md"), page("trading.md")
SMALL = [
    "env.num_envs=8", "round.env_steps=1024", "round.episodes=8", "stop.rounds=1",
    "stop.confirm_episodes=4", "population.pods.max=1", "stop.finalists=1", "cluster.slots=1",
]  # fmt: skip


@pytest.mark.slow
def test_they_walk_from_a_csv_to_a_promoted_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(WALK, tmp_path)
    walk = [block(WALK, "bash", words) for words in ("below=2000-03-13", "ct deployed.yaml")]
    typed = [
        line.partition("#")[0]
        for text in [*walk, *blocks(PAGE, "bash")]
        for line in text.splitlines()
    ]
    told: list[str] = []
    for line in typed:
        words = line.partition("||")[0].split()
        if "rollback" in words:  # refused where the gate has kept v0002 out
            back = said_here(capsys, *words, code=0 if "v0002 is deployed" in told[4] else 2)
            continue
        small = [each for change in SMALL for each in ("--set", change)]
        more = small if "deployed.yaml" in words else []
        told.append(said_here(capsys, *words, *more))
    assert "nothing is odd" in told[1]
    assert "v0002 trained again: the same bits" in told[-1]
    first, second, third = [each for each in told if each.startswith("mine: ")][:3]
    assert "v0001 is deployed" in first
    assert "v0002 is" in second and "ahead of the deployed one" in second
    assert "0 of 12 new sessions are there" in third
    ledger = json.loads(said_here(capsys, "hpcpod", "ct", "history", "mine", "--json"))
    kinds = [line["kind"] for line in ledger]
    assert [line["cycle"] for line in ledger[:2]] == [1, 2]
    if kinds[1] == "promoted":
        assert kinds[2:] == ["rolled back"] and "rolled back from v0002 to v0001" in back
    else:
        assert kinds == ["promoted", "kept"] and "v0001 is deployed already" in back
    code = [block(WALK, "python", "current/policy.h5"), *blocks(PAGE, "python")]
    out = run_script("".join(code), tmp_path).splitlines()
    assert out[0].startswith("ppo")
    assert out[1].startswith("not due - the next cycle begins in ")
    assert out[2].startswith("1 ") and out[2].endswith("policy.h5")
    assert len(ast.literal_eval(out[3])) == len(ledger) and "ahead" in out[4]
