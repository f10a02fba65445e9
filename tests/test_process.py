"""Exit codes in words."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hpcpod._process import ending, killed


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "ended with exit code 0"),
        (1, "ended with exit code 1"),
        (75, "ended with exit code 75"),
        (-11, "was ended by SIGSEGV"),
        (139, "was ended by SIGSEGV"),  # of a shell
        (-9, "was killed (SIGKILL: most often it was out of memory)"),
        (137, "was killed (SIGKILL: most often it was out of memory)"),
        (-40, "was ended by signal 40"),  # real-time: it has no name
        (250, "ended with exit code 250"),
    ],
)
def test_an_exit_code_in_words(code: int, words: str) -> None:
    assert ending(code) == words
    assert killed(code) == ("SIGKILL" in words)


def test_what_a_process_and_a_shell_give_for_the_same_signal() -> None:
    own = "import os, signal; os.kill(os.getpid(), signal.SIGABRT)"
    code = subprocess.run([sys.executable, "-c", own], check=False).returncode
    # With more to do, the shell waits for it, and tells.
    words = ["sh", "-c", '"$0" -c "$1"; exit $?', sys.executable, own]
    told = subprocess.run(words, check=False, stderr=subprocess.DEVNULL).returncode
    assert ending(code) == ending(told) == "was ended by SIGABRT"
