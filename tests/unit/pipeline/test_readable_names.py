"""Names of tables that every engine takes, and no two alike."""

from pipeline.lake.planning.readable_names import Place, duckdb_views, readable, spark_tables, spark_views


def place(instance: str, topic: str, number: int = 1, kind: str = "lake", url: str = "/d/x") -> Place:
    return Place(f"i{instance.encode().hex()}", instance, topic, f"{number:08x}" * 4, kind, url)


def names(*places: Place) -> list[str]:
    return [f"{each.schema}.{each.name}" for each in readable(places)]


def test_names_are_readable() -> None:
    assert names(place("Shop-1", "Orders.v2"), place("Shop-1", "Orders.v2", kind="decoded")) == [
        "shop_1.orders_v2",
        "shop_1.orders_v2_decoded",
    ]


def test_no_two_tables_have_one_name() -> None:
    assert names(place("a", "x.y", 1), place("a", "x-y", 2), place("a", "X_y", 3), place("b", "x_y", 1)) == [
        "a.x_y",
        "a.x_y_00000002",
        "a.x_y_00000003",
        "b.x_y",
    ]
    assert names(place("a-b", "t"), place("a_b", "t")) == ["a_b.t", "a_b_i615f62.t"]


def test_statements() -> None:
    found = readable([place("shop", "orders", url="s3a://lakes/it's")])
    assert spark_tables(found) == [
        "CREATE SCHEMA IF NOT EXISTS `shop`",
        "CREATE TABLE IF NOT EXISTS `shop`.`orders` USING delta LOCATION 's3a://lakes/it''s'",
    ]
    assert spark_views(found)[1] == ("CREATE VIEW `shop`.`orders` AS SELECT * FROM delta.`s3a://lakes/it's`")
    assert duckdb_views(found)[1] == (
        "CREATE OR REPLACE VIEW \"shop\".\"orders\" AS SELECT * FROM delta_scan('s3://lakes/it''s')"
    )
