"""Who is connected and what he carries: each byte and connection is somebody's, whatever it is called."""

from random import Random

from contracts.connected import TOLD_MAX, ClientIdSum, Connected, ConnectedClient
from gateway.census import EVERY_MS, Account, Carried, Census
from gateway.rules.connected import TOLD_APART_MAX, Identity, Taken, Tally


class One:
    """A connection."""

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self.closed = False
        self.requests, self.bytes_in, self.bytes_out, self.frames = self, 0, 0, 0
        self.throttled = 0
        self.carried = Carried(self, self)

    def throttled_ms(self, now_ms: int) -> int:
        return self.throttled

    def carries(self, in_bytes: int, out_bytes: int) -> None:
        self.frames += 1
        self.bytes_in += in_bytes
        self.carried.went_out(out_bytes)


class Place:
    """An instance."""

    def __init__(self, *connections: One) -> None:
        self.connections = set(connections)
        self.account = Account(0)

    def close(self, connection: One) -> None:
        connection.closed = True
        self.connections.discard(connection)
        self.account.leaves(connection, 0)


def whole(told: Connected) -> list[ConnectedClient]:
    return [*told.clients, *([told.others] if told.others is not None else [])]


def test_a_client_has_all_of_its_connections_and_what_ended() -> None:
    busy, quiet = Identity("10.0.0.1", "loader", "etl", "kgo 1.2"), Identity("10.0.0.2")
    connections = [One(busy), One(busy), One(quiet)]
    place = Place(*connections)
    connections[0].carries(10_000, 50)
    connections[1].carries(5_000, 25)
    place.close(connections[1])
    census = Census()
    assert census.step({"i": place}, 2, EVERY_MS - 1) == {}
    told = census.step({"i": place}, 2, EVERY_MS)["i"]
    assert told == Connected(
        seconds=5.0,
        count=2,
        clients=(
            ConnectedClient(
                address="10.0.0.1",
                client_id="loader",
                user="etl",
                software="kgo 1.2",
                connections=1,
                ended_per_s=0.2,
                in_bytes_per_s=3_000,
                out_bytes_per_s=15,
            ),
            ConnectedClient(address="10.0.0.2", connections=1),
        ),
        by_client_id=(
            ClientIdSum(client_id="loader", connections=1, in_bytes=15_000, out_bytes=75, requests=2),
            ClientIdSum(connections=1),
        ),
    )
    later = census.step({"i": place}, 2, 2 * EVERY_MS)["i"]
    assert [one.in_bytes_per_s for one in later.clients] == [0, 0]


def test_a_flood_of_names_is_told_as_one_and_hides_nobody_who_was_there() -> None:
    tally = Tally()
    tally.open(Taken(Identity("10.0.0.1", "orders"), 1_000))
    for number in range(TOLD_APART_MAX * 10):
        tally.ended(Taken(Identity("10.6.6.6", f"random-{number}"), 10))
    told = tally.result(1)
    assert told.clients[0].client_id == "orders"
    assert (len(told.clients), told.count) == (TOLD_MAX, TOLD_APART_MAX)
    assert sum(one.in_bytes_per_s for one in whole(told)) == 1_000 + TOLD_APART_MAX * 100
    assert sum(one.ended_per_s for one in whole(told)) == TOLD_APART_MAX * 10


def test_of_client_ids_the_busiest_are_told_in_whichever_order_they_come() -> None:
    """One that comes behind a flood of others, and one with connections from everywhere."""
    tally = Tally()
    for number in range(TOLD_APART_MAX * 4):
        tally.ended(Taken(Identity("10.6.6.6", f"random-{number}"), 10, requests=1))
        if number % 4 == 0:
            tally.open(Taken(Identity(f"10.1.{number}.1", "pods"), 5, 5, requests=2, throttled_ms=number))
    tally.open(Taken(Identity("10.0.0.1", "late"), 900, 100, requests=7))
    told = tally.result(5).by_client_id
    assert told[:2] == (
        ClientIdSum(
            client_id="pods",
            connections=TOLD_APART_MAX,
            in_bytes=5 * TOLD_APART_MAX,
            out_bytes=5 * TOLD_APART_MAX,
            requests=2 * TOLD_APART_MAX,
            throttled_ms=TOLD_APART_MAX * 4 - 4,
        ),
        ClientIdSum(client_id="late", connections=1, in_bytes=900, out_bytes=100, requests=7),
    )
    assert (len(told), told[-1].client_id) == (TOLD_MAX + 1, "")
    assert sum(one.in_bytes for one in told) == TOLD_APART_MAX * 45 + 900
    assert sum(one.requests for one in told) == TOLD_APART_MAX * 6 + 7


