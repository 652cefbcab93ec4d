"""The attack suite (`make attack`): hostile inputs, hostile clients and accidents that Reprise must withstand.

Modules of this package define `Attack` objects at their top level; `attack.all_attacks` collects them. `__main__` runs
them in a fresh folder, `runner` distributes their cases over worker processes with limits, `report` prints the table.
docs/security.md lists the promise that each attack tests.
"""
