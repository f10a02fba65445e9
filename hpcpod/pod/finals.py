"""Final evaluation: fresh seeds, in gymnasium's own environment whatever the pods train in."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import closing
from typing import cast

from hpcpod import plugins
from hpcpod.config.schema import EnvConfig, RunConfig
from hpcpod.envs.make import backend_of, reference
from hpcpod.envs.spec_json import spec_to_plain
from hpcpod.envs.vec_env import EnvSpec
from hpcpod.errors import EngineDiffers, UserError
from hpcpod.pod.ensemble import default_rule, ensemble_of
from hpcpod.pod.evaluator import Evaluator
from hpcpod.pod.factory import EnvFactory
from hpcpod.pod.fresh_seeds import fresh_seeds as fresh_seeds
from hpcpod.pod.policy import Policy
from hpcpod.records.records import Rescore
from hpcpod.storage.policy_blobs import Rule
from hpcpod.storage.run_folder import RunFolder
from hpcpod.storage.spaces import difference

log = logging.getLogger(__name__)


def final_evaluator(
    config: RunConfig, device: str, own: Evaluator, spec: EnvSpec
) -> tuple[Evaluator, str]:
    """The evaluator whose scores are compared with what others have published, and its engine.

    A fast engine is free to differ a little from the environment that a paper's numbers are from,
    and what was selected in it may have learned just that difference. So the last word has
    gymnasium's own environment of the same id. Where there is none, or it can't be made with the
    arguments that the run's has, it is the run's own that scores, and the log says so.

    Args:
        config: of the run.
        device: where its tensors live.
        own: scores in the environment that the pods train in.
        spec: of that environment.
    """
    found = final_env(config.env, device, spec)
    if found is None:
        return own, spec.engine  # in the batch that it has, not in a second one
    env, engine = found
    make = EnvFactory(env, device)
    made: Evaluator = plugins.make(Evaluator, "evaluators", config.pod.evaluator, make)
    return made, engine


def final_env(env: EnvConfig, device: str, spec: EnvSpec) -> tuple[EnvConfig, str] | None:
    """gymnasium's own environment of the same task, and its engine.

    None where it is the very same one, or there is none, or none with such arguments and spaces:
    of the last two the log says so.

    Args:
        env: the task.
        device: where its tensors live.
        spec: of the environment in which the policy was trained.
    """
    own = reference(env)
    if own is None or backend_of(env) == own.backend:
        return None
    try:
        with closing(EnvFactory(own, device)(1)) as one:
            found = one.spec
    except UserError as error:
        log.warning("final scores are by %s itself: %s", spec.engine, error)
        return None
    if not equal_spaces(found, spec):
        log.warning("final scores are by %s itself: gymnasium's spaces differ", spec.engine)
        return None
    return own, found.engine


def joined(order: Rescore, members: Sequence[Policy]) -> Policy:
    """The policy that an order asks to score: a single one, or an ensemble.

    Raises:
        UserError: the members can't be joined by its rule.
    """
    if not order.members:
        return members[0]
    auto = order.rule == "auto"
    rule = default_rule(members[0].spec) if auto else cast(Rule, order.rule)
    return ensemble_of(members, rule)


def equal_spaces(one: EnvSpec, other: EnvSpec) -> bool:
    """Compare the spaces of two environments as an agent notices them; see ``storage.spaces``."""
    # Only their dtypes were compared once: finals had other choices than the run.
    return not difference(spec_to_plain(one), spec_to_plain(other))


def agree_on_engine(folder: RunFolder, config: RunConfig, scores: str, engine: str) -> None:
    """See that the scores of a run that are compared are all by one engine: the first one's.

    Args:
        folder: the run.
        config: of the run, which may let engines differ.
        scores: which ones: ``panel`` or ``final``.
        engine: what would compute them here.

    Raises:
        EngineDiffers: another one computes them.
    """
    if config.env.compare_engines:
        return
    agreed = folder.engines.agree(scores, engine)
    if agreed != engine:
        raise EngineDiffers(
            f"this run's scores are by {agreed}, here they would be by {engine}, and such scores"
            " are not comparable; have the same versions and data here, or compare them all the"
            " same by `hpcpod resume RUN --any-engine`"
        )
