"""Which requests a reader may make of MLflow's server: an allow-list, so that what MLflow adds is refused."""

import json
import re
from typing import Any

from graphql import FieldNode, FragmentDefinitionNode, OperationDefinitionNode, OperationType, parse
from graphql.error import GraphQLError

API = r"/ajax-api/[23]\.0/mlflow"
NAME = r"[A-Za-z0-9_.~-]+"
READABLE = re.compile(
    rf"""/ | /version | /static-files/(?:{NAME}/)*{NAME}
    | {API}/(?: server-info | ui-telemetry
        | experiments/(?:get|get-by-name|search) | runs/get | logged-models/{NAME}
        | metrics/(?:get-history|get-history-bulk|get-history-bulk-interval)
        | registered-models/(?:get|search|get-latest-versions|alias)
        | model-versions/(?:get|search|get-download-uri)
    )""",
    re.VERBOSE,
)
SEARCHES = re.compile(rf"{API}/(?:[a-z][a-z-]*/search|experiments/search-datasets)")
GRAPHQL = "/graphql"
READING_FIELDS = frozenset(  # of the schema's root; the one that lists artifacts is not among them
    ("mlflowGetExperiment", "mlflowGetRun", "mlflowGetMetricHistoryBulkInterval", "mlflowSearchModelVersions",
     "mlflowSearchRuns", "mlflowSearchDatasets")
)  # fmt: skip
LARGEST = 2**20  # bytes of a request
LONGEST_QUERY = 2**15  # characters of a GraphQL document


def passes(method: str, path: str, body: bytes) -> bool:
    """Whether a request to MLflow's server only reads, and no artifact, so that it may go on; `path` is decoded."""
    if len(body) > LARGEST or ".." in path.split("/"):
        return False
    if method == "GET":
        return READABLE.fullmatch(path) is not None
    if method == "POST" and path == GRAPHQL:
        return only_reads(body)
    return method == "POST" and SEARCHES.fullmatch(path) is not None


def only_reads(body: bytes) -> bool:
    """Whether a GraphQL request holds only queries, of fields that open no artifact."""
    try:
        request: Any = json.loads(body)
        text = request["query"]
        document = parse(text, no_location=True) if len(text) <= LONGEST_QUERY else None
    except (ValueError, TypeError, KeyError, RecursionError, GraphQLError):
        return False
    if document is None:
        return False
    for part in document.definitions:
        if isinstance(part, FragmentDefinitionNode):
            if part.type_condition.name.value in ("Query", "Mutation"):
                return False  # MLflow's page has none; the fields below are then all there are
        elif (
            not isinstance(part, OperationDefinitionNode)
            or part.operation is not OperationType.QUERY
            or not all(
                isinstance(field, FieldNode) and field.name.value in READING_FIELDS
                for field in part.selection_set.selections
            )
        ):
            return False
    return True
