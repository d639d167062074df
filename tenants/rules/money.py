"""Amounts in minor units as people write them. Pure."""


def major_units(amount_minor: int, minor_unit_digits: int) -> str:
    """An amount with all its digits: -1234 with two is `-12.34`."""
    sign = "-" if amount_minor < 0 else ""
    digits = str(abs(amount_minor)).rjust(minor_unit_digits + 1, "0")
    if minor_unit_digits == 0:
        return sign + digits
    return f"{sign}{digits[:-minor_unit_digits]}.{digits[-minor_unit_digits:]}"
