"""The ledger: one database that reserves, records and concludes, and knows no method and no study."""
