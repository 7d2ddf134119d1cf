"""Checks request bodies against the request types of the official `openai` and `google-genai` packages.

Reads one JSON object a line, `{"name": …, "dialect": …, "body": TEXT}` with a dialect of `openai`, `openai-chat` or
`gemini`, and prints one a line, `{"name": …, "problem": …}`, for each violation. The types are more lenient than the APIs
(they take any iterable, coerce, and let unknown keys pass), so their schema is made strict before it is used.
"""

import json
import sys

from google.genai import types as gemini
from openai.types.chat import completion_create_params
from openai.types.responses import response_create_params
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import SchemaValidator


def strict(node):
    """The same schema with lists for lazy iterables, and with no key allowed that it does not name."""
    if isinstance(node, (list, tuple)):
        return type(node)(strict(each) for each in node)
    if not isinstance(node, dict):
        return node
    node = {key: strict(value) for key, value in node.items()}
    if node.get("type") == "generator":
        node["type"] = "list"
    is_open = node.get("config", {}).get("extra_fields_behavior") == "allow"
    if node.get("type") == "model-fields" or (node.get("type") == "typed-dict" and not is_open):
        node["extra_behavior"] = "forbid"
    return node


class GeminiRequest(BaseModel, extra="forbid"):
    """The body of generateContent in the package's own types; they forbid what they do not name."""

    contents: list[gemini.Content]
    tools: list[gemini.Tool] = []
    systemInstruction: gemini.Content | None = None
    generationConfig: gemini.GenerationConfig | None = None


def validator(types):
    return SchemaValidator(strict(TypeAdapter(types).core_schema)).validate_python


VALIDATORS = {
    "openai": validator(response_create_params.ResponseCreateParamsStreaming),
    "openai-chat": validator(completion_create_params.CompletionCreateParamsStreaming),
    "gemini": GeminiRequest.model_validate,
}


def problems(error):
    """The violations, without those of union members that the block does not claim to be."""
    found = error.errors(include_url=False, include_input=False)
    others = {each["loc"][:-1] for each in found if each["type"] == "literal_error" and each["loc"][-1] in ("type", "role")}
    meant = [each for each in found if not any(each["loc"][:length] in others for length in range(len(each["loc"])))]
    for each in meant or found[:1]:
        yield f"{'.'.join(str(step) for step in each['loc'] if '[' not in str(step))}: {each['msg']}"


def main():
    for line in sys.stdin:
        request = json.loads(line)
        try:
            VALIDATORS[request["dialect"]](json.loads(request["body"]))
        except ValidationError as error:
            for problem in problems(error):
                print(json.dumps({"name": request["name"], "problem": problem}))
        except ValueError as error:
            print(json.dumps({"name": request["name"], "problem": f"it is not JSON: {error}"}))


main()
