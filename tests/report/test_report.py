"""The page about a run: what it says, and what it says of odd runs."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hpcpod.cli.inspect import show_leaderboard
from hpcpod.records.records import Board, Finals, PodState
from hpcpod.report.axes import number
from hpcpod.report.curves import thinned
from hpcpod.report.one import report_of
from hpcpod.report.story import Story, read
from hpcpod.report.tree import lanes_of
from hpcpod.run.advice import Advice
from hpcpod.run.run import Run, open_run
from hpcpod.storage.run_folder import RunFolder
from tests.report.conftest import Page
from tests.report.test_markup import HOSTILE
from tests.run.test_old_run import old
from tests.support.hand_played import answer, birth_of, merged
from tests.support.small_runs import create

__all__ = ["old"]  # a fixture
SECTIONS = ["summary", "fresh", "curves", "board", "births", "values", "mattered", "slots",
            "troubles", "advice", "again"]  # fmt: skip
FIGURES = 9
"""Figures of ``master`` without panels."""


def sentences(story: Story) -> str:
    """The summary in words, without line ends."""
    summary = report_of(story).split('<dl class="summary">')[1].split("</dl>")[0]
    return " ".join(Page(summary).text.split())


def test_it_says_what_won_by_how_much_on_which_seeds_and_at_what_cost(story: Story) -> None:
    text, best, board = sentences(story), story.best, story.board
    assert best is not None
    assert f"{best.pod} ({best.algorithm}) won, with its policy of round {best.round}" in text
    assert "16 episodes with fresh seeds: nothing of the run had been trained, compared" in text
    finals = sorted((s for s in board.confirmed if s.purpose == "final"), key=lambda s: -s.mean)
    assert f"above the next finalist, {finals[1].pod}" in text
    assert f"in {board.rounds} rounds of {len(board.pods)} pods" in text
    assert "The best control (default hyperparameters), p000" in text
    assert "It has finished: every pod had trained its rounds (stop.rounds)." in text
    for pod in story.lineage[1:]:
        assert f"{pod.id} was copied from {pod.parent} at round {pod.parent_round}" in text
    failed = sum(bool(row.failure_kind) for row in story.results)
    assert failed > 0
    assert f"Failed: {failed} order" in text


def test_fresh_seeds_of_a_trading_run_are_no_fresh_days(story: Story) -> None:
    env = replace(story.config.env, backend="trading")
    text = sentences(replace(story, config=replace(story.config, env=env)))
    assert "16 episodes with fresh seeds, and on no fresh days" in text
    assert "unbiased" in sentences(story) and "unbiased" not in text
    assert "growth of the account's logarithm in an episode, in percent" in text


def won_by_target(story: Story, **pod: object) -> Story:
    """The story as if the winner's score were that of the second set of fresh seeds of a second
    attempt at the target, with other fields of the founder of its lineage."""
    board, best, founder = story.board, story.best, story.lineage[0]
    assert best is not None
    score = next(each for each in reversed(board.confirmed) if each.pod == best.pod)
    passed = replace(score, purpose="confirm", passed=True)
    before = replace(passed, passed=False, mean=passed.mean - 9)
    another = replace(before, round=passed.round - 1)
    changed: PodState = replace(founder, **pod)  # type: ignore[arg-type]
    return replace(
        story, lineage=(changed, *story.lineage[1:]),
        board=replace(
            board, stop_reason="target", attempts=2, pods={**board.pods, changed.id: changed},
            confirmed=(another, before, passed),
            finals=Finals(),
        ),
    )  # fmt: skip


def test_of_a_confirmed_target_the_lower_end_is_to_be_quoted(story: Story) -> None:
    text = sentences(won_by_target(story))
    assert story.best is not None
    assert "They also decided that the target is reached (attempt 2 of 2), so quote" in text
    assert f"the lower end, {number(story.best.low)}; the mean flatters a little" in text
    assert "They also decided" not in sentences(story), "by finals"


def test_a_control_that_wins_is_no_proof_that_defaults_are_as_good(story: Story) -> None:
    assert story.best is not None
    winner = story.best.pod

    def control(told: Story) -> Story:
        pods = {**told.board.pods, winner: replace(told.board.pods[winner], control=True)}
        return replace(told, board=replace(told.board, pods=pods))

    said = "The winner is a control: the search found nothing that was shown to be better."
    early = "It was the first to be confirmed; others were not tried."
    by_finals, by_target = sentences(control(story)), sentences(control(won_by_target(story)))
    assert said in by_finals
    assert early not in by_finals
    assert f"{said} {early}" in by_target


def test_a_replicate_is_no_fresh_draw(story: Story) -> None:
    text = sentences(won_by_target(story, control=False, repeats="p0042"))
    assert "a replicate of p0042, its hyperparameters with another seed" in text
    assert "a fresh draw" not in text


def test_a_round_that_came_after_the_end_is_neither_drawn_nor_a_trouble(story: Story) -> None:
    pod, end = story.lineage[-1].id, story.board.stopped
    assert end is not None
    last = story.rounds[pod][-1]
    late = replace(last, order=f"{pod}-00099-1", round=99, counted=False, ended=end + 5)
    told = replace(story, results=(*story.results, late))
    assert told.rounds == story.rounds
    assert late.order not in report_of(told)
    early = replace(late, ended=end - 5)
    assert early.order in report_of(replace(story, results=(*story.results, early)))
    going = replace(told, board=replace(story.board, phase="running"))
    assert going.rounds[pod][-1] is late, "it may count yet"


def test_every_section_and_every_figure_is_there(story: Story) -> None:
    page = Page(report_of(story))
    assert [each["id"] for each in page.all("section")] == SECTIONS
    plots = [each for each in page.all("svg") if each.get("role") == "img"]
    assert len(plots) >= FIGURES
    names = {each["id"] for each in page.all("title") if "id" in each}
    assert all(set(plot["aria-labelledby"].split()) & names for plot in plots)
    links = {each["href"] for each in page.all("a")}
    assert links == {f"#{name}" for name in SECTIONS}, "and no link leads out of the page"


def test_what_to_ask_for_the_next_time_is_said_as_advise_says_it(story: Story) -> None:
    said = Advice(
        "memory", f"4 GiB {HOSTILE[0]}", "16 GiB", "2 GiB", "cluster: {sbatch: {mem: 3G}}"
    )
    text = Page(report_of(replace(story, advice=(said,)))).text
    for part in (said.sentence, said.asked, said.used, said.yaml):
        assert part in text
    assert (
        "Nothing to change by what was measured" in Page(report_of(replace(story, advice=()))).text
    )


def test_reports_that_are_damaged_or_gone_are_counted(story: Story) -> None:
    gone = "2 reports that the leaderboard has counted can't be read"
    assert "can't be read" not in Page(report_of(story)).text
    kept = [row for row in story.results if row.counted][2:]
    assert gone in Page(report_of(replace(story, results=tuple(kept)))).text


def test_the_lineage_is_the_ancestors_rounds_up_to_each_copy(story: Story) -> None:
    rounds = [row.round for row in story.path]
    assert rounds == sorted(set(rounds)), "no round twice, none before another"
    assert story.path[-1].pod == story.lineage[-1].id
    assert rounds[0] == 1


def test_a_copy_has_the_lane_of_the_pod_that_it_replaced(story: Story) -> None:
    lanes, ends = lanes_of(story)
    copies = [pod for pod in story.board.pods.values() if pod.replaces is not None]
    assert copies
    for pod in copies:
        assert lanes[pod.id] == lanes[pod.replaces or ""]
        assert ends[pod.replaces or ""] == pod.born
    assert len(set(lanes.values())) == 6


def test_hours_are_those_of_all_orders_until_then(story: Story) -> None:
    costs = [row.cost for row in story.results]
    last = story.results[-1].order
    assert story.hours[last] == pytest.approx(sum(costs) / 3600)  # one core for each slot
    assert story.device_hours == "core-hours"


def test_a_run_with_gpus_counts_their_hours(story: Story) -> None:
    shared = replace(story.config.resources, gpus_per_pod=1, pods_per_gpu=2)
    on_gpus = replace(story, config=replace(story.config, resources=shared))
    text = Page(report_of(on_gpus)).text
    assert on_gpus.hours[story.results[-1].order] == pytest.approx(
        0.5 * sum(row.cost for row in story.results) / 3600
    )
    assert "Return against GPU-hours" in text
    assert "GPU-hours of the whole run by then" in text


def hostile(story: Story, name: str) -> Story:
    """The story with a name in the place of every name that a run folder could hold."""
    board, pod = story.board, story.lineage[-1].id
    pods = {
        key: replace(
            each, evidence=name, fate_reason=name, failure=name, algorithm=each.algorithm,
            mutated=(name,) if each.parent else (),
        )
        for key, each in board.pods.items()
    }  # fmt: skip
    pods[name] = replace(pods[pod], id=name)
    rows = [
        replace(row, pod=name if row.pod == pod else row.pod, slot=name, failure=name)
        for row in story.results
    ]
    confirmed = [replace(each, engine=name, pod=name if each.pod == pod else each.pod)
                 for each in board.confirmed]  # fmt: skip
    changed = replace(board, pods=pods, confirmed=tuple(confirmed), winner=name, stop_reason=name)
    assert story.best is not None
    return replace(
        story, name=name, versions={name: name}, board=changed, results=tuple(rows),
        best=replace(story.best, pod=name), status=replace(story.status, failure=name),
        lineage=(*story.lineage[:-1], pods[name]),
        rows=tuple(replace(row, pod=name, origin=name, fate=name) for row in story.rows),
        activities=tuple(replace(each, slot=name, pod=name) for each in story.activities),
        decisions=tuple(replace(each, kind="refusal", outcome=name, rule=name)
                        for each in story.decisions),
    )  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_of_a_run_becomes_an_element_or_runs(story: Story, name: str) -> None:
    harmless, page = Page(report_of(story)), Page(report_of(hostile(story, name)))
    assert {tag for tag, _ in page.found} == {tag for tag, _ in harmless.found}
    assert len(page.all("script")) == 1
    attributes = {key for _, given in page.found for key in given}
    assert attributes <= {key for _, given in harmless.found for key in given}
    assert not [key for key in attributes if key.startswith("on")]
    assert "src" not in attributes
    assert name[:30] in page.text


def test_a_policy_forbids_all_but_the_page_s_own_style_and_script(story: Story) -> None:
    page = Page(report_of(story))
    [policy] = [each["content"] for each in page.all("meta") if "http-equiv" in each]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert not [given for _, given in page.found if "style" in given], (
        "a style that it would refuse"
    )


def test_what_is_no_number_is_left_out(story: Story) -> None:
    odd = [math.nan, math.inf, -math.inf, 1e308, -1e308]
    rows = tuple(
        replace(row, mean=odd[i % 5], low=odd[(i + 1) % 5], high=odd[(i + 2) % 5],
                returns=tuple(odd), metrics={"loss": math.nan}, seconds=odd[i % 5])
        if row.mean is not None else row for i, row in enumerate(story.results)
    )  # fmt: skip
    text = report_of(replace(story, results=rows))
    for path in re.findall(r' d="([^"]*)"', text):
        assert re.fullmatch(r"[MLHVhz0-9 -]*", path), "a coordinate that is no number"


def test_a_run_without_a_report_says_so(tmp_path: Path) -> None:
    text = Page(report_of(read(Run(create(tmp_path, "ppo"))))).text
    assert "Nothing yet: no round was reported." in text
    assert "No round has been scored yet: there is nothing to draw." in text
    assert "No slot has begun to work yet." in text
    assert "No policy has been scored on fresh seeds" in text


def test_a_run_of_one_pod_has_its_line(story: Story) -> None:
    pod = story.lineage[-1]
    alone = replace(pod, parent=None, replaces=None, cause="fresh")
    rows = tuple(row for row in story.results if row.pod == pod.id)
    board = replace(story.board, pods={pod.id: alone}, confirmed=())
    one = replace(story, board=board, results=rows, lineage=(alone,), rows=story.rows[:1])
    text = report_of(one)
    assert "Each point is a pod&#x27;s mean return on the panel of one round." in text
    assert Page(text).all("path")


def test_a_run_of_two_thousand_pods_is_small_enough_to_open(story: Story) -> None:
    text = report_of(crowd(story, 2000))
    assert len(text) < 3_000_000
    assert len(Page(text).found) < 40_000, "elements"
    assert "Drawn are 80 of 200" in text


def crowd(story: Story, count: int) -> Story:
    """The story with so many copies of one pod's rounds under other names."""
    pods, rows = dict(story.board.pods), list(story.results)
    model = max(story.rounds, key=lambda pod: len(story.rounds[pod]))
    for i in range(count):
        name = f"q{i:05d}"
        pods[name] = replace(pods[model], id=name, parent=None, replaces=None, fate="alive")
        rows += [
            replace(row, pod=name, order=row.order.replace(model, name))
            for row in story.rounds[model]
        ]
    return replace(story, board=replace(story.board, pods=pods), results=tuple(rows))


