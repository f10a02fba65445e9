"""MLflow: each pod is a run of an experiment that is called like hpcpod's run."""

from __future__ import annotations

import os
from collections.abc import Mapping

from hpcpod.metrics.logger import Logged

_TAG = "hpcpod.pod"


class Mlflow:
    """A logger to ``$MLFLOW_TRACKING_URI``, or to files in the run folder if there is none."""

    def __init__(self, logged: Logged) -> None:
        uri = os.environ.get("MLFLOW_TRACKING_URI")
        if not uri:
            logged.folder.mkdir(parents=True, exist_ok=True)
            # MLflow 3.17 asks for a database: one file, in which all pods would have to write.
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        from mlflow import MlflowClient  # two seconds, and not everybody has it

        self._client = MlflowClient(uri or logged.folder.as_uri())
        self._run = self._found(logged) or self._made(logged)

    def _experiment(self, name: str) -> str:
        found = self._client.get_experiment_by_name(name)
        return str(self._client.create_experiment(name) if found is None else found.experiment_id)

    def _found(self, logged: Logged) -> str | None:
        query = f"tags.`{_TAG}` = '{logged.key}'"
        runs = self._client.search_runs([self._experiment(logged.run)], query, max_results=1)
        return str(runs[0].info.run_id) if runs else None

    def _made(self, logged: Logged) -> str:
        run = self._client.create_run(
            self._experiment(logged.run), tags={_TAG: logged.key}, run_name=logged.pod
        )
        from mlflow.entities import Param

        values = {"algorithm": logged.algorithm, **logged.hyperparameters}
        params = [Param(name, str(value)) for name, value in values.items()]
        self._client.log_batch(run.info.run_id, params=params)
        return str(run.info.run_id)

    def log(self, row: Mapping[str, float], step: int) -> None:
        """See ``Logger.log``."""
        from mlflow.entities import Metric

        at = int(1000 * row["time"])  # ms
        metrics = [Metric(name, value, at, step) for name, value in row.items()]
        self._client.log_batch(self._run, metrics)

    def close(self) -> None:
        """See ``Logger.close``."""
        self._client.set_terminated(self._run)
