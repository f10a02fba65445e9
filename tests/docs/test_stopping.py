"""The page on stopping, held to the code: its files, payloads, verbs, options and commands."""

from __future__ import annotations

import argparse
import json
import re
import shlex
from pathlib import Path
from typing import get_args

import pytest

from hpcpod._process import StopFlag
from hpcpod.cli.parser import parser
from hpcpod.orchestrator.snapshot import RunState
from hpcpod.pod.ipc.messages import Command, StopReply, command_line, reply_line
from hpcpod.records.records import encode
from hpcpod.slot.stop_requests import StopRequests, Way
from hpcpod.storage.checksummed import pack
from hpcpod.storage.requests import Request
from hpcpod.storage.run_folder import RunFolder
from hpcpod.storage.slots import When
from tests.docs.pages import page
from tests.support.small_runs import create

TEXT = page("stopping.md").read_text(encoding="utf-8")
RETIRE = "retire/<element>"
FILE = re.compile(r"`control/([\w/<>]+)\.json` `(\{.*?\})`")


def rows(heading: str) -> list[list[str]]:
    """The cells of each row of the table that begins with this heading."""
    table = TEXT.partition(f"| {heading} |")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.split("\n")[2:]]


WAYS, UNDONE = rows("verb, signal or limit"), rows("verb")
COMMANDS = rows("command")
WRITTEN = [(name, json.loads(text), row[3]) for row in WAYS for name, text in FILE.findall(row[1])]


def test_each_request_of_the_code_stands_in_the_tables_and_no_other() -> None:
    named = {name for name, _, _ in WRITTEN} | {FILE.findall(row[1])[0][0] for row in UNDONE}
    assert named == {kind.name for kind in Request.__subclasses__()} | {RETIRE}
    assert set(re.findall(r"control/([\w/<>]+)\.json", TEXT)) == named


def test_a_payload_of_the_tables_has_the_fields_of_its_request() -> None:
    kinds = {kind.name: kind for kind in Request.__subclasses__()}
    payloads = [(name, payload) for name, payload, _ in WRITTEN if name != RETIRE]
    payloads += [(name, json.loads(text)) for row in UNDONE for name, text in FILE.findall(row[1])]
    for name, payload in payloads:
        made = kinds[name](**payload)
        assert {k: v for k, v in encode(made).items() if v is not None} == payload
    asked = [payload["when"] for name, payload, _ in WRITTEN if name == RETIRE]
    assert sorted(asked) == sorted(get_args(When))


@pytest.mark.parametrize(("name", "payload", "does"), WRITTEN)
def test_a_slot_that_finds_a_file_of_the_table_does_what_stands_there(
    name: str, payload: dict[str, object], does: str, tmp_path: Path
) -> None:
    folder = create(tmp_path)
    path = folder.path / "control" / f"{name.replace('<element>', '7_1')}.json"
    path.parent.mkdir(exist_ok=True)
    folder.disk.replace(path, pack(payload))
    ways = set(re.findall(r"\*\*(\w+)\*\*", does))
    assert asked(folder, "7_1+0") == ways <= set(get_args(Way))
    others = set() if name == RETIRE else ways
    assert asked(folder, "7_2") == others


def asked(folder: RunFolder, slot: str) -> set[Way]:
    return StopRequests(folder, slot, StopFlag(()), 0.0).read()


def test_all_ways_are_in_the_table_and_explained_above_it() -> None:
    told = {way for row in WAYS for way in re.findall(r"\*\*(\w+)\*\*", row[3])}
    assert told == set(re.findall(r"^- \*\*(\w+)\*\*", TEXT, re.MULTILINE)) == set(get_args(Way))


def test_verbs_options_and_states_of_the_tables_are_those_of_the_command_line() -> None:
    [actions] = [a for a in parser()._actions if isinstance(a, argparse._SubParsersAction)]
    said = set(re.findall(r"`(hpcpod [^`]*)`", TEXT))
    assert len(said) > 6
    for words in said:
        parser().parse_args(shlex.split(words)[1:])
    verbs = {words.split()[1] for words in said}
    assert verbs == {"stop", "pause", "scale", "resume"} <= set(actions.choices)
    states = {state for row in WAYS for state in re.findall(r"`(\w+)`", row[4])}
    assert states <= set(get_args(RunState))


def test_limits_of_the_table_are_settings(tmp_path: Path) -> None:
    settings = set(re.findall(r"`((?:stop|pod|cluster)\.\w+)`", TEXT))
    assert {f"stop.{name}" for name in ("rounds", "env_steps", "minutes", "target")} <= settings
    config = create(tmp_path).resolved.config
    for setting in settings:
        section, _, name = setting.partition(".")
        assert hasattr(getattr(config, section), name), setting


def test_commands_to_a_child_process_are_those_of_the_pipe() -> None:
    assert {row[0].strip("`") for row in COMMANDS} == set(get_args(Command))
    for command in get_args(Command):
        [row] = [row for row in COMMANDS if row[0] == f"`{command}`"]
        assert row[1].strip("`") + "\n" == command_line(command)
        assert row[3].strip("`") + "\n" == reply_line(StopReply())
