"""What the API's document says of configs of topics: their names, and what values look like."""

from hypothesis import given
from hypothesis import strategies as st

from contracts.specs import Limits
from contracts.topic_policy import ALLOWED, CONFIG_SHAPES, NOT_KEPT_KEYS, check, is_shaped

_VALUES = (
    st.text(max_size=8)
    | st.from_regex(r"[-+0-9.eE_ ]{0,6}", fullmatch=True)
    | st.sampled_from(
        [
            *("0.5", " 1 ", "1.0", ".5", "1.", "nan", "inf", "1e-1", "0_1", "00", "1" * 19, "1" * 20, "١"),
            *(
                "delete",
                "delete,compact",
                "compact , delete",
                "delete,delete",
                "DELETE",
                "gzip",
                "LogAppendTime",
            ),
            *("LogAppendTime", "TRUE", "false", "FaLse", "3.0\n", "", " "),
        ]
    )
)


@given(st.sampled_from(sorted(CONFIG_SHAPES)), _VALUES)
def test_only_bounds_are_beyond_the_shape_of_a_value(name: str, value: str) -> None:
    refused = check(name, value, Limits())
    if not is_shaped(name, value):
        assert refused is not None
    elif refused is not None:
        assert "must be between" in refused


@given(st.text(max_size=20))
def test_other_names_are_refused(name: str) -> None:
    if name not in CONFIG_SHAPES:
        assert check(name, "1", Limits()) is not None
        assert not is_shaped(name, "1") and not is_shaped(name, None)


def test_each_key_that_may_be_named_has_a_shape() -> None:
    assert CONFIG_SHAPES.keys() == ALLOWED.keys() | NOT_KEPT_KEYS
