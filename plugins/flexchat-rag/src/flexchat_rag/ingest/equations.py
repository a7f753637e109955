"""Equations of Word documents (OMML) on one line: x=(-b±√(b^2-4ac))/(2a).

Source: ECMA-376 part 1, 22.1 Math.
"""

from __future__ import annotations

from typing import Any


def local_name(element: Any) -> str:
    """Return the name of an XML element without its namespace; empty for comments and the like."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def equation(element: Any) -> str:
    """Return an equation, or a part of one."""
    name = local_name(element)
    match name:
        case "t":
            return element.text or ""
        case "f":
            return f"{_grouped(element, 'num')}/{_grouped(element, 'den')}"
        case "sSup" | "limUpp":
            return f"{_part(element, 'e')}^{_grouped(element, 'sup', 'lim')}"
        case "sSub" | "limLow":
            return f"{_part(element, 'e')}_{_grouped(element, 'sub', 'lim')}"
        case "sSubSup":
            return f"{_part(element, 'e')}_{_grouped(element, 'sub')}^{_grouped(element, 'sup')}"
        case "rad":
            return f"{_part(element, 'deg')}√{_grouped(element, 'e')}"
        case "nary":
            return _sum(element)
        case "d":
            begin, separator, end = (
                _sign(element, *sign) for sign in (("begChr", "("), ("sepChr", "|"), ("endChr", ")"))
            )
            inner = [equation(child) for child in element if local_name(child) == "e"]
            return f"{begin}{separator.join(inner)}{end}"
        case "m" | "eqArr":
            rows = [equation(child) for child in element if local_name(child) in ("mr", "e")]
            return f"[{'; '.join(rows)}]"
        case "mr":
            return ", ".join(equation(child) for child in element)
        case "del" | "moveFrom":
            return ""
    if name.endswith("Pr"):
        return ""
    return "".join(equation(child) for child in element)


def _sum(element: Any) -> str:
    limits = [f"{mark}{_grouped(element, part)}" for mark, part in (("_", "sub"), ("^", "sup")) if _part(element, part)]
    return f"{_sign(element, 'chr', '∫')}{''.join(limits)} {_part(element, 'e')}"


def _part(element: Any, *names: str) -> str:
    return "".join(equation(child) for child in element if local_name(child) in names)


def _grouped(element: Any, *names: str) -> str:
    text = _part(element, *names)
    return text if text.isalnum() else f"({text})"


def _sign(element: Any, name: str, usual: str) -> str:
    for properties in element:
        if local_name(properties).endswith("Pr"):
            for child in properties:
                if local_name(child) == name:
                    return next((value for key, value in child.attrib.items() if key.endswith("}val")), usual)
    return usual
