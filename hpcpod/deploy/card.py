"""The card of an exported policy: ``card.json``, and a ``README.md`` as Hugging Face reads it."""

from __future__ import annotations

import importlib.metadata
import math
import platform
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from hpcpod._student_t import t_quantile
from hpcpod._version import __version__
from hpcpod.deploy.environment_terms import ACTION, Portability
from hpcpod.deploy.onnx_file import IR, OPSET
from hpcpod.deploy.play import score_of
from hpcpod.pod.policy import Policy
from hpcpod.records.codec import encode
from hpcpod.tournament.statistics import mean, sd

_PACKAGES = ("torch", "numpy", "gymnasium")
_EXPORTERS = ("onnx", "onnxruntime")
_LONGEST = 200
"""Characters of one value in a table."""


def card(
    policy: Policy,
    done: Portability,
    run: Mapping[str, Any],
    checks: Mapping[str, Any],
    licence: str,
) -> dict[str, Any]:
    """All that is known of an exported policy: JSON-able."""
    known = facts(policy, run, licence)
    inputs = [
        {"name": part.name, "path": list(part.path), "dtype": part.dtype,
         "shape": ["batch", *part.shape]}
        for part in done.parts
    ]  # fmt: skip
    return {
        **known,
        "mean_reward": _mean_reward(known["score"], checks),
        "inputs": inputs,
        "output": {"name": ACTION, "dtype": done.dtype, "shape": ["batch", *done.shape],
                   "bounds": encode(policy.spec.action_bounds)},
        "files": {
            "policy.onnx": {"opset": OPSET, "ir_version": IR},
            "policy.h5": None if done.obstacle else {"format": 1, "reader": "policy.py"},
        },
        "not for numpy": done.obstacle,
        "checks": dict(checks),
        "versions": {**known["versions"],
                     **{name: importlib.metadata.version(name) for name in _EXPORTERS}},
    }  # fmt: skip


def facts(policy: Policy, run: Mapping[str, Any], licence: str) -> dict[str, Any]:
    """All that is known of a policy as it is, exported or not: JSON-able."""
    about, spec, score = dict(policy.about), policy.spec, score_of(policy)
    return {
        "format": 1,
        "library_name": "hpcpod",
        "licence": licence,
        "environment": {"id": spec.id, "engine": spec.engine, "config": about.get("env")},
        "policy": {k: v for k, v in about.items() if k not in ("env", "score")},
        "run": dict(run),
        "score": score,
        "mean_reward": _mean_reward(score, {}),
        "versions": {"hpcpod": __version__, "python": platform.python_version(),
                     **{name: importlib.metadata.version(name) for name in _PACKAGES}},
    }  # fmt: skip


def _mean_reward(score: Mapping[str, Any], checks: Mapping[str, Any]) -> dict[str, Any] | None:
    """Mean and standard deviation of episode returns, and whose they are."""
    if "played" in checks:
        returns = checks["played"]["returns"]
        return {"mean": mean(returns), "std": sd(returns), "episodes": len(returns),
                "of": "policy.onnx"}  # fmt: skip
    n = int(score.get("episodes", 0))
    if n < 2:
        return None
    among = score.get("best_of")  # another user may have written it
    level = 1 - 0.025 / (max(1, among) if isinstance(among, int) else 1)  # as ``chosen_interval``
    spread = (score["high"] - score["mean"]) / t_quantile(level, n - 1) * math.sqrt(n)
    return {"mean": score["mean"], "std": spread, "episodes": n, "of": "the agent, in its run"}


def readme(made: Mapping[str, Any]) -> str:
    """The README of a card, with the metadata that Hugging Face reads in front."""
    return front(made, ["onnx"]) + "\n".join(_lines(made)) + "\n"


def front(made: Mapping[str, Any], tags: Sequence[str] = ()) -> str:
    """The metadata that Hugging Face reads, as a README begins with them."""
    found = _metadata(made)
    found["tags"][3:3] = tags
    return f"---\n{yaml.safe_dump(found, sort_keys=False, allow_unicode=True)}---\n\n"


def _metadata(made: Mapping[str, Any]) -> dict[str, Any]:
    env, reward = visible(made["environment"]["id"]), made["mean_reward"]
    found: dict[str, Any] = {
        "library_name": "hpcpod",
        "license": made["licence"],
        "tags": [env, "reinforcement-learning", "deep-reinforcement-learning", "hpcpod"],
    }
    if reward is not None:
        metric = {"type": "mean_reward", "name": "mean_reward", "verified": False,
                  "value": f"{reward['mean']:.2f} +/- {reward['std']:.2f}"}  # fmt: skip
        found["model-index"] = [{
            "name": name_of(made),
            "results": [{
                "task": {"type": "reinforcement-learning", "name": "reinforcement-learning"},
                "dataset": {"name": env, "type": env},
                "metrics": [metric],
            }],
        }]  # fmt: skip
    return found


def name_of(made: Mapping[str, Any]) -> str:
    """The policy's name: its agent, or the ensemble that it is."""
    policy = made["policy"]
    if "members" in policy:
        return f"ensemble of {len(policy['members'])} ({visible(str(policy.get('rule')))})"
    return visible(str(policy.get("agent", "policy")))


