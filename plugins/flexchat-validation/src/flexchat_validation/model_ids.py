"""Model names as written in a configuration and on the command line: LLM/MODEL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from flexchat import ChatRequestError, FlexChatError, Problem
from flexchat.host import UnknownNameError, did_you_mean

from .cases import table_of

if TYPE_CHECKING:
    from flexchat.host import Config, ConfigDocument, LLMEntry


def split_model_id(llms: Mapping[str, LLMEntry], model_id: str) -> tuple[str, str | None]:
    """Return service and model of "LLM/MODEL"; the model may have slashes. "SERVICE" alone means its default_model,
    and gives no model.

    Raises:
        UnknownNameError: No such service is configured.
        ChatRequestError: No model is named.
    """
    service, _, model = model_id.partition("/")
    entry = llms.get(service)
    if entry is None:
        services = ", ".join(llms) or "none"
        raise UnknownNameError(
            f"model '{model_id}': no service is called '{service}'{did_you_mean(service, llms)}; a model "
            f"is named LLM/MODEL, and the services are: {services}"
        )
    if not model and not entry.default_model:
        raise ChatRequestError(f"model '{model_id}': {service} has no default_model; write {service}/MODEL")
    return service, model or None


def wrong_models(config: Config, document: ConfigDocument | None = None) -> list[Problem]:
    """Check the models named in a configuration's table validation; return the problems.

    Args:
        document: The parsed text of the configuration, for line numbers.
    """
    problems = []
    for index, model_id in enumerate(table_of(config).models):
        try:
            split_model_id(config.llms, model_id)
        except FlexChatError as error:
            path, place = f"validation.models[{index}]", ("validation", "models", index)
            problems.append(document.problem(place, str(error)) if document else Problem(path=path, text=str(error)))
    return problems
