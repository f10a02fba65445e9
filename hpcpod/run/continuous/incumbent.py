"""The deployed policy as the one that new ones are judged against: it has to be playable still."""

from __future__ import annotations

import contextlib
import hashlib
import shlex

from hpcpod import plugins
from hpcpod.config.loader import from_mapping
from hpcpod.errors import Corrupt, HpcpodError, StorageError, UserError, sentence_of
from hpcpod.run.best_policy import kept
from hpcpod.run.continuous.entries import Version, named
from hpcpod.run.continuous.fresh_seeds import FreshSeeds
from hpcpod.run.continuous.registry import Registry
from hpcpod.run.run import open_run
from hpcpod.tournament.continuous.stream import NotComparable, Player, Stream, Windows


def player_of(registry: Registry, number: int) -> Player:
    """A version as it is judged.

    Raises:
        Corrupt: its policy is damaged or gone.
    """
    version = registry.verify(number)
    return Player(registry.policy(number), from_mapping(version.config).env)


def require_playable(
    registry: Registry, stream: Stream, windows: Windows, number: int, *, whole: bool = False
) -> Version:
    """The deployed version, if its policy can be played still.

    Args:
        registry: the registry.
        stream: of the configuration.
        windows: of the cycle.
        number: of the version.
        whole: see ``require_plays``.

    Raises:
        NotComparable: it can't; the sentence says what to do.
        StorageError: the filesystem refuses: a later call may be able to.
    """
    try:
        version = registry.verify(number)
        require_plays(stream, windows, player_of(registry, number), whole=whole)
    except Exception as error:  # an agent of a user's own may raise whatever it likes
        if isinstance(error, StorageError) and not isinstance(error, Corrupt):
            raise
        raise NotComparable(
            f"nothing can be judged against {named(number)} any more: {sentence_of(error)};"
            f" {remedies(registry, number)}"
        ) from error
    return version


def require_plays(stream: Stream, windows: Windows, player: Player, *, whole: bool = False) -> None:
    """Load a policy, and have it play what is judged.

    Args:
        stream: of the configuration.
        windows: of the cycle.
        player: the policy.
        whole: also where that takes an environment of a user's; else it is loaded there.

    Raises:
        Exception: it can't be done.
    """
    if isinstance(stream, FreshSeeds) and not whole:
        with plugins.needing_torch():
            from hpcpod.pod.policy import load_policy_file
        load_policy_file(player.policy)
    else:
        stream.sample(windows, player, "judge")


def require_inherits(stream: Stream, player: Player) -> None:
    """See that pods can start from the deployed policy's weights, as far as the stream knows.

    Raises:
        UserError: they would mean something else.
    """
    reason = getattr(stream, "unlike", lambda player: "")(player)
    if reason:
        raise UserError(
            f"no pod can start from the deployed policy: {reason}; say --fresh, or"
            " ct: {inherit: 0}"
        )


def remedies(registry: Registry, number: int) -> str:
    """The ways out where a deployed version is damaged or can't be played."""
    found = [_repair(registry, number)]
    if any(each.current not in (None, number) for each in registry.decisions()):
        found.append(f"go back by `hpcpod ct rollback {shlex.quote(registry.name)} VERSION`")
    found.append("give the configuration another name, so that it has a registry of its own")
    return ", or ".join(found)


def _repair(registry: Registry, number: int) -> str:
    """The way to have a version whole again: its run may have its very bytes."""
    try:
        registry.verify(number)
        return "mend that"
    except HpcpodError:
        place = registry.policy(number)
    with contextlib.suppress(HpcpodError, OSError):
        version = registry.version(number)
        copy = kept(open_run(version.run).folder).checkpoint if version else place
        if version and hashlib.sha256(copy.read_bytes()).hexdigest() == version.policy:
            return f"put it back by `{shlex.join(['cp', str(copy), str(place)])}`"
    return "put that file back"
