"""Model families. A family is a package with what it does not share with the others: release reader, prompt, column
embedding and sampling rules. A new family gets a package beside `s2`."""
