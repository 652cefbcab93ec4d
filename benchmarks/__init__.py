"""What the README's figures come from: each benchmark prints one table and keeps it as JSON in `results/`."""
