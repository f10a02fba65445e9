"""A training program without hpcpod: 100 steps a second, a save after each 50 of them.

It says of itself if it was given another pod's files: its checkpoint holds its width, and as many
steps as it has been trained.
"""

import json
import os
import sys
import time
from pathlib import Path

session = Path(os.environ["HPCPOD_SESSION"])
task = json.loads((session / "task.json").read_text())
own = task["hyperparameters"]


def write(path: Path, document: object) -> None:
    """Write JSON by a rename."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(document))
    part.rename(path)


state = {"steps": 0, "width": own["width"]}
if task["checkpoint"]:
    state = json.loads(Path(task["checkpoint"], "state.json").read_text())
if state["width"] != own["width"]:
    sys.exit(f"a checkpoint of width {state['width']} for {own['width']}")
left = task["steps"] - task["steps_done"] if task["mode"] == "train" else 0
done = 0
while done < left and not Path(task["stop_file"]).exists():
    time.sleep(0.01)
    done += 1
    state["steps"] += 1
    if done % 50 == 0:
        write(Path(task["save_to"], "state.json"), state)
        mark = session / f"saved-{done}.json"
        write(mark, {"format": 1, "steps": done})
        with Path(task["progress_to"]).open("a") as file:
            file.write(json.dumps({"steps": done, "quality": own["quality"]}) + "\n")
        while mark.exists():
            time.sleep(0.005)
if task["save_to"]:
    write(Path(task["save_to"], "state.json"), state)
returns = [own["quality"] * state["steps"] + seed / 2**31 for seed in task["panel_seeds"]]
write(Path(task["report_to"]), {"format": 1, "steps": done, "returns": returns})
