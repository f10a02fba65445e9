"""Requests in ``control/``: the bytes that version 0.1.0 wrote, and what others may write there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hpcpod.storage.checksummed import pack
from hpcpod.storage.requests import (
    Drain,
    Finals,
    Refusals,
    Request,
    Resumed,
    Scale,
    SlotRefused,
    Stop,
)
from hpcpod.storage.run_folder import RunFolder

WRITTEN: list[tuple[Request, str, str]] = [
    (Stop(), "stop", "{}"),
    (Stop("user"), "stop", '{"reason":"user"}'),
    (Finals("rounds"), "finals", '{"reason":"rounds"}'),
    (Drain(), "drain", "{}"),
    (Drain(now=True, reason=""), "drain", '{"now":true,"reason":""}'),
    (Drain(reason="no node"), "drain", '{"reason":"no node"}'),
    (Scale(8), "scale", '{"slots":8}'),
    (Resumed(3, 1.7e9), "resumed", '{"intents":3,"time":1700000000.0}'),
    (SlotRefused("another engine"), "refused", '{"reason":"another engine"}'),
    (Refusals(2, 1.5, "no"), "refusals", '{"count":2,"last":1.5,"why":"no"}'),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "name", "payload"), WRITTEN)
def test_a_request_is_written_as_before_and_read_as_it_was_made(
    run: RunFolder, asked: Request, name: str, payload: str
) -> None:
    for write in (run.requests.publish, run.requests.replace):
        write(asked)
        data = run.disk.read(run.path / "control" / f"{name}.json")
        assert data == pack(json.loads(payload))
        assert data.endswith(f"{payload}}}\n".encode())
        assert run.requests.read(type(asked)) == asked
        run.requests.withdraw(type(asked))
        assert run.requests.read(type(asked)) is None


FOREIGN: list[tuple[type[Request], dict[str, Any], Request]] = [
    (Drain, {"by": "me"}, Drain()),
    (Drain, {"now": "soon", "reason": 3}, Drain()),
    (Drain, {"now": True, "until": [1, 2]}, Drain(now=True)),
    (Stop, {"reason": None}, Stop()),
    (Scale, {"slots": "all"}, Scale()),
    (Scale, {"slots": 10**400}, Scale()),
    (Resumed, {"intents": None, "time": 2.5}, Resumed(0, 2.5)),
    (Refusals, {"count": {}, "cause": "no"}, Refusals()),
    (SlotRefused, {"reason": {"text": "no"}}, SlotRefused()),
]


@pytest.mark.parametrize(("kind", "payload", "read"), FOREIGN)
def test_a_askedin_other_words_stands_with_what_is_understood_of_it(
    run: RunFolder, kind: type[Request], payload: dict[str, Any], read: Request
) -> None:
    run.disk.replace(run.path / "control" / f"{kind.name}.json", pack(payload))
    assert run.requests.read(kind) == read
    assert run.quarantine.list() == []


@pytest.mark.parametrize("data", [b"", b"half of", pack([]), pack("now"), pack(7), pack(None)])
def test_a_damaged_askedis_set_aside_and_asks_for_nothing(run: RunFolder, data: bytes) -> None:
    path = run.path / "control" / "drain.json"
    run.disk.replace(path, data)
    assert run.requests.read(Drain) is None
    assert not path.exists() and "control+drain.json" in run.quarantine.list()[0].name
    run.requests.publish(Drain(now=True))
    assert run.requests.read(Drain) == Drain(now=True)
