"""A local S3 for the tests, run by the Python of build/s3: moto, with a log of requests at /requests.

`server.py MODE`: `usual`; `ignores` conditional puts, as some stores do; `refuses` them. Prints its port.
"""

from __future__ import annotations

import json
import logging
import sys
import threading

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

logging.getLogger("werkzeug").setLevel(logging.ERROR)

MODE = sys.argv[1]
store = DomainDispatcherApplication(create_backend_app)
requests: list[dict] = []
waiting = 0
lock = threading.Lock()


def serve(environ, start_response):
    """Answer one request; `at_once` is how many were under way."""
    global waiting
    if environ["PATH_INFO"] == "/requests":
        start_response("200 OK", [("Content-Type", "application/json")])
        return [json.dumps(requests).encode()]
    is_conditional = environ["REQUEST_METHOD"] == "PUT" and "HTTP_IF_NONE_MATCH" in environ
    with lock:
        waiting += 1
        names = {
            "method": "REQUEST_METHOD",
            "path": "PATH_INFO",
            "range": "HTTP_RANGE",
            "condition": "HTTP_IF_NONE_MATCH",
        }
        requests.append({"at_once": waiting, **{name: environ.get(key) for name, key in names.items()}})
    try:
        if is_conditional and MODE == "refuses":
            body = b"<Error><Code>NotImplemented</Code><Message>If-None-Match is not implemented</Message></Error>"
            start_response("501 Not Implemented", [("Content-Length", str(len(body)))])
            return [body]
        if is_conditional and MODE == "usual":
            # moto looks and puts in two steps; a store that can does it in one.
            with lock:
                return list(store(environ, start_response))
        environ.pop("HTTP_IF_NONE_MATCH", None)
        return list(store(environ, start_response))
    finally:
        with lock:
            waiting -= 1


server = make_server("127.0.0.1", 0, serve, threaded=True)
print(server.server_port, flush=True)
server.serve_forever()
