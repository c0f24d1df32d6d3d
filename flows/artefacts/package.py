"""The release package of a run: what is in it, why it may go out, how it goes out, and how to come back.

Pure: made from the bundle's own bytes and the results of steps.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from contracts.bundle import Bundle
from flows.run_folder import Json

BUNDLE = "candidate.elb"


def release_package(bundle: bytes, built: Json, released: Json, settings: Json, came_from: Json) -> Json:
    """`bundle` is verified whole: each piece against the manifest. Raises BundleError when it is not what it claims.

    `came_from` names the parent generation and the production build before this one (empty when there was none).
    """
    opened = Bundle.of(memoryview(bundle), Path(BUNDLE))
    if opened.digest != built["digest"]:
        raise ValueError(f"the bundle's digest is {opened.digest}, the build says {built['digest']}")
    verdict = built.get("verdict") or {}
    return {
        "bundle": {
            "file": BUNDLE,
            "digest_sha384": opened.digest,
            "bytes": opened.size,
            "build": built["id"],
            "release_version": opened.manifest.release_version,
            "security_epoch": opened.manifest.security_epoch,
            "targets": list(opened.targets),
            "pieces": {name: asdict(opened.manifest.pieces[name]) for name in sorted(opened.manifest.pieces)},
        },
        "gate": {"passed": bool(verdict.get("passed")), "checks": verdict.get("checks", [])},
        "rollout": {"id": released.get("rollout"), **settings},
        "roll_back": roll_back_plan(opened.digest, released.get("rollout"), came_from),
    }


def roll_back_plan(digest: str, rollout: str | None, came_from: Json) -> Json:
    """Who goes back by itself, what a person types, and where learning goes on from."""
    production = came_from.get("production") or {}
    named = rollout or "ROLLOUT"
    return {
        "back_to": {
            "digest_sha384": production.get("digest", ""),
            "release_version": production.get("release_version", ""),
            "build": production.get("id", ""),
            "said": "the former baseline" if production else "the factory bundle: nothing was in production before",
        },
        "by_itself": [
            "a device whose trial of the bundle is not confirmed goes back to its other slot and reports the cause",
            "a device whose NPU fails five times in a row runs the CPU backend and probes again after 30 minutes",
            "a stage whose canaries are worse than their controls rolls the rollout back for everybody",
        ],
        "by_hand": [
            {"when": "look first, nobody new", "run": f'edgeloop release pause {named} -m "REASON"'},
            {"when": "everybody back, also after completion", "run": f'edgeloop release rollback {named} -m "REASON"'},
            {"when": "no program of ours may run anywhere", "run": 'edgeloop release kill -m "REASON"'},
            {"when": "this bundle must never run again", "run": f"POST /releases/v1/bundles/{digest}/revoke"},
        ],
        "takes": "devices obey with their next poll; the state document is cached for 30 s",
        "security_epoch": "an older release version may run again, an older security epoch never",
        "learning": f"the next run starts from this generation; its parent was {came_from.get('parent', '')!r}",
    }


def package_text(package: Json) -> str:
    """The package as Markdown, for the person who is asked."""
    bundle, plan, rollout = package["bundle"], package["roll_back"], package["rollout"]
    lines = [
        f"# Release package {bundle['release_version']}",
        "",
        f"Bundle `{bundle['digest_sha384'][:16]}`, {bundle['bytes'] / 1e3:.0f} kB, build {bundle['build']}, for "
        f"{', '.join(bundle['targets'])}, security epoch {bundle['security_epoch']}.",
        "",
        "## Gate",
        "",
        "| check | value | limit | kept |",
        "|---|---|---|---|",
        *(_check(row) for row in package["gate"]["checks"]),
        "",
        *(["## Pruning", "", package["pruning"]["said"], ""] if "pruning" in package else []),
        "## Rollout",
        "",
        f"{rollout['id'] or 'not started'}; stages {', '.join(f'{100 * s / 10_000:g} %' for s in rollout['stages'])}, "
        f"{rollout['soak_s'] / 3600:g} h each, {rollout['min_devices']} devices or more.",
        "",
        "## Back",
        "",
        f"To {plan['back_to']['said']}: version {plan['back_to']['release_version'] or '-'}, bundle "
        f"`{plan['back_to']['digest_sha384'][:16] or '-'}`. {plan['takes'].capitalize()}; {plan['security_epoch']}.",
        "",
        *(f"- by itself: {one}" for one in plan["by_itself"]),
        *(f"- by hand, {one['when']}: `{one['run']}`" for one in plan["by_hand"]),
        f"- {plan['learning']}",
        "",
    ]
    return "\n".join(lines)


def _check(row: Json) -> str:
    unit, kept = row.get("unit", ""), "yes" if row["ok"] else "NO"
    return f"| {row['id']} | {row['value']:g} {unit} | {row['limit']:g} | {kept} |"
