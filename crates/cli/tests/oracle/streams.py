"""Reads served streams with the official client.

Takes `{"base_url": …, "attempts": N}` on standard input, asks for the replies 1 to N of a session, and prints one line
for each: `{"message": …}` as the client put it together, or `{"error": CLASS, "status": …}` as the client raised it.
"""

import json
import sys

import anthropic


def ask(client, attempt):
    # The served script gives reply N to attempt N of a session.
    headers = {"idempotency-key": f"oracle/{attempt}"}
    messages = [{"role": "user", "content": "Go on."}]
    tools = [{"name": name, "input_schema": {"type": "object"}} for name in ("bash", "read_file")]
    arguments = {"model": "claude-test", "max_tokens": 1000, "messages": messages, "tools": tools}
    with client.messages.stream(**arguments, extra_headers=headers) as stream:
        kinds = [event.type for event in stream]
        return {"message": stream.get_final_message().to_dict(), "events": kinds}


def main():
    task = json.load(sys.stdin)
    client = anthropic.Anthropic(base_url=task["base_url"], api_key="any", max_retries=0, timeout=20)
    for attempt in range(1, task["attempts"] + 1):
        try:
            print(json.dumps(ask(client, attempt)))
        # Whatever the client raises is what is looked at here.
        except Exception as error:  # noqa: BLE001
            body = getattr(error, "body", None)
            kind = body.get("error", {}).get("type") if isinstance(body, dict) else None
            status = getattr(error, "status_code", None)
            print(json.dumps({"error": type(error).__name__, "status": status, "type": kind, "text": str(error)}))


main()
