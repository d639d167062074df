import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.names import (
    ID_ALPHABET,
    SCOPE_LENGTH,
    SYSTEM_INSTANCE_ID,
    TOPIC_NAME_BYTES_MAX,
    is_instance_id,
    owner_of,
    physical_name,
    tenant_name,
    topic_name_fault,
)

instance_ids = st.text(ID_ALPHABET, min_size=11, max_size=11).map(lambda tail: "i" + tail)


@given(instance_ids, st.text(max_size=40))
def test_a_physical_name_belongs_to_its_instance_and_maps_back(instance_id: str, name: str) -> None:
    physical = physical_name(instance_id, name)
    assert len(physical) == len(name) + SCOPE_LENGTH
    assert owner_of(physical) == instance_id
    assert tenant_name(instance_id, physical) == name


@given(instance_ids, instance_ids, st.text(max_size=40))
def test_no_name_of_one_instance_is_a_name_of_another(mine: str, other: str, name: str) -> None:
    if mine != other:
        assert tenant_name(other, physical_name(mine, name)) is None


@pytest.mark.parametrize(
    "name", ["__consumer_offsets", "", "i", "iaaaaaaaaaaa", "iaaaaaaaaaaA.x", "i0000000000.x"]
)
def test_names_of_the_backend_belong_to_nobody(name: str) -> None:
    assert owner_of(name) is None


def test_the_system_instance_is_an_owner_but_cannot_be_drawn() -> None:
    assert owner_of(f"{SYSTEM_INSTANCE_ID}.usage") == SYSTEM_INSTANCE_ID
    assert is_instance_id(SYSTEM_INSTANCE_ID)
    assert not set(SYSTEM_INSTANCE_ID[1:]) <= set(ID_ALPHABET)


@pytest.mark.parametrize(
    "name", ["a", "orders.v1_x-Y", "..." * 3, "x" * TOPIC_NAME_BYTES_MAX, "__consumer_offsets"]
)
def test_legal_topic_names(name: str) -> None:
    assert topic_name_fault(name) is None


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "é", "x" * (TOPIC_NAME_BYTES_MAX + 1), "a\n"])
def test_illegal_topic_names_say_why(name: str) -> None:
    fault = topic_name_fault(name)
    assert fault is not None and fault.startswith("the topic name")
