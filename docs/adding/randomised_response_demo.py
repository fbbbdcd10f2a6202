import math

from dpbo_core.mechanisms.randomised_response import RandomisedResponse

from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.ledger.accounting.certificate import read_certificate, recompute
from dpbo_core.ledger.charge import Charge, QueryKey
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.mechanisms.mechanism_cost import WORTH_OF_MECHANISM
from dpbo_core.mechanisms.noise import Noise, OperatingSystemNoise, rehearse_draws
from dpbo_core.privacy.certified import CertificateRules, Declared
from dpbo_core.privacy.guarantee import Evidence, NeighboringRelation, PrivacyGuarantee, PrivacyUnit, Standing
from dpbo_core.privacy.release import PrivacyPlan, Release
from dpbo_core.privacy.sensitive import Sensitive

mechanism = RandomisedResponse(threshold=100, epsilon_units=10**12)  # ε = 1
spend = mechanism.spend("above the threshold")
rehearse_draws([(spend, mechanism)])
evidence = Evidence(Standing.STANDARD, "randomised response")
unit, relation = PrivacyUnit.VALIDATION_RECORD, NeighboringRelation.REPLACE_ONE
plan = PrivacyPlan(PrivacyGuarantee(1.0, 0.0, unit, relation, (), evidence), (spend,))

ledger, source = PrivacyLedger("sqlite:///ledger.db"), OperatingSystemNoise()
ledger.set_budget(PrivacyBudget("people", 10**12, 0, relation))
key = QueryKey("0" * 64, "people", "bit", "1", "one_bit")
reservation = ledger.reserve(Charge(key, plan), noise="operating_system")
noise = Noise(source, reservation)
bit = noise.release(spend, mechanism, Sensitive(150))["draw"]
assert noise.release(spend, mechanism, Sensitive(0))["draw"] == bit  # recorded once, never drawn again

release = Release({"bit": bit}, plan.guarantee, plan.spends, "bit", "1", "one_bit", "people", {"steps": 1})
shown = CertificateRules({spend.what: tuple(RandomisedResponse.WORTH)}, sensitivity=1.0)
declared = Declared({"one_bit": lambda release: shown}, WORTH_OF_MECHANISM)
assert recompute(read_certificate(release.to_json(), declared), declared).epsilon <= 1.0

ones = sum(mechanism.prepare(spend, source)(Sensitive(150)) for _ in range(2000))
expected = 2000 * math.e / (1 + math.e)
assert abs(ones - expected) < 6 * math.sqrt(expected * (1 - expected / 2000))
