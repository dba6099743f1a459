"""A collector of traces: an OTLP/HTTP server on loopback that keeps the spans it is sent."""

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

SOON_S = 30


@dataclass(frozen=True)
class Received:
    """A span as it came, with the service that sent it."""

    service: str
    name: str
    trace: str
    id: str
    parent: str
    kind: int
    attributes: dict
    error: str
    events: list


class Collector:
    def __init__(self):
        self._spans = []
        self._told = threading.Condition()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                content = self.rfile.read(int(self.headers["Content-Length"]))
                collector.take(ExportTraceServiceRequest.FromString(content))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def variables(self, service):
        """What a process needs to send its spans here, soon."""
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.url,
            "OTEL_SERVICE_NAME": service,
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }

    def take(self, request):
        with self._told:
            for of_service in request.resource_spans:
                service = _attributes(of_service.resource.attributes)["service.name"]
                for scope in of_service.scope_spans:
                    self._spans += [_received(service, span) for span in scope.spans]
            self._told.notify_all()

    def wait_for(self, name, attributes=None, **fields):
        """The first span of that name, with these attributes and fields, once it has come."""

        def found():
            return next((span for span in self._spans if span.name == name and is_wanted(span)), None)

        def is_wanted(span):
            has_fields = all(getattr(span, field) == value for field, value in fields.items())
            return has_fields and (attributes or {}).items() <= span.attributes.items()

        with self._told:
            span = self._told.wait_for(found, SOON_S)
        assert span, [one.name for one in self._spans]
        return span


@contextmanager
def collecting():
    collector = Collector()
    serving = threading.Thread(target=collector.server.serve_forever, args=(0.05,))
    serving.start()
    try:
        yield collector
    finally:
        collector.server.shutdown()
        serving.join()
        collector.server.server_close()


def _received(service, span):
    return Received(
        service,
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.kind,
        _attributes(span.attributes),
        span.status.message if span.status.code == 2 else "",
        [_attributes(event.attributes) for event in span.events],
    )


def _attributes(pairs):
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}
