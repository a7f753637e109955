"""Names of mathjs that the calculator rejects, with the category each belongs to."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from .errors import MathError


def _names(reason: str, names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), reason)


_UNITS = "units are not supported: convert with a factor"
_RADIANS = "units are not supported: angles are in radians, 45 degrees is 45 * pi / 180"
_MATRICES = "matrices are not supported, only lists of numbers"
_PROGRAMS = "only arithmetic is supported, not programs"

REASONS: Mapping[str, str] = {
    **_names(
        _UNITS,
        "to in mm cm dm m km inch inches ft foot feet yard yards yd mile miles mi mg g kg ton tons tonne lb lbs lbm oz "
        "ounce ounces pound pounds ms s sec second seconds minute minutes h hr hour hours day days week weeks month "
        "months year years ml l liter liters litre gallon gallons cup cups kB MB GB bit bits byte bytes celsius degC "
        "degF fahrenheit kelvin K J kJ W kW kWh V A N Pa bar psi Hz kmh mph USD EUR GBP dollar dollars euro euros cm2 "
        "m2 m3 meter meters metre metres centimeter centimeters kilometer kilometers gram grams kilogram kilograms",
    ),
    **_names(_RADIANS, "deg degree degrees rad radian radians grad"),
    **_names(
        _MATRICES,
        "matrix det inv transpose cross zeros ones identity range size eigs concat map filter sort subset reshape "
        "trace norm kron diag cumsum linspace column row index sparse array list len",
    ),
    **_names("complex numbers are not supported", "i j complex re im conj arg"),
    **_names("fractions are not supported: write a / b", "fraction"),
    **_names("big numbers are not supported: numbers have about 16 digits", "bignumber bigint BigNumber Decimal"),
    **_names(
        "algebra is not supported, only numbers",
        "simplify derivative rationalize resolve lsolve solve integrate integral diff limit polynomialRoot lusolve",
    ),
    **_names("random numbers are not supported", "random randomInt pickRandom"),
    **_names(
        _PROGRAMS,
        "import createUnit config parse parser compile evaluate eval exec typed help print format lambda def for while "
        "return if else open os sys getattr chain",
    ),
    **_names("write log(x), the natural logarithm", "ln"),
    **_names("write mean(…)", "avg average"),
    **_names("write ^ for the power", "power"),
    **_names("write abs(…)", "fabs"),
    **_names("write fix(…)", "trunc int"),
    **_names("write pi, sqrt(…) and so on without a prefix", "math Math np numpy"),
}


def unknown(name: str, names: Iterable[str]) -> MathError:
    """Build the error for a name that is neither a function nor a constant."""
    text = name if len(name) <= 40 else name[:39] + "…"
    if name in REASONS:
        return MathError(f"'{text}' is not available: {REASONS[name]}")
    folded = {k.casefold(): k for k in names}
    close = difflib.get_close_matches(text.casefold(), folded, n=1)
    hint = f"did you mean '{folded[close[0]]}'?" if close else "variables are not supported; put in the number"
    return MathError(f"unknown name '{text}'", hint=hint)
