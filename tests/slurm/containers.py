"""A container's image on the test cluster, and what stands in for runtimes that are not here.

The image is a folder with next to nothing in it: what it needs of this machine is mounted, so a
path that nobody has mounted is not there. Apptainer itself runs it, where it is installed. Its
stand-in, and that of Pyxis, take the options of theirs that hpcpod uses and no others, and make
real containers: a mount namespace of their own, with the image as its root.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SAID = "hpcpod is in the image"
"""What the image's Python says when it starts."""

_PYTHON = """\
#!/bin/sh
echo "{said}: OMP_NUM_THREADS=$OMP_NUM_THREADS TMPDIR=$TMPDIR" >&2
exec "{python}" "$@"
"""

_ENTER = """\
#!/bin/bash
# enter IMAGE FOLDER MOUNTS COMMAND...: what every runtime does in the end.
image=$1 folder=$2 mounts=$3
shift 3
IFS=, read -ra pairs <<< "$mounts"
for pair in /proc /dev /sys "${pairs[@]}"; do
    from=${pair%%:*} to=${pair#*:}
    to=${to%%:*}
    [ -e "$from" ] || { echo "no such mount: $from" >&2; exit 125; }
    mkdir -p "$image$to"
    mount --rbind "$from" "$image$to" || exit 125
done
exec chroot "$image" /usr/bin/env -C "$folder" "$@"
"""

_APPTAINER = """\
#!/bin/bash
set -eu
[ "$1" = exec ] || { echo "apptainer $1 is not known here" >&2; exit 255; }
shift
mounts=
while :; do
    case $1 in
        --nv | --userns | --no-home) ;;
        --bind=*) mounts+=${mounts:+,}${1#*=} ;;
        --pwd=*) folder=${1#*=} ;;
        -*) echo "unknown flag: $1" >&2; exit 1 ;;
        *) break ;;
    esac
    shift
done
image=$1
shift
exec unshare --user --map-root-user --mount "${0%/*}/enter" "$image" "$folder" "$mounts" "$@"
"""

_SRUN = """\
#!/bin/bash
# An srun that has Pyxis: the image's environment counts for more than the job's.
set -eu
others=() image='' keep=,
while [ "${1#-}" != "$1" ]; do
    case $1 in
        --container-image=*) image=${1#*=} ;;
        --container-mounts=*) mounts=${1#*=} ;;
        --container-workdir=*) folder=${1#*=} ;;
        --container-env=*) keep=,${1#*=}, ;;
        *) others+=("$1") ;;
    esac
    shift
done
[ -n "$image" ] || exec "$REAL_SRUN" "${others[@]}" "$@"
case $keep in *,OMP_NUM_THREADS,*) ;; *) export OMP_NUM_THREADS=99 ;; esac
case $keep in *,TMPDIR,*) ;; *) export TMPDIR=/of-the-image ;; esac
exec "$REAL_SRUN" "${others[@]}" unshare --user --map-root-user --mount \\
    "${0%/*}/enter" "$image" "$folder" "$mounts" "$@"
"""


def make_image(folder: Path) -> Path:
    """An image with a Python of its own name, ``/opt/python``, and nothing of this machine."""
    for name in ("dev", "etc", "opt", "proc", "sys", "tmp", "usr", "var/tmp"):
        (folder / name).mkdir(parents=True)
    for name in ("bin", "lib", "lib64", "sbin"):
        (folder / name).symlink_to(f"usr/{name}")
    (folder / "etc" / "passwd").write_text("root:x:0:0:root:/:/bin/sh\n")
    (folder / "etc" / "group").write_text("root:x:0:\n")
    python = folder / "opt" / "python"
    python.write_text(_PYTHON.format(said=SAID, python=sys.executable))
    python.chmod(0o755)
    return folder


def needed() -> list[str]:
    """The folders of this machine without which its Python does not start."""
    found = {Path("/usr"), Path(sys.prefix), Path(sys.base_prefix), Path.cwd()}
    found |= {path for path in map(Path, filter(None, sys.path)) if path.is_dir()}
    return [str(p) for p in sorted(found) if not any(other in p.parents for other in found)]


def runtime(name: str, folder: Path) -> list[str]:
    """What makes a runtime available to a job: lines for ``cluster.setup``."""
    real = shutil.which("apptainer")
    if name == "apptainer" and real:
        return [f"export PATH={Path(real).parent}:$PATH"]
    space = ["unshare", "--user", "--map-root-user", "--mount", "true"]
    if subprocess.run(space, capture_output=True, check=False).returncode != 0:
        if os.environ.get("CI") or os.environ.get("HPCPOD_REQUIRE_ALL"):
            pytest.fail("no user namespaces here")
        pytest.skip("no user namespaces here: no container can be made")
    folder.mkdir()
    programs = {"enter": _ENTER, "apptainer": _APPTAINER} if name == "apptainer" else {
        "enter": _ENTER, "srun": _SRUN,
    }  # fmt: skip
    for program, text in programs.items():
        (folder / program).write_text(text)
        (folder / program).chmod(0o755)
    return ["export REAL_SRUN=$(command -v srun)", f"export PATH={folder}:$PATH"]
