"""A site's file under a run's configuration."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpcpod.cli.parser import main
from hpcpod.config.loader import dump_yaml, from_mapping, from_words, load_file, to_mapping
from hpcpod.config.resolved import Resolved
from hpcpod.config.site import read_site
from hpcpod.errors import ConfigError, UserError
from hpcpod.launchers.slurm.templates import template_folder
from hpcpod.run.preflight import read_config, site_for
from tests.support.command_line import refusal

RUN = "name: a\nenv: {id: CartPole-v1}\ncluster: {minutes: 60, sbatch: {mem: 8G}}\n"
SITE = """\
cluster:
  launcher: slurm
  partition: gpu
  minutes: 1440
  sbatch: {mem: 32G, constraint: ib}
  container: {runtime: apptainer, image: /images/hpcpod.sif}
resources: {gpus_per_pod: 1, gpu_type: a100}
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "site.yaml").write_text(SITE)
    path = tmp_path / "run.yaml"
    path.write_text(RUN)
    return path


def test_a_run_says_what_its_site_does_not_and_counts_for_more(run: Path) -> None:
    config = load_file(run, ["resources.gpus_per_pod=2"], run.with_name("site.yaml"))
    cluster = config.cluster
    assert (cluster.launcher, cluster.partition, cluster.minutes) == ("slurm", "gpu", 60)
    assert cluster.sbatch == {"mem": "8G", "constraint": "ib"}
    assert cluster.container.image == "/images/hpcpod.sif"
    assert (config.resources.gpus_per_pod, config.resources.gpu_type) == (2, "a100")
    assert cluster.site == str(run.with_name("site.yaml"))


def test_null_takes_away_what_the_site_says(run: Path) -> None:
    words = ["cluster.partition=null", "cluster.container.runtime=null"]
    cluster = load_file(run, words, run.with_name("site.yaml")).cluster
    assert (cluster.partition, cluster.container.runtime) == (None, None)


def test_a_schedule_replaces_the_site_s_of_which_the_first_entry_would_count(run: Path) -> None:
    site = run.with_name("site.yaml")
    site.write_text("cluster: {schedule: {mon-fri 8-18: 2, 'sat,sun': 9}}\n")
    own = load_file(run, ["cluster.schedule={mon-sun 0-24: 4}"], site).cluster
    assert own.schedule == {"mon-sun 0-24": 4}
    assert load_file(run, ["cluster.schedule={}"], site).cluster.schedule == {}
    assert load_file(run, (), site).cluster.schedule == {"mon-fri 8-18": 2, "sat,sun": 9}


def test_null_takes_away_an_option_of_sbatch(run: Path) -> None:
    site = run.with_name("site.yaml")
    assert load_file(run, ["cluster.sbatch.constraint=null"], site).cluster.sbatch == {"mem": "8G"}


def test_null_of_an_option_of_sbatch_is_nothing_where_no_site_has_it(run: Path) -> None:
    word = "cluster.sbatch.constraint=null"
    bare = run.with_name("bare.yaml")
    bare.write_text("cluster: {launcher: slurm}\n")
    for site in (None, bare):
        assert load_file(run, [word], site).cluster.sbatch == {"mem": "8G"}
    run.write_text(RUN.replace("mem: 8G", "mem: 8G, constraint: null, qos: ~"))
    assert load_file(run).cluster.sbatch == read_config(str(run)).cluster.sbatch == {"mem": "8G"}
    plain = {"name": "a", "env": {"id": "E-v0"}, "cluster": {"sbatch": {"mem": "8G", "qos": None}}}
    made = from_mapping(plain)
    assert made.cluster.sbatch == read_config(plain).cluster.sbatch == {"mem": "8G"}
    assert from_words(made, [word], source="a run") == made


def test_what_is_printed_has_all_of_the_site_and_does_not_read_it_again(run: Path) -> None:
    printed = run.with_name("printed.yaml")
    config = load_file(run, ["cluster.sbatch.constraint=null"], run.with_name("site.yaml"))
    printed.write_text(dump_yaml(config))
    again = load_file(printed)
    assert again == replace(config, cluster=replace(config.cluster, site=None))
    assert again.cluster.partition == "gpu" and again.cluster.sbatch == {"mem": "8G"}


