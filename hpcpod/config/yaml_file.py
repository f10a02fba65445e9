"""YAML, read strictly and written so that every reader agrees about it.

PyYAML parses; what a scalar means is decided here, because YAML 1.1 and 1.2 differ on it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from hpcpod.config.decoder import at, join
from hpcpod.config.scalars import Plain, Trap
from hpcpod.errors import ConfigError
from hpcpod.plugins import suggest

_TAG = "tag:yaml.org,2002:"
_MORE = "[0-9]*(?:_[0-9]+)*"

_PLAIN: list[tuple[str, Trap, Callable[[str], bool | int | float]]] = [
    (r"true|True|TRUE|false|False|FALSE", "", lambda text: text.lower() == "true"),
    # 1.1 has them for booleans, 1.2 for text.
    (r"yes|Yes|YES|on|On|ON", "word", lambda _: True),
    (r"no|No|NO|off|Off|OFF", "word", lambda _: False),
    (rf"[-+]?(?:0|[1-9]{_MORE})", "", int),
    (r"[-+]?0x[0-9a-fA-F]+", "", lambda text: int(text, 16)),
    (r"[-+]?0[0-9]+", "octal", int),  # 010 is 8 in YAML 1.1 and 10 in 1.2
    (rf"[-+]?(?:[0-9]{_MORE}\.[0-9]*|\.[0-9]+)(?:[eE][-+][0-9]+)?", "", float),
    # 3e-4 and 1e6 are text in 1.1, which wants a dot and a sign: 1.0e+6.
    (rf"[-+]?(?:[0-9]{_MORE}(?:\.[0-9]*)?|\.[0-9]+)[eE][-+]?[0-9]+", "exponent", float),
    (r"[-+]?\.(?:inf|Inf|INF)", "", lambda text: float(text.replace(".", ""))),
    (r"\.(?:nan|NaN|NAN)", "", lambda _: float("nan")),
    # 2:30 is 150 in 1.1 and text in 1.2.
    (r"[-+]?[0-9]+(?::[0-5]?[0-9])+(?:\.[0-9]*)?", "sexagesimal", lambda text: _base60(text)),
]
"""Words without quotes: a pattern, why readers of YAML disagree about it, its value."""

_PATTERNS = [(re.compile(rf"(?:{pattern})\Z"), trap, read) for pattern, trap, read in _PLAIN]
_LONGEST = 1000  # int() refuses more than 4,300 (CVE-2020-10735)
"""Digits beyond this are text: Python refuses to read longer numbers."""
_MOST = 100_000
"""Values that a file may have, each counted as often as it is referred to."""
_NULL = re.compile(r"~|null|Null|NULL|")


class _Loader(yaml.SafeLoader):
    """PyYAML's parser with every unquoted scalar left as the text it is."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 (PyYAML's own name)


class _Dumper(yaml.SafeDumper):
    """PyYAML's writer; it quotes what any reader of YAML might take for something else."""

    def ignore_aliases(self, data: object) -> bool:
        return True  # else what stands twice is written once, with an anchor

    def represent_str(self, data: str) -> yaml.ScalarNode:
        # Only double quotes keep every kind of line break; PyYAML picks single ones for some.
        breaks = any(character in data for character in "\n\r\x85\u2028\u2029\ufeff")
        return self.represent_scalar(f"{_TAG}str", data, style='"' if breaks else None)


_Dumper.add_representer(str, _Dumper.represent_str)
for _pattern, *_ in _PATTERNS:
    _Dumper.add_implicit_resolver("!ambiguous", _pattern, None)


class NotYaml(ValueError):
    """The text is not YAML; says where, in one sentence."""


def read(path: Path) -> tuple[Any, list[str]]:
    """The data of a file's text, as ``parse`` gives it.

    Raises:
        ConfigError: it can't be read, or is not YAML.
    """
    try:
        return parse(_text(path))
    except NotYaml as error:
        raise ConfigError(str(path), [str(error)]) from error


def _text(path: Path) -> str:
    """The file's text; each way to fail is one sentence."""
    try:
        return path.read_text(encoding="utf-8-sig")  # editors of Windows begin with a mark
    except FileNotFoundError as error:
        folder = path.parent
        names = [f.name for f in folder.iterdir() if f.is_file()] if folder.is_dir() else []
        near = suggest(path.name, names, likeness=0.85)  # the ending alone makes all alike
        raise ConfigError(str(path), [f"there is no such file{near}"]) from error
    except IsADirectoryError as error:
        raise ConfigError(str(path), ["it is a folder, not a YAML file"]) from error
    except UnicodeDecodeError as error:
        said = f"it is not UTF-8 text (byte {error.start}); save it as UTF-8"
        raise ConfigError(str(path), [said]) from error
    except OSError as error:
        raise ConfigError(str(path), [f"it can't be read: {error.strerror}"]) from error


