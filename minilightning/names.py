"""Hooks with a wrong name: refused, since they would never be called."""
from __future__ import annotations

from .callback import Callback
from .errors import MisconfigurationException, warn
from .signatures import overrides


def check_names(receiver: object, who: dict[str, str]) -> None:
    """Refuse a method `on_...` that is almost, but not quite, the name of a hook.

    Args:
        receiver: a callback, module or data module; None is fine.
        who: hook -> the letters of those who have it, as in `dispatch.HOOKS`.

    Raises:
        MisconfigurationException: names the method and the hook that was probably meant.
    """
    if receiver is None:
        return
    letters = "CKI" if isinstance(receiver, Callback) else "MmDO"
    for name in {*dir(type(receiver)), *getattr(receiver, "__dict__", ())}:
        if not name.startswith("on_") or not callable(getattr(receiver, name, None)):
            continue
        if name not in who:
            _refuse_near_miss(receiver, name, who)
        elif overrides(receiver, name) and not set(who[name]) & set(letters):
            warn(
                f"`{type(receiver).__name__}.{name}` is never called: `{name}` is a hook of "
                f"{'the module' if letters == 'CKI' else 'callbacks'} only."
            )


def _refuse_near_miss(receiver: object, name: str, who: dict[str, str]) -> None:
    near = sorted((edits(name, hook), hook) for hook in who)
    distance, hook = near[0]
    if distance <= 2:
        raise MisconfigurationException(
            f"`{type(receiver).__name__}.{name}` is no hook and would never be called. Did you "
            f"mean `{hook}`? A helper needs a name that does not begin with `on_`."
        )


def edits(one: str, other: str) -> int:
    """Insertions, deletions and replacements that make one word the other; 3 stands for more.

    Args:
        one, other: the words.

    Returns:
        From 0, for the same word, to 3.
    """
    if abs(len(one) - len(other)) > 2:
        return 3
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        previous, row = row, [i]
        for j, b in enumerate(other, 1):
            row.append(min(previous[j] + 1, row[-1] + 1, previous[j - 1] + (a != b)))
    return min(row[-1], 3)
