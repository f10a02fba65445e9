"""Advice by what a run has used: numbers worked by hand, and a real run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hpcpod.cli.parser import main
from hpcpod.config.loader import from_mapping
from hpcpod.run.advice import Advice, Facts, advice, asked_mib
from hpcpod.run.run import open_run
from hpcpod.storage.restarts import RestartRecord, Span
from tests.support.small_runs import mapping

HOUR = 3600.0


def facts(*records: RestartRecord, ended: bool = True, given: Any = (), **sections: Any) -> Facts:
    sections.setdefault("cluster", {})
    sections["cluster"] = {"launcher": "slurm", "minutes": 60, **sections["cluster"]}
    config = from_mapping(mapping(**sections))
    slots = {f"7_{number}": record for number, record in enumerate(records)}
    return Facts(config, slots, ended, **dict(given))


def worked(seconds: float = HOUR, **fields: Any) -> RestartRecord:
    fields.setdefault("spans", (Span(0.0, seconds),))
    return RestartRecord(seconds=seconds, **fields)


def about(found: tuple[Advice, ...], kind: str) -> Advice:
    [one] = [each for each in found if each.about == kind]
    return one


def kinds(found: tuple[Advice, ...]) -> list[str]:
    return [each.about for each in found]


def test_where_nothing_was_measured_nothing_is_said() -> None:
    assert advice(facts()) == ()
    assert advice(facts(worked(), resources={"cpus_per_pod": 4})) == ()


def test_a_run_of_ten_seconds_gets_no_advice() -> None:
    short = worked(
        10.0, peak_mib=10.0, cpu_seconds=1.0, measured=10.0, spent={"waiting": 9.0, "scoring": 1.0}
    )
    sbatch = {"sbatch": {"mem": "16G"}, "minutes": 600}
    assert advice(facts(short, cluster=sbatch, resources={"cpus_per_pod": 4})) == ()


@pytest.mark.parametrize(
    ("options", "mib"),
    [
        ({"mem": "16G"}, 16384.0),
        ({"--mem": "2048"}, 2048.0),
        ({"mem": "1.5gb"}, 1536.0),
        ({"mem_per_cpu": "1G"}, 2048.0),
        ({"mem": "0"}, None),
        ({"mem": "lots"}, None),
        ({}, None),
    ],
)
def test_memory_that_was_asked_for_is_read_as_sbatch_does(
    options: dict[str, str], mib: float | None
) -> None:
    config = facts(resources={"cpus_per_pod": 2}, cluster={"sbatch": options}).config
    found = asked_mib(config)
    assert (None if found is None else found[1]) == mib


def test_memory_of_which_little_was_used_is_asked_for_with_a_quarter_more() -> None:
    one = about(
        advice(facts(worked(peak_mib=2048.0), cluster={"sbatch": {"mem": "16G"}})), "memory"
    )
    assert (one.asked, one.used) == ("16.0 GiB", "2.0 GiB")
    assert one.yaml == "cluster: {sbatch: {mem: 3G}}", "1.25 * 2 GiB, in whole ones"
    assert "ask for less" in one.sentence


def test_memory_that_was_nearly_full_is_asked_for_with_a_quarter_more() -> None:
    one = about(advice(facts(worked(peak_mib=3900.0), cluster={"sbatch": {"mem": "4G"}})), "memory")
    assert one.yaml == "cluster: {sbatch: {mem: 5G}}"
    assert "the kernel kills it" in one.sentence


@pytest.mark.parametrize(("peak", "mem"), [(2048.0, "4G"), (100.0, "512M"), (3686.0, "4G")])
def test_memory_that_fits_or_is_hardly_any_is_left(peak: float, mem: str) -> None:
    assert advice(facts(worked(peak_mib=peak), cluster={"sbatch": {"mem": mem}})) == ()


def test_slots_that_share_an_element_share_its_memory() -> None:
    given = facts(
        resources={"gpus_per_pod": 1, "pods_per_gpu": 2, "cpus_per_pod": 1},
        cluster={"sbatch": {"mem": "16G"}},
    )
    records = {"7_0+0": worked(peak_mib=1000.0), "7_0+1": worked(peak_mib=2000.0)}
    one = about(advice(Facts(given.config, records)), "memory")
    assert one.used == "2.9 GiB", "3000 MiB"


def test_cores_that_were_idle_are_given_back() -> None:
    # 1.5 of 8 are busy: 3 have room for them at 60 %
    record = worked(cpu_seconds=5400.0, measured=HOUR)
    one = about(advice(facts(record, resources={"cpus_per_pod": 8})), "cores")
    assert (one.asked, one.used, one.yaml) == ("8", "1.5", "resources: {cpus_per_pod: 3}")
    busy = worked(cpu_seconds=8640.0, measured=HOUR)  # 2.4 of 4 are just enough
    assert advice(facts(busy, resources={"cpus_per_pod": 4})) == ()


@pytest.mark.parametrize(
    ("resources", "busy", "looks", "yaml"),
    [
        ({"gpus_per_pod": 1}, 2.0, 10, "resources: {pods_per_gpu: 4}"),  # 0.8 / 0.2
        ({"gpus_per_pod": 1}, 0.5, 10, "resources: {pods_per_gpu: 8}"),  # 16, but 8 at most
        ({"gpus_per_pod": 1, "pods_per_gpu": 2}, 2.0, 10, "resources: {pods_per_gpu: 8}"),
        ({"gpus_per_pod": 4}, 2.0, 10, "resources: {gpus_per_pod: 1}"),
        ({"gpus_per_pod": 1}, 0.1, 10, "resources: {gpus_per_pod: 0, pods_per_gpu: 1}"),
        ({"gpus_per_pod": 1}, 3.0, 10, ""),
        ({"gpus_per_pod": 1}, 0.1, 9, ""),
        ({"gpus_per_pod": 0}, 0.1, 10, ""),
    ],
)
def test_gpus_on_which_little_ran_are_shared(
    resources: dict[str, int], busy: float, looks: int, yaml: str
) -> None:
    given = facts(worked(gpu_busy=busy, gpu_looks=looks), resources=resources)
    assert [each.yaml for each in advice(given)] == [yaml] * bool(yaml)


def test_a_time_limit_is_judged_by_the_longest_start_of_a_run_that_has_ended() -> None:
    record = worked(2 * HOUR, spans=(Span(0.0, 1200.0), Span(1300.0, 600.0)))
    given = {"minutes": 240}
    one = about(advice(facts(record, cluster=given)), "time limit")
    assert one.yaml == "cluster: {minutes: 30}", "1.5 * 20 min"
    assert (one.asked, one.used) == ("4 h", "20 min")
    assert advice(facts(record, cluster=given, ended=False)) == ()
    assert advice(facts(record, cluster={"minutes": 40})) == (), "half of it was used"
    assert advice(facts(record, cluster={"launcher": "local"})) == ()


def test_slots_that_start_over_again_and_again_need_longer_limits() -> None:
    record = worked(restarts=9, spent={"starting": 720.0, "training": 2880.0})
    one = about(advice(facts(record)), "time limit")
    assert one.yaml == "cluster: {minutes: 120}"
    assert "started again 9 times, and 20% of their time" in one.sentence


def test_slots_without_work_are_fewer_the_next_time() -> None:
    record = worked(spent={"waiting": 900.0, "training": 2700.0})
    one = about(advice(facts(*[record] * 8)), "waiting")
    assert one.yaml == "cluster: {slots: 6}", "a quarter of 8 had nothing to do"
    assert "for 25% of their time" in one.sentence
    assert advice(facts(record)) == (), "one slot can't be fewer"


def test_scores_that_take_long_ask_for_longer_rounds() -> None:
    # 1 s of scores for 1 s of training: rounds nine times as long make it a tenth
    record = worked(spent={"scoring": 1800.0, "training": 1800.0})
    one = about(advice(facts(record)), "scoring")
    assert one.yaml == "round: {env_steps: 4600}", "9 * 512, in two digits"
    assert "50% of the slots' time went into scores" in one.sentence
    assert advice(facts(record, resources={"cpus_per_pod": 2})) == (), "a core for it is there"


def test_a_long_queue_and_a_large_folder_are_told() -> None:
    found = advice(facts(worked(), given={"queued": 7200.0, "disk": 50e9}))
    assert kinds(found) == ["queue", "disk"]
    assert about(found, "queue").used == "2 h in the queue"
    assert about(found, "disk").used == "50 GB"
    assert advice(facts(worked(), given={"queued": 60.0, "disk": 1e9})) == ()


def test_every_line_is_one_that_a_configuration_takes() -> None:
    import yaml

    record = worked(
        2 * HOUR, restarts=9, peak_mib=2048.0, cpu_seconds=100.0, measured=HOUR,
        spent={"waiting": 1800.0, "scoring": 2400.0, "starting": 900.0, "training": 1800.0},
        spans=(Span(0.0, 1200.0),),
    )  # fmt: skip
    found = advice(
        facts(
            *[record] * 4, given={"queued": 7200.0, "disk": 50e9}, pod={"score_beside": False},
            resources={"cpus_per_pod": 4}, cluster={"sbatch": {"mem": "16G"}, "minutes": 600},
        )
    )  # fmt: skip
    assert kinds(found) == ["memory", "cores", "time limit", "waiting", "scoring", "disk"]
    assert "longer limit" in about(found, "time limit").sentence, "and no shorter one beside it"
    for each in found:
        sections = yaml.safe_load(each.yaml)
        from_mapping(mapping(**sections))


def test_a_real_run_records_what_its_slots_took(
    finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = open_run(finished_run)
    records = run.folder.restarts.all()
    assert any(record.spent["training"] for record in records.values())
    for record in records.values():
        least = 30.0 if record.spent["training"] else 5.0  # torch, which one that came late has not
        assert least < record.peak_mib < 20_000.0
        assert record.cpu_seconds > 0.0
        assert 0.0 < record.measured <= record.seconds + 1.0
    assert main(["advise", str(finished_run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [], "it took seconds"
    assert main(["advise", str(finished_run)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("too short to tell: its slots worked ") and "takes 10 min" in said
