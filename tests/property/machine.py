"""What random histories have in common: how many there are, and QueueMachine, queues on one object."""

import asyncio

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from bucketq import BrokerQueue, DirectQueue, InMemoryStorage, Settings, StorageError


def examples(count):
    """So many examples; a tenth of them in `make check`."""
    return count // 10 if settings.get_current_profile_name() == "quick" else count


class QueueMachine(RuleBasedStateMachine):
    """Two BrokerQueues, which are opened anew now and then, and a DirectQueue."""

    settings = Settings()

    def __init__(self):
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.storage = InMemoryStorage()
        self.brokers = [BrokerQueue(self.storage, settings=self.settings) for _ in range(2)]
        self.queues = [*self.brokers, DirectQueue(self.storage, self.settings)]
        for queue in self.brokers:
            self.do(queue.__aenter__())

    def do(self, coroutine):
        return self.loop.run_until_complete(coroutine)

    def insist(self, call):
        """Do what puts objects beside the queue; again, if those were collected meanwhile."""
        while True:
            try:
                return self.do(call())
            except StorageError as error:
                if "Nothing was changed; do it again" not in str(error):
                    raise

    def teardown(self):
        for queue in self.brokers:
            self.do(queue.__aexit__(None, None, None))
        try:
            self.look_back()
        finally:
            self.loop.close()

    def look_back(self):
        """Check what is left when all queues are closed."""

    @rule(who=st.integers(0, 1))
    def restart(self, who):
        self.do(self.brokers[who].__aexit__(None, None, None))
        self.brokers[who] = self.queues[who] = BrokerQueue(self.storage, settings=self.settings)
        self.do(self.brokers[who].__aenter__())

    @rule()
    def time_passes(self):
        """Whatever goes on beside the calls comes to its end."""
        self.do(asyncio.sleep(0.002))
