"""Crowd: what connections have sent, in sum."""

from bucketq.broker.allowance import Allowance
from bucketq.broker.crowd import Crowd

MB = 1024 * 1024


def test_a_few_who_send_much_keep_no_small_message_out():
    crowd = Crowd(Allowance(held_bytes_max=10 * MB))
    assert crowd.hold(10 * MB, 10 * MB)
    assert not crowd.hold(MB, MB), "there is no room for more"
    assert crowd.hold(100, 100)
    crowd.hold(-5 * MB)
    assert crowd.hold(MB, MB)
