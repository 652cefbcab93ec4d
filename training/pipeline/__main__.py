"""The command `python -m training.pipeline`.

A module of its own, because processes that synthesize import the main module unless it is called `__main__`: importing
the pipeline would take seconds in each of them.
"""

from training.pipeline import main

if __name__ == "__main__":
    main()
