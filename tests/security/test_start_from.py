"""A run that starts from another user's best: it copies what it may read, and imports nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.security.people import Person, shared_folder

OWN = "tests.pod.told_agent:Told"
ANNS = f"""
from tests.pod.rounds import births, train
from hpcpod.tournament.merge import merge
from hpcpod.tournament.rules import Rules
for name, agent in (("anns", "ppo"), ("own", {OWN!r})):
    small = {{"horizon": 32, "minibatch_size": 64, "hidden": 16}}
    more = {{"name": name, "stop": {{"rounds": 9}}, "agents": {{agent: small}}}}
    folder = create(Path(sys.argv[1]), agent, **more)
    folder.reports.publish(train(folder, births(folder)["p0001"]))
    merge(folder, Rules.of_run(folder))
"""
"""Two runs of Ann's with a round each: of PPO, and of an agent of her own."""

BOBS = """
from hpcpod.config.loader import from_mapping
from hpcpod.errors import ConfigError
from tests.pod.rounds import births, train
from tests.support.small_runs import mapping
runs = Path(sys.argv[1])
def made(run, **fields):
    start = {"run": str(runs / run), **fields}
    return create(Path("runs"), "ppo", "dqn", name="bobs", population={"start_from": start})
try:
    made("own", distill=256)
except ConfigError as error:
    print(*error.problems)
assert "tests.pod.told_agent" not in sys.modules
folder = made("anns", distill=256)
heir, student = births(folder)["p0001"], births(folder)["p0002"]
core = folder.blobs.path(heir.checkpoint.core)
assert student.teacher.checkpoint.core == heir.checkpoint.core and heir.origin.run == "anns"
assert core.stat().st_uid == os.getuid() and core.read_bytes()
for birth in (heir, student):
    assert train(folder, birth).trained_steps == 512
print("trained")
"""


@pytest.mark.slow
def test_another_user_s_policy_is_copied_and_taught_by_and_none_of_its_code_is_imported(
    runs: Path, ann: Person, bob: Person
) -> None:
    with shared_folder(bob) as bobs:
        ann.does(ANNS, str(runs), cwd=runs)
        said, trained = bob.does(BOBS, str(runs), cwd=bobs).splitlines()
        assert said.startswith(
            f"population.start_from.distill: p0001 of own would act by agent: {OWN}, which this"
            " configuration does not name"
        )
        assert trained == "trained"
        # What may not be read is one sentence.
        (bobs / "bob.yaml").write_text(
            "name: other\nenv: {id: CartPole-v1}\npopulation: {algorithms: {ppo: 1}}\n"
            "agents: {ppo: {hidden: 16}}\nstop: {minutes: 1}\n"
        )
        words = ("validate", "bob.yaml", "--no-probe", "--from", str(runs / "anns"))
        (runs / "anns" / "blobs").chmod(0o700)
        said = bob.hpcpod(*words, cwd=bobs, code=2)
        assert said.startswith(
            "hpcpod: bob.yaml has 1 problem\n  population.start_from: p0001 of anns can't be read: "
        )
        assert said.endswith(": permission is denied\n") and said.count("\n") == 2
