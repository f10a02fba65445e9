"""Several runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hpcpod.config.schema import EnvConfig
from hpcpod.report.arms import _letters, arms_of, differences, task_of
from hpcpod.report.compare import comparison
from hpcpod.report.story import Story
from tests.report.conftest import Page
from tests.report.test_markup import HOSTILE


def several(story: Story, name: str, scores: Sequence[float], **env: object) -> list[Story]:
    """Runs like one, with these scores of their winners and another environment."""
    assert story.best is not None
    config = replace(story.config, env=replace(story.config.env, **env))  # type: ignore[arg-type]
    return [
        replace(
            story, name=f"{name}-{seed}", folder=story.folder / f"{name}-{seed}",
            config=replace(config, seed=seed, name=f"{name}-{seed}"),
            best=replace(story.best, mean=score, low=score - 5, high=score + 5),
        )
        for seed, score in enumerate(scores)
    ]  # fmt: skip


def words(stories: Sequence[Story]) -> str:
    return " ".join(Page(comparison(stories)).text.split())


def test_runs_that_differ_in_seed_and_name_are_one_arm(story: Story) -> None:
    one, other = several(story, "a", [1, 2, 3]), several(story, "b", [4, 5], num_envs=2)
    arms = arms_of([*one, *other])
    assert [(arm.name, len(arm.stories)) for arm in arms] == [("a", 3), ("b", 2)]
    assert differences([*one, *other]) == ["env.num_envs"]
    assert arms[0].scores("CartPole-v1") == [1, 2, 3]


def test_other_slots_make_another_arm_where_the_clock_ends_the_run(story: Story) -> None:
    def slots(run: Story, count: int, minutes: float | None) -> Story:
        config = run.config
        return replace(run, config=replace(
            config, cluster=replace(config.cluster, slots=count),
            stop=replace(config.stop, minutes=minutes),
        ))  # fmt: skip

    one, other = several(story, "a", [1, 2])
    assert len(arms_of([slots(one, 2, None), slots(other, 8, None)])) == 1
    clocked = [slots(one, 2, 60.0), slots(other, 8, 60.0)]
    assert len(arms_of(clocked)) == 2
    assert differences(clocked) == ["cluster.slots"]


def test_tasks_make_no_arms_of_their_own(story: Story) -> None:
    stories = [*several(story, "a", [1, 2]), *several(story, "a", [8, 9], id="Acrobot-v1")]
    [arm] = arms_of(stories)
    assert arm.scores("Acrobot-v1") == [8, 9]


def test_runs_of_other_tasks_are_not_said_to_differ_by_chance(story: Story) -> None:
    other = several(story, "lander", [8], id="Acrobot-v1", num_envs=2)
    text = words([*several(story, "cart", [1]), *other])
    assert "2 runs of 2 tasks: fields in which only tasks differ are taken for settings of" in text
    assert "that of chance" not in text
    assert "Acrobot-v1: mean score of the runs: configuration (A) 8" in text
    assert "their spread is that of chance" in words(several(story, "a", [1, 2]))


def test_arms_of_one_name_are_told_apart(story: Story) -> None:
    stories = [*several(story, "a", [1]), *several(story, "a", [2], num_envs=2)]
    assert [arm.name for arm in arms_of(stories)] == ["a (A)", "a (B)"]


def test_runs_of_one_name_are_told_apart_by_their_folders(story: Story) -> None:
    one, other, third = several(story, "a", [1, 2, 3])
    text = words([one, replace(other, name=one.name), third])
    for run in (one, other):
        assert f"a-0 ({run.folder})"[-30:] in text
    assert f"({third.folder})"[-30:] not in text


def test_arms_beyond_z_have_names_of_their_own() -> None:
    assert [_letters(place) for place in (0, 25, 26, 27, 701, 702)] == [
        "A", "Z", "AA", "AB", "ZZ", "AAA",
    ]  # fmt: skip


def test_a_copy_counts_once(story: Story) -> None:
    one, other = several(story, "a", [1, 5])
    copy = replace(one, name="copied")
    (arm,) = arms_of([one, other, copy])
    assert len(arm.stories) == 3 and arm.counted == [one, other]
    assert arm.scores(task_of(one)) == [1, 5]


def test_a_copy_of_a_run_is_warned_of(story: Story) -> None:
    one, other = several(story, "a", [1, 2])
    copy = replace(one, name="copied")
    text = words([one, other, copy])
    assert "The same seed and the same start: a-0 and copied. They seem to be copies" in text
    assert "The same seed" not in words([one, other]), "another seed"
    later = replace(copy, board=replace(copy.board, started=copy.board.started + 1))
    assert "The same seed" not in words([one, other, later]), "another start"


def test_a_clear_difference_is_said_and_an_unclear_one_too(story: Story) -> None:
    low, high = [100.0 + i for i in range(6)], [200.0 + i for i in range(6)]
    text = words([*several(story, "low", low), *several(story, "high", high, num_envs=2)])
    assert (
        "high is better than low: a run of low scores above one of high with a probability" in text
    )
    assert "mean score of the runs: high 202.5, low 102.5." in text
    text = words([*several(story, "a", low), *several(story, "b", low, num_envs=2)])
    assert "a and b can't be told apart by so few runs" in text
    assert "a probability of 0.50" in text


def test_three_runs_against_three_give_no_verdict_however_far_apart(story: Story) -> None:
    few = [*several(story, "a", [1, 2, 3]), *several(story, "b", [91, 92, 93], num_envs=2)]
    text = words(few)
    assert "a and b can't be told apart by so few runs" in text
    assert "p = 0.1; below 0.05 it counts" in text


def test_more_pairs_take_a_smaller_p(story: Story) -> None:
    four = [*several(story, "a", [1, 2, 3, 4]), *several(story, "b", [91, 92, 93, 94], num_envs=2)]
    assert "b is better than a" in words(four)
    text = words([*four, *several(story, "c", [1, 2, 3, 4], num_envs=8)])
    assert "is better" not in text
    assert "p = 0.029; below 0.017 it counts" in text


def test_a_run_that_goes_on_or_was_chosen_by_its_panel_allows_no_verdict(story: Story) -> None:
    low, high = [100.0 + i for i in range(6)], [200.0 + i for i in range(6)]
    first, *rest = several(story, "low", low)
    others = several(story, "high", high, num_envs=2)
    assert first.best is not None
    for odd in (replace(first, best=replace(first.best, fresh=False)),
                replace(first, board=replace(first.board, phase="running"))):  # fmt: skip
        text = words([odd, *rest, *others])
        assert "is better" not in text
        assert "No verdict and no aggregate of low: they take runs that have all" in text
        assert "IQM with 95 % intervals" in text, "of the other arm"
        assert "Pairs of configurations" not in text


def test_one_run_of_each_task_makes_no_aggregate(story: Story) -> None:
    stories = [run for i, task in enumerate(("CartPole-v1", "Acrobot-v1", "Pendulum-v1"))
               for run in several(story, f"a{i}", [float(i)], id=task)]  # fmt: skip
    text = words(stories)
    assert "An aggregate takes 3 runs of a configuration on each task" in text
    assert "IQM with 95 % intervals" not in text


def test_two_runs_allow_no_claim_of_their_configurations(story: Story) -> None:
    text = words([*several(story, "a", [1]), *several(story, "b", [9], num_envs=2)])
    assert "fewer than 3 runs: nothing can be said of the configuration" in text
    assert "is better" not in text
    assert "An aggregate takes 3 runs" in text


def test_scores_of_several_tasks_are_set_from_0_to_1_in_each(story: Story) -> None:
    stories = [
        *several(story, "a", [10, 20, 30]), *several(story, "b", [40, 50, 60], num_envs=2),
        *several(story, "a", [-3, -2, -1], id="Pendulum-v1"),
        *several(story, "b", [-6, -5, -4], id="Pendulum-v1", num_envs=2),
    ]  # fmt: skip
    text = words(stories)
    assert "0 the lowest and 1 the highest run of each task" in text
    # a: 0, .2, .4 and .6, .8, 1; b the other way round: the middle halves have equal means
    assert "a and b can't be told apart" in text


def test_names_of_runs_stay_names(story: Story) -> None:
    page = Page(comparison([replace(story, name=name) for name in HOSTILE]))
    assert len(page.all("script")) == 1
    assert not [key for _, given in page.found for key in given if key.startswith("on")]


def test_a_run_without_a_score_is_in_the_table_alone(story: Story) -> None:
    empty = replace(story, name="empty", best=None, results=(), rows=(), lineage=(),
                    config=replace(story.config, env=EnvConfig("CartPole-v1")))  # fmt: skip
    assert "empty" in words([story, empty])
