"""Mutants: areas name what is there, and a survivor shows what was changed."""

from pathlib import Path

import pytest

from ctl.errors import CommandError
from ctl.tools.mutants import AREAS, Survivor, chosen, described

ROOT = Path(__file__).resolve().parents[3]
CHANGED = '''
class Flow:
    def xǁFlowǁcharge__mutmut_orig(self, amount):
        """Charge a frame, of whatever size it is, to the bucket of its instance."""
        self.used += amount
        return self.used - self.paid_so_far

    def xǁFlowǁcharge__mutmut_1(self, amount):
        """Charge a frame, of whatever size it is, to the bucket of its instance."""
        self.used -= amount
        return self.used - self.paid_so_far

def x_seed__mutmut_orig(size):
    return size

def x_seed__mutmut_1(size):
    return None
'''


@pytest.mark.parametrize("name", AREAS)
def test_an_area_names_modules_and_tests_that_are_there(name: str) -> None:
    area = AREAS[name]
    assert all(list(ROOT.glob(each)) for each in area.modules)
    assert all((ROOT / each).exists() for each in area.tests)


def test_unknown_areas_are_refused() -> None:
    assert chosen([]) == AREAS
    assert [*chosen(["quota"])] == ["quota"]
    with pytest.raises(CommandError, match="there is no area 'nothing'"):
        chosen(["nothing"])


def test_a_survivor_is_shown_by_its_difference(tmp_path: Path) -> None:
    path = tmp_path / "mutants" / "traffic" / "flow.py"
    path.parent.mkdir(parents=True)
    path.write_text(CHANGED)
    names = ["traffic.flow.xǁFlowǁcharge__mutmut_1", "traffic.flow.x_seed__mutmut_1"]
    assert [*described(tmp_path, names)] == [
        Survivor(
            "traffic.flow.Flow.charge",
            'of its instance.""" self.used += amount return self.used - se',
            'of its instance.""" self.used -= amount return self.used - se',
        ),
        Survivor("traffic.flow.seed", "return size", "return None"),
    ]
