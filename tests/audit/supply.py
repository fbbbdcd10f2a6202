"""The bill of materials of this environment, as CycloneDX JSON.

python -m audit.supply FILE      (from tests/)

Everything comes from the installed distributions' own metadata; nothing is asked of the network.
"""

import hashlib
import json
import sys
import uuid
from collections.abc import Iterable
from importlib.metadata import Distribution, distributions, version
from pathlib import Path
from typing import Any

OURS = "dpbo"


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


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(bill(distributions()), indent=1) + "\n", encoding="utf-8")
