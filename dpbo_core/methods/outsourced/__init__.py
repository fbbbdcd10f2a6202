"""Two parties, one search: a curator who holds the candidates' rows, a modeller who sees a noised image of them.

curator: box (the price) · rows · projection · published · curator · vault · answers · private_answers
modeller: modeler · fitting · session                 both: messages · published_table
"""
