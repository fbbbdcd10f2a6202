"""What a run is called on Prefect's page: its study and edition, and tags that find it; all of it public."""

from dpbo_core.spec import StudySpec

ASIDE = " · "


def name_run(study: StudySpec, what: str = "") -> None:
    """Call the current flow run "study · edition", and tag it with its dataset and method; no run, no name.

    Set once the run is known, since a template of Prefect's would render arguments.

    Args:
        study: the run's, with its edition.
        what: what else is done with the study, such as "evaluation".
    """
    from prefect.client.orchestration import get_client
    from prefect.context import FlowRunContext

    context = FlowRunContext.get()
    if context is None or context.flow_run is None:
        return
    run = context.flow_run
    name = ASIDE.join(part for part in (study.name, study.edition, what) if part)
    tags = dict.fromkeys([*run.tags, f"dataset: {study.privacy.dataset}", f"method: {study.method}"])
    with get_client(sync_client=True) as client:
        client.update_flow_run(run.id, name=name, tags=list(tags))
