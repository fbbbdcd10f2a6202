"""Two parties, one search: a curator who holds the candidates' rows, a modeller who sees a noised image of them.

curator: box (the price) · geometry · utility · curator · vault · answers
modeller: modeler · session                 both: messages
"""

CURATE = (f"{__name__}.command:curate_app", "The curator: publish a private table.")
MODEL = (f"{__name__}.command:model_app", "The modeller: search a published table.")
