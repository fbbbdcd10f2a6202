"""How far a run is, on Prefect's page: an artifact that fills up, at steps that the study's plan fixes alone.

A server of the command's own has no page, and the terminal shows a bar: then there is no artifact.
"""

from contextlib import suppress
from typing import TYPE_CHECKING

from dpbo.flows.prefect_runtime.announcing import slug
from dpbo.flows.prefect_runtime.temporary_server import ends_with_us
from dpbo.tasks.reporting.literal import in_markdown

if TYPE_CHECKING:
    from uuid import UUID

    from dpbo_core.spec import StudySpec

PARTS = 10  # of the way, at most; each is a request to Prefect's server


class StepsDone:
    """Nothing of a study depends on it: what Prefect refuses of it is not shown."""

    def __init__(self, study: "StudySpec", steps: int) -> None:
        """`steps` is public; a study of one step shows nothing between its beginning and its end."""
        self._steps, self._done, self._made = steps, 0, None
        if steps < PARTS or ends_with_us():
            return
        from prefect.artifacts import create_progress_artifact

        with suppress(Exception):
            made: UUID | None = create_progress_artifact(  # type: ignore[assignment]
                progress=0.0,
                key=f"steps-{slug(study.name)}",
                description=in_markdown(f"{study.name}, edition {study.edition}: of {steps} steps"),
            )
            self._made = made

    def show(self) -> None:
        """Count one more step; a tenth of the way is worth a request, and no step by itself."""
        before, self._done = self._done * PARTS // self._steps, self._done + 1
        if self._made is None or self._done * PARTS // self._steps == before:
            return
        from prefect.artifacts import update_progress_artifact

        with suppress(Exception):
            update_progress_artifact(self._made, progress=100.0 * self._done / self._steps)