def _lines(made: Mapping[str, Any]) -> Iterator[str]:
    env, reward, score = made["environment"], made["mean_reward"], made["score"]
    yield f"# {escaped(name_of(made))} on {escaped(env['id'])}\n"
    yield "A policy that hpcpod has trained, for use without it.\n"
    if reward is not None:
        yield (
            f"Mean return {reward['mean']:.2f} +/- {reward['std']:.2f} (standard deviation) in"
            f" {reward['episodes']} episodes of {reward['of']}.\n"
        )
    if score:
        among = escaped(score.get("best_of"))  # another user may have written it
        fresh = (
            f"on fresh seeds, the best of {among}" if score.get("fresh_seeds")
            else f"the best of {among} evaluations"
        )  # fmt: skip
        yield (
            f"The run's own score is {score['mean']:.2f}, 95 % interval {score['low']:.2f} to"
            f" {score['high']:.2f}, in {score['episodes']} episodes, {fresh}.\n"
        )
    yield from _usage(made)
    yield from _checks(made["checks"])
    if "members" in made["policy"]:
        yield "## Members\n"
        rows = [(m.get("agent"), m.get("pod"), m.get("round")) for m in made["policy"]["members"]]
        yield from table(("agent", "pod", "round"), rows)
    for title, values in (
        ("Hyperparameters", made["policy"].get("hyperparameters") or {}),
        ("Environment", env["config"] or {}),
        ("Run", {k: v for k, v in made["run"].items() if k not in ("lineage", "lineages")}),
        ("Versions", made["versions"]),
    ):
        if values:
            yield f"## {title}\n"
            yield from table(("name", "value"), values.items())
    yield from lineages(made["run"])


def lineages(run: Mapping[str, Any]) -> Iterator[str]:
    """The lineage of a policy; of an ensemble those of its members."""
    lines = {"Lineage": run.get("lineage", ())}
    lines |= {f"Lineage of {escaped(pod)}": line for pod, line in run.get("lineages", {}).items()}
    for title, line in lines.items():
        if line:
            yield f"## {title}\n\nFrom the founder to the pod whose policy this is.\n"
            rows = [(pod["pod"], pod["born"], pod["changes"]) for pod in line]
            yield from table(("pod", "born", "changes"), rows)


def _usage(made: Mapping[str, Any]) -> Iterator[str]:
    files = made["files"]
    onnx = files["policy.onnx"]
    yield "## Use\n"
    yield "```python\nimport numpy as np\nimport onnxruntime\n"
    yield 'session = onnxruntime.InferenceSession("policy.onnx")'
    given = ", ".join(
        f"{part['name']!r}: np.zeros({(1, *part['shape'][1:])}, {part['dtype']!r})"
        for part in made["inputs"]
    )
    yield f'(actions,) = session.run(["{ACTION}"], {{{given}}})\n```\n'
    if files["policy.h5"] is not None:
        yield "Without ONNX Runtime, by `policy.py`, which needs numpy and h5py alone:\n"
        yield "```python\nfrom policy import Policy\n"
        yield 'policy = Policy("policy.h5")\naction = policy(observation)\n```\n'
    else:
        yield (
            "There is no `policy.h5`: the agent has modules that the NumPy reader has not"
            f" ({escaped(made['not for numpy'])}).\n"
        )
    yield (
        f"`policy.onnx` is of opset {onnx['opset']} and IR version {onnx['ir_version']}. It takes"
        " observations as the environment gives them and gives actions as its `step` takes them:"
        " normaliser, encoder, squash and bounds are inside. The action is the policy's best one;"
        " it never explores.\n"
    )
    parts = [*made["inputs"], made["output"]]
    rows = [(p["name"], p["dtype"], " x ".join(map(str, p["shape"]))) for p in parts]
    yield from table(("name", "type", "shape"), rows)


def _checks(checks: Mapping[str, Any]) -> Iterator[str]:
    yield "## Checks\n"
    yield "Before this folder got its name, its files were compared with the agent.\n"
    rows = [
        (name, found["observations"], f"{found['largest']:.2g}", len(found["within_rounding"]))
        for name, found in checks["parity"].items()
    ]
    heads = ("observations", "count", "largest difference", "within rounding")
    yield from table(heads, rows)
    yield (
        "The difference is in halves of the distance of an action's bounds; choices are equal."
        " Within rounding are those where the agent itself acts so if a last digit of its weights"
        " changes.\n"
    )
    if "played" in checks:
        game = checks["played"]
        fits = ", which fits the run's score" if game.get("fits the run's score") else ""
        count = len(game["returns"])
        yield f"`policy.onnx` played {count} episodes in {escaped(game['engine'])}{fits}.\n"
    else:
        yield f"It was not scored: {escaped(checks['not played'])}.\n"


def table(heads: tuple[str, ...], rows: Any) -> Iterator[str]:
    """A table of Markdown, its texts escaped, and an empty line."""
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(escaped(value) for value in row)} |"
    yield ""


def visible(text: str) -> str:
    """A text without what steers a terminal or turns its direction, on one line."""
    shown = "".join(" " if c.isspace() else c for c in text)
    return "".join(c for c in shown if not unicodedata.category(c).startswith("C"))


def escaped(value: Any) -> str:
    """A value as text that Markdown, and the HTML in it, shows letter by letter, on one line."""
    text = " ".join(visible(str(value)).split())
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_{}\[\]()#|~!])", r"\\\1", text)
