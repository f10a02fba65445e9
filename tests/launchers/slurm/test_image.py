"""The words that run Python in a container, and what an image is built from."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from hpcpod.cli.parser import main
from hpcpod.config.container import ContainerConfig, Inside, Runner
from hpcpod.config.script_prelude import exported
from hpcpod.errors import UserError
from hpcpod.launchers.slurm.image import write_container_files, write_wheel
from hpcpod.launchers.slurm.launcher import SlurmLauncher
from tests.launchers.runs import COORDINATOR, SLOTS, run_config
from tests.support.command_line import refusal

PYXIS = ContainerConfig("pyxis", "nvcr.io#lab/hpcpod:1", ("/data", "/lustre/d:/d:ro"))
APPTAINER = ContainerConfig("apptainer", "/images/hpcpod.sif", ("/data", "/lustre/d:/d:ro"))
INSIDE = Inside("/runs/ant", ("/home/user/code", "/runs"), "/local", {"B", "A"}, gpus=True)
PYTHON = ("/usr/bin/env", "PYTHONNOUSERSITE=1", "python3")

SECTIONS = {"%labels", "%files", "%post", "%test"}


def test_the_runner_of_pyxis_is_options_of_srun() -> None:
    assert Runner.of(PYXIS, INSIDE) == Runner(
        (
            "--container-image=nvcr.io#lab/hpcpod:1",
            "--container-mounts=/home/user/code:/home/user/code,/runs:/runs,/data:/data,"
            "/lustre/d:/d:ro,/local:/local",
            "--container-workdir=/runs/ant",
            "--container-env=A,B",
        ),
        (),
        PYTHON,
    )


def test_the_runner_of_apptainer_is_a_command_behind_srun() -> None:
    binds = ("/home/user/code", "/runs", "/data", "/lustre/d:/d:ro", "/local")
    words = ("apptainer", "exec", "--nv", *(f"--bind={bind}" for bind in binds))
    assert Runner.of(APPTAINER, INSIDE) == Runner(
        (), (*words, "--pwd=/runs/ant", "/images/hpcpod.sif"), PYTHON
    )


def test_a_run_behind_a_link_is_mounted_where_it_is_too_and_first(tmp_path: Path) -> None:
    """Else the link of a home that the runtime mounts leads nowhere in the container."""
    (tmp_path / "home").mkdir()
    (tmp_path / "scratch" / "ant").mkdir(parents=True)
    (tmp_path / "home" / "runs").symlink_to(tmp_path / "scratch")
    code, run = str(tmp_path / "home"), str(tmp_path / "home" / "runs" / "ant")
    real = f"{tmp_path.resolve()}/scratch/ant"
    for modules, last in (((), run), ((code,), code)):
        runner = Runner.of(APPTAINER, Inside(run, modules))
        assert runner is not None
        assert runner.prefix[2:4] == (f"--bind={real}", f"--bind={last}")
        assert f"--pwd={run}" in runner.prefix


def test_without_a_runtime_there_is_no_runner() -> None:
    assert Runner.of(ContainerConfig(image="/images/hpcpod.sif"), INSIDE) is None


@pytest.mark.parametrize(
    ("runtime", "image"),
    [
        ("pyxis", None), ("pyxis", "hpcpod.sqsh"), ("pyxis", "./hpcpod.sqsh"),
        ("pyxis", "~/hpcpod.sqsh"), ("apptainer", "hpcpod.sif"), ("apptainer", "nvcr.io#lab/ant"),
    ],
)  # fmt: skip
def test_an_image_whose_place_depends_on_where_a_job_runs_is_refused(
    runtime: str, image: str | None
) -> None:
    with pytest.raises(ValueError, match=r"needs an image|absolute path or a registry's"):
        ContainerConfig(runtime, image)  # type: ignore[arg-type]


@pytest.mark.parametrize("mount", ["data", "/a,/b", "/a:/b:ro:x", "/a:b", "$HOME", "/data/$USER"])
def test_a_mount_that_means_something_else_is_refused(mount: str) -> None:
    with pytest.raises(ValueError, match="each mount is an absolute path"):
        ContainerConfig(mounts=(mount,))


@pytest.mark.parametrize("name", ["a:b", "a,b", "it's", 'say "hi"', "$HOME"])
def test_a_run_folder_that_no_list_of_mounts_can_hold_is_refused(name: str) -> None:
    for container in (PYXIS, APPTAINER):
        launcher = SlurmLauncher(Path("/runs") / name, run_config(container=container))
        with pytest.raises(UserError, match="choose another"):
            launcher.script(SLOTS)
        assert "--container" not in launcher.script(COORDINATOR)


def test_a_template_of_one_s_own_that_has_no_place_for_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pod_array.sbatch").write_text("srun @{python} -m hpcpod.slot @{folder}\n")
    launcher = SlurmLauncher(Path("/runs/ant"), run_config(container=PYXIS, template=str(tmp_path)))
    with pytest.raises(UserError, match=r"pod_array\.sbatch in .* has no line @\{container\}"):
        launcher.script(SLOTS)


def test_the_batch_script_itself_is_not_put_into_a_container() -> None:
    launcher = SlurmLauncher(
        Path("/runs/ant"), run_config(sbatch={"container-image": "/images/hpcpod.sqsh"})
    )
    with pytest.raises(UserError, match=r"set cluster\.container instead"):
        launcher.script(SLOTS)


def test_what_a_site_s_lines_export_counts_in_a_container() -> None:
    lines = (
        "module load x; export NOT_SEEN=1", "export A=1 B='x y' C", "for i in 'a",
        'export D="$A" \\', "    E=2  # and not F=3",
    )  # fmt: skip
    assert exported(lines) == {"A", "B", "C", "D", "E"}
    config = run_config(container=PYXIS, setup=("export MINE=1",), network="ib0,ib1")
    names = "GLOO_SOCKET_IFNAME,MINE,NCCL_SOCKET_IFNAME,OMP_NUM_THREADS"
    assert f"--container-env={names} " in SlurmLauncher(Path("/runs/ant"), config).script(SLOTS)


def test_gpus_are_asked_for_as_the_site_wants_it() -> None:
    sbatch = {"gres": "tmp:10G"}
    text = SlurmLauncher(Path("/r"), run_config(gpus=1)).script(SLOTS)
    assert "#SBATCH --gpus-per-node=1\n" in text
    config = run_config(gpus=1, gpu_option="gres", sbatch=sbatch)
    assert "#SBATCH --gres=gpu:1,tmp:10G\n" in SlurmLauncher(Path("/r"), config).script(SLOTS)


@pytest.mark.parametrize(
    ("field", "value"),
    [("scratch", "tmp"), ("scratch", '/a"b'), ("scratch", "/a b"), ("network", "ib0;reboot")],
)
def test_what_would_break_out_of_a_shell_line_is_refused(field: str, value: str) -> None:
    with pytest.raises(ValueError, match=field):
        run_config(**{field: value})  # type: ignore[arg-type]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The files of an image."""
    config = ContainerConfig(base="quay.io/lab/torch:2", packages=("gymnasium[mujoco]",))
    write_container_files(tmp_path / "image", config)
    return tmp_path / "image"


