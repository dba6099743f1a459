"""As much of PromQL as the alerts speak, to see them fire: filters, rates, sums, and what is compared.

A series is its labels and two values: as it was at the beginning of the range, and as it is now.
"""

from operator import add, eq, ge, gt, le, lt, mul, ne, sub, truediv

import promql_parser

ARITHMETIC = {"+": add, "-": sub, "*": mul, "/": truediv}
COMPARISONS = {">": gt, "<": lt, ">=": ge, "<=": le, "==": eq, "!=": ne}
AGGREGATIONS = {"sum": sum, "max": max, "min": min}


def parts(expression):
    """An expression and all in it."""
    yield expression
    inner = [getattr(expression, name, None) for name in ("expr", "lhs", "rhs", "vector_selector", "param")]
    for part in [*inner, *getattr(expression, "args", ())]:
        if part is not None:
            yield from parts(part)


def evaluate(query, world):
    """What a query gives: {labels: value}. The world is {metric: [(labels, before, now)]}."""
    return _value(promql_parser.parse(query), world)


def _value(node, world):
    match node:
        case promql_parser.NumberLiteral():
            return node.val
        case promql_parser.ParenExpr():
            return _value(node.expr, world)
        case promql_parser.VectorSelector():
            return {_key(labels): now for labels, _, now in _selected(node, world)}
        case promql_parser.Call() if node.func.name in ("rate", "increase"):
            [matrix] = node.args
            per_s = matrix.range.total_seconds() if node.func.name == "rate" else 1
            found = _selected(matrix.vector_selector, world)
            return {_key(labels): (now - before) / per_s for labels, before, now in found}
        case promql_parser.Call() if node.func.name == "absent":
            return {} if _value(node.args[0], world) else {(): 1}
        case promql_parser.AggregateExpr():
            groups = {}
            for key, value in _value(node.expr, world).items():
                by = tuple((name, text) for name, text in key if name in node.modifier.labels)
                groups.setdefault(by, []).append(value)
            return {by: AGGREGATIONS[str(node.op)](values) for by, values in groups.items()}
        case promql_parser.BinaryExpr():
            return _together(str(node.op), _value(node.lhs, world), _value(node.rhs, world))
    raise NotImplementedError(f"the alerts have not needed {node} so far")


def _together(op, left, right):
    if op == "or":
        return {**right, **left}
    if op == "and":
        return {key: value for key, value in left.items() if key in right}
    if not isinstance(left, dict):
        return {key: ARITHMETIC[op](left, value) for key, value in right.items()}
    pairs = [
        (key, value, right.get(key) if isinstance(right, dict) else right) for key, value in left.items()
    ]
    if op in COMPARISONS:
        return {key: one for key, one, other in pairs if other is not None and COMPARISONS[op](one, other)}
    return {key: ARITHMETIC[op](one, other) for key, one, other in pairs if other is not None}


def _selected(selector, world):
    for labels, before, now in world.get(selector.name, []):
        if all(labels.get(one.name) == one.value for one in selector.matchers.matchers):
            yield labels, before, now


def _key(labels):
    return tuple(sorted(labels.items()))
