"""Brokers: who leads, whether its heart beats, and what this broker has been asked."""

from nicegui import ui

from bucketq.broker.serving import Inside
from bucketq.dashboard.frame import Frame
from bucketq.dashboard.parts import empty, facts, panel
from bucketq.dashboard.table import Column, Table
from bucketq.election import Leader
from bucketq.words import spell_count, spell_moment, spell_time

# Those that were asked most often; the others are in /metrics.
_METHODS_MAX = 20


def draw_brokers(frame: Frame) -> None:
    """The leader; and, on a broker, that broker itself."""
    with ui.element("div").classes("bq-columns"):
        _draw_leader(frame)
        if frame.house.inside is not None:
            _draw_broker(frame, frame.house.inside)
    if frame.house.inside is not None:
        _draw_requests(frame, frame.house.inside)


def _draw_leader(frame: Frame) -> None:
    with panel("Leader") as known:
        shown = facts()
    nobody = empty(
        "hub",
        "No broker leads",
        "Clients that reach the storage write to it themselves. A broker serves all others.",
        f"bucketq serve {frame.house.url} --dashboard",
    )

    def show() -> None:
        leader = frame.watch.look.state.leader if frame.watch.look is not None else None
        known.set_visibility(leader is not None)
        nobody.set_visibility(leader is None)
        if leader is not None:
            shown.show(_facts_of(leader, frame))

    frame.each_second(show)


def _facts_of(leader: Leader, frame: Frame) -> list[tuple[str, str]]:
    # By this machine's own clock: that of the leader may be another one.
    silent = spell_time(frame.watch.pulse.silent_s(frame.watch.now_s))
    return [
        ("gRPC", leader.address or "not spoken"),
        ("HTTP and WebSocket", leader.http or "not spoken"),
        ("epoch", f"{leader.epoch:,}"),
        ("last heartbeat", f"{spell_moment(leader.beat_at)} by its own clock"),
        ("last seen to beat", f"{silent} ago"),
    ]


def _draw_broker(frame: Frame, inside: Inside) -> None:
    with panel("This broker"):
        shown = facts()
    broker, metrics = inside.service.broker, inside.metrics

    def show() -> None:
        figures = broker.figures
        connections = metrics.open_connections
        shown.show(
            [
                ("gRPC", broker.address or "not spoken"),
                ("HTTP and WebSocket", broker.http),
                ("state", "leads" if broker.is_leading else "waits for its turn"),
                ("terms", f"{broker.terms:,}"),
                ("commits", f"{figures.commits:,} of {figures.operations:,} operations"),
                ("conflicts", f"{figures.conflicts:,}"),
                ("connections", ", ".join(f"{count:,} by {way}" for way, count in connections.items())),
                ("open pages", f"{len(frame.watch):,}"),
            ]
        )

    frame.each_second(show)


def _draw_requests(frame: Frame, inside: Inside) -> None:
    with panel("Requests to this broker"):
        requests = Table(
            [
                Column("way", "By"),
                Column("method", "Method", is_code=True),
                Column("outcome", "Outcome"),
                Column("count", "Requests", is_number=True),
            ],
            label="Requests to this broker",
        )

    def show() -> None:
        most = sorted(inside.metrics.answers.items(), key=lambda one: -one[1])[:_METHODS_MAX]
        requests.show(
            [
                {
                    "id": f"{way} {method} {outcome}",
                    "way": way,
                    "method": method,
                    "outcome": outcome,
                    "count": spell_count(count),
                }
                for (way, method, outcome), count in most
            ]
        )

    frame.each_second(show)
