"""Nothing that is loaded can carry code: the source is read for what could, and files are tried."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import hpcpod
from hpcpod.config import yaml_file
from tests.support.command_line import refusal

ROOT = Path(hpcpod.__file__).parent
SOURCES = sorted(ROOT.rglob("*.py"))

CARRIERS = {"pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
"""Modules whose files run code when they are read."""

FORBIDDEN = {
    "eval", "exec", "compile", "torch.load", "np.load", "numpy.load", "os.system", "os.popen",
    "yaml.load", "yaml.load_all", "yaml.unsafe_load", "yaml.full_load", "subprocess.getoutput",
}  # fmt: skip

INHERITED = {"pod/pipeline/actor.py", "testing/populations.py"}
"""Words between a process and its own child, by a pipe that nobody else has: see ``Channel``.
Boards of contracts, copied in one process's memory: ``copy.deepcopy`` takes three times as long."""


def dangers(source: str) -> Iterator[str]:
    """Everything in a source by which a file, or a name in one, could run code."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.partition(".")[0] in CARRIERS)
        elif isinstance(node, ast.ImportFrom):
            if (node.module or "").partition(".")[0] in CARRIERS:
                yield str(node.module)
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called in FORBIDDEN or called.endswith(("_object", "_object_list")):
                yield called
            for keyword in node.keywords:
                true = isinstance(keyword.value, ast.Constant) and keyword.value.value is True
                if keyword.arg in ("shell", "allow_pickle") and true:
                    yield f"{called}({keyword.arg}=True)"


@pytest.mark.long
def test_nothing_is_loaded_that_could_run_code() -> None:
    found = {
        str(path.relative_to(ROOT)): dangerous
        for path in SOURCES
        if (dangerous := set(dangers(path.read_text(encoding="utf-8"))))
    }
    assert found == {path: {"pickle"} for path in INHERITED}


@pytest.mark.parametrize(
    "line",
    [
        "import pickle", "from pickle import loads", "import dill.source", "torch.load(f)",
        "np.load(f, allow_pickle=True)", "eval(text)", "subprocess.run(x, shell=True)",
        "yaml.load(f, yaml.Loader)", "dist.all_gather_object(a, b)", "os.system(x)",
    ],
)  # fmt: skip
def test_what_could_is_recognised(line: str) -> None:
    assert list(dangers(line))


def test_yaml_is_read_by_a_loader_that_makes_nothing() -> None:
    loaders = [kind for _, kind in inspect.getmembers(yaml_file, inspect.isclass)
               if issubclass(kind, yaml.constructor.BaseConstructor)]  # fmt: skip
    assert loaders
    assert all(issubclass(kind, yaml.SafeLoader) for kind in loaders)


@pytest.mark.parametrize(
    "value",
    [
        "!!python/object/apply:os.system ['touch caught']",
        "!!python/object/new:os.system ['touch caught']",
        "!!python/name:os.system", "!!python/module:os", "!!python/object:pathlib.Path {}",
        "!!python/tuple [1]", "!own x", "!<tag:yaml.org,2002:python/name:os.system> ''",
    ],
)  # fmt: skip
def test_a_tag_in_a_configuration_is_refused_in_a_sentence(
    value: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "good.yaml").write_text(f"name: x\nenv: {{id: CartPole-v1}}\nseed: {value}\n")
    [first, line, *_] = refusal(capsys, "validate", "good.yaml", "--no-probe").splitlines()
    assert first.startswith("hpcpod: good.yaml has ")
    assert line.startswith("  seed: the tag ")
    assert line.endswith("is not supported; leave it out")
    assert not (home / "caught").exists()
