"""Two parties, one search: a curator who holds the candidates' rows, a modeller who sees a noised image of them.

curator: box (the price) · rows · projection · published · curator · vault · answers
modeller: modeler · settings · state                 both: messages
"""
