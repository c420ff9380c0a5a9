"""Endpoint of the re-rankers and their parameters."""

from flask import Blueprint, Response

from cbir import rerank
from cbir.rerank.feedback import Feedback
from cbir.rerank.parameters import ParameterSet
from cbir.rerank.several_examples import takes_several_examples
from service.client.messages import RerankerInfo, RerankerList, RerankerParameter
from service.collections.app_state import current_state
from service.http.operations import json_response, operation

blueprint = Blueprint("collection", __name__, url_prefix="/v1")


@blueprint.get("/rerankers")
@operation("rerankers", {200: RerankerList}, python="client.rerankers()")
def get_rerankers() -> Response:
    """List the re-rankers with their parameters, defaults and bounds.

    `auto` is not among them: it stands for the one that is chosen for the collection. The profile of a collection
    may have other defaults.
    """
    items = [
        RerankerInfo(
            name=method.name,
            title=method.title,
            description=method.description,
            one_example=True,
            several_examples=takes_several_examples(method),
            parameters=_parameters(method),
        )
        for method in rerank.RERANKERS
    ]
    items.append(
        RerankerInfo(
            name=Feedback.name,
            title=Feedback.title,
            description=Feedback.description,
            one_example=False,
            several_examples=True,
            parameters=_parameters(Feedback),
        )
    )
    return json_response(RerankerList(default=current_state().settings.rerank, items=items))


def _parameters(method: type[ParameterSet]) -> list[RerankerParameter]:
    return [RerankerParameter(**vars(info)) for info in method.parameter_infos()]
