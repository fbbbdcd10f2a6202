"""The bill of materials of this environment, as CycloneDX JSON, and the age of the lock that it was installed from.

python -m audit.supply FILE      (from tests/)

Everything comes from the installed distributions' own metadata; nothing is asked of the network.
"""

import hashlib
import json
import subprocess
import sys
import uuid
from collections.abc import Iterable
from datetime import UTC, date, datetime
from importlib.metadata import Distribution, distributions, version
from pathlib import Path
from typing import Any

OURS = "dpbo"
OLD = 31  # days after which a lock is to be made again


def name_of(found: Distribution) -> str:
    """As registries spell it."""
    return found.metadata["Name"].lower().replace("_", "-").replace(".", "-")


def component(found: Distribution) -> dict[str, Any]:
    """One distribution: name, version, licence as it states it, package URL."""
    name, meta = name_of(found), found.metadata
    stated = meta.get("License-Expression") or (meta.get("License") or "").strip().splitlines()[:1]
    licence = stated if isinstance(stated, str) else (stated[0] if stated else "")
    one = {"type": "library", "name": name, "version": found.version, "purl": f"pkg:pypi/{name}@{found.version}"}
    one["bom-ref"] = one["purl"]
    return one | ({"licenses": [{"license": {"name": licence[:100]}}]} if licence else {})


def bill(installed: Iterable[Distribution]) -> dict[str, Any]:
    """The document. Its serial number is a function of its components: the same environment, the same bill."""
    unique = {name_of(found): found for found in installed if found.metadata["Name"]}
    parts = [component(unique[name]) for name in sorted(unique) if name != OURS]
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).digest()
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.UUID(bytes=digest[:16], version=4)}",
        "version": 1,
        "metadata": {
            "component": {"type": "application", "name": OURS, "version": version(OURS), "bom-ref": OURS},
        },
        "components": parts,
        "dependencies": [{"ref": OURS, "dependsOn": [part["bom-ref"] for part in parts]}],
    }


def told_age(made: date, today: date) -> tuple[str, bool]:
    """What to say of a lock that was made on a day, and whether it is too old."""
    old = (today - made).days > OLD
    advice = f", more than {OLD} days ago: make lock LOCK=--upgrade" if old else ""
    return f"requirements.lock was made on {made}{advice}.", old


def made_on() -> date:
    """When the lock was changed last, by the history."""
    command = ["git", "log", "-1", "--format=%cs", "--", "../requirements.lock"]
    return date.fromisoformat(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(bill(distributions()), indent=1) + "\n", encoding="utf-8")
    line, too_old = told_age(made_on(), datetime.now(UTC).date())
    sys.stdout.write(f"{line}\n")
    sys.exit(too_old)
