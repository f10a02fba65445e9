"""The card of a registered policy: ``card.json`` and ``README.md``, as of an exported one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from hpcpod.deploy.card import escaped, facts, front, lineages, name_of, table
from hpcpod.pod.policy import load_policy_file


def version_card(
    policy: Path, about: Mapping[str, Any],
    run: Callable[[Mapping[str, Any]], Mapping[str, Any]], registered: Mapping[str, Any],
) -> dict[str, bytes]:  # fmt: skip
    """The files of a card, by name.

    Args:
        policy: the file of it.
        about: what the run knows of it: ``env`` and ``score``.
        run: gives the run's facts for what the policy says of itself, see
            ``policy_folder.facts_of``.
        registered: what the registry says: ``version``, ``parent``, ``config_sha256``,
            ``windows``, ``data``, ``judged``.
    """
    loaded = load_policy_file(policy, about=about)
    made = facts(loaded, run(loaded.about), "unknown")
    made["registered"] = dict(registered)
    text = front(made, ["continuous-training"]) + "\n".join(_lines(made)) + "\n"
    whole = json.dumps(made, indent=1, default=str, sort_keys=True)
    return {"card.json": whole.encode(), "README.md": text.encode()}


def _lines(made: Mapping[str, Any]) -> Iterator[str]:
    own, env = made["registered"], made["environment"]
    yield f"# {escaped(name_of(made))} on {escaped(env['id'])}, {escaped(own['version'])}\n"
    yield f"A policy that hpcpod has trained and registered: {escaped(own['judged'])}.\n"
    score = made["score"]
    if score:
        yield (
            f"Its run's own score is {score['mean']:.4g}, 95 % interval {score['low']:.4g} to"
            f" {score['high']:.4g}, in {score['episodes']} episodes.\n"
        )
    yield 'It acts by `hpcpod.load_policy("policy.h5")`; `hpcpod export` writes it for others.\n'
    sections = (
        ("Registry", {name: own[name] for name in ("parent", "config_sha256") if own[name]}),
        ("Data", {"windows": own["windows"], **own["data"]}),
        ("Hyperparameters", made["policy"].get("hyperparameters") or {}),
        ("Environment", env["config"] or {}),
        ("Run", {k: v for k, v in made["run"].items() if k not in ("lineage", "lineages")}),
        ("Versions", made["versions"]),
    )
    for title, values in sections:
        if values:
            yield f"## {title}\n"
            yield from table(("name", "value"), values.items())
    yield from lineages(made["run"])
