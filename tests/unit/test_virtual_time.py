"""The decorator of tests in virtual time."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bucketq.testing import virtual_time


@virtual_time
async def order_of_tasks(seed=None):
    done = []

    async def work(number):
        done.append(number)

    await asyncio.gather(*(work(number) for number in range(20)))
    return done


def test_the_seed_decides_the_order_of_tasks():
    assert order_of_tasks() == list(range(20))
    assert order_of_tasks(1) == order_of_tasks(seed=1) != order_of_tasks(seed=2)


@pytest.mark.parametrize("hours", [1, 1000])
@virtual_time
async def test_fixtures_and_parameters_reach_the_test_and_its_time_is_virtual(hours, tmp_path):
    assert tmp_path.is_dir()
    await asyncio.sleep(3600 * hours)
    assert asyncio.get_running_loop().time() == 3600 * hours


@settings(max_examples=5)
@given(seed=st.integers())
@virtual_time
async def test_each_example_of_hypothesis_has_its_own_loop(seed):
    assert asyncio.get_running_loop().time() == 0
    await asyncio.sleep(1)