def test_the_dockerfile_parses_and_copies_what_is_there(files: Path) -> None:
    parse = pytest.importorskip("dockerfile_parse", reason="PyPI: dockerfile-parse")
    parser = parse.DockerfileParser(path=str(files / "Dockerfile"))
    steps = [(step["instruction"], step["value"]) for step in parser.structure]
    done = [name for name, _ in steps if name != "COMMENT"]
    assert done == ["FROM", "COPY", "RUN", "ENTRYPOINT", "CMD"]
    assert parser.baseimage == "quay.io/lab/torch:2"
    values = dict(steps)
    *sources, folder = values["COPY"].split()
    assert all((files / name).is_file() for name in sources)
    assert folder == "/opt/hpcpod/"
    subprocess.run(["bash", "-n"], input=values["RUN"], text=True, check=True)
    assert json.loads(values["ENTRYPOINT"]) == []
    assert json.loads(values["CMD"])[0] == "hpcpod"


def test_the_definition_has_the_shape_that_apptainer_reads(files: Path) -> None:
    head, *rest = re.split(r"^(%\w+)$", (files / "hpcpod.def").read_text(), flags=re.MULTILINE)
    keys = dict(
        line.split(": ", 1) for line in head.splitlines() if line and not line.startswith("#")
    )
    assert keys == {"Bootstrap": "docker", "From": "quay.io/lab/torch:2"}
    sections = dict(zip(rest[::2], rest[1::2], strict=True))
    assert sections.keys() == SECTIONS
    for line in sections["%files"].split("\n"):
        assert not line.strip() or (files / line.split()[0]).is_file()
    for name in ("%post", "%test"):
        subprocess.run(["sh", "-n"], input=sections[name], text=True, check=True)


