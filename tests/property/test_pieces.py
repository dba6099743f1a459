"""Pieces of the archive: whatever is compacted, by whomever and when, every batch is read once."""

import json

from hypothesis import given
from hypothesis import strategies as st

from bucketq.archive_name import ArchiveName, pieces
from bucketq.archived_job import batch_of, with_batch

HOURS = ["2026-02-15T10", "2026-02-15T11"]
batches = st.sets(st.tuples(st.sampled_from(HOURS), st.integers(1, 30)), min_size=1)
ranges = st.lists(st.tuples(st.sampled_from(HOURS), st.integers(1, 30), st.integers(0, 29)), max_size=4)


def listed(batches, compactions, deleted):
    """The objects that are there after some compactions; those that one covers may be deleted already."""
    names = {ArchiveName(hour, version, version) for hour, version in batches}
    for hour, first, length in compactions:
        inside = sorted(
            version for other, version in batches if other == hour and first <= version <= first + length
        )
        if len(inside) > 1:
            names.add(ArchiveName(hour, inside[0], inside[-1]))
    covered = {name for name in names if any(other != name and other.covers(name) for other in names)}
    return names - {name for number, name in enumerate(sorted(covered)) if number in deleted}


def held_by(piece, batches):
    """The batches that a reader of the piece gets from its object."""
    hour = piece.name.hour
    inside = [
        version
        for other, version in batches
        if other == hour and piece.name.first <= version <= piece.name.last
    ]
    return [(hour, version) for version in inside if piece.has(version)]


@given(
    batches,
    ranges,
    st.sets(st.integers(0, 20)),
    st.integers(1, 30),
    st.integers(0, 30),
    st.sets(st.integers(0, 5)),
)
def test_pieces_hold_every_batch_of_their_versions_once(
    batches, compactions, deleted, first, length, held_back
):
    names = listed(batches, compactions, deleted)
    without = {batch for number, batch in enumerate(sorted(batches)) if number in held_back}
    read = [
        batch
        for piece in pieces(
            dict.fromkeys(names, 1),
            first,
            first + length,
            [ArchiveName(hour, one, one) for hour, one in without],
        )
        for batch in held_by(piece, batches)
    ]
    assert sorted(read) == sorted(
        (hour, version) for hour, version in batches - without if first <= version <= first + length
    )


@given(
    st.dictionaries(st.sampled_from(["id", "batch", "json"]), st.integers(0, 10**9) | st.text()),
    st.integers(1, 10**12),
)
def test_a_line_tells_its_batch_whatever_else_it_holds(fields, version):
    line = json.dumps({"json": fields}, separators=(",", ":")).encode()
    assert batch_of(line) is None
    assert batch_of(with_batch(line, version)) == version
    assert json.loads(with_batch(line, version))["json"] == fields
