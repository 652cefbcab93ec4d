"""Import all attacked modules once; workers are forked from the importing process."""

from tests.attack.attack import all_attacks

all_attacks()