def parse(text: str, *, lenient: bool = False) -> tuple[Any, list[str]]:
    """Plain data, in which every unquoted scalar of a disputed meaning is a ``Plain``.

    With ``lenient`` (the command line), unquoted numbers and words are ``Plain`` throughout.

    Returns:
        The data, and the problems met: keys written twice, keys that are not text, tags.

    Raises:
        NotYaml: the text can't be parsed.
    """
    try:
        root = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        advice = "; indent with spaces, not tabs" if "'\\t'" in str(error.problem) else ""
        said = str(error.problem)
        if said.startswith("but "):
            said = f"{error.context}, {said}"
        raise NotYaml(f"{where}not valid YAML: {said}{advice}") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise NotYaml(f"line {line}: not valid YAML: a character that can't be printed") from error
    except RecursionError as error:  # PyYAML composes by recursion
        raise NotYaml("not valid YAML: nested too deeply") from error
    reader = _Reader(lenient)
    return (None if root is None else reader.read(root, "")), reader.problems


def dump(data: Any) -> str:
    """Plain data as YAML that ``parse`` reads back as it was, as does any other reader."""
    text: str = yaml.dump(
        data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=None
    )
    return text


def dump_line(data: Any) -> str:
    """Plain data as one line of YAML, in flow style: ``{a: [1, 2]}``."""
    text: str = yaml.dump(
        [data], Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=True,
        width=math.inf,
    )  # fmt: skip
    return text.strip().removeprefix("[").removesuffix("]")


class _Reader:
    """Turns the parser's nodes into plain data and collects the problems, with their paths."""

    def __init__(self, lenient: bool) -> None:
        self.problems: list[str] = []
        self._lenient = lenient
        self._values = 0
        self._open: list[yaml.Node] = []
        """The nodes around the present one: an alias to one of them has no end."""

    def read(self, node: yaml.Node, path: str) -> Any:
        """The data of a node."""
        self._values += 1
        if self._values > _MOST:  # 300 bytes, ten lines of aliases to aliases, are billions
            raise NotYaml(f"more than {_MOST:,} values, counting what * refers to; write it out")
        if any(node is other for other in self._open):
            self.problems.append(at(path, "refers to itself"))
            return None
        if node.tag.removeprefix(_TAG) not in ("str", "seq", "map"):
            self.problems.append(at(path, f"the tag {node.tag} is not supported; leave it out"))
            return None
        self._open.append(node)
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, path)
            if isinstance(node, yaml.ScalarNode):
                return self._scalar(node)
            return [self.read(item, f"{path}[{i}]") for i, item in enumerate(node.value)]
        finally:
            self._open.pop()

    def _mapping(self, node: yaml.MappingNode, path: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            key, line = self._key(key_node, path), key_node.start_mark.line + 1
            if key in found:
                first = lines[key]
                where = f"on lines {first} and {line}" if first != line else f"on line {line}"
                self.problems.append(f"{join(path, key)}: written twice, {where}")
            elif key is not None:
                found[key], lines[key] = self.read(value_node, join(path, key)), line
        return found

    def _key(self, node: yaml.Node, path: str) -> str | None:
        if not isinstance(node, yaml.ScalarNode):
            self.problems.append(at(path, "a key must be text, not a list or a mapping"))
            return None
        text: str = node.value
        if node.style is None:
            if text == "<<":
                self.problems.append(f"{join(path, text)}: merge keys are not supported")
                return None
            if not isinstance(self._scalar(node), str):
                self.problems.append(
                    f"{join(path, text or 'null')}: the key {text or 'null'} is not text to YAML;"
                    f" put it in quotes: '{text}'"
                )
                return None
        return text

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        text: str = node.value
        if node.style is not None:
            return text
        if _NULL.fullmatch(text):
            return None
        for pattern, trap, read in _PATTERNS:
            if len(text) < _LONGEST and pattern.fullmatch(text):
                plain = Plain(text, read(text), trap, self._lenient)
                return plain if trap or self._lenient else plain.value
        return text


def _base60(text: str) -> int | float:
    """``2:30`` as YAML 1.1 reads it: 150."""
    sign, total = (-1 if text.startswith("-") else 1), 0.0
    for part in text.lstrip("+-").split(":"):
        total = 60 * total + float(part)
    return sign * (int(total) if total.is_integer() else total)
