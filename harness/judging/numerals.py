"""Chinese numerals as numbers, where they are numbers.

``三百二十`` -> ``320``. The hard part is what must stay: ``一起``, ``十分高兴``, ``万一``, or
``三四天`` (three or four days). The rules are few and listed at their functions.
"""

from __future__ import annotations

import re
from decimal import Decimal

_DIGITS = {c: i for i, c in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_UNITS = {"十": 10, "百": 100, "千": 1000}
_SECTIONS = {"万": 10_000, "亿": 100_000_000}
_TRADITIONAL = str.maketrans({"萬": "万", "億": "亿", "兩": "两", "廿": "二十", "卅": "三十"})
_NUMERAL = "零〇一二三四五六七八九十百千万亿两萬億兩廿卅"
_RUN = re.compile(f"[{_NUMERAL}]+")
_NUMBER = f"[{_NUMERAL}]+|[0-9]+"
_DIGIT = "零〇一二三四五六七八九"
#: 三分之一 is 1/3; 百分之三十 is a percentage and gone by then.
_FRACTION = re.compile(f"(?<![0-9{_NUMERAL}])({_NUMBER})分之({_NUMBER})")
_AMOUNTS = "公里|千米|厘米|毫米|米|公斤|千克|斤|克|吨|元|块|万|亿|%|倍|度|升|毫升|小时|平|折|寸|亩"
#: 一点五公里 is 1.5. Without a unit only from two decimals on (三点一四): 三点五 may be a time.
_POINT = re.compile(
    f"(?<![0-9.{_NUMERAL}])({_NUMBER})点"
    f"(?:([{_DIGIT}]+)(?=(?:{_AMOUNTS}))|([一二三四五六七八九][{_DIGIT}]+)(?![{_NUMERAL}分]))"
)
#: 一米三一 and 三块五: what stands behind the unit is its decimals.
_SHORTHAND = re.compile(f"([0-9][米块])([{_DIGIT}]{{1,2}})(?![{_NUMERAL}])")
_PERCENT = re.compile(r"百分之([零〇一二三四五六七八九十百点两兩]+|[0-9]+(?:\.[0-9]+)?)")
_MIXED = re.compile(
    r"(?<![0-9.])([0-9]{1,18}(?:\.[0-9]{1,9})?)([百千万亿萬億])(?![0-9零一二三四五六七八九十百千万亿])"
)
_FACTORS = {"百": 100, "千": 1000, "万": 10_000, "亿": 100_000_000, "萬": 10_000, "億": 100_000_000}
_DECIMAL = re.compile(
    r"(?<![0-9])([0-9]+)点([0-9]+)(?=公里|千米|米|公斤|斤|克|吨|元|块|万|亿|%|倍|度|升|小时|平)"
)

#: Characters after which a single numeral is a count, an ordinal, a date or a time.
_MEASURES = set(
    "个個只隻条條张張本次年月日号號天周岁歲点點分秒小公里米斤克吨元块塊人位件家间間层層楼樓种種"
    "名杯碗瓶辆輛台部套双雙对對头匹棵朵把支枝封首篇页頁章节節课課门門场場遍趟回顿頓份组組批所座"
    "栋棟款项項倍折度级級班排队隊桌盘片颗顆粒根串包箱盒袋桶升季集期任届便顶盆餐站"
)
#: ``一`` before these is more often a word than the number one (一点, 一时, 一度, 一部分 ...).
_NOT_AFTER_ONE = set("点點分时度部头把回对對门片場场遍根排家种種节小次")


def chinese_numbers(text: str) -> str:
    """Write the Chinese numerals of a text (without blanks beside CJK) as digits."""
    text = _PERCENT.sub(_percent, text)
    text = _POINT.sub(_point, _FRACTION.sub(_fraction, text))
    text = _RUN.sub(lambda found: _run(text, found), text)
    text = _SHORTHAND.sub(lambda found: _shorthand(text, found), text)
    text = _MIXED.sub(_mixed, text)
    return _DECIMAL.sub(r"\1.\2", text)


def loose_numeral(form: str) -> str | None:
    """The digits of a single numeral that ends a key, where nothing yet shows that it counts.

    ``养了三`` gives "3": the text that the key is looked for in may go on with a measure word.
    """
    last = form[-1].translate(_TRADITIONAL)
    if last not in _DIGITS and last != "十":
        return None
    if len(form) > 1 and (form[-2].isdecimal() or _RUN.match(form[-2])):
        return None
    return str(_DIGITS.get(last, 10))


def _percent(found: re.Match[str]) -> str:
    whole, _, fraction = found[1].partition("点")
    value = whole if whole[:1].isdecimal() else _value(whole.translate(_TRADITIONAL), short=True)
    if value is None or (fraction and any(c not in _DIGITS for c in fraction)):
        return found[0]
    decimals = "".join(str(_DIGITS[c]) for c in fraction)
    return f"{value}.{decimals}%" if decimals else f"{value}%"


def _number(written: str) -> str | None:
    if written.isdecimal():
        return written
    return _value(written.translate(_TRADITIONAL), short=len(written) == 1)


def _fraction(found: re.Match[str]) -> str:
    below, above = _number(found[1]), _number(found[2])
    return found[0] if below is None or above is None else f"{above}/{below}"


def _point(found: re.Match[str]) -> str:
    whole = _number(found[1])
    if whole is None:
        return found[0]
    return f"{whole}." + "".join(str(_DIGITS[c]) for c in found[2] or found[3])


def _shorthand(text: str, found: re.Match[str]) -> str:
    if text[found.end() : found.end() + 1] in _MEASURES:  # 3米一根: three metres each
        return found[0]
    return found[1] + "".join(str(_DIGITS[c]) for c in found[2])


def _run(text: str, found: re.Match[str]) -> str:
    run = found[0].translate(_TRADITIONAL)
    if len(run) == 1 and not _counts(text, found, run):
        return found[0]
    value = _value(run, short=len(run) == 1)
    return found[0] if value is None else value


def _counts(text: str, found: re.Match[str], numeral: str) -> bool:
    """Whether a single numeral is a number: after 第, or before a measure word."""
    before = text[found.start() - 1 : found.start()]
    after = text[found.end() : found.end() + 1]
    if numeral not in _DIGITS and numeral != "十":
        return False
    if before == "第":
        return True
    if after == "分" and numeral == "十":
        return text[found.end() : found.end() + 2] == "分钟"
    if numeral == "一" and after in _NOT_AFTER_ONE:
        # 下午一点 is one o'clock, 一点 a little; 一小时 one hour, 一小块 a small piece.
        clock = after in "点點" and before in set("午晨晚早上夜")
        return clock or text[found.end() : found.end() + 2] in ("小时", "分钟")
    return after in _MEASURES


def _value(run: str, *, short: bool) -> str | None:
    """The number of a run of numerals as digits, or None where it is none.

    Without units it is read digit by digit, from three digits on or with a zero (二〇一九):
    two digits alone (三四, 五一) are a range or a name.
    """
    if all(c in _DIGITS for c in run):
        if short or len(run) >= 3 or "零" in run or "〇" in run:
            return "".join(str(_DIGITS[c]) for c in run)
        return None
    total = _sections(run)
    return None if total is None else str(total)


def _sections(run: str) -> int | None:
    total, rest, above = 0, run, None
    for mark, factor in (("亿", 100_000_000), ("万", 10_000)):
        head, found, tail = rest.partition(mark)
        if not found:
            continue
        value = _section(head, implied=None)
        if not value:
            return None
        total += value * factor
        rest, above = tail, factor
    if not rest:
        return total
    value = _section(rest, implied=above)
    return None if value is None else total + value


def _section(text: str, *, implied: int | None) -> int | None:
    """A number below 10,000. ``implied``: the unit before, for 一万二 (12,000)."""
    text, zero_first = (text[1:], True) if text[:1] in ("零", "〇") else (text, False)
    total, last, position, zero = 0, implied, 0, zero_first
    while position < len(text):
        character = text[position]
        if character in ("零", "〇"):
            zero, position = True, position + 1
            continue
        if character == "十" and position == 0:
            digit = 1  # 十二 is 12
        elif character in _DIGITS:
            digit, position = _DIGITS[character], position + 1
        else:
            return None
        if position == len(text):
            # 三百二 is 320, 三百零二 is 302.
            return total + digit * (last // 10 if last and last > 10 and not zero else 1)
        unit = _UNITS.get(text[position])
        if unit is None or (last is not None and unit >= last):
            return None
        total, last, position, zero = total + digit * unit, unit, position + 1, False
    return total if text else None


def _mixed(found: re.Match[str]) -> str:
    value = Decimal(found[1]) * _FACTORS[found[2]]
    return str(int(value)) if value == value.to_integral_value() else found[0]
