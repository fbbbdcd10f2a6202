# check_receipt.py release.json owner.pub
import base64, hashlib, json, math, sys
from pathlib import Path
from cryptography.hazmat.primitives.serialization import load_pem_public_key

content, public = Path(sys.argv[1]).read_bytes(), Path(sys.argv[2]).read_bytes()
envelope = json.loads(Path(sys.argv[1]).with_suffix(".intoto.json").read_bytes())
kind, payload = envelope["payloadType"], base64.b64decode(envelope["payload"])
signed = b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload)
load_pem_public_key(public).verify(base64.b64decode(envelope["signatures"][0]["sig"]), signed)  # or raises
statement, release = json.loads(payload), json.loads(content)
guarantee, spends = release["guarantee"], release["spends"]
epsilon, delta, rho = guarantee["epsilon"], guarantee["delta"], sum(spend["rho"] for spend in spends)
if delta == 0:
    price = sum(spend["epsilon"] for spend in spends)
else:  # zCDP (Canonne, Kamath, Steinke 2020, Proposition 12), to a thousandth
    orders = [1 + 1.02**i / 1000 for i in range(1000)]
    price = min(a * rho + math.log((1 - 1 / a) ** a / (delta * (a - 1))) / (a - 1) for a in orders)
right = (statement["subject"][0]["digest"]["sha256"], statement["predicate"]["guarantee"])
print("epsilon", epsilon, "delta", delta, "costs", price)
sys.exit(right != (hashlib.sha256(content).hexdigest(), guarantee) or price > epsilon * 1.001)
