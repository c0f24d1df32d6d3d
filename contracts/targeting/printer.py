"""From a tree back to text: `parse(render(rule)) == rule`, and two texts of one tree are rendered alike."""

from __future__ import annotations

from contracts.targeting.syntax import All, Among, Compare, Either, Not, Rule


def render(rule: Rule) -> str:
    """The rule in its one normal spelling."""
    match rule:
        case Among(name, words):
            return _among(name, words, "==", "in")
        case Compare(name, sign, word):
            return f'{name} {sign} "{word}"'
        case Not(Among(name, words)):
            return _among(name, words, "!=", "not in")
        case Not(part):
            return f"not {_inside(part, (All, Either))}"
        case All(parts):
            return " and ".join(_inside(part, (All, Either)) for part in parts)
        case Either(parts):
            return " or ".join(_inside(part, (Either,)) for part in parts)


def _among(name: str, words: tuple[str, ...], one: str, many: str) -> str:
    if len(words) == 1:
        return f'{name} {one} "{words[0]}"'
    listed = ", ".join(f'"{word}"' for word in words)
    return f"{name} {many} ({listed})"


def _inside(part: Rule, wrapped: tuple[type, ...]) -> str:
    return f"({render(part)})" if isinstance(part, wrapped) else render(part)