def test_apptainer_itself_builds_from_the_definition(files: Path, tmp_path: Path) -> None:
    if shutil.which("apptainer") is None:
        pytest.skip("no apptainer here")
    base = tmp_path / "base"
    for name in ("etc", "tmp", "opt", "usr/bin"):
        (base / name).mkdir(parents=True)
    definition = files / "hpcpod.def"
    # All but the commands in it: they need a network.
    text = definition.read_text().partition("%post")[0].replace("docker", "localimage", 1)
    definition.write_text(text.replace("quay.io/lab/torch:2", str(base)))
    words = ["--userns", "--sandbox", "built", "hpcpod.def"]
    done = subprocess.run(
        ["apptainer", "build", *words], cwd=files, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(list((files / "built" / "opt" / "hpcpod").iterdir())) == 2
    labels = (files / "built" / ".singularity.d" / "labels.json").read_text()
    assert metadata.version("hpcpod") in labels


def test_torch_is_left_to_the_base(files: Path) -> None:
    lines = (files / "requirements.txt").read_text().splitlines()
    names = {re.split(r"[^\w-]", line)[0] for line in lines}
    assert {"numpy", "h5py", "filelock", "submitit"} <= names
    assert "torch" not in names and "pytest" not in names
    assert lines[-1] == "gymnasium[mujoco]"


def test_the_wheel_is_one_that_pip_installs_and_that_runs(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path)
    words = ["install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check"]
    place = tmp_path / "there"
    pip = [sys.executable, "-m", "pip", *words, "--target", str(place), str(wheel)]
    subprocess.run(pip, check=True, env={**os.environ, "PYTHONPATH": ""})
    code = (
        "import hpcpod, importlib.metadata as m; from hpcpod.launchers.slurm.templates import load;"
        "print(hpcpod.__file__); load('default', 'containers/Dockerfile');"
        "print(*(p.name for p in m.distribution('hpcpod').entry_points))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": str(place)},
    )  # fmt: skip
    path, names = done.stdout.splitlines()
    assert Path(path).is_relative_to(place)
    assert {"hpcpod", "ppo", "slurm", "paired_gate"} <= set(names.split())
    assert write_wheel(place).read_bytes() == wheel.read_bytes()
    with zipfile.ZipFile(wheel) as packed:
        assert packed.testzip() is None
        assert not [name for name in packed.namelist() if "__pycache__" in name]


def test_render_writes_the_files_of_an_image_beside_a_run_or_alone(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--no-probe", "--set", "cluster.container.base=quay.io/lab/torch:3"]
    runs = str(home / "runs")
    assert main(["render", "good.yaml", "--container", "--runs", runs, *words]) == 0
    said = capsys.readouterr().out
    [folder] = home.glob("runs/*/container")
    assert "FROM quay.io/lab/torch:3\n" in (folder / "Dockerfile").read_text()
    assert f"cd {folder}" in said and "apptainer build" in said
    (home / "site.yaml").write_text(
        "cluster: {container: {runtime: pyxis, image: /images/ant.sqsh}}\n"
    )
    assert main(["render", "--container", "--site", "site.yaml"]) == 0
    assert "enroot import -o /images/ant.sqsh dockerd://" in capsys.readouterr().out
    assert (home / "hpcpod-container" / "hpcpod.def").exists()
    assert "is there already" in refusal(capsys, "render", "--container")
    assert "needs a CONFIG file, or --container" in refusal(capsys, "render")
