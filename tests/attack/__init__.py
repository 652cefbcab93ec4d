"""The attack suite (`make attack`): hostile inputs, hostile clients and accidents that Reprise must withstand.

Every module of this package may hold `Attack` objects at its top level; `attack.found` collects them. `__main__` runs
them in a fresh folder, `runner` spreads their cases over worker processes with limits, `report` prints the table.
docs/security.md lists the promise that each of them tests.
"""
