"""What requests cost <-> messages."""

from bucketq.account import Spending
from bucketq.prices import Prices, Requests
from bucketq.v1 import queue_pb2 as pb


def spending_message(spending: Spending) -> pb.SpendingResponse:
    """What a broker has spent, for the wire."""
    prices = spending.prices
    return pb.SpendingResponse(
        requests=pb.StorageRequests(**spending.requests._asdict()),
        per_second=pb.StorageRequests(**spending.per_s._asdict()),
        prices_of=prices.of,
        per_1000_reads=prices.per_1000_reads,
        per_1000_writes=prices.per_1000_writes,
        per_1000_lists=prices.per_1000_lists,
        per_1000_deletes=prices.per_1000_deletes,
        dollars=spending.dollars,
        dollars_per_month=spending.dollars_per_month,
        budget_per_month=spending.budget_per_month,
        is_held_back=spending.is_held_back,
        interval_s=spending.interval_s,
        least_per_month=spending.least_per_month,
    )


def spending_of(message: pb.SpendingResponse) -> Spending:
    """What a broker has spent, from the wire."""
    return Spending(
        requests=_requests_of(message.requests),
        per_s=_requests_of(message.per_second),
        prices=Prices(
            of=message.prices_of,
            per_1000_reads=message.per_1000_reads,
            per_1000_writes=message.per_1000_writes,
            per_1000_lists=message.per_1000_lists,
            per_1000_deletes=message.per_1000_deletes,
        ),
        dollars=message.dollars,
        dollars_per_month=message.dollars_per_month,
        budget_per_month=message.budget_per_month,
        is_held_back=message.is_held_back,
        interval_s=message.interval_s,
        least_per_month=message.least_per_month if message.HasField("least_per_month") else None,
    )


def _requests_of(message: pb.StorageRequests) -> Requests:
    return Requests(*(getattr(message, name) for name in Requests._fields))
