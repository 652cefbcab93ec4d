"""The attack: hostile inputs, visitors and accidents that Reprise has to withstand (`make attack`).

Every module of this package may hold `Attack` objects at its top level; `attack.found` collects them. `__main__` runs
them in a fresh folder, `runner` spreads their cases over worker processes with limits, `report` prints the table.
docs/security.md says which promise each of them tests.
"""