def test_lines_of_many_points_keep_their_ends(story: Story) -> None:
    rows = story.rounds[max(story.rounds, key=lambda pod: len(story.rounds[pod]))]
    kept = thinned(rows, 3)
    assert (kept[0], kept[-1]) == (rows[0], rows[-1])
    assert [row.round for row in kept[:2]] == [1, 4]
    assert thinned(rows, 1) == rows


def test_damaged_reports_and_decisions_are_named_and_passed_over(
    copied: Callable[[str], Path],
) -> None:
    path = copied("torn")
    reports = sorted((path / "reports").glob("*/*.json"))
    for report in reports[::7]:
        report.write_bytes(report.read_bytes()[:50])
    sorted((path / "decisions").glob("*/*.json"))[0].write_text("<script>")
    story = read(open_run(path))
    assert story.quarantined
    assert "damaged file" in sentences(read(open_run(path)))
    assert "Damaged files that were set aside" in Page(report_of(read(open_run(path)))).text


def test_a_run_that_is_half_way_says_that_it_may_change(copied: Callable[[str], Path]) -> None:
    path = copied("half")
    story = read(open_run(path))
    board: Board = replace(story.board, phase="running", winner=None, confirmed=(), stopped=None)
    running = replace(story, board=board, status=replace(story.status, state="running"),
                      best=replace(story.best, fresh=False) if story.best else None)  # fmt: skip
    text = sentences(running)
    assert "what follows is not its end, and may still change." in text
    assert "No score on fresh seeds is there yet." in text
    assert " leads, with its policy" in text


