"""A sample with what is planted in it, or why there is none."""

import secrets

from khost.values import bank
from khost.values.oracle import run
from khost.values.planting import USUAL, Casts, Reach, plant, reason_against


def fresh_seed():
    return secrets.randbits(62)


class Unplantable(Exception):
    """Planted sets are given up; the text says why, `kinds` what was planted."""

    def __init__(self, why, kinds=()):
        super().__init__(why)
        self.kinds = kinds


def planted_from(sample, kinds=USUAL, number=0, task=None):
    """The sample with what is planted, in place: of samples with even and odd numbers the last outlier has other signs.
    Unplantable says why not."""
    reach = Reach.of(sample.model, sample.values)
    signs = (1, 0, 3, 2)[number % 4]
    planted = plant(sample.values, fresh_seed() // 4 * 4 + signs, kinds, reach, model=sample.model, task=task)
    if planted.why:
        raise Unplantable(planted.why, planted.kinds)
    casts = Casts()
    try:
        outputs = run(sample.model, sample.values, casts)
    except Exception as error:
        raise Unplantable(f"the model does not bear outliers: {type(error).__name__}: {error}"[:200], planted.kinds) from None
    why = reason_against(sample.expected, outputs) or (
        "a number with outliers is cast to an integer that cannot hold it" if casts.overflow else "")
    if why:
        raise Unplantable(why, planted.kinds)
    return bank.Sample(sample.model, sample.values, outputs, sample.expected, planted.kinds)
