"""`tpulayer verify`: layers and nets on random cases, and the smallest one on which something differs.

A case is a number: seed and number say what is tried, whoever tries it.
"""
