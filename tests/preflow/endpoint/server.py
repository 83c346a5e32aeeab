"""A server of the tests' own that speaks the chat completions protocol."""

import json
import threading
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from preflow.endpoint.settings import Endpoint


class Reply(NamedTuple):
    """What a model returns to send anything but an answer."""

    status: int
    body: bytes
    headers: dict


@contextmanager
def served(answering):
    """A server that speaks the chat completions protocol, `answering(material) -> answer` behind it.

    Yields the address and the list of requests, which grows.
    """
    requests, lock = [], threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one packet a reply

        def do_POST(self):
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            material = json.loads(request["messages"][1]["content"].partition("\n")[0])
            with lock:
                requests.append({"path": self.path, "key": self.headers["Authorization"], **request})
            answer = answering(material)
            reply = answer if isinstance(answer, Reply) else completion(answer)
            self.send_response(reply.status)
            for name, value in {**reply.headers, "Content-Length": len(reply.body)}.items():
                self.send_header(name, str(value))
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", requests
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def judging(judge):
    """`served` for a model that is asked about two responses: `judge(response_a, response_b) -> answer`."""
    return served(lambda material: judge(material["response_a"], material["response_b"]))


def completion(answer):
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": answer}}
    body = {"id": "1", "object": "chat.completion", "created": 0, "model": "judge", "choices": [choice]}
    return Reply(200, json.dumps(body).encode(), {"Content-Type": "application/json"})


def refusal(status, message):
    body = json.dumps({"error": {"message": message}}).encode()
    return Reply(status, body, {"Content-Type": "application/json", "retry-after-ms": 1})


def endpoint(url, **changes):
    settings = Endpoint(
        base_url=url,
        model="judge",
        api_key_variable=None,
        max_tokens=4,
        temperature=0.0,
        timeout_s=10.0,
        retries=2,
        concurrent_requests=4,
    )
    return replace(settings, **changes)
