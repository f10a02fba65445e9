"""The site of the documentation: its pages as they are, built strictly by Zensical.

``python -m tests.docs.build_site [FOLDER]`` builds it, by default in ``site``. Pages link
to files outside ``docs/``: configurations, measurements, sources. Zensical knows one folder. So the
pages of the navigation and all that they link to are copied into one, at their own places.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.docs.pages import ROOT, links

CONFIG = ROOT / "docs" / "zensical.toml"
NAMED = re.compile(r"^(```\w+) (\S+)$", re.MULTILINE)


def navigation() -> list[str]:
    """The pages that the configuration names, in their order."""
    text = CONFIG.read_text(encoding="utf-8").partition("[project.theme]")[0]
    return re.findall(r'"([\w/.-]+\.md)"', text)


def stage(folder: Path) -> None:
    """Copy the pages of the navigation, and whatever is reached from them by links."""
    todo, copied = [ROOT / page for page in navigation()], set[Path]()
    while todo:
        path = todo.pop()
        if path in copied:
            continue
        copied.add(path)
        to = folder / path.relative_to(ROOT)
        to.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            shutil.copytree(path, to, dirs_exist_ok=True)
            continue
        if path.suffix != ".md":
            shutil.copyfile(path, to)
        else:
            text = path.read_text(encoding="utf-8")
            # A code host takes any word behind a fence's language, Zensical a title.
            to.write_text(NAMED.sub(r'\1 title="\2"', text), encoding="utf-8")
            todo += [(path.parent / link).resolve() for link, _ in links(path) if link]


def build(to: Path) -> str:
    """Build the site into a folder that is made anew; return what Zensical says.

    Raises:
        RuntimeError: a link, an anchor or a name for mkdocstrings leads nowhere.
    """
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        stage(work / "pages")
        shutil.copyfile(CONFIG, work / "zensical.toml")
        done = subprocess.run(
            [sys.executable, "-m", "zensical", "build", "--strict", "-f", "zensical.toml"],
            cwd=work, text=True, capture_output=True, check=False, timeout=300,
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "NO_COLOR": "1", "HOME": name},
        )  # fmt: skip
        said = done.stdout + done.stderr
        if done.returncode:
            raise RuntimeError(said)
        shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(work / "site", to)
    return said


if __name__ == "__main__":
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "site")
    print(build(out).strip())
    print(f"python -m http.server --bind 127.0.0.1 --directory {out}")
