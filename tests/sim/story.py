"""The story of a violation: only what touched the jobs and calls that show it."""

from tests.sim.record import Call


def tell(record, violation):
    """Lines that say what went wrong, and how it came to that."""
    calls = [about for about in violation.about if isinstance(about, Call)]
    jobs = {about for about in violation.about if isinstance(about, str)}
    jobs |= {job_id for call in calls for job_id in _jobs_of(call)}
    lines = [f"seed {record.seed}: {violation}", ""]
    events = [
        (call.began_s, str(call)) for call in record.calls.values() if call in calls or jobs & _jobs_of(call)
    ]
    for _, after, job_id, old, new in record.steps:
        if job_id in jobs:
            change = f"{_short(old)} -> {_short(new)}"
            line = f"{after.at_s:9.3f} {after.by} version {after.state.version}: {job_id} {change}"
            events.append((after.at_s, line))
    if events:
        processes = {call.process for call in record.calls.values() if call in calls or jobs & _jobs_of(call)}
        first_s, last_s = min(events)[0] - 5, max(events)[0] + 5
        for line in record.trace:
            at_s, rest = float(line.split()[0]), line.split(maxsplit=1)[1]
            is_near = first_s <= at_s <= last_s and any(rest.startswith(name) for name in processes)
            if is_near and (":" in rest or " is " in rest or " stands " in rest or " goes " in rest):
                events.append((at_s, line))
        lines += [line for _, line in sorted(events)]
    else:
        lines += record.trace[-40:]
    return "\n".join(lines)


def _jobs_of(call):
    pairs = [*call.about, *(call.result or [])]
    found = {pair[0] for pair in pairs if isinstance(pair, tuple)}
    return found | {job_id for job_id in pairs if isinstance(job_id, str) and len(job_id) == 36}


def _short(job):
    if job is None:
        return "nothing"
    return f"{job.status.value}(attempts {job.attempts}, token {job.token}, error {job.error})"
