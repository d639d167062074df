"""Whose instance is looked at next, where one look does not come to all: tenants take turns. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping


class Turns:
    """Remembers who is next."""

    def __init__(self) -> None:
        self._next_tenant = ""
        self._next: dict[str, str] = {}
        """By tenant, the instance that is next."""
        self._order: list[str] = []
        self._tenant_of: Mapping[str, str] = {}

    def order(self, tenant_of: Mapping[str, str]) -> Iterator[str]:
        """All instances, one of each tenant after another, each from where the last look ended."""
        by_tenant: defaultdict[str, list[str]] = defaultdict(list)
        for instance_id in sorted(tenant_of):
            by_tenant[tenant_of[instance_id]].append(instance_id)
        queues = [
            iter(_from(by_tenant[tenant], self._next.get(tenant, "")))
            for tenant in _from(sorted(by_tenant), self._next_tenant)
        ]
        self._tenant_of, self._order = tenant_of, []
        while queues:
            left = []
            for each in queues:
                if (following := next(each, None)) is not None:
                    self._order.append(following)
                    left.append(each)
            queues = left
        return iter(self._order)

    def came_to(self, instance_ids: Iterable[str]) -> dict[str, int]:
        """A look came to the first of the order. By tenant: how many such looks come to all its instances."""
        done = list(instance_ids)
        rest = self._order[len(done) :]
        tenants = self._tenant_of
        self._next_tenant = tenants[rest[0]] if rest else ""
        self._next = {tenants[one]: one for one in reversed(rest)}
        have, came = Counter(tenants.values()), Counter(tenants[one] for one in done)
        # Of a tenant that had no turn the next look begins with the next of those.
        idle = -(-len(have) // max(len(came), 1))
        return {tenant: idle * -(-count // max(came[tenant], 1)) for tenant, count in have.items()}


def _from(names: list[str], first: str) -> list[str]:
    at = next((at for at, name in enumerate(names) if name >= first), 0)
    return names[at:] + names[:at]