def test_what_begins_after_a_rest_is_not_spread_over_it() -> None:
    place, census = Place(), Census()
    for second in range(60):
        assert census.step({"i": place}, 0, second * 1_000) == {}
    one = One(Identity("10.0.0.1", "nightly"))
    place.connections.add(one)
    one.carries(5_000, 0)
    [told] = [found["i"] for at in (60_000, 65_000) if (found := census.step({"i": place}, 1, at))]
    assert told.seconds <= 6
    assert told.by_client_id == (ClientIdSum(client_id="nightly", connections=1, in_bytes=5_000, requests=1),)


def test_a_connection_is_counted_from_where_it_was_counted_last() -> None:
    one = One(Identity("10.0.0.1", "a"))
    place, census = Place(one), Census()
    told = []
    for turn in range(3):
        one.carries(100, 10)
        one.throttled += 250
        told.append(census.step({"i": place}, 1, (turn + 1) * EVERY_MS)["i"].by_client_id)
    whole_sum = ClientIdSum(
        client_id="a", connections=1, in_bytes=100, out_bytes=10, requests=1, throttled_ms=250
    )
    assert told == [(whole_sum,)] * 3


def test_whoever_comes_and_goes_while_it_counts_every_byte_is_told_once() -> None:
    """Ten thousand connections are counted in many steps; others come, end and carry on meanwhile."""
    draw, census, now_ms = Random(3), Census(), 0
    many, few = (Place(*(One(Identity(f"10.0.0.{n % 7}")) for n in range(size))) for size in (10_000, 3))
    places = {"a": many, "b": few}
    sent = told_bytes = ended = told_ended = rounded_s = 0.0
    for turn in range(400):
        now_ms += 1_000
        if turn < 300:
            for place in places.values():
                for connection in draw.sample(list(place.connections), 3):
                    size = draw.randrange(1_000)
                    connection.carries(size, size)
                    sent += 2 * size
                if len(place.connections) > 3:
                    place.close(next(iter(place.connections)))
                    ended += 1
            many.connections.add(One(Identity("10.0.0.9")))
        looked_at = sum(len(place.connections) for place in places.values())
        for told in census.step(places, looked_at, now_ms).values():
            told_bytes += sum(one.in_bytes_per_s + one.out_bytes_per_s for one in whole(told)) * told.seconds
            told_ended += sum(one.ended_per_s for one in whole(told)) * told.seconds
            rounded_s += len(whole(told)) * told.seconds
    assert sent > 500_000 and ended > 290
    assert abs(told_bytes - sent) <= rounded_s, "in either direction half a byte a second is rounded"
    assert abs(told_ended - ended) <= 0.005 * rounded_s + 1e-6


def test_an_instance_that_nobody_uses_any_more_is_told_once_and_one_that_is_gone_never() -> None:
    one = One(Identity("10.0.0.1"))
    place, census = Place(one), Census()
    assert census.step({"i": place, "idle": Place()}, 1, EVERY_MS).keys() == {"i"}
    place.close(one)
    left = census.step({"i": place}, 0, 2 * EVERY_MS)["i"]
    assert [client.connections for client in left.clients] == [0]
    assert census.step({"i": place}, 0, 3 * EVERY_MS)["i"].clients == ()
    assert census.step({"i": place}, 0, 4 * EVERY_MS) == {}
    assert census.step({}, 0, 5 * EVERY_MS) == {}


def test_a_step_looks_at_a_part() -> None:
    place = Place(*(One(Identity("10.0.0.1")) for _ in range(2_000)))
    census = Census()
    steps = [census.step({"i": place}, 2_000, EVERY_MS + n) for n in range(5)]
    assert [bool(one) for one in steps] == [False, False, False, False, True]
    assert steps[-1]["i"].clients[0].connections == 2_000
