"""Reads served streams with the official `openai` and `google-genai` clients.

Takes `{"dialect": …, "base_url": …, "attempts": N}` on standard input, asks for the replies 1 to N of a session, and
prints one line for each: what the client put together, as `{"text", "reasoning", "calls": [[name, arguments]], "finish",
"usage": [input, output, cached]}`, or `{"error": CLASS, "status": …}` as the client raised it.
"""

import json
import sys

import openai
from google import genai
from google.genai import types

TOOLS = ("bash", "read_file")
PARAMETERS = {"type": "object", "properties": {"path": {"type": "string"}}}


def chat(task, headers):
    client = openai.OpenAI(base_url=task["base_url"] + "/v1", api_key="any", max_retries=0, timeout=20)
    tools = [{"type": "function", "function": {"name": name, "parameters": PARAMETERS}} for name in TOOLS]
    messages = [{"role": "user", "content": "Go on."}]
    with client.chat.completions.stream(
        model="m", messages=messages, tools=tools, extra_headers=headers, stream_options={"include_usage": True}
    ) as stream:
        for _ in stream:
            pass
        whole = stream.get_final_completion()
    choice, usage = whole.choices[0], whole.usage
    calls = [[call.function.name, call.function.arguments] for call in choice.message.tool_calls or []]
    extra = choice.message.model_extra or {}
    return {
        "text": choice.message.content or "",
        "reasoning": extra.get("reasoning_content") or "",
        "calls": calls,
        "finish": choice.finish_reason,
        "usage": usage and [usage.prompt_tokens, usage.completion_tokens, usage.prompt_tokens_details.cached_tokens],
    }


def responses(task, headers):
    client = openai.OpenAI(base_url=task["base_url"] + "/v1", api_key="any", max_retries=0, timeout=20)
    tools = [{"type": "function", "name": name, "parameters": PARAMETERS, "strict": False} for name in TOOLS]
    with client.responses.stream(model="m", input="Go on.", tools=tools, store=False, extra_headers=headers) as stream:
        for event in stream:
            if event.type == "error":
                raise RuntimeError(f"{event.code}: {event.message}")
            last = event
    whole = last.response
    reasoning = [part.text for item in whole.output if item.type == "reasoning" for part in item.summary]
    calls = [[item.name, item.arguments] for item in whole.output if item.type == "function_call"]
    usage = whole.usage
    return {
        "text": whole.output_text,
        "reasoning": "".join(reasoning),
        "calls": calls,
        "finish": whole.incomplete_details.reason if whole.incomplete_details else whole.status,
        "usage": usage and [usage.input_tokens, usage.output_tokens, usage.input_tokens_details.cached_tokens],
    }


def gemini(task, headers):
    options = types.HttpOptions(base_url=task["base_url"], headers=headers, timeout=20_000)
    client = genai.Client(api_key="any", http_options=options)
    functions = [{"name": name, "parameters": PARAMETERS} for name in TOOLS]
    config = types.GenerateContentConfig(
        tools=[types.Tool(function_declarations=functions)],
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )
    text, reasoning, calls, finish, usage = "", "", [], None, None
    for chunk in client.models.generate_content_stream(model="gemini-3.8-flash", contents="Go on.", config=config):
        usage = chunk.usage_metadata or usage
        for candidate in chunk.candidates or []:
            finish = candidate.finish_reason.value if candidate.finish_reason else finish
            for part in (candidate.content and candidate.content.parts) or []:
                if part.function_call:
                    calls.append([part.function_call.name, json.dumps(part.function_call.args)])
                elif part.thought:
                    reasoning += part.text or ""
                else:
                    text += part.text or ""
    counted = usage and [usage.prompt_token_count, usage.candidates_token_count, usage.cached_content_token_count]
    return {"text": text, "reasoning": reasoning, "calls": calls, "finish": finish, "usage": counted}


ASK = {"openai": responses, "openai-chat": chat, "gemini": gemini}


def main():
    task = json.load(sys.stdin)
    for attempt in range(1, task["attempts"] + 1):
        try:
            # The served script gives reply N to attempt N of a session.
            print(json.dumps(ASK[task["dialect"]](task, {"idempotency-key": f"oracle/{attempt}"})))
        # Whatever the client raises is what is looked at here.
        except Exception as error:  # noqa: BLE001
            status = getattr(error, "status_code", None) or getattr(error, "code", None)
            print(json.dumps({"error": type(error).__name__, "status": status, "text": str(error)}))


main()