def test_a_run_of_an_older_version_is_drawn(old: Path) -> None:
    page = Page(report_of(read(open_run(old))))
    assert "p0001 (ppo) leads" in page.text
    assert len([each for each in page.all("svg") if each.get("role") == "img"]) >= 5


def test_a_folder_that_is_only_read_is_left_as_it_is(
    master: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted(path for path in master.path.rglob("*") if path.parent.name != "lease")

    def refuse(*given: object, **named: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("hpcpod.storage.disk.Disk.publish", refuse)
    monkeypatch.setattr("hpcpod.storage.disk.Disk.replace", refuse)
    assert report_of(read(Run(RunFolder.open(master.path))))
    after = sorted(path for path in master.path.rglob("*") if path.parent.name != "lease")
    assert after == before


def test_a_score_without_an_error_is_a_number_without_an_interval(tmp_path: Path) -> None:
    folder = create(tmp_path, "ppo")
    answer(folder, birth_of(folder, "p0001"), (3.25,) * 2, metrics={
        "score_error": 0.0, "score_episodes": 1.0,
    })  # fmt: skip
    merged(folder)
    text = Page(report_of(read(Run(folder)))).text
    assert "mean return 3.25." in text and "[3.25, 3.25]" not in text


def test_the_leaderboard_of_a_trading_run_says_its_unit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for backend, times in (("gymnasium", 0), ("trading", 1)):
        env = {"backend": backend} if times else {}
        run = Run(create(tmp_path / backend, env=env))
        show_leaderboard(run, run.board())
        assert capsys.readouterr().out.count("the account's logarithm in an episode, in") == times
