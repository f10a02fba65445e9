#!/bin/sh
# Prepares this folder for make: a line for each step, the tools' own words only if they fail.
#
#   setup.sh system       the Debian packages of the tests: Slurm, MPI, shells, a browser
#   setup.sh python       .venv with hpcpod in it, for the demo
#   setup.sh python test  .venv with the tools of the tests as well
set -eu
cd "$(dirname "$0")/.."

fail() {
    echo "hpcpod: $*" >&2
    exit 1
}

# quiet WORDS COMMAND...: say the words; show what the command says only if it fails.
quiet() {
    echo "hpcpod: $1"
    shift
    log=$(mktemp)
    code=0
    "$@" >"$log" 2>&1 </dev/null || code=$?
    [ "$code" = 0 ] || cat "$log" >&2
    rm -f "$log"
    [ "$code" = 0 ] || fail "this command failed: $*"
}

have() {
    PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null
}

can_apt() {
    [ "$(id -u)" = 0 ] && have apt-get
}

apt_install() {
    export DEBIAN_FRONTEND=noninteractive
    quiet "asking Debian for its list of packages" apt-get update
    quiet "installing the Debian packages $*" apt-get install -y --no-install-recommends "$@"
}

system() {
    set --
    { have slurmctld && have slurmd && have sbatch; } || set -- "$@" slurm-wlm
    have mpiexec || set -- "$@" openmpi-bin
    # Its headers: mpi4py is built where no wheel of it fits.
    ! have dpkg-query || dpkg-query -W libopenmpi-dev >/dev/null 2>&1 || set -- "$@" libopenmpi-dev
    # Some tests see a folder as a bad network filesystem shows it.
    { have fusermount3 || ! can_apt || ! [ -e /dev/fuse ]; } || set -- "$@" fuse3
    # Tests press TAB in them: 4 s, in the same call of apt-get.
    for shell in zsh fish; do
        { have "$shell" || ! can_apt; } || set -- "$@" "$shell"
    done
    # A browser looks at reports; without its windows there is 20 MB less to load.
    { have chromium-headless-shell || have chromium || have google-chrome || ! can_apt; } ||
        set -- "$@" chromium-headless-shell
    # MuJoCo draws by EGL where there is no screen: 0.2 MB beside what the browser brings.
    { ! can_apt || dpkg-query -W libegl1 libgl1-mesa-dri >/dev/null 2>&1; } ||
        set -- "$@" libegl1 libgl1-mesa-dri
    [ $# -gt 0 ] || return 0
    if can_apt; then
        apt_install "$@"
        return 0
    fi
    how="sudo apt-get install --no-install-recommends $*"
    if [ -n "${CI:-}${HPCPOD_REQUIRE_ALL:-}" ]; then
        fail "the tests need a real Slurm and a real MPI; run: $how"
    fi
    echo "hpcpod: tests that need a real Slurm or MPI are skipped; to run them: $how" >&2
}

# The user's own python3 if it is new enough, else the newest that is: PYTHON=... chooses.
find_python() {
    for candidate in ${PYTHON:+"$PYTHON"} python3 python3.14 python3.13 python3.12 python3.11 python3.10; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
            echo "$candidate"
            return 0
        fi
        [ -z "${PYTHON:-}" ] || fail "PYTHON=$PYTHON is no Python 3.10 or newer"
    done
    fail "no Python 3.10 or newer here; install one, or name it: make PYTHON=/path/to/python3"
}

make_venv() {
    if .venv/bin/python -c 'import pip' 2>/dev/null; then
        return 0
    fi
    python=$(find_python)
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        if can_apt; then
            apt_install "python$version-venv"
        else
            fail "$python can't make virtual environments;" \
                "run: sudo apt-get install python$version-venv"
        fi
    fi
    rm -rf .venv
    quiet "making .venv with $("$python" --version)" "$python" -m venv .venv
}

python() {
    make_venv
    what="${1:+[$1]}"
    # pip compiles all of every package, alone for half a minute; tests compile what they import.
    quiet "installing hpcpod$what into .venv (minutes, the first time)" \
        .venv/bin/python -m pip install --disable-pip-version-check ${1:+--no-compile} \
        --constraint constraints.txt --editable ".$what"
    [ -n "$what" ] || return 0
    # Five processes of tests that begin together would each compile all that they import.
    .venv/bin/python -m pytest --collect-only -q -n 0 >/dev/null 2>&1 </dev/null &
    # Panels of real stocks that tests read, and loggers: the files alone, not all that they need.
    set -- skfolio universal-portfolios
    ! .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        set -- "$@" --requirement .ci/loggers.txt
    quiet "installing packages of market data and of loggers into .venv" \
        .venv/bin/python -m pip install --disable-pip-version-check --no-compile --no-deps \
        --constraint constraints.txt "$@"
    wait
}

verb="${1:-}"
case "$verb" in
    system) system ;;
    python) python "${2:-}" ;;
    *) fail "usage: setup.sh system | python [test]" ;;
esac
