from pathlib import Path

import pytest
from dpbo_core.report.record_count import RecordCount, count_records

from dpbo import BudgetRefused, PrivacyBudget, PrivacyLedger
from dpbo_core.ledger.accounting.certificate import read_certificate, recompute
from dpbo_core.report.certified import CERTIFIED
from dpbo_core.study.run import QueryContext

file = Path("visits.csv")
file.write_text("age\n" + "\n".join(str(20 + i % 60) for i in range(600)) + "\nunreadable\n")
run = QueryContext(PrivacyLedger("sqlite:///ledger.db"))
run.ledger.set_budget(PrivacyBudget.of("people", epsilon=1.0, delta=0.0))

count = RecordCount("people", "age", 65.0, epsilon=0.75)
release = count_records(count, file, run)
assert abs(release.value["count"] - 150) < 60
assert count_records(count, file, run) == release  # recorded once, never drawn again
assert recompute(read_certificate(release.to_json(), CERTIFIED), CERTIFIED).epsilon <= 0.75
with pytest.raises(BudgetRefused):
    count_records(RecordCount("people", "age", 65.0, epsilon=0.75, edition="2"), file, run)