def test_what_is_printed_refuses_the_environment_s_site_but_not_one_that_is_named(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed, site = run.with_name("printed.yaml"), run.with_name("site.yaml")
    config = load_file(run, ["cluster.sbatch.constraint=null"], site)
    printed.write_text(dump_yaml(config))
    monkeypatch.setenv("HPCPOD_SITE", str(site))
    again = read_config(str(printed), site=site_for(None, None))
    assert again == replace(config, cluster=replace(config.cluster, site=None))
    plain = to_mapping(again)
    assert read_config(plain, site=site_for(None, None)).cluster.sbatch == {"mem": "8G"}
    named = read_config(str(printed), site=site_for(site, None)).cluster
    assert (named.sbatch, named.site) == ({"mem": "8G", "constraint": "ib"}, str(site))
    assert read_config(str(run), site=site_for(None, None)).cluster.partition == "gpu"
    word = ["cluster.site=null"]
    taken = read_config(str(run), set_options=word, site=site_for(None, None))
    assert taken == load_file(run)


def test_null_of_an_option_of_sbatch_is_nothing_in_a_site_s_file_too(run: Path) -> None:
    site = run.with_name("site.yaml")
    site.write_text("cluster: {sbatch: {constraint: null, qos: ~, gres: gpu}}\n")
    assert load_file(run, (), site).cluster.sbatch == {"mem": "8G", "gres": "gpu"}


def test_a_path_of_python_s_names_the_file_too(run: Path) -> None:
    data = {"name": "a", "env": {"id": "E-v0"}, "cluster": {"site": run.with_name("site.yaml")}}
    assert read_config(data).cluster.partition == "gpu"


def test_where_the_file_is_does_not_depend_on_the_folder(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run.parent)
    for found in (load_file(run.name, ["cluster.site=site.yaml"]), load_file(run, (), "site.yaml")):
        assert found.cluster.site == str(run.with_name("site.yaml"))


def test_a_configuration_that_is_made_does_not_read_its_site_again(run: Path) -> None:
    site = run.with_name("site.yaml")
    made = load_file(run, (), site)
    site.write_text("cluster: {partition: other, sbatch: {qos: long}}\n")
    changed = from_words(made, ["cluster.minutes=5"], source="a run")
    assert changed == replace(made, cluster=replace(made.cluster, minutes=5))


def test_a_configuration_names_the_file_beside_it(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    config = load_file(run, ["cluster.site=site.yaml"])
    assert config.cluster.partition == "gpu"
    other = tmp_path / "other.yaml"
    other.write_text("cluster: {partition: other}\n")
    assert load_file(run, ["cluster.site=site.yaml"], other).cluster.partition == "other"


def test_a_run_that_is_made_does_not_depend_on_the_file_any_more(run: Path) -> None:
    site = run.with_name("site.yaml")
    document = Resolved(load_file(run, (), site), {}).document()
    site.unlink()
    assert Resolved.from_document(document).config.cluster.partition == "gpu"


def test_a_mapping_has_a_site_too(run: Path) -> None:
    data = {"name": "a", "env": {"id": "CartPole-v1"}, "cluster": {"minutes": 5}}
    config = read_config(data, site=run.with_name("site.yaml"))
    assert (config.cluster.partition, config.cluster.minutes) == ("gpu", 5)


def test_the_environment_names_one_but_not_for_a_run_on_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HPCPOD_SITE", "/site.yaml")
    assert site_for(None, None) == site_for(None, "slurm") == "/site.yaml"
    assert site_for("/mine.yaml", "slurm") == "/mine.yaml"
    assert site_for(None, "local") is None
    assert site_for("/mine.yaml", "local") == "/mine.yaml"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("cluster: {partion: gpu}", "cluster.partion: unknown key; did you mean 'partition'?"),
        ("env: {id: Ant-v5}", "env: unknown key (known: cluster, resources)"),
        ("cluster: {site: other.yaml}", "cluster.site: a site's file can't lie over another one"),
        ("cluster: {container: {runtime: pyxis}}", "cluster.container: runtime is pyxis, which"),
        ("cluster: {container: {runtime: docker}}", "cluster.container.runtime: expected one of"),
        ("- a", "expected 'cluster:' and 'resources:' sections"),
        ("resources: {gpu_type: 'a 100'}", "resources: gpu_type must be a word such as a100"),
        ("cluster:\n\tpartition: gpu", "line 2, column 1: not valid YAML"),
    ],
)
def test_what_is_wrong_with_a_site_is_said_by_its_own_name(
    run: Path, text: str, problem: str
) -> None:
    site = run.with_name("bad.yaml")
    site.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_file(run, (), site)
    assert caught.value.source == str(site)
    assert caught.value.problems[0].startswith(problem)


def test_a_site_that_is_not_there_suggests_its_neighbour(run: Path) -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'site\.yaml'"):
        load_file(run, (), run.with_name("sites.yaml"))


def test_somebody_unknown_has_no_home(run: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such file"):
        load_file(run, (), "~nobody-of-this-name/site.yaml")
    with pytest.raises(ConfigError, match="there is no such file"):
        load_file(run, ["cluster.site=~nobody-of-this-name/site.yaml"])
    with pytest.raises(UserError, match="there is no folder ~nobody-of-this-name"):
        template_folder("~nobody-of-this-name/templates")


def test_every_site_that_comes_along_is_one() -> None:
    folder = template_folder("default")
    files = [folder / "site.example.yaml", *sorted((folder / "sites").iterdir())]
    assert len(files) == 4
    assert all(read_site(path).cluster.launcher == "slurm" for path in files)


def test_a_bad_site_is_one_sentence_of_every_verb_that_takes_one(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "bad.yaml").write_text("cluster: {partition: [a]}\n")
    said = "hpcpod: bad.yaml has 1 problem\n  cluster.partition: expected str, got a list\n"
    for verb in ("validate", "launch", "render", "doctor"):
        assert refusal(capsys, verb, "good.yaml", "--site", "bad.yaml") == said
    monkeypatch.setenv("HPCPOD_SITE", "bad.yaml")
    assert refusal(capsys, "launch", "good.yaml", "--cluster", "slurm") == said
    assert main(["validate", "good.yaml", "--cluster", "local", "--no-probe"]) == 0
